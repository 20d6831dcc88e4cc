/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/symbolize/cache/ranges.h"

#include <errno.h>
#include <stdlib.h>

#include "proto/base/macros.h"

#define RANGE_DROPPED (1u << 31)

int ranges_add(struct ranges *r, const struct range *add)
{
    if (r->n == r->cap) {
        uint32_t cap = r->cap ? r->cap + r->cap / 2 : 8;
        struct range *more = realloc(r->range, cap * sizeof *more);
        if (!more)
            return -ENOMEM;
        r->range = more;
        r->cap = cap;
    }
    r->range[r->n++] = *add;
    return 0;
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
    if (r->n)
        qsort(r->range, r->n, sizeof *r->range, by_start);
    uint32_t n = 0;
    for (uint32_t i = 0; i < r->n; i++)
        if (r->range[i].start < r->range[i].end && !(r->range[i].flags & RANGE_DROPPED) &&
            (n == 0 || r->range[i].start >= r->range[n - 1].end))
            r->range[n++] = r->range[i];
    r->n = r->n_sorted = n;
}

const struct range *ranges_find(const struct ranges *r, uint64_t address)
{
    uint32_t at = first_where(r->n_sorted, i, r->range[i].end > address);
    return at < r->n_sorted && r->range[at].start <= address ? &r->range[at] : NULL;
}

void ranges_drop_rough(struct ranges *r, uint64_t address)
{
    struct range *found = (struct range *)ranges_find(r, address);
    if (found && (found->flags & RANGE_ROUGH))
        found->flags |= RANGE_DROPPED;
}

void ranges_release(struct ranges *r)
{
    free(r->range);
    *r = (struct ranges){0};
}
