/* SPDX-License-Identifier: Apache-2.0 */
/* New rules while running: metrics that stay go on, those that go end, and nothing is lost on the way. */
#include "tests/lib/unit.h"

#include <errno.h>
#include <stdio.h>

#include "gateway/aggregate/aggregate.h"
#include "gateway/aggregate/catalogue.h"
#include "gateway/aggregate/store.h"
#include "proto/base/macros.h"
#include "proto/base/rng.h"
#include "tests/unit/gateway/aggregate/streams.h"

#define SECOND (uint64_t) NSEC_PER_SEC
#define HOUR   (3600 * SECOND)
#define T0     (1700000000u * SECOND)

static const struct aggregate_metric universe[] = {
    {.name = BYTES_LIT("cpu"), .unit = BYTES_LIT("s"), .is_seconds = true},
    {.name = BYTES_LIT("samples"), .unit = BYTES_LIT("1"), .limit = 5},
    {.name = BYTES_LIT("gc"), .unit = BYTES_LIT("s"), .is_seconds = true},
    {.name = BYTES_LIT("io"), .unit = BYTES_LIT("1")},
    {.name = BYTES_LIT("locks"), .unit = BYTES_LIT("1")},
    {.name = BYTES_LIT("json"), .unit = BYTES_LIT("1"), .limit = 1},
    {.name = BYTES_LIT("functions"), .unit = BYTES_LIT("1"), .limit = 3, .largest = true},
    {.name = BYTES_LIT("top"), .unit = BYTES_LIT("s"), .is_seconds = true, .limit = 1, .largest = true},
};
#define N_UNIVERSE ARRAY_LEN(universe)

static void add(struct aggregate *a, const char *service, uint32_t metric, const char *label, int64_t value)
{
    struct attr attr = {BYTES_LIT("service.name"), {.kind = ATTR_STRING, .text = bytes_str(service)}};
    struct aggregate_label l = {BYTES_LIT("l"), bytes_str(label)};
    aggregate_add(a, aggregate_resource(a, &attr, 1), aggregate_series(a, metric, &l, 1), value);
}

static struct metric_batch *collect(struct output *o, uint64_t now)
{
    struct metric_batch *batch;
    ck_assert_int_eq(output_collect(o, now, &batch), 0);
    return batch;
}

static const struct metric_point *only_point(const struct metric_batch *b, const char *metric)
{
    const struct metric_point *found = NULL;
    for (uint32_t r = 0; r < b->n_resources; r++)
        for (uint32_t m = 0; m < b->resources[r].n_metrics; m++) {
            if (!bytes_is(b->resources[r].metrics[m].name, metric))
                continue;
            ck_assert(!found && b->resources[r].metrics[m].n_points == 1);
            found = b->resources[r].metrics[m].points;
        }
    return found;
}

static struct output *cumulative(struct store *s)
{
    struct output_options options = OUTPUT_OPTIONS_DEFAULT;
    options.temporality = METRIC_CUMULATIVE;
    return unit_made(store_add_output(s, &options, T0));
}

UNIT(what_stays_goes_on_and_what_goes_ends)
{
    struct aggregate_metric after[] = {universe[3], universe[0]}; /* another place; cpu stays */
    after[1].description = BYTES_LIT("said better");
    struct store *s = unit_made(store_new(universe, 2, 1, NULL, NULL));
    struct output *o = cumulative(s);
    struct aggregate *a = unit_made(aggregate_new(universe, 2, NULL));
    add(a, "shop", 0, "x", 2000000000);
    add(a, "shop", 1, "x", 7);
    store_apply(s, 0, aggregate_take(a), T0 + SECOND);
    metric_batch_free(collect(o, T0 + 2 * SECOND));
    add(a, "shop", 1, "x", 1);
    add(a, "shop", 0, "x", 1000000000);

    uint32_t generation;
    ck_assert_int_eq(store_replace_metrics(s, after, 2, &generation), 0);
    store_apply(s, 0, aggregate_take(a), T0 + 3 * SECOND); /* counted before, came after */
    aggregate_free(a);
    a = unit_made(aggregate_new(after, 2, NULL));
    aggregate_set_generation(a, generation);
    add(a, "shop", 1, "x", 4000000000); /* cpu, by its new number */
    add(a, "shop", 0, "x", 5);          /* io */
    store_apply(s, 0, aggregate_take(a), T0 + 4 * SECOND);

    struct metric_batch *b = collect(o, T0 + 5 * SECOND);
    ck_assert_double_eq(unit_made(only_point(b, "cpu"))->real, 7);
    ck_assert_uint_eq(unit_made(only_point(b, "cpu"))->start_unix_nano, T0);
    ck_assert_int_eq(unit_made(only_point(b, "io"))->integer, 5);
    ck_assert_uint_eq(unit_made(only_point(b, "io"))->start_unix_nano, T0 + 2 * SECOND);
    ck_assert_int_eq(unit_made(only_point(b, "samples"))->integer, 8); /* told before it ends */
    ck_assert(bytes_is(b->resources[0].metrics[0].description, "said better"));
    metric_batch_free(b);
    b = collect(o, T0 + 6 * SECOND);
    ck_assert(unit_made(only_point(b, "samples"))->stale && !unit_made(only_point(b, "cpu"))->stale);
    metric_batch_free(b);
    b = collect(o, T0 + 7 * SECOND);
    ck_assert_ptr_null(only_point(b, "samples"));
    metric_batch_free(b);
    aggregate_free(a);
    store_free(s);
}

