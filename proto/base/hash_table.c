/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/hash_table.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_SLOTS 16u
#define SLOTS_MAX   (UINT64_C(1) << 31) /* 16 GiB */

static uint32_t slots_of(const struct hash_table *t)
{
    return t->slots ? t->mask + 1 : 0;
}

/* Into the first free slot from `at` on; there is one. */
static void put(struct hash_slot *slots, uint32_t mask, uint32_t at, struct hash_slot one)
{
    while (slots[at].entry != 0)
        at = (at + 1) & mask;
    slots[at] = one;
}

static int rehash(struct hash_table *t, uint64_t n)
{
    uint32_t was = slots_of(t);
    if (n > SLOTS_MAX || !budget_charge(t->budget, n * sizeof *t->slots))
        return -ENOMEM;
    struct hash_slot *slots = calloc(n, sizeof *slots);
    if (!slots) {
        budget_refund(t->budget, n * sizeof *slots);
        return -ENOMEM;
    }
    uint32_t mask = (uint32_t)(n - 1);
    for (uint32_t i = 0; i < was; i++)
        if (t->slots[i].entry != 0)
            put(slots, mask, t->slots[i].hash & mask, t->slots[i]);
    free(t->slots);
    budget_refund(t->budget, was * sizeof *slots);
    t->slots = slots;
    t->mask = mask;
    return 0;
}

/* Whether so many more fit in the slots there are. */
static bool fits(const struct hash_table *t, uint64_t more)
{
    return likely(t->slots) && (t->used + more) * 4 <= ((uint64_t)t->mask + 1) * 3;
}

int hash_table_reserve(struct hash_table *t, uint32_t more)
{
    if (likely(fits(t, more)))
        return 0;
    uint64_t need = (uint64_t)t->used + more, n = FIRST_SLOTS;
    while (need * 4 > n * 3)
        n *= 2;
    return rehash(t, n);
}

int hash_table_add(struct hash_table *t, struct hash_at at, uint32_t number)
{
    if (unlikely(!fits(t, 1))) {
        if (hash_table_reserve(t, 1) < 0)
            return -ENOMEM;
        at = hash_table_at(t, at.hash);
    }
    put(t->slots, t->mask, at.slot, (struct hash_slot){at.hash, number + 1});
    t->used++;
    return 0;
}

static uint32_t slot_of(const struct hash_table *t, uint64_t hash, uint32_t number)
{
    uint32_t i = (uint32_t)hash & t->mask;
    while (t->slots[i].entry != number + 1) {
        assert(t->slots[i].entry != 0); /* it is there */
        i = (i + 1) & t->mask;
    }
    return i;
}

/* What stands behind the hole moves into it, unless its way begins behind the hole: so no way has a gap, and
 * nothing remains of what was there (Knuth, volume 3, section 6.4, algorithm R). */
void hash_table_remove(struct hash_table *t, uint64_t hash, uint32_t number)
{
    uint32_t hole = slot_of(t, hash, number);
    for (uint32_t i = (hole + 1) & t->mask; t->slots[i].entry != 0; i = (i + 1) & t->mask) {
        uint32_t way = (i - t->slots[i].hash) & t->mask, from_hole = (i - hole) & t->mask;
        if (way < from_hole)
            continue;
        t->slots[hole] = t->slots[i];
        hole = i;
    }
    t->slots[hole] = (struct hash_slot){0};
    t->used--;
}

void hash_table_clear(struct hash_table *t)
{
    if (t->used > 0)
        memset(t->slots, 0, ((size_t)t->mask + 1) * sizeof *t->slots);
    t->used = 0;
}

void hash_table_release(struct hash_table *t)
{
    budget_refund(t->budget, (size_t)slots_of(t) * sizeof *t->slots);
    free(t->slots);
    *t = (struct hash_table){.budget = t->budget};
}
