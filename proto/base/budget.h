/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A memory account: whoever makes us hold bytes is charged for them, and refused when the account is spent.
 *
 * Budgets nest: a request's account draws on its peer's, the peer's on the process's. Counting is atomic, so
 * that worker threads may share a parent.
 */
#ifndef PROTO_BASE_BUDGET_H
#define PROTO_BASE_BUDGET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct budget {
    struct budget *parent; /* charged along with this one; NULL at the top */
    size_t limit;          /* bytes */
    /* Asked when n bytes pass the limit, which it may raise (meter.h): then true. NULL: the limit holds. */
    bool (*more)(struct budget *b, size_t n);
    atomic_size_t used;
};

#define BUDGET_INIT(limit_, parent_)           \
    {                                          \
        .parent = (parent_), .limit = (limit_) \
    }

/* Charges n bytes here and in every parent, or nowhere: false when one of them would pass its limit.
 * A NULL budget is unlimited. Any thread. */
bool budget_charge(struct budget *b, size_t n);

/* Gives back what was charged. Any thread. */
void budget_refund(struct budget *b, size_t n);

/* Whether work that memory ended for would end so if it came again, for which there is no limit but the
 * budget: it made us hold a quarter of it (grown, at its most; holds, of that still), while all else was less
 * than a quarter. Then more room than half of the budget would not have done. NULL is never too small. */
bool budget_is_too_small(const struct budget *b, size_t grown, size_t holds);

#endif
