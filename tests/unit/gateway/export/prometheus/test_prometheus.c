/* SPDX-License-Identifier: Apache-2.0 */
/* Prometheus text: names, labels, and whole pages. */
#include "tests/lib/unit.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "gateway/export/prometheus/prometheus.h"
#include "gateway/export/prometheus/table.h"
#include "proto/base/macros.h"
#include "proto/base/rng.h"

static struct attr text(const char *key, const char *value)
{
    return (struct attr){bytes_str(key), {.kind = ATTR_STRING, .text = bytes_str(value)}};
}

static struct metric_point count(int64_t n, const struct attr *attrs, uint32_t n_attrs)
{
    return (struct metric_point){.attrs = attrs, .n_attrs = n_attrs, .integer = n};
}

static struct metric metric_of(const char *name, const char *unit, enum metric_kind kind,
                               struct metric_point *points, uint32_t n)
{
    return (struct metric){.name = bytes_str(name),
                           .unit = bytes_str(unit),
                           .description = BYTES_LIT("It counts"),
                           .kind = kind,
                           .temporality = METRIC_CUMULATIVE,
                           .points = points,
                           .n_points = n};
}

/* A line at a time, the whole page; what is there when it fails is taken back. */
static int write_page(const struct metric_batch *b, const struct prometheus_options *options,
                      struct buffer *out)
{
    struct prometheus_page *p = NULL;
    size_t before = out->n;
    int r = prometheus_page_new(&p, b, options);
    while (r == 0)
        r = prometheus_page_next(p, 1, out);
    prometheus_page_free(p);
    if (r < 0)
        out->n = before;
    return r < 0 ? r : 0;
}

static void expect(const struct metric_resource *resources, uint32_t n,
                   const struct prometheus_options *options, const char *wanted)
{
    struct metric_batch *b = unit_made(metric_batch_new(NULL));
    struct metric_resource copy[8];
    memcpy(copy, resources, n * sizeof *copy);
    b->resources = copy;
    b->n_resources = n;
    b->scope_name = BYTES_LIT("profgate");
    b->scope_version = BYTES_LIT("1");
    struct buffer out = BUFFER_INIT(0);
    ck_assert_int_eq(write_page(b, options, &out), 0);
    ck_assert_int_eq(buffer_add(&out, "", 1), 0);
    ck_assert_str_eq((char *)out.p, wanted);
    buffer_release(&out);
    metric_batch_free(b);
}

