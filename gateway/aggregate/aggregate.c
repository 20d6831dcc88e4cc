/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/aggregate/aggregate.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/aggregate/attrset.h"
#include "gateway/aggregate/delta.h"
#include "gateway/aggregate/exemplars.h"
#include "gateway/aggregate/latest.h"
#include "gateway/aggregate/tally.h"
#include "gateway/stats/block.h"
#include "proto/base/hash.h"
#include "proto/base/intern.h"
#include "proto/base/macros.h"
#include "proto/base/meter.h"

/* The dictionaries forget (at a request's start) when one is half full; a single request may fill the other
 * half, then its newcomers go to overflow. A resource is about 500 bytes, a label set about 150, and the
 * merger has them, too.
 *
 * They also forget what is mostly names of the past: more than KEPT_MIN of them, and KEPT_RATIO times what
 * was added to between two hand-overs lately. To learn those that are in use anew costs a third of what it
 * cost to learn the others, at most. */
#define RESOURCES_MAX      (1u << 16)
#define SERIES_MAX         (1u << 18)
#define DICT_BYTES_MAX     (64u << 20)
#define RESOURCES_KEPT_MIN (1u << 12)
#define SERIES_KEPT_MIN    (1u << 14)
#define KEPT_RATIO         4u
#define SET_BYTES_MAX      (64u << 10) /* one resource or label set */
#define CELLS_FIRST        1024u
#define CELLS_MAX          (1u << 20) /* 32 MiB of table; it empties at every take */
#define KEY_FREE           UINT64_MAX

struct cell {
    uint64_t key; /* resource << 32 | series */
    int64_t sum;
};

/* Resources seen lately, by a hash under the process's seed and the length of the bytes they came from:
 * nobody can prepare two that share it, and by chance it does not happen (as rules/match/strings.h says of
 * strings). */
#define RECENT 1024u
struct recent {
    uint64_t hash;
    uint32_t length, resource; /* RESOURCE_OVERFLOW: free */
};

struct aggregate {
    struct recent recent[RECENT];
    struct aggregate_metric *metrics;
    uint32_t n_metrics;
    struct budget *budget, own; /* budget: own, but of deltas, which are its parent's */
    uint32_t generation, epoch;
    struct intern resources, series;
    VEC(uint64_t) clients; /* of resources: who brought them first */
    uint64_t client;       /* whose request it is */
    size_t dict_bytes;
    uint32_t resources_taken, series_taken; /* entries already handed over in this epoch, */
    size_t dict_bytes_taken;                /* … and their bytes */
    struct buffer scratch;
    size_t value_max;    /* bytes of an attribute's value; beyond they are cut, */
    struct stats *stats; /* … which is counted here */

    struct cell *cells;
    uint32_t n_slots, n_cells;
    uint32_t n_used; /* cells of a hand-over: the most, lately */
    unsigned shift;
    uint64_t multiplier; /* odd and random: a peer chooses which pairs there are */

    /* Where sums go when no cell can be had: (overflow resource, overflow series of the metric). */
    int64_t *spill;
    bool *spilled;
    bool any_spilled;

    struct exemplars exemplars;
    struct latest latest;
    struct tally tally;

    /* What came since the last take, in bytes of a delta. */
    struct accounts *accounts;
    size_t fresh;    /* since aggregate_from, not charged yet */
    size_t *charged; /* [account] */

    struct aggregate_delta *pending, **pending_end; /* taken out of an epoch that was then forgotten */
};

static void make_free(struct cell *cells, uint32_t n)
{
    memset(cells, 0xff, n * sizeof *cells); /* KEY_FREE: all bits */
}

static struct cell *cells_new(struct budget *budget, uint32_t n)
{
    size_t size = n * sizeof(struct cell);
    if (!budget_charge(budget, size))
        return NULL;
    struct cell *cells = malloc(size);
    if (!cells) {
        budget_refund(budget, size);
        return NULL;
    }
    make_free(cells, n);
    return cells;
}

static void cells_free(struct aggregate *a)
{
    if (a->cells)
        budget_refund(a->budget, a->n_slots * sizeof *a->cells);
    free(a->cells);
}

