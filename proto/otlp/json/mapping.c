/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Both ways walk with a stack of the messages that are open. Fields of one number need not stand together in
 * protobuf, but the elements of a list do in JSON: a message is looked through once for each of its fields.
 */
#include "proto/otlp/json/mapping.h"

#include <string.h>

#include "proto/otlp/json/reader.h"
#include "proto/otlp/json/value.h"
#include "proto/wire/reader.h"
#include "proto/wire/writer.h"

#define NAME_MAX_ 64u

/* profile_typeID is profileTypeID. */
static void name_in_json(const char *name, char ret[NAME_MAX_])
{
    size_t n = 0;
    for (; *name && n < NAME_MAX_ - 1; name++) {
        const bool is_new = *name == '_' && name[1];
        name += is_new;
        ret[n++] = is_new && *name >= 'a' && *name <= 'z' ? (char)(*name - 'a' + 'A') : *name;
    }
    ret[n] = 0;
}

/* ---- from JSON ----------------------------------------------------------------------------- */

struct reading {
    struct json_reader json;
    struct wire_writer w;
    struct error *e;
    uint32_t depth; /* of the innermost message that is open */
    struct {
        const struct mapping_message *message;
        const struct mapping_field *list; /* that is open in it; NULL: none */
        size_t mark;
    } open[MAPPING_DEPTH_MAX];
};

static int wrong(struct reading *r, const char *what)
{
    return error_set(r->e, MAPPING_MALFORMED, "%s at byte %zu", what, (size_t)(r->json.p - r->json.start));
}

static int next(struct reading *r, struct json_token *ret)
{
    return json_next(&r->json, ret) == 0 ? 0 : wrong(r, r->json.wrong);
}

static const struct mapping_field *field_of(const struct mapping_message *m, struct bytes key)
{
    char name[NAME_MAX_];
    for (uint32_t i = 0; i < m->n; i++) {
        name_in_json(m->fields[i].name, name);
        if (bytes_is(key, name) || bytes_is(key, m->fields[i].name))
            return &m->fields[i];
    }
    return NULL;
}

static int put_text(struct reading *r, const struct mapping_field *f, const struct json_token *t)
{
    if (t->kind != JSON_STRING)
        return wrong(r, "a string belongs here");
    const size_t mark = wire_begin(&r->w, f->number);
    uint8_t *at = wire_room(&r->w, t->text.n);
    if (!at)
        return r->w.failed;
    size_t n = json_unescape(t->text, at);
    if (f->kind == MAPPING_BYTES && !json_base64(at, &n))
        return wrong(r, "no base64");
    wire_filled(&r->w, at + n);
    wire_end(&r->w, mark);
    return 0;
}

static int put_number(struct reading *r, const struct mapping_field *f, const struct json_token *t)
{
    int64_t value = -1;
    double real;
    const bool is_text = t->kind == JSON_NUMBER || (t->kind == JSON_STRING && !t->escaped);
    if (f->kind == MAPPING_DOUBLE) {
        if (!is_text || json_read_double(t->text, &real) != 0)
            return wrong(r, "a number belongs here");
        wire_put_double(&r->w, f->number, real);
        return 0;
    }
    for (uint32_t i = 0; f->kind == MAPPING_ENUM && t->kind == JSON_STRING && f->words[i]; i++)
        if (bytes_is(t->text, f->words[i]))
            value = (int64_t)i;
    if (value < 0 && (!is_text || json_read_int64(t->text, &value) != 0))
        return wrong(r, "a whole number belongs here");
    wire_put_int(&r->w, f->number, value);
    return 0;
}

static int put_value(struct reading *r, const struct mapping_field *f, const struct json_token *t)
{
    switch (f->kind) {
    case MAPPING_MESSAGE:
        if (t->kind != JSON_OBJECT)
            return wrong(r, "an object belongs here");
        r->open[++r->depth] =
            (__typeof__(r->open[0])){.message = f->message, .mark = wire_begin(&r->w, f->number)};
        return 0;
    case MAPPING_BOOL:
        if (t->kind != JSON_TRUE && t->kind != JSON_FALSE)
            return wrong(r, "true or false belongs here");
        wire_put_uint(&r->w, f->number, t->kind == JSON_TRUE);
        return 0;
    case MAPPING_STRING:
    case MAPPING_BYTES: return put_text(r, f, t);
    default: return put_number(r, f, t);
    }
}

/* The value of a key. */
static int put_member(struct reading *r, struct bytes key)
{
    const struct mapping_field *f = field_of(r->open[r->depth].message, key);
    struct json_token t;
    int result = next(r, &t);
    if (result != 0 || t.kind == JSON_NULL)
        return result;
    if (!f)
        return json_skip(&r->json, t.kind) == 0 ? 0 : wrong(r, r->json.wrong);
    if (!f->is_repeated)
        return put_value(r, f, &t);
    r->open[r->depth].list = f;
    return t.kind == JSON_LIST ? 0 : wrong(r, "a list belongs here");
}

