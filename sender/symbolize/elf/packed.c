/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deflate is a stream: byte n needs all before it. But at the begin of a block a decoder's state is just a
 * bit position and the last 32 KiB that came out. So while it is unpacked for the first time, at the first
 * block's begin after each `spacing` bytes, a mark is left: where in the packed bytes (to the bit), where in
 * the unpacked, and those 32 KiB, packed again. To read at an offset later, the decoder starts at the nearest
 * mark before it (inflatePrime for the bits, inflateSetDictionary for the history) and goes on from there.
 *
 * What comes out is cut into chunks of 32 KiB; the last PACKED_CHUNKS asked for stay at hand, as texts are
 * read here and there. A decoder that stands before the wanted chunk, and nearer than any mark, just runs on.
 *
 * Of a section that is not large (PACKED_SHELF_MAX) every chunk that came out whole is kept, packed again by
 * zstd, and is had from there without what is before it. Blocks may be 100 KB long, so marks alone left
 * 60 to 120 KB to unpack in each section for one text, one table of abbreviations, one line program.
 * Every byte that comes out is taken off the work, and so is what a start costs.
 */
#include "sender/symbolize/elf/packed.h"

#include <errno.h>
#include <stdlib.h>
#include <zlib.h>
#include <zstd.h>

#include "proto/base/library/library.h"
#include "proto/base/macros.h"

/* How far back a block may refer. */
#define HISTORY 32768u
/* Packed bytes read at a time. */
#define INPUT 8192u
/* zstd's, for what is kept. */
#define PACKED_LEVEL 1
/* How much quicker than inflate() that comes back. */
#define SHELF_SPEED 4u
/* What it costs to begin at a mark, in bytes unpacked. */
#define START_WORK ((int64_t)HISTORY)

/* Where unpacking can begin. */
struct mark {
    uint64_t in, out;     /* bytes of either side before it */
    uint8_t n_bits, bits; /* of the byte before `in`, what is still to come of it */
    uint16_t history_n;   /* unpacked, HISTORY at most … */
    uint16_t packed_n;    /* … and packed */
    uint8_t *history;
};

/* A whole chunk, packed again by itself. */
struct shelved {
    uint32_t n;
    uint8_t *bytes; /* NULL: it has not come out yet */
};

struct chunk {
    uint64_t number, used;
    uint32_t n;
    uint8_t *bytes; /* NULL: free */
};

/* What reading needs. */
struct machine {
    z_stream z;
    uint64_t in, out; /* how far it has come */
    bool is_running, is_at_end;
    uint8_t last; /* the input byte read last */
    struct chunk chunk[PACKED_CHUNKS];
    uint64_t turn;
    ZSTD_CCtx *packer; /* NULL: not needed yet; likewise */
    ZSTD_DCtx *unpacker;
    uint8_t input[INPUT];
};

struct packed {
    struct source source;
    uint64_t at, n, size, spacing;
    int64_t *work; /* NULL: it rests */
    struct mark mark[PACKED_MARKS_MAX];
    uint32_t n_marks;
    struct shelved *shelf; /* by chunk's number; NULL: it has none */
    uint64_t n_missing;    /* of its chunks */
    size_t memory;
    struct machine *machine; /* NULL until something is read */
};

int packed_new(const struct source *s, uint64_t at, uint64_t n, uint64_t size, struct packed **ret)
{
    uint8_t head[2];
    if (n <= sizeof head || !source_read(s, at, head, sizeof head))
        return -EBADMSG;
    /* Deflate, a window of 32 KiB at most, no dictionary (RFC 1950, section 2.2). */
    if ((head[0] & 15) != Z_DEFLATED || head[0] >> 4 > 7 || (head[0] << 8 | head[1]) % 31 != 0 ||
        head[1] & 32)
        return -EBADMSG;
    if (size > PACKED_MAX)
        return -EFBIG;
    struct packed *p = calloc(1, sizeof *p);
    if (!p)
        return -ENOMEM;
    p->at = at + sizeof head;
    p->n = n - sizeof head;
    p->size = size;
    p->spacing = max_of((uint64_t)PACKED_SPACING, size / PACKED_MARKS_MAX);
    p->memory = sizeof *p;
    p->n_missing = (size + PACKED_CHUNK - 1) / PACKED_CHUNK;
    if (size <= PACKED_SHELF_MAX && (p->shelf = calloc(p->n_missing + 1, sizeof *p->shelf)))
        p->memory += p->n_missing * sizeof *p->shelf;
    *ret = p;
    return 0;
}

