/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tuples of 32-bit words with small dense numbers: equal tuples, equal number. What the matcher remembers by
 * content (bit rows, states, frame keys, label sets, paths of the decision tree) are all such tuples. And
 * growable arrays that are charged to a budget.
 */
#ifndef RULES_MATCH_TUPLES_H
#define RULES_MATCH_TUPLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/budget.h"

#define TUPLES_NONE UINT32_MAX

struct tuples {
    struct budget *budget;
    uint32_t *words;
    size_t n_words, cap_words;
    size_t *at; /* [n + 1] tuple i is words[at[i] … at[i + 1]) */
    uint64_t *hash;
    uint32_t *slot; /* open addressing; number + 1, 0 is free */
    uint32_t n, cap, cap_hash, n_slots;
};

/* The number of this tuple, added if new. TUPLES_NONE when memory or the budget is out. */
uint32_t tuples_add(struct tuples *t, const uint32_t *words, uint32_t n);

/* The number, or TUPLES_NONE if it was never added. */
uint32_t tuples_find(const struct tuples *t, const uint32_t *words, uint32_t n);

static inline const uint32_t *tuples_get(const struct tuples *t, uint32_t i)
{
    return t->words + t->at[i];
}

static inline uint32_t tuples_length(const struct tuples *t, uint32_t i)
{
    return (uint32_t)(t->at[i + 1] - t->at[i]);
}

void tuples_clear(struct tuples *t); /* forgets all, gives the memory back */

/* Grows *p to hold at least `need` elements of `size` bytes; *cap counts elements and only grows here. New
 * memory is not cleared. 0 or -ENOMEM (memory or budget). */
int charged_grow(struct budget *b, void *p, uint32_t *cap, uint32_t need, size_t size);
void charged_free(struct budget *b, void *p, uint32_t *cap, size_t size);

#endif
