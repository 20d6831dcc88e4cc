/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/budget.h"

#include <assert.h>

#include "proto/base/macros.h"

static bool charge_one(struct budget *b, size_t n)
{
    size_t used = atomic_load_explicit(&b->used, memory_order_relaxed);
    do {
        while (n > b->limit || used > b->limit - n)
            if (!b->more || !b->more(b, n))
                return false;
    } while (!atomic_compare_exchange_weak_explicit(&b->used, &used, used + n, memory_order_relaxed,
                                                    memory_order_relaxed));
    return true;
}

bool budget_charge(struct budget *b, size_t n)
{
    for (struct budget *at = b; at; at = at->parent) {
        if (charge_one(at, n))
            continue;
        for (struct budget *undo = b; undo != at; undo = undo->parent)
            atomic_fetch_sub_explicit(&undo->used, n, memory_order_relaxed);
        return false;
    }
    return true;
}

void budget_refund(struct budget *b, size_t n)
{
    for (; b; b = b->parent) {
        size_t was = atomic_fetch_sub_explicit(&b->used, n, memory_order_relaxed);
        assert(was >= n);
        (void)was;
    }
}

bool budget_is_too_small(const struct budget *b, size_t grown, size_t holds)
{
    if (!b || grown < b->limit / 4)
        return false;
    const size_t used = atomic_load_explicit(&b->used, memory_order_relaxed);
    return used - min_of(used, holds) < b->limit / 4;
}
