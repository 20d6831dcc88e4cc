/* SPDX-License-Identifier: Apache-2.0 */
/* Who keeps a name where there are more resources than an output may have. */
#include "tests/lib/unit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/aggregate/aggregate.h"
#include "gateway/aggregate/store.h"
#include "proto/base/macros.h"
#include "proto/base/meter.h"
#include "proto/base/rng.h"

#define SECOND ((uint64_t)NSEC_PER_SEC)
#define T0     (1700000000 * SECOND)

static const struct aggregate_metric metrics[] = {
    {.name = BYTES_LIT("samples"), .unit = BYTES_LIT("1"), .kind = METRIC_SUM},
    {.name = BYTES_LIT("heap"), .unit = BYTES_LIT("By"), .kind = METRIC_GAUGE},
};

struct world {
    struct budget budget;
    struct stats stats;
    struct aggregate *a;
    struct store *s;
    struct output *o;
    uint64_t now;
};

static void begin(struct world *w, struct output_options options)
{
    *w = (struct world){.budget = BUDGET_INIT((size_t)256 << 20, NULL), .now = T0};
    w->a = unit_made(aggregate_new(metrics, ARRAY_LEN(metrics), &w->budget));
    w->s = unit_made(store_new(metrics, ARRAY_LEN(metrics), 1, &w->budget, &w->stats));
    ck_assert(w->a && w->s);
    w->o = unit_made(store_add_output(w->s, &options, w->now));
}

static void end(struct world *w)
{
    aggregate_free(w->a);
    store_free(w->s);
    ck_assert_uint_eq(w->budget.used, 0);
}

/* A sample of a service, or of one process of it. */
static void count(struct world *w, uint64_t client, const char *service, int64_t pid)
{
    struct attr attrs[] = {
        {BYTES_LIT("service.name"), {.kind = ATTR_STRING, .text = bytes_str(service)}},
        {BYTES_LIT("process.pid"), {.kind = ATTR_INT, .integer = pid}},
    };
    aggregate_begin(w->a);
    aggregate_from(w->a, client);
    uint32_t resource = aggregate_resource(w->a, attrs, pid ? 2 : 1);
    aggregate_add(w->a, resource, aggregate_series(w->a, 0, NULL, 0), 1);
}

static void flood(struct world *w, uint64_t client, uint32_t from, uint32_t n)
{
    char name[32];
    for (uint32_t i = from; i < from + n; i++) {
        snprintf(name, sizeof name, "invented-%u", i);
        count(w, client, name, 0);
    }
}

static void second(struct world *w)
{
    w->now += SECOND;
    store_apply(w->s, 0, aggregate_take(w->a), w->now);
    store_expire(w->s, w->now);
}

static struct metric_batch *collect(struct world *w)
{
    struct metric_batch *b = NULL;
    ck_assert_int_eq(output_collect(w->o, w->now, &b), 0);
    return unit_made(b);
}

static struct bytes name_of(const struct metric_resource *r)
{
    for (uint32_t k = 0; k < r->n_attrs; k++)
        if (bytes_is(r->attrs[k].key, "service.name"))
            return r->attrs[k].value.text;
    return bytes_of(NULL, 0);
}

static int64_t value_of_resource(const struct metric_batch *b, const struct metric_resource *r)
{
    struct metric_point room;
    int64_t sum = 0;
    for (uint32_t m = 0; m < r->n_metrics; m++)
        for (uint32_t p = 0; p < r->metrics[m].n_points; p++) {
            const struct metric_point *point = metric_point_of(b, &r->metrics[m], p, &room);
            sum += point->stale ? 0 : point->integer;
        }
    return sum;
}

/* What a service has by its name in a batch, and all have together. */
static int64_t value_of(const struct metric_batch *b, const char *service)
{
    int64_t sum = 0;
    for (uint32_t i = 0; i < b->n_resources; i++)
        if (!service || bytes_is(name_of(&b->resources[i]), service))
            sum += value_of_resource(b, &b->resources[i]);
    return sum;
}

static int64_t scrape(struct world *w, const char *service)
{
    struct metric_batch *b = collect(w);
    int64_t value = value_of(b, service);
    metric_batch_free(b);
    return value;
}

static struct output_options pulled(uint32_t max_resources)
{
    struct output_options options = OUTPUT_OPTIONS_DEFAULT;
    options.temporality = METRIC_CUMULATIVE;
    options.exemplars = EXEMPLARS_STAY;
    options.is_pulled = true;
    options.max_resources = max_resources;
    return options;
}