/* No two tables have an epoch in common, so that the merger sees when a worker has a new one. */
static uint32_t new_epoch(void)
{
    static atomic_uint last;
    return atomic_fetch_add(&last, 1) + 1;
}

struct aggregate *aggregate_new(const struct aggregate_metric *metrics, uint32_t n_metrics,
                                struct budget *budget)
{
    struct aggregate *a = calloc(1, sizeof *a);
    if (!a)
        return NULL;
    a->n_metrics = n_metrics;
    a->own = (struct budget)BUDGET_INIT(SIZE_MAX, budget);
    a->budget = budget = &a->own;
    a->generation = 1;
    a->epoch = new_epoch();
    exemplars_init(&a->exemplars, budget, hash_mix(hash_seed(), a->epoch));
    latest_init(&a->latest, budget);
    tally_init(&a->tally, budget);
    a->resources = (struct intern)INTERN_INIT(budget);
    a->series = (struct intern)INTERN_INIT(budget);
    a->clients.budget = budget;
    a->scratch = (struct buffer)BUFFER_INIT(SET_BYTES_MAX);
    a->value_max = SIZE_MAX;
    a->pending_end = &a->pending;
    a->n_slots = CELLS_FIRST;
    a->multiplier = hash_mix(hash_seed(), a->epoch) | 1;
    a->shift = 64 - (unsigned)__builtin_ctz(CELLS_FIRST);
    a->cells = cells_new(budget, a->n_slots);
    a->metrics = calloc(n_metrics + 1, sizeof *a->metrics);
    a->spill = calloc(n_metrics + 1, sizeof *a->spill);
    a->spilled = calloc(n_metrics + 1, sizeof *a->spilled);
    if (!a->cells || !a->metrics || !a->spill || !a->spilled)
        return aggregate_free(a);
    if (n_metrics > 0)
        memcpy(a->metrics, metrics, n_metrics * sizeof *metrics);
    return a;
}

void aggregate_charge_to(struct aggregate *a, struct accounts *accounts)
{
    a->accounts = accounts;
}

static void refund(struct accounts *accounts, size_t *charged)
{
    for (uint32_t i = 0; charged && i < ACCOUNTS_MAX; i++)
        if (charged[i] > 0)
            atomic_fetch_sub_explicit(&accounts->of[i].held, charged[i], memory_order_relaxed);
    free(charged);
}

/* Without memory to remember it, it is not charged. */
static void charge_fresh(struct aggregate *a)
{
    const size_t n = a->fresh;
    a->fresh = 0;
    if (n == 0 || a->client == 0 || !a->accounts)
        return;
    if (!a->charged && !(a->charged = calloc(ACCOUNTS_MAX, sizeof *a->charged)))
        return;
    a->charged[a->client % ACCOUNTS_MAX] += n;
    atomic_fetch_add_explicit(&account_of(a->accounts, a->client)->held, n, memory_order_relaxed);
}

struct aggregate *aggregate_free(struct aggregate *a)
{
    if (!a)
        return NULL;
    refund(a->accounts, a->charged);
    cells_free(a);
    intern_release(&a->resources);
    intern_release(&a->series);
    vec_release(&a->clients);
    buffer_release(&a->scratch);
    exemplars_release(&a->exemplars);
    latest_release(&a->latest);
    tally_release(&a->tally);
    aggregate_delta_free(a->pending);
    free(a->metrics);
    free(a->spill);
    free(a->spilled);
    free(a);
    return NULL;
}

void aggregate_set_generation(struct aggregate *a, uint32_t generation)
{
    a->generation = generation;
}

void aggregate_cut_values(struct aggregate *a, uint32_t max, struct stats *stats)
{
    a->value_max = max;
    a->stats = stats;
}

uint32_t aggregate_epoch(const struct aggregate *a)
{
    return a->epoch;
}

