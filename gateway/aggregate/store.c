/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/aggregate/store.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/aggregate/delta.h"
#include "gateway/aggregate/levels.h"
#include "gateway/aggregate/output.h"
#include "gateway/aggregate/room.h"
#include "gateway/aggregate/tables.h"
#include "gateway/aggregate/watch.h"
#include "gateway/aggregate/watches.h"
#include "proto/base/macros.h"

struct store {
    struct catalogue all;
    struct store_generation *generations; /* newest first */
    struct output *outputs;
    struct watches watches;
};

/* ---- metrics: a number for each that there ever was ---- */

static bool is_same(const struct aggregate_metric *a, const struct aggregate_metric *b)
{
    return a->kind == b->kind && a->is_seconds == b->is_seconds && a->keeps_last == b->keeps_last &&
           bytes_eq(a->name, b->name) && bytes_eq(a->unit, b->unit);
}

/* Whether one of the first n metrics has the number: two that are the same stay two. */
static bool is_taken(const struct store_generation *g, uint32_t n, uint32_t slot)
{
    for (uint32_t i = 0; i < n; i++)
        if (g->slot[i] == slot)
            return true;
    return false;
}

/* Numbers for the metrics of a new generation, those of old ones first. *ret_n: how many there are then.
 * NULL: memory is out. */
static struct store_generation *number(const struct store *s, const struct aggregate_metric *metrics,
                                       uint32_t n_metrics, uint32_t *ret_n)
{
    struct store_generation *g = malloc(sizeof *g + (n_metrics + 1) * sizeof *g->slot);
    if (!g)
        return NULL;
    *g = (struct store_generation){.number = s->generations ? s->generations->number + 1 : 1,
                                   .n_metrics = n_metrics};
    uint32_t n = s->all.n_metrics;
    for (uint32_t i = 0; i < n_metrics; i++) {
        uint32_t slot = 0;
        while (slot < s->all.n_metrics &&
               (!is_same(&s->all.metrics[slot], &metrics[i]) || is_taken(g, i, slot)))
            slot++;
        g->slot[i] = slot < s->all.n_metrics ? slot : n++;
    }
    *ret_n = n;
    return g;
}

static bool copy_metric(struct arena *names, const struct aggregate_metric *from, struct aggregate_metric *to)
{
    *to = *from;
    to->name = arena_copy(names, from->name);
    to->description = arena_copy(names, from->description);
    to->unit = arena_copy(names, from->unit);
    return to->name.p && to->description.p && to->unit.p;
}

/* What changes in a reload, made beside what there is, so that all of it can still fail. */
struct replacement {
    struct store_generation *generation;
    struct aggregate_metric *metrics;
    bool *is_gone;
    struct arena names;
    uint32_t n_metrics;
    struct output_tables *tables; /* of each output; n_tables are made */
    uint32_t n_tables;
};

static void replacement_release(struct replacement *r)
{
    for (uint32_t i = 0; i < r->n_tables; i++)
        output_tables_release(&r->tables[i]);
    free(r->tables);
    free(r->generation);
    free(r->metrics);
    free(r->is_gone);
    arena_release(&r->names);
}

static int make_metrics(const struct store *s, const struct aggregate_metric *metrics, struct replacement *r)
{
    r->metrics = calloc(r->n_metrics + 1, sizeof *r->metrics);
    r->is_gone = calloc(r->n_metrics + 1, sizeof *r->is_gone);
    if (!r->metrics || !r->is_gone)
        return -ENOMEM;
    memset(r->is_gone, true, r->n_metrics);
    for (uint32_t i = 0; i < r->generation->n_metrics; i++) {
        uint32_t slot = r->generation->slot[i];
        if (!copy_metric(&r->names, &metrics[i], &r->metrics[slot]))
            return -ENOMEM;
        r->is_gone[slot] = false;
    }
    for (uint32_t slot = 0; slot < s->all.n_metrics; slot++)
        if (r->is_gone[slot] && !copy_metric(&r->names, &s->all.metrics[slot], &r->metrics[slot]))
            return -ENOMEM;
    return 0;
}

static int make_tables(const struct store *s, struct replacement *r)
{
    uint32_t n = 0;
    for (const struct output *o = s->outputs; o; o = o->next)
        n++;
    r->tables = calloc(n + 1, sizeof *r->tables);
    for (const struct output *o = s->outputs; o && r->tables; o = o->next)
        if (!output_tables_for(o, r->n_metrics, &r->tables[r->n_tables++])) {
            r->n_tables--;
            return -ENOMEM;
        }
    return r->tables ? 0 : -ENOMEM;
}

