/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each worker measures itself and tells the others. Only the one that uses most gives, and to the one that
 * uses least, so two never act at once on the same difference. A connection that takes d away from one side
 * and brings it to the other changes the difference by 2 d: it goes if that leaves less than half.
 */
#include "gateway/listen/balance.h"

#include "proto/base/macros.h"

static uint64_t halved(uint64_t ns, uint64_t times)
{
    return times < 64 ? ns >> times : 0;
}

uint64_t balance_get(const struct balance_sum *s, uint64_t window)
{
    return halved(s->ns, window - s->window);
}

static void add(struct balance_sum *s, uint64_t window, uint64_t ns)
{
    *s = (struct balance_sum){balance_get(s, window) + ns, window};
}

bool balance_charge(struct balance *b, struct balance_sum *connection, uint64_t now, uint64_t ns)
{
    if (b->n < 2)
        return false;
    add(connection, b->window, ns);
    add(&b->used, b->window, ns);
    return now / BALANCE_WINDOW_NS > b->window;
}

static uint64_t told_by(const struct balance_told *t, uint64_t window)
{
    uint64_t at = atomic_load_explicit(&t->window, memory_order_relaxed);
    return halved(atomic_load_explicit(&t->used, memory_order_relaxed), window > at ? window - at : 0);
}

static void tell(struct balance *b)
{
    struct balance_told *own = &b->all[b->own];
    atomic_store_explicit(&own->used, b->used.ns, memory_order_relaxed);
    atomic_store_explicit(&own->window, b->used.window, memory_order_relaxed);
}

struct balance_gift balance_look(struct balance *b, uint64_t now)
{
    tell(b);
    b->window = max_of(b->window, now / BALANCE_WINDOW_NS);
    uint64_t used = told_by(&b->all[b->own], b->window), least = UINT64_MAX;
    struct balance_gift gift = {0};
    for (uint32_t i = 0; i < b->n; i++) {
        uint64_t other = i == b->own ? UINT64_MAX : told_by(&b->all[i], b->window);
        if (other != UINT64_MAX && other > used)
            return gift; /* that one will give */
        if (other < least) {
            least = other;
            gift.to = i;
        }
    }
    if (b->window < b->rest_until || used < BALANCE_LEAST_NS || used - least < used / BALANCE_PART)
        return gift;
    gift.excess = used - least;
    gift.enough = used / BALANCE_PART / 2;
    return gift;
}

uint64_t balance_left(const struct balance_gift *gift, uint64_t used)
{
    uint64_t excess = gift->excess;
    if (used == 0 || excess <= gift->enough || used > excess / 4 * 3)
        return UINT64_MAX;
    return used * 2 > excess ? used * 2 - excess : excess - used * 2;
}

void balance_gave(struct balance *b)
{
    b->rest_until = b->window + BALANCE_REST;
}
