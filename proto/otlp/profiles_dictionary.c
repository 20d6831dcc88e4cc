/*
 * ProfilesDictionary → tables.
 *
 * Most of a request is here, so each big table has two readers. A *run* reads entry after entry of the shape
 * that writers really produce (fields in ascending order as protobuf says, or descending as Go's pdata does;
 * no unknown fields; packed lists), with counters in locals and one comparison with the end per value. At the
 * first entry that is different in any way (or does not fit the columns) it stops *before* it, and the
 * general reader takes that one: any field order, unknown fields, repeated fields, and the errors.
 */
#include <errno.h>

#include "proto/otlp/profiles_decode.h"

/* profiles.proto, message ProfilesDictionary */
enum {
    DICTIONARY_MAPPING = 1,
    DICTIONARY_LOCATION = 2,
    DICTIONARY_FUNCTION = 3,
    DICTIONARY_LINK = 4,
    DICTIONARY_STRING = 5,
    DICTIONARY_ATTRIBUTE = 6,
    DICTIONARY_STACK = 7,
};

#define TRACE_ID_SIZE 16u
#define SPAN_ID_SIZE  8u

/* --- For the runs. `p` is the position, `q` the end of the entry. */

/* If the next field is the varint field `number`, reads it. */
#define TAKE_VARINT(number, variable)                     \
    do {                                                  \
        if (p < q && *p == WIRE_TAG(number, WIRE_VARINT)) \
            p = wire_load_varint(p + 1, &(variable));     \
    } while (0)
#define TAKE_VARINT_LONG(number, variable)                 \
    do {                                                   \
        if (p < q && *p == WIRE_TAG(number, WIRE_VARINT))  \
            p = wire_load_varint_long(p + 1, &(variable)); \
    } while (0)

/* Reads tag and length of the next entry and sets `q`; NULL when there is no further entry of that number or
 * it does not fit into [*, end). */
static inline __attribute__((always_inline)) const uint8_t *entry_begin(const uint8_t *p, const uint8_t *end,
                                                                        uint32_t number,
                                                                        const uint8_t **ret_q)
{
    uint64_t n;
    if (p >= end || *p != WIRE_TAG(number, WIRE_LEN))
        return NULL;
    p = wire_load_varint(p + 1, &n);
    if (unlikely(p > end || n > (uint64_t)(end - p)))
        return NULL;
    *ret_q = p + n;
    return p;
}

/* --- Strings */

