/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/aggregate/output_parts.h"

#include <stdlib.h>

#include "gateway/aggregate/attrset.h"
#include "gateway/aggregate/delta.h"
#include "gateway/aggregate/put_back.h"
#include "proto/base/macros.h"

#define FIRST_ITEMS   64u
#define SET_BYTES_MAX (64u << 10) /* as a worker bounds them */

const char *const output_prometheus_keys[OUTPUT_PROMETHEUS_KEYS + 1] = {
    "service.name",
    "service.namespace",
    "service.instance.id",
    "host.name",
    "container.name",
    "k8s.cluster.name",
    "k8s.namespace.name",
    "k8s.node.name",
    "k8s.pod.name",
    "k8s.container.name",
    "k8s.deployment.name",
    "k8s.daemonset.name",
    "process.executable.name",
    "deployment.environment.name",
    NULL,
};

bool output_grow(struct budget *budget, void *items, uint32_t *cap, uint32_t need, size_t n)
{
    if (need <= *cap)
        return true;
    uint32_t grown = *cap ? *cap : FIRST_ITEMS;
    while (grown < need && grown <= UINT32_MAX / 2)
        grown *= 2;
    void **at = items;
    if (grown < need || !budget_charge(budget, (grown - *cap) * n))
        return false;
    void *p = realloc(*at, grown * n);
    if (!p) {
        budget_refund(budget, (grown - *cap) * n);
        return false;
    }
    *at = p;
    *cap = grown;
    return true;
}

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

struct output *output_new(struct store *s, const struct output_options *options, uint64_t now)
{
    struct output *o = calloc(1, sizeof *o);
    if (!o)
        return NULL;
    o->store = s;
    o->options = *options;
    o->generation = 1;
    o->scratch = (struct buffer)BUFFER_INIT(SET_BYTES_MAX);
    o->now = o->window_start = o->interval_start = now;
    o->options.n_identity = min_of(options->n_identity, OUTPUT_IDENTITY_MAX);
    o->maps = calloc(s->n_workers + 1, sizeof *o->maps);
    if (!output_tables_init(&o->tables, s->n_metrics, s->budget) || !o->maps || !copy_keys(o) ||
        !copy_identity(o))
        return output_free(o);
    return o;
}

