/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/match/pairs.h"

#include <errno.h>
#include <stdlib.h>

#include "proto/base/hash.h"
#include "proto/base/macros.h"

static uint32_t place(const struct pairs *t, uint64_t key)
{
    uint32_t mask = t->n_slots - 1, i = (uint32_t)hash_mix(key, hash_seed()) & mask;
    while (t->slot[i].value != 0 && t->slot[i].key != key)
        i = (i + 1) & mask;
    return i;
}

bool pairs_find(const struct pairs *t, uint64_t key, uint32_t *ret)
{
    if (t->n == 0)
        return false;
    const struct pair_slot *slot = &t->slot[place(t, key)];
    if (slot->value == 0)
        return false;
    *ret = slot->value - 1;
    return true;
}

static int rehash(struct pairs *t)
{
    struct pairs more = {.budget = t->budget, .n = t->n, .n_slots = t->n_slots ? t->n_slots * 2 : 64};
    if (more.n_slots == 0 || !budget_charge(t->budget, more.n_slots * sizeof *more.slot))
        return -ENOMEM;
    more.slot = calloc(more.n_slots, sizeof *more.slot);
    if (!more.slot) {
        budget_refund(t->budget, more.n_slots * sizeof *more.slot);
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < t->n_slots; i++)
        if (t->slot[i].value != 0)
            more.slot[place(&more, t->slot[i].key)] = t->slot[i];
    pairs_clear(t);
    *t = more;
    return 0;
}

int pairs_set(struct pairs *t, uint64_t key, uint32_t value)
{
    if ((uint64_t)(t->n + 1) * 2 > t->n_slots && rehash(t) < 0)
        return -ENOMEM;
    t->slot[place(t, key)] = (struct pair_slot){key, value + 1};
    t->n++;
    return 0;
}

void pairs_clear(struct pairs *t)
{
    free(t->slot);
    budget_refund(t->budget, t->n_slots * sizeof *t->slot);
    *t = (struct pairs){.budget = t->budget};
}
