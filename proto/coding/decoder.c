#include "proto/coding/coding.h"

#include <errno.h>
#include <libdeflate.h>
#include <stdint.h>
#include <stdlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "proto/base/macros.h"
#include "proto/coding/room.h"

/* The most that one byte of deflate can become: 258 bytes for two bits (RFC 1951 §3.2.5), 1032 in the limit.
 */
#define DEFLATE_RATIO_MAX 1032u

/* A first guess for streams that do not tell their size: profiles compress to about a fifth. */
#define GUESS_RATIO 6u

/* How a guess that was too small grows; the sum of the tries is then 4/3 of the last one. */
#define GROWTH 4u

/* RFC 9659 §3: a zstd content coding must not need a window above 8 MiB. */
#define ZSTD_WINDOW_LOG_MAX 23

#define GZIP_MEMBER_MIN 18u /* RFC 1952 §2.3: 10 bytes of header and 8 of trailer */

struct coding_decoder {
    struct libdeflate_decompressor *deflate;
    ZSTD_DCtx *zstd;
};

/* One decode under way: what the tries share. */
struct job {
    struct bytes in;
    size_t limit; /* of what comes out */
    size_t extra;
    size_t begin; /* out->n when it began */
    struct budget *budget;
    struct buffer *out;
};

struct coding_decoder *coding_decoder_new(void)
{
    return calloc(1, sizeof(struct coding_decoder));
}

struct coding_decoder *coding_decoder_free(struct coding_decoder *d)
{
    if (!d)
        return NULL;
    if (d->deflate)
        libdeflate_free_decompressor(d->deflate);
    ZSTD_freeDCtx(d->zstd);
    free(d);
    return NULL;
}

/* Bytes that may still come out. */
static size_t job_left(const struct job *j)
{
    return j->limit - (j->out->n - j->begin);
}

/* Bytes that may be written now: what is allocated, but for the headroom, and never above the limit. */
static size_t job_room(const struct job *j)
{
    return min_of(j->out->cap - j->out->n - j->extra, job_left(j));
}

/* Room for `n` more bytes (cut to the limit) and the headroom. */
static int job_reserve(struct job *j, size_t n)
{
    int r = room_make(j->out, min_of(n, job_left(j)) + j->extra, j->budget);
    return r == ROOM_OVER_BUDGET ? CODING_OVER_BUDGET : r;
}

/* More room, after what there was did not do. */
static int job_grow(struct job *j)
{
    size_t room = job_room(j);
    if (room >= job_left(j))
        return CODING_TOO_LARGE;
    return job_reserve(j, room < SIZE_MAX / GROWTH ? max_of(room, (size_t)ROOM_MIN) * GROWTH : SIZE_MAX);
}

/*
 * The size of what comes out, guessed. gzip's trailer has it, modulo 2^32 and of the last member only, and a
 * peer can write there what it likes: so it is only a guess. One that is possible by the ratio and yet above
 * the limit is believed, though: an honest bomb costs nothing, and a dishonest one would not have decoded
 * anyway (libdeflate compares the trailer).
 */
static int deflate_guess(const struct job *j, enum coding c, size_t *ret)
{
    size_t ratio_max = j->in.n < SIZE_MAX / DEFLATE_RATIO_MAX ? j->in.n * DEFLATE_RATIO_MAX : SIZE_MAX;
    size_t guess = j->in.n < SIZE_MAX / GUESS_RATIO ? j->in.n * GUESS_RATIO : SIZE_MAX;
    if (c == CODING_GZIP) {
        const uint8_t *p = j->in.p + j->in.n - 4;
        guess = (size_t)p[0] | (size_t)p[1] << 8 | (size_t)p[2] << 16 | (size_t)p[3] << 24;
        if (guess <= ratio_max && guess > j->limit)
            return CODING_TOO_LARGE;
    }
    *ret = min_of(guess, ratio_max);
    return 0;
}

static enum libdeflate_result deflate_try(struct coding_decoder *d, enum coding c, struct bytes in,
                                          struct job *j, size_t *ret_in, size_t *ret_out)
{
    uint8_t *to = j->out->p + j->out->n;
    return c == CODING_GZIP
               ? libdeflate_gzip_decompress_ex(d->deflate, in.p, in.n, to, job_room(j), ret_in, ret_out)
               : libdeflate_zlib_decompress_ex(d->deflate, in.p, in.n, to, job_room(j), ret_in, ret_out);
}

