/* SPDX-License-Identifier: Apache-2.0 */
/* `limit N largest`: the heaviest of each window have names, and nothing is lost or moved for it. */
#include "tests/lib/unit.h"

#include <stdio.h>

#include "gateway/aggregate/aggregate.h"
#include "gateway/aggregate/store.h"
#include "proto/base/macros.h"
#include "proto/base/rng.h"
#include "tests/unit/gateway/aggregate/streams.h"

#define SECOND (uint64_t) NSEC_PER_SEC
#define T0     (1700000000u * SECOND)

static const struct aggregate_metric metrics[] = {
    {.name = BYTES_LIT("top"), .unit = BYTES_LIT("1"), .limit = 2, .largest = true},
    {.name = BYTES_LIT("many"), .unit = BYTES_LIT("1"), .limit = 20, .largest = true},
};

struct world {
    struct budget budget;
    struct aggregate *a;
    struct store *s;
    struct output *o;
    uint64_t now;
};

static void world_init(struct world *w, enum metric_temporality temporality)
{
    struct output_options options = OUTPUT_OPTIONS_DEFAULT;
    options.temporality = temporality;
    *w = (struct world){.budget = BUDGET_INIT((size_t)1 << 30, NULL), .now = T0};
    w->a = unit_made(aggregate_new(metrics, ARRAY_LEN(metrics), &w->budget));
    w->s = unit_made(store_new(metrics, ARRAY_LEN(metrics), 1, &w->budget, NULL));
    w->o = unit_made(store_add_output(w->s, &options, w->now));
}

static void world_end(struct world *w)
{
    aggregate_free(w->a);
    store_free(w->s);
    ck_assert_uint_eq(w->budget.used, 0);
}

static void add(struct world *w, uint32_t metric, const char *label, int64_t value)
{
    struct attr attr = {BYTES_LIT("service.name"), {.kind = ATTR_STRING, .text = BYTES_LIT("shop")}};
    struct aggregate_label l = {BYTES_LIT("l"), bytes_str(label)};
    aggregate_add(w->a, aggregate_resource(w->a, &attr, 1), aggregate_series(w->a, metric, &l, 1), value);
}

static void apply(struct world *w)
{
    store_apply(w->s, 0, aggregate_take(w->a), w->now += SECOND);
}

static struct metric_batch *collect(struct world *w)
{
    struct metric_batch *batch = NULL;
    ck_assert_int_eq(output_collect(w->o, w->now += SECOND, &batch), 0);
    return batch;
}

/* "x" is a label's value; NULL the overflow series. */
static const struct metric_point *point(const struct metric_batch *b, const char *label)
{
    for (uint32_t r = 0; r < b->n_resources; r++)
        for (uint32_t m = 0; m < b->resources[r].n_metrics; m++)
            for (uint32_t p = 0; p < b->resources[r].metrics[m].n_points; p++) {
                const struct metric_point *at = &b->resources[r].metrics[m].points[p];
                bool overflow = at->attrs[0].value.kind == ATTR_BOOL;
                if (label ? !overflow && bytes_is(at->attrs[0].value.text, label) : overflow)
                    return at;
            }
    return NULL;
}

UNIT(the_heaviest_of_a_window_have_names_whoever_came_first)
{
    cleanup(world_end) struct world w;
    world_init(&w, METRIC_DELTA);
    static const char *const labels[] = {"a", "b", "c", "d"};
    for (int i = 0; i < 4; i++) {
        add(&w, 0, labels[i], 1 + i);
        apply(&w);
    }
    struct metric_batch *b = collect(&w);
    ck_assert_uint_eq(metric_batch_points(b), 3);
    ck_assert_int_eq(unit_made(point(b, "d"))->integer, 4);
    ck_assert_int_eq(unit_made(point(b, "c"))->integer, 3);
    ck_assert_int_eq(unit_made(point(b, NULL))->integer, 1 + 2);
    metric_batch_free(b);

    add(&w, 0, "a", 9); /* a window of its own */
    add(&w, 0, "d", 1);
    add(&w, 0, "c", 2);
    apply(&w);
    b = collect(&w);
    ck_assert_int_eq(unit_made(point(b, "a"))->integer, 9);
    ck_assert_int_eq(unit_made(point(b, "c"))->integer, 2);
    ck_assert_int_eq(unit_made(point(b, NULL))->integer, 1);
    metric_batch_free(b);
}

