/* SPDX-License-Identifier: Apache-2.0 */
/* Examples with a trace on their way to a batch, and who says it. */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <string.h>

#include "gateway/aggregate/aggregate.h"
#include "gateway/aggregate/store.h"
#include "proto/base/macros.h"

#define SECOND (uint64_t) NSEC_PER_SEC
#define T0     (1700000000u * SECOND)

static const struct aggregate_metric metrics[] = {
    {.name = BYTES_LIT("cpu"), .unit = BYTES_LIT("s"), .is_seconds = true},
    {.name = BYTES_LIT("samples"), .unit = BYTES_LIT("1"), .limit = 2},
};

struct world {
    struct budget budget;
    struct aggregate *a;
    struct store *s;
    struct output *o;
};

static struct world *begin(struct output_options options)
{
    static struct world w;
    w = (struct world){.budget = BUDGET_INIT((size_t)64 << 20, NULL)};
    w.a = aggregate_new(metrics, 2, &w.budget);
    w.s = unit_made(store_new(metrics, 2, 1, &w.budget, NULL));
    w.o = store_add_output(w.s, &options, T0);
    ck_assert(w.a && w.o);
    return &w;
}

static void end(struct world *w)
{
    aggregate_free(w->a);
    store_free(w->s);
    ck_assert_uint_eq(w->budget.used, 0);
}

static struct aggregate_exemplar example(uint8_t id, int64_t value, uint64_t time)
{
    struct aggregate_exemplar e = {.value = value, .time_unix_nano = time};
    memset(e.trace_id, id, sizeof e.trace_id);
    memset(e.span_id, id, sizeof e.span_id);
    return e;
}

static void add(struct world *w, uint32_t metric, const char *label, uint8_t id, int64_t value, uint64_t time)
{
    struct attr attr = {BYTES_LIT("service.name"), {.kind = ATTR_STRING, .text = BYTES_LIT("shop")}};
    struct aggregate_label l = {BYTES_LIT("l"), bytes_str(label)};
    uint32_t resource = aggregate_resource(w->a, &attr, 1), series = aggregate_series(w->a, metric, &l, 1);
    struct aggregate_exemplar e = example(id, value, time);
    aggregate_add(w->a, resource, series, value);
    if (id)
        aggregate_offer(w->a, resource, series, &e);
}

static void apply(struct world *w, uint64_t now)
{
    store_apply(w->s, 0, aggregate_take(w->a), now);
}

/* The first point of a metric with this label value, or the overflow point for NULL. */
static struct metric_point point(struct world *w, uint64_t now, const char *metric, const char *label,
                                 struct metric_exemplar *ret)
{
    struct metric_point found = {0};
    struct metric_batch *b;
    ck_assert_int_eq(output_collect(w->o, now, &b), 0);
    for (uint32_t r = 0; r < b->n_resources; r++)
        for (uint32_t m = 0; m < b->resources[r].n_metrics; m++)
            for (uint32_t p = 0; p < b->resources[r].metrics[m].n_points; p++) {
                const struct metric_point *at = &b->resources[r].metrics[m].points[p];
                bool same =
                    label ? bytes_is(at->attrs[0].value.text, label) && at->attrs[0].value.kind == ATTR_STRING
                          : at->attrs[0].value.kind == ATTR_BOOL;
                if (bytes_is(b->resources[r].metrics[m].name, metric) && same)
                    found = *at;
            }
    memset(ret, 0, sizeof *ret);
    if (found.exemplar)
        *ret = *found.exemplar;
    metric_batch_free(b);
    return found;
}

UNIT(an_example_is_told_once_by_otlp_and_stays_for_scrapers)
{
    for (int stay = 0; stay < 2; stay++)
        for (int t = METRIC_DELTA; t <= METRIC_CUMULATIVE; t++) {
            struct output_options options = OUTPUT_OPTIONS_DEFAULT;
            options.temporality = (enum metric_temporality)t;
            options.exemplars = stay ? EXEMPLARS_STAY : EXEMPLARS_ONCE;
            struct world *w = begin(options);
            struct metric_exemplar e;
            add(w, 0, "x", 7, 1500000000, T0 + 1);
            add(w, 1, "x", 0, 1, 0);
            apply(w, T0 + SECOND);
            ck_assert_ptr_nonnull(point(w, T0 + 2 * SECOND, "cpu", "x", &e).exemplar);
            ck_assert_double_eq(e.real, 1.5);
            ck_assert_uint_eq(e.time_unix_nano, T0 + 1);
            ck_assert(e.trace_id[15] == 7 && e.span_id[0] == 7);
            add(w, 0, "x", 0, 1, 0);
            apply(w, T0 + 3 * SECOND);
            struct metric_point later = point(w, T0 + 4 * SECOND, "cpu", "x", &e);
            ck_assert(!!later.exemplar == (stay && t == METRIC_CUMULATIVE));
            ck_assert_ptr_null(point(w, T0 + 5 * SECOND, "samples", "x", &e).exemplar);
            end(w);
        }
}

UNIT(an_example_of_the_future_or_of_no_time_is_of_now)
{
    static const uint64_t times[] = {0, T0 + 99 * SECOND};
    for (size_t i = 0; i < 2; i++) {
        struct world *w = begin((struct output_options)OUTPUT_OPTIONS_DEFAULT);
        struct metric_exemplar e;
        add(w, 1, "x", 1, 5, times[i]);
        apply(w, T0 + SECOND);
        point(w, T0 + 2 * SECOND, "samples", "x", &e);
        ck_assert_uint_eq(e.time_unix_nano, T0 + SECOND);
        ck_assert_int_eq(e.integer, 5);
        end(w);
    }
}

