/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Protobuf to JSON, row by row of the table: JSON wants all elements of a list together and protobuf lets
 * them lie anywhere, so each message is looked through once for every row that its table has, and what is
 * found of a row is written as it comes. Messages are short or flat (a lookup steps over nested ones), so
 * that costs little; in return nothing is collected. Messages inside messages wait on a stack of frames of
 * fixed size.
 *
 * What cannot be read as it comes is looked at beforehand: a field that is no list counts as it is said last
 * (and of a oneof only the member said last), and a message said several times is one, its parts joined in
 * `merged`.
 */
#include "proto/otlp/json/write.h"

#include <errno.h>
#include <string.h>

#include "proto/base/arena.h"
#include "proto/otlp/json/mapping.h"
#include "proto/otlp/json/text.h"
#include "proto/wire/reader.h"

#define FRAMES_MAX (WIRE_DEPTH_MAX + 16u) /* attribute values nest so far, below a request's own messages */

struct frame {
    struct bytes message;
    struct fields table;
    const struct mapping_message *mapping; /* in place of a table, of others' messages */
    struct wire_reader at;                 /* where the row's next field is looked for */
    uint32_t row, items;                   /* items: of the row, written so far */
    uint32_t only;                         /* of a oneof: the number of the member that counts; 0: all do */
};

struct writing {
    struct json *json;
    struct arena merged;
    size_t may_merge; /* bytes */
    uint32_t n_frames;
    struct frame frames[FRAMES_MAX];
};

/* We write what the view reads, the newest layout. */
static uint32_t number_of(const struct field *f)
{
    return f->number[PROFILES_LAYOUT_1_10];
}

static uint32_t rows_of(const struct frame *f)
{
    return f->mapping ? f->mapping->n : f->table.n;
}

/* Of others' messages as one of ours, in `room`. */
static const struct field *row_of(const struct frame *f, struct field *room)
{
    if (!f->mapping)
        return &f->table.row[f->row];
    const struct mapping_field *m = &f->mapping->fields[f->row];
    *room = (struct field){.number[PROFILES_LAYOUT_1_10] = (uint8_t)m->number,
                           .type = (uint8_t)m->kind,
                           .message = (uint8_t)m->ours,
                           .repeated = m->is_repeated};
    return room;
}

static bool is_packed(const struct field *field, const struct wire_field *f)
{
    return field->repeated && f->type == WIRE_LEN && field_wire(field) != WIRE_LEN;
}

/* The next field of that row: 0, WIRE_END, WIRE_MALFORMED. One of another wire type is none of ours. */
static int next_of(struct wire_reader *at, const struct field *field, struct wire_field *ret)
{
    int r;
    while ((r = wire_next(at, ret)) == 0)
        if (ret->number == number_of(field) && (ret->type == field_wire(field) || is_packed(field, ret)))
            break;
    return r;
}

/* ---- scalars ---- */

static void put_number(struct json *j, enum field_type type, uint64_t v)
{
    double d;
    switch (type) {
    case FIELD_ENUM:
    case FIELD_INT32: json_i64(j, (int32_t)v); break;
    case FIELD_UINT32: json_u64(j, (uint32_t)v); break;
    case FIELD_SFIXED64:
    case FIELD_INT64: json_quoted_i64(j, (int64_t)v); break;
    case FIELD_BOOL: json_bool(j, v != 0); break;
    case FIELD_DOUBLE:
        memcpy(&d, &v, sizeof d);
        json_double(j, d);
        break;
    default: json_quoted_u64(j, v); break;
    }
}

static void put_text(struct json *j, enum field_type type, struct bytes v)
{
    if (type == FIELD_STRING)
        json_string(j, v);
    else if (type == FIELD_BYTES)
        json_put_base64(j, v);
    else
        json_put_hex(j, v);
}

/* Of others' messages, by name. */
static void put_word(struct json *j, const char *const *words, uint64_t v)
{
    uint64_t word = 0;
    while (word < v && words[word])
        word++;
    if (words[word])
        json_string(j, bytes_str(words[word]));
    else
        json_i64(j, (int64_t)v);
}

/* In front of a row's first element: the key. */
static void put_before(struct json *j, struct frame *f, const struct field *field)
{
    char name[MAPPING_NAME_MAX];
    if (f->items++ > 0)
        return;
    if (f->mapping)
        mapping_name(&f->mapping->fields[f->row], name), json_key(j, name);
    else
        json_string_key(j, field->json);
    if (field->repeated)
        json_open(j, '[');
}

/* A field of numbers: one, or a packed list. */
static int put_numbers(struct writing *w, struct frame *f, const struct field *field,
                       const struct wire_field *from)
{
    struct wire_rest rest = {0};
    uint64_t v;
    int r;
    while ((r = wire_next_repeated(from, field_wire(field), &rest, &v)) == 0) {
        put_before(w->json, f, field);
        if (f->mapping && field->type == FIELD_ENUM)
            put_word(w->json, f->mapping->fields[f->row].words, v);
        else
            put_number(w->json, (enum field_type)field->type, v);
    }
    return r == WIRE_END ? w->json->r : PROFILES_MALFORMED;
}

/* ---- messages ---- */

