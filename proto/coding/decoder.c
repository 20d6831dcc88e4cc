/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/coding/coding.h"

#include <errno.h>
#include <libdeflate.h>
#include <stdint.h>
#include <stdlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "proto/base/library/library.h"
#include "proto/coding/job.h"
#include "proto/coding/lz4.h"
#include "proto/coding/snappy.h"

/* The most that one byte of deflate can become: 258 bytes for two bits (RFC 1951 §3.2.5), 1032 in the limit.
 */
#define DEFLATE_RATIO_MAX 1032u

/* RFC 9659 §3: a zstd content coding must not need a window above 8 MiB. */
#define ZSTD_WINDOW_MAX ((uint64_t)8 << 20)

/* The most that one byte of zstd can become: a block of 128 KiB that is one byte repeated takes four (RFC
 * 8878 §3.1.1.2.2). */
#define ZSTD_RATIO_MAX 32768u

#define GZIP_MEMBER_MIN 18u /* RFC 1952 §2.3: 10 bytes of header and 8 of trailer */

struct coding_decoder {
    struct libdeflate_decompressor *deflate;
    ZSTD_DCtx *zstd;
    uint32_t parts; /* of the last body */
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
    if (d->zstd)
        ZSTD_freeDCtx(d->zstd);
    free(d);
    return NULL;
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
    size_t guess = job_guess(j->in.n);
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
    int r = library_load(&library_deflate, NULL);
    if (r < 0)
        return r;
    if (!d->deflate && !(d->deflate = libdeflate_alloc_decompressor()))
        return -ENOMEM;
    size_t guess;
    r = deflate_guess(j, c, &guess);
    if (r != 0 || (r = job_reserve(j, guess)) != 0)
        return r;

    struct bytes in = j->in;
    uint32_t parts = 0;
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
        parts++;
        if (in.n > 0 && (c == CODING_DEFLATE || parts == JOB_PARTS_MAX))
            return CODING_CORRUPT;
    } while (in.n > 0);
    d->parts = parts;
    return 0;
}

/* What a zstd frame says of itself before its first block; RFC 8878 §3.1.1.1, §3.1.2. */
struct zstd_head {
    bool skippable, tells_size;
    uint64_t window, size; /* size: of what comes out, if told */
    uint32_t dictionary;   /* 0: none */
    size_t n;              /* bytes of the head */
};

static uint64_t load_le(const uint8_t *p, uint32_t n)
{
    uint64_t v = 0;
    for (uint32_t i = 0; i < n; i++)
        v |= (uint64_t)p[i] << (8 * i);
    return v;
}

/* False when the bytes do not begin with a frame's head. */
static bool zstd_head_read(struct bytes in, struct zstd_head *ret)
{
    static const uint8_t dictionary_bytes[] = {0, 1, 2, 4}, size_bytes[] = {0, 2, 4, 8};
    *ret = (struct zstd_head){0};
    if (in.n < 5)
        return false;
    const uint32_t magic = (uint32_t)load_le(in.p, 4);
    if ((magic & ZSTD_MAGIC_SKIPPABLE_MASK) == ZSTD_MAGIC_SKIPPABLE_START) {
        ret->skippable = true;
        return true;
    }
    const uint8_t descriptor = in.p[4];
    const bool single_segment = descriptor & 0x20;
    const uint32_t n_dictionary = dictionary_bytes[descriptor & 3];
    const uint32_t n_size = descriptor >> 6 == 0 ? single_segment : size_bytes[descriptor >> 6];
    const uint8_t *p = in.p + 5;
    if (magic != ZSTD_MAGICNUMBER || in.n - 5 < !single_segment + n_dictionary + n_size)
        return false;
    if (!single_segment) { /* §3.1.1.1.2 */
        const uint64_t base = (uint64_t)1 << (10 + (*p >> 3));
        ret->window = base + base / 8 * (*p & 7);
        p++;
    }
    ret->dictionary = (uint32_t)load_le(p, n_dictionary);
    ret->tells_size = n_size > 0;
    ret->size = load_le(p + n_dictionary, n_size) + (n_size == 2 ? 256 : 0);
    ret->n = (size_t)(p - in.p) + n_dictionary + n_size;
    return true;
}

/* The most that a block becomes; §3.1.1.2.4. */
#define ZSTD_BLOCK_MAX ((size_t)128 << 10)

enum zstd_block { ZSTD_BLOCK_RAW, ZSTD_BLOCK_RLE, ZSTD_BLOCK_COMPRESSED }; /* §3.1.1.2.2 */

/*
 * What a frame of whole blocks becomes by their heads, §3.1.1.2: *least for certain, *most if every
 * compressed block is full, which all but the last of an encoder's are. Stops when *least passes `enough`: a
 * bomb of repeated bytes says so in its first kilobytes.
 */
static void zstd_sizes(struct bytes in, const struct zstd_head *head, size_t enough, size_t *least,
                       size_t *most)
{
    struct bytes rest = bytes_of(in.p + head->n, in.n - head->n);
    *least = *most = 0;
    for (bool last = false; !last && rest.n >= 3 && *least <= enough;) {
        const uint32_t block = (uint32_t)load_le(rest.p, 3), type = block >> 1 & 3;
        const size_t says = block >> 3, takes = 3 + (type == ZSTD_BLOCK_RLE ? 1 : says);
        last = block & 1;
        if (type < ZSTD_BLOCK_COMPRESSED)
            *least += says;
        *most += type < ZSTD_BLOCK_COMPRESSED ? says : ZSTD_BLOCK_MAX;
        rest = takes <= rest.n ? bytes_of(rest.p + takes, rest.n - takes) : (struct bytes){0};
    }
}

