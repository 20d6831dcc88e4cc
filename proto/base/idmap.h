/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A map from 64-bit keys, mostly two small numbers side by side, to 32-bit values: open addressing with both
 * in the slot, at most half full, charged to a budget. The numbers are our own, but a peer chooses which
 * pairs of them there are: hashing is seeded. UINT64_MAX is no key.
 */
#ifndef PROTO_BASE_IDMAP_H
#define PROTO_BASE_IDMAP_H

#include <stdint.h>

#include "proto/base/budget.h"
#include "proto/base/hash.h"

struct idmap_slot {
    uint64_t key;
    uint32_t value;
};

struct idmap {
    struct budget *budget; /* may be NULL */
    struct idmap_slot *slots;
    uint32_t n_slots, n;
};

#define IDMAP_FREE UINT64_MAX /* the key of a slot without one */

#define IDMAP_INIT(budget_) \
    {                       \
        .budget = (budget_) \
    }

static inline uint64_t idmap_key(uint32_t a, uint32_t b)
{
    return (uint64_t)a << 32 | b;
}

/* The key's slot, or the free one where it belongs; there are slots. For idmap.c. */
static inline struct idmap_slot *idmap_probe(struct idmap_slot *slots, uint32_t n_slots, uint64_t key)
{
    uint32_t i = (uint32_t)hash_mix(key, hash_seed()) & (n_slots - 1);
    while (slots[i].key != key && slots[i].key != IDMAP_FREE)
        i = (i + 1) & (n_slots - 1);
    return &slots[i];
}

/* The value's place, or NULL. */
static inline uint32_t *idmap_find(const struct idmap *m, uint64_t key)
{
    if (m->n == 0)
        return NULL;
    struct idmap_slot *slot = idmap_probe(m->slots, m->n_slots, key);
    return slot->key == key ? &slot->value : NULL;
}

/* The value's place, made with `fresh` in it if the key is new; NULL when memory or the budget is out. Valid
 * until the next call. */
uint32_t *idmap_place(struct idmap *m, uint64_t key, uint32_t fresh);

/* The key's slot; or a free one with room for it, which idmap_put makes its own. NULL as above; valid until
 * the next call that adds a key. */
struct idmap_slot *idmap_seek(struct idmap *m, uint64_t key);

static inline void idmap_put(struct idmap *m, struct idmap_slot *free, uint64_t key, uint32_t value)
{
    *free = (struct idmap_slot){key, value};
    m->n++;
}

/* Forgets all keys, keeps the memory. */
void idmap_clear(struct idmap *m);

/* Gives it back; the map may be used again. */
void idmap_release(struct idmap *m);

#endif
