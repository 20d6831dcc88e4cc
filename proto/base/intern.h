/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A set of byte strings with small dense numbers: the same bytes always get the same number, 0, 1, 2 … in
 * order of arrival. It owns its copies. Keys may come from a peer: hashing is seeded.
 */
#ifndef PROTO_BASE_INTERN_H
#define PROTO_BASE_INTERN_H

#include <stdint.h>

#include "proto/base/arena.h"
#include "proto/base/bytes.h"
#include "proto/base/hash.h"
#include "proto/base/hash_table.h"
#include "proto/base/vec.h"

struct intern {
    VEC(struct bytes); /* p[id], and n of them */
    struct hash_table table;
    struct arena arena; /* what p points into */
};

#define INTERN_NONE UINT32_MAX

/* The strings themselves are charged to the budget. */
#define INTERN_INIT(budget_)         \
    {                                \
        .arena = ARENA_INIT(budget_) \
    }

/* The number of these bytes, added if new. INTERN_NONE when memory or the budget is out. */
uint32_t intern_add(struct intern *t, struct bytes b);

/* The same for bytes that stay where they are as long as the set has them: they are not copied (nor is there
 * a NUL behind them). */
uint32_t intern_add_slice(struct intern *t, struct bytes b);

/* The next number for these bytes, whether or not equal ones have one; intern_add and intern_find never say
 * it. INTERN_NONE when memory or the budget is out. */
uint32_t intern_append(struct intern *t, struct bytes b);

/* The number of these bytes, or INTERN_NONE if they were never added. */
uint32_t intern_find(const struct intern *t, struct bytes b);

/* The same two for who has the hash of the bytes, or asks more than once. */
static inline uint64_t intern_hash(struct bytes b)
{
    return hash_bytes(b, hash_seed());
}
uint32_t intern_add_hashed(struct intern *t, struct bytes b, uint64_t hash);
uint32_t intern_find_hashed(const struct intern *t, struct bytes b, uint64_t hash);

/* The bytes of a number that intern_add gave; NUL-terminated; valid until clear or release. */
static inline struct bytes intern_get(const struct intern *t, uint32_t id)
{
    return t->p[id];
}

/* Forgets all strings, keeps the memory of the tables. */
void intern_clear(struct intern *t);

void intern_release(struct intern *t);

#endif
