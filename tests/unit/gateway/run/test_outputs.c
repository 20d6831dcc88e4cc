/* SPDX-License-Identifier: Apache-2.0 */
/* Where counters leave: /metrics in its formats, who says it, and new rules while running. */
#include "gateway/run/outputs.h"

#include "gateway/run/metrics_page.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "gateway/stats/stats.h"
#include "proto/base/macros.h"
#include "proto/io/loop.h"
#include "tests/lib/unit.h"

static const struct aggregate_metric metrics[] = {
    {.name = BYTES_LIT("cpu.time"),
     .description = BYTES_LIT("CPU"),
     .unit = BYTES_LIT("s"),
     .is_seconds = true},
    {.name = BYTES_LIT("samples"), .unit = BYTES_LIT("1")},
};

struct world {
    struct config *config;
    struct io_loop *loop;
    struct budget budget;
    struct outputs *outputs;
    struct aggregate *a;
};

/* With these keys of the configuration: key, value, …, NULL. */
static struct world *begin(const char *const *set)
{
    static struct world w;
    struct error e = {""};
    w = (struct world){.config = unit_made(config_new(NULL)),
                       .loop = unit_made(io_loop_new()),
                       .budget = BUDGET_INIT((size_t)64 << 20, NULL)};
    ck_assert(w.config && w.loop);
    for (; set && *set; set += 2)
        ck_assert_msg(config_set(w.config, set[0], set[1], &e) == 0, "%s", e.text);
    struct outputs_options options = {w.config, metrics, 2, 1, &w.budget, NULL};
    w.outputs = unit_made(outputs_new(&options, w.loop, &e));
    w.a = unit_made(aggregate_new(metrics, 2, &w.budget));
    return &w;
}

static void nothing(void *user) {}

static void end(struct world *w)
{
    aggregate_free(w->a);
    outputs_shutdown(w->outputs, 0, nothing, NULL);
    outputs_free(w->outputs);
    io_loop_free(w->loop);
    config_free(w->config);
    ck_assert_uint_eq(w->budget.used, 0);
}

static void count(struct world *w, uint32_t metric, int64_t value)
{
    struct attr attr = {BYTES_LIT("service.name"), {.kind = ATTR_STRING, .text = BYTES_LIT("shop")}};
    struct aggregate_exemplar e = {.value = value, .time_unix_nano = 1500000000};
    memset(e.trace_id, 0xa1, sizeof e.trace_id);
    uint32_t resource = aggregate_resource(w->a, &attr, 1), series = aggregate_series(w->a, metric, NULL, 0);
    aggregate_add(w->a, resource, series, value);
    aggregate_offer(w->a, resource, series, &e);
    outputs_apply(w->outputs, 0, aggregate_take(w->a));
}

/* The whole page. */
static int write_metrics(struct world *w, const struct admin_metrics *wanted, struct buffer *out)
{
    struct metrics_page *p = NULL;
    int r = metrics_page_new(&p, w->outputs, NULL, wanted);
    if (r == 0)
        r = metrics_page_take(p);
    while (r == 0)
        r = metrics_page_next(p, out);
    metrics_page_free(p);
    return r < 0 ? r : 0;
}

static void expect(struct world *w, struct admin_metrics wanted, const char *text)
{
    cleanup(buffer_release) struct buffer out = BUFFER_INIT(0);
    ck_assert_int_eq(write_metrics(w, &wanted, &out), 0);
    ck_assert_int_eq(buffer_add(&out, "", 1), 0);
    ck_assert_str_eq((char *)out.p, text);
}

