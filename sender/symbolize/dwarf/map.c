/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/symbolize/dwarf/map.h"

#include <stdlib.h>

#include "proto/base/macros.h"
#include "sender/symbolize/dwarf/grow.h"

/* Functions begin at multiples of 16: what is between two of them is padding, or nobody's. */
#define PADDING 15u

struct dwarf_area {
    uint64_t start, end, unit;
};

uint64_t dwarf_map_unit(const struct dwarf_map *m, uint64_t address)
{
    uint32_t from = first_where(m->n, i, m->edge[i].address > address);
    return from ? m->edge[from - 1].unit : DWARF_NO_UNIT;
}

void dwarf_map_release(struct dwarf_map *m)
{
    free(m->edge);
    *m = (struct dwarf_map){0};
}

size_t dwarf_map_memory(const struct dwarf_map *m)
{
    return m->n * sizeof *m->edge;
}

void dwarf_draft_begin(struct dwarf_draft *d, const struct dwarf_map *m)
{
    *d = (struct dwarf_draft){0};
    for (uint32_t i = 0; i + 1 < m->n; i++)
        if (m->edge[i].unit != DWARF_NO_UNIT)
            dwarf_draft_add(d, m->edge[i].address, m->edge[i + 1].address, m->edge[i].unit);
}

void dwarf_draft_add(struct dwarf_draft *d, uint64_t start, uint64_t end, uint64_t unit)
{
    struct dwarf_area *last = d->n ? &d->area[d->n - 1] : NULL;
    if (start >= end || d->is_full)
        return;
    if (last && last->unit == unit && start >= last->end && start - last->end <= PADDING) {
        last->end = end;
        return;
    }
    if (!dwarf_grow((void **)&d->area, d->n, &d->cap, DWARF_MAP_MAX, sizeof *d->area)) {
        d->is_full = true;
        return;
    }
    d->area[d->n++] = (struct dwarf_area){start, end, unit};
}

static int by_start(const void *a, const void *b)
{
    const struct dwarf_area *x = a, *y = b;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    if (x->end != y->end) /* the wider first: the narrower is put into it */
        return x->end > y->end ? -1 : 1;
    return x->unit < y->unit ? -1 : x->unit > y->unit;
}

/* An edge; none where nothing changes, and only the last of several at one address. */
static void put(struct dwarf_map *m, uint64_t address, uint64_t unit)
{
    if (m->n && m->edge[m->n - 1].address == address)
        m->n--;
    if (m->n == 0 || m->edge[m->n - 1].unit != unit)
        m->edge[m->n++] = (struct dwarf_edge){address, unit};
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
    /* Each area gives two edges at most: its begin, and its end. */
    autofree struct dwarf_edge *edge = d->is_full ? NULL : malloc((2 * (size_t)d->n + 1) * sizeof *edge);
    struct dwarf_map fresh = {.edge = edge, .is_full = !edge};
    if (edge && d->n)
        qsort(d->area, d->n, sizeof *d->area, by_start);
    for (uint32_t i = 0; edge && i < d->n; i++)
        enter(&nest, &fresh, &d->area[i]);
    if (edge)
        leave(&nest, &fresh, UINT64_MAX);
    struct dwarf_edge *fitting = fresh.n ? realloc(edge, fresh.n * sizeof *edge) : NULL; /* it stays */
    if (fitting)
        fresh.edge = edge = fitting;
    if (fresh.n)
        edge = NULL;
    else
        fresh.edge = NULL;
    free(d->area);
    *d = (struct dwarf_draft){0};
    dwarf_map_release(m);
    *m = fresh;
}
