/* SPDX-License-Identifier: Apache-2.0 */
/* The merger and its outputs: nothing lost, nothing twice, whatever the windows, limits and projections. */
#include "tests/lib/unit.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "gateway/aggregate/aggregate.h"
#include "gateway/aggregate/store.h"
#include "proto/base/macros.h"
#include "proto/base/rng.h"

#define SECOND (uint64_t) NSEC_PER_SEC
#define T0     (1700000000u * SECOND)

static const struct aggregate_metric metrics[] = {
    {.name = BYTES_LIT("profile.cpu.time"),
     .description = BYTES_LIT("CPU"),
     .unit = BYTES_LIT("s"),
     .kind = METRIC_SUM,
     .is_seconds = true},
    {.name = BYTES_LIT("samples"), .unit = BYTES_LIT("1"), .kind = METRIC_SUM, .limit = 3},
    {.name = BYTES_LIT("heap"), .unit = BYTES_LIT("By"), .kind = METRIC_GAUGE},
};
#define N_METRICS ARRAY_LEN(metrics)

static struct attr text(const char *key, const char *value)
{
    return (struct attr){bytes_str(key), {.kind = ATTR_STRING, .text = bytes_str(value)}};
}

static void add(struct aggregate *a, const char *service, uint32_t metric, const char *label, int64_t value)
{
    struct attr attr = text("service.name", service);
    struct aggregate_label l = {BYTES_LIT("l"), bytes_str(label)};
    aggregate_add(a, aggregate_resource(a, &attr, 1), aggregate_series(a, metric, &l, 1), value);
}

static struct metric_batch *collect(struct output *o, uint64_t now)
{
    struct metric_batch *batch;
    ck_assert_int_eq(output_collect(o, now, &batch), 0);
    return batch;
}

static bool has_attr(const struct attr *attrs, uint32_t n, const char *key, const char *value)
{
    for (uint32_t i = 0; i < n; i++)
        if (bytes_is(attrs[i].key, key))
            return attrs[i].value.kind == ATTR_BOOL ? !strcmp(value, "true") && attrs[i].value.boolean
                                                    : bytes_is(attrs[i].value.text, value);
    return false;
}

/* The point of a metric with a label, in a resource of this name (NULL: any). */
static const struct metric_point *find(const struct metric_batch *b, const char *service, const char *metric,
                                       const char *key, const char *value)
{
    for (uint32_t r = 0; r < b->n_resources; r++) {
        const struct metric_resource *res = &b->resources[r];
        if (service && !has_attr(res->attrs, res->n_attrs, "service.name", service))
            continue;
        for (uint32_t m = 0; m < res->n_metrics; m++)
            for (uint32_t p = 0; bytes_is(res->metrics[m].name, metric) && p < res->metrics[m].n_points; p++)
                if (has_attr(res->metrics[m].points[p].attrs, res->metrics[m].points[p].n_attrs, key, value))
                    return &res->metrics[m].points[p];
    }
    return NULL;
}

struct one_worker {
    struct aggregate *a;
    struct store *s;
    struct output *o;
};

static struct one_worker one_worker(struct output_options options)
{
    struct one_worker w = {.a = unit_made(aggregate_new(metrics, N_METRICS, NULL)),
                           .s = unit_made(store_new(metrics, N_METRICS, 1, NULL, NULL))};
    ck_assert(w.a && w.s);
    w.o = unit_made(store_add_output(w.s, &options, T0));
    return w;
}

static void apply(struct one_worker *w, uint64_t now)
{
    store_apply(w->s, 0, aggregate_take(w->a), now);
}

static void end(struct one_worker *w)
{
    aggregate_free(w->a);
    store_free(w->s);
}

UNIT(delta_windows_join_without_gap)
{
    struct one_worker w = one_worker((struct output_options)OUTPUT_OPTIONS_DEFAULT);
    add(w.a, "shop", 0, "x", 1500000000);
    apply(&w, T0 + 3 * SECOND);
    struct metric_batch *b = collect(w.o, T0 + 10 * SECOND);
    const struct metric_point *p = unit_made(find(b, "shop", "profile.cpu.time", "l", "x"));
    ck_assert(p->is_double && p->real == 1.5);
    ck_assert_uint_eq(p->start_unix_nano, T0);
    ck_assert_uint_eq(p->time_unix_nano, T0 + 10 * SECOND);
    ck_assert_int_eq(b->resources[0].metrics[0].temporality, METRIC_DELTA);
    ck_assert(bytes_is(b->resources[0].metrics[0].unit, "s"));
    ck_assert(bytes_is(b->scope_name, "profgate"));
    metric_batch_free(b);

    b = collect(w.o, T0 + 20 * SECOND); /* nothing changed: nothing said */
    ck_assert_uint_eq(b->n_resources, 0);
    metric_batch_free(b);

    add(w.a, "shop", 0, "x", 1);
    apply(&w, T0 + 21 * SECOND);
    b = collect(w.o, T0 + 30 * SECOND);
    p = unit_made(find(b, "shop", "profile.cpu.time", "l", "x"));
    ck_assert_uint_eq(p->start_unix_nano, T0 + 20 * SECOND);
    ck_assert_double_eq_tol(p->real, 1e-9, 1e-18);
    metric_batch_free(b);
    end(&w);
}

