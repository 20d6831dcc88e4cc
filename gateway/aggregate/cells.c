/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cell is looked for by (resource, series) and brought to life by what is added to it, as long as its
 * metric has room in its resource; a dead one keeps its place until the tables are copied (tables.c). What
 * finds no room goes to the resource's overflow series, and from there to that of the overflow resource,
 * which needs none.
 */
#include "gateway/aggregate/cells.h"

#include <string.h>

#include "gateway/aggregate/attrset.h"

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

/* ---- numbers ---- */

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

/* Whether a client may have one resource more: room.c. */
static bool has_share(const struct output *o, uint64_t client, bool is_back)
{
    const struct output_tables *t = &o->tables;
    const uint32_t max = o->options.max_resources, *n = idmap_find(&t->shares, client);
    if (t->resources.n >= (is_back ? max : max - max / OUTPUT_KEPT_FOR_BACK))
        return false;
    return client == 0 || !n || *n < (is_back ? 7 : 3) * (uint64_t)(max - t->resources.n);
}

/* One more, of the attributes in scratch. */
static uint32_t add_resource(struct output *o, uint64_t client, uint64_t hash)
{
    struct output_tables *t = &o->tables;
    const bool is_back = output_see(o, hash);
    if (!has_share(o, client, is_back) || vec_reserve(&t->known, t->known.n + 1) < 0)
        return INTERN_NONE;
    uint32_t *share = idmap_place(&t->shares, client, 0);
    uint32_t id = share ? intern_add_hashed(&t->resources, buffer_bytes(&o->scratch), hash) : INTERN_NONE;
    if (id == INTERN_NONE)
        return INTERN_NONE;
    ++*share;
    vec_append(&t->known, (struct output_resource){
                              .client = client, .hash = hash, .last = o->now, .times = 1 + is_back});
    return id;
}

uint32_t output_resource_of_set(struct output *o, struct bytes set, uint64_t client)
{
    if (!set.p || project(o, set) < 0)
        return RESOURCE_OVERFLOW;
    const uint64_t hash = intern_hash(buffer_bytes(&o->scratch));
    uint32_t id = intern_find_hashed(&o->tables.resources, buffer_bytes(&o->scratch), hash);
    if (id == INTERN_NONE)
        id = add_resource(o, client, hash);
    return id == INTERN_NONE ? RESOURCE_OVERFLOW : id + 1;
}

/* ---- cells ---- */

uint32_t output_limit(const struct output *o, uint32_t metric)
{
    uint32_t limit = o->all->metrics[metric].limit;
    if (limit == 0)
        limit = o->options.cardinality_limit ? o->options.cardinality_limit : CARDINALITY_LIMIT_DEFAULT;
    return limit;
}

/* Whether beside n label sets of a metric in one resource another may live. */
static bool is_room_beside(const struct output *o, uint32_t metric, uint32_t n)
{
    uint64_t limit = output_limit(o, metric);
    if (output_names_heaviest(o, metric) && o->options.temporality == METRIC_CUMULATIVE)
        limit *= LARGEST_CANDIDATES; /* names stay once they are told */
    return n < limit;
}

bool output_has_room(const struct output *o, uint32_t resource, uint32_t metric)
{
    const uint32_t *n = idmap_find(&o->tables.n_series, idmap_key(resource, metric));
    return !n || is_room_beside(o, metric, *n);
}

/* Counts a label set that comes to life; false when there is no room for it. Overflow always has room. */
static bool admit(struct output *o, uint32_t resource, uint32_t series, uint32_t metric)
{
    if (series < o->all->n_metrics)
        return true;
    uint32_t *n = idmap_place(&o->tables.n_series, idmap_key(resource, metric), 0);
    if (!n || !is_room_beside(o, metric, *n))
        return false;
    ++*n;
    return true;
}

static void dismiss(struct output *o, uint32_t resource, uint32_t series, uint32_t metric)
{
    uint32_t *n =
        series < o->all->n_metrics ? NULL : idmap_find(&o->tables.n_series, idmap_key(resource, metric));
    if (n)
        --*n;
}

/* slot: free; NULL: there is no memory for one. */
static struct output_cell *cell_make(struct output *o, uint32_t resource, uint32_t series, uint32_t metric,
                                     struct idmap_slot *slot)
{
    struct output_tables *t = &o->tables;
    if (!slot || t->cells.n >= OUTPUT_CELLS_MAX || vec_reserve(&t->cells, t->cells.n + 1) < 0)
        return NULL;
    idmap_put(&t->cell_of, slot, idmap_key(resource, series), t->cells.n);
    vec_append(&t->cells,
               (struct output_cell){
                   .resource = resource, .series = series, .metric = metric, .number = t->next_number++});
    t->n_dead++; /* until it is brought to life */
    return vec_last(&t->cells);
}

static bool is_spare(const struct output *o, uint32_t resource, uint32_t series)
{
    return resource == RESOURCE_OVERFLOW && series < o->all->n_metrics;
}

