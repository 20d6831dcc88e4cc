/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A message is its metadata, a FlatBuffer (format/Message.fbs and Schema.fbs of apache/arrow), and a body.
 * The schema comes first; then dictionaries and record batches, whose metadata has a node for each column and
 * the places of its buffers in the body, in the order of the columns: of a column with a dictionary only its
 * numbers are there. A dictionary has those of what is below it, and replaces what it was before.
 */
#include "proto/arrow/stream.h"

#include <endian.h>
#include <errno.h>
#include <lz4frame.h>
#include <string.h>
#include <zstd.h>

#include "proto/arrow/flat.h"
#include "proto/base/library/library.h"
#include "proto/base/macros.h"

/* Of one stream; each is looked up by its dictionary's number in all columns. */
#define MESSAGES_MAX 65536u

/* What a context of liblz4 takes for the largest blocks that a frame may announce; of libzstd for frames that
 * are there whole. */
#define LZ4_BYTES  (9u << 20)
#define ZSTD_BYTES (256u << 10)

/* Message.fbs */
enum { MESSAGE_VERSION, MESSAGE_HEADER_TYPE, MESSAGE_HEADER, MESSAGE_BODY_LENGTH };
enum { HEADER_SCHEMA = 1, HEADER_DICTIONARY, HEADER_RECORD };
enum { RECORD_LENGTH, RECORD_NODES, RECORD_BUFFERS, RECORD_COMPRESSION, RECORD_VARIADIC };
enum { DICTIONARY_ID, DICTIONARY_DATA, DICTIONARY_IS_DELTA };
enum { CODEC_NONE = -1, CODEC_LZ4, CODEC_ZSTD };

/* Schema.fbs */
enum { SCHEMA_ENDIANNESS, SCHEMA_FIELDS };
enum { FIELD_NAME, FIELD_NULLABLE, FIELD_TYPE_TYPE, FIELD_TYPE, FIELD_DICTIONARY, FIELD_CHILDREN };
enum { ENCODING_ID, ENCODING_INDEX_TYPE };
enum { INT_BITS, INT_IS_SIGNED };
enum {
    TYPE_NULL = 1,
    TYPE_INT,
    TYPE_FLOATING_POINT,
    TYPE_BINARY,
    TYPE_UTF8,
    TYPE_BOOL,
    TYPE_DECIMAL,
    TYPE_DATE,
    TYPE_TIME,
    TYPE_TIMESTAMP,
    TYPE_INTERVAL,
    TYPE_LIST,
    TYPE_STRUCT,
    TYPE_UNION,
    TYPE_FIXED_SIZE_BINARY,
    TYPE_FIXED_SIZE_LIST,
    TYPE_MAP,
    TYPE_DURATION,
    TYPE_LARGE_BINARY,
    TYPE_LARGE_UTF8,
    TYPE_LARGE_LIST,
    TYPE_RUN_END_ENCODED,
    TYPE_BINARY_VIEW,
    TYPE_UTF8_VIEW,
    TYPE_LIST_VIEW,
    TYPE_LARGE_LIST_VIEW,
};

static int malformed(struct error *e, const char *how)
{
    return error_set(e, ARROW_MALFORMED, "no Arrow IPC stream: %s", how);
}

void arrow_stream_init(struct arrow_stream *s, struct bytes ipc, uint64_t max, struct budget *budget)
{
    s->rest = ipc;
    s->arena = (struct arena)ARENA_INIT(budget);
    s->left = max;
    s->n_columns = 0;
    s->messages = 0;
    s->packed = ipc.n;
    s->lz4 = s->zstd = NULL;
}

void arrow_stream_release(struct arrow_stream *s)
{
    if (s->lz4) {
        (void)LZ4F_freeDecompressionContext(take_ptr(s->lz4));
        budget_refund(s->arena.budget, LZ4_BYTES);
    }
    if (s->zstd) {
        (void)ZSTD_freeDCtx(take_ptr(s->zstd));
        budget_refund(s->arena.budget, ZSTD_BYTES);
    }
    arena_release(&s->arena);
}

/* ---- the schema ---- */

