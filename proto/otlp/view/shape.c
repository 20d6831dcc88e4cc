/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/otlp/view/shape.h"

#include <string.h>

#include "proto/otlp/layouts/fields.h"
#include "proto/otlp/layouts/layout.h"
#include "proto/wire/wire.h"

_Static_assert(SHAPES <= UINT8_MAX, "shapes are numbered by bytes");

struct learning {
    struct shape *shape;
    const uint8_t *from;
    uint32_t at, end; /* end: of the entry, or of the Line that is read */
};

/* They are read with AVX2 and pext, which AMD had in slow before family 19h. */
static bool are_of_use(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2") &&
           !__builtin_cpu_is("amdfam15h") && !__builtin_cpu_is("amdfam17h");
#else
    return false;
#endif
}

void shapes_init(struct shapes *s)
{
    s->n = are_of_use() ? 1 : 0;
    s->shape[0].pattern[0] = 1; /* what the mask clears is not 1 */
}

/* The number of a further one. */
static uint32_t add_shape(struct shapes *s)
{
    if (s->n == SHAPES) {
        memset(s->by_key, 0, sizeof s->by_key);
        s->n = 1;
    }
    return s->n++;
}

/* A byte that all entries of the shape have; -1: there is none. */
static int take_byte(struct learning *l)
{
    if (l->at == l->end)
        return -1;
    l->shape->mask[l->at] = 0xff;
    l->shape->pattern[l->at] = l->from[l->at];
    return l->from[l->at++];
}

/* A number of at most that many bytes, which the field has not had yet. */
static bool take_number(struct learning *l, enum shape_field field, uint32_t most)
{
    uint32_t from = l->at;
    if (l->shape->at[field] != 0)
        return false;
    l->shape->at[field] = (uint8_t)from;
    while (l->at < l->end && l->at - from < most) {
        l->shape->mask[l->at] = 0x80;
        l->shape->pattern[l->at] = l->from[l->at] & 0x80;
        if (l->from[l->at++] >= 0x80)
            continue;
        if (field < SHAPE_NUMBERS)
            l->shape->bits[field] = 0x7f7f7f7f7f7f7f7fu >> (64 - 8 * (l->at - from));
        return true;
    }
    return false;
}

/* A Line's length and fields. */
static bool take_line(struct learning *l)
{
    int length = take_byte(l);
    struct learning line = *l;
    if (length <= 0 || (uint32_t)length > l->end - l->at || l->shape->lines++ > 0)
        return false;
    l->at = line.end = l->at + (uint32_t)length;
    while (line.at < line.end) {
        int tag = take_byte(&line);
        bool is_function = tag == WIRE_TAG(LINE_FUNCTION_INDEX, WIRE_VARINT);
        if (!is_function && tag != WIRE_TAG(LINE_LINE, WIRE_VARINT))
            return false;
        if (!take_number(&line, is_function ? SHAPE_FUNCTION : SHAPE_LINE, is_function ? 4 : 8))
            return false;
    }
    return true;
}

static bool take_field(struct learning *l)
{
    switch (take_byte(l)) {
    case WIRE_TAG(LOCATION_MAPPING_INDEX, WIRE_VARINT): return take_number(l, SHAPE_MAPPING, 4);
    case WIRE_TAG(LOCATION_ADDRESS, WIRE_VARINT): return take_number(l, SHAPE_ADDRESS, 8);
    case WIRE_TAG(LOCATION_LINES, WIRE_LEN): return take_line(l);
    case WIRE_TAG(LOCATION_ATTRIBUTE_INDICES, WIRE_LEN):
        l->shape->attributes = 1;
        return take_byte(l) == 1 && take_number(l, SHAPE_ATTRIBUTE, 1);
    default: return false;
    }
}

const struct shape *shapes_learn(struct shapes *s, uint32_t key, const uint8_t *from)
{
    if (from[0] != WIRE_TAG(DICTIONARY_LOCATION_TABLE, WIRE_LEN) || from[1] <= HOLLOW_BYTES ||
        from[1] > SHAPE_BYTES - 2)
        return NULL;
    struct shape made = {0};
    struct learning l = {&made, from, 0, 2u + from[1]};
    take_byte(&l); /* the tag */
    take_byte(&l); /* the length */
    while (l.at < l.end)
        if (!take_field(&l))
            return NULL;
    uint32_t number = add_shape(s);
    s->by_key[key] = (uint8_t)number;
    s->shape[number] = made;
    return &s->shape[number];
}