UNIT(metric_names)
{
    static const struct {
        const char *name, *unit;
        enum metric_kind kind;
        const char *wanted;
    } cases[] = {
        {"profile.cpu.time", "s", METRIC_SUM, "profile_cpu_time_seconds_total"},
        {"profile.alloc.bytes", "By", METRIC_SUM,
         "profile_alloc_bytes_total"}, /* the unit is there already */
        {"profile.alloc", "By", METRIC_SUM, "profile_alloc_bytes_total"},
        {"profile.heap.live", "By", METRIC_GAUGE, "profile_heap_live_bytes"},
        {"samples.kernel.count", "1", METRIC_SUM, "samples_kernel_count_total"},
        {"cache.hit", "1", METRIC_GAUGE, "cache_hit_ratio"},
        {"profile.samples", "{sample}", METRIC_SUM, "profile_samples_total"},
        {"requests.total", "", METRIC_SUM, "requests_total"},
        {"requests.total", "By", METRIC_SUM, "requests_bytes_total"},
        {"speed", "m/s", METRIC_GAUGE, "speed_meters_per_second"},
        {"rate", "{request}/s", METRIC_GAUGE, "rate_per_second"},
        {"_", "1/cy", METRIC_GAUGE, "_1_per_cy"},
        {"rate", "KiBy/min", METRIC_GAUGE, "rate_kibibytes_per_minute"},
        {"a..b--c", "", METRIC_GAUGE, "a_b_c"},
        {"1st", "", METRIC_GAUGE, "_1st"},
        {"job:time", "ms", METRIC_GAUGE, "job:time_milliseconds"},
        {"caf\xc3\xa9", "furlong", METRIC_GAUGE, "caf_furlong"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        cleanup(buffer_release) struct buffer out = BUFFER_INIT(0);
        ck_assert_int_eq(prometheus_name(bytes_str(cases[i].name), bytes_str(cases[i].unit), cases[i].kind,
                                         PROMETHEUS_UNDERSCORES_WITH_SUFFIXES, &out),
                         0);
        ck_assert_int_eq(buffer_add(&out, "", 1), 0);
        ck_assert_str_eq((char *)out.p, cases[i].wanted);
    }
}

UNIT(label_names)
{
    static const char *const cases[][2] = {{"service.name", "service_name"},
                                           {"9lives", "key_9lives"},
                                           {"__name__", "_name__"},
                                           {"", "key_"},
                                           {"a\xc3\xa9", "a__"},
                                           {"_x", "_x"}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        cleanup(buffer_release) struct buffer out = BUFFER_INIT(0);
        ck_assert_int_eq(
            prometheus_label_name(bytes_str(cases[i][0]), PROMETHEUS_UNDERSCORES_WITH_SUFFIXES, &out), 0);
        ck_assert_int_eq(buffer_add(&out, "", 1), 0);
        ck_assert_str_eq((char *)out.p, cases[i][1]);
    }
}

UNIT(series_say_that_they_have_no_target_of_their_own)
{
    const struct prometheus_options options = {.own_target = true},
                                    utf8 = {.own_target = true,
                                            .strategy = PROMETHEUS_NO_TRANSLATION,
                                            .escaping = PROMETHEUS_ALLOW_UTF8};
    struct attr attrs[] = {text("service.name", "shop")}, go[] = {text("runtime", "go")};
    struct metric_point with[] = {count(1, go, 1)}, without[] = {count(2, NULL, 0)};
    struct metric metrics[] = {metric_of("a.b", "1", METRIC_SUM, with, 1)},
                  other[] = {metric_of("a.b", "1", METRIC_SUM, without, 1)};
    struct metric_resource both[] = {{.attrs = attrs, .n_attrs = 1, .metrics = metrics, .n_metrics = 1},
                                     {.metrics = other, .n_metrics = 1}};
    expect(both, 2, &options,
           "# HELP a_b_total It counts\n# TYPE a_b_total counter\n"
           "a_b_total{job=\"shop\",runtime=\"go\",instance=\"\"} 1\n"
           "a_b_total{instance=\"\",job=\"\"} 2\n"
           "# HELP target_info Target metadata\n# TYPE target_info gauge\n"
           "target_info{job=\"shop\",instance=\"\"} 1\n");
    expect(both + 1, 1, &utf8,
           "# HELP \"a.b\" It counts\n# TYPE \"a.b\" counter\n{\"a.b\",instance=\"\",job=\"\"} 2\n");
}

UNIT(a_page)
{
    struct attr attrs[] = {text("service.namespace", "eu"), text("service.name", "shop"),
                           text("service.instance.id", "i-1"), text("host.name", "h1"),
                           text("process.executable.name", "java")};
    struct attr go[] = {text("runtime", "go"), text("profile.mode", "user")},
                jvm[] = {text("runtime", "jvm")};
    struct metric_point cpu[] = {{.attrs = go, .n_attrs = 2, .is_double = true, .real = 0.1},
                                 {.attrs = jvm, .n_attrs = 1, .is_double = true, .real = 1234567.25},
                                 {.attrs = NULL, .stale = true}};
    struct metric_point live[] = {count(-3, NULL, 0)};
    struct metric metrics[] = {metric_of("profile.cpu.time", "s", METRIC_SUM, cpu, 3),
                               metric_of("heap", "By", METRIC_GAUGE, live, 1)};
    metrics[1].description = BYTES_LIT("A \"line\"\\\nand another");
    struct metric_resource res = {.attrs = attrs, .n_attrs = 5, .metrics = metrics, .n_metrics = 2};
#define TARGET "host_name=\"h1\",instance=\"i-1\",job=\"eu/shop\",process_executable_name=\"java\""
    expect(&res, 1, NULL,
           "# HELP heap_bytes A \"line\"\\\\\\nand another\n"
           "# TYPE heap_bytes gauge\n"
           "heap_bytes{" TARGET "} -3\n"
           "# HELP profile_cpu_time_seconds_total It counts\n"
           "# TYPE profile_cpu_time_seconds_total counter\n"
           "profile_cpu_time_seconds_total{" TARGET ",profile_mode=\"user\",runtime=\"go\"} 0.1\n"
           "profile_cpu_time_seconds_total{" TARGET ",runtime=\"jvm\"} 1234567.25\n"
           "# HELP target_info Target metadata\n"
           "# TYPE target_info gauge\n"
           "target_info{" TARGET "} 1\n");
}

UNIT(values_are_escaped_and_keys_that_collide_are_joined)
{
    struct attr attrs[] = {text("a.b", "2"),        text("a-b", "1"),    text("a_b", "3"),
                           text("quote", "\"\\\n"), text("job", "mine"), text("empty", "")};
    struct metric_point points[] = {count(1, attrs, ARRAY_LEN(attrs))};
    struct metric metric = metric_of("x", "", METRIC_SUM, points, 1);
    struct metric_resource res = {.metrics = &metric, .n_metrics = 1};
    expect(&res, 1, NULL,
           "# HELP x_total It counts\n# TYPE x_total counter\n"
           "x_total{a_b=\"1;2;3\",exported_job=\"mine\",quote=\"\\\"\\\\\\n\"} 1\n");
}

UNIT(equal_label_sets_are_added_up)
{
    struct attr dot[] = {text("a.b", "v")}, dash[] = {text("a-b", "v")};
    struct metric_point points[] = {count(1, dot, 1), count(2, dash, 1)};
    struct metric_point seconds[] = {{.attrs = dot, .n_attrs = 1, .is_double = true, .real = 0.5}};
    struct metric metrics[] = {metric_of("x.y", "", METRIC_SUM, points, 2),
                               metric_of("x-y", "", METRIC_SUM, seconds, 1)};
    struct metric_resource res[] = {{.metrics = metrics, .n_metrics = 1},
                                    {.metrics = metrics, .n_metrics = 2}};
    expect(res, 2, NULL, "# HELP x_y_total It counts\n# TYPE x_y_total counter\nx_y_total{a_b=\"v\"} 6.5\n");
}

UNIT(a_type_that_disagrees_is_left_out)
{
    struct metric_point points[] = {count(7, NULL, 0)};
    struct metric metrics[] = {metric_of("x.total", "", METRIC_GAUGE, points, 1),
                               metric_of("x", "", METRIC_SUM, points, 1)};
    struct metric_resource res = {.metrics = metrics, .n_metrics = 2};
    expect(&res, 1, NULL,
           "# x_total: a metric of this name and another type was left out\n"
           "# HELP x_total It counts\n# TYPE x_total gauge\nx_total 7\n");
}

UNIT(target_info_says_what_resources_of_one_job_agree_on)
{
    struct attr one[] = {text("service.name", "shop"), text("host.name", "h"),
                         text("process.executable.name", "a")};
    struct attr two[] = {text("service.name", "shop"), text("host.name", "h"),
                         text("process.executable.name", "b")};
    struct metric_resource res[] = {{.attrs = one, .n_attrs = 3}, {.attrs = two, .n_attrs = 3}};
    expect(res, 2, NULL,
           "# HELP target_info Target metadata\n# TYPE target_info gauge\n"
           "target_info{host_name=\"h\",job=\"shop\"} 1\n");
}

UNIT(overflow_and_other_kinds_of_values)
{
    struct attr overflow = {BYTES_LIT("otel.metric.overflow"), {.kind = ATTR_BOOL, .boolean = true}};
    struct attr mixed[] = {{BYTES_LIT("i"), {.kind = ATTR_INT, .integer = -5}},
                           {BYTES_LIT("d"), {.kind = ATTR_DOUBLE, .real = 0.1}},
                           {BYTES_LIT("b"), {.kind = ATTR_BYTES, .text = BYTES_LIT("\x01\xff")}}};
    struct metric_point points[] = {
        count(1, &overflow, 1), count(2, mixed, 3), {.is_double = true, .real = INFINITY}};
    struct metric metric = metric_of("x", "", METRIC_GAUGE, points, 3);
    struct metric_resource res = {.attrs = &overflow, .n_attrs = 1, .metrics = &metric, .n_metrics = 1};
    struct prometheus_options scope = {.scope_labels = true};
#define SCOPE "otel_metric_overflow=\"true\",otel_scope_name=\"profgate\",otel_scope_version=\"1\""
    expect(&res, 1, &scope,
           "# HELP x It counts\n# TYPE x gauge\n"
           "x{" SCOPE "} +Inf\n"
           "x{b=\"01ff\",d=\"0.1\",i=\"-5\"," SCOPE "} 2\n");
}

UNIT(a_point_speaks_louder_than_its_resource)
{
    struct attr res_attrs[] = {text("host.name", "resource"), text("service.name", "s")};
    struct attr own[] = {text("host.name", "point"), text("service.name", "t")};
    struct metric_point points[] = {count(1, own, 2)};
    struct metric metric = metric_of("x", "", METRIC_GAUGE, points, 1);
    struct metric_resource res = {.attrs = res_attrs, .n_attrs = 2, .metrics = &metric, .n_metrics = 1};
    expect(&res, 1, NULL,
           "# HELP target_info Target metadata\n# TYPE target_info gauge\n"
           "target_info{host_name=\"resource\",job=\"s\"} 1\n"
           "# HELP x It counts\n# TYPE x gauge\n"
           "x{host_name=\"point\",job=\"s\",service_name=\"t\"} 1\n");
}

UNIT(refusals_leave_the_buffer_alone)
{
    struct metric_point points[] = {count(1, NULL, 0)};
    struct metric metric = metric_of("x", "", METRIC_SUM, points, 1);
    metric.temporality = METRIC_DELTA;
    struct metric_resource res = {.metrics = &metric, .n_metrics = 1};
    struct budget budget = BUDGET_INIT(1 << 20, NULL);
    struct metric_batch *b = unit_made(metric_batch_new(&budget));
    b->resources = &res;
    b->n_resources = 1;
    struct buffer out = BUFFER_INIT(20);
    ck_assert_int_eq(buffer_add_str(&out, "before"), 0);
    ck_assert_int_eq(write_page(b, NULL, &out), -EINVAL);
    metric.temporality = METRIC_CUMULATIVE;
    ck_assert_int_eq(write_page(b, NULL, &out), -ENOBUFS);
    budget.limit = budget.used;
    ck_assert_int_eq(write_page(b, NULL, &out), -ENOMEM);
    ck_assert_uint_eq(out.n, 6);
    buffer_release(&out);
    metric_batch_free(b);
    ck_assert_uint_eq(budget.used, 0);
}

/* ---- strategies, escapings, OpenMetrics ---- */

static void expect_text(struct buffer *out, const char *wanted)
{
    ck_assert_int_eq(buffer_add(out, "", 1), 0);
    ck_assert_str_eq((char *)out->p, wanted);
    buffer_release(out);
}

UNIT(names_by_strategy)
{
    static const struct {
        const char *name, *unit;
        enum metric_kind kind;
        const char *wanted[4];
    } cases[] = {
        {"profile.cpu.time",
         "s",
         METRIC_SUM,
         {"profile_cpu_time_seconds_total", "profile_cpu_time", "profile.cpu.time_seconds_total",
          "profile.cpu.time"}},
        {"requests.total",
         "",
         METRIC_SUM,
         {"requests_total", "requests_total", "requests_total", "requests.total"}},
        {"heap.bytes", "By", METRIC_GAUGE, {"heap_bytes", "heap_bytes", "heap.bytes", "heap.bytes"}},
        {"1caf\xc3\xa9..x",
         "1",
         METRIC_GAUGE,
         {"_1caf_x_ratio", "_1caf_x", "1caf\xc3\xa9..x_ratio", "1caf\xc3\xa9..x"}},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        for (int s = 0; s < 4; s++) {
            struct buffer out = BUFFER_INIT(0);
            ck_assert_int_eq(prometheus_name(bytes_str(cases[i].name), bytes_str(cases[i].unit),
                                             cases[i].kind, (enum prometheus_strategy)s, &out),
                             0);
            expect_text(&out, cases[i].wanted[s]);
        }
}

/* Prometheus' names begin with no digit (exposition formats, "Metric names"): one '_' in front, and only
 * where names are escaped at all. */
UNIT(names_that_begin_with_digits)
{
    static const struct {
        const char *name, *unit;
        enum metric_kind kind;
        const char *wanted[4]; /* by enum prometheus_strategy */
    } cases[] = {
        {"1st", "", METRIC_GAUGE, {"_1st", "_1st", "1st", "1st"}},
        {"5", "s", METRIC_GAUGE, {"_5_seconds", "_5", "5_seconds", "5"}},
        {"5.total", "By", METRIC_SUM, {"_5_bytes_total", "_5_total", "5_bytes_total", "5.total"}},
        {"2_", "2", METRIC_GAUGE, {"_2", "_2", "2_", "2_"}}, /* the unit is there already */
        {"9..a", "1", METRIC_SUM, {"_9_a_total", "_9_a", "9..a_total", "9..a"}},
        {"_7", "", METRIC_GAUGE, {"_7", "_7", "_7", "_7"}},
        {"_", "1/cy", METRIC_GAUGE, {"_1_per_cy", "", "_1_per_cy", "_"}},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        for (size_t k = 0; k < 4; k++) {
            cleanup(buffer_release) struct buffer out = BUFFER_INIT(0);
            ck_assert_int_eq(prometheus_name(bytes_str(cases[i].name), bytes_str(cases[i].unit),
                                             cases[i].kind, (enum prometheus_strategy)k, &out),
                             0);
            ck_assert_msg(bytes_is(buffer_bytes(&out), cases[i].wanted[k]), "%s by %zu: %.*s", cases[i].name,
                          k, BYTES_FMT(buffer_bytes(&out)));
        }
    }
}

/* The examples of the Prometheus documentation, "Escaping schemes", and names that could be cut wrongly. */
UNIT(escapings)
{
    static const struct {
        const char *name;
        bool is_label;
        const char *wanted[4]; /* underscores, allow-utf-8, dots, values */
    } cases[] = {
        {"plain_name", false, {"plain_name", "plain_name", "plain__name", "plain_name"}},
        {"mysystem.prod.west.cpu.load",
         false,
         {"mysystem_prod_west_cpu_load", "mysystem.prod.west.cpu.load",
          "mysystem_dot_prod_dot_west_dot_cpu_dot_load", "U__mysystem_2e_prod_2e_west_2e_cpu_2e_load"}},
        {"http.status:sum_x",
         false,
         {"http_status:sum_x", "http.status:sum_x", "http_dot_status:sum__x", "U__http_2e_status:sum__x"}},
        {"a:b", true, {"a_b", "a:b", "a__b", "U__a_3a_b"}},
        {"label with \xf0\x9f\x98\xb1",
         true,
         {"label_with__", "label with \xf0\x9f\x98\xb1", "label__with____", "U__label_20_with_20__1f631_"}},
        {"9x", false, {"_x", "9x", "__x", "U___39_x"}},
        {"cut\xc3", false, {"cut_", "cut\xc3", "cut__", "U__cut_fffd_"}},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        for (int s = 0; s < 4; s++) {
            struct buffer out = BUFFER_INIT(0);
            ck_assert_int_eq(prometheus_escape(bytes_str(cases[i].name), (enum prometheus_escaping)s,
                                               cases[i].is_label, &out),
                             0);
            expect_text(&out, cases[i].wanted[s]);
        }
}

UNIT(utf8_names_stand_in_quotes)
{
    struct attr attrs[] = {text("host.name", "h"), text("plain", "p")};
    struct metric_point points[] = {count(3, attrs, 2), count(4, NULL, 0)};
    struct metric metric = metric_of("x.\"y\"", "", METRIC_SUM, points, 2);
    struct metric_resource res = {.metrics = &metric, .n_metrics = 1};
    struct prometheus_options options = {.strategy = PROMETHEUS_NO_TRANSLATION,
                                         .escaping = PROMETHEUS_ALLOW_UTF8};
    expect(&res, 1, &options,
           "# HELP \"x.\\\"y\\\"\" It counts\n# TYPE \"x.\\\"y\\\"\" counter\n"
           "{\"x.\\\"y\\\"\",\"host.name\"=\"h\",plain=\"p\"} 3\n{\"x.\\\"y\\\"\"} 4\n");
    options.escaping = PROMETHEUS_ESCAPE_DOTS;
    expect(&res, 1, &options,
           "# HELP x_dot___y__ It counts\n# TYPE x_dot___y__ counter\n"
           "x_dot___y__{host_dot_name=\"h\",plain=\"p\"} 3\nx_dot___y__ 4\n");
}

/* A second name of the series would be no page at all to Prometheus. */
UNIT(no_attribute_is_a_series_name)
{
    struct attr attrs[] = {text("__name__", "up")}, own[] = {text("__name__", "down")};
    struct metric_point points[] = {count(3, NULL, 0), count(4, own, 1)};
    struct metric metric = metric_of("x", "", METRIC_SUM, points, 2);
    struct metric_resource res = {.attrs = attrs, .n_attrs = 1, .metrics = &metric, .n_metrics = 1};
    static const enum prometheus_strategy strategies[] = {PROMETHEUS_UNDERSCORES_WITHOUT_SUFFIXES,
                                                          PROMETHEUS_NO_TRANSLATION};
    for (size_t i = 0; i < ARRAY_LEN(strategies); i++)
        expect(&res, 1, &(struct prometheus_options){.strategy = strategies[i]},
               "# HELP x It counts\n# TYPE x counter\nx{_name__=\"up\"} 3\nx{_name__=\"down\"} 4\n");
}

static struct metric_exemplar exemplar(uint64_t time, double value)
{
    struct metric_exemplar e = {.time_unix_nano = time, .real = value};
    memset(e.trace_id, 0xa1, sizeof e.trace_id);
    memset(e.span_id, 0x0b, sizeof e.span_id);
    return e;
}

UNIT(an_openmetrics_page)
{
    struct metric_exemplar e = exemplar(1700000000123456789u, 0.25), older = exemplar(1, 9), no_span = e;
    memset(no_span.span_id, 0, sizeof no_span.span_id);
    struct attr attrs[] = {text("service.name", "shop"), text("host.name", "h")};
    struct attr a[] = {text("l", "a")}, b[] = {text("l", "b")};
    struct metric_point cpu[] = {
        {.attrs = a,
         .n_attrs = 1,
         .is_double = true,
         .real = 1.5,
         .exemplar = &older,
         .start_unix_nano = 5000000000u},
        {.attrs = a,
         .n_attrs = 1,
         .is_double = true,
         .real = 1,
         .exemplar = &e,
         .start_unix_nano = 4250000000u},
        {.attrs = b, .n_attrs = 1, .is_double = true, .real = 1, .exemplar = &no_span}};
    struct metric_point live[] = {{.integer = 7, .exemplar = &e}};
    struct metric metrics[] = {metric_of("profile.cpu.time", "s", METRIC_SUM, cpu, 3),
                               metric_of("profile.cpu.time.seconds", "", METRIC_GAUGE, live, 1),
                               metric_of("heap", "By", METRIC_GAUGE, live, 1)};
    metrics[0].description = BYTES_LIT("A \"line\"");
    struct metric_resource res = {.attrs = attrs, .n_attrs = 2, .metrics = metrics, .n_metrics = 3};
    struct prometheus_options options = {.format = PROMETHEUS_OPENMETRICS, .created = true};
#define OM_TARGET "host_name=\"h\",job=\"shop\""
#define OM_TRACE  "trace_id=\"a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1\""
    /* of the gauge that would be a second family of this name nothing is left */
    expect(&res, 1, &options,
           "# HELP heap_bytes It counts\n# TYPE heap_bytes gauge\n# UNIT heap_bytes bytes\n"
           "heap_bytes{" OM_TARGET "} 7\n"
           "# HELP profile_cpu_time_seconds A \\\"line\\\"\n# TYPE profile_cpu_time_seconds counter\n"
           "# UNIT profile_cpu_time_seconds seconds\n"
           "profile_cpu_time_seconds_total{" OM_TARGET ",l=\"a\"} 2.5 # {" OM_TRACE
           ",span_id=\"0b0b0b0b0b0b0b0b\"} 0.25 1700000000.123\n"
           "profile_cpu_time_seconds_created{" OM_TARGET ",l=\"a\"} 4.250\n"
           "profile_cpu_time_seconds_total{" OM_TARGET ",l=\"b\"} 1 # {" OM_TRACE "} 0.25 1700000000.123\n"
           "# HELP target Target metadata\n# TYPE target info\ntarget_info{" OM_TARGET "} 1\n");
    res.n_metrics = 1;
    res.n_attrs = 0;
    options.strategy = PROMETHEUS_UTF8_WITH_SUFFIXES;
    options.escaping = PROMETHEUS_ALLOW_UTF8;
    metrics[0].name = BYTES_LIT("a\"b.c");
    expect(&res, 1, &options, /* also of a name in quotes */
           "# HELP \"a\\\"b.c_seconds\" A \\\"line\\\"\n# TYPE \"a\\\"b.c_seconds\" counter\n"
           "# UNIT \"a\\\"b.c_seconds\" seconds\n"
           "{\"a\\\"b.c_seconds_total\",l=\"a\"} 2.5 # {" OM_TRACE
           ",span_id=\"0b0b0b0b0b0b0b0b\"} 0.25 1700000000.123\n"
           "{\"a\\\"b.c_seconds_created\",l=\"a\"} 4.250\n"
           "{\"a\\\"b.c_seconds_total\",l=\"b\"} 1 # {" OM_TRACE "} 0.25 1700000000.123\n");
    metrics[0].name = BYTES_LIT("profile.cpu.time");
    options = (struct prometheus_options){.format = PROMETHEUS_OPENMETRICS,
                                          .strategy = PROMETHEUS_UNDERSCORES_WITHOUT_SUFFIXES};
    expect(&res, 1, &options, /* a counter must end in _total; without it, its type is not known */
           "# HELP profile_cpu_time A \\\"line\\\"\n# TYPE profile_cpu_time unknown\n"
           "profile_cpu_time{l=\"a\"} 2.5\nprofile_cpu_time{l=\"b\"} 1\n");
}

UNIT(our_own_text_in_openmetrics)
{
    static const char text_0_0_4[] =
        "# HELP a_total Things\n# TYPE a_total counter\na_total{x=\"_total\"} 1\n"
        "# HELP total Is a gauge\n# TYPE total gauge\ntotal 2\n# HELP _total x";
    struct buffer out = BUFFER_INIT(0);
    ck_assert_int_eq(prometheus_rewrite(bytes_str(text_0_0_4), PROMETHEUS_OPENMETRICS, &out), 0);
    ck_assert_int_eq(prometheus_end(PROMETHEUS_OPENMETRICS, &out), 0);
    expect_text(&out, "# HELP a Things\n# TYPE a counter\na_total{x=\"_total\"} 1\n"
                      "# HELP total Is a gauge\n# TYPE total gauge\ntotal 2\n# HELP _total x# EOF\n");
    ck_assert_int_eq(prometheus_rewrite(bytes_str(text_0_0_4), PROMETHEUS_TEXT, &out), 0);
    ck_assert_int_eq(prometheus_end(PROMETHEUS_TEXT, &out), 0);
    expect_text(&out, text_0_0_4);
}

UNIT(somebody_elses_target_info_stays_his)
{
    struct attr attrs[] = {text("service.name", "shop")};
    struct metric_point points[] = {count(5, NULL, 0)};
    struct metric metric = metric_of("target.info", "", METRIC_GAUGE, points, 1);
    struct metric_resource res = {.attrs = attrs, .n_attrs = 1, .metrics = &metric, .n_metrics = 1};
    expect(&res, 1, NULL,
           "# target_info: a metric of this name and another type was left out\n"
           "# HELP target_info It counts\n# TYPE target_info gauge\ntarget_info{job=\"shop\"} 5\n");
}

/* ---- in pieces ---- */

UNIT(a_page_comes_in_pieces_and_needs_the_memory_of_its_largest_family)
{
    enum { FAMILIES = 50, RESOURCES = 20, NAME = 1000 };
    static struct metric_resource resources[RESOURCES];
    static struct attr attrs[RESOURCES];
    static char names[RESOURCES][NAME + 1];
    static struct metric metrics[FAMILIES];
    static char metric_names[FAMILIES][16];
    struct metric_point one = count(1, NULL, 0);
    for (uint32_t m = 0; m < FAMILIES; m++) {
        snprintf(metric_names[m], sizeof metric_names[m], "metric_%u", m);
        metrics[m] = metric_of(metric_names[m], "", METRIC_SUM, &one, 1);
    }
    for (uint32_t i = 0; i < RESOURCES; i++) {
        memset(names[i], 'a' + (int)i, NAME);
        attrs[i] = text("service.name", names[i]);
        resources[i] = (struct metric_resource){
            .attrs = &attrs[i], .n_attrs = 1, .metrics = metrics, .n_metrics = FAMILIES};
    }
    struct budget budget = BUDGET_INIT((size_t)256 << 10, NULL); /* of the megabyte that the page is */
    struct metric_batch *b = unit_made(metric_batch_new(&budget));
    b->resources = resources;
    b->n_resources = RESOURCES;
    struct prometheus_page *p = NULL;
    ck_assert_int_eq(prometheus_page_new(&p, b, NULL), 0);
    struct buffer out = BUFFER_INIT((size_t)8 << 10);
    size_t whole = 0;
    uint32_t lines = 0;
    int r;
    do {
        out.n = 0;
        r = prometheus_page_next(unit_made(p), 4096, &out);
        ck_assert_int_ge(r, 0);
        ck_assert(r == PROMETHEUS_PAGE_ENDS || out.n >= 4096);
        whole += out.n;
        for (size_t i = 0; i < out.n; i++)
            lines += out.p[i] == '\n';
    } while (r != PROMETHEUS_PAGE_ENDS);
    ck_assert_uint_eq(lines, FAMILIES * (2 + RESOURCES) + 2 + RESOURCES); /* and target_info */
    ck_assert_uint_gt(whole, (size_t)1 << 20);
    prometheus_page_free(p);
    metric_batch_free(b);
    buffer_release(&out);
    ck_assert_uint_eq(budget.used, 0);
}

/* ---- lines ---- */

static int plain_label(const struct prometheus_label *label, struct buffer *out)
{
    return buffer_printf(out, "%.*s=%.*s,", BYTES_FMT(label->name), BYTES_FMT(label->value));
}

static int plain_tail(void *user, const struct prometheus_label *labels, uint32_t n, struct buffer *out)
{
    bool any = false;
    for (uint32_t i = 0; i < n; i++)
        any |= labels[i].is_target;
    return user || any ? 0 : buffer_add_str(out, "nobody's");
}

static int plain_labels(void *user, const struct prometheus_family *family,
                        const struct prometheus_label *labels, uint32_t n, struct buffer *out)
{
    (void)family;
    int r = 0;
    for (uint32_t i = 0; r == 0 && i < n; i++)
        r = plain_label(&labels[i], out);
    return r < 0 ? r : plain_tail(user, labels, n, out);
}

/* Few keys of which some become one name, and few values of which some are empty or say the same. */
static uint32_t random_attrs(struct rng *rng, const char *const *keys, uint32_t n_keys, uint32_t one_in,
                             struct attr *attrs)
{
    static const struct attr_value values[] = {
        {.kind = ATTR_STRING, .text = {(const uint8_t *)"1", 1}},
        {.kind = ATTR_STRING, .text = {(const uint8_t *)"", 0}},
        {.kind = ATTR_STRING, .text = {(const uint8_t *)"b\"", 2}},
        {.kind = ATTR_INT, .integer = 1},
        {.kind = ATTR_INT, .integer = 2},
    };
    uint32_t n = 0;
    for (uint32_t i = 0; i < n_keys; i++)
        if (rng_next(rng) % one_in == 0)
            attrs[n++] = (struct attr){bytes_str(keys[i]), values[rng_next(rng) % ARRAY_LEN(values)]};
    return n;
}

static void same_series(const struct prometheus_table *t, const struct prometheus_line *line,
                        const struct prometheus_series *s)
{
    cleanup(buffer_release) struct buffer labels = BUFFER_INIT(0);
    const struct prometheus_series own = prometheus_line_series(t, line);
    ck_assert_int_eq(prometheus_line_labels(t, line, &labels), 0);
    ck_assert_msg(bytes_eq(buffer_bytes(&labels), s->labels), "%.*s, %.*s", BYTES_FMT(buffer_bytes(&labels)),
                  BYTES_FMT(s->labels));
    ck_assert_int_eq(own.integer, s->integer);
    ck_assert_uint_eq(own.start_unix_nano, s->start_unix_nano);
}

/* Random batches. Returns in how many families each point was a series, and in how many not. */
static void lines_are_the_series(struct rng *rng, const char *const *keys, uint32_t n_keys, uint32_t *lined,
                                 uint32_t *others)
{
    enum { RESOURCES = 3, METRICS = 3, SETS = 4, KEYS = 8 };
    static const char *const names[METRICS] = {"one", "a.b", "a_b"};
    static const char *const resource_keys[] = {"a.b", "host.name", "k", "service.name"};
    struct attr of_resource[RESOURCES][KEYS], of_set[SETS][KEYS];
    struct metric_point points[RESOURCES][METRICS][SETS];
    struct metric lists[RESOURCES][METRICS];
    struct metric_resource resources[RESOURCES];
    uint32_t n_set[SETS];
    for (uint32_t i = 0; i < SETS; i++)
        n_set[i] = random_attrs(rng, keys, n_keys, 2, of_set[i]);
    for (uint32_t r = 0; r < RESOURCES; r++) {
        uint32_t n_metrics = 0;
        for (uint32_t m = 0; m < METRICS; m++) {
            uint32_t n = 0;
            for (uint32_t i = 0; i < SETS; i++)
                if (rng_next(rng) % 2) {
                    points[r][m][n] = count((int64_t)(rng_next(rng) % 100), of_set[i], n_set[i]);
                    points[r][m][n].start_unix_nano = 1 + rng_next(rng) % 9;
                    points[r][m][n++].stale = rng_next(rng) % 8 == 0;
                }
            if (rng_next(rng) % 2)
                lists[r][n_metrics++] = metric_of(names[m], "1", METRIC_SUM, points[r][m], n);
        }
        resources[r] =
            (struct metric_resource){.attrs = of_resource[r], .metrics = lists[r], .n_metrics = n_metrics};
        resources[r].n_attrs = random_attrs(rng, resource_keys, ARRAY_LEN(resource_keys), 2, of_resource[r]);
    }
    struct metric_batch *b = unit_made(metric_batch_new(NULL));
    b->resources = resources;
    b->n_resources = RESOURCES;
    struct prometheus_table_options options = {
        .names.escaping = PROMETHEUS_ESCAPE_UNDERSCORES,
        .keep_stale = rng_next(rng) % 2,
        .labels = plain_labels,
        .label = plain_label,
        .tail = plain_tail,
    };
    struct prometheus_table *t = NULL;
    ck_assert_int_eq(prometheus_table_new(&t, b, &options), 0);
    const struct prometheus_family *families;
    const uint32_t n_families = prometheus_table_families(t, &families);
    for (uint32_t f = 0; f < n_families; f++) {
        const struct prometheus_series *series;
        const struct prometheus_line *lines;
        uint32_t n, n_lines;
        ck_assert_int_eq(prometheus_table_series(t, f, &series, &n), 0);
        int r = prometheus_table_lines(t, f, &lines, &n_lines);
        ++*(r == 0 ? lined : others);
        if (r == 0)
            ck_assert_uint_eq(n_lines, n);
        else
            ck_assert_int_eq(r, PROMETHEUS_TABLE_ADDS_UP);
        for (uint32_t i = 0; r == 0 && i < n; i++)
            same_series(t, &lines[i], &series[i]);
    }
    prometheus_table_free(t);
    metric_batch_free(b);
}

UNIT(lines_are_the_series_where_no_points_add_up)
{
    static const char *const others_keys[] = {"a_b", "job", "k", "z"}, *const own_keys[] = {"c.d", "c_d", "m",
                                                                                            "z"};
    struct rng rng = {1147};
    uint32_t lined = 0, others = 0;
    for (int i = 0; i < 400; i++)
        lines_are_the_series(&rng, i % 2 ? own_keys : others_keys, 4, &lined, &others);
    ck_assert_uint_gt(lined, 40);
    ck_assert_uint_gt(others, 40);
}

static void as_printf_says(double v)
{
    char text[32], want[32];
    int digits = 14;
    do
        snprintf(want, sizeof want, "%.*g", ++digits, v);
    while (digits < 17 && strtod(want, NULL) != v);
    prometheus_double(v, text);
    ck_assert_str_eq(text, want);
}

UNIT(doubles_are_the_shortest_that_read_back)
{
    static const double some[] = {0,    -0.0,     1,       0.1,       1e-4,   99999e-9, 100001e-9,
                                  1e6,  999999.5, 1.0 / 3, 1e-9,      5e-324, -2.5,     999999.999999999,
                                  1e15, 1e22,     0.3,     0.1 + 0.2, 2.5e-5, 1234.5,   86400.0123};
    struct rng rng = {4711};
    for (size_t i = 0; i < ARRAY_LEN(some); i++)
        as_printf_says(some[i]);
    for (int i = 0; i < 20000; i++) {
        uint64_t n = rng_next(&rng) >> (rng_next(&rng) % 64);
        as_printf_says((double)(int64_t)n / 1e9);
        as_printf_says((double)(int64_t)n / 1e9 + (double)(rng_next(&rng) % 1000) / 1e9);
    }
}

UNIT(integers_are_written_whole)
{
    static const struct {
        int64_t value;
        const char *text;
    } cases[] = {{0, "0"},
                 {-1, "-1"},
                 {10, "10"},
                 {INT64_MAX, "9223372036854775807"},
                 {INT64_MIN, "-9223372036854775808"}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char text[32];
        prometheus_integer(cases[i].value, text);
        ck_assert_str_eq(text, cases[i].text);
    }
}
