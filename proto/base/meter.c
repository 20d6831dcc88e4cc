/* SPDX-License-Identifier: Apache-2.0 */
/*
 * While a meter works for a client, its budget's limit is what the budget held at the beginning, and what was
 * drawn from the account since: who needs more asks `draw`. So an account costs nothing while memory is used
 * again that is held already.
 */
#include "proto/base/meter.h"

#include "proto/base/macros.h"
#include "proto/base/share.h"

/* Drawn at least, so that a table that doubles asks seldom. */
#define STEP ((size_t)64 << 10)

size_t meter_most(const struct meter *m)
{
    const struct budget *all = m->budget.parent;
    if (!all)
        return SIZE_MAX;
    return m->account ? all->limit / 8 * METER_FIRST_EIGHTHS : all->limit;
}

/* Whether the budget above has room for n more beside what is left to others. */
static bool leaves_room(const struct meter *m, size_t n)
{
    const struct budget *all = m->budget.parent;
    if (!all)
        return true;
    const size_t most = meter_most(m);
    const size_t used = atomic_load_explicit(&all->used, memory_order_relaxed);
    return used <= most && n <= most - used;
}

/* Whether a client that holds so much may hold n more: of its own, and of what is left to all. */
static bool is_within_share(const struct meter *m, size_t held, size_t n)
{
    const struct budget *all = m->budget.parent;
    const size_t limit = m->accounts->limit;
    if (held > limit || n > limit - held)
        return false;
    return !all || share_allows(all->limit, atomic_load_explicit(&all->used, memory_order_relaxed), held, n);
}

static bool draw(struct budget *b, size_t n)
{
    struct meter *m = container_of(b, struct meter, budget);
    const size_t step = max_of(n, STEP);
    const size_t held = atomic_fetch_add_explicit(&m->account->held, step, memory_order_relaxed);
    const bool is_first = atomic_load_explicit(&m->account->first, memory_order_relaxed) == m;
    if (!is_within_share(m, held, step) && !(is_first && leaves_room(m, step))) {
        atomic_fetch_sub_explicit(&m->account->held, step, memory_order_relaxed);
        m->is_spent |= !is_first;
        return false;
    }
    m->drawn += step;
    b->limit += step;
    return true;
}

void meter_init(struct meter *m, struct accounts *accounts, struct budget *parent)
{
    *m = (struct meter){.budget = BUDGET_INIT(SIZE_MAX, parent), .accounts = accounts};
}

bool meter_begin(struct meter *m, uint64_t client)
{
    meter_end(m);
    m->is_spent = false;
    if (client == 0 || !m->accounts || m->accounts->limit == SIZE_MAX)
        return true;
    struct account *account = account_of(m->accounts, client);
    struct meter *nobody = NULL;
    if (!is_within_share(m, atomic_load_explicit(&account->held, memory_order_relaxed), 1))
        return false;
    atomic_compare_exchange_strong(&account->first, &nobody, m);
    m->account = account;
    m->budget.more = draw;
    m->budget.limit = atomic_load_explicit(&m->budget.used, memory_order_relaxed);
    return true;
}

bool meter_is_too_much(const struct meter *m)
{
    const size_t used = atomic_load_explicit(&m->budget.used, memory_order_relaxed);
    const size_t before = m->budget.limit - m->drawn;
    return m->account && !m->is_spent &&
           budget_is_too_small(m->budget.parent, m->drawn, used - min_of(used, before));
}

void meter_end(struct meter *m)
{
    if (!m->account)
        return;
    struct meter *myself = m;
    atomic_compare_exchange_strong(&m->account->first, &myself, NULL);
    atomic_fetch_sub_explicit(&m->account->held, m->drawn, memory_order_relaxed);
    m->account = NULL;
    m->drawn = 0;
    m->budget.more = NULL;
    m->budget.limit = SIZE_MAX;
}