/* The number of the set in scratch, or INTERN_NONE when the dictionary is full. */
static uint32_t lookup(struct aggregate *a, struct intern *dict, uint32_t max)
{
    struct bytes set = buffer_bytes(&a->scratch);
    const uint64_t hash = intern_hash(set);
    uint32_t id = intern_find_hashed(dict, set, hash);
    if (id != INTERN_NONE)
        return id;
    if (dict->n >= max || a->dict_bytes + set.n > DICT_BYTES_MAX)
        return INTERN_NONE;
    id = intern_add_hashed(dict, set, hash);
    if (id != INTERN_NONE) {
        a->dict_bytes += set.n;
        a->fresh += set.n + sizeof(struct bytes) + sizeof a->client;
    }
    return id;
}

void aggregate_from(struct aggregate *a, uint64_t client)
{
    charge_fresh(a);
    a->client = client;
}

/* Behind what is in scratch; false: it is too large, or memory is out. */
static bool encode(struct aggregate *a, const struct attr *attrs, uint32_t n)
{
    uint64_t cut = 0;
    int r = attrset_encode_cut(&a->scratch, attrs, n, a->value_max, &cut);
    if (unlikely(cut > 0))
        stats_add(a->stats, STATS_VALUES_CUT, cut);
    return r == 0;
}

uint32_t aggregate_resource(struct aggregate *a, const struct attr *attrs, uint32_t n_attrs)
{
    a->scratch.n = 0;
    if (!encode(a, attrs, n_attrs))
        return RESOURCE_OVERFLOW;
    if (vec_reserve(&a->clients, a->resources.n + 1) < 0)
        return RESOURCE_OVERFLOW;
    uint32_t id = lookup(a, &a->resources, RESOURCES_MAX);
    if (a->clients.n < a->resources.n)
        vec_append(&a->clients, a->client);
    return id == INTERN_NONE ? RESOURCE_OVERFLOW : id + 1;
}

uint32_t aggregate_resource_of(struct aggregate *a, struct bytes raw, const struct attr *attrs,
                               uint32_t n_attrs)
{
    uint64_t h = hash_bytes(raw, hash_seed());
    struct recent *recent = &a->recent[h % RECENT];
    if (likely(recent->hash == h && recent->length == (uint32_t)raw.n &&
               recent->resource != RESOURCE_OVERFLOW))
        return recent->resource;
    uint32_t resource = aggregate_resource(a, attrs, n_attrs);
    *recent = (struct recent){h, (uint32_t)raw.n, resource};
    return resource;
}

uint32_t aggregate_series(struct aggregate *a, uint32_t metric, const struct aggregate_label *labels,
                          uint32_t n_labels)
{
    struct attr attrs[ATTRSET_MAX];
    if (n_labels > ATTRSET_MAX)
        return metric;
    for (uint32_t i = 0; i < n_labels; i++)
        attrs[i] = (struct attr){labels[i].name, {.kind = ATTR_STRING, .text = labels[i].value}};
    a->scratch.n = 0;
    if (buffer_add(&a->scratch, &metric, sizeof metric) < 0 || !encode(a, attrs, n_labels))
        return metric;
    uint32_t id = lookup(a, &a->series, SERIES_MAX);
    return id == INTERN_NONE ? metric : id + a->n_metrics;
}

static uint32_t metric_of(const struct aggregate *a, uint32_t series)
{
    uint32_t metric = series;
    if (series >= a->n_metrics)
        memcpy(&metric, intern_get(&a->series, series - a->n_metrics).p, sizeof metric);
    return metric;
}

static inline uint64_t key_of(uint32_t resource, uint32_t series)
{
    return (uint64_t)resource << 32 | series;
}

static inline uint32_t home(const struct aggregate *a, uint64_t key)
{
    return (uint32_t)(key * a->multiplier >> a->shift);
}

static uint32_t probe(const struct aggregate *a, uint64_t key)
{
    uint32_t mask = a->n_slots - 1, i = home(a, key);
    while (a->cells[i].key != key && a->cells[i].key != KEY_FREE)
        i = (i + 1) & mask;
    return i;
}

