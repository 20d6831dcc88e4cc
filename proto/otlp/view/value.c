/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/otlp/view/value.h"

#include <inttypes.h>

#include "proto/otlp/layouts/fields.h"
#include "proto/otlp/view/decode.h"

/* clang-format off */
static const struct wire_known any_value[] = {
    {ANY_VALUE_STRING_VALUE, WIRE_LEN, -1}, {ANY_VALUE_BOOL_VALUE, WIRE_VARINT, -1}, {ANY_VALUE_INT_VALUE, WIRE_VARINT, -1},
    {ANY_VALUE_DOUBLE_VALUE, WIRE_I64, -1}, {ANY_VALUE_ARRAY_VALUE, WIRE_LEN, SHAPE_ARRAY}, {ANY_VALUE_KVLIST_VALUE, WIRE_LEN, SHAPE_KVLIST},
    {ANY_VALUE_BYTES_VALUE, WIRE_LEN, -1}, {ANY_VALUE_STRING_VALUE_STRINDEX, WIRE_VARINT, -1},
};
static const struct wire_known array_value[] = {{ARRAY_VALUE_VALUES, WIRE_LEN, SHAPE_ANY_VALUE}};
static const struct wire_known key_value_list[] = {{KEY_VALUE_LIST_VALUES, WIRE_LEN, SHAPE_KEY_VALUE}};
static const struct wire_known key_value[] = {
    {KEY_VALUE_KEY, WIRE_LEN, -1}, {KEY_VALUE_VALUE, WIRE_LEN, SHAPE_ANY_VALUE},
    {KEY_VALUE_KEY_STRINDEX, WIRE_VARINT, -1},
};
static const struct wire_known resource_fields[] = {
    {RESOURCE_ATTRIBUTES, WIRE_LEN, SHAPE_KEY_VALUE}, {RESOURCE_DROPPED_ATTRIBUTES_COUNT, WIRE_VARINT, -1},
    {RESOURCE_ENTITY_REFS, WIRE_LEN, -1},
};
static const struct wire_known scope_fields[] = {
    {SCOPE_NAME, WIRE_LEN, -1}, {SCOPE_VERSION, WIRE_LEN, -1}, {SCOPE_ATTRIBUTES, WIRE_LEN, SHAPE_KEY_VALUE},
    {SCOPE_DROPPED_ATTRIBUTES_COUNT, WIRE_VARINT, -1},
};
/* clang-format on */

const struct wire_shape value_shapes[] = {
    [SHAPE_ANY_VALUE] = {any_value, ARRAY_LEN(any_value)},
    [SHAPE_ARRAY] = {array_value, ARRAY_LEN(array_value)},
    [SHAPE_KVLIST] = {key_value_list, ARRAY_LEN(key_value_list)},
    [SHAPE_KEY_VALUE] = {key_value, ARRAY_LEN(key_value)},
    [SHAPE_RESOURCE] = {resource_fields, ARRAY_LEN(resource_fields)},
    [SHAPE_SCOPE] = {scope_fields, ARRAY_LEN(scope_fields)},
};

/* An array or kvlist member of the oneof: checked, and joined with what an earlier piece of the same member
 * said. */
static int set_list(struct decode *d, struct attr_value *value, enum attr_kind kind, enum value_shape shape,
                    struct bytes list)
{
    /* d->depth counts messages inside one another, and the AnyValue around this one is the first */
    int r = wire_check(list, value_shapes, shape, d->depth - 1);
    if (r == WIRE_TOO_DEEP)
        return decode_malformed(d, list.p, "an attribute value is nested too deep");
    if (r != 0)
        return decode_malformed(d, list.p, "malformed attribute value");
    struct bytes joined = value->kind == kind ? profiles_join(d->p, &d->list, value->text, list) : list;
    if (!joined.p)
        return PROFILES_OVER_BUDGET;
    value->kind = kind;
    value->text = joined;
    return 0;
}

