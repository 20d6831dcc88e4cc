/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ProfilesDictionary.location_table and the lines in it: half of a request's entries, hence runs before the
 * general reader: by shape where the processor can, else field by field; then one location of any form.
 */
#include "proto/otlp/view/run.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* One Line of the expected shape to row `i`; false when it is not. */
static inline __attribute__((always_inline)) bool line_run(struct profiles *v, uint32_t i,
                                                           const uint8_t *from, const uint8_t *q)
{
    const uint8_t *p = from;
    uint64_t function = 0, line = 0, column = 0;
    TAKE_VARINT(LINE_FUNCTION_INDEX, function); /* ascending */
    TAKE_VARINT(LINE_LINE, line);
    TAKE_VARINT(LINE_COLUMN, column);
    TAKE_VARINT(LINE_LINE, line); /* descending */
    TAKE_VARINT(LINE_FUNCTION_INDEX, function);
    v->line.function[i] = wire_saturate32(function);
    v->line.line[i] = (int64_t)line;
    v->line.column[i] = (int64_t)column;
    return p == q && q > from;
}

/* If the next field is a list of one attribute below 128, reads it. */
#define TAKE_ONE_ATTR(variable, n)                                                                  \
    if (*p == WIRE_TAG(LOCATION_ATTRIBUTE_INDICES, WIRE_LEN) && p[1] == 1 && likely(p[2] < 0x80)) { \
        (variable) = p[2];                                                                          \
        (n) = 1;                                                                                    \
        p += 3;                                                                                     \
    }

/* Nearly all locations have at most one attribute and one line, and short numbers: as many of them as follow
 * each other, with their fields in ascending or descending order. Whether a field ends in time is asked after
 * the last one: what was read of what follows makes the answer no, and the padding covers it. */
static const uint8_t *location_run_short(struct decode *d, const uint8_t *from, const uint8_t *end)
{
    struct profiles view = *d->p; /* column pointers the compiler may keep in registers */
    uint32_t *attr_index = d->m->location_attr.index;
    uint32_t i = view.location.n, n_lines = view.line.n, n_attrs = d->m->location_attr.n;
    uint32_t room = min_of(d->m->cap[GROUP_LOCATION] - i, d->m->cap[GROUP_LINE] - n_lines);
    room = min_of(room, d->m->cap[GROUP_LOCATION_ATTR] - n_attrs);
    for (; room > 0; room--) {
        const uint8_t *q = from + 2 + from[1], *p = from + 2;
        uint64_t line = 0, function = 0, address = 0, mapping = 0;
        uint32_t attr = 0, attrs = 0, lines = 0;
        if (unlikely(from[0] != WIRE_TAG(DICTIONARY_LOCATION_TABLE, WIRE_LEN) || !short_entry(from[1]) ||
                     q > end))
            break;
        if (*p == WIRE_TAG(LOCATION_ATTRIBUTE_INDICES, WIRE_LEN)) { /* descending: attributes first */
            TAKE_ONE_ATTR(attr, attrs);
        } else {
            TAKE_SHORT(LOCATION_MAPPING_INDEX, mapping);
            TAKE_LONG(LOCATION_ADDRESS, address);
        }
        if (likely(*p == WIRE_TAG(LOCATION_LINES, WIRE_LEN))) {
            const uint8_t *r = p + 2 + p[1], *line_at = p + 2;
            p = line_at;
            lines = 1;
            TAKE_SHORT(LINE_LINE, line); /* descending */
            TAKE_SHORT(LINE_FUNCTION_INDEX, function);
            if (p < r)                       /* else it is the location's address that would be taken */
                TAKE_SHORT(LINE_LINE, line); /* ascending */
            if (unlikely(p != r || p > q || p == line_at))
                break;
        }
        if (attrs > 0) {
            TAKE_LONG(LOCATION_ADDRESS, address);
            TAKE_SHORT(LOCATION_MAPPING_INDEX, mapping);
        } else {
            TAKE_ONE_ATTR(attr, attrs);
        }
        if (unlikely(p != q))
            break;
        attr_index[n_attrs] = attr;
        view.line.function[n_lines] = (uint32_t)function;
        view.line.line[n_lines] = (int64_t)line;
        view.line.column[n_lines] = 0;
        view.location.mapping[i] = (uint32_t)mapping;
        view.location.address[i] = address;
        view.location.lines_at[i] = n_lines;
        view.location.attrs_at[i] = n_attrs;
        n_lines += lines;
        n_attrs += attrs;
        i++;
        from = q;
    }
    d->p->location.n = i;
    d->p->line.n = n_lines;
    d->m->location_attr.n = n_attrs;
    return from;
}