UNIT(invented_names_do_not_blind_a_new_service_of_somebody_else)
{
    struct world w;
    begin(&w, pulled(1000));
    flood(&w, 1, 0, 25000);
    second(&w);
    ck_assert_uint_gt(w.stats.value[STATS_RESOURCE_OVERFLOW], 20000);
    count(&w, 2, "new", 0);
    second(&w);
    ck_assert_int_eq(scrape(&w, "new"), 1);
    ck_assert_int_eq(scrape(&w, NULL), 25001);
    end(&w);
}

UNIT(nor_one_of_the_same_client_for_long)
{
    struct world w;
    begin(&w, pulled(1000));
    flood(&w, 1, 0, 25000);
    second(&w);
    int64_t missed = 0;
    for (int i = 0; i < 10; i++) {
        count(&w, 1, "new", 0);
        second(&w);
        missed += scrape(&w, "new") == 0;
    }
    ck_assert_int_le(missed, 2);
    end(&w);
}

/* Names of one moment are that also where each counts in two metrics. */
UNIT(a_name_is_not_back_in_the_moment_it_comes)
{
    struct world w;
    begin(&w, pulled(1000));
    for (uint32_t i = 0; i < 5000; i++) {
        char name[32];
        snprintf(name, sizeof name, "invented-%u", i);
        struct attr attr = {BYTES_LIT("service.name"), {.kind = ATTR_STRING, .text = bytes_str(name)}};
        aggregate_from(w.a, 1);
        uint32_t resource = aggregate_resource(w.a, &attr, 1);
        for (uint32_t m = 0; m < 2; m++)
            aggregate_add(w.a, resource, aggregate_series(w.a, m, NULL, 0), 1);
    }
    second(&w);
    struct metric_batch *b = collect(&w);
    ck_assert_uint_le(b->n_resources, 752); /* with overflow's */
    metric_batch_free(b);
    end(&w);
}

/* From when names come until they are added up; each client for its own. */
UNIT(what_waits_to_be_added_up_is_charged_to_who_brought_it)
{
    struct world w;
    struct accounts accounts = {.limit = SIZE_MAX};
    begin(&w, pulled(1000));
    aggregate_charge_to(w.a, &accounts);
    flood(&w, 1, 0, 5000);
    aggregate_from(w.a, 0);
    const size_t held = account_of(&accounts, 1)->held;
    ck_assert_uint_gt(held, 5000 * (sizeof(struct bytes) + 24));
    flood(&w, 2, 0, 5000); /* the same names */
    aggregate_from(w.a, 0);
    ck_assert_uint_eq(account_of(&accounts, 2)->held, 0);
    flood(&w, 1, 5000, 40000); /* so many that the dictionary begins anew */
    struct aggregate_delta *taken = aggregate_take(w.a);
    ck_assert_uint_gt(account_of(&accounts, 1)->held, 9 * held / 2);
    store_apply(w.s, 0, taken, w.now);
    ck_assert_uint_eq(account_of(&accounts, 1)->held, 0);
    flood(&w, 1, 0, 10);
    aggregate_from(w.a, 0);
    ck_assert_uint_gt(account_of(&accounts, 1)->held, 0);
    end(&w);
    ck_assert_uint_eq(account_of(&accounts, 1)->held, 0);
}

UNIT(a_flood_that_goes_on_displaces_itself)
{
    struct world w;
    begin(&w, pulled(1000));
    for (uint32_t i = 0; i < 20; i++) { /* here before the flood, and now and then only */
        for (uint32_t k = 0; k < 3; k++) {
            char name[32];
            snprintf(name, sizeof name, "service-%u", k);
            if (i % 5 == k)
                count(&w, 1, name, 0);
        }
        second(&w);
    }
    for (uint32_t i = 0; i < 30; i++) {
        flood(&w, 1, i * 3000, 3000);
        if (i % 10 == 9)
            count(&w, 2, "other", 0);
        second(&w);
    }
    struct metric_batch *b = collect(&w);
    ck_assert_int_eq(value_of(b, "service-0"), 4);
    ck_assert_int_eq(value_of(b, "service-1"), 4);
    ck_assert_int_eq(value_of(b, "service-2"), 4);
    ck_assert_int_ge(value_of(b, "other"), 1); /* what came once and was idle for long may have left before */
    ck_assert_int_eq(value_of(b, NULL), 3 * 4 + 3 + 30 * 3000);
    metric_batch_free(b);
    end(&w);
}

