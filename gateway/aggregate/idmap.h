/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A map from pairs of small numbers, packed in 64 bits, to 32-bit values: open addressing, charged to a
 * budget. The numbers are our own, but a peer chooses which pairs of them there are: hashing is seeded.
 * UINT64_MAX is no key.
 */
#ifndef GATEWAY_AGGREGATE_IDMAP_H
#define GATEWAY_AGGREGATE_IDMAP_H

#include <stdint.h>

#include "proto/base/budget.h"

struct idmap {
    struct budget *budget;
    struct idmap_slot *slots;
    uint32_t n_slots, n;
};

#define IDMAP_INIT(budget_) \
    {                       \
        .budget = (budget_) \
    }

static inline uint64_t idmap_key(uint32_t a, uint32_t b)
{
    return (uint64_t)a << 32 | b;
}

/* The value's place, made with `fresh` in it if the key is new; NULL when memory or the budget is out. Valid
 * until the next call. */
uint32_t *idmap_place(struct idmap *m, uint64_t key, uint32_t fresh);

/* The value's place, or NULL. */
uint32_t *idmap_find(const struct idmap *m, uint64_t key);

/* Forgets all keys, keeps the memory. */
void idmap_clear(struct idmap *m);

void idmap_release(struct idmap *m);

#endif
