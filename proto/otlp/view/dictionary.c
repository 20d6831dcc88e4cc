/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ProfilesDictionary → tables.
 *
 * Most of a request is here, so each big table has two readers. A *run* reads entry after entry of the shape
 * that writers really produce (fields in ascending order as protobuf says, or descending as Go's pdata does;
 * no unknown fields; packed lists), with counters in locals and one comparison with the end per value. At the
 * first entry that is different in any way (or does not fit the columns) it stops *before* it, and the
 * general reader takes that one: any field order, unknown fields, repeated fields, and the errors.
 */

#include "proto/otlp/view/run.h"

#define TRACE_ID_SIZE 16u
#define SPAN_ID_SIZE  8u

/* --- Strings */

static const uint8_t *string_run(struct decode *d, const uint8_t *from, const uint8_t *end)
{
    uint64_t *span = d->p->string.span;
    uint32_t i = d->p->string.n, cap = d->m->cap[GROUP_STRING];
    const uint8_t *p, *q;
    while (i < cap && (p = entry_begin(from, end, DICTIONARY_STRING_TABLE, &q)) != NULL && likely(p < q)) {
        span[i++] = (uint64_t)(p - d->base) | (uint64_t)(q - p) << 32;
        from = q;
    }
    d->p->string.n = i;
    return from;
}

static int string_any(struct decode *d, struct bytes string)
{
    d->p->string.span[d->p->string.n++] = (uint64_t)(string.p - d->base) | (uint64_t)string.n << 32;
    return 0;
}

/* --- Functions */

/* Every field at most three bytes, in ascending or descending order. */
static const uint8_t *function_run(struct decode *d, const uint8_t *from, const uint8_t *end)
{
    struct profiles view = *d->p; /* column pointers the compiler may keep in registers */
    uint32_t i = view.function.n, cap = d->m->cap[GROUP_FUNCTION];
    for (; i < cap; i++) {
        uint64_t name = 0, system_name = 0, filename = 0, line = 0;
        const uint8_t *q = from + 2 + from[1], *p = from + 2;
        if (unlikely(from[0] != WIRE_TAG(DICTIONARY_FUNCTION_TABLE, WIRE_LEN) || !short_entry(from[1]) ||
                     q > end))
            break;
        TAKE_SHORT(FUNCTION_NAME_STRINDEX, name); /* ascending */
        TAKE_SHORT(FUNCTION_SYSTEM_NAME_STRINDEX, system_name);
        TAKE_SHORT(FUNCTION_FILENAME_STRINDEX, filename);
        TAKE_SHORT(FUNCTION_START_LINE, line);
        TAKE_SHORT(FUNCTION_FILENAME_STRINDEX, filename); /* descending */
        TAKE_SHORT(FUNCTION_SYSTEM_NAME_STRINDEX, system_name);
        TAKE_SHORT(FUNCTION_NAME_STRINDEX, name);
        if (unlikely(p != q))
            break;
        view.function.name[i] = (uint32_t)name;
        view.function.system_name[i] = (uint32_t)system_name;
        view.function.filename[i] = (uint32_t)filename;
        view.function.start_line[i] = (int64_t)line;
        from = q;
    }
    d->p->function.n = i;
    return from;
}

static int function_any(struct decode *d, struct bytes message)
{
    struct wire_reader in = wire_reader(message);
    struct wire_field f;
    uint64_t v[FUNCTION_HIGHEST + 1] = {0};
    int r;
    while ((r = wire_load_next(&in, &f)) == 0) {
        if (f.number > FUNCTION_HIGHEST) {
            decode_unknown(d);
            continue;
        }
        if (f.type != WIRE_VARINT)
            return decode_wrong_type(d, &f, "Function");
        v[f.number] = f.value;
    }
    if (r != WIRE_END)
        return decode_malformed(d, in.p, "malformed Function");
    uint32_t i = d->p->function.n++;
    d->p->function.name[i] = wire_saturate32(v[FUNCTION_NAME_STRINDEX]);
    d->p->function.system_name[i] = wire_saturate32(v[FUNCTION_SYSTEM_NAME_STRINDEX]);
    d->p->function.filename[i] = wire_saturate32(v[FUNCTION_FILENAME_STRINDEX]);
    d->p->function.start_line[i] = (int64_t)v[FUNCTION_START_LINE];
    return 0;
}