UNIT(one_client_has_three_quarters_and_of_several_each_less)
{
    struct world w;
    begin(&w, pulled(1000));
    flood(&w, 1, 0, 5000);
    second(&w);
    struct metric_batch *b = collect(&w);
    ck_assert_uint_ge(b->n_resources, 750);
    ck_assert_uint_le(b->n_resources, 752); /* with overflow's */
    metric_batch_free(b);
    flood(&w, 2, 5000, 5000);
    second(&w);
    b = collect(&w);
    ck_assert_uint_le(b->n_resources, 1000 - 50);
    metric_batch_free(b);
    end(&w);
}

/* 500 processes a second that live for one, beside twenty services that go on: ten minutes of it (with a
 * sanitizer two and a half, unit_rounds). */
static void churn(struct output_options options, uint32_t collect_every)
{
    enum { SERVICES = 20, SHORT = 500, MISSED_MAX = 12 };
    const uint32_t seconds = 150 * unit_rounds(4);
    struct world w;
    begin(&w, options);
    int64_t of_service[SERVICES] = {0}, whole = 0, told = 0;
    uint32_t named = 0, collects = 0;
    for (uint32_t t = 0; t < seconds; t++) {
        for (uint32_t i = 0; i < SHORT; i++)
            count(&w, 1, "short", 10 + t * SHORT + i);
        for (uint32_t i = 0; i < SERVICES; i++) {
            char name[32];
            snprintf(name, sizeof name, "service-%u", i);
            if (t % 5 == i % 5) { /* as a sender that flushes every five seconds */
                count(&w, 1, name, 1);
                whole++;
            }
        }
        whole += SHORT;
        second(&w);
        if ((t + 1) % collect_every != 0)
            continue;
        struct metric_batch *b = collect(&w);
        collects++;
        int64_t now[SERVICES] = {0};
        for (uint32_t i = 0; i < b->n_resources; i++) {
            int64_t value = value_of_resource(b, &b->resources[i]);
            struct bytes name = name_of(&b->resources[i]);
            told += value;
            uint32_t service = 0;
            for (size_t k = strlen("service-"); k < name.n; k++)
                service = service * 10 + (name.p[k] - '0');
            if (bytes_starts(name, "service-"))
                now[service] += value;
        }
        for (uint32_t i = 0; i < SERVICES; i++) {
            named += now[i] > 0;
            of_service[i] = options.temporality == METRIC_DELTA ? of_service[i] + now[i] : now[i];
        }
        metric_batch_free(b);
    }
    /* Each in every batch; but two that share a place among those seen before may lose one. */
    ck_assert_uint_ge(named, SERVICES * collects * 99 / 100);
    /* What it counts before it is known as one that comes back may be in overflow: that is the same however
     * long it goes on. */
    for (uint32_t i = 0; i < SERVICES; i++)
        ck_assert_msg(of_service[i] + MISSED_MAX >= seconds / 5, "service %u of %u resources: %" PRId64, i,
                      options.max_resources, of_service[i]);
    if (options.temporality == METRIC_DELTA)
        ck_assert_int_eq(told, whole);
    ck_assert_uint_lt(w.budget.used, (size_t)64 << 20);
    end(&w);
}

UNIT(services_keep_their_series_beside_processes_of_a_second)
{
    struct output_options delta = OUTPUT_OPTIONS_DEFAULT, cumulative = OUTPUT_OPTIONS_DEFAULT;
    churn(delta, 30);
    delta.max_resources = 2000;
    churn(delta, 30);
    cumulative.temporality = METRIC_CUMULATIVE;
    cumulative.max_resources = 2000;
    churn(cumulative, 30);
    churn(pulled(2000), 15);
}

/* Names that come once are not kept for as long as a dictionary has room for them, here and in the merger. */
UNIT(names_of_the_past_are_forgotten)
{
    struct world w;
    size_t least = SIZE_MAX, most = 0;
    struct output_options options = pulled(500);
    options.metric_expiration = 5 * SECOND;
    begin(&w, options);
    for (uint32_t t = 0; t < 300; t++) {
        flood(&w, 1, t * 200, 200);
        count(&w, 1, "stays", 0);
        second(&w);
        if (t >= 60) {
            least = w.budget.used < least ? w.budget.used : least;
            most = w.budget.used > most ? w.budget.used : most;
        }
    }
    ck_assert_msg(most < (size_t)4 << 20, "from %zu to %zu bytes", least, most);
    ck_assert_int_ge(scrape(&w, "stays"), 200);
    end(&w);
}