/* Doubles the table. False when it is as large as it may be, or memory is out. */
static bool grow(struct aggregate *a)
{
    struct cell *old = a->cells;
    uint32_t n_old = a->n_slots;
    struct cell *cells = n_old / 2 >= CELLS_MAX ? NULL : cells_new(a->budget, n_old * 2);
    if (!cells)
        return false;
    a->cells = cells;
    a->n_slots = n_old * 2;
    a->shift--;
    for (uint32_t i = 0; i < n_old; i++)
        if (old[i].key != KEY_FREE)
            a->cells[probe(a, old[i].key)] = old[i];
    free(old);
    budget_refund(a->budget, n_old * sizeof *old);
    return true;
}

static void add_first(struct aggregate *a, uint64_t key, int64_t value)
{
    if (a->n_cells >= a->n_slots / 2 && !grow(a)) {
        uint32_t metric = metric_of(a, (uint32_t)key);
        a->spill[metric] = add_clamped(a->spill[metric], value);
        a->spilled[metric] = a->any_spilled = true;
        return;
    }
    a->cells[probe(a, key)] = (struct cell){key, value};
    a->n_cells++;
    a->fresh += sizeof(struct delta_cell);
}

void aggregate_add(struct aggregate *a, uint32_t resource, uint32_t series, int64_t value)
{
    if (unlikely(value < 0) && a->metrics[metric_of(a, series)].kind == METRIC_SUM)
        return;
    uint64_t key = key_of(resource, series);
    struct cell *cell = &a->cells[probe(a, key)];
    if (likely(cell->key == key))
        cell->sum = add_clamped(cell->sum, value);
    else
        add_first(a, key, value);
}

void aggregate_prefetch(const struct aggregate *a, uint32_t resource, uint32_t series)
{
    __builtin_prefetch(&a->cells[home(a, key_of(resource, series))]);
}

void aggregate_offer(struct aggregate *a, uint32_t resource, uint32_t series,
                     const struct aggregate_exemplar *e)
{
    exemplars_offer(&a->exemplars, resource, series, e);
}

uint64_t aggregate_arrivals(uint32_t n)
{
    static atomic_ullong next = 1;
    return atomic_fetch_add(&next, n);
}

void aggregate_keep(struct aggregate *a, uint32_t resource, uint32_t series,
                    const struct aggregate_moment *moment, int64_t value)
{
    latest_put(&a->latest, &(struct latest_entry){.resource = resource,
                                                  .series = series,
                                                  .metric = metric_of(a, series),
                                                  .moment = *moment,
                                                  .value = value});
}

void aggregate_count(struct aggregate *a, uint32_t resource, uint32_t series, uint64_t samples)
{
    tally_add(&a->tally, resource, series, samples);
}

bool aggregate_is_counted(const struct aggregate *a, uint32_t metric)
{
    return a->metrics[metric].is_counted;
}

static bool has_nothing(const struct aggregate *a)
{
    return a->n_cells == 0 && !a->any_spilled && a->latest.entries.n == 0;
}

/* A table that was hardly used since the last take is made smaller, so that what a flood of series needed is
 * given back within two hand-overs. Without memory for a small one the large one stays. */
static void shrink(struct aggregate *a)
{
    uint32_t n = CELLS_FIRST;
    while (n < a->n_cells * 4)
        n *= 2;
    if (n > a->n_slots / 4)
        return;
    struct cell *cells = cells_new(a->budget, n);
    if (!cells)
        return;
    cells_free(a);
    a->cells = cells;
    a->n_slots = n;
    a->shift = 64 - (unsigned)__builtin_ctz(n);
}

static void clear_cells(struct aggregate *a)
{
    shrink(a);
    exemplars_clear(&a->exemplars);
    latest_clear(&a->latest);
    tally_clear(&a->tally);
    make_free(a->cells, a->n_slots);
    a->n_cells = 0;
    memset(a->spill, 0, a->n_metrics * sizeof *a->spill);
    memset(a->spilled, 0, a->n_metrics * sizeof *a->spilled);
    a->any_spilled = false;
}

