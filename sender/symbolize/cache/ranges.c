/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/symbolize/cache/ranges.h"

#include <stdlib.h>
#include <string.h>

#include "proto/base/macros.h"

#define RANGE_DROPPED (1u << 31)

int ranges_add(struct ranges *r, const struct range *add)
{
    return vec_append(&r->all, *add);
}

static int by_start(const void *a, const void *b)
{
    const struct range *x = a, *y = b;
    return order_of(x->start, y->start) ?: order_of(x->end, y->end);
}

/* Sorts what was added and merges it, from the back, with what is sorted already: thousands that were known
 * before a window's few. */
static void merge(struct range *range, uint32_t n_sorted, uint32_t n)
{
    uint32_t n_added = n - n_sorted, at = n;
    struct range *added = range + n_sorted;
    qsort(added, n_added, sizeof *added, by_start);
    if (n_sorted == 0 || by_start(&range[n_sorted - 1], added) <= 0)
        return;
    autofree struct range *copy = malloc(n_added * sizeof *copy);
    if (!copy) {
        qsort(range, n, sizeof *range, by_start);
        return;
    }
    memcpy(copy, added, n_added * sizeof *copy);
    while (n_added > 0) {
        bool is_old = n_sorted > 0 && by_start(&range[n_sorted - 1], &copy[n_added - 1]) > 0;
        range[--at] = is_old ? range[--n_sorted] : copy[--n_added];
    }
}

void ranges_settle(struct ranges *r)
{
    struct range *range = r->all.p;
    if (r->all.n > r->n_sorted)
        merge(range, r->n_sorted, r->all.n);
    uint32_t n = 0;
    for (uint32_t i = 0; i < r->all.n; i++) {
        if (n > 0)
            range[i].start = max_of(range[i].start, range[n - 1].end);
        if (range[i].start < range[i].end && !(range[i].flags & RANGE_DROPPED))
            range[n++] = range[i];
    }
    r->all.n = r->n_sorted = n;
}

const struct range *ranges_find(const struct ranges *r, uint64_t address)
{
    const struct range *range = r->all.p;
    uint32_t at = first_where(r->n_sorted, i, range[i].end > address);
    return at < r->n_sorted && range[at].start <= address ? &range[at] : NULL;
}

void ranges_clip(const struct ranges *r, uint64_t address, struct range *range)
{
    uint32_t at = first_where(r->n_sorted, i, r->all.p[i].end > address);
    if (at > 0)
        range->start = max_of(range->start, r->all.p[at - 1].end);
    if (at < r->n_sorted && r->all.p[at].start > address)
        range->end = min_of(range->end, r->all.p[at].start);
}

void ranges_drop_rough(struct ranges *r, uint64_t address)
{
    struct range *found = (struct range *)ranges_find(r, address);
    if (found && (found->flags & RANGE_ROUGH))
        found->flags |= RANGE_DROPPED;
}

void ranges_roughen(struct ranges *r)
{
    for (uint32_t i = 0; i < r->all.n; i++)
        r->all.p[i].flags |= RANGE_ROUGH;
}

void ranges_release(struct ranges *r)
{
    vec_release(&r->all);
    r->n_sorted = 0;
}