void packed_use(struct packed *p, const struct source *s, int64_t *work)
{
    p->source = *s;
    p->work = work;
}

static void stop(struct machine *m)
{
    if (m->is_running)
        inflateEnd(&m->z);
    m->is_running = false;
}

static void drop_packer(struct machine *m)
{
    if (m->packer) /* else the library may not be there */
        ZSTD_freeCCtx(m->packer);
    m->packer = NULL;
}

void packed_rest(struct packed *p)
{
    struct machine *m = p->machine;
    p->work = NULL;
    if (!m)
        return;
    stop(m);
    for (uint32_t i = 0; i < PACKED_CHUNKS; i++)
        free(m->chunk[i].bytes);
    drop_packer(m);
    if (m->unpacker)
        ZSTD_freeDCtx(m->unpacker);
    free(m);
    p->machine = NULL;
}

static void drop_marks(struct packed *p)
{
    for (uint32_t i = 0; i < p->n_marks; i++) {
        p->memory -= p->mark[i].packed_n;
        free(p->mark[i].history);
    }
    p->n_marks = 0;
}

struct packed *packed_free(struct packed *p)
{
    if (!p)
        return NULL;
    packed_rest(p);
    drop_marks(p);
    for (uint64_t i = 0; p->shelf && i * PACKED_CHUNK < p->size; i++)
        free(p->shelf[i].bytes);
    free(p->shelf);
    free(p);
    return NULL;
}

uint64_t packed_size(const struct packed *p)
{
    return p->size;
}

size_t packed_memory(const struct packed *p)
{
    return p->memory;
}

/* Packs what is kept of what came out; its size, 0: not to so little, or memory is out. A copy, the caller's,
 * in *ret. */
static uint32_t pack(struct machine *m, const void *from, size_t n, size_t max, uint8_t **ret)
{
    uint8_t to[ZSTD_COMPRESSBOUND(PACKED_CHUNK)];
    if (!m->packer && library_load(&library_zstd, NULL) == 0)
        m->packer = ZSTD_createCCtx();
    if (!m->packer)
        return 0;
    size_t packed_n = ZSTD_compressCCtx(m->packer, to, sizeof to, from, n, PACKED_LEVEL);
    if (ZSTD_isError(packed_n) || packed_n > max || !(*ret = malloc(packed_n)))
        return 0;
    memcpy(*ret, to, packed_n);
    return (uint32_t)packed_n;
}

static bool unpack(struct machine *m, const uint8_t *from, size_t n, uint8_t *to, size_t to_n)
{
    if (!m->unpacker && !(m->unpacker = ZSTD_createDCtx()))
        return false;
    return ZSTD_decompressDCtx(m->unpacker, to, to_n, from, n) == to_n;
}

/* Begins anew at a mark, or at the very begin (NULL). */
static bool start(struct packed *p, const struct mark *mark)
{
    uint8_t history[HISTORY];
    struct machine *m = p->machine;
    stop(m);
    *p->work -= mark ? START_WORK : START_WORK / 8;
    m->z = (z_stream){0};
    m->is_at_end = false;
    m->in = mark ? mark->in : 0;
    m->out = mark ? mark->out : 0;
    if (inflateInit2(&m->z, -MAX_WBITS) != Z_OK)
        return false;
    m->is_running = true;
    if (!mark)
        return true;
    uInt n = mark->history_n;
    bool ok = n == 0 || (unpack(m, mark->history, mark->packed_n, history, n) &&
                         inflateSetDictionary(&m->z, history, n) == Z_OK);
    ok = ok && (mark->n_bits == 0 || inflatePrime(&m->z, mark->n_bits, mark->bits) == Z_OK);
    if (!ok)
        stop(m);
    return ok;
}

