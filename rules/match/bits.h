/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strings of bits in 32-bit words: states, frame classes, sets of rules and rows.
 */
#ifndef RULES_MATCH_BITS_H
#define RULES_MATCH_BITS_H

#include <stdbool.h>
#include <stdint.h>

static inline bool bits_get(const uint32_t *words, uint32_t bit)
{
    return words[bit / 32] >> (bit % 32) & 1;
}
static inline void bits_set(uint32_t *words, uint32_t bit)
{
    words[bit / 32] |= 1u << (bit % 32);
}
static inline void bits_clear(uint32_t *words, uint32_t bit)
{
    words[bit / 32] &= ~(1u << (bit % 32));
}

/* The number that `width` bits from `bit` on spell, the lowest first. */
static inline uint32_t bits_number(const uint32_t *words, uint32_t bit, uint32_t width)
{
    uint32_t v = 0;
    for (uint32_t i = 0; i < width; i++)
        v |= (uint32_t)bits_get(words, bit + i) << i;
    return v;
}

#endif