static bool set_integer(struct flat *f, uint32_t type, struct arrow_column *ret)
{
    const int64_t bits = type ? flat_number(f, type, INT_BITS, 4, 0) : 32; /* a dictionary's usual numbers */
    ret->kind = ARROW_INTEGER;
    ret->width = (uint32_t)bits / 8;
    ret->is_unsigned = type && flat_number(f, type, INT_IS_SIGNED, 1, 0) == 0;
    return bits == 8 || bits == 16 || bits == 32 || bits == 64;
}

static bool set_kind(struct flat *f, uint32_t field, struct arrow_column *ret)
{
    const uint32_t type = flat_table(f, field, FIELD_TYPE);
    ret->width = 4;
    switch ((uint8_t)flat_number(f, field, FIELD_TYPE_TYPE, 1, 0)) {
    case TYPE_NULL: ret->kind = ARROW_NOTHING; return true;
    case TYPE_INT: return set_integer(f, type, ret);
    case TYPE_BOOL: ret->kind = ARROW_BITS; return true;
    case TYPE_TIMESTAMP:
    case TYPE_DURATION:
        ret->kind = ARROW_INTEGER;
        ret->width = 8;
        return true;
    case TYPE_FIXED_SIZE_BINARY:
        ret->width = (uint32_t)flat_number(f, type, 0, 4, 0);
        ret->kind = ARROW_FIXED;
        return ret->width > 0 && ret->width <= INT32_MAX;
    case TYPE_FLOATING_POINT:
    case TYPE_DECIMAL:
    case TYPE_DATE:
    case TYPE_TIME:
    case TYPE_INTERVAL:
        ret->kind = ARROW_FIXED;
        ret->width = 1; /* nobody asks for them */
        return true;
    case TYPE_LARGE_BINARY:
    case TYPE_LARGE_UTF8: ret->width = 8; /* fallthrough */
    case TYPE_BINARY:
    case TYPE_UTF8: ret->kind = ARROW_BYTES; return true;
    case TYPE_BINARY_VIEW:
    case TYPE_UTF8_VIEW: ret->kind = ARROW_VIEWS; return true;
    case TYPE_LARGE_LIST: ret->width = 8; /* fallthrough */
    case TYPE_MAP:
    case TYPE_LIST: ret->kind = ARROW_LIST; return true;
    case TYPE_LARGE_LIST_VIEW: ret->width = 8; /* fallthrough */
    case TYPE_LIST_VIEW: ret->kind = ARROW_LIST_VIEW; return true;
    case TYPE_STRUCT: ret->kind = ARROW_STRUCT; return true;
    case TYPE_RUN_END_ENCODED: ret->kind = ARROW_RUNS; return true;
    default: return false;
    }
}

static bool has_dictionary(const struct arrow_stream *s, int64_t id, uint32_t *ret)
{
    for (uint32_t i = 1; i < s->n_columns; i++)
        if (s->columns[i].dictionary && s->columns[i].id == id) {
            *ret = s->columns[i].dictionary;
            return true;
        }
    return false;
}

static struct arrow_column *add_column(struct arrow_stream *s)
{
    struct arrow_column *c = s->n_columns < ARROW_COLUMNS_MAX ? &s->columns[s->n_columns++] : NULL;
    if (c)
        *c = (struct arrow_column){.kind = ARROW_STRUCT};
    return c;
}

/* The columns of a field, without its children's. */
static int add_field(struct arrow_stream *s, struct flat *f, uint32_t field, struct error *e)
{
    const uint32_t encoding = flat_table(f, field, FIELD_DICTIONARY);
    struct arrow_column *c = add_column(s);
    uint32_t other;
    if (c && encoding) {
        const int64_t id = flat_number(f, encoding, ENCODING_ID, 8, 0);
        if (!set_integer(f, flat_table(f, encoding, ENCODING_INDEX_TYPE), c))
            return malformed(e, "its dictionaries have numbers of another size");
        if (has_dictionary(s, id, &other))
            return malformed(e, "two columns have one dictionary");
        c->name = flat_string(f, field, FIELD_NAME);
        c->id = id;
        c->dictionary = s->n_columns;
        c = add_column(s);
    }
    if (!c)
        return malformed(e, "it has too many columns");
    c->name = flat_string(f, field, FIELD_NAME);
    return set_kind(f, field, c) ? 0 : malformed(e, "a column has a type that is not taken");
}