/* Leaves a mark where a block begins; without memory for it there is none. */
static void leave_mark(struct packed *p)
{
    uint8_t history[HISTORY];
    struct machine *m = p->machine;
    uint64_t last = p->n_marks ? p->mark[p->n_marks - 1].out : 0;
    uInt n = 0;
    if (p->n_marks == PACKED_MARKS_MAX || m->out < last + p->spacing || p->n_missing == 0 ||
        inflateGetDictionary(&m->z, history, &n) != Z_OK)
        return;
    struct mark mark = {
        .in = m->in - m->z.avail_in, .out = m->out, .n_bits = m->z.data_type & 7, .history_n = (uint16_t)n};
    mark.packed_n = (uint16_t)pack(m, history, n, PACKED_HISTORY_MAX, &mark.history);
    if (!mark.packed_n)
        return;
    /* zlib has taken that byte; it is the one before the next, or the last one of the input before. */
    uint8_t byte = m->z.next_in > m->input ? m->z.next_in[-1] : m->last;
    mark.bits = mark.n_bits ? (uint8_t)(byte >> (8 - mark.n_bits)) : 0;
    p->mark[p->n_marks++] = mark;
    p->memory += mark.packed_n;
}

static bool feed(struct packed *p)
{
    struct machine *m = p->machine;
    if (m->z.next_in > m->input)
        m->last = m->z.next_in[-1];
    size_t n = (size_t)min_of(p->n - m->in, (uint64_t)INPUT);
    n = n ? source_read_some(&p->source, p->at + m->in, m->input, n) : 0;
    m->in += n;
    *p->work -= (int64_t)n; /* blocks may unpack to nothing */
    m->z.next_in = m->input;
    m->z.avail_in = (uInt)n;
    return n > 0;
}

/* Unpacks up to the end of the chunk it has come to; bytes from the chunk's begin on go to `to`. How many
 * bytes of the chunk there are behind that, 0 when there is no more. */
static uint32_t unpack_chunk(struct packed *p, uint8_t *to)
{
    struct machine *m = p->machine;
    uint64_t begin = m->out / PACKED_CHUNK * PACKED_CHUNK, from = m->out,
             end = min_of(begin + PACKED_CHUNK, p->size);
    while (m->out < end && !m->is_at_end) {
        if (m->z.avail_in == 0 && (*p->work < 0 || !feed(p)))
            break;
        m->z.next_out = to + (m->out - begin);
        m->z.avail_out = (uInt)(end - m->out);
        int r = inflate(&m->z, Z_BLOCK);
        m->out = end - m->z.avail_out;
        if (r != Z_OK && r != Z_BUF_ERROR)
            m->is_at_end = true;
        else if ((m->z.data_type & 128) && !(m->z.data_type & 64))
            leave_mark(p);
    }
    *p->work -= (int64_t)(m->out - from);
    return (uint32_t)(m->out - begin);
}

/* Puts the machine where it reaches a chunk the soonest. */
static bool approach(struct packed *p, uint64_t number)
{
    struct machine *m = p->machine;
    uint64_t offset = number * PACKED_CHUNK;
    const struct mark *mark = NULL;
    for (uint32_t i = 0; i < p->n_marks && p->mark[i].out <= offset; i++)
        mark = &p->mark[i];
    bool is_near = m->is_running && m->out <= offset && (!mark || m->out >= mark->out);
    return is_near || start(p, mark);
}

