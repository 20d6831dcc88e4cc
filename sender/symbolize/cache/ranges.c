/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/symbolize/cache/ranges.h"

#include <stdlib.h>

#include "proto/base/macros.h"

#define RANGE_DROPPED (1u << 31)

int ranges_add(struct ranges *r, const struct range *add)
{
    return vec_append(&r->all, *add);
}

static int by_start(const void *a, const void *b)
{
    const struct range *x = a, *y = b;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return x->end < y->end ? -1 : x->end > y->end;
}

void ranges_settle(struct ranges *r)
{
    struct range *range = r->all.p;
    if (r->all.n)
        qsort(range, r->all.n, sizeof *range, by_start);
    uint32_t n = 0;
    for (uint32_t i = 0; i < r->all.n; i++)
        if (range[i].start < range[i].end && !(range[i].flags & RANGE_DROPPED) &&
            (n == 0 || range[i].start >= range[n - 1].end))
            range[n++] = range[i];
    r->all.n = r->n_sorted = n;
}

const struct range *ranges_find(const struct ranges *r, uint64_t address)
{
    const struct range *range = r->all.p;
    uint32_t at = first_where(r->n_sorted, i, range[i].end > address);
    return at < r->n_sorted && range[at].start <= address ? &range[at] : NULL;
}

void ranges_drop_rough(struct ranges *r, uint64_t address)
{
    struct range *found = (struct range *)ranges_find(r, address);
    if (found && (found->flags & RANGE_ROUGH))
        found->flags |= RANGE_DROPPED;
}

void ranges_release(struct ranges *r)
{
    vec_release(&r->all);
    r->n_sorted = 0;
}
