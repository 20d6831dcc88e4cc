/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/aggregate/output.h"

#include <stdlib.h>
#include <string.h>

#include "gateway/aggregate/attrset.h"
#include "gateway/aggregate/heaviest.h"
#include "gateway/aggregate/tables.h"
#include "proto/base/macros.h"

#define SET_BYTES_MAX (64u << 10) /* as a worker bounds them */

static bool copy_keys(struct output *o)
{
    o->keys = calloc(o->options.n_keys + 1, sizeof *o->keys);
    if (!o->keys)
        return false;
    for (uint32_t i = 0; i < o->options.n_keys; i++) {
        o->keys[i] = strdup(o->options.keys[i]);
        if (!o->keys[i])
            return false;
    }
    return true;
}

/* The attributes of the overflow resource: the overflow mark, and who we are. */
static bool copy_identity(struct output *o)
{
    for (uint32_t i = 0; i < o->options.n_identity; i++) {
        const struct attr *from = &o->options.identity[i];
        char *key = bytes_dup(from->key), *text = bytes_dup(from->value.text);
        o->identity[i] = (struct attr){bytes_of(key, from->key.n),
                                       {.kind = ATTR_STRING, .text = bytes_of(text, from->value.text.n)}};
        if (!key || !text)
            return false;
    }
    o->identity[o->options.n_identity] = attrset_overflow;
    return true;
}

struct output *output_new(const struct catalogue *all, const struct output_options *options, uint64_t now)
{
    struct output *o = calloc(1, sizeof *o);
    if (!o)
        return NULL;
    o->all = all;
    o->options = *options;
    o->generation = 1;
    o->scratch = (struct buffer)BUFFER_INIT(SET_BYTES_MAX);
    o->now = o->window_start = o->interval_start = now;
    o->options.n_identity = min_of(options->n_identity, OUTPUT_IDENTITY_MAX);
    o->maps = calloc(all->n_workers + 1, sizeof *o->maps);
    for (uint32_t w = 0; w < all->n_workers && o->maps; w++)
        o->maps[w].resources.of.budget = o->maps[w].series.of.budget = all->budget;
    if (!output_tables_init(&o->tables, all->n_metrics, all->budget) || !o->maps || !copy_keys(o) ||
        !copy_identity(o))
        return output_free(o);
    return o;
}

struct output *output_free(struct output *o)
{
    if (!o)
        return NULL;
    for (uint32_t w = 0; o->maps && w < o->all->n_workers; w++) {
        vec_release(&o->maps[w].resources.of);
        vec_release(&o->maps[w].series.of);
    }
    for (uint32_t i = 0; o->keys && i < o->options.n_keys; i++)
        free(o->keys[i]);
    for (uint32_t i = 0; i < o->options.n_identity; i++) {
        free((void *)o->identity[i].key.p);
        free((void *)o->identity[i].value.text.p);
    }
    free(o->keys);
    free(o->maps);
    output_tables_release(&o->tables);
    buffer_release(&o->scratch);
    free(o);
    return NULL;
}

/* Each cumulative stream begins anew, whose values were told under the wrong times. */
static void put_back(struct output *o, uint64_t now)
{
    struct output_tables *t = &o->tables;
    for (uint32_t i = 0; i < t->cells.n; i++) {
        struct output_cell *cell = &t->cells.p[i];
        if (o->all->metrics[cell->metric].kind == METRIC_SUM)
            output_begin_anew(cell, now);
        cell->start = now;
        cell->last = min_of(cell->last, now);
        cell->chosen = min_of(cell->chosen, now);
    }
    for (uint32_t i = 0; i < t->known.n; i++)
        t->known.p[i].last = min_of(t->known.p[i].last, now);
    o->expired_at = min_of(o->expired_at, now);
    for (uint32_t i = 0; i < t->exemplars.n; i++)
        t->exemplars.p[i].time_unix_nano = min_of(t->exemplars.p[i].time_unix_nano, now);
    o->now = o->window_start = o->interval_start = now;
    o->put_back++;
}

void output_advance(struct output *o, uint64_t now)
{
    if (was_put_back(o->now, now))
        put_back(o, now);
    o->now = max_of(o->now, now);
    if (o->options.gauge_interval > 0 && o->now - o->interval_start >= o->options.gauge_interval) {
        o->interval_start = o->now;
        o->interval++;
    }
}

static struct output_map *map_of(struct output *o, uint32_t worker)
{
    struct output_map *map = &o->maps[worker];
    if (map->generation != o->generation) {
        map->generation = o->generation;
        numbers_forget(&map->resources);
        numbers_forget(&map->series);
    }
    return map;
}

static uint32_t resource_of(struct output *o, uint32_t worker, uint32_t resource)
{
    const struct worker_dict *dict = &o->all->workers[worker];
    if (resource == RESOURCE_OVERFLOW || resource > dict->resources.of.n)
        return RESOURCE_OVERFLOW;
    uint32_t *known = numbers_place(&map_of(o, worker)->resources, resource - 1, dict->resources.of.n);
    if (known && *known != NO_ID)
        return *known;
    uint64_t client = resource <= dict->clients.n ? dict->clients.p[resource - 1] : 0;
    uint32_t id = output_resource_of_set(o, dict->resources.of.p[resource - 1], client);
    /* Where there is no room it is not remembered: there may be some next time. */
    if (known && id != RESOURCE_OVERFLOW)
        *known = id;
    return id;
}