static struct chunk *oldest(struct machine *m)
{
    struct chunk *found = &m->chunk[0];
    for (uint32_t i = 1; i < PACKED_CHUNKS; i++)
        if (m->chunk[i].used < found->used)
            found = &m->chunk[i];
    if (!found->bytes)
        found->bytes = malloc(PACKED_CHUNK);
    return found->bytes ? found : NULL;
}

static struct chunk *find(struct machine *m, uint64_t number)
{
    for (uint32_t i = 0; i < PACKED_CHUNKS; i++)
        if (m->chunk[i].used && m->chunk[i].number == number)
            return &m->chunk[i];
    return NULL;
}

static uint32_t chunk_size(const struct packed *p, uint64_t number)
{
    return (uint32_t)min_of(p->size - number * PACKED_CHUNK, (uint64_t)PACKED_CHUNK);
}

/* Puts a chunk that has come out on the shelf. When all are there nothing else is needed any more. */
static void shelve(struct packed *p, const struct chunk *c)
{
    struct shelved *s = p->shelf ? &p->shelf[c->number] : NULL;
    if (!s || s->bytes || c->n != chunk_size(p, c->number))
        return;
    s->n = pack(p->machine, c->bytes, c->n, PACKED_CHUNK * 3 / 4, &s->bytes);
    if (s->n == 0)
        return;
    p->memory += s->n;
    if (--p->n_missing > 0)
        return;
    drop_marks(p);
    drop_packer(p->machine);
}

static const struct chunk *from_shelf(struct packed *p, uint64_t number)
{
    struct machine *m = p->machine;
    const struct shelved *s = p->shelf ? &p->shelf[number] : NULL;
    struct chunk *c = s && s->bytes && *p->work >= 0 ? oldest(m) : NULL;
    if (!c)
        return NULL;
    c->used = 0;
    c->n = chunk_size(p, number);
    *p->work -= c->n / SHELF_SPEED;
    if (!unpack(m, s->bytes, s->n, c->bytes, c->n))
        return NULL;
    c->number = number;
    c->used = ++m->turn;
    return c;
}

/* The chunk of a number; NULL: it cannot be had. Those on the way to it are at hand afterwards, too. */
static const struct chunk *chunk_of(struct packed *p, uint64_t number)
{
    struct machine *m = p->machine;
    struct chunk *c = find(m, number);
    if (c) {
        c->used = ++m->turn;
        return c;
    }
    const struct chunk *shelved = from_shelf(p, number);
    if (shelved)
        return shelved;
    if (!approach(p, number))
        return NULL;
    for (;;) {
        uint64_t at = m->out / PACKED_CHUNK, from = m->out;
        c = find(m, at);
        c = c ? c : oldest(m);
        if (!c || at > number || *p->work < 0)
            return NULL;
        c->used = 0;
        c->n = unpack_chunk(p, c->bytes);
        if (from == at * PACKED_CHUNK && c->n) { /* not begun in its middle, at a mark */
            c->number = at;
            c->used = ++m->turn;
            shelve(p, c);
        }
        if (at == number)
            return c->used ? c : NULL;
        if (m->is_at_end || m->out != (at + 1) * PACKED_CHUNK)
            return NULL;
    }
}

static struct bytes bytes_at(void *of, uint64_t at)
{
    const struct chunk *c = chunk_of(of, at / PACKED_CHUNK);
    return c ? bytes_of(c->bytes, c->n) : bytes_of(NULL, 0);
}

size_t packed_read(void *packed, uint64_t offset, void *to, size_t n)
{
    struct packed *p = packed;
    if (!p->work || offset >= p->size)
        return 0;
    n = (size_t)min_of((uint64_t)n, p->size - offset);
    if (!p->machine && !(p->machine = calloc(1, sizeof *p->machine)))
        return 0;
    return source_read_pages(bytes_at, p, PACKED_CHUNK, offset, to, n);
}

struct source packed_source(struct packed *p)
{
    return source_read_by(packed_read, p, p->size);
}