UNIT(cumulative_series_keep_their_start_and_end_with_a_stale_point)
{
    struct output_options options = OUTPUT_OPTIONS_DEFAULT;
    options.temporality = METRIC_CUMULATIVE;
    struct one_worker w = one_worker(options);
    metric_batch_free(collect(w.o, T0 + 5 * SECOND));
    add(w.a, "shop", 1, "x", 4);
    apply(&w, T0 + 8 * SECOND);
    metric_batch_free(collect(w.o, T0 + 10 * SECOND));
    add(w.a, "shop", 1, "x", 6);
    apply(&w, T0 + 11 * SECOND);

    struct metric_batch *b = collect(w.o, T0 + 20 * SECOND);
    const struct metric_point *p = unit_made(find(b, "shop", "samples", "l", "x"));
    ck_assert_int_eq(p->integer, 10);
    ck_assert(!p->is_double && !p->stale);
    ck_assert_uint_eq(p->start_unix_nano, T0 + 5 * SECOND);
    metric_batch_free(b);

    b = collect(w.o, T0 + 310 * SECOND); /* idle 299 s */
    ck_assert(!unit_made(find(b, "shop", "samples", "l", "x"))->stale);
    metric_batch_free(b);
    ck_assert_uint_eq(store_series(w.s), 1);
    b = collect(w.o, T0 + 311 * SECOND);
    ck_assert(unit_made(find(b, "shop", "samples", "l", "x"))->stale);
    metric_batch_free(b);
    ck_assert_uint_eq(store_series(w.s), 0);
    b = collect(w.o, T0 + 312 * SECOND);
    ck_assert_uint_eq(b->n_resources, 0);
    metric_batch_free(b);

    add(w.a, "shop", 1, "x", 1);
    apply(&w, T0 + 400 * SECOND);
    b = collect(w.o, T0 + 401 * SECOND);
    p = unit_made(find(b, "shop", "samples", "l", "x"));
    ck_assert_int_eq(p->integer, 1);
    ck_assert_uint_eq(p->start_unix_nano, T0 + 312 * SECOND);
    metric_batch_free(b);
    end(&w);
}

UNIT(what_no_collect_has_told_is_told_before_it_ends)
{
    struct output_options options = OUTPUT_OPTIONS_DEFAULT;
    options.temporality = METRIC_CUMULATIVE;
    struct one_worker w = one_worker(options);
    add(w.a, "shop", 1, "x", 4);
    apply(&w, T0 + SECOND);
    struct metric_batch *b = collect(w.o, T0 + 9000 * SECOND);
    ck_assert_int_eq(unit_made(find(b, "shop", "samples", "l", "x"))->integer, 4);
    ck_assert(!unit_made(find(b, "shop", "samples", "l", "x"))->stale);
    metric_batch_free(b);
    b = collect(w.o, T0 + 9001 * SECOND);
    ck_assert(unit_made(find(b, "shop", "samples", "l", "x"))->stale);
    metric_batch_free(b);
    end(&w);
}

UNIT(the_clock_may_step_back)
{
    for (int t = METRIC_DELTA; t <= METRIC_CUMULATIVE; t++) {
        struct output_options options = OUTPUT_OPTIONS_DEFAULT;
        options.temporality = (enum metric_temporality)t;
        struct one_worker w = one_worker(options);
        static const uint64_t steps[] = {10, 20, 5, 0, 6, 30};
        uint64_t last = 0;
        for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
            add(w.a, "shop", 1, "x", 1);
            apply(&w, T0 - 3 * SECOND + steps[i] * SECOND);
            struct metric_batch *b = collect(w.o, T0 - 3 * SECOND + steps[i] * SECOND);
            const struct metric_point *p = unit_made(find(b, "shop", "samples", "l", "x"));
            ck_assert_int_eq(p->integer, t == METRIC_DELTA ? 1 : (int64_t)i + 1);
            ck_assert_uint_gt(p->time_unix_nano, p->start_unix_nano);
            ck_assert_uint_ge(p->time_unix_nano, last + NSEC_PER_MSEC); /* two samples to Prometheus */
            if (t == METRIC_DELTA && i > 0)
                ck_assert_uint_eq(p->start_unix_nano, last);
            last = p->time_unix_nano;
            metric_batch_free(b);
        }
        end(&w);
    }
}