#if defined(__x86_64__)

/* The same of locations that have a shape (shape.h), by pext. */
__attribute__((target("avx2,bmi,bmi2"))) static const uint8_t *location_run_shaped(struct decode *d,
                                                                                   const uint8_t *from,
                                                                                   const uint8_t *end)
{
    struct profiles view = *d->p;
    struct shapes *shapes = &d->m->shapes;
    uint32_t *attr_index = d->m->location_attr.index;
    uint32_t i = view.location.n, n_lines = view.line.n, n_attrs = d->m->location_attr.n;
    uint32_t room = min_of(d->m->cap[GROUP_LOCATION] - i, d->m->cap[GROUP_LINE] - n_lines);
    room = min_of(room, d->m->cap[GROUP_LOCATION_ATTR] - n_attrs);
    for (; room > 0; room--) {
        const uint8_t *q = from + 2 + from[1];
        __m256i bytes = _mm256_loadu_si256((const __m256i *)from);
        uint32_t more = _bzhi_u32((uint32_t)_mm256_movemask_epi8(bytes), 2u + from[1]),
                 key = shape_key(from[1], from[2], more);
        const struct shape *s = &shapes->shape[shapes->by_key[key]];
        __m256i differ =
            _mm256_xor_si256(_mm256_and_si256(bytes, _mm256_loadu_si256((const __m256i *)s->mask)),
                             _mm256_loadu_si256((const __m256i *)s->pattern));
        if (unlikely(q > end))
            break;
        if (unlikely(!_mm256_testz_si256(differ, differ)) && !(s = shapes_learn(shapes, key, from)))
            break;
#define NUMBER(field) _pext_u64(wire_load64(from + s->at[field]), s->bits[field])
        attr_index[n_attrs] = from[s->at[SHAPE_ATTRIBUTE]];
        view.line.function[n_lines] = (uint32_t)NUMBER(SHAPE_FUNCTION);
        view.line.line[n_lines] = (int64_t)NUMBER(SHAPE_LINE);
        view.line.column[n_lines] = 0;
        view.location.mapping[i] = (uint32_t)NUMBER(SHAPE_MAPPING);
        view.location.address[i] = NUMBER(SHAPE_ADDRESS);
        view.location.lines_at[i] = n_lines;
        view.location.attrs_at[i] = n_attrs;
        n_lines += s->lines;
        n_attrs += s->attributes;
#undef NUMBER
        i++;
        from = q;
    }
    d->p->location.n = i;
    d->p->line.n = n_lines;
    d->m->location_attr.n = n_attrs;
    return from;
}

#else
#define location_run_shaped location_run_short
#endif

