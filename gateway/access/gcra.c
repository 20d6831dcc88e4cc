/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/access/gcra.h"

#include "proto/base/clock.h"
#include "proto/base/macros.h"

/* A century: sums of a time and a few of these cannot pass 64 bits. */
#define COST_MAX (100ull * 366 * 86400 * NSEC_PER_SEC)

uint64_t gcra_cost(uint64_t n, uint64_t per_second)
{
    unsigned __int128 ns = ((unsigned __int128)n * NSEC_PER_SEC + per_second - 1) / per_second;
    return ns < COST_MAX ? (uint64_t)ns : COST_MAX;
}

bool gcra_take(struct gcra *g, uint64_t now, uint64_t cost, uint64_t burst_ns, uint64_t *ret_wait_ns)
{
    uint64_t was = atomic_load_explicit(&g->paid_until, memory_order_relaxed), until;
    do {
        until = max_of(was, now) + cost;
        if (until - now > burst_ns) {
            *ret_wait_ns = until - now - burst_ns;
            return false;
        }
    } while (!atomic_compare_exchange_weak_explicit(&g->paid_until, &was, until, memory_order_relaxed,
                                                    memory_order_relaxed));
    return true;
}

uint64_t gcra_owe(struct gcra *g, uint64_t now, uint64_t cost, uint64_t burst_ns)
{
    uint64_t was = atomic_load_explicit(&g->paid_until, memory_order_relaxed), until;
    do
        until = min_of(max_of(was, now), now + COST_MAX) + cost;
    while (!atomic_compare_exchange_weak_explicit(&g->paid_until, &was, until, memory_order_relaxed,
                                                  memory_order_relaxed));
    return until - now > burst_ns ? until - now - burst_ns : 0;
}

void gcra_return(struct gcra *g, uint64_t cost)
{
    atomic_fetch_sub_explicit(&g->paid_until, cost, memory_order_relaxed);
}