struct level {
    struct flat_vector fields;
    uint32_t next, first; /* the next field; the first column of the one whose fields these are */
};

static int read_fields(struct arrow_stream *s, struct flat *f, struct flat_vector fields, struct error *e)
{
    struct level levels[ARROW_DEPTH_MAX] = {{.fields = fields}};
    uint32_t depth = 1;
    (void)add_column(s);
    while (depth > 0) {
        struct level *level = &levels[depth - 1];
        if (level->next == level->fields.n) {
            for (uint32_t i = level->first, n = s->columns[i].dictionary ? 2 : 1; n > 0; n--)
                s->columns[i++].end = s->n_columns;
            depth--;
            continue;
        }
        const uint32_t field = flat_table_at(f, level->fields, level->next++), first = s->n_columns;
        int r = add_field(s, f, field, e);
        if (r != 0)
            return r;
        if (depth == ARROW_DEPTH_MAX)
            return malformed(e, "its columns are nested too deeply");
        levels[depth++] = (struct level){flat_vector(f, field, FIELD_CHILDREN, sizeof(uint32_t)), 0, first};
    }
    return f->is_bad ? malformed(e, "its schema ends elsewhere") : 0;
}

static int read_schema(struct arrow_stream *s, struct flat *f, uint32_t schema, struct error *e)
{
    if (s->n_columns > 0)
        return malformed(e, "it has two schemas");
    if (flat_number(f, schema, SCHEMA_ENDIANNESS, 2, 0) != 0)
        return malformed(e, "its numbers are big-endian");
    return read_fields(s, f, flat_vector(f, schema, SCHEMA_FIELDS, sizeof(uint32_t)), e);
}

/* ---- batches ---- */

struct batch {
    struct arrow_stream *stream;
    struct bytes body;
    struct flat *f;
    struct flat_vector nodes, buffers,
        variadic; /* of the first two an element is two numbers of eight bytes */
    uint32_t node, buffer, view;
    int codec;
    struct error *e;
};

static int unpack_lz4(struct arrow_stream *s, struct bytes packed, uint8_t *out, size_t n)
{
    LZ4F_resetDecompressionContext(s->lz4);
    const LZ4F_decompressOptions_t options = {.stableDst = 1};
    size_t hint = 1, written = 0;
    while (hint != 0) {
        size_t got = n - written, taken = packed.n;
        hint = LZ4F_decompress(s->lz4, out + written, &got, packed.p, &taken, &options);
        if (LZ4F_isError(hint))
            return strcmp(LZ4F_getErrorName(hint), "ERROR_allocation_failed") == 0 ? -ENOMEM
                                                                                   : ARROW_MALFORMED;
        if (got == 0 && taken == 0 && hint != 0)
            return ARROW_MALFORMED;
        written += got;
        packed = bytes_from(packed, taken);
    }
    return written == n ? 0 : ARROW_MALFORMED;
}

/* The context that a codec needs is there, and paid for. */
static int make_context(struct arrow_stream *s, int codec)
{
    const size_t bytes = codec == CODEC_LZ4 ? LZ4_BYTES : ZSTD_BYTES;
    LZ4F_dctx *lz4 = NULL;
    if (codec == CODEC_LZ4 ? s->lz4 : s->zstd)
        return 0;
    int r = library_load(codec == CODEC_LZ4 ? &library_lz4 : &library_zstd, NULL);
    if (r < 0)
        return r;
    if (!budget_charge(s->arena.budget, bytes))
        return -ENOMEM;
    if (codec == CODEC_ZSTD)
        s->zstd = ZSTD_createDCtx();
    else if (!LZ4F_isError(LZ4F_createDecompressionContext(&lz4, LZ4F_VERSION)))
        s->lz4 = lz4;
    if (codec == CODEC_LZ4 ? s->lz4 : s->zstd)
        return 0;
    budget_refund(s->arena.budget, bytes);
    return -ENOMEM;
}