/* One location with any order of the fields and any number of attributes and lines. */
static const uint8_t *location_one(struct decode *d, const uint8_t *from, const uint8_t *end)
{
    struct profiles *v = d->p;
    uint32_t i = v->location.n, lines = v->line.n, attrs = d->m->location_attr.n;
    uint32_t cap_lines = d->m->cap[GROUP_LINE], cap_attrs = d->m->cap[GROUP_LOCATION_ATTR];
    uint32_t *attr_index = d->m->location_attr.index;
    uint64_t mapping = 0, address = 0;
    const uint8_t *q, *nested, *list, *line;
    const uint8_t *p = entry_begin(from, end, DICTIONARY_LOCATION_TABLE, &q);
    if (!p || unlikely(q - p <= HOLLOW_BYTES))
        return from;
    TAKE_VARINT(LOCATION_MAPPING_INDEX, mapping); /* ascending */
    TAKE_VARINT_LONG(LOCATION_ADDRESS, address);
    list = entry_begin(p, q, LOCATION_ATTRIBUTE_INDICES, &nested); /* descending: attributes first */
    if (list) {
        if (unlikely((size_t)(nested - list) > cap_attrs - attrs))
            return from;
        p = wire_load_packed32_short(list, nested, attr_index, &attrs);
    }
    while (lines < cap_lines && (line = entry_begin(p, q, LOCATION_LINES, &nested)) != NULL &&
           line_run(v, lines, line, nested)) {
        lines++;
        p = nested;
    }
    TAKE_VARINT_LONG(LOCATION_ADDRESS, address); /* descending */
    TAKE_VARINT(LOCATION_MAPPING_INDEX, mapping);
    if (p < q && (list = entry_begin(p, q, LOCATION_ATTRIBUTE_INDICES, &nested)) !=
                     NULL) { /* ascending: attributes last */
        if (unlikely((size_t)(nested - list) > cap_attrs - attrs))
            return from;
        p = wire_load_packed32_short(list, nested, attr_index, &attrs);
    }
    if (unlikely(p != q))
        return from;
    v->location.mapping[i] = wire_saturate32(mapping);
    v->location.address[i] = address;
    v->location.lines_at[i] = v->line.n;
    v->location.attrs_at[i] = d->m->location_attr.n;
    v->location.n = i + 1;
    v->line.n = lines;
    d->m->location_attr.n = attrs;
    return q;
}

const uint8_t *decode_location_run(struct decode *d, const uint8_t *from, const uint8_t *end)
{
    uint32_t cap = d->m->cap[GROUP_LOCATION];
    while (d->p->location.n < cap) {
        from = d->m->shapes.n > 0 ? location_run_shaped(d, from, end) : location_run_short(d, from, end);
        const uint8_t *was = from;
        if (d->p->location.n < cap)
            from = location_one(d, from, end);
        if (from == was)
            break;
    }
    return from;
}

static int line_any(struct decode *d, struct bytes message)
{
    struct wire_reader in = wire_reader(message);
    struct wire_field f;
    uint64_t v[LINE_HIGHEST + 1] = {0};
    int r = decode_entry(d, message, 0);
    if (r != 0)
        return r;
    while ((r = wire_load_next(&in, &f)) == 0) {
        if (f.number > LINE_HIGHEST) {
            decode_unknown(d);
            continue;
        }
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
    d->p->line.function[i] = wire_saturate32(v[LINE_FUNCTION_INDEX]);
    d->p->line.line[i] = (int64_t)v[LINE_LINE];
    d->p->line.column[i] = (int64_t)v[LINE_COLUMN];
    return 0;
}

int decode_location(struct decode *d, struct bytes message)
{
    struct wire_reader in = wire_reader(message);
    struct wire_field f;
    uint64_t mapping = 0, address = 0;
    uint32_t lines_at = d->p->line.n, attrs_at = d->m->location_attr.n;
    int r;
    while ((r = wire_load_next(&in, &f)) == 0) {
        switch (WIRE_TAG(f.number, f.type)) {
        case WIRE_TAG(LOCATION_MAPPING_INDEX, WIRE_VARINT): mapping = f.value; break;
        case WIRE_TAG(LOCATION_ADDRESS, WIRE_VARINT): address = f.value; break;
        case WIRE_TAG(LOCATION_LINES, WIRE_LEN): r = line_any(d, f.bytes); break;
        default:
            if (f.number == LOCATION_ATTRIBUTE_INDICES)
                r = decode_indices(d, GROUP_LOCATION_ATTR, &d->m->location_attr, &f, "Location");
            else
                r = f.number <= LOCATION_HIGHEST ? decode_wrong_type(d, &f, "Location") : decode_unknown(d);
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