static int prepare(const struct store *s, const struct aggregate_metric *metrics, uint32_t n_metrics,
                   struct replacement *r)
{
    *r = (struct replacement){.names = ARENA_INIT(s->all.budget)};
    r->generation = number(s, metrics, n_metrics, &r->n_metrics);
    if (!r->generation)
        return -ENOMEM;
    if (r->n_metrics > STORE_METRICS_MAX)
        return STORE_FULL;
    int result = make_metrics(s, metrics, r);
    return result == 0 ? make_tables(s, r) : result;
}

static void commit(struct store *s, struct replacement *r)
{
    uint32_t i = 0;
    for (struct output *o = s->outputs; o; o = o->next)
        output_tables_take(o, &r->tables[i++]);
    r->n_tables = 0;
    free(s->all.metrics);
    free(s->all.is_gone);
    arena_release(&s->all.names);
    s->all.metrics = take_ptr(r->metrics);
    s->all.is_gone = take_ptr(r->is_gone);
    s->all.names = r->names;
    r->names = (struct arena){0};
    s->all.n_metrics = r->n_metrics;
    r->generation->next = s->generations;
    s->generations = take_ptr(r->generation);
}

int store_replace_metrics(struct store *s, const struct aggregate_metric *metrics, uint32_t n_metrics,
                          uint32_t *ret_generation)
{
    cleanup(replacement_release) struct replacement r;
    int result = prepare(s, metrics, n_metrics, &r);
    if (result == 0) {
        commit(s, &r);
        *ret_generation = s->generations->number;
    }
    return result;
}

static const struct store_generation *generation_of(const struct store *s, uint32_t number)
{
    const struct store_generation *g = s->generations;
    while (g && g->number != number)
        g = g->next;
    return g;
}

/* Generations before the one that every worker has reached are history. */
static void forget_generations(struct store *s)
{
    uint32_t oldest = s->generations->number;
    for (uint32_t w = 0; w < s->all.n_workers; w++)
        oldest = min_of(oldest, s->all.workers[w].generation);
    struct store_generation *last = s->generations;
    while (last->next && last->number > oldest)
        last = last->next;
    for (struct store_generation *g = take_ptr(last->next), *next; g; g = next) {
        next = g->next;
        free(g);
    }
}

void store_worker_is_at(struct store *s, uint32_t worker, uint32_t generation)
{
    s->all.workers[worker].generation = generation;
    forget_generations(s);
}

/* ---- life ---- */

struct store *store_new(const struct aggregate_metric *metrics, uint32_t n_metrics, uint32_t n_workers,
                        struct budget *budget, struct stats *stats)
{
    struct store *s = calloc(1, sizeof *s);
    uint32_t generation;
    if (!s)
        return NULL;
    s->all.n_workers = n_workers;
    s->all.budget = budget;
    s->all.stats = stats;
    levels_init(&s->all.levels, budget);
    s->all.workers = calloc(n_workers + 1, sizeof *s->all.workers);
    if (!s->all.workers)
        return store_free(s);
    for (uint32_t w = 0; w < n_workers; w++) {
        s->all.workers[w].arena = (struct arena)ARENA_INIT(budget);
        s->all.workers[w].resources.of.budget = s->all.workers[w].series.of.budget = budget;
        s->all.workers[w].clients.budget = budget;
        s->all.workers[w].generation = 1;
    }
    return store_replace_metrics(s, metrics, n_metrics, &generation) == 0 ? s : store_free(s);
}

struct store *store_free(struct store *s)
{
    if (!s)
        return NULL;
    for (struct output *o = s->outputs, *next; o; o = next) {
        next = o->next;
        output_free(o);
    }
    for (uint32_t w = 0; s->all.workers && w < s->all.n_workers; w++) {
        struct worker_dict *dict = &s->all.workers[w];
        arena_release(&dict->arena);
        vec_release(&dict->resources.of);
        vec_release(&dict->series.of);
        vec_release(&dict->clients);
    }
    for (struct store_generation *g = s->generations, *next; g; g = next) {
        next = g->next;
        free(g);
    }
    levels_release(&s->all.levels);
    watches_release(&s->watches);
    free(s->all.workers);
    free(s->all.metrics);
    free(s->all.is_gone);
    arena_release(&s->all.names);
    free(s);
    return NULL;
}