static int set_member(struct decode *d, const struct wire_field *f, struct attr_value *value,
                      uint64_t *reference)
{
    *reference = INDEX_NONE;
    switch (WIRE_TAG(f->number, f->type)) {
    case WIRE_TAG(ANY_VALUE_STRING_VALUE, WIRE_LEN):
        *value = (struct attr_value){.kind = ATTR_STRING, .text = f->bytes};
        return 0;
    case WIRE_TAG(ANY_VALUE_BOOL_VALUE, WIRE_VARINT):
        *value = (struct attr_value){.kind = ATTR_BOOL, .boolean = f->value != 0};
        return 0;
    case WIRE_TAG(ANY_VALUE_INT_VALUE, WIRE_VARINT):
        *value = (struct attr_value){.kind = ATTR_INT, .integer = (int64_t)f->value};
        return 0;
    case WIRE_TAG(ANY_VALUE_DOUBLE_VALUE, WIRE_I64):
        *value = (struct attr_value){.kind = ATTR_DOUBLE};
        memcpy(&value->real, &f->value, sizeof value->real);
        return 0;
    case WIRE_TAG(ANY_VALUE_ARRAY_VALUE, WIRE_LEN):
        return set_list(d, value, ATTR_ARRAY, SHAPE_ARRAY, f->bytes);
    case WIRE_TAG(ANY_VALUE_KVLIST_VALUE, WIRE_LEN):
        return set_list(d, value, ATTR_KVLIST, SHAPE_KVLIST, f->bytes);
    case WIRE_TAG(ANY_VALUE_BYTES_VALUE, WIRE_LEN):
        *value = (struct attr_value){.kind = ATTR_BYTES, .text = f->bytes};
        return 0;
    case WIRE_TAG(ANY_VALUE_STRING_VALUE_STRINDEX, WIRE_VARINT):
        *value = (struct attr_value){.kind = ATTR_STRING};
        *reference = wire_saturate32(f->value); /* so that -1 is not INDEX_NONE */
        return 0;
    default: return decode_wrong_type(d, f, "AnyValue");
    }
}

int decode_any_value(struct decode *d, struct bytes message, struct attr_value *value,
                     uint64_t *ret_reference)
{
    struct wire_reader in = wire_reader(message);
    struct wire_field f;
    int r;
    *ret_reference = INDEX_NONE;
    while ((r = wire_load_next(&in, &f)) == 0) {
        if (f.number > ANY_VALUE_HIGHEST) {
            decode_unknown(d);
            continue;
        }
        r = set_member(d, &f, value, ret_reference);
        if (r != 0)
            return r;
    }
    return r == WIRE_END ? 0 : decode_malformed(d, in.p, "malformed AnyValue");
}

static const struct wire_known *find_known(enum value_shape shape, const struct wire_field *f)
{
    for (uint32_t i = 0; i < value_shapes[shape].n_known; i++)
        if (value_shapes[shape].known[i].number == f->number && value_shapes[shape].known[i].type == f->type)
            return &value_shapes[shape].known[i];
    return NULL;
}

static bool is_reference(enum value_shape shape, uint32_t number)
{
    return (shape == SHAPE_ANY_VALUE && number == ANY_VALUE_STRING_VALUE_STRINDEX) ||
           (shape == SHAPE_KEY_VALUE && number == KEY_VALUE_KEY_STRINDEX);
}

static struct bytes text_of(const struct profiles *p, uint64_t index)
{
    return p && index < p->string.n ? profiles_string(p, (uint32_t)index) : (struct bytes){0};
}

static void write_reference(struct wire_writer *w, const struct profiles *p, enum value_shape shape,
                            uint64_t index)
{
    struct bytes s = text_of(p, index);
    if (shape == SHAPE_ANY_VALUE)
        wire_put_bytes(w, ANY_VALUE_STRING_VALUE, s);
    else if (index != 0) /* 0 is "not set": an inline key beside it stays */
        wire_put_bytes(w, KEY_VALUE_KEY, s);
}

/* What a text takes beside itself, and a message around it more when its length grows with it. */
#define TEXT_HEAD   (1u + WIRE_VARINT_MAX)
#define LENGTH_MORE (WIRE_VARINT_MAX - 1u)

/* The walk the functions below share: over every nested message; w and more may be NULL. Returns whether a
 * reference was met; *more grows by what texts take at most. With neither it stops at the first. */
static bool walk(struct wire_writer *w, size_t *more, const struct profiles *p, struct bytes message,
                 enum value_shape root)
{
    struct {
        const uint8_t *end;
        enum value_shape shape;
        size_t mark;
    } stack[WIRE_DEPTH_MAX + 3]; /* what wire_check admitted, inside the AnyValue of a Resource's KeyValue */
    struct wire_reader in = wire_reader(message);
    bool found = false;
    stack[0].end = in.end;
    stack[0].shape = root;
    for (uint32_t n = 1; n > 0;) {
        struct wire_field f;
        enum value_shape shape = stack[n - 1].shape;
        in.end = stack[n - 1].end;
        if (wire_next(&in, &f) != 0) { /* its end: malformed messages were refused before */
            in.p = in.end;
            n--;
            if (w && n > 0)
                wire_end(w, stack[n].mark);
            continue;
        }
        const struct wire_known *known = find_known(shape, &f);
        if (known && known->shape >= 0 && n < ARRAY_LEN(stack)) {
            in.p = f.bytes.p;
            stack[n].end = f.bytes.p + f.bytes.n;
            stack[n].shape = (enum value_shape)known->shape;
            stack[n].mark = w ? wire_begin(w, f.number) : 0;
            n++;
            if (more)
                *more += LENGTH_MORE;
        } else if (known && is_reference(shape, f.number)) {
            found = true;
            if (!w && !more)
                break;
            if (more)
                *more += TEXT_HEAD + text_of(p, f.value).n;
            else
                write_reference(w, p, shape, f.value);
        } else if (w) {
            wire_put_raw(w, bytes_of(f.from, (size_t)(in.p - f.from)));
        }
    }
    return found;
}