/* A machine that came up with its clock a day ahead, and is put right: from then on times are right, what was
 * told stays told, and cumulative streams begin anew (data model, "Resets and Gaps"). */
UNIT(a_clock_that_is_put_right_begins_anew)
{
    for (int t = METRIC_DELTA; t <= METRIC_CUMULATIVE; t++) {
        struct output_options options = OUTPUT_OPTIONS_DEFAULT;
        options.temporality = (enum metric_temporality)t;
        struct one_worker w = one_worker(options);
        const uint64_t day = 86400 * SECOND;
        add(w.a, "shop", 1, "x", 3);
        apply(&w, T0 + day);
        struct metric_batch *b = collect(w.o, T0 + day);
        ck_assert_int_eq(unit_made(find(b, "shop", "samples", "l", "x"))->integer, 3);
        metric_batch_free(b);
        add(w.a, "shop", 1, "x", 4); /* still by the wrong clock */
        apply(&w, T0 + day + SECOND);
        add(w.a, "shop", 1, "x", 5);
        apply(&w, T0 + 20 * SECOND);
        b = collect(w.o, T0 + 30 * SECOND);
        const struct metric_point *p = unit_made(find(b, "shop", "samples", "l", "x"));
        ck_assert_int_eq(p->integer, 9); /* not the 3: they were told */
        ck_assert_uint_eq(p->start_unix_nano, T0 + 20 * SECOND);
        ck_assert_uint_eq(p->time_unix_nano, T0 + 30 * SECOND);
        metric_batch_free(b);
        add(w.a, "shop", 1, "x", 1);
        apply(&w, T0 + 35 * SECOND);
        b = collect(w.o, T0 + 40 * SECOND);
        p = unit_made(find(b, "shop", "samples", "l", "x"));
        ck_assert_int_eq(p->integer, t == METRIC_DELTA ? 1 : 10);
        ck_assert_uint_eq(p->start_unix_nano, T0 + (t == METRIC_DELTA ? 30 : 20) * SECOND);
        metric_batch_free(b);
        b = collect(w.o, T0 + 335 * SECOND); /* and what is idle ends, as always */
        ck_assert(t == METRIC_DELTA ? b->n_resources == 0
                                    : unit_made(find(b, "shop", "samples", "l", "x"))->stale);
        metric_batch_free(b);
        end(&w);
    }
}

/* A sample of 2^63 - 1 is a step as large as there is; what comes after it counts again. */
UNIT(a_sum_at_the_end_of_the_range_begins_anew)
{
    for (int t = METRIC_DELTA; t <= METRIC_CUMULATIVE; t++) {
        static const int64_t added[] = {3, INT64_MAX, 4, 5}, cumulative[] = {3, INT64_MAX, 4, 9};
        static const uint64_t starts[] = {0, 10, 20, 20};
        struct output_options options = OUTPUT_OPTIONS_DEFAULT;
        options.temporality = (enum metric_temporality)t;
        struct one_worker w = one_worker(options);
        for (uint32_t i = 0; i < ARRAY_LEN(added); i++) {
            add(w.a, "shop", 1, "x", added[i]);
            apply(&w, T0 + (10 * i + 5) * SECOND);
            struct metric_batch *b = collect(w.o, T0 + (10 * i + 10) * SECOND);
            const struct metric_point *p = unit_made(find(b, "shop", "samples", "l", "x"));
            ck_assert_int_eq(p->integer, t == METRIC_DELTA ? added[i] : cumulative[i]);
            ck_assert_uint_eq(p->start_unix_nano, T0 + (t == METRIC_DELTA ? 10 * i : starts[i]) * SECOND);
            metric_batch_free(b);
        }
        end(&w);
    }
}

/* What is caught up with in a minute is no reason to begin anew. */
UNIT(a_clock_that_steps_back_a_minute_goes_on)
{
    struct output_options options = OUTPUT_OPTIONS_DEFAULT;
    options.temporality = METRIC_CUMULATIVE;
    struct one_worker w = one_worker(options);
    for (int i = 1; i <= 3; i++) {
        add(w.a, "shop", 1, "x", 1);
        uint64_t now = T0 + (i == 1 ? 90 : 31) * SECOND;
        apply(&w, now);
        struct metric_batch *b = collect(w.o, now);
        const struct metric_point *p = unit_made(find(b, "shop", "samples", "l", "x"));
        ck_assert_int_eq(p->integer, i);
        ck_assert_uint_eq(p->start_unix_nano, T0);
        ck_assert_uint_eq(p->time_unix_nano, T0 + 90 * SECOND + (uint64_t)(i - 1) * NSEC_PER_MSEC);
        metric_batch_free(b);
    }
    end(&w);
}

