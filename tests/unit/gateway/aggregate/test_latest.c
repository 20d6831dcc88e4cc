/* SPDX-License-Identifier: Apache-2.0 */
/* Gauges that keep what the newest profile of each resource says (`combine last`). */
#include "tests/lib/unit.h"

#include <stdio.h>

#include "gateway/aggregate/aggregate.h"
#include "gateway/aggregate/store.h"
#include "proto/base/macros.h"
#include "proto/base/rng.h"

#define SECOND  (uint64_t) NSEC_PER_SEC
#define T0      (1700000000u * SECOND)
#define WORKERS 3

static const struct aggregate_metric metrics[] = {
    {.name = BYTES_LIT("before"), .unit = BYTES_LIT("1")},
    {.name = BYTES_LIT("live"), .unit = BYTES_LIT("By"), .kind = METRIC_GAUGE, .keeps_last = true},
};
#define LIVE 1u

struct world {
    struct budget budget;
    struct aggregate *a[WORKERS];
    struct store *s;
    struct output *all, *services, *delta;
};

static void world_init(struct world *w)
{
    static const char *const keys[] = {"service.name"};
    struct output_options options = OUTPUT_OPTIONS_DEFAULT;
    *w = (struct world){.budget = BUDGET_INIT((size_t)1 << 30, NULL)};
    for (int i = 0; i < WORKERS; i++)
        w->a[i] = unit_made(aggregate_new(metrics, ARRAY_LEN(metrics), &w->budget));
    w->s = unit_made(store_new(metrics, ARRAY_LEN(metrics), WORKERS, &w->budget, NULL));
    w->delta = unit_made(store_add_output(w->s, &options, T0));
    options.temporality = METRIC_CUMULATIVE;
    options.gauge_interval = 30 * SECOND; /* has no say in this */
    w->all = unit_made(store_add_output(w->s, &options, T0));
    options.projection = PROJECT_KEEP;
    options.keys = keys;
    options.n_keys = 1;
    w->services = unit_made(store_add_output(w->s, &options, T0));
}

static void world_end(struct world *w)
{
    for (int i = 0; i < WORKERS; i++)
        aggregate_free(w->a[i]);
    store_free(w->s);
    ck_assert_uint_eq(w->budget.used, 0);
}

/* A profile of one process says this of one or two label sets. */
static void say(struct world *w, int worker, int pid, uint64_t time, const char *label, int64_t value,
                const char *more, int64_t more_value)
{
    struct aggregate *a = w->a[worker];
    struct attr attrs[] = {{BYTES_LIT("service.name"), {.kind = ATTR_STRING, .text = BYTES_LIT("shop")}},
                           {BYTES_LIT("process.pid"), {.kind = ATTR_INT, .integer = pid}}};
    struct aggregate_moment moment = {time, aggregate_arrivals(1)};
    struct aggregate_label l = {BYTES_LIT("l"), bytes_str(label)}, m = {BYTES_LIT("l"), bytes_str(more)};
    uint32_t resource = aggregate_resource(a, attrs, 2);
    aggregate_keep(a, resource, aggregate_series(a, LIVE, &l, 1), &moment, value);
    if (more)
        aggregate_keep(a, resource, aggregate_series(a, LIVE, &m, 1), &moment, more_value);
}

static void apply(struct world *w, int worker, uint64_t now)
{
    store_apply(w->s, (uint32_t)worker, aggregate_take(w->a[worker]), now);
}

/* The values of all points as "pid label=value" lines, "†" for stale; pid 0: the output has none. */
static const char *shown(struct output *o, uint64_t now)
{
    static char text[1024];
    struct metric_batch *b = NULL;
    ck_assert_int_eq(output_collect(o, now, &b), 0);
    text[0] = '\0';
    for (uint32_t r = 0; r < b->n_resources; r++) {
        long long pid = b->resources[r].n_attrs == 2 ? b->resources[r].attrs[0].value.integer : 0;
        for (uint32_t m = 0; m < b->resources[r].n_metrics; m++)
            for (uint32_t p = 0; p < b->resources[r].metrics[m].n_points; p++) {
                const struct metric_point *at = &b->resources[r].metrics[m].points[p];
                size_t n = strlen(text);
                snprintf(text + n, sizeof text - n, "%lld %.*s=%lld%s;", pid,
                         BYTES_FMT(at->attrs[0].value.text), (long long)at->integer, at->stale ? "†" : "");
            }
    }
    metric_batch_free(b);
    return text;
}