UNIT(a_name_once_told_stays_and_overflow_never_falls)
{
    cleanup(world_end) struct world w;
    world_init(&w, METRIC_CUMULATIVE);
    add(&w, 0, "a", 5);
    add(&w, 0, "b", 4);
    add(&w, 0, "c", 3);
    apply(&w);
    struct metric_batch *b = collect(&w);
    ck_assert_int_eq(unit_made(point(b, "a"))->integer, 5);
    ck_assert_ptr_null(point(b, "c"));
    ck_assert_int_eq(unit_made(point(b, NULL))->integer, 3);
    metric_batch_free(b);

    add(&w, 0, "c", 8); /* heavy now: its name begins here */
    add(&w, 0, "d", 7);
    add(&w, 0, "a", 1);
    apply(&w);
    uint64_t began = w.now - SECOND;
    b = collect(&w);
    ck_assert_int_eq(unit_made(point(b, "a"))->integer, 6);
    ck_assert_int_eq(unit_made(point(b, "b"))->integer, 4);
    ck_assert_int_eq(unit_made(point(b, "c"))->integer, 8);
    ck_assert_uint_eq(unit_made(point(b, "c"))->start_unix_nano, began);
    ck_assert_int_eq(unit_made(point(b, "d"))->integer, 7);
    ck_assert_int_eq(unit_made(point(b, NULL))->integer, 3);
    metric_batch_free(b);
}

UNIT(where_all_names_are_taken_the_one_that_was_not_heavy_for_longest_goes)
{
    cleanup(world_end) struct world w;
    char label[16];
    world_init(&w, METRIC_CUMULATIVE);
    for (int i = 0; i < 8; i += 2) { /* four times the limit */
        for (int k = 0; k < 2; k++) {
            snprintf(label, sizeof label, "n%d", i + k);
            add(&w, 0, label, 10 + i + k);
        }
        apply(&w);
        metric_batch_free(collect(&w));
    }
    ck_assert_uint_eq(store_series(w.s), 8);
    add(&w, 0, "late", 100); /* none of the eight may go yet */
    apply(&w);
    struct metric_batch *b = collect(&w);
    ck_assert_ptr_null(point(b, "late"));
    ck_assert_int_eq(unit_made(point(b, NULL))->integer, 100);
    metric_batch_free(b);

    for (int i = 0; i < 8; i++) { /* all of them alive, n2 … n7 heavy now and then */
        w.now += 50 * SECOND;
        for (int k = 0; k < 8; k++) {
            snprintf(label, sizeof label, "n%d", k);
            add(&w, 0, label, k == 2 + i % 6 ? 1000 : 1);
        }
        apply(&w);
        metric_batch_free(collect(&w));
    }
    for (int i = 0; i < 3; i++) {
        add(&w, 0, "late", 5000);
        add(&w, 0, "n1", 1);
        add(&w, 0, "n0", 1);
        apply(&w);
        b = collect(&w);
        if (i == 0) { /* told once more, then gone, then there is room */
            ck_assert_ptr_null(point(b, "late"));
            ck_assert(!unit_made(point(b, "n0"))->stale);
        } else if (i == 1) {
            ck_assert(unit_made(point(b, "n0"))->stale || unit_made(point(b, "n1"))->stale);
        } else {
            ck_assert_int_eq(unit_made(point(b, "late"))->integer, 5000);
            ck_assert_ptr_nonnull(point(b, "n7"));
        }
        metric_batch_free(b);
    }
}

/* Every label set that has more than a 4N-th of all is named, whatever comes between; names tell no more than
 * was added, and all of it is told. */
UNIT(the_heavy_are_found_among_very_many)
{
    for (int t = METRIC_DELTA; t <= METRIC_CUMULATIVE; t++) {
        cleanup(world_end) struct world w;
        struct rng rng;
        int64_t heavy[8] = {0}, total = 0;
        char label[16];
        world_init(&w, (enum metric_temporality)t);
        rng_seed(&rng, 42);
        for (int i = 0; i < 30000; i++) {
            uint32_t draw = (uint32_t)(rng_next(&rng) >> 33), which = draw % 1000;
            int64_t value = 1 + draw / 1000 % 5;
            if (which < 8 * 20) { /* each of eight has a fiftieth: more than an eightieth */
                snprintf(label, sizeof label, "heavy%u", which / 20);
                heavy[which / 20] += value;
            } else {
                snprintf(label, sizeof label, "x%d", i);
            }
            add(&w, 1, label, value);
            total += value;
            if (i % 100 == 99) {
                aggregate_begin(w.a);
                apply(&w);
            }
        }
        struct metric_batch *b = collect(&w);
        ck_assert_uint_eq(metric_batch_points(b), 20 + 1);
        for (int i = 0; i < 8; i++) {
            snprintf(label, sizeof label, "heavy%d", i);
            const struct metric_point *p = unit_made(point(b, label));
            ck_assert_int_le(p->integer, heavy[i]);
            ck_assert_int_gt(p->integer, heavy[i] - total / 80);
        }
        struct streams streams = {.ids = INTERN_INIT(NULL)};
        streams_read(&streams, b);
        ck_assert_int_eq(streams_total(&streams, "many"), total);
        streams_release(&streams);
        metric_batch_free(b);
    }
}

