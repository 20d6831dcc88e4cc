/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/otlp/json/profiles.h"

#include <assert.h>
#include <stdlib.h>

#include "proto/base/macros.h"
#include "proto/base/room.h"
#include "proto/otlp/json/names.h"
#include "proto/otlp/json/reader.h"
#include "proto/otlp/json/value.h"
#include "proto/wire/writer.h"

#define NO_MARK SIZE_MAX

/* An open container of the JSON text: a message, or the list of a repeated field. */
struct frame {
    const struct field *field; /* of a list: whose it is; of a message: the key at hand, NULL for none */
    size_t mark;               /* for wire_end, or NO_MARK */
    uint32_t items;            /* of a list: elements begun; of a message: where name_find goes on */
    uint8_t message;           /* enum message; of a list: none */
    bool list;
    uint16_t value_depth; /* messages of an attribute value, from its AnyValue down to here */
};

struct transcode {
    struct json_reader in;
    struct wire_writer w;
    struct budget *budget;
    struct error *e;
    uint32_t depth;              /* limits->depth */
    enum profiles_layout layout; /* whose names and numbers these are */
    enum profiles_layout older;  /* after OLDER: a layout it is at most of */
    uint32_t unknown_fields;
    uint32_t n_frames;
    struct frame frames[JSON_DEPTH_MAX]; /* each is a container the reader has open */
};

/* walk's word for "of an older layout than we take it for": never leaves this file. */
enum { OLDER = PROFILES_TOO_LARGE + 1 };

/* ---- errors ----------------------------------------------------------------------------------- */

#define PATH_MAX_BYTES 320u /* leaves room in struct error for the words */

static void put_path(const struct transcode *t, char *path)
{
    struct buffer out = {.p = (uint8_t *)path, .cap = PATH_MAX_BYTES, .max = PATH_MAX_BYTES};
    int r = 0;
    for (uint32_t i = 0; i < t->n_frames && r == 0; i++) {
        const struct frame *f = &t->frames[i];
        if (f->list)
            r = buffer_printf(&out, "[%u]", f->items > 0 ? f->items - 1 : 0);
        else if (f->field)
            r = buffer_printf(&out, "%s%.*s", i > 0 ? "." : "", BYTES_FMT(f->field->json));
    }
    path[min_of(out.n, (size_t)PATH_MAX_BYTES - 1)] = '\0';
}

static int fail(struct transcode *t, int r, size_t at, const char *what)
{
    char path[PATH_MAX_BYTES];
    put_path(t, path);
    return error_set(t->e, r, "%s%s%s at byte %zu", path, path[0] ? ": " : "", what, at);
}

static int malformed(struct transcode *t, const struct json_token *token, const char *what)
{
    return fail(t, PROFILES_MALFORMED, token->at, what);
}

static int bad_json(struct transcode *t)
{
    return fail(t, PROFILES_MALFORMED, (size_t)(t->in.p - t->in.start), t->in.wrong);
}

/* ---- room ------------------------------------------------------------------------------------- */

/* The most one field or the end of a message takes besides the bytes of a string: what wire_put_uint asks
 * for. */
#define FIELD_ROOM (2 * WIRE_VARINT_MAX + 8)

/* The writer itself never grows the buffer, whose capacity is on the budget. */
static inline int room(struct transcode *t, size_t more)
{
    const struct buffer *b = t->w.out;
    if (likely(b->p && more <= b->cap - b->n))
        return 0;
    if (buffer_is_short_of(b, more))
        return PROFILES_TOO_LARGE;
    const int r = room_make(t->w.out, more, t->budget);
    return r == ROOM_OVER_BUDGET ? PROFILES_OVER_BUDGET : r;
}

/* ---- containers ------------------------------------------------------------------------------- */

/* A message is the inside of a length-delimited field, and so is a list of numbers: packed. */
static bool is_packed(const struct field *f)
{
    return f->type <= FIELD_DOUBLE;
}