UNIT(the_newest_by_time_counts_whatever_comes_after)
{
    cleanup(world_end) struct world w;
    world_init(&w);
    say(&w, 0, 7, T0 + 20, "x", 200, NULL, 0);
    say(&w, 0, 7, T0 + 10, "x", 100, NULL, 0); /* late */
    apply(&w, 0, T0 + SECOND);
    ck_assert_str_eq(shown(w.all, T0 + SECOND), "7 x=200;");
    say(&w, 1, 7, T0 + 15, "x", 150, NULL, 0); /* late, by another worker and flush */
    apply(&w, 1, T0 + 2 * SECOND);
    ck_assert_str_eq(shown(w.all, T0 + 3 * SECOND), "7 x=200;"); /* until a newer one comes */
    say(&w, 2, 7, T0 + 30, "x", 50, NULL, 0);
    apply(&w, 2, T0 + 4 * SECOND);
    ck_assert_str_eq(shown(w.all, T0 + 4 * SECOND), "7 x=50;");
}

UNIT(of_two_of_one_time_the_later_counts)
{
    cleanup(world_end) struct world w;
    world_init(&w);
    say(&w, 0, 7, T0, "x", 1, NULL, 0);
    say(&w, 1, 7, T0, "x", 2, NULL, 0);
    apply(&w, 1, T0 + SECOND); /* the later one is handed over first */
    apply(&w, 0, T0 + SECOND);
    ck_assert_str_eq(shown(w.all, T0 + SECOND), "7 x=2;");
    say(&w, 0, 7, T0, "x", 3, NULL, 0);
    apply(&w, 0, T0 + 2 * SECOND);
    ck_assert_str_eq(shown(w.all, T0 + 2 * SECOND), "7 x=3;");
}

UNIT(what_the_newest_does_not_say_is_gone)
{
    cleanup(world_end) struct world w;
    world_init(&w);
    say(&w, 0, 7, T0, "x", 1, "y", 2);
    apply(&w, 0, T0 + SECOND);
    ck_assert_str_eq(shown(w.all, T0 + SECOND), "7 x=1;7 y=2;");
    say(&w, 1, 7, T0 + 1, "y", 5, "z", 6);
    apply(&w, 1, T0 + 2 * SECOND);
    const char *text = shown(w.all, T0 + 2 * SECOND);
    ck_assert_str_eq(text, "7 x=0†;7 y=5;7 z=6;");
    ck_assert_str_eq(shown(w.all, T0 + 3 * SECOND), "7 y=5;7 z=6;");
}

UNIT(processes_that_become_one_add_up)
{
    cleanup(world_end) struct world w;
    world_init(&w);
    say(&w, 0, 7, T0, "x", 100, NULL, 0);
    say(&w, 1, 8, T0 + 5, "x", 10, NULL, 0);
    apply(&w, 0, T0 + SECOND);
    apply(&w, 1, T0 + SECOND);
    ck_assert_str_eq(shown(w.services, T0 + SECOND), "0 x=110;");
    say(&w, 0, 7, T0 + 9, "x", 90, NULL, 0);
    apply(&w, 0, T0 + 2 * SECOND);
    ck_assert_str_eq(shown(w.services, T0 + 2 * SECOND), "0 x=100;");
    /* one goes quiet: after metric_expiration (5 minutes) what it said is no longer so */
    say(&w, 0, 7, T0 + 20, "x", 91, NULL, 0);
    apply(&w, 0, T0 + 200 * SECOND);
    ck_assert_str_eq(shown(w.services, T0 + 302 * SECOND), "0 x=91;");
    ck_assert_str_eq(shown(w.services, T0 + 501 * SECOND), "0 x=0†;");
    ck_assert_str_eq(shown(w.services, T0 + 502 * SECOND), "");
}

UNIT(a_delta_output_tells_it_when_there_is_news)
{
    cleanup(world_end) struct world w;
    world_init(&w);
    say(&w, 0, 7, T0, "x", 1, NULL, 0);
    apply(&w, 0, T0 + SECOND);
    ck_assert_str_eq(shown(w.delta, T0 + SECOND), "7 x=1;");
    ck_assert_str_eq(shown(w.delta, T0 + 2 * SECOND), "");
    say(&w, 0, 8, T0, "x", 4, NULL, 0);
    apply(&w, 0, T0 + 3 * SECOND);
    ck_assert_str_eq(shown(w.delta, T0 + 3 * SECOND), "8 x=4;");
}

