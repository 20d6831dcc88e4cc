/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/intern.h"

#include <stdlib.h>

#include "proto/base/hash.h"

#define FIRST_SLOTS 64u
#define KEEP_MAX    (1u << 20)

static uint32_t probe(const struct intern *t, struct bytes b, uint64_t h)
{
    uint32_t mask = t->n_slots - 1, i = (uint32_t)h & mask;
    while (t->slot[i] != 0) {
        uint32_t id = t->slot[i] - 1;
        if (t->hash[id] == h && bytes_eq(t->item[id], b))
            break;
        i = (i + 1) & mask;
    }
    return i;
}

static int grow_slots(struct intern *t)
{
    uint32_t n = t->n_slots ? t->n_slots * 2 : FIRST_SLOTS;
    uint32_t *slot = calloc(n, sizeof *slot);
    if (!slot)
        return -1;
    for (uint32_t id = 0; id < t->n; id++) {
        uint32_t i = (uint32_t)t->hash[id] & (n - 1);
        while (slot[i] != 0)
            i = (i + 1) & (n - 1);
        slot[i] = id + 1;
    }
    free(t->slot);
    t->slot = slot;
    t->n_slots = n;
    return 0;
}

static int grow_items(struct intern *t)
{
    uint32_t cap = t->cap ? t->cap * 2 : FIRST_SLOTS;
    struct bytes *item = realloc(t->item, cap * sizeof *item);
    if (!item)
        return -1;
    t->item = item;
    uint64_t *hash = realloc(t->hash, cap * sizeof *hash);
    if (!hash)
        return -1;
    t->hash = hash;
    t->cap = cap;
    return 0;
}

uint32_t intern_add(struct intern *t, struct bytes b)
{
    if ((t->n + 1) * 4 > t->n_slots * 3 && grow_slots(t) < 0)
        return INTERN_NONE;
    uint64_t h = hash_bytes(b, hash_seed());
    uint32_t i = probe(t, b, h);
    if (t->slot[i] != 0)
        return t->slot[i] - 1;
    if (t->n == t->cap && grow_items(t) < 0)
        return INTERN_NONE;
    struct bytes copy = arena_copy(&t->arena, b);
    if (!copy.p)
        return INTERN_NONE;
    t->item[t->n] = copy;
    t->hash[t->n] = h;
    t->slot[i] = ++t->n;
    return t->n - 1;
}

uint32_t intern_find(const struct intern *t, struct bytes b)
{
    if (t->n == 0)
        return INTERN_NONE;
    uint32_t i = probe(t, b, hash_bytes(b, hash_seed()));
    return t->slot[i] ? t->slot[i] - 1 : INTERN_NONE;
}

void intern_clear(struct intern *t)
{
    arena_reset(&t->arena, KEEP_MAX);
    if (t->slot)
        memset(t->slot, 0, t->n_slots * sizeof *t->slot);
    t->n = 0;
}

void intern_release(struct intern *t)
{
    arena_release(&t->arena);
    free(t->item);
    free(t->hash);
    free(t->slot);
    t->item = NULL;
    t->hash = NULL;
    t->slot = NULL;
    t->n = t->cap = t->n_slots = 0;
}