UNIT(metrics_in_each_format_as_often_as_one_looks)
{
    struct world *w = begin(NULL);
    count(w, 0, 2500000000);
    for (int scraper = 0; scraper < 2; scraper++) {
        expect(
            w, (struct admin_metrics){.what = ADMIN_METRICS_PROFILES},
            "# HELP cpu_time_seconds_total CPU\n# TYPE cpu_time_seconds_total counter\n"
            "cpu_time_seconds_total{job=\"shop\",instance=\"\"} 2.5\n"
            "# HELP target_info Target metadata\n# TYPE target_info gauge\ntarget_info{job=\"shop\",instance=\"\"} 1\n");
        expect(
            w, (struct admin_metrics){.what = ADMIN_METRICS_PROFILES, .format = ADMIN_OPENMETRICS_1_0_0},
            "# HELP cpu_time_seconds CPU\n# TYPE cpu_time_seconds counter\n# UNIT cpu_time_seconds seconds\n"
            "cpu_time_seconds_total{job=\"shop\",instance=\"\"} 2.5 # {trace_id=\"a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1\"} 2.5 "
            "1.500\n"
            "# HELP target Target metadata\n# TYPE target info\ntarget_info{job=\"shop\",instance=\"\"} 1\n# EOF\n");
    }
    struct buffer out = BUFFER_INIT(0);
    struct admin_metrics self = {.what = ADMIN_METRICS_SELF, .format = ADMIN_OPENMETRICS_1_0_0};
    ck_assert_int_eq(write_metrics(w, &self, &out), 0);
    ck_assert_ptr_nonnull(memmem(out.p, out.n, "# TYPE profgate_samples counter\n", 32));
    ck_assert_ptr_null(memmem(out.p, out.n, "_total counter\n", 15));
    ck_assert(out.n > 6 && !memcmp(out.p + out.n - 6, "# EOF\n", 6));
    buffer_release(&out);
    end(w);
}

UNIT(names_and_identity_as_configured)
{
    const char *const set[] = {"metrics.instance_id", "one", "metrics.translation_strategy", "NoTranslation",
                               NULL};
    struct world *w = begin(set);
    count(w, 0, 1000000000);
    expect(w,
           (struct admin_metrics){
               .what = ADMIN_METRICS_PROFILES, .format = ADMIN_TEXT_1_0_0, .escaping = PROMETHEUS_ALLOW_UTF8},
           "# HELP \"cpu.time\" CPU\n# TYPE \"cpu.time\" counter\n"
           "{\"cpu.time\",job=\"shop\",\"profgate.instance.id\"=\"one\",instance=\"\"} 1\n"
           "# HELP target_info Target metadata\n# TYPE target_info gauge\n"
           "target_info{job=\"shop\",\"profgate.instance.id\"=\"one\",instance=\"\"} 1\n");
    expect(w, (struct admin_metrics){.what = ADMIN_METRICS_PROFILES},
           "# HELP cpu_time CPU\n# TYPE cpu_time counter\n"
           "cpu_time{job=\"shop\",profgate_instance_id=\"one\",instance=\"\"} 1\n"
           "# HELP target_info Target metadata\n# TYPE target_info gauge\n"
           "target_info{job=\"shop\",profgate_instance_id=\"one\",instance=\"\"} 1\n");
    end(w);
}

UNIT(auto_is_the_name_of_the_host)
{
    const char *const set[] = {"metrics.instance_id", "auto", NULL};
    struct world *w = begin(set);
    char host[256] = "", wanted[400];
    struct buffer out = BUFFER_INIT(0);
    count(w, 1, 1);
    ck_assert_int_eq(gethostname(host, sizeof host - 1), 0);
    snprintf(wanted, sizeof wanted,
             "samples_total{job=\"shop\",profgate_instance_id=\"%s\",instance=\"\"} 1\n", host);
    ck_assert_int_eq(write_metrics(w, &(struct admin_metrics){.what = ADMIN_METRICS_PROFILES}, &out), 0);
    ck_assert_uint_gt(out.n, 0);
    ck_assert_ptr_nonnull(memmem(out.p, out.n, wanted, strlen(wanted)));
    buffer_release(&out);
    end(w);
}

UNIT(totals_go_on_when_rules_are_new)
{
    struct world *w = begin(NULL);
    struct aggregate_metric only = metrics[1];
    uint32_t generation;
    count(w, 1, 3);
    ck_assert_int_eq(outputs_replace_metrics(w->outputs, &only, 1, &generation), 0);
    aggregate_free(w->a);
    w->a = unit_made(aggregate_new(&only, 1, &w->budget));
    aggregate_set_generation(w->a, generation);
    count(w, 0, 4);
    expect(
        w, (struct admin_metrics){.what = ADMIN_METRICS_PROFILES},
        "# TYPE samples_total counter\nsamples_total{job=\"shop\",instance=\"\"} 7\n"
        "# HELP target_info Target metadata\n# TYPE target_info gauge\ntarget_info{job=\"shop\",instance=\"\"} 1\n");
    end(w);
}