/* A gauge at /metrics goes on by the clock that is right. */
UNIT(gauges_go_on_when_the_clock_is_put_right)
{
    struct output_options options = OUTPUT_OPTIONS_DEFAULT;
    options.temporality = METRIC_CUMULATIVE;
    options.gauge_interval = 30 * SECOND;
    struct one_worker w = one_worker(options);
    add(w.a, "shop", 2, "x", 7);
    apply(&w, T0 + 86400 * SECOND);
    metric_batch_free(collect(w.o, T0 + 86400 * SECOND));
    add(w.a, "shop", 2, "x", 8);
    apply(&w, T0 + 10 * SECOND);
    add(w.a, "shop", 2, "x", 9);
    apply(&w, T0 + 41 * SECOND);
    struct metric_batch *b = collect(w.o, T0 + 45 * SECOND);
    ck_assert_int_eq(unit_made(find(b, "shop", "heap", "l", "x"))->integer, 15); /* an interval: 7 and 8 */
    metric_batch_free(b);
    end(&w);
}

UNIT(beyond_the_limit_is_one_series_and_below_it_none)
{
    struct one_worker w = one_worker((struct output_options)OUTPUT_OPTIONS_DEFAULT);
    static const char *const labels[] = {"a", "b", "c", "d", "e", "a"};
    for (size_t i = 0; i < 3; i++)
        add(w.a, "shop", 1, labels[i], 1);
    apply(&w, T0 + 1);
    struct metric_batch *b = collect(w.o, T0 + SECOND);
    ck_assert_uint_eq(metric_batch_points(b), 3); /* as many as the rule allows */
    ck_assert_ptr_null(find(b, "shop", "samples", "otel.metric.overflow", "true"));
    metric_batch_free(b);

    for (size_t i = 0; i < ARRAY_LEN(labels); i++) {
        add(w.a, "shop", 1, labels[i], 1);
        apply(&w, T0 + SECOND + 1 + i);
    }
    add(w.a, "other", 1, "z", 5); /* another resource has a limit of its own */
    apply(&w, T0 + SECOND + 9);
    b = collect(w.o, T0 + 2 * SECOND);
    ck_assert_int_eq(unit_made(find(b, "shop", "samples", "l", "a"))->integer, 2);
    const struct metric_point *p = unit_made(find(b, "shop", "samples", "otel.metric.overflow", "true"));
    ck_assert_int_eq(p->integer, 2);
    ck_assert_uint_eq(p->n_attrs, 1);
    ck_assert_int_eq(p->attrs[0].value.kind, ATTR_BOOL);
    ck_assert_int_eq(unit_made(find(b, "other", "samples", "l", "z"))->integer, 5);
    metric_batch_free(b);
    end(&w);
}

UNIT(projections_merge_resources)
{
    static const char *const keys[] = {"service.*", "host.name"};
    struct output_options keep = OUTPUT_OPTIONS_DEFAULT, drop = OUTPUT_OPTIONS_DEFAULT;
    keep.projection = PROJECT_KEEP;
    drop.projection = PROJECT_DROP;
    keep.keys = drop.keys = keys;
    keep.n_keys = drop.n_keys = 2;
    struct one_worker w = one_worker(keep);
    struct output *dropping = unit_made(store_add_output(w.s, &drop, T0));
    for (int pid = 1; pid <= 3; pid++) {
        struct attr attrs[] = {{BYTES_LIT("process.pid"), {.kind = ATTR_INT, .integer = pid}},
                               text("service.name", "shop"),
                               text("service.namespace", "eu"),
                               text("host.name", "h")};
        aggregate_add(w.a, aggregate_resource(w.a, attrs, 4), aggregate_series(w.a, 1, NULL, 0), pid);
    }
    apply(&w, T0 + 1);
    struct metric_batch *b = collect(w.o, T0 + SECOND);
    ck_assert_uint_eq(b->n_resources, 1);
    ck_assert_uint_eq(b->resources[0].n_attrs, 3);
    ck_assert(bytes_is(b->resources[0].attrs[0].key, "host.name"));
    ck_assert_int_eq(b->resources[0].metrics[0].points[0].integer, 6);
    ck_assert_uint_eq(b->resources[0].metrics[0].points[0].n_attrs, 0);
    metric_batch_free(b);
    b = collect(dropping, T0 + SECOND);
    ck_assert_uint_eq(b->n_resources, 3);
    ck_assert_uint_eq(b->resources[0].n_attrs, 1);
    ck_assert(bytes_is(b->resources[0].attrs[0].key, "process.pid"));
    metric_batch_free(b);
    end(&w);
}

