#include "gateway/aggregate/store.h"

#include <stdlib.h>

#include "gateway/aggregate/delta.h"
#include "gateway/aggregate/output.h"
#include "proto/base/macros.h"

struct store *store_new(const struct aggregate_metric *metrics, uint32_t n_metrics, uint32_t n_workers,
                        struct budget *budget, struct stats *stats)
{
    struct store *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->n_metrics = n_metrics;
    s->n_workers = n_workers;
    s->budget = budget;
    s->stats = stats;
    s->metrics = calloc(n_metrics + 1, sizeof *s->metrics);
    s->workers = calloc(n_workers + 1, sizeof *s->workers);
    if (!s->metrics || !s->workers)
        return store_free(s);
    if (n_metrics > 0)
        memcpy(s->metrics, metrics, n_metrics * sizeof *metrics);
    for (uint32_t w = 0; w < n_workers; w++)
        s->workers[w].arena = (struct arena)ARENA_INIT(budget);
    return s;
}

struct store *store_free(struct store *s)
{
    if (!s)
        return NULL;
    for (struct output *o = s->outputs, *next; o; o = next) {
        next = o->next;
        output_free(o);
    }
    for (uint32_t w = 0; s->workers && w < s->n_workers; w++) {
        struct worker_dict *dict = &s->workers[w];
        arena_release(&dict->arena);
        budget_refund(s->budget, ((size_t)dict->cap_resources + dict->cap_series) * sizeof *dict->series);
        free(dict->resources);
        free(dict->series);
    }
    free(s->workers);
    free(s->metrics);
    free(s);
    return NULL;
}

struct output *store_add_output(struct store *s, const struct output_options *options, uint64_t now)
{
    struct output *o = output_new(s, options, now);
    if (!o)
        return NULL;
    o->next = s->outputs;
    s->outputs = o;
    return o;
}

/* A new epoch: the worker's numbers mean other things, in the dictionary and in every output's map. */
static void forget(struct store *s, uint32_t worker, uint32_t epoch)
{
    struct worker_dict *dict = &s->workers[worker];
    arena_reset(&dict->arena, 1u << 20);
    dict->n_resources = dict->n_series = 0;
    dict->epoch = epoch;
    for (struct output *o = s->outputs; o; o = o->next)
        o->maps[worker].generation = o->generation - 1;
}

/* Where the dictionary has a hole for want of memory, what comes behind it is unknown until the next epoch:
 * those sums go to overflow. */
static void learn(struct budget *budget, struct arena *arena, struct bytes **known, uint32_t *n,
                  uint32_t *cap, uint32_t from, const struct bytes *fresh, uint32_t n_fresh)
{
    if (from != *n || !output_grow(budget, known, cap, *n + n_fresh, sizeof **known))
        return;
    for (uint32_t i = 0; i < n_fresh; i++)
        (*known)[(*n)++] = arena_copy(arena, fresh[i]); /* .p NULL: overflow */
}

static void apply_one(struct store *s, uint32_t worker, const struct aggregate_delta *d, uint64_t now)
{
    struct worker_dict *dict = &s->workers[worker];
    if (dict->epoch != d->epoch)
        forget(s, worker, d->epoch);
    learn(s->budget, &dict->arena, &dict->resources, &dict->n_resources, &dict->cap_resources,
          d->resource_from, d->resources, d->n_resources);
    learn(s->budget, &dict->arena, &dict->series, &dict->n_series, &dict->cap_series, d->series_from,
          d->series, d->n_series);
    for (struct output *o = s->outputs; o; o = o->next) {
        output_advance(o, now);
        for (uint32_t i = 0; i < d->n_cells; i++) {
            const struct delta_cell *c = &d->cells[i];
            output_add(o, worker, c->resource, c->series, c->metric, c->sum);
        }
    }
}

void store_apply(struct store *s, uint32_t worker, struct aggregate_delta *delta, uint64_t now)
{
    for (const struct aggregate_delta *d = delta; d; d = d->next)
        apply_one(s, worker, d, now);
    aggregate_delta_free(delta);
    stats_set(s->stats, STATS_SERIES, store_series(s));
}

uint64_t store_series(const struct store *s)
{
    uint64_t n = 0;
    for (const struct output *o = s->outputs; o; o = o->next)
        n += o->tables.n_cells - s->n_metrics - o->tables.n_dead;
    return n;
}
