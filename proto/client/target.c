/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/client/target.h"

#include "proto/base/macros.h"

static bool is_well(const struct target *t, uint64_t now_ns)
{
    return t->down_until_ns <= now_ns;
}

bool target_is_any_well(const struct targets *t, uint64_t now_ns)
{
    for (uint32_t i = 0; i < t->n; i++)
        if (is_well(&t->at[i], now_ns))
            return true;
    return false;
}

static uint32_t first_to_be_well(const struct targets *t)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < t->n; i++)
        if (t->at[i].down_until_ns < t->at[best].down_until_ns)
            best = i;
    return best;
}

/* Smooth weighted round robin: each gets its weight, the one that has most goes and pays for all: 5, 1, 1 are
 * a a b a c a a rather than a a a a a b c. */
static uint32_t by_turns(struct targets *t, uint64_t now_ns)
{
    uint32_t best = UINT32_MAX;
    int64_t sum = 0;
    for (uint32_t i = 0; i < t->n; i++) {
        struct target *one = &t->at[i];
        if (!is_well(one, now_ns))
            continue;
        one->turn += one->weight;
        sum += one->weight;
        if (best == UINT32_MAX || one->turn > t->at[best].turn)
            best = i;
    }
    t->at[best].turn -= sum;
    return best;
}

uint32_t target_pick(struct targets *t, uint64_t now_ns)
{
    if (t->n == 1)
        return 0;
    if (!target_is_any_well(t, now_ns))
        return first_to_be_well(t);
    if (!t->failover)
        return by_turns(t, now_ns);
    uint32_t i = 0;
    while (!is_well(&t->at[i], now_ns))
        i++;
    return i;
}

void target_failed(struct target *t, uint64_t now_ns, uint64_t asked_ns)
{
    const uint64_t twice = 2 * max_of(t->pause_ns, (uint64_t)TARGET_PAUSE_MIN_NS / 2);
    t->pause_ns = min_of(twice, (uint64_t)TARGET_PAUSE_MAX_NS);
    t->down_until_ns = now_ns + max_of(t->pause_ns, asked_ns);
}

void target_succeeded(struct target *t)
{
    t->down_until_ns = t->pause_ns = 0;
    t->n_taken++;
}