/* A buffer begins with how long it was, or -1 where it was left as it is. */
static int unpack(struct batch *b, struct bytes *buffer)
{
    struct arrow_stream *s = b->stream;
    int64_t plain;
    if (buffer->n < sizeof plain)
        return malformed(b->e, "a compressed buffer has no length");
    memcpy(&plain, buffer->p, sizeof plain);
    plain = (int64_t)le64toh((uint64_t)plain);
    *buffer = bytes_from(*buffer, sizeof plain);
    if (plain == -1)
        return 0;
    if (plain < 0)
        return malformed(b->e, "a compressed buffer has no length");
    if (buffer->n > s->packed)
        return malformed(b->e, "its buffers lie in each other");
    s->packed -= buffer->n;
    if ((uint64_t)plain > s->left)
        return ARROW_TOO_LARGE;
    s->left -= (uint64_t)plain;
    uint8_t *out = arena_alloc(&s->arena, (size_t)plain);
    int r = out ? make_context(s, b->codec) : -ENOMEM;
    if (r < 0)
        return r;
    if (b->codec == CODEC_LZ4)
        r = unpack_lz4(s, *buffer, out, (size_t)plain);
    else if (ZSTD_decompressDCtx(s->zstd, out, (size_t)plain, buffer->p, buffer->n) != (size_t)plain)
        r = ARROW_MALFORMED;
    *buffer = bytes_of(out, (size_t)plain);
    return r == ARROW_MALFORMED ? malformed(b->e, "a compressed buffer is corrupt") : r;
}

static int next_buffer(struct batch *b, struct bytes *ret)
{
    const int64_t at = flat_number_at(b->f, b->buffers, 2 * b->buffer),
                  n = flat_number_at(b->f, b->buffers, 2 * b->buffer + 1);
    if (2 * b->buffer++ >= b->buffers.n)
        return malformed(b->e, "a batch has less buffers than its columns");
    if (n < 0 || at < 0 || (uint64_t)at > b->body.n || (uint64_t)n > b->body.n - (uint64_t)at)
        return malformed(b->e, "a buffer is not in the body");
    *ret = bytes_of(b->body.p + at, (size_t)n);
    return n > 0 && b->codec != CODEC_NONE ? unpack(b, ret) : 0;
}

/* The buffers that a column of views is of: how many each has is said apart. */
static int take_views(struct batch *b, struct arrow_column *c)
{
    const int64_t n = flat_number_at(b->f, b->variadic, b->view++);
    if (n < 0 || n > b->buffers.n / 2)
        return malformed(b->e, "a batch has less buffers than its columns");
    struct bytes *buffers = arena_calloc(&b->stream->arena, (size_t)n, sizeof *buffers);
    int r = buffers ? 0 : -ENOMEM;
    for (int64_t i = 0; i < n && r == 0; i++)
        r = next_buffer(b, &buffers[i]);
    c->buffers = buffers;
    c->n_buffers = r == 0 ? (uint32_t)n : 0;
    return r;
}

static int take_column(struct batch *b, struct arrow_column *c)
{
    const int64_t n = flat_number_at(b->f, b->nodes, 2 * b->node);
    if (2 * b->node++ >= b->nodes.n || n < 0)
        return malformed(b->e, "a batch has less nodes than columns");
    c->n = (uint64_t)n;
    c->valid = c->data = c->extra = (struct bytes){0};
    c->n_buffers = 0;
    int r = 0;
    if (c->kind != ARROW_NOTHING && c->kind != ARROW_RUNS)
        r = next_buffer(b, &c->valid);
    if (r == 0 && c->kind != ARROW_NOTHING && c->kind != ARROW_RUNS && c->kind != ARROW_STRUCT)
        r = next_buffer(b, &c->data);
    if (r == 0 && (c->kind == ARROW_BYTES || c->kind == ARROW_LIST_VIEW))
        r = next_buffer(b, &c->extra);
    return r == 0 && c->kind == ARROW_VIEWS ? take_views(b, c) : r;
}