void value_write_inline(struct wire_writer *w, const struct profiles *p, struct bytes message,
                        enum value_shape shape)
{
    walk(w, NULL, p, message, shape);
}

bool value_has_reference(struct bytes message, enum value_shape shape)
{
    return walk(NULL, NULL, NULL, message, shape);
}

/* What the writer wants behind what it writes (proto/wire/writer.h). */
#define WRITER_ROOM ((size_t)2 * WIRE_VARINT_MAX + 1)

int decode_inline(struct decode *d, struct attr_value *value)
{
    struct profiles *p = d->p;
    const uint64_t most = (uint64_t)p->body.n * INLINED_TIMES + INLINED_FREE;
    if (value->kind != ATTR_ARRAY && value->kind != ATTR_KVLIST)
        return 0;
    const enum value_shape shape = value->kind == ATTR_ARRAY ? SHAPE_ARRAY : SHAPE_KVLIST;
    size_t room = value->text.n + WRITER_ROOM;
    if (!walk(NULL, &room, p, value->text, shape))
        return 0;
    d->inlined += room;
    if (d->inlined > most)
        return error_set(d->e, PROFILES_TOO_LARGE,
                         "lists of attributes refer to texts of more than %" PRIu64 " bytes together", most);
    uint8_t *to = arena_alloc(&p->memory->joined, room);
    if (!to)
        return PROFILES_OVER_BUDGET;
    struct buffer out = {.p = to, .cap = room, .max = room}; /* the arena's: it never grows */
    struct wire_writer w = wire_writer(&out);
    value_write_inline(&w, p, value->text, shape);
    value->text = buffer_bytes(&out);
    return w.failed;
}

static void write_list(struct wire_writer *w, const struct profiles *p, uint32_t field, struct bytes list,
                       enum value_shape shape)
{
    if (!value_has_reference(list, shape)) {
        wire_put_bytes(w, field, list);
        return;
    }
    size_t mark = wire_begin(w, field);
    value_write_inline(w, p, list, shape);
    wire_end(w, mark);
}

void value_write(struct wire_writer *w, const struct profiles *p, uint32_t field,
                 const struct attr_value *value)
{
    const size_t mark = value->kind != ATTR_EMPTY ? wire_begin(w, field) : 0;
    switch (value->kind) {
    case ATTR_EMPTY: return;
    case ATTR_STRING: wire_put_bytes(w, ANY_VALUE_STRING_VALUE, value->text); break;
    case ATTR_BOOL: wire_put_uint(w, ANY_VALUE_BOOL_VALUE, value->boolean); break;
    case ATTR_INT: wire_put_int(w, ANY_VALUE_INT_VALUE, value->integer); break;
    case ATTR_DOUBLE: wire_put_double(w, ANY_VALUE_DOUBLE_VALUE, value->real); break;
    case ATTR_ARRAY: write_list(w, p, ANY_VALUE_ARRAY_VALUE, value->text, SHAPE_ARRAY); break;
    case ATTR_KVLIST: write_list(w, p, ANY_VALUE_KVLIST_VALUE, value->text, SHAPE_KVLIST); break;
    case ATTR_BYTES: wire_put_bytes(w, ANY_VALUE_BYTES_VALUE, value->text); break;
    }
    wire_end(w, mark);
}

void value_write_pair(struct wire_writer *w, const struct profiles *p, uint32_t field, struct bytes key,
                      const struct attr_value *value)
{
    const size_t mark = wire_begin(w, field);
    wire_put_bytes(w, KEY_VALUE_KEY, key);
    value_write(w, p, KEY_VALUE_VALUE, value);
    wire_end(w, mark);
}

struct bytes profiles_scope_raw(const struct profiles *p, uint32_t scope)
{
    return p->memory->scope_raw[scope];
}
