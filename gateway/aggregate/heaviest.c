/* SPDX-License-Identifier: Apache-2.0 */
/* `limit N largest`: at each collect the N label sets of a resource and metric to which most was added since
 * the one before get names; what the others had goes to overflow, and they begin anew.
 *
 * In a cumulative output a name stays once it is told, so that totals never move from a series to overflow;
 * at most LARGEST_CANDIDATES times the limit have one. When all are taken and one of the heaviest has none,
 * the name that has not been among the heaviest for longest is retired, if that is metric_expiration ago: it
 * tells what it has, ends with a stale point at the collect after, and leaves its place. */
#include "gateway/aggregate/heaviest.h"

#include <errno.h>
#include <stdlib.h>

#include "proto/base/macros.h"

void heaviest_add(struct output *o, uint32_t resource, uint32_t series, uint32_t metric, int64_t sum)
{
    const struct output_cell *cell = output_cell_find(o, resource, series);
    if (output_is_overflow(o, series) || (cell && cell->live && !cell->retired)) {
        output_add_to(o, resource, series, metric, sum);
        return;
    }
    int64_t out = sum;
    if (!cell || !cell->live)
        largest_add(&o->tables.largest, resource, series, metric, output_limit(o, metric), sum, &out);
    if (out != 0)
        output_add_to(o, resource, metric, metric, out);
}

/* A label set that may have a name: a candidate, or one that has it. */
struct rank {
    uint64_t key; /* resource << 32 | metric */
    int64_t weight;
    bool named;
    uint32_t at; /* its cell or candidate */
    uint32_t series;
    uint64_t chosen;
};

static int by_weight(const void *a, const void *b)
{
    const struct rank *x = a, *y = b;
    /* Of equals the first to come. */
    return order_of(x->key, y->key) ?: order_of(y->weight, x->weight) ?: order_of(y->named, x->named)
               ?: order_of(x->series, y->series);
}

static int by_chosen(const void *a, const void *b)
{
    const struct rank *x = a, *y = b;
    return order_of(x->chosen, y->chosen);
}

static uint32_t list_ranks(const struct output *o, struct rank *ranks)
{
    const struct output_tables *t = &o->tables;
    uint32_t n = 0;
    for (uint32_t i = 0; i < t->largest.candidates.n; i++) {
        const struct largest_candidate *c = &t->largest.candidates.p[i];
        const struct largest_group *g = &t->largest.groups.p[c->group];
        ranks[n++] = (struct rank){
            .key = idmap_key(g->resource, g->metric), .weight = c->value, .at = i, .series = c->series};
    }
    for (uint32_t i = o->all->n_metrics; i < t->cells.n; i++) {
        const struct output_cell *cell = &t->cells.p[i];
        if (!cell->live || cell->retired || output_is_overflow(o, cell->series) ||
            !output_names_heaviest(o, cell->metric))
            continue;
        ranks[n++] = (struct rank){.key = idmap_key(cell->resource, cell->metric),
                                   .weight = cell->window,
                                   .named = true,
                                   .at = i,
                                   .series = cell->series,
                                   .chosen = cell->chosen};
    }
    return n;
}

/* Retires up to n names of a resource and metric that have not been among the heaviest for long. */
static void retire(struct output *o, struct rank *ranks, uint32_t n_ranks, uint32_t n)
{
    uint64_t limit = o->options.metric_expiration;
    qsort(ranks, n_ranks, sizeof *ranks, by_chosen);
    for (uint32_t i = 0; i < n_ranks && n > 0 && limit > 0; i++) {
        if (!ranks[i].named || o->now - ranks[i].chosen < limit)
            continue;
        o->tables.cells.p[ranks[i].at].retired = true;
        n--;
    }
}

/* Gives a candidate its name and what it has; false when there is no place. */
static bool name_candidate(struct output *o, uint32_t candidate)
{
    const struct largest *l = &o->tables.largest;
    const struct largest_candidate *c = &l->candidates.p[candidate];
    const struct largest_group *g = &l->groups.p[c->group];
    struct output_cell *cell = output_cell_live(o, g->resource, c->series, g->metric);
    if (!cell)
        return false;
    output_add_to(o, g->resource, c->series, g->metric, c->value);
    cell->chosen = o->now;
    cell->window = 0;
    if (c->exemplar)
        output_set_exemplar(o, cell, &l->exemplars.p[c->exemplar - 1]);
    return true;
}

/* One resource and metric, the heaviest first. */
static void choose_of(struct output *o, struct rank *ranks, uint32_t n)
{
    uint32_t resource = (uint32_t)(ranks[0].key >> 32), metric = (uint32_t)ranks[0].key;
    uint32_t limit = output_limit(o, metric), without = 0;
    for (uint32_t i = 0; i < n; i++) {
        bool is_heavy = i < limit && ranks[i].weight > 0;
        if (ranks[i].named) {
            struct output_cell *cell = &o->tables.cells.p[ranks[i].at];
            if (is_heavy)
                cell->chosen = o->now;
            ranks[i].chosen = cell->chosen;
            cell->window = 0;
            continue;
        }
        if (is_heavy && name_candidate(o, ranks[i].at))
            continue;
        without += is_heavy;
        output_add_to(o, resource, metric, metric, o->tables.largest.candidates.p[ranks[i].at].value);
    }
    if (without > 0 && o->options.temporality == METRIC_CUMULATIVE)
        retire(o, ranks, n, without);
}

int heaviest_choose(struct output *o)
{
    const struct output_tables *t = &o->tables;
    bool any = t->largest.candidates.n > 0;
    for (uint32_t m = 0; m < o->all->n_metrics && !any; m++)
        any = output_names_heaviest(o, m);
    if (!any)
        return 0;
    struct rank *ranks = calloc((size_t)t->largest.candidates.n + t->cells.n + 1, sizeof *ranks);
    if (!ranks)
        return -ENOMEM;
    uint32_t n = list_ranks(o, ranks);
    if (n > 0)
        qsort(ranks, n, sizeof *ranks, by_weight);
    for (uint32_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && ranks[end].key == ranks[i].key; end++)
            ;
        choose_of(o, ranks + i, end - i);
    }
    free(ranks);
    largest_clear(&o->tables.largest);
    return 0;
}