struct output_cell *output_cell_find(const struct output *o, uint32_t resource, uint32_t series)
{
    if (is_spare(o, resource, series))
        return &o->tables.cells.p[series];
    uint32_t *place = idmap_find(&o->tables.cell_of, idmap_key(resource, series));
    return place ? &o->tables.cells.p[*place] : NULL;
}

struct output_cell *output_cell_live(struct output *o, uint32_t resource, uint32_t series, uint32_t metric)
{
    const uint64_t key = idmap_key(resource, series);
    const bool spare = is_spare(o, resource, series);
    struct idmap_slot *slot = spare ? NULL : idmap_seek(&o->tables.cell_of, key);
    struct output_cell *cell = spare                      ? &o->tables.cells.p[series]
                               : slot && slot->key == key ? &o->tables.cells.p[slot->value]
                                                          : NULL;
    if (cell && cell->live)
        return cell;
    if (!admit(o, resource, series, metric))
        return NULL;
    if (!cell)
        cell = cell_make(o, resource, series, metric, slot);
    if (!cell) {
        dismiss(o, resource, series, metric);
        return NULL;
    }
    if (!spare)
        o->tables.n_dead--;
    cell->live = true;
    cell->start = o->window_start;
    cell->interval = o->interval;
    return cell;
}

struct output_cell *output_cell_or_overflow(struct output *o, uint32_t resource, uint32_t series,
                                            uint32_t metric)
{
    struct output_cell *cell = output_cell_live(o, resource, series, metric);
    if (!cell)
        cell = output_cell_live(o, resource, metric, metric);
    return cell ? cell : output_cell_live(o, RESOURCE_OVERFLOW, metric, metric); /* always there */
}

void output_begin_anew(struct output_cell *cell, uint64_t start)
{
    cell->value -= cell->told;
    cell->told = 0;
    cell->start = start;
}

static void add_to_cell(struct output *o, struct output_cell *cell, int64_t sum)
{
    bool gauge = o->all->metrics[cell->metric].kind == METRIC_GAUGE;
    if (gauge && o->options.temporality == METRIC_CUMULATIVE && cell->interval != o->interval) {
        cell->finished = cell->value;
        cell->has_finished = true;
        cell->value = 0;
        cell->interval = o->interval;
    }
    int64_t all;
    if (!gauge && cell->told != 0 && __builtin_add_overflow(cell->value, sum, &all))
        output_begin_anew(cell, o->window_start);
    cell->value = add_clamped(cell->value, sum);
    cell->window = add_clamped(cell->window, sum);
    cell->changed = true;
    cell->last = o->now;
}

void output_add_to(struct output *o, uint32_t resource, uint32_t series, uint32_t metric, int64_t sum)
{
    struct output_cell *cell = output_cell_or_overflow(o, resource, series, metric);
    if (output_is_overflow(o, cell->series))
        stats_add(o->all->stats, STATS_SERIES_OVERFLOW, 1);
    if (!output_names_heaviest(o, cell->metric))
        cell->retired = false; /* its resource came back before it could go (room.c) */
    add_to_cell(o, cell, sum);
}

void output_set_exemplar(struct output *o, struct output_cell *cell, const struct aggregate_exemplar *e)
{
    struct output_tables *t = &o->tables;
    if (cell->exemplar == 0) {
        if (t->exemplars.n >= OUTPUT_EXEMPLARS_MAX || vec_append(&t->exemplars, *e) < 0)
            return;
        cell->exemplar = t->exemplars.n;
    }
    struct aggregate_exemplar *kept = &t->exemplars.p[cell->exemplar - 1];
    *kept = *e;
    /* A peer's clock may be ahead; one that does not say when was now. */
    if (kept->time_unix_nano == 0 || kept->time_unix_nano > o->now)
        kept->time_unix_nano = o->now;
    cell->has_exemplar = true;
}

void output_forget_exemplars(struct output *o)
{
    struct output_tables *t = &o->tables;
    for (uint32_t i = 0; i < t->cells.n && t->exemplars.n > 0; i++) {
        t->cells.p[i].has_exemplar = false;
        t->cells.p[i].exemplar = 0;
    }
    vec_clear(&t->exemplars);
}

void output_end_cell(struct output *o, struct output_cell *cell)
{
    dismiss(o, cell->resource, cell->series, cell->metric);
    if (!is_spare(o, cell->resource, cell->series))
        o->tables.n_dead++;
    *cell = (struct output_cell){.resource = cell->resource,
                                 .series = cell->series,
                                 .metric = cell->metric,
                                 .exemplar = cell->exemplar,
                                 .number = cell->number};
    stats_add(o->all->stats, STATS_SERIES_EXPIRED, 1);
}

bool output_is_idle(const struct output *o, const struct output_cell *cell)
{
    uint64_t limit = o->options.metric_expiration;
    return limit > 0 && o->options.temporality == METRIC_CUMULATIVE && o->now - cell->last >= limit;
}