UNIT(gauges_show_the_last_finished_interval)
{
    struct output_options options = OUTPUT_OPTIONS_DEFAULT;
    options.temporality = METRIC_CUMULATIVE;
    options.gauge_interval = 30 * SECOND;
    struct one_worker w = one_worker(options);
    struct output_options delta = OUTPUT_OPTIONS_DEFAULT;
    struct output *d = unit_made(store_add_output(w.s, &delta, T0));
    add(w.a, "shop", 2, "x", 100);
    apply(&w, T0 + SECOND);
    add(w.a, "shop", 2, "x", 11);
    apply(&w, T0 + 2 * SECOND);
    struct metric_batch *b = collect(w.o, T0 + 3 * SECOND);
    ck_assert_uint_eq(b->n_resources, 0); /* its interval has not finished */
    metric_batch_free(b);
    b = collect(d, T0 + 3 * SECOND);
    ck_assert_int_eq(unit_made(find(b, "shop", "heap", "l", "x"))->integer, 111);
    metric_batch_free(b);

    add(w.a, "shop", 2, "x", 7);
    apply(&w, T0 + 31 * SECOND);
    for (int scrape = 0; scrape < 3; scrape++) { /* as often as one looks */
        b = collect(w.o, T0 + 32 * SECOND + (uint64_t)scrape);
        ck_assert_int_eq(unit_made(find(b, "shop", "heap", "l", "x"))->integer, 111);
        metric_batch_free(b);
    }
    b = collect(w.o, T0 + 62 * SECOND);
    ck_assert_int_eq(unit_made(find(b, "shop", "heap", "l", "x"))->integer, 7);
    ck_assert_int_eq(b->resources[0].metrics[0].kind, METRIC_GAUGE);
    metric_batch_free(b);
    b = collect(d, T0 + 62 * SECOND);
    ck_assert_int_eq(unit_made(find(b, "shop", "heap", "l", "x"))->integer, 7);
    metric_batch_free(b);
    end(&w);
}

UNIT(resources_beyond_the_bound_share_one)
{
    struct output_options options = OUTPUT_OPTIONS_DEFAULT;
    options.max_resources = 2;
    options.temporality = METRIC_CUMULATIVE;
    struct one_worker w = one_worker(options);
    static const char *const names[] = {"a", "b", "c", "d"};
    for (size_t i = 0; i < 4; i++)
        add(w.a, names[i], 1, "x", 1);
    apply(&w, T0 + 1);
    struct metric_batch *b = collect(w.o, T0 + SECOND);
    ck_assert_uint_eq(b->n_resources, 3);
    ck_assert(bytes_is(b->resources[0].attrs[0].key, "otel.metric.overflow"));
    ck_assert_int_eq(b->resources[0].metrics[0].points[0].integer, 2);
    metric_batch_free(b);

    /* Once the first two have ended, there is room for others. */
    metric_batch_free(collect(w.o, T0 + 400 * SECOND));
    add(w.a, "d", 1, "x", 5);
    apply(&w, T0 + 401 * SECOND);
    b = collect(w.o, T0 + 402 * SECOND);
    ck_assert_int_eq(unit_made(find(b, "d", "samples", "l", "x"))->integer, 5);
    metric_batch_free(b);
    end(&w);
}

/* ---- the property: what comes out is what went in ------------------------------------------ */

#define WORKERS   3
#define OUTPUTS   6
#define EVENTS    4000
#define VALUE_MAX 1000000u

/* A reader of one output, as a backend would be: keeps the last cumulative value of each stream identity. */
struct reader {
    struct output *o;
    enum metric_temporality temporality;
    int64_t ended[N_METRICS]; /* cumulative: from streams that are over */
    int64_t delta[N_METRICS];
    uint64_t last_time;
    uint32_t limit;
};

static int64_t integer_value(const struct metric_point *p)
{
    return p->is_double ? (int64_t)llround(p->real * 1e9) : p->integer;
}

static uint32_t metric_number(struct bytes name)
{
    for (uint32_t m = 0; m < N_METRICS; m++)
        if (bytes_eq(metrics[m].name, name))
            return m;
    ck_abort_msg("unknown metric");
    return 0;
}