static uint64_t unread(const struct world *w)
{
    return w->stats.value[STATS_SERIES_UNREAD];
}

UNIT(series_expire_though_nobody_asks)
{
    struct world w;
    struct output_options options = pulled(1000);
    options.metric_expiration = 60 * SECOND;
    begin(&w, options);
    count(&w, 1, "gone", 0);
    for (int i = 0; i < 50; i++)
        second(&w);
    ck_assert_uint_eq(store_series(w.s), 1);
    for (int i = 0; i < 15; i++)
        second(&w);
    ck_assert_uint_eq(store_series(w.s), 0);
    ck_assert_uint_eq(unread(&w), 1); /* and that is said */
    ck_assert_int_eq(scrape(&w, "gone"), 0);
    count(&w, 1, "gone", 0);
    second(&w);
    ck_assert_int_eq(scrape(&w, "gone"), 1);
    for (int i = 0; i < 65; i++)
        second(&w);
    ck_assert_uint_eq(store_series(w.s), 0);
    ck_assert_uint_eq(unread(&w), 1); /* the second time it was read */
    end(&w);
}

/* ---- who asks, and reads what he is told or not ---- */

enum { READERS = 3, NAMES = 64 };

/* What a reader knows of a series: a counter that begins anew is another one. */
struct known {
    uint64_t start;
    int64_t value, before; /* of it now, and of those before */
};

struct reader {
    struct known of[NAMES + 1]; /* the last: overflow */
};

struct asked {
    struct metric_batch *batch;
    struct output_receipt *receipt;
    struct reader *by;
    uint32_t at;
};

static uint32_t number_of(const struct metric_resource *r)
{
    for (uint32_t k = 0; k < r->n_attrs; k++)
        if (bytes_is(r->attrs[k].key, "service.name"))
            return (uint32_t)strtoul((const char *)r->attrs[k].value.text.p + 1, NULL, 10);
    return NAMES;
}

static void learn(struct reader *reader, const struct metric_batch *b)
{
    for (uint32_t i = 0; i < b->n_resources; i++)
        for (uint32_t m = 0; m < b->resources[i].n_metrics; m++)
            for (uint32_t p = 0; p < b->resources[i].metrics[m].n_points; p++) {
                struct metric_point room;
                const struct metric_point *point = metric_point_of(b, &b->resources[i].metrics[m], p, &room);
                struct known *k = &reader->of[number_of(&b->resources[i])];
                if (point->stale)
                    continue;
                if (k->start != point->start_unix_nano)
                    k->before += k->value;
                k->start = point->start_unix_nano;
                k->value = point->integer;
            }
}

static int64_t knows(const struct reader *reader)
{
    int64_t sum = 0;
    for (uint32_t i = 0; i <= NAMES; i++)
        sum += reader->of[i].before + reader->of[i].value;
    return sum;
}

static struct asked ask(struct world *w, struct reader *by)
{
    struct asked a = {.by = by};
    ck_assert_int_eq(output_show(w->o, w->now, &a.batch, &a.receipt), 0);
    return a;
}

static void answer(struct world *w, struct asked *a, bool is_read)
{
    if (is_read) {
        learn(a->by, a->batch);
        output_told(w->o, a->receipt);
    }
    metric_batch_free(a->batch);
    output_receipt_free(a->receipt);
    *a = (struct asked){0};
}