static int open_message(struct transcode *t, const struct field *field, const struct json_token *token)
{
    const struct frame *parent = &t->frames[t->n_frames - 1];
    uint32_t value_depth = parent->value_depth;
    value_depth += value_depth > 0 || field->message == MESSAGE_ANY_VALUE;
    if (value_depth > t->depth)
        return malformed(t, token, "an attribute value is nested too deep");
    int r = room(t, 2 * FIELD_ROOM);
    if (r != 0)
        return r;
    t->frames[t->n_frames++] = (struct frame){.mark = wire_begin(&t->w, name_number(t->layout, field)),
                                              .message = field->message,
                                              .value_depth = (uint16_t)value_depth};
    return 0;
}

static int open_list(struct transcode *t, const struct field *field, const struct json_token *token)
{
    if (token->kind != JSON_LIST)
        return malformed(t, token, "not a list");
    int r = room(t, FIELD_ROOM);
    if (r != 0)
        return r;
    uint16_t value_depth = t->frames[t->n_frames - 1].value_depth;
    t->frames[t->n_frames++] =
        (struct frame){.field = field,
                       .list = true,
                       .mark = is_packed(field) ? wire_begin(&t->w, name_number(t->layout, field)) : NO_MARK,
                       .value_depth = value_depth};
    return 0;
}

static int close_frame(struct transcode *t)
{
    const struct frame *f = &t->frames[--t->n_frames];
    if (f->mark == NO_MARK)
        return 0;
    int r = room(t, FIELD_ROOM);
    if (r == 0)
        wire_end(&t->w, f->mark);
    return r;
}

/* ---- scalars ---------------------------------------------------------------------------------- */

#define NUMBER_IN_STRING_MAX \
    64u /* "1\u0030" is a number too, if a strange one; longer than this it is none */

/* The characters of a number, which may be in a string. */
static bool number_text(const struct json_token *token, uint8_t *unescaped, struct bytes *ret)
{
    *ret = token->text;
    if (token->kind == JSON_STRING && token->escaped) {
        if (token->text.n > NUMBER_IN_STRING_MAX)
            return false;
        *ret = bytes_of(unescaped, json_unescape(token->text, unescaped));
    }
    return token->kind == JSON_NUMBER || token->kind == JSON_STRING;
}

static int bad_number(struct transcode *t, const struct json_token *token, int condition)
{
    const char *what = condition == JSON_OUT_OF_RANGE   ? "a number out of range"
                       : condition == JSON_NOT_INTEGRAL ? "not an integer"
                                                        : "not a number";
    return malformed(t, token, what);
}

static int read_integer(enum field_type type, struct bytes text, uint64_t *ret)
{
    int64_t v = 0;
    int r;
    if (type == FIELD_UINT64 || type == FIELD_FIXED64 || type == FIELD_UINT32) {
        r = json_read_uint64(text, ret);
        return r == 0 && type == FIELD_UINT32 && *ret > UINT32_MAX ? JSON_OUT_OF_RANGE : r;
    }
    r = json_read_int64(text, &v);
    if (r == 0 && type == FIELD_INT32 && (v < INT32_MIN || v > INT32_MAX))
        r = JSON_OUT_OF_RANGE;
    *ret = (uint64_t)v; /* a negative int32 has ten bytes too (protobuf.dev, "Encoding") */
    return r;
}

static int read_double(const struct json_token *token, struct bytes text, uint64_t *ret)
{
    double v = 0;
    int r = 0;
    if (token->kind == JSON_STRING && bytes_is(text, "NaN"))
        v = __builtin_nan("");
    else if (token->kind == JSON_STRING && bytes_is(text, "Infinity"))
        v = __builtin_inf();
    else if (token->kind == JSON_STRING && bytes_is(text, "-Infinity"))
        v = -__builtin_inf();
    else
        r = json_read_double(text, &v);
    memcpy(ret, &v, sizeof v);
    return r;
}

static void put_word(struct transcode *t, const struct field *f, bool in_list, uint64_t v)
{
    if (f->type != FIELD_FIXED64 && f->type != FIELD_DOUBLE) {
        if (in_list)
            wire_put_varint(&t->w, v);
        else
            wire_put_uint(&t->w, name_number(t->layout, f), v);
    } else if (!in_list) {
        wire_put_fixed64(&t->w, name_number(t->layout, f), v);
    } else {
        uint8_t le[8];
        for (int i = 0; i < 8; i++)
            le[i] = (uint8_t)(v >> (8 * i));
        wire_put_raw(&t->w, bytes_of(le, sizeof le));
    }
}