/* Reads a batch; ret_live gets the cumulative total of the streams in it. */
static void read_batch(struct reader *r, const struct metric_batch *b, int64_t *ret_live)
{
    for (uint32_t i = 0; i < b->n_resources; i++) {
        for (uint32_t k = 0; k < b->resources[i].n_metrics; k++) {
            const struct metric *metric = &b->resources[i].metrics[k];
            uint32_t m = metric_number(metric->name), sets = 0;
            for (uint32_t p = 0; p < metric->n_points; p++) {
                const struct metric_point *point = &metric->points[p];
                ck_assert_uint_gt(point->time_unix_nano, point->start_unix_nano);
                ck_assert_uint_gt(point->time_unix_nano, r->last_time);
                if (r->temporality == METRIC_DELTA && r->last_time)
                    ck_assert_uint_eq(point->start_unix_nano, r->last_time);
                sets +=
                    !point->stale && !has_attr(point->attrs, point->n_attrs, "otel.metric.overflow", "true");
                if (r->temporality == METRIC_DELTA)
                    r->delta[m] += integer_value(point);
                else
                    ret_live[m] += integer_value(point);
            }
            ck_assert_uint_le(sets, metrics[m].limit ? metrics[m].limit : r->limit);
        }
    }
}

static bool same_stream(const struct metric_resource *a, const struct metric_resource *b,
                        const struct metric_point *p, const struct metric_point *q)
{
    if (a->n_attrs != b->n_attrs || p->n_attrs != q->n_attrs)
        return false;
    for (uint32_t i = 0; i < a->n_attrs; i++)
        if (!bytes_eq(a->attrs[i].key, b->attrs[i].key) || a->attrs[i].value.kind != b->attrs[i].value.kind ||
            (a->attrs[i].value.kind == ATTR_STRING &&
             !bytes_eq(a->attrs[i].value.text, b->attrs[i].value.text)) ||
            (a->attrs[i].value.kind == ATTR_INT && a->attrs[i].value.integer != b->attrs[i].value.integer))
            return false;
    for (uint32_t i = 0; i < p->n_attrs; i++)
        if (!bytes_eq(p->attrs[i].key, q->attrs[i].key) ||
            (p->attrs[i].value.kind == ATTR_STRING &&
             !bytes_eq(p->attrs[i].value.text, q->attrs[i].value.text)))
            return false;
    return true;
}

/* Moves the last values of streams that ended in `b` from the batch before to r->ended. */
static void read_ended(struct reader *r, const struct metric_batch *b, const struct metric_batch *before)
{
    for (uint32_t i = 0; before && i < b->n_resources; i++)
        for (uint32_t k = 0; k < b->resources[i].n_metrics; k++)
            for (uint32_t p = 0; p < b->resources[i].metrics[k].n_points; p++) {
                const struct metric_point *stale = &b->resources[i].metrics[k].points[p];
                uint32_t m = metric_number(b->resources[i].metrics[k].name), found = 0;
                for (uint32_t j = 0; stale->stale && j < before->n_resources; j++)
                    for (uint32_t l = 0; l < before->resources[j].n_metrics; l++)
                        for (uint32_t q = 0; q < before->resources[j].metrics[l].n_points; q++) {
                            const struct metric_point *old = &before->resources[j].metrics[l].points[q];
                            if (!bytes_eq(before->resources[j].metrics[l].name, metrics[m].name) ||
                                !same_stream(&b->resources[i], &before->resources[j], stale, old))
                                continue;
                            r->ended[m] += integer_value(old);
                            found++;
                        }
                ck_assert_uint_eq(found, stale->stale ? 1 : 0);
            }
}

static void add_random(struct aggregate *a, struct rng *rng, int64_t *total)
{
    char service[16], label[16];
    snprintf(service, sizeof service, "s%u", (unsigned)(rng_next(rng) >> 33) % 6);
    snprintf(label, sizeof label, "v%u", (unsigned)(rng_next(rng) >> 33) % 12);
    struct attr attrs[] = {text("service.name", service),
                           {BYTES_LIT("process.pid"),
                            {.kind = ATTR_INT, .integer = (int64_t)(rng_next(rng) >> 33) % 9}}};
    struct aggregate_label l = {BYTES_LIT("l"), bytes_str(label)};
    uint32_t m = (uint32_t)(rng_next(rng) >> 33) % 2; /* the sums */
    int64_t value = (int64_t)(rng_next(rng) >> 33) % VALUE_MAX;
    aggregate_add(a, aggregate_resource(a, attrs, 2), aggregate_series(a, m, &l, 1), value);
    total[m] += value;
}

/* Fills a worker's dictionary, so that it forgets at the next request. */
static void force_epoch(struct aggregate *a)
{
    char name[16];
    for (unsigned i = 0; i < 33000; i++) {
        snprintf(name, sizeof name, "%u", i);
        struct attr attr = text("filler", name);
        aggregate_resource(a, &attr, 1);
    }
    uint32_t epoch = aggregate_epoch(a);
    aggregate_begin(a);
    ck_assert_uint_ne(aggregate_epoch(a), epoch);
}