UNIT(a_clock_that_ran_ahead_is_forgotten_with_its_series)
{
    cleanup(world_end) struct world w;
    world_init(&w);
    say(&w, 0, 7, T0 + 1000 * SECOND, "x", 1, NULL, 0);
    apply(&w, 0, T0 + SECOND);
    say(&w, 0, 7, T0 + 2 * SECOND, "x", 2, NULL, 0);
    apply(&w, 0, T0 + 2 * SECOND);
    ck_assert_str_eq(shown(w.all, T0 + 3 * SECOND), "7 x=1;");
    shown(w.all, T0 + 400 * SECOND);
    ck_assert_str_eq(shown(w.all, T0 + 401 * SECOND), "");
}

/* Whatever workers, hand-overs and collects there are: shown is what the newest profile of each process says,
 * and of a service the sum of that. */
/* Ours: what was heard by a clock that was a day ahead is quiet five minutes after it was put right. */
UNIT(our_clock_that_is_put_right)
{
    cleanup(world_end) struct world w;
    world_init(&w);
    say(&w, 0, 7, T0 + 20, "x", 200, NULL, 0);
    apply(&w, 0, T0 + 86400 * SECOND);
    ck_assert_str_eq(shown(w.all, T0 + 86400 * SECOND), "7 x=200;");
    say(&w, 0, 8, T0 + 30, "y", 1, NULL, 0);
    apply(&w, 0, T0 + 10 * SECOND);
    ck_assert_str_eq(shown(w.all, T0 + 20 * SECOND), "7 x=200;8 y=1;");
    say(&w, 0, 8, T0 + 40, "y", 2, NULL, 0);
    apply(&w, 0, T0 + 300 * SECOND);
    ck_assert_str_eq(shown(w.all, T0 + 311 * SECOND), "7 x=0†;8 y=2;");
}

UNIT(property_the_newest_of_each_process)
{
    for (uint64_t seed = 1; seed <= unit_rounds(5); seed++) {
        cleanup(world_end) struct world w;
        struct rng rng;
        struct {
            uint64_t time;
            int64_t value;
        } newest[10] = {{0}};
        uint64_t now = T0 + 1000 * SECOND;
        world_init(&w);
        rng_seed(&rng, seed * 7919);
        for (int e = 0; e < 3000; e++) {
            uint32_t draw = (uint32_t)(rng_next(&rng) >> 33), pid = draw % 10, worker = draw / 10 % WORKERS;
            uint64_t time = T0 + draw / 30 % 500;
            if (draw / 30000 % 10 < 8) {
                say(&w, (int)worker, (int)pid, time, "x", e, NULL, 0);
                if (time >= newest[pid].time) {
                    newest[pid].time = time;
                    newest[pid].value = e;
                }
            } else {
                apply(&w, (int)worker, now);
                shown(e % 2 ? w.all : w.delta, now);
            }
            now += draw % 1000;
        }
        for (int i = 0; i < WORKERS; i++)
            apply(&w, i, now);
        char expected[1024] = "";
        long long sum = 0;
        for (int pid = 0; pid < 10; pid++)
            sum += newest[pid].value;
        snprintf(expected, sizeof expected, "0 x=%lld;", sum);
        ck_assert_str_eq(shown(w.services, now), expected);
    }
}

UNIT(dead_processes_are_forgotten)
{
    cleanup(world_end) struct world w;
    size_t at_half = 0;
    world_init(&w);
    for (int round = 0; round < 2000; round++) {
        uint64_t now = T0 + (uint64_t)round * 10 * SECOND;
        aggregate_begin(w.a[0]);
        for (int i = 0; i < 20; i++)
            say(&w, 0, round * 20 + i, now, "x", 1, NULL, 0);
        apply(&w, 0, now);
        shown(w.services, now);
        if (round == 1000)
            at_half = w.budget.used;
    }
    ck_assert_uint_lt(w.budget.used, at_half + (8 << 20)); /* the worker's own dictionary grows, too */
    ck_assert_str_eq(shown(w.services, T0 + 19990 * SECOND), "0 x=600;");
}