/* The columns from `first` on, up to `end`. */
static int read_batch(struct arrow_stream *s, struct flat *f, uint32_t record, struct bytes body,
                      uint32_t first, uint32_t end, struct error *e)
{
    struct batch b = {.stream = s, .body = body, .f = f, .codec = CODEC_NONE, .e = e};
    const uint32_t compression = flat_table(f, record, RECORD_COMPRESSION);
    if (compression)
        b.codec = (int)flat_number(f, compression, 0, 1, CODEC_LZ4);
    if (compression && b.codec != CODEC_LZ4 && b.codec != CODEC_ZSTD)
        return malformed(e, "its buffers are compressed in a way that nobody knows");
    b.nodes = flat_vector(f, record, RECORD_NODES, 16);
    b.buffers = flat_vector(f, record, RECORD_BUFFERS, 16);
    b.variadic = flat_vector(f, record, RECORD_VARIADIC, 8);
    b.nodes.n *= 2;
    b.buffers.n *= 2;
    if (f->is_bad)
        return malformed(e, "a batch ends elsewhere");
    int r = 0;
    for (uint32_t i = first; i < end && r == 0;) {
        struct arrow_column *c = &s->columns[i];
        r = take_column(&b, c);
        i = c->dictionary ? c->end : i + 1;
    }
    return r;
}

static int read_dictionary(struct arrow_stream *s, struct flat *f, uint32_t dictionary, struct bytes body,
                           struct error *e)
{
    uint32_t column;
    if (!has_dictionary(s, flat_number(f, dictionary, DICTIONARY_ID, 8, 0), &column))
        return malformed(e, "a dictionary is no column's");
    if (flat_number(f, dictionary, DICTIONARY_IS_DELTA, 1, 0) != 0)
        return malformed(e, "dictionaries that only add to those before are not taken");
    return read_batch(s, f, flat_table(f, dictionary, DICTIONARY_DATA), body, column, s->columns[column].end,
                      e);
}

/* ---- messages ---- */

#define CONTINUATION UINT32_MAX

/* 0, ARROW_END, ARROW_MALFORMED. */
static int next_message(struct arrow_stream *s, struct flat *ret, uint32_t *ret_table, struct bytes *ret_body,
                        struct error *e)
{
    uint32_t head[2];
    if (s->rest.n == 0)
        return ARROW_END;
    if (s->rest.n < sizeof head)
        return malformed(e, "it is cut short");
    memcpy(head, s->rest.p, sizeof head);
    const uint32_t n = le32toh(head[1]);
    if (head[0] != CONTINUATION)
        return malformed(e, "a message does not begin as one");
    if (n == 0)
        return ARROW_END;
    if (++s->messages > MESSAGES_MAX)
        return malformed(e, "it has too many messages");
    s->rest = bytes_from(s->rest, sizeof head);
    if (n > s->rest.n || n > INT32_MAX)
        return malformed(e, "it is cut short");
    *ret = (struct flat){.whole = bytes_of(s->rest.p, n)};
    s->rest = bytes_from(s->rest, n);
    *ret_table = flat_root(ret);
    const int64_t length = flat_number(ret, *ret_table, MESSAGE_BODY_LENGTH, 8, 0);
    if (ret->is_bad)
        return malformed(e, "a message is no FlatBuffer");
    if (length < 0 || (uint64_t)length > s->rest.n)
        return malformed(e, "it is cut short");
    *ret_body = bytes_of(s->rest.p, (size_t)length);
    s->rest = bytes_from(s->rest, (size_t)length);
    return 0;
}

int arrow_next(struct arrow_stream *s, struct error *e)
{
    for (;;) {
        struct flat f;
        struct bytes body = {0};
        uint32_t message = 0;
        int r = next_message(s, &f, &message, &body, e);
        if (r != 0)
            return r;
        const uint32_t header = flat_table(&f, message, MESSAGE_HEADER);
        const int64_t type = flat_number(&f, message, MESSAGE_HEADER_TYPE, 1, 0);
        if (type == HEADER_SCHEMA)
            r = read_schema(s, &f, header, e);
        else if (s->n_columns == 0)
            r = malformed(e, "it does not begin with a schema");
        else if (type == HEADER_DICTIONARY)
            r = read_dictionary(s, &f, header, body, e);
        else if (type == HEADER_RECORD)
            r = read_batch(s, &f, header, body, 1, s->n_columns, e);
        else
            r = malformed(e, "a message is of a type that nobody knows");
        if (r == 0 && type == HEADER_RECORD)
            s->columns[0].n = (uint64_t)max_of(flat_number(&f, header, RECORD_LENGTH, 8, 0), (int64_t)0);
        if (r != 0 || type == HEADER_RECORD)
            return r;
    }
}