UNIT(a_metric_that_comes_back_begins_anew)
{
    struct store *s = unit_made(store_new(universe, 1, 1, NULL, NULL));
    struct output *o = cumulative(s);
    struct aggregate *a = unit_made(aggregate_new(universe, 1, NULL));
    uint32_t generation;
    add(a, "shop", 0, "x", 2000000000);
    store_apply(s, 0, aggregate_take(a), T0 + SECOND);
    aggregate_free(a);
    ck_assert_int_eq(store_replace_metrics(s, universe + 1, 1, &generation), 0);
    for (uint64_t t = 2; t < 5; t++) /* told, stale, nothing */
        metric_batch_free(collect(o, T0 + t * SECOND));
    ck_assert_int_eq(store_replace_metrics(s, universe, 2, &generation), 0);
    a = unit_made(aggregate_new(universe, 2, NULL));
    aggregate_set_generation(a, generation);
    add(a, "shop", 0, "x", 1000000000);
    store_apply(s, 0, aggregate_take(a), T0 + 5 * SECOND);
    struct metric_batch *b = collect(o, T0 + 6 * SECOND);
    ck_assert_double_eq(unit_made(only_point(b, "cpu"))->real, 1);
    ck_assert_uint_eq(unit_made(only_point(b, "cpu"))->start_unix_nano, T0 + 4 * SECOND);
    metric_batch_free(b);
    aggregate_free(a);
    store_free(s);
}

UNIT(a_unit_that_changed_makes_another_metric)
{
    struct aggregate_metric renamed = universe[1];
    renamed.unit = BYTES_LIT("{sample}");
    struct store *s = unit_made(store_new(universe + 1, 1, 1, NULL, NULL));
    struct output *o = cumulative(s);
    struct aggregate *a = unit_made(aggregate_new(universe + 1, 1, NULL));
    uint32_t generation;
    add(a, "shop", 0, "x", 3);
    store_apply(s, 0, aggregate_take(a), T0 + SECOND);
    metric_batch_free(collect(o, T0 + SECOND));
    aggregate_free(a);
    ck_assert_int_eq(store_replace_metrics(s, &renamed, 1, &generation), 0);
    struct metric_batch *b = collect(o, T0 + 2 * SECOND);
    ck_assert(unit_made(only_point(b, "samples"))->stale);
    ck_assert(bytes_is(b->resources[0].metrics[0].unit, "1"));
    metric_batch_free(b);
    store_free(s);
}

UNIT(without_memory_nothing_changes)
{
    struct budget budget = BUDGET_INIT((size_t)64 << 20, NULL);
    struct store *s = unit_made(store_new(universe, 2, 1, &budget, NULL));
    struct output *o = cumulative(s), *second = cumulative(s);
    struct aggregate *a = unit_made(aggregate_new(universe, 2, NULL));
    char label[16];
    for (int i = 0; i < 300; i++) {
        snprintf(label, sizeof label, "v%d", i);
        add(a, label, 0, label, 1000000000);
    }
    store_apply(s, 0, aggregate_take(a), T0 + SECOND);
    size_t used = budget.used;
    uint32_t generation = 0, failed = 0;
    for (size_t more = 0;; more += 4096) {
        budget.limit = used + more;
        int r = store_replace_metrics(s, universe + 1, 3, &generation);
        if (r == 0)
            break;
        ck_assert_int_eq(r, -ENOMEM);
        ck_assert_uint_lt(more, 64 << 20);
        ck_assert_uint_eq(budget.used, used);
        ck_assert_uint_eq(generation, 0);
        failed++;
    }
    ck_assert_uint_gt(failed, 2);
    budget.limit = (size_t)64 << 20;
    add(a, "v1", 0, "v1", 1000000000); /* of the generation before */
    store_apply(s, 0, aggregate_take(a), T0 + 2 * SECOND);
    for (struct output *each = o; each; each = each == o ? second : NULL) {
        struct streams streams = {.ids = INTERN_INIT(NULL)};
        struct metric_batch *b = collect(each, T0 + 3 * SECOND);
        streams_read(&streams, b);
        ck_assert_int_eq(streams_total(&streams, "cpu"), 301000000000);
        streams_release(&streams);
        metric_batch_free(b);
    }
    aggregate_free(a);
    store_free(s);
    ck_assert_uint_eq(budget.used, 0);
}

