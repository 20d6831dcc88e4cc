/* SPDX-License-Identifier: Apache-2.0 */
/* A request's whole way while memory fails: refused and nothing of it counted, or accepted and counted once;
 * what was counted comes out, however often telling it fails. */
#include <errno.h>

#include "gateway/aggregate/store.h"
#include "gateway/export/prometheus/prometheus.h"
#include "gateway/export/remote_write/remote_write.h"
#include "gateway/run/pipeline.h"
#include "proto/base/macros.h"
#include "tests/lib/sweep.h"
#include "tests/unit/rules/rules_helper.h"

#define PUSHES 3
#define SECOND (uint64_t) NSEC_PER_SEC
#define T0     (1700000000u * SECOND)

static const char rules[] =
    "rules 1\npack t\n"
    "counter samples { describe \"d\" unit \"1\" on any value one label f = function of leaf }\n"
    "counter native { describe \"d\" unit \"1\" on any value one where leaf is native\n"
    "  label service = resource[\"service.name\"] label thread = attr[\"thread.name\"] }\n"
    "counter frames { describe \"d\" unit \"1\" on any value one\n"
    "  each distinct frame is (type != none) label t = type of frame }\n";

struct shared { /* made once, with memory */
    struct rule_set *set;
    struct rules_program *program;
    struct aggregate_metric *metrics;
    uint32_t n_metrics;
    struct stats *stats;
    struct bytes body;
};

static const struct shared *shared(void)
{
    static struct shared s;
    struct error e = {""};
    if (s.set)
        return &s;
    sweep_pause();
    s.set = compile_text(bytes_str(rules));
    s.program = unit_made(rules_program_new(s.set, &e));
    s.metrics = unit_made(pipeline_metrics(s.program, &s.n_metrics));
    s.stats = unit_made(stats_new());
    s.body.p = unit_data("connector/synth-multi.pb", &s.body.n);
    sweep_resume();
    return &s;
}

static int64_t sum_of(const struct metric_batch *b)
{
    int64_t sum = 0;
    for (uint32_t r = 0; r < b->n_resources; r++)
        for (uint32_t m = 0; m < b->resources[r].n_metrics; m++)
            for (uint32_t p = 0; p < b->resources[r].metrics[m].n_points; p++)
                sum += b->resources[r].metrics[m].points[p].integer;
    return sum;
}

struct world {
    struct budget budget;
    struct pipeline pipeline;
    struct store *store;
    struct output *output;
};

static bool begin(struct world *w)
{
    const struct shared *s = shared();
    struct pipeline_options o = {.program = s->program,
                                 .metrics = s->metrics,
                                 .n_metrics = s->n_metrics,
                                 .ingest = {.limits = profiles_limits_default, .retry_after_ns = 1},
                                 .budget = &w->budget,
                                 .stats = s->stats};
    struct output_options out = OUTPUT_OPTIONS_DEFAULT;
    out.temporality = METRIC_CUMULATIVE;
    *w = (struct world){.budget = BUDGET_INIT((size_t)1 << 30, NULL)};
    bool made = pipeline_init(&w->pipeline, &o) == 0;
    w->store = store_new(s->metrics, s->n_metrics, 1, &w->budget, NULL);
    if (w->store)
        w->output = store_add_output(w->store, &out, T0);
    return made && w->output;
}

static void end(struct world *w)
{
    pipeline_release(&w->pipeline);
    store_free(w->store);
    ck_assert_uint_eq(w->budget.used, 0);
}

static void hand_over(struct world *w, uint64_t now)
{
    store_apply(w->store, 0, aggregate_take(w->pipeline.aggregate), now);
}

/* Pushes some; returns how many were accepted. */
static int push_all(struct world *w)
{
    const struct shared *s = shared();
    int accepted = 0;
    for (int i = 0; i < PUSHES; i++) {
        struct ingest_answer answer;
        uint32_t before = sweep_failures();
        ingest_push(w->pipeline.ingest, s->body, PROFILES_LAYOUT_UNKNOWN, NULL, &answer);
        ck_assert_msg(answer.verdict == INGEST_ACCEPTED || answer.verdict == INGEST_BUSY, "%s",
                      answer.message.text);
        ck_assert_msg(answer.verdict == INGEST_ACCEPTED || sweep_failures() > before,
                      "push %d was refused without a reason: %s", i, answer.message.text);
        ck_assert_uint_eq(answer.rejected_profiles, 0);
        accepted += answer.verdict == INGEST_ACCEPTED;
        hand_over(w, T0 + (uint64_t)i * SECOND);
    }
    return accepted;
}