/* Something is added to a resource. */
static void touch(struct output *o, uint32_t resource)
{
    if (resource == RESOURCE_OVERFLOW)
        return;
    struct output_resource *r = &o->tables.known.p[resource - 1];
    if (o->now - r->last >= OUTPUT_ROUND_NS) {
        r->times++;
        r->last = o->now;
        output_see(o, r->hash);
    }
}

/* may_add: a label set not seen before gets a number, where it has room in the resource or may be among the
 * heaviest; sets beyond a limit must not fill our memory. */
static uint32_t series_of(struct output *o, uint32_t worker, uint32_t resource, uint32_t series,
                          uint32_t metric, bool may_add)
{
    const struct worker_dict *dict = &o->all->workers[worker];
    uint32_t n_metrics = o->all->n_metrics;
    if (series < n_metrics || series - n_metrics >= dict->series.of.n)
        return metric;
    uint32_t *known = numbers_place(&map_of(o, worker)->series, series - n_metrics, dict->series.of.n);
    if (known && *known != NO_ID)
        return *known;
    struct bytes key = dict->series.of.p[series - n_metrics];
    uint32_t id = key.p ? intern_find(&o->tables.series, key) : INTERN_NONE;
    if (id == INTERN_NONE && key.p && may_add &&
        (output_names_heaviest(o, metric) || output_has_room(o, resource, metric)))
        id = intern_add(&o->tables.series, key);
    if (id == INTERN_NONE)
        return metric; /* not remembered: there may be room next time */
    id += n_metrics;
    if (known)
        *known = id;
    return id;
}

/* A worker's series number, counted from the store's number of metrics instead of the worker's. */
static uint32_t series_number(const struct output *o, const struct store_generation *g, uint32_t series)
{
    return series < g->n_metrics ? g->slot[series] : series - g->n_metrics + o->all->n_metrics;
}

/* The resource is the output's. */
static void add_cell(struct output *o, uint32_t worker, uint32_t resource, uint32_t series, uint32_t metric,
                     int64_t sum)
{
    const uint32_t s = series_of(o, worker, resource, series, metric, true);
    if (resource == RESOURCE_OVERFLOW) {
        o->n_refused++;
        stats_add(o->all->stats, STATS_RESOURCE_OVERFLOW, 1);
    }
    if (output_names_heaviest(o, metric))
        heaviest_add(o, resource, s, metric, sum);
    else
        output_add_to(o, resource, s, metric, sum);
}

/* They come by resource, so that each is looked for once; again where tidying up has changed the numbers. */
static void add_cells(struct output *o, uint32_t worker, const struct aggregate_delta *d,
                      const struct store_generation *g)
{
    uint32_t resource = RESOURCE_OVERFLOW, generation = o->generation;
    for (uint32_t i = 0; i < d->n_cells; i++) {
        const struct delta_cell *c = &d->cells[i];
        const uint32_t metric = g->slot[c->metric];
        if (output_names_heaviest(o, metric) && output_has_old_names(o))
            output_compact(o);
        if (i == 0 || c->resource != d->cells[i - 1].resource || generation != o->generation) {
            generation = o->generation;
            resource = resource_of(o, worker, c->resource);
            touch(o, resource);
        }
        add_cell(o, worker, resource, series_number(o, g, c->series), metric, c->sum);
    }
}

/* Where add_cell of these numbers went: NULL if that is no longer alive. */
static struct output_cell *cell_added_to(struct output *o, uint32_t resource, uint32_t series,
                                         uint32_t metric)
{
    struct output_cell *cell = output_cell_find(o, resource, series);
    if (!cell || !cell->live || cell->retired)
        cell = output_cell_find(o, resource, metric);
    if (!cell || !cell->live)
        cell = output_cell_find(o, RESOURCE_OVERFLOW, metric);
    return cell && cell->live ? cell : NULL;
}

static void add_exemplar(struct output *o, uint32_t worker, const struct delta_exemplar *e)
{
    uint32_t r = resource_of(o, worker, e->resource);
    uint32_t s = series_of(o, worker, r, e->series, e->metric, false);
    struct largest_candidate *candidate =
        o->tables.largest.candidates.n > 0 ? largest_find(&o->tables.largest, r, s) : NULL;
    if (candidate) {
        largest_exemplar(&o->tables.largest, candidate, &e->exemplar);
        return;
    }
    struct output_cell *cell = cell_added_to(o, r, s, e->metric);
    if (cell)
        output_set_exemplar(o, cell, &e->exemplar);
}

void output_apply(struct output *o, uint32_t worker, const struct aggregate_delta *d,
                  const struct store_generation *g)
{
    add_cells(o, worker, d, g);
    if (o->options.exemplars == EXEMPLARS_NONE)
        return;
    for (uint32_t i = 0; i < d->n_exemplars; i++) {
        struct delta_exemplar e = d->exemplars[i];
        e.series = series_number(o, g, e.series);
        e.metric = g->slot[e.metric];
        add_exemplar(o, worker, &e);
    }
}