/* ---- the property: whatever happens, what comes out is what went in ---- */

#define WORKERS_MAX 4
#define OUTPUTS     4
#define EVENTS      3000

struct worker {
    struct aggregate *a;
    uint32_t metric[N_UNIVERSE], n; /* its metrics, in the universe */
};

struct run {
    struct rng rng;
    struct budget budget;
    struct store *s;
    struct worker workers[WORKERS_MAX];
    uint32_t n_workers, generation;
    struct aggregate_metric metrics[N_UNIVERSE]; /* newest */
    uint32_t metric[N_UNIVERSE], n;
    struct output *outputs[OUTPUTS];
    struct streams streams[OUTPUTS];
    uint64_t told[OUTPUTS], window[OUTPUTS]; /* an output's time, and where its window begins */
    uint32_t n_put_back;
    uint32_t n_services, n_labels;
    int64_t total[N_UNIVERSE];
    uint64_t now;
    bool wild; /* the clock */
};

static uint32_t any(struct run *r, uint32_t n)
{
    return (uint32_t)((rng_next(&r->rng) >> 33) % n);
}

/* Some of the universe, in any order. */
static void choose_metrics(struct run *r)
{
    uint32_t left[N_UNIVERSE], n = N_UNIVERSE, want = 1 + any(r, N_UNIVERSE);
    for (uint32_t i = 0; i < n; i++)
        left[i] = i;
    for (r->n = 0; r->n < want; r->n++) {
        uint32_t i = any(r, n);
        r->metric[r->n] = left[i];
        r->metrics[r->n] = universe[left[i]];
        left[i] = left[--n];
    }
}

static void make_worker(struct run *r, struct worker *w)
{
    w->a = unit_made(aggregate_new(r->metrics, r->n, &r->budget));
    aggregate_set_generation(w->a, r->generation);
    memcpy(w->metric, r->metric, sizeof w->metric);
    w->n = r->n;
}

static void add_some(struct run *r, struct worker *w)
{
    char service[16], label[16];
    uint32_t m = any(r, w->n), times = 1 + any(r, 20);
    aggregate_begin(w->a);
    while (times--) {
        int64_t value = any(r, 1000000);
        snprintf(service, sizeof service, "s%u", any(r, r->n_services));
        snprintf(label, sizeof label, "v%u", any(r, r->n_labels));
        add(w->a, service, m, label, value);
        r->total[w->metric[m]] += value;
    }
}

static void new_epoch(struct worker *w)
{
    char name[16];
    for (unsigned i = 0; i < 33000; i++) {
        snprintf(name, sizeof name, "%u", i);
        struct attr attr = {BYTES_LIT("filler"), {.kind = ATTR_STRING, .text = bytes_str(name)}};
        aggregate_resource(w->a, &attr, 1);
    }
    aggregate_begin(w->a);
}

/* What output i is to make of the clock: catalogue.h. */
static void look_at_clock(struct run *r, uint32_t i)
{
    if (was_put_back(r->told[i], r->now)) {
        r->told[i] = r->window[i] = r->now;
        r->n_put_back++;
        streams_put_back(&r->streams[i], i % 2);
    }
    r->told[i] = max_of(r->told[i], r->now);
}

static void hand_over(struct run *r, uint32_t w)
{
    for (uint32_t i = 0; i < OUTPUTS && r->workers[w].a && !aggregate_is_empty(r->workers[w].a); i++)
        look_at_clock(r, i);
    store_apply(r->s, w, aggregate_take(r->workers[w].a), r->now);
}

static void read_output(struct run *r, uint32_t i)
{
    look_at_clock(r, i);
    r->told[i] = r->window[i] = max_of(r->told[i], r->window[i] + NSEC_PER_MSEC);
    struct metric_batch *b = collect(r->outputs[i], r->now);
    streams_read(&r->streams[i], b);
    metric_batch_free(b);
}

/* A clock that nobody set: a machine that wakes up in 1970, or in another year, until somebody corrects it.
 */