static void check_reader(struct reader *r, uint64_t now, struct metric_batch **before, const int64_t *total)
{
    int64_t live[N_METRICS] = {0};
    struct metric_batch *b = collect(r->o, now);
    read_batch(r, b, live);
    read_ended(r, b, *before);
    if (b->n_resources > 0)
        r->last_time = b->resources[0].metrics[0].points[0].time_unix_nano;
    else if (r->last_time)
        r->last_time = max_of(r->last_time + NSEC_PER_MSEC, now);
    for (uint32_t m = 0; total && m < 2; m++)
        ck_assert_int_eq(r->temporality == METRIC_DELTA ? r->delta[m] : live[m] + r->ended[m], total[m]);
    metric_batch_free(*before);
    *before = b;
}

static void run_property(uint64_t seed)
{
    static const char *const service_only[] = {"service.name"}, *const pid_only[] = {"process.pid"};
    struct budget budget = BUDGET_INIT((size_t)1 << 30, NULL);
    struct rng rng;
    rng_seed(&rng, seed);
    struct aggregate *workers[WORKERS];
    struct store *s = unit_made(store_new(metrics, N_METRICS, WORKERS, &budget, NULL));
    for (int i = 0; i < WORKERS; i++)
        workers[i] = unit_made(aggregate_new(metrics, N_METRICS, &budget));
    struct reader readers[OUTPUTS] = {0};
    struct metric_batch *before[OUTPUTS] = {0};
    for (uint32_t i = 0; i < OUTPUTS; i++) {
        struct output_options options = OUTPUT_OPTIONS_DEFAULT;
        options.temporality = readers[i].temporality = i % 2 ? METRIC_DELTA : METRIC_CUMULATIVE;
        options.projection = (enum projection)(i % 3);
        options.keys = options.projection == PROJECT_KEEP ? service_only : pid_only;
        options.n_keys = 1;
        options.cardinality_limit = readers[i].limit = 1 + (uint32_t)(rng_next(&rng) >> 33) % 14;
        options.max_resources = 1 + (uint32_t)(rng_next(&rng) >> 33) % 60;
        options.metric_expiration = (rng_next(&rng) >> 33) % 20 * SECOND;
        readers[i].o = unit_made(store_add_output(s, &options, T0));
    }

    int64_t total[N_METRICS] = {0};
    uint64_t now = T0;
    for (int e = 0; e < EVENTS; e++) {
        uint32_t what = (uint32_t)(rng_next(&rng) >> 33) % 100,
                 w = (uint32_t)(rng_next(&rng) >> 33) % WORKERS;
        if (what < 80) {
            aggregate_begin(workers[w]);
            add_random(workers[w], &rng, total);
        } else if (what < 90) {
            store_apply(s, w, aggregate_take(workers[w]), now);
        } else if (what < 99) {
            uint32_t i = (uint32_t)(rng_next(&rng) >> 33) % OUTPUTS;
            check_reader(&readers[i], now, &before[i], NULL);
        } else if (e % 3 == 0) {
            force_epoch(workers[w]);
        }
        now += (rng_next(&rng) >> 33) % (2 * SECOND);
        if (what == 50)
            now -= 3 * SECOND; /* the clock steps back */
    }
    for (uint32_t w = 0; w < WORKERS; w++)
        store_apply(s, w, aggregate_take(workers[w]), now);
    for (uint32_t i = 0; i < OUTPUTS; i++) {
        check_reader(&readers[i], now + 5 * SECOND, &before[i], total);
        metric_batch_free(before[i]);
    }
    for (int i = 0; i < WORKERS; i++)
        aggregate_free(workers[i]);
    store_free(s);
    ck_assert_uint_eq(budget.used, 0);
}

UNIT(numbers_of_another_epoch_are_other_names)
{
    struct output_options options = OUTPUT_OPTIONS_DEFAULT;
    options.temporality = METRIC_CUMULATIVE;
    struct one_worker w = one_worker(options);
    add(w.a, "shop", 0, "x", 1000000000);
    add(w.a, "till", 0, "y", 2000000000);
    apply(&w, T0 + 1);
    force_epoch(w.a);
    add(w.a, "till", 0, "y", 4000000000); /* the first number of the new epoch was shop's in the old one */
    add(w.a, "shop", 0, "x", 8000000000);
    apply(&w, T0 + 2);
    struct metric_batch *b = collect(w.o, T0 + SECOND);
    ck_assert_uint_eq(metric_batch_points(b), 2);
    ck_assert_double_eq(unit_made(find(b, "shop", "profile.cpu.time", "l", "x"))->real, 9);
    ck_assert_double_eq(unit_made(find(b, "till", "profile.cpu.time", "l", "y"))->real, 6);
    metric_batch_free(b);
    end(&w);
}

