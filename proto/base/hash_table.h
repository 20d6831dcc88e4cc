/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hash table of numbers: it says which elements of the caller's own array have this hash, and the caller
 * which of them is the one that is asked for. Elements are named by their index; what they look like, and
 * when two are the same, the table never learns.
 *
 *     struct hash_at at = hash_table_at(&t, hash);
 *     for (uint32_t i; (i = hash_table_next(&t, &at)) != HASH_NONE;)
 *         if (same(&things.p[i], key))
 *             return i;
 *     if (vec_reserve(&things, things.n + 1) < 0 || hash_table_add(&t, at, things.n) < 0)
 *         return -ENOMEM;
 *     things.p[things.n++] = …
 *
 * Open addressing with linear probing, at most three quarters full. Half of the hash stands beside the
 * number: eight slots share a cache line, an element is not looked at unless 32 bits agree, and growing needs
 * neither the elements nor their hashes. So places in the table must depend on the low 32 bits of the hash:
 * hash_bytes() and hash_mix() give such. Where a peer chooses keys, seed them (hash.h).
 *
 * Not for what a key of 64 bits and a value of 32 say in full (idmap.h finds them in one place), nor where
 * entries end one by one in an order of their own, and a chain through them is what keeps that order.
 */
#ifndef PROTO_BASE_HASH_TABLE_H
#define PROTO_BASE_HASH_TABLE_H

#include <stdint.h>

#include "proto/base/budget.h"
#include "proto/base/macros.h"

#define HASH_NONE UINT32_MAX

struct hash_slot {
    uint32_t hash;  /* its low half */
    uint32_t entry; /* the number + 1; 0: free */
};

/* All zero, but for the budget, is an empty one. One object, one thread. */
struct hash_table {
    struct hash_slot *slots; /* NULL until something is added */
    uint32_t mask;           /* slots - 1 */
    uint32_t used;
    struct budget *budget; /* charged for slots; may be NULL */
};

struct hash_at {
    uint32_t hash, slot;
};

/* Where to begin looking. */
static inline struct hash_at hash_table_at(const struct hash_table *t, uint64_t hash)
{
    return (struct hash_at){(uint32_t)hash, (uint32_t)hash & t->mask};
}

/* The next number with this hash (its low half), or HASH_NONE. The table may not change meanwhile. */
static inline uint32_t hash_table_next(const struct hash_table *t, struct hash_at *at)
{
    if (unlikely(t->used == 0))
        return HASH_NONE;
    for (;;) {
        struct hash_slot slot = t->slots[at->slot];
        if (slot.entry == 0)
            return HASH_NONE;
        at->slot = (at->slot + 1) & t->mask;
        if (slot.hash == at->hash)
            return slot.entry - 1;
    }
}

/* Makes sure that the next `more` hash_table_add() succeed. 0, or -ENOMEM (memory or the budget). */
int hash_table_reserve(struct hash_table *t, uint32_t more);

/* Adds a number under the hash of `at`: what hash_table_at gave, or where hash_table_next found no more, and
 * no call since that changes the table. Nobody asks whether it was there. 0, or -ENOMEM with nothing changed.
 */
int hash_table_add(struct hash_table *t, struct hash_at at, uint32_t number);

/* Takes a number out that is there under this hash. */
void hash_table_remove(struct hash_table *t, uint64_t hash, uint32_t number);

/* Forgets all, keeps the memory; hash_table_release gives that back as well. Either may be used again. */
void hash_table_clear(struct hash_table *t);
void hash_table_release(struct hash_table *t);

#endif