UNIT(what_went_to_overflow_has_its_example_there)
{
    struct world *w = begin((struct output_options)OUTPUT_OPTIONS_DEFAULT);
    struct metric_exemplar e;
    add(w, 1, "a", 0, 1, 0);
    apply(w, T0 + 1);
    add(w, 1, "b", 0, 1, 0);
    apply(w, T0 + 2);
    add(w, 1, "c", 3, 1, T0); /* the rule allows two */
    apply(w, T0 + 3);
    ck_assert_ptr_nonnull(point(w, T0 + SECOND, "samples", NULL, &e).exemplar);
    ck_assert_uint_eq(e.trace_id[0], 3);
    end(w);
}

UNIT(each_of_those_offered_has_a_chance)
{
    uint32_t kept[5] = {0};
    for (int round = 0; round < 2000; round++) {
        struct world *w = begin((struct output_options)OUTPUT_OPTIONS_DEFAULT);
        struct metric_exemplar e;
        for (uint8_t id = 1; id <= 4; id++)
            add(w, 1, "x", id, 1, T0);
        apply(w, T0 + 1);
        point(w, T0 + SECOND, "samples", "x", &e);
        kept[e.trace_id[0]]++;
        end(w);
    }
    for (int id = 1; id <= 4; id++) { /* 500 each, standard deviation 19 */
        ck_assert_uint_gt(kept[id], 350);
        ck_assert_uint_lt(kept[id], 650);
    }
}

UNIT(examples_outlive_tidying_and_reload_and_pile_up_nowhere)
{
    struct output_options options = OUTPUT_OPTIONS_DEFAULT;
    options.temporality = METRIC_CUMULATIVE;
    options.exemplars = EXEMPLARS_STAY;
    options.metric_expiration = 2 * SECOND;
    options.cardinality_limit = 100000;
    struct world *w = begin(options);
    size_t at_half = 0;
    uint32_t generation;
    struct metric_exemplar e;
    char label[16];
    for (uint64_t round = 0; round < 200; round++) {
        aggregate_begin(w->a);
        add(w, 0, "stays", round == 0 ? 9 : 0, 1, T0);
        for (uint32_t i = 0; i < 100; i++) {
            snprintf(label, sizeof label, "v%u", ((unsigned)round * 100 + i) % 1500);
            add(w, 0, label, 1, 1, T0);
        }
        apply(w, T0 + round * SECOND);
        point(w, T0 + round * SECOND + 1, "cpu", "stays", &e);
        ck_assert_uint_eq(e.trace_id[0], 9);
        if (round == 100)
            at_half = w->budget.used;
    }
    ck_assert_uint_lt(w->budget.used, at_half * 3 / 2);
    ck_assert_int_eq(store_replace_metrics(w->s, metrics, 2, &generation), 0);
    point(w, T0 + 200 * SECOND, "cpu", "stays", &e);
    ck_assert_uint_eq(e.trace_id[0], 9);
    end(w);
}

UNIT(two_gateways_are_two_writers)
{
    struct attr identity = {BYTES_LIT("profgate.instance.id"),
                            {.kind = ATTR_STRING, .text = BYTES_LIT("g1")}};
    static const char *const keys[] = {"service.name"};
    struct output_options options = OUTPUT_OPTIONS_DEFAULT;
    options.identity = &identity;
    options.n_identity = 1;
    options.max_resources = 1;
    options.projection = PROJECT_KEEP; /* what is added is not asked about */
    options.keys = keys;
    options.n_keys = 1;
    struct world *w = begin(options);
    struct attr other = {BYTES_LIT("service.name"), {.kind = ATTR_STRING, .text = BYTES_LIT("till")}};
    add(w, 1, "x", 0, 1, 0);
    apply(w, T0 + 1);
    aggregate_add(w->a, aggregate_resource(w->a, &other, 1), aggregate_series(w->a, 1, NULL, 0), 1);
    apply(w, T0 + 2);
    struct metric_batch *b;
    ck_assert_int_eq(output_collect(w->o, T0 + SECOND, &b), 0);
    ck_assert_uint_eq(b->n_resources, 2); /* the overflow resource, too */
    for (uint32_t r = 0; r < 2; r++) {
        ck_assert_uint_eq(b->resources[r].n_attrs, 2);
        ck_assert(bytes_is(b->resources[r].attrs[r == 0].key, "profgate.instance.id"));
        ck_assert(bytes_is(b->resources[r].attrs[r == 0].value.text, "g1"));
    }
    ck_assert(bytes_is(b->resources[0].attrs[0].key, "otel.metric.overflow"));
    metric_batch_free(b);
    end(w);
}

UNIT(what_a_resource_says_of_itself_counts)
{
    struct attr identity = {BYTES_LIT("service.name"), {.kind = ATTR_STRING, .text = BYTES_LIT("gateway")}};
    struct output_options options = OUTPUT_OPTIONS_DEFAULT;
    options.identity = &identity;
    options.n_identity = 1;
    struct world *w = begin(options);
    add(w, 1, "x", 0, 1, 0);
    apply(w, T0 + 1);
    struct metric_batch *b;
    ck_assert_int_eq(output_collect(w->o, T0 + SECOND, &b), 0);
    ck_assert_uint_eq(b->resources[0].n_attrs, 1);
    ck_assert(bytes_is(b->resources[0].attrs[0].value.text, "shop"));
    metric_batch_free(b);
    end(w);
}
