/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shapes of locations: where the fields of a short one stand. An entry whose tags, lengths and bytes that
 * continue are those of one seen before is read by that one's places, after one comparison and without a
 * branch a field. They are learned from what comes, so every order of fields is as fast; captures have some
 * thirty. Worth 13 % of a decode's time (54.7 -> 47.3 us, bench_decode) and 18 % of its instructions. Private
 * to proto/otlp/view.
 */
#ifndef PROTO_OTLP_VIEW_SHAPE_H
#define PROTO_OTLP_VIEW_SHAPE_H

#include <stdint.h>

#define SHAPE_BYTES 32u /* of an entry with its tag and length; longer ones have no shape */
#define SHAPES      64u /* more are learned anew */
#define SHAPE_KEYS  1024u

enum shape_field {
    SHAPE_MAPPING,
    SHAPE_ADDRESS,
    SHAPE_FUNCTION,
    SHAPE_LINE,
    SHAPE_NUMBERS,
    SHAPE_ATTRIBUTE = SHAPE_NUMBERS, /* one byte */
    SHAPE_FIELDS
};

struct shape {
    uint8_t mask[SHAPE_BYTES],
        pattern[SHAPE_BYTES];     /* which bits of an entry say the shape, and what they are */
    uint64_t bits[SHAPE_NUMBERS]; /* of the eight bytes at `at` those that are the value */
    uint8_t at[SHAPE_FIELDS];     /* 0: the field is not there */
    uint8_t lines, attributes;    /* one or none */
    uint8_t unused[25];           /* found by a shift: 2 % of a decode */
};
_Static_assert(sizeof(struct shape) == 128, "a power of two");

struct shapes {
    uint32_t n;                 /* 0: this processor has no use for them */
    uint8_t by_key[SHAPE_KEYS]; /* 0: none */
    struct shape shape[SHAPES]; /* 0: what no entry has */
};

void shapes_init(struct shapes *s); /* `s` is zeroed */

/* A key of entries of one shape: their length, first tag, and which bytes are not the last of a number. No
 * byte of a value may be part of it. */
static inline uint32_t shape_key(uint8_t length, uint8_t tag, uint32_t more)
{
    return (uint32_t)(((uint64_t)more << 16 | (uint64_t)tag << 8 | length) * 0x9e3779b97f4a7c15u >> 54);
}

/* The shape of the entry at `from`, all of which is there, from now on found by the key. NULL: it has none.
 */
const struct shape *shapes_learn(struct shapes *s, uint32_t key, const uint8_t *from);

#endif
