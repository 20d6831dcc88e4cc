/* SPDX-License-Identifier: Apache-2.0 */
/* needs: rules */
/* Triggers at work: from what workers hand over to what is shown and captured. */
#include "tests/lib/unit.h"

#include <string.h>

#include "gateway/aggregate/store.h"
#include "gateway/control/triggers.h"
#include "proto/base/clock.h"
#include "proto/base/macros.h"
#include "tests/unit/rules/rules_helper.h"

#define SECOND (uint64_t) NSEC_PER_SEC
#define T0     (1700000000u * SECOND)

#define METRICS                                                                \
    "counter shop.time { on cpu  label area = \"gc\" when linked ?? \"x\" }\n" \
    "counter shop.work { on cpu  value samples }\n"
#define SHARE                                                                                          \
    "trigger gc_storm { describe \"too much\" when share of shop.time { area = \"gc\" } in shop.time " \
    "per resource[\"service.name\"] over 5s above 40% for 2s until below 20% do keep all lasting 20s " \
    "cooldown 10s }\n"
#define RATE                                                                                        \
    "trigger busy { when rate of shop.work over 3s above 50 do keep all lasting 1m cooldown 1m }\n" \
    "trigger idle { when rate of shop.time over 3s below 0.5 do record off_cpu lasting 1m cooldown 1m }\n"

struct world {
    struct compiled rules;
    struct budget budget;
    struct aggregate_metric metrics[2];
    struct aggregate *a;
    struct store *s;
    struct captures *captures;
    struct capture_reader *reader;
    struct control_triggers *triggers;
    uint64_t now;
};

static struct control_triggers *start(struct world *w, const struct control_triggers *before)
{
    struct error e = {""};
    struct control_triggers_options options = {w->rules.set, w->s, w->captures, &w->budget, before};
    return unit_made(control_triggers_new(&options, &e));
}

static void world_init(struct world *w, const char *triggers)
{
    char *text = NULL;
    *w = (struct world){.budget = BUDGET_INIT((size_t)1 << 30, NULL), .now = 1000 * SECOND};
    ck_assert_int_ge(asprintf(&text, METRICS "%s", triggers), 0);
    w->rules = compile_good(text);
    free(text);
    w->metrics[0] = (struct aggregate_metric){
        .name = BYTES_LIT("shop.time"), .unit = BYTES_LIT("s"), .is_seconds = true, .limit = 1};
    w->metrics[1] = (struct aggregate_metric){.name = BYTES_LIT("shop.work"), .unit = BYTES_LIT("1")};
    control_triggers_mark(w->rules.set, w->metrics, 2);
    w->a = unit_made(aggregate_new(w->metrics, 2, &w->budget));
    w->s = unit_made(store_new(w->metrics, 2, 1, &w->budget, NULL));
    w->captures = unit_made(captures_new());
    w->reader = unit_made(capture_reader_new(w->captures));
    w->triggers = start(w, NULL);
}

static void world_end(struct world *w)
{
    control_triggers_free(w->triggers);
    ck_assert(!capture_reader_begin(w->reader)); /* what fired is withdrawn */
    capture_reader_free(w->reader);
    captures_free(w->captures);
    aggregate_free(w->a);
    store_free(w->s);
    compiled_free(&w->rules);
    ck_assert_uint_eq(w->budget.used, 0);
}

static void add(struct world *w, const char *service, uint32_t metric, const char *area, int64_t value,
                uint64_t samples)
{
    struct attr attrs[] = {{BYTES_LIT("service.name"), {.kind = ATTR_STRING, .text = bytes_str(service)}},
                           {BYTES_LIT("process.pid"), {.kind = ATTR_INT, .integer = (int64_t)(samples % 3)}}};
    struct aggregate_label l = {BYTES_LIT("area"), bytes_str(area ? area : "")};
    uint32_t resource = aggregate_resource(w->a, attrs, 2);
    uint32_t series = aggregate_series(w->a, metric, &l, area ? 1 : 0);
    aggregate_add(w->a, resource, series, value);
    if (aggregate_is_counted(w->a, metric))
        aggregate_count(w->a, resource, series, samples);
}

static void tick(struct world *w)
{
    w->now += SECOND;
    store_apply(w->s, 0, aggregate_take(w->a), T0 + w->now);
    control_triggers_second(w->triggers, w->now, T0 + w->now);
}

/* A second in which the service spends so many hundredths of a second of a whole second in gc. */
static void seconds(struct world *w, int n, const char *service, int64_t gc, uint64_t samples)
{
    for (int i = 0; i < n; i++) {
        add(w, service, 0, "gc", gc * 10000000, samples);
        add(w, service, 0, "x", (100 - gc) * 10000000, samples);
        add(w, "quiet", 0, "x", 100000000, samples);
        tick(w);
    }
}

static bool shows(const struct world *w, const char *line)
{
    cleanup(buffer_release) struct buffer out = BUFFER_INIT(0);
    ck_assert_int_eq(control_triggers_prometheus(w->triggers, &out), 0);
    ck_assert_int_eq(buffer_add(&out, "", 1), 0);
    return strstr((char *)out.p, line) != NULL;
}

static bool says(const struct world *w, const char *part)
{
    cleanup(buffer_release) struct buffer out = BUFFER_INIT(0);
    ck_assert_int_eq(control_triggers_json(w->triggers, w->now, &out), 0);
    ck_assert_int_eq(buffer_add(&out, "", 1), 0);
    return strstr((char *)out.p, part) != NULL;
}