static void step_far(struct run *r)
{
    static const uint64_t far[] = {HOUR, 24 * HOUR, 365 * 24 * HOUR};
    uint64_t by = far[any(r, ARRAY_LEN(far))] / 100 * any(r, 100);
    switch (any(r, 200)) {
    case 0: r->now += by; break;
    case 1: r->now -= min_of(by, r->now); break;
    case 2: r->now = 0; break;
    case 3: r->now = T0 + 1000 * SECOND; break;
    default: return;
    }
    r->now += any(r, SECOND); /* never the same nanosecond twice: it is a stream's name here */
}

static void step(struct run *r, int e)
{
    uint32_t what = any(r, 1000), w = any(r, r->n_workers);
    if (what < 800) {
        add_some(r, &r->workers[w]);
    } else if (what < 900) {
        hand_over(r, w);
    } else if (what < 970) {
        read_output(r, any(r, OUTPUTS));
    } else if (what < 985) { /* the worker goes over to the newest metrics */
        hand_over(r, w);
        aggregate_free(r->workers[w].a);
        make_worker(r, &r->workers[w]);
    } else if (what < 996) {
        choose_metrics(r);
        ck_assert_int_eq(store_replace_metrics(r->s, r->metrics, r->n, &r->generation), 0);
    } else if (e % 8 == 0) {
        new_epoch(&r->workers[w]);
    }
    r->now += any(r, 2000) * (uint64_t)NSEC_PER_MSEC;
    if (any(r, 100) == 0)
        r->now = r->now - min_of(any(r, 100) * SECOND, r->now) + any(r, SECOND); /* the clock steps back */
    if (r->wild)
        step_far(r);
}

static void run_property(uint64_t seed, bool wild)
{
    static const char *const keys[] = {"service.name"};
    static struct run run;
    run = (struct run){.budget = BUDGET_INIT((size_t)1 << 30, NULL), .now = T0 + 1000 * SECOND, .wild = wild};
    struct run *r = &run;
    rng_seed(&r->rng, seed);
    r->n_workers = 1 + any(r, WORKERS_MAX);
    r->n_services = 1 + any(r, 30);
    r->n_labels = 1 + any(r, 300);
    choose_metrics(r);
    r->s = unit_made(store_new(r->metrics, r->n, r->n_workers, &r->budget, NULL));
    r->generation = 1;
    for (uint32_t w = 0; w < r->n_workers; w++)
        make_worker(r, &r->workers[w]);
    for (uint32_t i = 0; i < OUTPUTS; i++) {
        struct output_options options = OUTPUT_OPTIONS_DEFAULT;
        options.temporality = i % 2 ? METRIC_DELTA : METRIC_CUMULATIVE;
        options.projection = i < 2 ? PROJECT_ALL : PROJECT_DROP;
        options.keys = keys;
        options.n_keys = 1;
        options.cardinality_limit = 1 + any(r, 400);
        options.max_resources = 1 + any(r, 40);
        options.metric_expiration = any(r, 30) * SECOND;
        r->outputs[i] = unit_made(store_add_output(r->s, &options, r->now));
        r->told[i] = r->window[i] = r->now;
        r->streams[i] = (struct streams){.ids = INTERN_INIT(NULL)};
    }
    for (int e = 0; e < EVENTS; e++)
        step(r, e);
    for (uint32_t w = 0; w < r->n_workers; w++)
        hand_over(r, w);
    for (uint32_t i = 0; i < OUTPUTS; i++) {
        read_output(r, i);
        for (uint32_t m = 0; m < N_UNIVERSE; m++) {
            char name[16];
            snprintf(name, sizeof name, "%.*s", BYTES_FMT(universe[m].name));
            ck_assert_msg(streams_total(&r->streams[i], name) == r->total[m], "seed %llu output %u %s",
                          (unsigned long long)seed, i, name);
        }
        streams_release(&r->streams[i]);
    }
    for (uint32_t w = 0; w < r->n_workers; w++)
        aggregate_free(r->workers[w].a);
    store_free(r->s);
    ck_assert_uint_eq(r->budget.used, 0);
    ck_assert(!wild || r->n_put_back > 0);
}

UNIT(what_comes_out_is_what_went_in_whatever_is_reloaded)
{
    for (uint64_t seed = 1; seed <= unit_rounds(8); seed++)
        run_property(seed * 104729, false);
}

/* Also where the clock goes to 1970 and back, or years ahead: each stream's times ascend, windows do not
 * overlap, a start is before its point (streams.h looks), and the sums are right. */
UNIT(what_comes_out_is_what_went_in_whatever_the_clock_says)
{
    for (uint64_t seed = 1; seed <= unit_rounds(6); seed++)
        run_property(seed * 15485863, true);
}
