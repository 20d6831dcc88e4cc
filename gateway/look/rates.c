/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Max-min: with demands d and N to give, each gets min(d, level), where the level is such that these are N
 * together. The smallest are satisfied one after the other; the rest share what is left equally.
 */
#include "gateway/look/rates.h"

#include <stdlib.h>
#include <string.h>

#include "proto/base/macros.h"

/* Saved up at most. */
#define BURST_SECONDS 10

/* Of a demand that was, in each second. */
#define FADING 0.5

void look_rates_init(struct look_rates *r, uint32_t per_second)
{
    memset(r->demand, 0, sizeof r->demand);
    r->per_second = per_second;
    atomic_init(&r->tokens, (int64_t)per_second * BURST_SECONDS);
    atomic_init(&r->generation, 1);
    for (uint32_t i = 0; i < LOOK_RATES; i++)
        atomic_init(&r->p[i], LOOK_RATES_ONE);
}

uint32_t look_rates_take(struct look_rates *r, uint32_t place, uint32_t n)
{
    const uint32_t p = atomic_load_explicit(&r->p[place], memory_order_relaxed);
    const int64_t wanted = (int64_t)(((uint64_t)n * p + LOOK_RATES_ONE - 1) / LOOK_RATES_ONE);
    const int64_t had = atomic_fetch_sub_explicit(&r->tokens, wanted, memory_order_relaxed);
    if (likely(had >= wanted))
        return p;
    const int64_t got = max_of(had, (int64_t)0);
    atomic_fetch_add_explicit(&r->tokens, wanted - got, memory_order_relaxed);
    return wanted > 0 ? (uint32_t)((uint64_t)p * (uint64_t)got / (uint64_t)wanted) : p;
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return order_of(x, y);
}

static double level_of(const double demand[LOOK_RATES], double give)
{
    double sorted[LOOK_RATES];
    memcpy(sorted, demand, sizeof sorted);
    qsort(sorted, LOOK_RATES, sizeof *sorted, ascending);
    for (uint32_t i = 0; i < LOOK_RATES; i++) {
        const double share = give / (LOOK_RATES - i);
        if (sorted[i] > share)
            return share;
        give -= sorted[i];
    }
    return sorted[LOOK_RATES - 1];
}

void look_rates_set(struct look_rates *r, const uint64_t came[LOOK_RATES], double seconds)
{
    for (uint32_t i = 0; i < LOOK_RATES; i++) {
        const double now = (double)came[i] / seconds;
        r->demand[i] = max_of(now, r->demand[i] * FADING + now * (1 - FADING));
    }
    const int64_t most = (int64_t)r->per_second * BURST_SECONDS;
    const int64_t tokens = atomic_load(&r->tokens), earned = (int64_t)(r->per_second * seconds);
    atomic_fetch_add(&r->tokens, min_of(earned, most - min_of(tokens, most)));
    /* What was saved up is there to be spent, half of it at a time. */
    const double saved = (double)max_of(tokens - r->per_second, (int64_t)0);
    const double level = level_of(r->demand, r->per_second + saved / 2);
    for (uint32_t i = 0; i < LOOK_RATES; i++) {
        const double p = r->demand[i] > level ? level / r->demand[i] : 1;
        atomic_store_explicit(&r->p[i], max_of((uint32_t)(p * LOOK_RATES_ONE), 1u), memory_order_relaxed);
    }
}
