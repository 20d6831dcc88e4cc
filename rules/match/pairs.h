/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A map from pairs of numbers to a number: open addressing, seeded, charged to a budget.
 */
#ifndef RULES_MATCH_PAIRS_H
#define RULES_MATCH_PAIRS_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/budget.h"

struct pair_slot {
    uint64_t key;
    uint32_t value; /* + 1; 0: free */
};

/* All zero, but for the budget, is an empty one. */
struct pairs {
    struct budget *budget; /* may be NULL */
    struct pair_slot *slot;
    uint32_t n, n_slots;
};

static inline uint64_t pair_key(uint32_t a, uint32_t b)
{
    return (uint64_t)a << 32 | b;
}

/* Whether the key is there; then *ret is its value. */
bool pairs_find(const struct pairs *t, uint64_t key, uint32_t *ret);

/* The key must be new, the value below UINT32_MAX. 0 or -ENOMEM. */
int pairs_set(struct pairs *t, uint64_t key, uint32_t value);

void pairs_clear(struct pairs *t); /* forgets all, gives the memory back */

#endif
