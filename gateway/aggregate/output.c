#include "gateway/aggregate/output.h"

#include <stdlib.h>

#include "gateway/aggregate/attrset.h"
#include "gateway/aggregate/delta.h"
#include "proto/base/macros.h"

#define FIRST_ITEMS   64u
#define SET_BYTES_MAX (64u << 10) /* as a worker bounds them */
#define COMPACT_DEAD  1024u       /* fewer dead cells are not worth renumbering for */

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

static void tables_release(struct output_tables *t)
{
    intern_release(&t->resources);
    intern_release(&t->series);
    idmap_release(&t->cell_of);
    idmap_release(&t->n_series);
    budget_refund(t->budget, t->cap_cells * sizeof *t->cells);
    free(t->cells);
    *t = (struct output_tables){0};
}

static void reset_overflow_cells(struct output_tables *t, uint32_t n_metrics)
{
    memset(t->cells, 0, n_metrics * sizeof *t->cells);
    for (uint32_t m = 0; m < n_metrics; m++)
        t->cells[m] = (struct output_cell){.resource = RESOURCE_OVERFLOW, .series = m, .metric = m};
    t->n_cells = n_metrics;
    t->n_dead = 0;
}

static bool tables_init(struct output_tables *t, uint32_t n_metrics, struct budget *budget)
{
    *t = (struct output_tables){.budget = budget,
                                .resources = INTERN_INIT(budget),
                                .series = INTERN_INIT(budget),
                                .cell_of = IDMAP_INIT(budget),
                                .n_series = IDMAP_INIT(budget)};
    if (!output_grow(budget, &t->cells, &t->cap_cells, n_metrics + 1, sizeof *t->cells))
        return false;
    reset_overflow_cells(t, n_metrics);
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
    o->maps = calloc(s->n_workers + 1, sizeof *o->maps);
    if (!tables_init(&o->tables, s->n_metrics, s->budget) || !o->maps || !copy_keys(o))
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
    free(o->keys);
    free(o->maps);
    tables_release(&o->tables);
    buffer_release(&o->scratch);
    free(o);
    return NULL;
}

void output_advance(struct output *o, uint64_t now)
{
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

/* Leaves in scratch what the output keeps of a set: a part of a canonical set is canonical. */
static int project(struct output *o, struct bytes set)
{
    o->scratch.n = 0;
    if (o->options.projection == PROJECT_ALL)
        return buffer_add_bytes(&o->scratch, set);
    struct attr attr;
    for (struct bytes rest = set, before = set; attrset_next(&rest, &attr); before = rest) {
        bool keep = key_is_listed(o, attr.key) == (o->options.projection == PROJECT_KEEP);
        int r = keep ? buffer_add(&o->scratch, before.p, before.n - rest.n) : 0;
        if (r < 0)
            return r;
    }
    return 0;
}

static uint32_t resource_of_set(struct output *o, struct bytes set)
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
    uint32_t id = resource_of_set(o, dict->resources[resource - 1]);
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

/* Whether one more label set may live in this metric of this resource. */
static bool has_room(const struct output *o, uint32_t resource, uint32_t metric)
{
    const uint32_t *n = idmap_find(&o->tables.n_series, idmap_key(resource, metric));
    uint32_t limit = o->store->metrics[metric].limit;
    if (limit == 0)
        limit = o->options.cardinality_limit ? o->options.cardinality_limit : CARDINALITY_LIMIT_DEFAULT;
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

static struct output_cell *cell_find(const struct output *o, uint32_t resource, uint32_t series)
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

static struct output_cell *cell_live(struct output *o, uint32_t resource, uint32_t series, uint32_t metric)
{
    struct output_cell *cell = cell_find(o, resource, series);
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
    cell->changed = true;
    cell->last = o->now;
}

void output_add(struct output *o, uint32_t worker, uint32_t resource, uint32_t series, uint32_t metric,
                int64_t sum)
{
    uint32_t r = resource_of(o, worker, resource);
    uint32_t s = series_of(o, worker, series, metric, has_room(o, r, metric));
    struct output_cell *cell = cell_live(o, r, s, metric);
    if (!cell)
        cell = cell_live(o, r, metric, metric);
    if (!cell)
        cell = cell_live(o, RESOURCE_OVERFLOW, metric, metric); /* always there */
    if (cell->series < o->store->n_metrics)
        stats_add(o->store->stats, STATS_SERIES_OVERFLOW, 1);
    add_to_cell(o, cell, sum);
}

void output_end_cell(struct output *o, struct output_cell *cell)
{
    dismiss(o, cell->resource, cell->series, cell->metric);
    if (!is_spare(o, cell))
        o->tables.n_dead++;
    *cell = (struct output_cell){.resource = cell->resource, .series = cell->series, .metric = cell->metric};
    stats_add(o->store->stats, STATS_SERIES_EXPIRED, 1);
}

bool output_is_idle(const struct output *o, const struct output_cell *cell)
{
    uint64_t limit = o->options.metric_expiration;
    return limit > 0 && o->options.temporality == METRIC_CUMULATIVE && o->now - cell->last >= limit;
}

void output_clear(struct output *o)
{
    struct output_tables *t = &o->tables;
    intern_clear(&t->resources);
    intern_clear(&t->series);
    idmap_clear(&t->cell_of);
    idmap_clear(&t->n_series);
    reset_overflow_cells(t, o->store->n_metrics);
    o->generation++;
}

/* Copies a live cell, with its names and its count, into other tables. */
static bool move_cell(const struct output *o, const struct output_cell *cell, struct output_tables *to)
{
    const struct output_tables *from = &o->tables;
    uint32_t n_metrics = o->store->n_metrics;
    struct output_cell moved = *cell;
    if (cell->resource != RESOURCE_OVERFLOW) {
        uint32_t id = intern_add(&to->resources, intern_get(&from->resources, cell->resource - 1));
        moved.resource = id + 1;
        if (id == INTERN_NONE)
            return false;
    }
    if (cell->series >= n_metrics) {
        uint32_t id = intern_add(&to->series, intern_get(&from->series, cell->series - n_metrics));
        uint32_t *n = idmap_place(&to->n_series, idmap_key(moved.resource, moved.metric), 0);
        moved.series = id + n_metrics;
        if (id == INTERN_NONE || !n)
            return false;
        ++*n;
    }
    if (!output_grow(to->budget, &to->cells, &to->cap_cells, to->n_cells + 1, sizeof *to->cells) ||
        !idmap_place(&to->cell_of, idmap_key(moved.resource, moved.series), to->n_cells))
        return false;
    to->cells[to->n_cells++] = moved;
    return true;
}

static bool is_untidy(const struct output *o)
{
    const struct output_tables *t = &o->tables;
    bool in_the_way = t->n_cells >= OUTPUT_CELLS_MAX || t->resources.n >= o->options.max_resources;
    return t->n_dead > 0 && (in_the_way || (t->n_dead >= COMPACT_DEAD && t->n_dead >= t->n_cells / 4));
}

void output_compact(struct output *o)
{
    struct output_tables *t = &o->tables, fresh;
    if (!is_untidy(o) || !tables_init(&fresh, o->store->n_metrics, t->budget))
        return;
    memcpy(fresh.cells, t->cells, o->store->n_metrics * sizeof *t->cells);
    for (uint32_t i = o->store->n_metrics; i < t->n_cells; i++) {
        if (t->cells[i].live && !move_cell(o, &t->cells[i], &fresh)) {
            tables_release(&fresh); /* no memory to tidy up in: the untidy tables are still right */
            return;
        }
    }
    tables_release(t);
    *t = fresh;
    o->generation++;
}