struct output *store_add_output(struct store *s, const struct output_options *options, uint64_t now)
{
    struct output *o = output_new(&s->all, options, now);
    if (!o)
        return NULL;
    o->next = s->outputs;
    s->outputs = o;
    const uint64_t shown_ns = options->metric_expiration ? options->metric_expiration : UINT64_MAX;
    s->all.levels.keep_ns = max_of(s->all.levels.keep_ns, shown_ns);
    return o;
}

struct watch *store_add_watch(struct store *s, const struct watch_options *options)
{
    return watches_add(&s->watches, &s->all, options);
}

void store_drop_watch(struct store *s, struct watch *w)
{
    watches_drop(&s->watches, w);
}

/* ---- deltas ---- */

/* A new epoch or generation: the worker's numbers mean other things, in the dictionary and in every output's
 * map. */
static void forget(struct store *s, uint32_t worker, uint32_t generation, uint32_t epoch)
{
    struct worker_dict *dict = &s->all.workers[worker];
    bool moved_on = dict->generation != generation;
    arena_reset(&dict->arena, 1u << 20);
    vec_clear(&dict->resources.of);
    vec_clear(&dict->series.of);
    vec_clear(&dict->clients);
    dict->generation = generation;
    dict->epoch = epoch;
    for (struct output *o = s->outputs; o; o = o->next)
        o->maps[worker].generation = o->generation - 1;
    if (moved_on)
        forget_generations(s);
}

/* Where the dictionary has a hole for want of memory, what comes behind it is unknown until the next epoch:
 * those sums go to overflow. */
static void learn(struct arena *arena, struct names *known, uint32_t from, const struct bytes *fresh,
                  uint32_t n_fresh)
{
    if (from != known->of.n || vec_reserve(&known->of, (uint64_t)known->of.n + n_fresh) < 0)
        return;
    for (uint32_t i = 0; i < n_fresh; i++)
        vec_append(&known->of, arena_copy(arena, fresh[i])); /* .p NULL: overflow */
}

/* In front of a label set stands the metric's number: the worker's becomes the store's. */
static void renumber(struct bytes set, const struct store_generation *g)
{
    uint32_t metric;
    if (!set.p)
        return;
    memcpy(&metric, set.p, sizeof metric);
    memcpy((uint8_t *)set.p, &g->slot[metric], sizeof metric);
}

static void learn_all(struct worker_dict *dict, const struct aggregate_delta *d,
                      const struct store_generation *g)
{
    uint32_t before = dict->series.of.n;
    learn(&dict->arena, &dict->resources, d->resource_from, d->resources, d->n_resources);
    if (d->resource_from == dict->clients.n)
        vec_append_all(&dict->clients, d->clients, d->n_resources); /* without memory: nobody knows whose */
    learn(&dict->arena, &dict->series, d->series_from, d->series, d->n_series);
    for (uint32_t i = before; i < dict->series.of.n; i++)
        renumber(dict->series.of.p[i], g);
}

static void apply_one(struct store *s, uint32_t worker, const struct aggregate_delta *d, uint64_t now)
{
    struct worker_dict *dict = &s->all.workers[worker];
    const struct store_generation *g = generation_of(s, d->generation);
    assert(g); /* ours: it was given out, and is kept until the worker has gone on */
    if (dict->epoch != d->epoch || dict->generation != d->generation)
        forget(s, worker, d->generation, d->epoch);
    learn_all(dict, d, g);
    levels_apply(&s->all, dict, d, g, now);
    watches_apply(&s->watches, &(struct watching){&s->all, worker, dict, d, g, now});
    for (struct output *o = s->outputs; o; o = o->next) {
        output_advance(o, now);
        output_make_room(o);
        output_apply(o, worker, d, g);
    }
}

void store_apply(struct store *s, uint32_t worker, struct aggregate_delta *delta, uint64_t now)
{
    for (const struct aggregate_delta *d = delta; d; d = d->next)
        apply_one(s, worker, d, now);
    aggregate_delta_free(delta);
    stats_set(s->all.stats, STATS_SERIES, store_series(s));
}

void store_expire(struct store *s, uint64_t now)
{
    for (struct output *o = s->outputs; o; o = o->next) {
        output_advance(o, now);
        output_make_room(o);
        output_expire(o);
    }
    stats_set(s->all.stats, STATS_SERIES, store_series(s));
}

uint64_t store_series(const struct store *s)
{
    uint64_t n = 0;
    for (const struct output *o = s->outputs; o; o = o->next)
        n += o->tables.cells.n - s->all.n_metrics - o->tables.n_dead;
    return n;
}