static bool is_captured(const struct world *w, const char *service)
{
    struct attr attr = {BYTES_LIT("service.name"), {.kind = ATTR_STRING, .text = bytes_str(service)}};
    return capture_reader_begin(w->reader) && capture_wants(w->reader, &attr, 1);
}

#define ACTIVE "profgate_trigger_active{trigger=\"gc_storm\",group=\"service.name=shop\"} 1\n"

UNIT(a_share_fires_is_shown_and_captured_and_ends)
{
    cleanup(world_end) struct world w;
    world_init(&w, SHARE);
    w.now = clock_monotonic(); /* captures end by the clock */
    seconds(&w, 10, "shop", 10, 50);
    ck_assert(shows(&w, "profgate_trigger_fired_total{trigger=\"gc_storm\"} 0\n"));
    ck_assert(shows(&w, "profgate_trigger_groups{trigger=\"gc_storm\"} 2\n"));
    ck_assert(says(&w, "\"firing\":[]") && says(&w, "\"describe\":\"too much\""));
    seconds(&w, 9, "shop", 80, 50);
    ck_assert(shows(&w, ACTIVE) && shows(&w, "profgate_trigger_fired_total{trigger=\"gc_storm\"} 1\n"));
    ck_assert(shows(&w, "profgate_trigger_firing{trigger=\"gc_storm\"} 1\n"));
    ck_assert(says(&w, "{\"group\":{\"service.name\":\"shop\"},\"value\":"));
    ck_assert(says(&w, "\"capturing\":true"));
    ck_assert(is_captured(&w, "shop") && !is_captured(&w, "quiet"));
    seconds(&w, 8, "shop", 0, 50);
    ck_assert(!shows(&w, ACTIVE) && !is_captured(&w, "shop"));
    ck_assert(shows(&w, "profgate_trigger_fired_total{trigger=\"gc_storm\"} 1\n"));
}

UNIT(few_samples_are_no_evidence)
{
    cleanup(world_end) struct world w;
    world_init(&w, SHARE);
    seconds(&w, 30, "shop", 90, 5); /* 2 × 5 × 5 seconds: 50 */
    ck_assert(shows(&w, "profgate_trigger_fired_total{trigger=\"gc_storm\"} 0\n"));
    seconds(&w, 10, "shop", 90, 30);
    ck_assert(shows(&w, ACTIVE));
}

UNIT(rates_of_everything_and_of_what_stands_still)
{
    cleanup(world_end) struct world w;
    world_init(&w, RATE);
    for (int i = 0; i < 6; i++) {
        add(&w, i % 2 ? "a" : "b", 1, NULL, 100, 100);
        add(&w, "a", 0, "x", NSEC_PER_SEC, 1);
        tick(&w);
    }
    ck_assert(shows(&w, "profgate_trigger_active{trigger=\"busy\",group=\"\"} 1\n"));
    ck_assert(is_captured(&w, "a") == (w.now + 60 * SECOND > clock_monotonic()));
    ck_assert(!shows(&w, "trigger=\"idle\",group"));
    for (int i = 0; i < 6; i++)
        tick(&w); /* nothing comes: a rate of 0, for a while */
    ck_assert(shows(&w, "profgate_trigger_active{trigger=\"idle\",group=\"\"} 1\n"));
    ck_assert(says(&w, "\"capturing\":false"));
}

UNIT(new_rules_begin_anew_but_for_how_often_it_fired)
{
    cleanup(world_end) struct world w;
    world_init(&w, SHARE);
    w.now = clock_monotonic();
    seconds(&w, 10, "shop", 90, 50);
    ck_assert(shows(&w, ACTIVE));
    struct control_triggers *next = start(&w, w.triggers);
    control_triggers_free(w.triggers);
    w.triggers = next;
    ck_assert(!shows(&w, ACTIVE) && !is_captured(&w, "shop"));
    ck_assert(shows(&w, "profgate_trigger_fired_total{trigger=\"gc_storm\"} 1\n"));
    seconds(&w, 10, "shop", 90, 50);
    ck_assert(shows(&w, "profgate_trigger_fired_total{trigger=\"gc_storm\"} 2\n"));
}

UNIT(names_that_peers_choose_do_not_break_a_line)
{
    cleanup(world_end) struct world w;
    char service[1000], expected[1100];
    memset(service, 'a', sizeof service - 1);
    memcpy(service, "x=\"\\,\n", 6);
    service[999] = '\0';
    world_init(&w, SHARE);
    seconds(&w, 10, service, 90, 50);
    service[200 - 13 - 3] = '\0'; /* service.name=, and three signs that are escaped */
    snprintf(expected, sizeof expected, "group=\"service.name=x\\\\=\\\"\\\\\\\\\\\\,\\n%s#", service + 6);
    ck_assert(shows(&w, expected));
    ck_assert(says(&w, "\"service.name\":\"x=\\\"\\\\,\\u000a"));
}

UNIT(without_triggers_there_is_nothing)
{
    cleanup(world_end) struct world w;
    world_init(&w, "");
    ck_assert(!w.metrics[0].is_counted && !w.metrics[1].is_counted);
    seconds(&w, 3, "shop", 90, 50);
    cleanup(buffer_release) struct buffer out = BUFFER_INIT(0);
    ck_assert_int_eq(control_triggers_prometheus(w.triggers, &out), 0);
    ck_assert_uint_eq(out.n, 0);
    ck_assert(says(&w, "{\"triggers\":[]}\n"));
}