UNIT(series_that_ended_leave_their_place_to_others)
{
    struct output_options options = OUTPUT_OPTIONS_DEFAULT;
    options.temporality = METRIC_CUMULATIVE;
    struct one_worker w = one_worker(options);
    static const char *const labels[] = {"a", "b", "c", "d"};
    for (size_t i = 0; i < 4; i++) {
        add(w.a, "shop", 1, labels[i], 1);
        apply(&w, T0 + 1 + i);
    }
    struct metric_batch *b = collect(w.o, T0 + SECOND);
    ck_assert_ptr_null(find(b, "shop", "samples", "l", "d")); /* the rule allows three */
    metric_batch_free(b);
    metric_batch_free(collect(w.o, T0 + 400 * SECOND));
    for (size_t i = 1; i < 4; i++) {
        add(w.a, "shop", 1, labels[i], 5);
        apply(&w, T0 + 401 * SECOND + i);
    }
    b = collect(w.o, T0 + 402 * SECOND);
    for (size_t i = 1; i < 4; i++)
        ck_assert_int_eq(unit_made(find(b, "shop", "samples", "l", labels[i]))->integer, 5);
    ck_assert_ptr_null(find(b, "shop", "samples", "otel.metric.overflow", "true"));
    metric_batch_free(b);
    end(&w);
}

UNIT(what_comes_out_is_what_went_in)
{
    for (uint64_t seed = 1; seed <= unit_rounds(6); seed++)
        run_property(seed * 7919);
}

UNIT(without_memory_everything_is_in_overflow_and_nothing_lost)
{
    struct budget workers = BUDGET_INIT(64 << 20, NULL), budget = BUDGET_INIT(24 << 10, NULL);
    struct aggregate *a = unit_made(aggregate_new(metrics, N_METRICS, &workers));
    struct store *s = unit_made(store_new(metrics, N_METRICS, 1, &budget, NULL));
    struct output_options options = OUTPUT_OPTIONS_DEFAULT;
    options.temporality = METRIC_CUMULATIVE;
    struct output *o = unit_made(store_add_output(s, &options, T0));
    int64_t total = 0;
    for (int i = 0; i < 3000; i++) {
        char service[32];
        snprintf(service, sizeof service, "service-%d", i);
        add(a, service, 1, "x", i);
        total += i;
        if (i % 500 == 0)
            store_apply(s, 0, aggregate_take(a), T0 + (uint64_t)i);
    }
    store_apply(s, 0, aggregate_take(a), T0 + SECOND);
    struct metric_batch *b = NULL;
    int r = output_collect(o, T0 + 2 * SECOND, &b);
    ck_assert_int_eq(r, -ENOMEM);
    budget.limit = 64 << 20;
    b = collect(o, T0 + 3 * SECOND);
    int64_t sum = 0;
    bool overflow = false;
    for (uint32_t i = 0; i < b->n_resources; i++) {
        sum += b->resources[i].metrics[0].points[0].integer;
        ck_assert_uint_eq(b->resources[i].n_metrics, 1);
        ck_assert_uint_eq(b->resources[i].metrics[0].n_points, 1);
        overflow |= has_attr(b->resources[i].attrs, b->resources[i].n_attrs, "otel.metric.overflow", "true");
    }
    ck_assert_int_eq(sum, total);
    ck_assert(overflow);
    metric_batch_free(b);
    aggregate_free(a);
    store_free(s);
    ck_assert_uint_eq(budget.used, 0);
    ck_assert_uint_eq(workers.used, 0);
}

UNIT(series_that_come_and_go_do_not_pile_up)
{
    struct budget budget = BUDGET_INIT((size_t)1 << 30, NULL);
    struct aggregate *a = unit_made(aggregate_new(metrics, N_METRICS, NULL));
    struct store *s = unit_made(store_new(metrics, N_METRICS, 1, &budget, NULL));
    struct output_options options = OUTPUT_OPTIONS_DEFAULT;
    options.temporality = METRIC_CUMULATIVE;
    options.metric_expiration = 2 * SECOND;
    struct output *o = unit_made(store_add_output(s, &options, T0));
    size_t at_half = 0;
    for (uint32_t round = 0; round < 400; round++) {
        aggregate_begin(a);
        for (uint32_t i = 0; i < 200; i++) {
            char service[32];
            snprintf(service, sizeof service, "pid-%u", round * 200 + i);
            add(a, service, 1, "x", 1);
        }
        store_apply(s, 0, aggregate_take(a), T0 + round * SECOND);
        metric_batch_free(collect(o, T0 + round * SECOND + 1));
        ck_assert_uint_le(store_series(s), 200 * 4);
        if (round == 200)
            at_half = budget.used;
    }
    ck_assert_uint_lt(budget.used, at_half * 2);
    aggregate_free(a);
    store_free(s);
    ck_assert_uint_eq(budget.used, 0);
}