/* The member that a oneof was given last: its number, or 0. */
static uint32_t last_member(struct bytes message, struct fields table)
{
    struct wire_reader at = wire_reader(message);
    struct wire_field f;
    uint32_t last = 0;
    while (wire_next(&at, &f) == 0)
        for (uint32_t i = 0; i < table.n; i++)
            if (number_of(&table.row[i]) == f.number && field_wire(&table.row[i]) == f.type)
                last = f.number;
    return last;
}

static int open_frame(struct writing *w, struct frame frame)
{
    if (w->n_frames == FRAMES_MAX)
        return PROFILES_MALFORMED;
    frame.at = wire_reader(frame.message);
    w->frames[w->n_frames++] = frame;
    json_open(w->json, '{');
    return w->json->r;
}

static int open_message(struct writing *w, enum message message, struct bytes bytes)
{
    const struct fields table = fields_of(message);
    const uint32_t only = message == MESSAGE_ANY_VALUE ? last_member(bytes, table) : 0;
    return open_frame(w, (struct frame){.message = bytes, .table = table, .only = only});
}

static int open_mapping(struct writing *w, const struct mapping_message *mapping, struct bytes bytes)
{
    return open_frame(w, (struct frame){.message = bytes, .mapping = mapping});
}

/* The parts of a message that a field says several times, `n` bytes in all, one behind the other. They are no
 * more than the request was long: only made-up ones are said in parts within parts. 0, -ENOMEM,
 * PROFILES_MALFORMED. */
static int merge(struct writing *w, struct wire_reader at, const struct field *field, size_t n,
                 struct bytes *ret)
{
    struct wire_field f;
    size_t done = 0;
    if (n > w->may_merge)
        return PROFILES_MALFORMED;
    w->may_merge -= n;
    uint8_t *p = arena_alloc(&w->merged, n);
    if (!p)
        return -ENOMEM;
    while (next_of(&at, field, &f) == 0) {
        memcpy(p + done, f.bytes.p, f.bytes.n);
        done += f.bytes.n;
    }
    *ret = bytes_of(p, n);
    return 0;
}

/* What a field that is no list says in the end: of scalars the last value, of messages all parts. *f is its
 * first field, which ends where `at` is, and the last one in the end. 0, -ENOMEM, PROFILES_MALFORMED. */
static int settle(struct writing *w, struct wire_reader *at, const struct field *field, struct wire_field *f)
{
    const struct wire_reader first = {f->from, at->end};
    struct wire_field more;
    size_t n = f->bytes.n;
    uint32_t parts = 1;
    int r;
    for (; (r = next_of(at, field, &more)) == 0; parts++) {
        *f = more;
        if (field->type == FIELD_MESSAGE)
            n += more.bytes.n;
    }
    if (r != WIRE_END)
        return PROFILES_MALFORMED;
    return parts > 1 && field->type == FIELD_MESSAGE ? merge(w, first, field, n, &f->bytes) : 0;
}

static int next_row(struct writing *w, struct frame *f, const struct field *field)
{
    if (field->repeated && f->items > 0)
        json_close(w->json, ']');
    f->row++;
    f->items = 0;
    f->at = wire_reader(f->message);
    return w->json->r;
}

/* The next thing of the innermost message: an element, the end of a row, or its own end. */
static int step(struct writing *w)
{
    struct frame *f = &w->frames[w->n_frames - 1];
    if (f->row == rows_of(f)) {
        w->n_frames--;
        json_close(w->json, '}');
        return w->json->r;
    }
    struct field room;
    const struct field *field = row_of(f, &room);
    struct wire_field found;
    bool counts = number_of(field) > 0 && (f->only == 0 || f->only == number_of(field));
    int r = counts ? next_of(&f->at, field, &found) : WIRE_END;
    if (r == WIRE_END)
        return next_row(w, f, field);
    if (r == 0 && !field->repeated)
        r = settle(w, &f->at, field, &found);
    if (r != 0)
        return r < 0 ? r : PROFILES_MALFORMED;
    if (field_wire(field) != WIRE_LEN)
        return put_numbers(w, f, field, &found);
    put_before(w->json, f, field);
    if (field->type == FIELD_MESSAGE) {
        const struct mapping_message *mapping = f->mapping ? f->mapping->fields[f->row].message : NULL;
        return mapping ? open_mapping(w, mapping, found.bytes)
                       : open_message(w, (enum message)field->message, found.bytes);
    }
    put_text(w->json, (enum field_type)field->type, found.bytes);
    return w->json->r;
}

/* What a beginning has opened. */
static int finish(struct writing *w, int r)
{
    while (r == 0 && w->n_frames > 0)
        r = step(w);
    arena_release(&w->merged);
    return r;
}

_Static_assert((int)MAPPING_MALFORMED == (int)PROFILES_MALFORMED, "what finish says is said on");

int mapping_write(const struct mapping_message *m, struct bytes message, struct json *j)
{
    struct writing w = {.json = j, .may_merge = message.n};
    return finish(&w, open_mapping(&w, m, message));
}

int profiles_json_write(struct bytes body, struct buffer *out)
{
    struct json j = JSON_INIT(out);
    struct writing w = {.json = &j, .may_merge = body.n};
    int r = finish(&w, open_message(&w, MESSAGE_REQUEST, body));
    if (r == 0)
        r = buffer_add_str(out, "\n");
    if (r != 0)
        out->n = j.from;
    return r;
}