static const uint8_t *string_run(struct decode *d, const uint8_t *from, const uint8_t *end)
{
    uint64_t *span = d->p->string.span;
    uint32_t i = d->p->string.n, cap = d->m->cap[GROUP_STRING];
    const uint8_t *p, *q;
    while (i < cap && (p = entry_begin(from, end, DICTIONARY_STRING, &q)) != NULL) {
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

static const uint8_t *function_run(struct decode *d, const uint8_t *from, const uint8_t *end)
{
    uint32_t *name = d->p->function.name, *system_name = d->p->function.system_name,
             *filename = d->p->function.filename;
    int64_t *start_line = d->p->function.start_line;
    uint32_t i = d->p->function.n, cap = d->m->cap[GROUP_FUNCTION];
    const uint8_t *p, *q;
    while (i < cap && (p = entry_begin(from, end, DICTIONARY_FUNCTION, &q)) != NULL) {
        uint64_t a = 0, b = 0, c = 0, line = 0;
        TAKE_VARINT(1, a); /* ascending */
        TAKE_VARINT(2, b);
        TAKE_VARINT(3, c);
        TAKE_VARINT(4, line);
        TAKE_VARINT(3, c); /* descending */
        TAKE_VARINT(2, b);
        TAKE_VARINT(1, a);
        if (unlikely(p != q))
            break;
        name[i] = wire_saturate32(a);
        system_name[i] = wire_saturate32(b);
        filename[i] = wire_saturate32(c);
        start_line[i] = (int64_t)line;
        i++;
        from = q;
    }
    d->p->function.n = i;
    return from;
}

static int function_any(struct decode *d, struct bytes message)
{
    struct wire_reader in = wire_reader(message);
    struct wire_field f;
    uint64_t v[5] = {0};
    int r;
    while ((r = wire_load_next(&in, &f)) == 0) {
        if (f.number > 4)
            continue;
        if (f.type != WIRE_VARINT)
            return decode_wrong_type(d, &f, "Function");
        v[f.number] = f.value;
    }
    if (r != WIRE_END)
        return decode_malformed(d, in.p, "malformed Function");
    uint32_t i = d->p->function.n++;
    d->p->function.name[i] = wire_saturate32(v[1]);
    d->p->function.system_name[i] = wire_saturate32(v[2]);
    d->p->function.filename[i] = wire_saturate32(v[3]);
    d->p->function.start_line[i] = (int64_t)v[4];
    return 0;
}

/* --- Locations and their lines */

/* One Line of the expected shape to row `i`; false when it is not. */
static inline __attribute__((always_inline)) bool line_run(struct profiles *v, uint32_t i, const uint8_t *p,
                                                           const uint8_t *q)
{
    uint64_t function = 0, line = 0, column = 0;
    TAKE_VARINT(1, function); /* ascending */
    TAKE_VARINT(2, line);
    TAKE_VARINT(3, column);
    TAKE_VARINT(2, line); /* descending */
    TAKE_VARINT(1, function);
    v->line.function[i] = wire_saturate32(function);
    v->line.line[i] = (int64_t)line;
    v->line.column[i] = (int64_t)column;
    return p == q;
}

static const uint8_t *location_run(struct decode *d, const uint8_t *from, const uint8_t *end)
{
    struct profiles view = *d->p; /* column pointers the compiler may keep in registers */
    uint32_t i = view.location.n, cap = d->m->cap[GROUP_LOCATION];
    uint32_t n_lines = view.line.n, cap_lines = d->m->cap[GROUP_LINE];
    uint32_t n_attrs = d->m->location_attr.n, cap_attrs = d->m->cap[GROUP_LOCATION_ATTR];
    uint32_t *attr_index = d->m->location_attr.index;
    const uint8_t *p, *q, *nested;
    while (i < cap && (p = entry_begin(from, end, DICTIONARY_LOCATION, &q)) != NULL) {
        uint64_t mapping = 0, address = 0;
        uint32_t lines = n_lines, attrs = n_attrs;
        TAKE_VARINT(1, mapping); /* ascending */
        TAKE_VARINT_LONG(2, address);
        const uint8_t *list = entry_begin(p, q, 4, &nested); /* descending: attributes first */
        if (list) {
            if (unlikely((size_t)(nested - list) > cap_attrs - attrs))
                break;
            p = wire_load_packed32_short(list, nested, attr_index, &attrs);
        }
        const uint8_t *line;
        while (lines < cap_lines && (line = entry_begin(p, q, 3, &nested)) != NULL &&
               line_run(&view, lines, line, nested)) {
            lines++;
            p = nested;
        }
        TAKE_VARINT_LONG(2, address); /* descending */
        TAKE_VARINT(1, mapping);
        if (p < q && (list = entry_begin(p, q, 4, &nested)) != NULL) { /* ascending: attributes last */
            if (unlikely((size_t)(nested - list) > cap_attrs - attrs))
                break;
            p = wire_load_packed32_short(list, nested, attr_index, &attrs);
        }
        if (unlikely(p != q))
            break;
        view.location.mapping[i] = wire_saturate32(mapping);
        view.location.address[i] = address;
        view.location.lines_at[i] = n_lines;
        view.location.attrs_at[i] = n_attrs;
        n_lines = lines;
        n_attrs = attrs;
        i++;
        from = q;
    }
    d->p->location.n = i;
    d->p->line.n = n_lines;
    d->m->location_attr.n = n_attrs;
    return from;
}

static int line_any(struct decode *d, struct bytes message)
{
    struct wire_reader in = wire_reader(message);
    struct wire_field f;
    uint64_t v[4] = {0};
    int r;
    while ((r = wire_load_next(&in, &f)) == 0) {
        if (f.number > 3)
            continue;
        if (f.type != WIRE_VARINT)
            return decode_wrong_type(d, &f, "Line");
        v[f.number] = f.value;
    }
    if (r != WIRE_END)
        return decode_malformed(d, in.p, "malformed Line");
    r = profiles_room(d->p, GROUP_LINE, d->p->line.n);
    if (r != 0)
        return r;
    uint32_t i = d->p->line.n++;
    d->p->line.function[i] = wire_saturate32(v[1]);
    d->p->line.line[i] = (int64_t)v[2];
    d->p->line.column[i] = (int64_t)v[3];
    return 0;
}

static int location_any(struct decode *d, struct bytes message)
{
    struct wire_reader in = wire_reader(message);
    struct wire_field f;
    uint64_t mapping = 0, address = 0;
    uint32_t lines_at = d->p->line.n, attrs_at = d->m->location_attr.n;
    int r;
    while ((r = wire_load_next(&in, &f)) == 0) {
        switch (WIRE_TAG(f.number, f.type)) {
        case WIRE_TAG(1, WIRE_VARINT): mapping = f.value; break;
        case WIRE_TAG(2, WIRE_VARINT): address = f.value; break;
        case WIRE_TAG(3, WIRE_LEN): r = line_any(d, f.bytes); break;
        default:
            if (f.number == 4)
                r = decode_indices(d, GROUP_LOCATION_ATTR, &d->m->location_attr, &f, "Location");
            else if (f.number < 4)
                r = decode_wrong_type(d, &f, "Location");
        }
        if (r != 0)
            return r;
    }
    if (r != WIRE_END)
        return decode_malformed(d, in.p, "malformed Location");
    uint32_t i = d->p->location.n++;
    d->p->location.mapping[i] = wire_saturate32(mapping);
    d->p->location.address[i] = address;
    d->p->location.lines_at[i] = lines_at;
    d->p->location.attrs_at[i] = attrs_at;
    return 0;
}

/* --- Stacks: nearly all of a request's varints */

static const uint8_t *stack_run(struct decode *d, const uint8_t *from, const uint8_t *end)
{
    uint32_t *locations_at = d->p->stack.locations_at, *location = d->p->stack_location.location;
    uint32_t i = d->p->stack.n, cap = d->m->cap[GROUP_STACK];
    uint32_t n = d->p->stack_location.n, cap_locations = d->m->cap[GROUP_STACK_LOCATION];
    const uint8_t *p, *q, *nested;
    while (i < cap && (p = entry_begin(from, end, DICTIONARY_STACK, &q)) != NULL) {
        uint32_t more = n;
        const uint8_t *list = entry_begin(p, q, 1, &nested);
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
        if (f.number != 1)
            continue;
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
    const uint8_t *nested, *text = entry_begin(p, q, 1, &nested);
    if (text && nested == q) {
        *value = (struct attr_value){.kind = ATTR_STRING, .text = bytes_of(text, (size_t)(q - text))};
        return true;
    }
    uint64_t integer;
    if (p < q && *p == WIRE_TAG(3, WIRE_VARINT) && wire_load_varint_long(p + 1, &integer) == q) {
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
    while (i < cap && (p = entry_begin(from, end, DICTIONARY_ATTRIBUTE, &q)) != NULL) {
        uint64_t key = 0, unit = 0;
        TAKE_VARINT(1, key);  /* ascending */
        TAKE_VARINT(3, unit); /* descending */
        const uint8_t *value = entry_begin(p, q, 2, &nested);
        if (!value || !value_run(value, nested, &v->attribute.value[i]))
            break;
        p = nested;
        TAKE_VARINT(1, key);  /* descending */
        TAKE_VARINT(3, unit); /* ascending */
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
        case WIRE_TAG(1, WIRE_VARINT): key = f.value; break;
        case WIRE_TAG(2, WIRE_LEN):
            r = decode_any_value(d, f.bytes, &value, &piece);
            if (piece != INDEX_NONE || f.bytes.n > 0)
                reference = piece;
            break;
        case WIRE_TAG(3, WIRE_VARINT): unit = f.value; break;
        default:
            if (f.number < 4)
                r = decode_wrong_type(d, &f, "KeyValueAndUnit");
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
    uint64_t v[5] = {0};
    uint32_t attrs_at = d->m->mapping_attr.n;
    int r;
    while ((r = wire_load_next(&in, &f)) == 0) {
        if (f.number == 5)
            r = decode_indices(d, GROUP_MAPPING_ATTR, &d->m->mapping_attr, &f, "Mapping");
        else if (f.number < 5 && f.type != WIRE_VARINT)
            r = decode_wrong_type(d, &f, "Mapping");
        else if (f.number < 5)
            v[f.number] = f.value;
        if (r != 0)
            return r;
    }
    if (r != WIRE_END)
        return decode_malformed(d, in.p, "malformed Mapping");
    uint32_t i = d->p->mapping.n++;
    d->p->mapping.memory_start[i] = v[1];
    d->p->mapping.memory_limit[i] = v[2];
    d->p->mapping.file_offset[i] = v[3];
    d->p->mapping.filename[i] = wire_saturate32(v[4]);
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
        if (f.number > 2)
            continue;
        if (f.type != WIRE_LEN)
            return decode_wrong_type(d, &f, "Link");
        if (f.number == 1)
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
    [DICTIONARY_MAPPING] = {GROUP_MAPPING, NULL, mapping_any},
    [DICTIONARY_LOCATION] = {GROUP_LOCATION, location_run, location_any},
    [DICTIONARY_FUNCTION] = {GROUP_FUNCTION, function_run, function_any},
    [DICTIONARY_LINK] = {GROUP_LINK, NULL, link_any},
    [DICTIONARY_STRING] = {GROUP_STRING, string_run, string_any},
    [DICTIONARY_ATTRIBUTE] = {GROUP_ATTRIBUTE, attribute_run, attribute_any},
    [DICTIONARY_STACK] = {GROUP_STACK, stack_run, stack_any},
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
        return 0;
    if (f->type != WIRE_LEN)
        return decode_wrong_type(d, f, "ProfilesDictionary");
    const struct table *t = &tables[f->number];
    int r = profiles_room(d->p, t->group, table_n(d->p, t->group));
    return r != 0 ? r : t->any(d, f->bytes);
}

int decode_dictionary(struct decode *d, struct bytes message)
{
    struct wire_reader in = wire_reader(message);
    d->dictionary = true;
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