static int put_all(struct reading *r)
{
    struct json_token t;
    int result = next(r, &t);
    if (result == 0 && t.kind != JSON_OBJECT)
        return wrong(r, "an object belongs here");
    while (result == 0 && (result = next(r, &t)) == 0) {
        __typeof__(&r->open[0]) open = &r->open[r->depth];
        if (open->list && t.kind == JSON_LIST_END)
            open->list = NULL;
        else if (open->list)
            result = put_value(r, open->list, &t);
        else if (t.kind == JSON_KEY)
            result = put_member(r, t.text);
        else if (r->depth-- > 0)
            wire_end(&r->w, open->mark);
        else
            break;
    }
    if (result == 0)
        result = next(r, &t);
    return result != 0 || t.kind == JSON_END ? result : wrong(r, "there is something behind the message");
}

int mapping_read(const struct mapping_message *m, struct bytes json, struct buffer *out, struct error *e)
{
    struct reading r = {.json = json_reader(json), .w = wire_writer(out), .e = e, .open = {{.message = m}}};
    int result = put_all(&r);
    return result == 0 ? r.w.failed : result;
}

/* ---- to JSON ------------------------------------------------------------------------------- */

struct writing {
    struct json *j;
    uint32_t depth;
    struct {
        const struct mapping_message *message;
        struct bytes bytes;
        struct wire_reader reader;
        uint32_t field; /* of the table, that is looked for */
        bool is_begun;  /* it was found: its key is there */
    } open[MAPPING_DEPTH_MAX];
};

static void open_message(struct writing *w, uint32_t depth, const struct mapping_message *m,
                         struct bytes bytes)
{
    w->depth = depth;
    w->open[depth] = (__typeof__(w->open[0])){.message = m, .bytes = bytes, .reader = wire_reader(bytes)};
    json_open(w->j, '{');
}

static int put_scalar(struct writing *w, const struct mapping_field *f, uint64_t value)
{
    double real;
    uint32_t word = 0;
    switch (f->kind) {
    case MAPPING_INT64: json_quoted_i64(w->j, (int64_t)value); break;
    case MAPPING_INT32: json_i64(w->j, (int64_t)value); break;
    case MAPPING_BOOL: json_bool(w->j, value != 0); break;
    case MAPPING_ENUM:
        while (word < value && f->words[word])
            word++;
        if (word == value && f->words[word])
            json_string(w->j, bytes_str(f->words[word]));
        else
            json_i64(w->j, (int64_t)value);
        break;
    default: memcpy(&real, &value, sizeof real); json_double(w->j, real);
    }
    return 0;
}

/* Bytes are written by nobody yet: our answers have none. */
static int put_found(struct writing *w, const struct mapping_field *f, const struct wire_field *found)
{
    const enum wire_type single = f->kind == MAPPING_DOUBLE ? WIRE_I64 : WIRE_VARINT;
    struct wire_rest rest = {0};
    uint64_t value;
    int result;
    switch (f->kind) {
    case MAPPING_MESSAGE:
        if (found->type != WIRE_LEN)
            return MAPPING_MALFORMED;
        open_message(w, w->depth + 1, f->message, found->bytes);
        return 0;
    case MAPPING_STRING:
        if (found->type != WIRE_LEN)
            return MAPPING_MALFORMED;
        json_string(w->j, found->bytes);
        return 0;
    case MAPPING_BYTES: return MAPPING_MALFORMED;
    default:
        while ((result = wire_next_repeated(found, single, &rest, &value)) == 0)
            put_scalar(w, f, value);
        return result == WIRE_END ? 0 : MAPPING_MALFORMED;
    }
}

/* The next field that has the number; 0, WIRE_END or WIRE_MALFORMED. */
static int find(struct wire_reader *r, uint32_t number, struct wire_field *ret)
{
    int result;
    while ((result = wire_next(r, ret)) == 0 && ret->number != number)
        ;
    return result;
}

int mapping_write(const struct mapping_message *m, struct bytes message, struct json *j)
{
    struct writing w = {.j = j};
    char name[NAME_MAX_];
    open_message(&w, 0, m, message);
    for (int result = 0; result == 0 && j->r == 0;) {
        __typeof__(&w.open[0]) open = &w.open[w.depth];
        if (open->field == open->message->n) {
            json_close(j, '}');
            if (w.depth-- == 0)
                return j->r;
            continue;
        }
        const struct mapping_field *f = &open->message->fields[open->field];
        struct wire_field found;
        result = find(&open->reader, f->number, &found);
        if (result == WIRE_END) {
            if (open->is_begun && f->is_repeated)
                json_close(j, ']');
            open->field++;
            open->is_begun = false;
            open->reader = wire_reader(open->bytes);
            result = 0;
            continue;
        }
        if (result == 0 && !open->is_begun) {
            name_in_json(f->name, name);
            json_key(j, name);
            if (f->is_repeated)
                json_open(j, '[');
            open->is_begun = true;
        }
        result = result == 0 ? put_found(&w, f, &found) : MAPPING_MALFORMED;
        if (result != 0)
            return result;
    }
    return j->r;
}
