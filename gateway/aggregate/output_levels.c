/* SPDX-License-Identifier: Apache-2.0 */
/* Gauges that keep what the newest profile of each resource says (`combine last`). The merger keeps that of
 * the resources as they came; an output adds up those that it makes one, anew at each collect: so a value
 * that is replaced, or whose resource has gone quiet, leaves no trace. */
#include <stdlib.h>

#include "gateway/aggregate/output_parts.h"
#include "gateway/aggregate/put_back.h"
#include "proto/base/macros.h"

#define PRUNE_FIRST 1024u

void store_levels_init(struct store *s)
{
    struct store_levels *l = &s->levels;
    latest_init(&l->latest, s->budget);
    l->resources = (struct intern)INTERN_INIT(s->budget);
    l->series = (struct intern)INTERN_INIT(s->budget);
    l->prune_at = PRUNE_FIRST;
}

void store_levels_release(struct store *s)
{
    latest_release(&s->levels.latest);
    intern_release(&s->levels.resources);
    intern_release(&s->levels.series);
}

/* ---- keeping ---- */

/* The number of a set, or 0: it is overflow's, or there is no memory for it. */
static uint32_t number_of(struct intern *names, struct bytes set)
{
    uint32_t id = set.p ? intern_add(names, set) : INTERN_NONE;
    return id == INTERN_NONE ? 0 : id + 1;
}

static bool is_wanted(const struct store *s, const struct latest_entry *e)
{
    if (s->is_gone[e->metric] || !latest_is_current(&s->levels.latest, e))
        return false;
    for (const struct output *o = s->outputs; o; o = o->next)
        if (o->options.metric_expiration == 0 || s->levels.now - e->updated < o->options.metric_expiration)
            return true;
    return false;
}

/* Forgets what no output shows any more. Without memory to do it in everything stays. */
static void prune(struct store *s)
{
    struct store_levels *l = &s->levels;
    struct store fresh = {.budget = s->budget};
    store_levels_init(&fresh);
    bool ok = true;
    for (uint32_t i = 0; i < l->latest.n && ok; i++) {
        struct latest_entry e = l->latest.entries[i];
        if (!is_wanted(s, &e))
            continue;
        if (e.resource > 0)
            ok = (e.resource = number_of(&fresh.levels.resources, intern_get(&l->resources, e.resource - 1)));
        if (ok && e.series > 0)
            ok = (e.series = number_of(&fresh.levels.series, intern_get(&l->series, e.series - 1)));
        ok = ok && latest_put(&fresh.levels.latest, &e) == 0;
    }
    if (ok) {
        store_levels_release(s);
        fresh.levels.now = l->now;
        fresh.levels.handover = l->handover;
        *l = fresh.levels;
    } else {
        store_levels_release(&fresh);
    }
    l->prune_at = max_of(PRUNE_FIRST, 2 * l->latest.n);
}

static void put_back(struct store_levels *l, uint64_t now)
{
    for (uint32_t i = 0; i < l->latest.n; i++)
        l->latest.entries[i].updated = min_of(l->latest.entries[i].updated, now);
    l->now = now;
}

void store_levels_apply(struct store *s, const struct worker_dict *dict, const struct aggregate_delta *d,
                        const struct store_generation *g, uint64_t now)
{
    struct store_levels *l = &s->levels;
    if (was_put_back(l->now, now))
        put_back(l, now);
    l->now = max_of(l->now, now);
    l->handover++;
    if (d->n_kept > 0 && l->latest.n >= l->prune_at)
        prune(s);
    for (uint32_t i = 0; i < d->n_kept; i++) {
        const struct delta_kept *k = &d->kept[i];
        struct bytes resource = {0}, series = {0};
        if (k->resource != RESOURCE_OVERFLOW && k->resource <= dict->n_resources)
            resource = dict->resources[k->resource - 1];
        if (k->series >= g->n_metrics && k->series - g->n_metrics < dict->n_series)
            series = dict->series[k->series - g->n_metrics];
        struct latest_entry e = {.resource = number_of(&l->resources, resource),
                                 .series = number_of(&l->series, series),
                                 .metric = g->slot[k->metric],
                                 .moment = k->moment,
                                 .value = k->value,
                                 .updated = l->now,
                                 .handover = l->handover};
        if (latest_put(&l->latest, &e) < 0)
            stats_add(s->stats, STATS_SERIES_OVERFLOW, 1);
    }
}

/* ---- showing ---- */

static uint32_t series_of(struct output *o, const struct latest_entry *e)
{
    uint32_t id = e->series == 0
                      ? INTERN_NONE
                      : intern_add(&o->tables.series, intern_get(&o->store->levels.series, e->series - 1));
    return id == INTERN_NONE ? e->metric : id + o->store->n_metrics;
}

static void show(struct output *o, const struct latest_entry *e)
{
    const struct store_levels *l = &o->store->levels;
    struct bytes set = e->resource > 0 ? intern_get(&l->resources, e->resource - 1) : (struct bytes){0};
    uint32_t resource = output_resource_of_set(o, set), series = series_of(o, e);
    struct output_cell *cell = output_cell_live(o, resource, series, e->metric);
    if (!cell)
        cell = output_cell_live(o, resource, e->metric, e->metric);
    if (!cell)
        cell = output_cell_live(o, RESOURCE_OVERFLOW, e->metric, e->metric); /* always there */
    cell->value = add_clamped(cell->value, e->value);
    cell->shown = true;
    cell->changed |= e->handover > o->levels_told;
    cell->last = o->now;
}

void output_show_levels(struct output *o)
{
    const struct store *s = o->store;
    const struct store_levels *l = &s->levels;
    uint64_t limit = o->options.metric_expiration;
    bool any = l->latest.n > 0;
    for (uint32_t m = 0; m < s->n_metrics && !any; m++)
        any = s->metrics[m].keeps_last;
    for (uint32_t i = 0; i < o->tables.n_cells && any; i++) {
        struct output_cell *cell = &o->tables.cells[i];
        if (s->metrics[cell->metric].keeps_last) {
            cell->value = 0;
            cell->shown = cell->changed = false;
        }
    }
    for (uint32_t i = 0; i < l->latest.n; i++) {
        const struct latest_entry *e = &l->latest.entries[i];
        bool quiet = limit > 0 && o->now > e->updated && o->now - e->updated >= limit;
        if (!quiet && !s->is_gone[e->metric] && latest_is_current(&l->latest, e))
            show(o, e);
    }
}
