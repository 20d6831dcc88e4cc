/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/intern.h"

#define KEEP_MAX (1u << 20)

/* The number, or INTERN_NONE with *at where it belongs. */
static uint32_t look(const struct intern *t, struct bytes b, uint64_t hash, struct hash_at *at)
{
    *at = hash_table_at(&t->table, hash);
    for (uint32_t id; (id = hash_table_next(&t->table, at)) != HASH_NONE;)
        if (bytes_eq(t->p[id], b))
            return id;
    return INTERN_NONE;
}

static uint32_t append(struct intern *t, struct bytes b)
{
    return b.p && vec_append(t, b) == 0 ? t->n - 1 : INTERN_NONE;
}

uint32_t intern_append(struct intern *t, struct bytes b)
{
    return vec_reserve(t, t->n + 1) == 0 ? append(t, arena_copy(&t->arena, b)) : INTERN_NONE;
}

static uint32_t add(struct intern *t, struct bytes b, uint64_t hash, bool stays)
{
    struct hash_at at;
    if (hash_table_reserve(&t->table, 1) < 0)
        return INTERN_NONE;
    uint32_t id = look(t, b, hash, &at);
    if (id != INTERN_NONE)
        return id;
    id = stays ? append(t, b) : intern_append(t, b);
    if (id != INTERN_NONE)
        hash_table_add(&t->table, at, id); /* there is room */
    return id;
}

uint32_t intern_add(struct intern *t, struct bytes b)
{
    return add(t, b, intern_hash(b), false);
}

uint32_t intern_add_hashed(struct intern *t, struct bytes b, uint64_t hash)
{
    return add(t, b, hash, false);
}

uint32_t intern_add_slice(struct intern *t, struct bytes b)
{
    return add(t, b, intern_hash(b), true);
}

uint32_t intern_find(const struct intern *t, struct bytes b)
{
    return t->n == 0 ? INTERN_NONE : intern_find_hashed(t, b, intern_hash(b));
}

uint32_t intern_find_hashed(const struct intern *t, struct bytes b, uint64_t hash)
{
    struct hash_at at;
    return look(t, b, hash, &at);
}

void intern_clear(struct intern *t)
{
    arena_reset(&t->arena, KEEP_MAX);
    hash_table_clear(&t->table);
    vec_clear(t);
}

void intern_release(struct intern *t)
{
    arena_release(&t->arena);
    hash_table_release(&t->table);
    vec_release(t);
}