static int put_number(struct transcode *t, const struct field *f, const struct json_token *token,
                      bool in_list)
{
    uint8_t unescaped[NUMBER_IN_STRING_MAX];
    struct bytes text;
    uint64_t v = 0;
    int r = JSON_NOT_A_NUMBER;
    if (f->type == FIELD_BOOL) {
        if (token->kind != JSON_TRUE && token->kind != JSON_FALSE)
            return malformed(t, token, "neither true nor false");
        v = token->kind == JSON_TRUE;
        r = 0;
    } else if (number_text(token, unescaped, &text)) {
        r = f->type == FIELD_DOUBLE ? read_double(token, text, &v) : read_integer(f->type, text, &v);
    }
    if (r != 0)
        return bad_number(t, token, r);
    r = room(t, FIELD_ROOM);
    if (r == 0)
        put_word(t, f, in_list, v);
    return r;
}

#define TRACE_ID_BYTES   16u
#define SPAN_ID_BYTES    8u
#define PROFILE_ID_BYTES 16u

/* What is wrong with the text of a bytes field, or NULL; then it is decoded in place. */
static const char *decode_bytes(enum field_type type, uint8_t *p, size_t *n)
{
    if (*n == 0)
        return NULL; /* an id that is not set */
    switch (type) {
    case FIELD_TRACE_ID:
        return *n == 2 * TRACE_ID_BYTES && json_hex(p, n) ? NULL : "not 32 hexadecimal digits";
    case FIELD_SPAN_ID: return *n == 2 * SPAN_ID_BYTES && json_hex(p, n) ? NULL : "not 16 hexadecimal digits";
    case FIELD_PROFILE_ID: /* hex as the Collector writes it, base64 as the specification says: 22 and "==" */
        if (*n == 2 * PROFILE_ID_BYTES ? json_hex(p, n) : json_base64(p, n) && *n == PROFILE_ID_BYTES)
            return NULL;
        return "not 16 bytes in hex or base64";
    default: return json_base64(p, n) ? NULL : "not base64";
    }
}

static int put_text(struct transcode *t, const struct field *f, const struct json_token *token)
{
    if (token->kind != JSON_STRING)
        return malformed(t, token, "not a string");
    int r = room(t, FIELD_ROOM + token->text.n);
    if (r != 0)
        return r;
    if (f->type == FIELD_STRING && !token->escaped) {
        wire_put_bytes(&t->w, name_number(t->layout, f), token->text);
        return 0;
    }
    struct buffer *out = t->w.out;
    size_t mark = wire_begin(&t->w, name_number(t->layout, f)), n = token->text.n;
    uint8_t *p = out->p + out->n;
    if (token->escaped)
        n = json_unescape(token->text, p);
    else if (n > 0)
        memcpy(p, token->text.p, n);
    const char *wrong = f->type == FIELD_STRING ? NULL : decode_bytes(f->type, p, &n);
    if (wrong)
        return malformed(t, token, wrong);
    out->n += n;
    wire_end(&t->w, mark);
    return 0;
}

/* ---- the walk --------------------------------------------------------------------------------- */

static int put_value(struct transcode *t, const struct field *f, const struct json_token *token, bool in_list)
{
    if (token->kind == JSON_NULL) /* ProtoJSON: any field may be null, no element of a list may */
        return in_list ? malformed(t, token, "null in a list") : 0;
    if (f->message == MESSAGE_VALUE_TYPE && !f->repeated && token->kind == JSON_LIST &&
        t->layout > PROFILES_LAYOUT_1_7) { /* sampleType was a list up to 1.7 */
        t->older = PROFILES_LAYOUT_1_7;
        return OLDER;
    }
    if (f->repeated && !in_list)
        return open_list(t, f, token);
    if (f->type == FIELD_MESSAGE)
        return token->kind == JSON_OBJECT ? open_message(t, f, token) : malformed(t, token, "not an object");
    return is_packed(f) ? put_number(t, f, token, in_list) : put_text(t, f, token);
}

#define KEY_ESCAPED_MAX 160u /* the longest key of ours, 26 characters, with every one as \uXXXX */