UNIT(names_that_were_candidates_for_a_while_do_not_pile_up)
{
    cleanup(world_end) struct world w;
    char label[32];
    size_t at_half = 0;
    world_init(&w, METRIC_CUMULATIVE);
    for (int round = 0; round < 200; round++) {
        aggregate_begin(w.a);
        for (int i = 0; i < 500; i++) {
            snprintf(label, sizeof label, "label-%d-%d", round, i);
            add(&w, 1, label, 1 + i);
        }
        apply(&w); /* nobody collects */
        if (round == 100)
            at_half = w.budget.used;
    }
    ck_assert_uint_lt(w.budget.used, at_half + (16 << 20)); /* the worker's own dictionary grows, too */
    struct metric_batch *b = collect(&w);
    struct streams streams = {.ids = INTERN_INIT(NULL)};
    streams_read(&streams, b);
    ck_assert_int_eq(streams_total(&streams, "many"), 200 * 500 * 501 / 2);
    streams_release(&streams);
    metric_batch_free(b);
}

UNIT(an_example_goes_with_the_name)
{
    cleanup(world_end) struct world w;
    struct aggregate_exemplar e = {.trace_id = {1}, .span_id = {2}, .time_unix_nano = T0, .value = 3};
    struct attr attr = {BYTES_LIT("service.name"), {.kind = ATTR_STRING, .text = BYTES_LIT("shop")}};
    struct aggregate_label l = {BYTES_LIT("l"), BYTES_LIT("a")};
    world_init(&w, METRIC_DELTA);
    add(&w, 0, "a", 3);
    add(&w, 0, "b", 2);
    add(&w, 0, "c", 1);
    aggregate_offer(w.a, aggregate_resource(w.a, &attr, 1), aggregate_series(w.a, 0, &l, 1), &e);
    apply(&w);
    struct metric_batch *b = collect(&w);
    ck_assert_ptr_nonnull(unit_made(point(b, "a"))->exemplar);
    ck_assert_int_eq(unit_made(point(b, "a"))->exemplar->trace_id[0], 1);
    ck_assert_ptr_null(unit_made(point(b, "b"))->exemplar);
    ck_assert_ptr_null(unit_made(point(b, NULL))->exemplar);
    metric_batch_free(b);
}

UNIT(without_memory_it_is_in_overflow_and_nothing_lost)
{
    struct budget workers = BUDGET_INIT((size_t)64 << 20, NULL);
    for (size_t limit = 16 << 10; limit < 400 << 10; limit += limit / 2) {
        cleanup(world_end) struct world w = {.budget = BUDGET_INIT(limit, NULL), .now = T0};
        struct output_options options = OUTPUT_OPTIONS_DEFAULT;
        options.temporality = METRIC_CUMULATIVE;
        w.s = unit_made(store_new(metrics, ARRAY_LEN(metrics), 1, &w.budget, NULL));
        w.o = unit_made(store_add_output(w.s, &options, w.now));
        w.a = unit_made(aggregate_new(metrics, ARRAY_LEN(metrics), &workers));
        int64_t total = 0;
        char label[32];
        for (int i = 0; i < 3000; i++) {
            snprintf(label, sizeof label, "label-%d", i * i % 1777);
            add(&w, 1, label, i);
            total += i;
            if (i % 300 == 0)
                apply(&w);
        }
        apply(&w);
        w.budget.limit = (size_t)64 << 20;
        struct metric_batch *b = collect(&w);
        struct streams streams = {.ids = INTERN_INIT(NULL)};
        streams_read(&streams, b);
        ck_assert_int_eq(streams_total(&streams, "many"), total);
        streams_release(&streams);
        metric_batch_free(b);
    }
    ck_assert_uint_eq(workers.used, 0);
}
