/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tuples of 32-bit words with small dense numbers: equal tuples, equal number. What the matcher remembers by
 * content (bit rows, states, frame keys, reads, label sets) are all such tuples.
 */
#ifndef RULES_MATCH_TUPLES_H
#define RULES_MATCH_TUPLES_H

#include <stdint.h>

#include "proto/base/hash_table.h"
#include "proto/base/vec.h"

#define TUPLES_NONE UINT32_MAX

struct tuples {
    VEC(uint32_t) words;
    VEC(uint32_t) at; /* [n + 1] tuple i is words[at[i] … at[i + 1]); empty as long as there is none */
    struct hash_table table; /* by content */
    uint32_t n;
};

/* An empty set; its memory will be charged to the budget, which may be NULL. */
void tuples_init(struct tuples *t, struct budget *budget);

/* The number of this tuple, added if new. TUPLES_NONE when memory or the budget is out. */
uint32_t tuples_add(struct tuples *t, const uint32_t *words, uint32_t n);

/* Valid until the next one is added. */
static inline const uint32_t *tuples_get(const struct tuples *t, uint32_t i)
{
    return t->words.p + t->at.p[i];
}

static inline uint32_t tuples_length(const struct tuples *t, uint32_t i)
{
    return t->at.p[i + 1] - t->at.p[i];
}

void tuples_clear(struct tuples *t); /* forgets all, gives the memory back */

#endif