/* --- Stacks: nearly all of a request's varints */

static const uint8_t *stack_run(struct decode *d, const uint8_t *from, const uint8_t *end)
{
    uint32_t *locations_at = d->p->stack.locations_at, *location = d->p->stack_location.location;
    uint32_t i = d->p->stack.n, cap = d->m->cap[GROUP_STACK];
    uint32_t n = d->p->stack_location.n, cap_locations = d->m->cap[GROUP_STACK_LOCATION];
    const uint8_t *p, *q, *nested;
    while (i < cap && (p = entry_begin(from, end, DICTIONARY_STACK_TABLE, &q)) != NULL &&
           likely(q - p > HOLLOW_BYTES)) {
        uint32_t more = n;
        const uint8_t *list = entry_begin(p, q, STACK_LOCATION_INDICES, &nested);
        if (list) {
            if (unlikely((size_t)(nested - list) > cap_locations - n))
                break;
            p = wire_load_packed32(list, nested, location, &more);
        }
        if (unlikely(p != q))
            break;
        locations_at[i++] = n;
        n = more;
        from = q;
    }
    d->p->stack.n = i;
    d->p->stack_location.n = n;
    return from;
}

static int stack_any(struct decode *d, struct bytes message)
{
    struct wire_reader in = wire_reader(message);
    struct wire_field f;
    struct index_pool pool = {.n = d->p->stack_location.n};
    uint32_t locations_at = pool.n;
    int r;
    while ((r = wire_load_next(&in, &f)) == 0) {
        if (f.number != STACK_LOCATION_INDICES) {
            decode_unknown(d);
            continue;
        }
        pool.index = d->p->stack_location.location;
        r = decode_indices(d, GROUP_STACK_LOCATION, &pool, &f, "Stack");
        d->p->stack_location.n = pool.n;
        if (r != 0)
            return r;
    }
    if (r != WIRE_END)
        return decode_malformed(d, in.p, "malformed Stack");
    d->p->stack.locations_at[d->p->stack.n++] = locations_at;
    return 0;
}

/* --- Attributes */

/* The two AnyValues that nearly all attributes have: a string alone or an integer alone. */
static inline __attribute__((always_inline)) bool value_run(const uint8_t *p, const uint8_t *q,
                                                            struct attr_value *value)
{
    const uint8_t *nested, *text = entry_begin(p, q, ANY_VALUE_STRING_VALUE, &nested);
    if (text && nested == q) {
        *value = (struct attr_value){.kind = ATTR_STRING, .text = bytes_of(text, (size_t)(q - text))};
        return true;
    }
    uint64_t integer;
    if (p < q && *p == WIRE_TAG(ANY_VALUE_INT_VALUE, WIRE_VARINT) &&
        wire_load_varint_long(p + 1, &integer) == q) {
        *value = (struct attr_value){.kind = ATTR_INT, .integer = (int64_t)integer};
        return true;
    }
    return false;
}

static const uint8_t *attribute_run(struct decode *d, const uint8_t *from, const uint8_t *end)
{
    struct profiles *v = d->p;
    uint32_t i = v->attribute.n, cap = d->m->cap[GROUP_ATTRIBUTE];
    const uint8_t *p, *q, *nested;
    while (i < cap && (p = entry_begin(from, end, DICTIONARY_ATTRIBUTE_TABLE, &q)) != NULL) {
        uint64_t key = 0, unit = 0;
        TAKE_VARINT(KEY_VALUE_AND_UNIT_KEY_STRINDEX, key);   /* ascending */
        TAKE_VARINT(KEY_VALUE_AND_UNIT_UNIT_STRINDEX, unit); /* descending */
        const uint8_t *value = entry_begin(p, q, KEY_VALUE_AND_UNIT_VALUE, &nested);
        if (!value || !value_run(value, nested, &v->attribute.value[i]))
            break;
        p = nested;
        TAKE_VARINT(KEY_VALUE_AND_UNIT_KEY_STRINDEX, key);   /* descending */
        TAKE_VARINT(KEY_VALUE_AND_UNIT_UNIT_STRINDEX, unit); /* ascending */
        if (unlikely(p != q))
            break;
        v->attribute.key[i] = wire_saturate32(key);
        v->attribute.unit[i] = wire_saturate32(unit);
        i++;
        from = q;
    }
    v->attribute.n = i;
    return from;
}

