/* SPDX-License-Identifier: Apache-2.0 */
/* Gauges that keep what the newest profile of each resource says (`combine last`). The merger keeps that of
 * the resources as they came; an output adds up those that it makes one, anew at each collect: so a value
 * that is replaced, or whose resource has gone quiet, leaves no trace. */
#include "gateway/aggregate/levels.h"
#include "proto/base/macros.h"

#define PRUNE_FIRST 1024u

void levels_init(struct levels *l, struct budget *budget)
{
    *l = (struct levels){
        .resources = INTERN_INIT(budget), .series = INTERN_INIT(budget), .prune_at = PRUNE_FIRST};
    latest_init(&l->latest, budget);
}

void levels_release(struct levels *l)
{
    latest_release(&l->latest);
    intern_release(&l->resources);
    intern_release(&l->series);
}

/* ---- keeping ---- */

/* The number of a set, or 0: it is overflow's, or there is no memory for it. */
static uint32_t number_of(struct intern *names, struct bytes set)
{
    uint32_t id = set.p ? intern_add(names, set) : INTERN_NONE;
    return id == INTERN_NONE ? 0 : id + 1;
}

static bool is_wanted(const struct catalogue *c, const struct latest_entry *e)
{
    const struct levels *l = &c->levels;
    return !c->is_gone[e->metric] && latest_is_current(&l->latest, e) && l->now - e->updated < l->keep_ns;
}

/* Forgets what no output shows any more. Without memory to do it in everything stays. */
static void prune(struct catalogue *c)
{
    struct levels *l = &c->levels, fresh;
    bool ok = true;
    levels_init(&fresh, c->budget);
    for (uint32_t i = 0; i < l->latest.entries.n && ok; i++) {
        struct latest_entry e = l->latest.entries.p[i];
        if (!is_wanted(c, &e))
            continue;
        if (e.resource > 0)
            ok = (e.resource = number_of(&fresh.resources, intern_get(&l->resources, e.resource - 1)));
        if (ok && e.series > 0)
            ok = (e.series = number_of(&fresh.series, intern_get(&l->series, e.series - 1)));
        ok = ok && latest_put(&fresh.latest, &e) == 0;
    }
    if (ok) {
        levels_release(l);
        l->latest = fresh.latest;
        l->resources = fresh.resources;
        l->series = fresh.series;
    } else {
        levels_release(&fresh);
    }
    l->prune_at = max_of(PRUNE_FIRST, 2 * l->latest.entries.n);
}

static void put_back(struct levels *l, uint64_t now)
{
    for (uint32_t i = 0; i < l->latest.entries.n; i++)
        l->latest.entries.p[i].updated = min_of(l->latest.entries.p[i].updated, now);
    l->now = now;
}

void levels_apply(struct catalogue *c, const struct worker_dict *dict, const struct aggregate_delta *d,
                  const struct store_generation *g, uint64_t now)
{
    struct levels *l = &c->levels;
    if (was_put_back(l->now, now))
        put_back(l, now);
    l->now = max_of(l->now, now);
    l->handover++;
    if (d->n_kept > 0 && l->latest.entries.n >= l->prune_at)
        prune(c);
    for (uint32_t i = 0; i < d->n_kept; i++) {
        const struct delta_kept *k = &d->kept[i];
        struct bytes resource = {0}, series = {0};
        if (k->resource != RESOURCE_OVERFLOW && k->resource <= dict->resources.of.n)
            resource = dict->resources.of.p[k->resource - 1];
        if (k->series >= g->n_metrics && k->series - g->n_metrics < dict->series.of.n)
            series = dict->series.of.p[k->series - g->n_metrics];
        struct latest_entry e = {.resource = number_of(&l->resources, resource),
                                 .series = number_of(&l->series, series),
                                 .metric = g->slot[k->metric],
                                 .moment = k->moment,
                                 .value = k->value,
                                 .updated = l->now,
                                 .handover = l->handover};
        if (latest_put(&l->latest, &e) < 0)
            stats_add(c->stats, STATS_SERIES_OVERFLOW, 1);
    }
}

/* ---- showing ---- */

static uint32_t series_of(struct output *o, const struct latest_entry *e)
{
    uint32_t id = e->series == 0
                      ? INTERN_NONE
                      : intern_add(&o->tables.series, intern_get(&o->all->levels.series, e->series - 1));
    return id == INTERN_NONE ? e->metric : id + o->all->n_metrics;
}

static void show(struct output *o, const struct latest_entry *e)
{
    const struct levels *l = &o->all->levels;
    struct bytes set = e->resource > 0 ? intern_get(&l->resources, e->resource - 1) : (struct bytes){0};
    uint32_t resource = output_resource_of_set(o, set, 0), series = series_of(o, e);
    struct output_cell *cell = output_cell_or_overflow(o, resource, series, e->metric);
    cell->value = add_clamped(cell->value, e->value);
    cell->shown = true;
    cell->changed |= e->handover > o->levels_told;
    cell->last = o->now;
}

void levels_show(struct output *o)
{
    const struct catalogue *c = o->all;
    const struct levels *l = &c->levels;
    uint64_t limit = o->options.metric_expiration;
    bool any = l->latest.entries.n > 0;
    for (uint32_t m = 0; m < c->n_metrics && !any; m++)
        any = c->metrics[m].keeps_last;
    for (uint32_t i = 0; i < o->tables.cells.n && any; i++) {
        struct output_cell *cell = &o->tables.cells.p[i];
        if (c->metrics[cell->metric].keeps_last) {
            cell->value = 0;
            cell->shown = cell->changed = false;
        }
    }
    for (uint32_t i = 0; i < l->latest.entries.n; i++) {
        const struct latest_entry *e = &l->latest.entries.p[i];
        bool quiet = limit > 0 && o->now > e->updated && o->now - e->updated >= limit;
        if (!quiet && !c->is_gone[e->metric] && latest_is_current(&l->latest, e))
            show(o, e);
    }
}