static int deflate_decode(struct coding_decoder *d, enum coding c, struct job *j)
{
    if (c == CODING_GZIP && j->in.n < GZIP_MEMBER_MIN)
        return CODING_CORRUPT;
    if (!d->deflate && !(d->deflate = libdeflate_alloc_decompressor()))
        return -ENOMEM;
    size_t guess;
    int r = deflate_guess(j, c, &guess);
    if (r != 0 || (r = job_reserve(j, guess)) != 0)
        return r;

    struct bytes in = j->in;
    do {
        size_t took = 0, made = 0;
        switch (deflate_try(d, c, in, j, &took, &made)) {
        case LIBDEFLATE_SUCCESS: break;
        case LIBDEFLATE_INSUFFICIENT_SPACE:
            if ((r = job_grow(j)) != 0)
                return r;
            continue;
        default: return CODING_CORRUPT;
        }
        j->out->n += made;
        in = bytes_of(in.p + took, in.n - took);
        if (c == CODING_DEFLATE && in.n > 0)
            return CODING_CORRUPT;
    } while (in.n > 0);
    return 0;
}

static int zstd_begin(struct coding_decoder *d)
{
    if (!d->zstd) {
        d->zstd = ZSTD_createDCtx();
        if (!d->zstd)
            return -ENOMEM;
        ZSTD_DCtx_setParameter(d->zstd, ZSTD_d_windowLogMax, ZSTD_WINDOW_LOG_MAX);
    }
    ZSTD_DCtx_reset(d->zstd, ZSTD_reset_session_only);
    return 0;
}

/*
 * Streaming, frame after frame: where the frame tells its size and there is room for it, libzstd decodes
 * straight into the buffer; else it goes through its window. A byte more than the limit is reserved, so that
 * a frame that ends exactly there can be told from one that goes on.
 */
static int zstd_decode(struct coding_decoder *d, struct job *j)
{
    int r = zstd_begin(d);
    if (r < 0)
        return r;
    if (j->in.n == 0)
        return CODING_CORRUPT;
    unsigned long long told = ZSTD_getFrameContentSize(j->in.p, j->in.n);
    if (told == ZSTD_CONTENTSIZE_ERROR)
        return CODING_CORRUPT;
    size_t guess = j->in.n < SIZE_MAX / GUESS_RATIO ? j->in.n * GUESS_RATIO : SIZE_MAX;
    if (told != ZSTD_CONTENTSIZE_UNKNOWN && told > j->limit)
        return CODING_TOO_LARGE;
    if (told != ZSTD_CONTENTSIZE_UNKNOWN && told > 0)
        guess = (size_t)told;
    if (j->limit < SIZE_MAX)
        j->limit++;
    if ((r = job_reserve(j, guess)) != 0)
        return r;

    ZSTD_inBuffer in = {.src = j->in.p, .size = j->in.n};
    size_t left = 1; /* bytes this frame still wants; 0 between frames */
    for (;;) {
        ZSTD_outBuffer to = {.dst = j->out->p + j->out->n, .size = job_room(j)};
        left = ZSTD_decompressStream(d->zstd, &to, &in);
        if (ZSTD_isError(left))
            return ZSTD_getErrorCode(left) == ZSTD_error_memory_allocation ? -ENOMEM : CODING_CORRUPT;
        j->out->n += to.pos;
        if (left == 0 && in.pos == in.size)
            break;
        if (to.pos < to.size && in.pos == in.size)
            return CODING_CORRUPT; /* cut short */
        if (to.pos == to.size && (r = job_grow(j)) != 0)
            return r;
    }
    return job_left(j) == 0 ? CODING_TOO_LARGE : 0;
}

static int identity_decode(struct job *j)
{
    if (j->in.n > j->limit)
        return CODING_TOO_LARGE;
    int r = job_reserve(j, j->in.n);
    if (r == 0 && j->in.n > 0) {
        memcpy(j->out->p + j->out->n, j->in.p, j->in.n);
        j->out->n += j->in.n;
    }
    return r;
}

int coding_decode(struct coding_decoder *d, enum coding c, struct bytes in, size_t limit, size_t extra,
                  struct budget *budget, struct buffer *out)
{
    struct job j = {.in = in, .limit = limit, .extra = extra, .begin = out->n, .budget = budget, .out = out};
    if (limit > SIZE_MAX / 4 || extra > SIZE_MAX / 4)
        return -EINVAL;
    int r;
    switch (c) {
    case CODING_IDENTITY: r = identity_decode(&j); break;
    case CODING_GZIP:
    case CODING_DEFLATE: r = deflate_decode(d, c, &j); break;
    case CODING_ZSTD: r = zstd_decode(d, &j); break;
    default: r = -EINVAL; break;
    }
    if (r != 0)
        out->n = j.begin;
    return r;
}