static int attribute_any(struct decode *d, struct bytes message)
{
    struct wire_reader in = wire_reader(message);
    struct wire_field f;
    uint64_t key = 0, unit = 0, reference = INDEX_NONE;
    struct attr_value value = {.kind = ATTR_EMPTY};
    int r;
    while ((r = wire_load_next(&in, &f)) == 0) {
        uint64_t piece;
        switch (WIRE_TAG(f.number, f.type)) {
        case WIRE_TAG(KEY_VALUE_AND_UNIT_KEY_STRINDEX, WIRE_VARINT): key = f.value; break;
        case WIRE_TAG(KEY_VALUE_AND_UNIT_VALUE, WIRE_LEN):
            r = decode_any_value(d, f.bytes, &value, &piece);
            if (piece != INDEX_NONE || f.bytes.n > 0)
                reference = piece;
            break;
        case WIRE_TAG(KEY_VALUE_AND_UNIT_UNIT_STRINDEX, WIRE_VARINT): unit = f.value; break;
        default:
            r = f.number <= KEY_VALUE_AND_UNIT_HIGHEST ? decode_wrong_type(d, &f, "KeyValueAndUnit")
                                                       : decode_unknown(d);
        }
        if (r != 0)
            return r;
    }
    if (r != WIRE_END)
        return decode_malformed(d, in.p, "malformed KeyValueAndUnit");
    uint32_t i = d->p->attribute.n;
    if (reference != INDEX_NONE) {
        r = profiles_room(d->p, GROUP_REFERENCE, d->m->reference.n);
        if (r != 0)
            return r;
        d->m->reference.attribute[d->m->reference.n] = i;
        d->m->reference.string[d->m->reference.n++] = wire_saturate32(reference);
    }
    d->p->attribute.key[i] = wire_saturate32(key);
    d->p->attribute.unit[i] = wire_saturate32(unit);
    d->p->attribute.value[i] = value;
    d->p->attribute.n++;
    return 0;
}

/* --- Mappings and links: a few dozen of each, so no runs */

static int mapping_any(struct decode *d, struct bytes message)
{
    struct wire_reader in = wire_reader(message);
    struct wire_field f;
    uint64_t v[MAPPING_HIGHEST + 1] = {0};
    uint32_t attrs_at = d->m->mapping_attr.n;
    int r;
    while ((r = wire_load_next(&in, &f)) == 0) {
        if (f.number == MAPPING_ATTRIBUTE_INDICES)
            r = decode_indices(d, GROUP_MAPPING_ATTR, &d->m->mapping_attr, &f, "Mapping");
        else if (f.number <= MAPPING_HIGHEST && f.type != WIRE_VARINT)
            r = decode_wrong_type(d, &f, "Mapping");
        else if (f.number <= MAPPING_HIGHEST)
            v[f.number] = f.value;
        else
            decode_unknown(d);
        if (r != 0)
            return r;
    }
    if (r != WIRE_END)
        return decode_malformed(d, in.p, "malformed Mapping");
    uint32_t i = d->p->mapping.n++;
    d->p->mapping.memory_start[i] = v[MAPPING_MEMORY_START];
    d->p->mapping.memory_limit[i] = v[MAPPING_MEMORY_LIMIT];
    d->p->mapping.file_offset[i] = v[MAPPING_FILE_OFFSET];
    d->p->mapping.filename[i] = wire_saturate32(v[MAPPING_FILENAME_STRINDEX]);
    d->p->mapping.attrs_at[i] = attrs_at;
    return 0;
}

/* Where an id of the right size stands in the body; 0 for one that is all zero, missing, or of another size,
 * which all say that there is no trace (W3C Trace Context §3.2.2.3: all zero is invalid). */
static uint64_t id_at(struct decode *d, struct bytes id, size_t size)
{
    static const uint8_t zero[TRACE_ID_SIZE];
    return id.n != size || memcmp(id.p, zero, size) == 0 ? 0 : (uint64_t)(id.p - d->base);
}