/* A frame of short blocks, as flushing makes them, could be far more than it is: then this much is tried
 * first. */
#define ZSTD_LIKELY_RATIO 64u

/* Room for what a frame says it becomes, or for what its blocks can: *ret_most, and in the first place for
 * what they probably do. */
static int zstd_reserve(struct job *j, struct bytes in, const struct zstd_head *head, size_t *ret_most)
{
    size_t left = job_left(j), least;
    if (head->tells_size) {
        *ret_most = (size_t)head->size;
        if (head->size / ZSTD_RATIO_MAX > in.n)
            return CODING_CORRUPT;
        return head->size > left ? CODING_TOO_LARGE : job_reserve(j, *ret_most);
    }
    zstd_sizes(in, head, left, &least, ret_most);
    if (least > left)
        return CODING_TOO_LARGE;
    *ret_most = min_of(*ret_most, left);
    return job_reserve(j, min_of(*ret_most, max_of(least, max_of(in.n * ZSTD_LIKELY_RATIO, ZSTD_BLOCK_MAX))));
}

/* One frame, `in` exactly. */
static int zstd_frame(struct coding_decoder *d, struct bytes in, const struct zstd_head *head, struct job *j)
{
    size_t most;
    int r = zstd_reserve(j, in, head, &most);
    while (r == 0) {
        const size_t room = job_room(j);
        const size_t n = ZSTD_decompressDCtx(d->zstd, j->out->p + j->out->n, room, in.p, in.n);
        if (!ZSTD_isError(n)) {
            j->out->n += n;
            return 0;
        }
        switch (ZSTD_getErrorCode(n)) {
        case ZSTD_error_dstSize_tooSmall:
            r = head->tells_size ? CODING_CORRUPT : room >= most ? CODING_TOO_LARGE : job_reserve(j, most);
            break;
        case ZSTD_error_memory_allocation: r = -ENOMEM; break;
        default: r = CODING_CORRUPT; break;
        }
    }
    return r;
}

/*
 * Frame after frame, each in one go: what has come out is the window then, so libzstd never allocates one,
 * and all that grows is on the budget.
 */
static int zstd_decode(struct coding_decoder *d, struct job *j)
{
    struct bytes in = j->in;
    int r = library_load(&library_zstd, NULL);
    if (r == 0)
        r = job_reserve(j, 0);
    if (r == 0 && !d->zstd && !(d->zstd = ZSTD_createDCtx()))
        r = -ENOMEM;
    if (r == 0 && in.n == 0)
        r = CODING_CORRUPT;
    for (uint32_t parts = 0; r == 0 && in.n > 0; parts++) {
        struct zstd_head head;
        if (parts == JOB_PARTS_MAX || !zstd_head_read(in, &head) || head.dictionary != 0 ||
            head.window > ZSTD_WINDOW_MAX)
            return CODING_CORRUPT;
        const size_t n = ZSTD_findFrameCompressedSize(in.p, in.n);
        if (ZSTD_isError(n))
            return CODING_CORRUPT;
        if (!head.skippable)
            r = zstd_frame(d, bytes_of(in.p, n), &head, j);
        in = bytes_of(in.p + n, in.n - n);
        d->parts = parts + 1;
    }
    return r;
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
    d->parts = 1;
    int r;
    switch (c) {
    case CODING_IDENTITY: r = identity_decode(&j); break;
    case CODING_GZIP:
    case CODING_DEFLATE: r = deflate_decode(d, c, &j); break;
    case CODING_ZSTD: r = zstd_decode(d, &j); break;
    case CODING_SNAPPY: r = snappy_decode(&j); break;
    case CODING_LZ4: r = lz4_decode(&j, &d->parts); break;
    default: r = -EINVAL; break;
    }
    if (r != 0)
        out->n = j.begin;
    return r;
}

uint32_t coding_decoder_parts(const struct coding_decoder *d)
{
    return d->parts;
}

const char *coding_explain(enum coding c, struct bytes in)
{
    struct zstd_head head;
    if (c == CODING_DEFLATE && in.n >= 2 && (in.p[0] & 0x0f) == 8 &&
        in.p[1] & 0x20) /* RFC 1950 §2.2: FDICT */
        return "it needs a dictionary, which no coding of a body may";
    if (c != CODING_ZSTD)
        return NULL;
    for (uint32_t parts = 0; parts < JOB_PARTS_MAX && zstd_head_read(in, &head); parts++) {
        if (head.dictionary != 0)
            return "it needs a dictionary, which no coding of a body may";
        if (head.window > ZSTD_WINDOW_MAX)
            return "its window is larger than 8 MiB (RFC 9659)";
        const size_t n = ZSTD_findFrameCompressedSize(in.p, in.n);
        if (ZSTD_isError(n))
            break;
        in = bytes_of(in.p + n, in.n - n);
    }
    return NULL;
}
