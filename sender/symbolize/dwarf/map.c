/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/symbolize/dwarf/map.h"

#include <stdlib.h>

#include "proto/base/macros.h"

/* Functions begin at multiples of 16: what is between two of them is padding, or nobody's. */
#define PADDING 15u

struct dwarf_area {
    uint64_t start, end, unit;
};

uint64_t dwarf_map_unit(const struct dwarf_map *m, uint64_t address)
{
    uint32_t from = first_where(m->edges.n, i, m->edges.p[i].address > address);
    return from ? m->edges.p[from - 1].unit : DWARF_NO_UNIT;
}

void dwarf_map_release(struct dwarf_map *m)
{
    vec_release(&m->edges);
    *m = (struct dwarf_map){0};
}

size_t dwarf_map_memory(const struct dwarf_map *m)
{
    return m->edges.room * sizeof *m->edges.p;
}

void dwarf_draft_begin(struct dwarf_draft *d, const struct dwarf_map *m)
{
    *d = (struct dwarf_draft){0};
    const struct dwarf_edge *edge = m->edges.p;
    for (uint32_t i = 0; i + 1 < m->edges.n; i++)
        if (edge[i].unit != DWARF_NO_UNIT)
            dwarf_draft_add(d, edge[i].address, edge[i + 1].address, edge[i].unit);
}

void dwarf_draft_add(struct dwarf_draft *d, uint64_t start, uint64_t end, uint64_t unit)
{
    struct dwarf_area *last = d->areas.n ? vec_last(&d->areas) : NULL;
    if (start >= end || d->is_full)
        return;
    if (last && last->unit == unit && start >= last->end && start - last->end <= PADDING) {
        last->end = end;
        return;
    }
    d->is_full =
        d->areas.n == DWARF_MAP_MAX || vec_append(&d->areas, (struct dwarf_area){start, end, unit}) < 0;
}

static int by_start(const void *a, const void *b)
{
    const struct dwarf_area *x = a, *y = b;
    /* The wider first: the narrower is put into it. */
    return order_of(x->start, y->start) ?: order_of(y->end, x->end) ?: order_of(x->unit, y->unit);
}

/* An edge; none where nothing changes, and only the last of several at one address. */
static void put(struct dwarf_map *m, uint64_t address, uint64_t unit)
{
    if (m->edges.n && vec_last(&m->edges)->address == address)
        m->edges.n--;
    if (m->edges.n == 0 || vec_last(&m->edges)->unit != unit)
        (void)vec_append(&m->edges, (struct dwarf_edge){address, unit}); /* there is room */
}

/* Areas one inside the other while they are walked along. */
#define NESTING_MAX 32u
struct nest {
    struct dwarf_area open[NESTING_MAX];
    uint32_t n;
};

/* Ends the areas that reach no further than an address. */
static void leave(struct nest *nest, struct dwarf_map *m, uint64_t address)
{
    while (nest->n && nest->open[nest->n - 1].end <= address) {
        uint64_t end = nest->open[nest->n - 1].end;
        while (nest->n && nest->open[nest->n - 1].end <= end)
            nest->n--;
        put(m, end, nest->n ? nest->open[nest->n - 1].unit : DWARF_NO_UNIT);
    }
}

static void enter(struct nest *nest, struct dwarf_map *m, const struct dwarf_area *a)
{
    struct dwarf_area *inner = nest->n ? &nest->open[nest->n - 1] : NULL;
    if (inner && inner->unit == a->unit && a->start - min_of(a->start, inner->end) <= PADDING) {
        inner->end = max_of(inner->end, a->end);
        return;
    }
    leave(nest, m, a->start);
    if (nest->n == NESTING_MAX)
        return;
    inner = nest->n ? &nest->open[nest->n - 1] : NULL;
    if (inner && inner->start == a->start && inner->end == a->end)
        return; /* two say so: the first has it */
    nest->open[nest->n++] = *a;
    put(m, a->start, a->unit);
}

void dwarf_draft_settle(struct dwarf_draft *d, struct dwarf_map *m)
{
    struct nest nest = {.n = 0};
    struct dwarf_map fresh = {0};
    /* Each area gives two edges at most: its begin, and its end. */
    fresh.is_full = d->is_full || vec_reserve(&fresh.edges, 2 * (uint64_t)d->areas.n) < 0;
    if (!fresh.is_full) {
        if (d->areas.n)
            qsort(d->areas.p, d->areas.n, sizeof *d->areas.p, by_start);
        for (uint32_t i = 0; i < d->areas.n; i++)
            enter(&nest, &fresh, &d->areas.p[i]);
        leave(&nest, &fresh, UINT64_MAX);
        vec_fit(&fresh.edges); /* it stays */
    }
    vec_release(&d->areas);
    *d = (struct dwarf_draft){0};
    dwarf_map_release(m);
    *m = fresh;
}