/* What is held for a page of much that there is, in bytes a series; the labels are few. */
UNIT(a_page_is_small_beside_what_it_shows)
{
    enum { SERVICES = 200, SETS = 100, BYTES = 40 };
    struct world w;
    struct reader reader = {0};
    begin(&w, pulled(1000));
    for (uint32_t i = 0; i < SERVICES; i++) {
        char service[32], text[32];
        snprintf(service, sizeof service, "app-%u", i);
        aggregate_begin(w.a);
        const struct attr who = {BYTES_LIT("service.name"),
                                 {.kind = ATTR_STRING, .text = bytes_str(service)}};
        const uint32_t resource = aggregate_resource(w.a, &who, 1);
        for (uint32_t k = 0; k < SETS; k++) {
            snprintf(text, sizeof text, "what-%u", k);
            const struct aggregate_label label = {BYTES_LIT("what"), bytes_str(text)};
            aggregate_add(w.a, resource, aggregate_series(w.a, 0, &label, 1), 1000000 + k);
        }
        second(&w);
    }
    const size_t before = w.budget.used;
    struct asked page = ask(&w, &reader);
    ck_assert_uint_eq(metric_batch_points(page.batch), SERVICES * SETS);
    ck_assert_uint_lt((w.budget.used - before) / (SERVICES * SETS), BYTES);
    answer(&w, &page, true);
    page = ask(&w, &reader);
    answer(&w, &page, true);
    end(&w);
}

UNIT(a_page_that_was_not_read_told_nothing)
{
    struct world w;
    struct reader reader = {0};
    begin(&w, pulled(5));
    for (int i = 0; i < 5; i++) {
        char name[8];
        snprintf(name, sizeof name, "s%d", i);
        for (int k = 0; k < 30; k++)
            count(&w, (uint64_t)i + 1, name, 0);
    }
    second(&w);
    struct asked cut = ask(&w, &reader);
    answer(&w, &cut, false);
    for (int i = 0; i < 70; i++) { /* others want the room */
        count(&w, 9, i % 2 ? "s10" : "s11", 0);
        second(&w);
    }
    struct asked whole = ask(&w, &reader);
    ck_assert_int_eq(value_of(whole.batch, NULL), 5 * 30 + 70);
    answer(&w, &whole, true);
    end(&w);
}

static uint32_t below(struct rng *rng, uint32_t n)
{
    return (uint32_t)(rng_next(rng) >> 33) % n;
}

/* Of some who ask within a minute, now and then in vain, at the same time and beside others who ask once:
 * each has the sum of all that was counted, whatever had to leave in between. */
static void ask_at_random(uint64_t seed)
{
    struct rng rng;
    struct world w;
    struct reader readers[READERS] = {0}, passer_by;
    struct asked open[READERS] = {0};
    uint32_t last[READERS] = {0};
    int64_t sent = 0;
    rng_seed(&rng, seed);
    const uint32_t max = 2 + below(&rng, 20);
    struct output_options options = pulled(max);
    options.metric_expiration = 0;
    begin(&w, options);
    for (uint32_t t = 0; t < 600; t++) {
        for (uint32_t n = below(&rng, 6); n > 0; n--) {
            char name[8];
            snprintf(name, sizeof name, "s%02u", (unsigned)(below(&rng, NAMES) * below(&rng, NAMES) / NAMES));
            count(&w, below(&rng, 4), name, 0);
            sent++;
        }
        second(&w);
        if (below(&rng, 10) == 0) {
            struct asked once = ask(&w, &passer_by);
            memset(&passer_by, 0, sizeof passer_by);
            answer(&w, &once, below(&rng, 2));
        }
        for (uint32_t i = 0; i < READERS; i++) {
            const bool is_due = t - last[i] >= 40;
            if (open[i].batch && (t - open[i].at >= 10 || below(&rng, 3) == 0)) {
                const bool is_read = is_due || below(&rng, 3) > 0;
                if (is_read)
                    last[i] = open[i].at;
                answer(&w, &open[i], is_read);
            } else if (!open[i].batch && (is_due || below(&rng, 8) == 0)) {
                open[i] = ask(&w, &readers[i]);
                open[i].at = t;
            }
        }
        if (below(&rng, 40) == 0) { /* a reload changes nothing */
            uint32_t generation;
            ck_assert_int_eq(store_replace_metrics(w.s, metrics, ARRAY_LEN(metrics), &generation), 0);
        }
    }
    for (uint32_t i = 0; i < READERS; i++) {
        if (open[i].batch)
            answer(&w, &open[i], false);
        struct asked a = ask(&w, &readers[i]);
        answer(&w, &a, true);
        ck_assert_msg(knows(&readers[i]) == sent, "seed %" PRIu64 ": reader %u knows %" PRId64 " of %" PRId64,
                      seed, i, knows(&readers[i]), sent);
    }
    end(&w);
}

UNIT(whoever_asks_each_minute_has_exact_sums)
{
    for (uint64_t i = 0; i < unit_rounds(400); i++)
        ask_at_random(i);
}