static bool copy_entries(struct arena *arena, const struct intern *dict, uint32_t from, struct bytes **ret)
{
    uint32_t n = dict->n - from;
    struct bytes *copy = arena_calloc(arena, n, sizeof *copy);
    if (!copy)
        return false;
    for (uint32_t i = 0; i < n; i++) {
        copy[i] = arena_copy(arena, intern_get(dict, from + i));
        if (!copy[i].p)
            return false;
    }
    *ret = copy;
    return true;
}

static bool copy_clients(const struct aggregate *a, struct aggregate_delta *d)
{
    d->clients = arena_calloc(&d->arena, d->n_resources, sizeof *d->clients);
    if (d->clients && d->n_resources > 0)
        memcpy(d->clients, a->clients.p + a->resources_taken, d->n_resources * sizeof *d->clients);
    return d->clients != NULL;
}

/* That are handed over, at most. */
static uint32_t cells_taken(const struct aggregate *a)
{
    return a->n_cells + (a->any_spilled ? a->n_metrics : 0);
}

/* By resource, so that who merges them has what belongs to one at hand; in a resource they are in the table's
 * order. */
static bool copy_cells(const struct aggregate *a, struct aggregate_delta *d)
{
    d->cells = arena_alloc(&d->arena, cells_taken(a) * sizeof *d->cells);
    autofree uint32_t *places = calloc(a->resources.n + 2, sizeof *places);
    if (!d->cells || !places)
        return false;
    for (uint32_t i = 0; i < a->n_slots; i++)
        if (a->cells[i].key != KEY_FREE)
            places[(a->cells[i].key >> 32) + 1]++;
    for (uint32_t i = 1; i <= a->resources.n; i++)
        places[i] += places[i - 1];
    for (uint32_t i = 0; i < a->n_slots; i++) {
        const struct cell *c = &a->cells[i];
        if (c->key == KEY_FREE)
            continue;
        const uint32_t resource = (uint32_t)(c->key >> 32), series = (uint32_t)c->key;
        d->cells[places[resource]++] = (struct delta_cell){resource, series, metric_of(a, series), c->sum};
    }
    d->n_cells = a->n_cells;
    for (uint32_t m = 0; a->any_spilled && m < a->n_metrics; m++)
        if (a->spilled[m])
            d->cells[d->n_cells++] = (struct delta_cell){RESOURCE_OVERFLOW, m, m, a->spill[m]};
    return true;
}

/* Without memory there are none: they are examples. */
static void copy_exemplars(const struct aggregate *a, struct aggregate_delta *d)
{
    uint32_t n = a->exemplars.places.n;
    d->exemplars = n ? arena_calloc(&d->arena, n, sizeof *d->exemplars) : NULL;
    for (uint32_t i = 0; i < n && d->exemplars; i++) {
        const struct exemplar_place *p = &a->exemplars.places.p[i];
        d->exemplars[d->n_exemplars++] =
            (struct delta_exemplar){p->resource, p->series, metric_of(a, p->series), p->exemplar};
    }
}

static bool copy_kept(const struct aggregate *a, struct aggregate_delta *d)
{
    d->kept = arena_calloc(&d->arena, a->latest.entries.n, sizeof *d->kept);
    for (uint32_t i = 0; i < a->latest.entries.n && d->kept; i++) {
        const struct latest_entry *e = &a->latest.entries.p[i];
        if (latest_is_current(&a->latest, e))
            d->kept[d->n_kept++] =
                (struct delta_kept){e->resource, e->series, e->metric, e->moment, e->value};
    }
    return d->kept != NULL;
}

static bool copy_counts(const struct aggregate *a, struct aggregate_delta *d)
{
    d->counts = arena_calloc(&d->arena, a->tally.items.n, sizeof *d->counts);
    for (uint32_t i = 0; i < a->tally.items.n && d->counts; i++) {
        const struct tally_item *item = &a->tally.items.p[i];
        d->counts[d->n_counts++] =
            (struct delta_count){item->resource, item->series, metric_of(a, item->series), item->n};
    }
    return d->counts != NULL;
}

