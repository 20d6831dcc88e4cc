/* SPDX-License-Identifier: Apache-2.0 */
/* A walk with a stack of the messages that are open. The other way is write.c's. */
#include "proto/otlp/json/mapping.h"

#include <string.h>

#include "proto/otlp/json/reader.h"
#include "proto/otlp/json/value.h"
#include "proto/wire/writer.h"

void mapping_name(const struct mapping_field *f, char ret[MAPPING_NAME_MAX])
{
    size_t n = 0;
    for (const char *name = f->name; *name && n < MAPPING_NAME_MAX - 1; name++) {
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
    char name[MAPPING_NAME_MAX];
    for (uint32_t i = 0; i < m->n; i++) {
        mapping_name(&m->fields[i], name);
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
    if (f->kind == FIELD_BYTES && !json_base64(at, &n))
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
    if (f->kind == FIELD_DOUBLE) {
        if (!is_text || json_read_double(t->text, &real) != 0)
            return wrong(r, "a number belongs here");
        wire_put_double(&r->w, f->number, real);
        return 0;
    }
    for (uint32_t i = 0; f->kind == FIELD_ENUM && t->kind == JSON_STRING && f->words[i]; i++)
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
    case FIELD_MESSAGE:
        if (t->kind != JSON_OBJECT)
            return wrong(r, "an object belongs here");
        r->open[++r->depth] =
            (__typeof__(r->open[0])){.message = f->message, .mark = wire_begin(&r->w, f->number)};
        return 0;
    case FIELD_BOOL:
        if (t->kind != JSON_TRUE && t->kind != JSON_FALSE)
            return wrong(r, "true or false belongs here");
        wire_put_uint(&r->w, f->number, t->kind == JSON_TRUE);
        return 0;
    case FIELD_STRING:
    case FIELD_BYTES: return put_text(r, f, t);
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