struct output *output_free(struct output *o)
{
    if (!o)
        return NULL;
    struct budget *budget = o->store->budget;
    for (uint32_t w = 0; o->maps && w < o->store->n_workers; w++) {
        struct output_map *map = &o->maps[w];
        budget_refund(budget, (size_t)(map->cap_resource + map->cap_series) * sizeof *map->resource);
        free(map->resource);
        free(map->series);
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

/* As a restart does it (data model, "Resets and Gaps"): each cumulative stream has a new start and counts
 * from there. What was told under the wrong times stays told, so that nothing is counted twice. */
static void put_back(struct output *o, uint64_t now)
{
    struct output_tables *t = &o->tables;
    for (uint32_t i = 0; i < t->n_cells; i++) {
        struct output_cell *cell = &t->cells[i];
        if (o->store->metrics[cell->metric].kind == METRIC_SUM) {
            cell->value -= cell->told;
            cell->told = 0;
        }
        cell->start = now;
        cell->last = min_of(cell->last, now);
        cell->chosen = min_of(cell->chosen, now);
    }
    for (uint32_t i = 0; i < t->n_exemplars; i++)
        t->exemplars[i].time_unix_nano = min_of(t->exemplars[i].time_unix_nano, now);
    o->now = o->window_start = o->interval_start = now;
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

static bool key_is_listed(const struct output *o, struct bytes key)
{
    for (uint32_t i = 0; i < o->options.n_keys; i++) {
        size_t n = strlen(o->keys[i]);
        bool is_prefix = n > 0 && o->keys[i][n - 1] == '*';
        if (is_prefix ? key.n >= n - 1 && !memcmp(key.p, o->keys[i], n - 1) : bytes_is(key, o->keys[i]))
            return true;
    }
    return false;
}

static bool is_kept(const struct output *o, struct bytes key)
{
    return o->options.projection == PROJECT_ALL ||
           key_is_listed(o, key) == (o->options.projection == PROJECT_KEEP);
}

/* With what is added, in canonical order again; what the resource says itself counts (attrset.h: the first).
 */
static int project_with_identity(struct output *o, struct bytes set)
{
    struct attr attrs[ATTRSET_MAX];
    uint32_t n = 0;
    while (n < ATTRSET_MAX && attrset_next(&set, &attrs[n]))
        n += is_kept(o, attrs[n].key);
    for (uint32_t i = 0; i < o->options.n_identity && n < ATTRSET_MAX; i++)
        attrs[n++] = o->identity[i];
    return attrset_encode(&o->scratch, attrs, n);
}

/* Leaves in scratch what the output keeps of a set: a part of a canonical set is canonical. */
static int project(struct output *o, struct bytes set)
{
    o->scratch.n = 0;
    if (o->options.n_identity > 0)
        return project_with_identity(o, set);
    if (o->options.projection == PROJECT_ALL)
        return buffer_add_bytes(&o->scratch, set);
    struct attr attr;
    for (struct bytes rest = set, before = set; attrset_next(&rest, &attr); before = rest) {
        int r = is_kept(o, attr.key) ? buffer_add(&o->scratch, before.p, before.n - rest.n) : 0;
        if (r < 0)
            return r;
    }
    return 0;
}

uint32_t output_resource_of_set(struct output *o, struct bytes set)
{
    struct intern *resources = &o->tables.resources;
    if (!set.p || project(o, set) < 0)
        return RESOURCE_OVERFLOW;
    uint32_t id = intern_find(resources, buffer_bytes(&o->scratch));
    if (id == INTERN_NONE && resources->n < o->options.max_resources)
        id = intern_add(resources, buffer_bytes(&o->scratch));
    return id == INTERN_NONE ? RESOURCE_OVERFLOW : id + 1;
}

/* A map's entry for a worker's number, or NULL when there is no memory to remember it in. */
static uint32_t *map_entry(struct budget *budget, uint32_t **map, uint32_t *cap, uint32_t id, uint32_t known)
{
    uint32_t before = *cap;
    if (!output_grow(budget, map, cap, known, sizeof **map) || id >= *cap)
        return NULL;
    for (uint32_t i = before; i < *cap; i++)
        (*map)[i] = NO_ID;
    return &(*map)[id];
}

static struct output_map *map_of(struct output *o, uint32_t worker)
{
    struct output_map *map = &o->maps[worker];
    if (map->generation != o->generation) {
        map->generation = o->generation;
        for (uint32_t i = 0; i < map->cap_resource; i++)
            map->resource[i] = NO_ID;
        for (uint32_t i = 0; i < map->cap_series; i++)
            map->series[i] = NO_ID;
    }
    return map;
}

static uint32_t resource_of(struct output *o, uint32_t worker, uint32_t resource)
{
    const struct worker_dict *dict = &o->store->workers[worker];
    if (resource == RESOURCE_OVERFLOW || resource > dict->n_resources)
        return RESOURCE_OVERFLOW;
    struct output_map *map = map_of(o, worker);
    uint32_t *known =
        map_entry(o->store->budget, &map->resource, &map->cap_resource, resource - 1, dict->n_resources);
    if (known && *known != NO_ID)
        return *known;
    uint32_t id = output_resource_of_set(o, dict->resources[resource - 1]);
    /* For want of memory it is not remembered: there may be some next time. */
    if (known && (id != RESOURCE_OVERFLOW || o->tables.resources.n >= o->options.max_resources))
        *known = id;
    return id;
}

/* may_add: whether a label set not seen before is worth a number; sets beyond a limit must not fill our
 * memory. */
static uint32_t series_of(struct output *o, uint32_t worker, uint32_t series, uint32_t metric, bool may_add)
{
    const struct worker_dict *dict = &o->store->workers[worker];
    uint32_t n_metrics = o->store->n_metrics;
    if (series < n_metrics || series - n_metrics >= dict->n_series)
        return metric;
    struct output_map *map = map_of(o, worker);
    uint32_t *known =
        map_entry(o->store->budget, &map->series, &map->cap_series, series - n_metrics, dict->n_series);
    if (known && *known != NO_ID)
        return *known;
    struct bytes key = dict->series[series - n_metrics];
    uint32_t id = key.p ? intern_find(&o->tables.series, key) : INTERN_NONE;
    if (id == INTERN_NONE && key.p && may_add)
        id = intern_add(&o->tables.series, key);
    if (id == INTERN_NONE)
        return metric; /* not remembered: there may be room next time */
    id += n_metrics;
    if (known)
        *known = id;
    return id;
}

uint32_t output_limit(const struct output *o, uint32_t metric)
{
    uint32_t limit = o->store->metrics[metric].limit;
    if (limit == 0)
        limit = o->options.cardinality_limit ? o->options.cardinality_limit : CARDINALITY_LIMIT_DEFAULT;
    return limit;
}

/* Whether one more label set may live in this metric of this resource. */
static bool has_room(const struct output *o, uint32_t resource, uint32_t metric)
{
    const uint32_t *n = idmap_find(&o->tables.n_series, idmap_key(resource, metric));
    uint64_t limit = output_limit(o, metric);
    if (output_names_heaviest(o->store, metric) && o->options.temporality == METRIC_CUMULATIVE)
        limit *= LARGEST_CANDIDATES; /* names stay once they are told */
    return !n || *n < limit;
}

/* Counts a label set that comes to life; false when there is no room for it. Overflow always has room. */
static bool admit(struct output *o, uint32_t resource, uint32_t series, uint32_t metric)
{
    if (series < o->store->n_metrics)
        return true;
    uint32_t *n = has_room(o, resource, metric)
                      ? idmap_place(&o->tables.n_series, idmap_key(resource, metric), 0)
                      : NULL;
    if (n)
        ++*n;
    return n != NULL;
}

static void dismiss(struct output *o, uint32_t resource, uint32_t series, uint32_t metric)
{
    uint32_t *n =
        series < o->store->n_metrics ? NULL : idmap_find(&o->tables.n_series, idmap_key(resource, metric));
    if (n)
        --*n;
}

static struct output_cell *cell_make(struct output *o, uint32_t resource, uint32_t series, uint32_t metric)
{
    struct output_tables *t = &o->tables;
    if (t->n_cells >= OUTPUT_CELLS_MAX ||
        !output_grow(t->budget, &t->cells, &t->cap_cells, t->n_cells + 1, sizeof *t->cells))
        return NULL;
    uint32_t *place = idmap_place(&t->cell_of, idmap_key(resource, series), t->n_cells);
    if (!place)
        return NULL;
    struct output_cell *cell = &t->cells[t->n_cells++];
    *cell = (struct output_cell){.resource = resource, .series = series, .metric = metric};
    t->n_dead++; /* until it is brought to life */
    return cell;
}

struct output_cell *output_cell_find(const struct output *o, uint32_t resource, uint32_t series)
{
    if (resource == RESOURCE_OVERFLOW && series < o->store->n_metrics)
        return &o->tables.cells[series];
    uint32_t *place = idmap_find(&o->tables.cell_of, idmap_key(resource, series));
    return place ? &o->tables.cells[*place] : NULL;
}

static bool is_spare(const struct output *o, const struct output_cell *cell)
{
    return cell->resource == RESOURCE_OVERFLOW && cell->series < o->store->n_metrics;
}

struct output_cell *output_cell_live(struct output *o, uint32_t resource, uint32_t series, uint32_t metric)
{
    struct output_cell *cell = output_cell_find(o, resource, series);
    if (cell && cell->live)
        return cell;
    if (!admit(o, resource, series, metric))
        return NULL;
    if (!cell)
        cell = cell_make(o, resource, series, metric);
    if (!cell) {
        dismiss(o, resource, series, metric);
        return NULL;
    }
    if (!is_spare(o, cell))
        o->tables.n_dead--;
    cell->live = true;
    cell->start = o->window_start;
    cell->interval = o->interval;
    return cell;
}

static void add_to_cell(struct output *o, struct output_cell *cell, int64_t sum)
{
    bool gauge = o->store->metrics[cell->metric].kind == METRIC_GAUGE;
    if (gauge && o->options.temporality == METRIC_CUMULATIVE && cell->interval != o->interval) {
        cell->finished = cell->value;
        cell->has_finished = true;
        cell->value = 0;
        cell->interval = o->interval;
    }
    cell->value = add_clamped(cell->value, sum);
    cell->window = add_clamped(cell->window, sum);
    cell->changed = true;
    cell->last = o->now;
}

void output_add_to(struct output *o, uint32_t resource, uint32_t series, uint32_t metric, int64_t sum)
{
    struct output_cell *cell = output_cell_live(o, resource, series, metric);
    if (!cell)
        cell = output_cell_live(o, resource, metric, metric);
    if (!cell)
        cell = output_cell_live(o, RESOURCE_OVERFLOW, metric, metric); /* always there */
    if (output_is_overflow(o->store, cell->series))
        stats_add(o->store->stats, STATS_SERIES_OVERFLOW, 1);
    add_to_cell(o, cell, sum);
}

void output_add(struct output *o, uint32_t worker, uint32_t resource, uint32_t series, uint32_t metric,
                int64_t sum)
{
    bool heaviest = output_names_heaviest(o->store, metric);
    if (heaviest && output_has_old_names(o))
        output_compact(o);
    uint32_t r = resource_of(o, worker, resource);
    uint32_t s = series_of(o, worker, series, metric, heaviest || has_room(o, r, metric));
    if (heaviest)
        output_add_largest(o, r, s, metric, sum);
    else
        output_add_to(o, r, s, metric, sum);
}

/* Where output_add of these numbers went: NULL if that is no longer alive. */
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

void output_set_exemplar(struct output *o, struct output_cell *cell, const struct aggregate_exemplar *e)
{
    struct output_tables *t = &o->tables;
    if (cell->exemplar == 0) {
        if (t->n_exemplars >= OUTPUT_EXEMPLARS_MAX ||
            !output_grow(t->budget, &t->exemplars, &t->cap_exemplars, t->n_exemplars + 1,
                         sizeof *t->exemplars))
            return;
        cell->exemplar = ++t->n_exemplars;
    }
    struct aggregate_exemplar *kept = &t->exemplars[cell->exemplar - 1];
    *kept = *e;
    /* A peer's clock may be ahead; one that does not say when was now. */
    if (kept->time_unix_nano == 0 || kept->time_unix_nano > o->now)
        kept->time_unix_nano = o->now;
    cell->has_exemplar = true;
}

void output_exemplar(struct output *o, uint32_t worker, const struct delta_exemplar *e)
{
    if (o->options.exemplars == EXEMPLARS_NONE)
        return;
    uint32_t r = resource_of(o, worker, e->resource);
    uint32_t s = series_of(o, worker, e->series, e->metric, false);
    struct largest_candidate *candidate =
        o->tables.largest.n > 0 ? largest_find(&o->tables.largest, r, s) : NULL;
    if (candidate) {
        largest_exemplar(&o->tables.largest, candidate, &e->exemplar);
        return;
    }
    struct output_cell *cell = cell_added_to(o, r, s, e->metric);
    if (cell)
        output_set_exemplar(o, cell, &e->exemplar);
}

void output_forget_exemplars(struct output *o)
{
    struct output_tables *t = &o->tables;
    for (uint32_t i = 0; i < t->n_cells && t->n_exemplars > 0; i++) {
        t->cells[i].has_exemplar = false;
        t->cells[i].exemplar = 0;
    }
    t->n_exemplars = 0;
}

void output_end_cell(struct output *o, struct output_cell *cell)
{
    dismiss(o, cell->resource, cell->series, cell->metric);
    if (!is_spare(o, cell))
        o->tables.n_dead++;
    *cell = (struct output_cell){.resource = cell->resource,
                                 .series = cell->series,
                                 .metric = cell->metric,
                                 .exemplar = cell->exemplar};
    stats_add(o->store->stats, STATS_SERIES_EXPIRED, 1);
}

bool output_is_idle(const struct output *o, const struct output_cell *cell)
{
    uint64_t limit = o->options.metric_expiration;
    return limit > 0 && o->options.temporality == METRIC_CUMULATIVE && o->now - cell->last >= limit;
}