static int link_any(struct decode *d, struct bytes message)
{
    struct wire_reader in = wire_reader(message);
    struct wire_field f;
    struct bytes trace = {0}, span = {0};
    int r;
    while ((r = wire_load_next(&in, &f)) == 0) {
        if (f.number > LINK_HIGHEST) {
            decode_unknown(d);
            continue;
        }
        if (f.type != WIRE_LEN)
            return decode_wrong_type(d, &f, "Link");
        if (f.number == LINK_TRACE_ID)
            trace = f.bytes;
        else
            span = f.bytes;
    }
    if (r != WIRE_END)
        return decode_malformed(d, in.p, "malformed Link");
    uint32_t i = d->p->link.n++;
    d->p->link.trace_at[i] = id_at(d, trace, TRACE_ID_SIZE);
    d->p->link.span_at[i] = id_at(d, span, SPAN_ID_SIZE);
    return 0;
}

/* --- The tables */

struct table {
    enum profiles_group group;
    const uint8_t *(*run)(struct decode *d, const uint8_t *from, const uint8_t *end); /* or NULL */
    int (*any)(struct decode *d, struct bytes message); /* there is room for the entry */
};

static const struct table tables[] = {
    [DICTIONARY_MAPPING_TABLE] = {GROUP_MAPPING, NULL, mapping_any},
    [DICTIONARY_LOCATION_TABLE] = {GROUP_LOCATION, decode_location_run, decode_location},
    [DICTIONARY_FUNCTION_TABLE] = {GROUP_FUNCTION, function_run, function_any},
    [DICTIONARY_LINK_TABLE] = {GROUP_LINK, NULL, link_any},
    [DICTIONARY_STRING_TABLE] = {GROUP_STRING, string_run, string_any},
    [DICTIONARY_ATTRIBUTE_TABLE] = {GROUP_ATTRIBUTE, attribute_run, attribute_any},
    [DICTIONARY_STACK_TABLE] = {GROUP_STACK, stack_run, stack_any},
};

static uint32_t table_n(const struct profiles *p, enum profiles_group group)
{
    switch (group) {
    case GROUP_MAPPING: return p->mapping.n;
    case GROUP_LOCATION: return p->location.n;
    case GROUP_FUNCTION: return p->function.n;
    case GROUP_LINK: return p->link.n;
    case GROUP_STRING: return p->string.n;
    case GROUP_ATTRIBUTE: return p->attribute.n;
    default: return p->stack.n;
    }
}

/* As many entries as the table's run takes from in->p on. */
static int read_run(struct decode *d, struct wire_reader *in)
{
    uint32_t number = *in->p >> 3;
    if ((*in->p & 0x87) != WIRE_LEN || number >= ARRAY_LEN(tables) || !tables[number].run)
        return 0;
    const struct table *t = &tables[number];
    int r = profiles_room(d->p, t->group, table_n(d->p, t->group));
    if (r == 0)
        in->p = t->run(d, in->p, in->end);
    return r;
}

static int read_field(struct decode *d, const struct wire_field *f)
{
    if (f->number >= ARRAY_LEN(tables))
        return decode_unknown(d);
    if (f->type != WIRE_LEN)
        return decode_wrong_type(d, f, "ProfilesDictionary");
    const struct table *t = &tables[f->number];
    int r =
        f->number == DICTIONARY_STRING_TABLE ? decode_entry(d, f->bytes, 0) : decode_table_entry(d, f->bytes);
    if (r == 0)
        r = profiles_room(d->p, t->group, table_n(d->p, t->group));
    return r != 0 ? r : t->any(d, f->bytes);
}

int decode_dictionary(struct decode *d, struct bytes message)
{
    struct wire_reader in = wire_reader(message);
    while (in.p < in.end) {
        const uint8_t *was = in.p;
        struct wire_field f;
        int r = read_run(d, &in);
        if (r != 0)
            return r;
        if (in.p != was)
            continue;
        if (wire_load_next(&in, &f) != 0)
            return decode_malformed(d, in.p, "malformed ProfilesDictionary");
        r = read_field(d, &f);
        if (r != 0)
            return r;
    }
    return 0;
}