static void writes(const struct metric_batch *b)
{
    cleanup(buffer_release) struct buffer out = BUFFER_INIT(0);
    uint32_t before = sweep_failures();
    for (int format = PROMETHEUS_TEXT; format <= PROMETHEUS_OPENMETRICS; format++) {
        struct prometheus_options o = {.format = (enum prometheus_format)format};
        size_t n = out.n;
        int r = buffer_add_str(&out, "# before\n");
        if (r == 0) {
            struct prometheus_page *page = NULL;
            n = out.n;
            r = prometheus_page_new(&page, b, &o);
            while (r == 0)
                r = prometheus_page_next(page, 1000, &out);
            r = min_of(r, 0);
            if (r < 0)
                out.n = n;
            prometheus_page_free(page);
        }
        ck_assert(r == 0 || (r == -ENOMEM && sweep_failures() > before && out.n == n));
    }
    for (int json = 0; json < 2; json++) {
        out.n = 0;
        int r = 0;
        if (json) {
            r = metrics_encode_json(b, &out);
        } else {
            uint32_t from = 0, place = 0;
            while (r == 0 && from < b->n_resources)
                r = metrics_encode_proto(b, 500, &from, &place, &out);
        }
        ck_assert(r == 0 || (r == -ENOMEM && sweep_failures() > before));
    }
    for (int version = REMOTE_WRITE_1; version <= REMOTE_WRITE_2; version++) {
        struct remote_write *w = NULL;
        struct prometheus_options o = {0};
        uint32_t n = 0;
        cleanup(buffer_release) struct buffer body = BUFFER_INIT(0);
        int r = remote_write_new(&w, (struct metric_batch *)b, (enum remote_write_version)version, &o);
        if (r == 0)
            r = remote_write_next(w, 100000, &body, &n);
        ck_assert(r >= 0 || (r == -ENOMEM && sweep_failures() > before));
        remote_write_free(w);
    }
}

OOM_SWEEP_HOW(accepted_is_counted_once_and_refused_is_not, SWEEP_ONCE | SWEEP_FOR_GOOD)
{
    struct world w;
    if (!begin(&w)) {
        ck_assert_uint_gt(sweep_failures(), 0);
        end(&w);
        return;
    }
    int accepted = push_all(&w);
    struct metric_batch *b = NULL;
    int r = output_collect(w.output, T0 + 10 * SECOND, &b);
    ck_assert(r == 0 || (r == -ENOMEM && sweep_failures() > 0));
    if (r == 0)
        writes(b);
    if (r == 0)
        metric_batch_free(b);
    sweep_over();
    while (!aggregate_is_empty(w.pipeline.aggregate)) /* what found no memory before */
        hand_over(&w, T0 + 11 * SECOND);
    ck_assert_int_eq(output_collect(w.output, T0 + 12 * SECOND, &b), 0);
    static int64_t once; /* the first run but one that loses nothing: it is the same in all */
    if (accepted == PUSHES && sweep_failures() == 0)
        once = sum_of(b) / PUSHES;
    if (once == 0) {
        struct world calm;
        metric_batch_free(b);
        ck_assert(begin(&calm) && push_all(&calm) == PUSHES);
        ck_assert_int_eq(output_collect(calm.output, T0 + 12 * SECOND, &b), 0);
        once = sum_of(b) / PUSHES;
        ck_assert_int_gt(once, 0);
        metric_batch_free(b);
        end(&calm);
        ck_assert_int_eq(output_collect(w.output, T0 + 13 * SECOND, &b), 0);
    }
    ck_assert_int_eq(sum_of(b), once * accepted);
    metric_batch_free(b);
    end(&w);
}