/* Nearly: what the copies below take, so that it is one block. */
static size_t size_of_delta(const struct aggregate *a, const struct aggregate_delta *d)
{
    const size_t entries = d->n_resources + d->n_series;
    return a->dict_bytes - a->dict_bytes_taken + entries * (sizeof *d->resources + ARENA_EACH) +
           d->n_resources * sizeof *d->clients + cells_taken(a) * sizeof *d->cells +
           a->latest.entries.n * sizeof *d->kept + a->tally.items.n * sizeof *d->counts +
           a->exemplars.places.n * sizeof *d->exemplars + 6 * ARENA_EACH;
}

/* Moves the sums into the pending list. False when memory is out: nothing has changed. */
static bool cut(struct aggregate *a)
{
    if (has_nothing(a)) {
        shrink(a);
        return true;
    }
    struct aggregate_delta *d = calloc(1, sizeof *d);
    if (!d)
        return false;
    *d = (struct aggregate_delta){.arena = ARENA_INIT(a->own.parent),
                                  .generation = a->generation,
                                  .epoch = a->epoch,
                                  .resource_from = a->resources_taken,
                                  .series_from = a->series_taken};
    d->n_resources = a->resources.n - a->resources_taken;
    d->n_series = a->series.n - a->series_taken;
    arena_reserve(&d->arena, size_of_delta(a, d));
    if (!copy_entries(&d->arena, &a->resources, a->resources_taken, &d->resources) ||
        !copy_entries(&d->arena, &a->series, a->series_taken, &d->series) || !copy_clients(a, d) ||
        !copy_cells(a, d) || !copy_kept(a, d) || !copy_counts(a, d)) {
        aggregate_delta_free(d);
        return false;
    }
    copy_exemplars(a, d);
    charge_fresh(a);
    d->accounts = a->accounts;
    d->charged = take_ptr(a->charged);
    a->resources_taken = a->resources.n;
    a->series_taken = a->series.n;
    a->dict_bytes_taken = a->dict_bytes;
    a->n_used = max_of(a->n_cells, a->n_used - a->n_used / 4);
    clear_cells(a);
    *a->pending_end = d;
    a->pending_end = &d->next;
    return true;
}

static bool is_of_the_past(const struct aggregate *a, const struct intern *dict, uint32_t min)
{
    return unlikely(dict->n > min) && dict->n / KEPT_RATIO > max_of(a->n_used, a->n_cells);
}

/* The tables that were filled stay as large. False: there is no memory for the sums, and nothing is done. */
static bool forget_names(struct aggregate *a)
{
    if (!cut(a))
        return false;
    intern_release(&a->resources);
    intern_release(&a->series);
    a->clients.n = 0;
    memset(a->recent, 0, sizeof a->recent);
    a->dict_bytes = a->dict_bytes_taken = 0;
    a->resources_taken = a->series_taken = 0;
    a->epoch = new_epoch();
    return true;
}

void aggregate_forget(struct aggregate *a)
{
    if (!forget_names(a))
        return;
    shrink(a);
    vec_release(&a->clients);
}

void aggregate_begin(struct aggregate *a)
{
    bool is_time = a->resources.n >= RESOURCES_MAX / 2 || a->series.n >= SERIES_MAX / 2 ||
                   a->dict_bytes >= DICT_BYTES_MAX / 2;
    is_time |= is_of_the_past(a, &a->resources, RESOURCES_KEPT_MIN) ||
               is_of_the_past(a, &a->series, SERIES_KEPT_MIN);
    if (unlikely(is_time))
        forget_names(a);
}

size_t aggregate_memory_used(const struct aggregate *a)
{
    return atomic_load_explicit(&a->own.used, memory_order_relaxed);
}

struct aggregate_delta *aggregate_take(struct aggregate *a)
{
    cut(a);
    struct aggregate_delta *d = take_ptr(a->pending);
    a->pending_end = &a->pending;
    return d;
}

bool aggregate_is_empty(const struct aggregate *a)
{
    return has_nothing(a) && !a->pending;
}

struct aggregate_delta *aggregate_delta_free(struct aggregate_delta *delta)
{
    while (delta) {
        struct aggregate_delta *next = delta->next;
        arena_release(&delta->arena);
        refund(delta->accounts, delta->charged);
        free(delta);
        delta = next;
    }
    return NULL;
}