/* The field of a key, or NULL for one that is not ours; *ret_layout as name_find says. */
static const struct field *find_field(const struct transcode *t, struct frame *f,
                                      const struct json_token *token, enum profiles_layout *ret_layout)
{
    uint8_t plain[KEY_ESCAPED_MAX];
    struct bytes key = token->text;
    if (token->escaped) {
        if (key.n > KEY_ESCAPED_MAX)
            return NULL;
        key = bytes_of(plain, json_unescape(key, plain));
    }
    return name_find(t->layout, (enum message)f->message, key, &f->items, ret_layout);
}

/* One member of an object, or its end. */
static int step_message(struct transcode *t, struct frame *f, struct json_token *token)
{
    if (token->kind == JSON_OBJECT_END)
        return close_frame(t);
    enum profiles_layout layout = t->layout;
    f->field = find_field(t, f, token, &layout);
    if (json_next(&t->in, token) != 0)
        return bad_json(t);
    if (f->field && layout != t->layout &&
        token->kind != JSON_NULL) { /* a still older one each time: this ends */
        t->older = layout;
        return OLDER;
    }
    if (f->field)
        return put_value(t, f->field, token, false);
    /* of an older layout, and of no use: UNKNOWN; null: an absent field */
    t->unknown_fields += layout == t->layout && token->kind != JSON_NULL;
    return json_skip(&t->in, token->kind) != 0 ? bad_json(t) : 0;
}

static int step_list(struct transcode *t, struct frame *f, const struct json_token *token)
{
    if (token->kind == JSON_LIST_END)
        return close_frame(t);
    f->items++;
    return put_value(t, f->field, token, true);
}

static int walk(struct transcode *t)
{
    struct json_token token;
    if (json_next(&t->in, &token) != 0)
        return bad_json(t);
    if (token.kind != JSON_OBJECT)
        return malformed(t, &token, "the request is not an object");
    t->frames[t->n_frames++] = (struct frame){.mark = NO_MARK, .message = MESSAGE_REQUEST};
    while (t->n_frames > 0) {
        struct frame *f = &t->frames[t->n_frames - 1];
        if (!f->list)
            f->field = NULL;
        if (json_next(&t->in, &token) != 0)
            return bad_json(t);
        int r = f->list ? step_list(t, f, &token) : step_message(t, f, &token);
        if (r != 0)
            return r;
    }
    if (json_next(&t->in, &token) != 0)
        return bad_json(t);
    int r = room(t, PROFILES_PADDING);
    if (r == 0)
        memset(t->w.out->p + t->w.out->n, 0, PROFILES_PADDING);
    return r;
}

/* A request of the eBPF profiler is 3.2 times as long in JSON without blanks. */
#define JSON_PER_BYTE 3

/* Once as the newest; then, when a key tells, as an older one, which another key may tell is older still:
 * each time from the beginning, at most four times. */
static int walk_layouts(struct transcode *t, struct bytes json)
{
    const size_t n = t->w.out->n;
    t->layout = PROFILES_LAYOUT_1_10;
    for (;;) {
        t->in = json_reader(json);
        t->n_frames = t->unknown_fields = 0;
        int r = walk(t);
        if (r == 0)
            r = t->w.failed;
        if (r != 0)
            t->w.out->n = n;
        if (r != OLDER)
            return r;
        assert(t->older < t->layout);
        t->layout = t->older;
    }
}

int profiles_json_transcode(struct bytes json, const struct profiles_limits *limits, struct budget *budget,
                            struct buffer *out, struct profiles_written *ret, struct error *e)
{
    struct transcode t;
    size_t guess = json.n / JSON_PER_BYTE + FIELD_ROOM + PROFILES_PADDING;
    t.w = wire_writer(out);
    t.budget = budget;
    t.e = e;
    t.depth = min_of(limits->depth, WIRE_DEPTH_MAX);
    if (out->max == 0 || guess <= out->max - out->n)
        room(&t, guess); /* when this is refused, less may do */
    int r = walk_layouts(&t, json);
    if (r == PROFILES_OVER_BUDGET)
        error_set(e, 0, "memory for the request, written as protobuf, is short");
    if (r == 0)
        *ret = (struct profiles_written){t.layout, t.unknown_fields};
    return r;
}
