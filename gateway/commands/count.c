/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/aggregate/store.h"
#include "gateway/commands/capture_file.h"
#include "gateway/commands/command.h"
#include "gateway/run/pipeline.h"
#include "gateway/run/rule_files.h"
#include "proto/base/clock.h"
#include "proto/base/json.h"
#include "proto/base/macros.h"
#include "proto/otlp/metrics/metrics.h"

#define ALL_SERIES 1000000u /* offline nothing is folded away */

struct count_arguments {
    struct config *config;
    struct buffer files, enable, builtin;
    bool json, resources;
};

/* ---- arguments ----------------------------------------------------------------------------- */

static int add_item(struct buffer *list, const char *value)
{
    return list->n > 0 ? buffer_printf(list, ",%s", value) : buffer_add_str(list, value);
}

static int set_rules(void *target, const char *value, struct arena *unused, struct error *e)
{
    return add_item(&((struct count_arguments *)target)->files, value);
}

static int set_enable(void *target, const char *value, struct arena *unused, struct error *e)
{
    return add_item(&((struct count_arguments *)target)->enable, value);
}

static int set_builtin(void *target, const char *value, struct arena *unused, struct error *e)
{
    return add_item(&((struct count_arguments *)target)->builtin, value);
}

#define AT(field) offsetof(struct count_arguments, field)

/* clang-format off */
static const struct settings_row rows[] = {
    {"rules", SETTINGS_OWN, .set = set_rules, .metavar = "FILE",
     .doc = "a rule file beside the shipped packs; may be repeated"},
    {"enable", SETTINGS_OWN, .set = set_enable, .metavar = "METRIC",
     .doc = "a metric that is shipped switched off; may be repeated"},
    {"builtin", SETTINGS_OWN, .set = set_builtin, .metavar = "PACKS",
     .doc = "shipped packs to count with: all, none, or names; default all"},
    {"resources", SETTINGS_BOOL, AT(resources), .doc = "keep resources (processes) apart instead of adding them up"},
    {"json", SETTINGS_BOOL, AT(json), .doc = "print totals and the metrics as OTLP/JSON"},
};
/* clang-format on */

static const struct settings_section flags = {.rows = rows, .n_rows = ARRAY_LEN(rows)};

static int configure(struct count_arguments *a, struct error *e)
{
    const struct {
        const char *key;
        struct buffer *list;
    } lists[] = {{"rules.files", &a->files}, {"rules.enable", &a->enable}, {"rules.builtin", &a->builtin}};
    for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
        if (lists[i].list->n == 0)
            continue;
        int r = buffer_add(lists[i].list, "", 1);
        if (r == 0)
            r = config_set(a->config, lists[i].key, (const char *)lists[i].list->p, e);
        if (r < 0)
            return r;
    }
    return 0;
}

/* ---- counting ------------------------------------------------------------------------------ */

struct counter {
    struct pipeline *pipeline;
    struct error *e;
};

static int count_request(void *context, const struct capture_request *request)
{
    const struct counter *c = context;
    struct ingest_answer answer;
    ingest_push(c->pipeline->ingest, request->body, request->layout, NULL, &answer);
    if (answer.verdict != INGEST_ACCEPTED)
        return error_set(c->e, -EBADMSG, "%s: %s", request->place, answer.message.text);
    if (answer.rejected_profiles > 0)
        fprintf(stderr, "%s: %s\n", request->place, answer.message.text);
    return 0;
}

/* ---- printing ------------------------------------------------------------------------------ */

/* Texts as JSON writes them for terminals: whatever bytes a label has, a line is a line. */
static void put_value(struct json *j, const struct attr_value *v)
{
    char text[32];
    int n = 0;
    switch (v->kind) {
    case ATTR_STRING: json_string(j, v->text); break;
    case ATTR_BOOL: n = snprintf(text, sizeof text, "%s", v->boolean ? "true" : "false"); break;
    case ATTR_INT: n = snprintf(text, sizeof text, "%lld", (long long)v->integer); break;
    case ATTR_DOUBLE: n = snprintf(text, sizeof text, "%.17g", v->real); break;
    default: n = snprintf(text, sizeof text, "(%zu bytes)", v->text.n); break;
    }
    if (n > 0 && j->r == 0)
        j->r = buffer_add(j->out, text, (size_t)n);
}

/* A name as it is, where it is one; else as a text: whatever bytes it has, a line is a line. */
static int put_key(struct buffer *out, struct bytes key)
{
    bool is_name = key.n > 0;
    for (size_t i = 0; i < key.n && is_name; i++)
        is_name = key.p[i] > ' ' && key.p[i] < 0x7f && !memchr("\"\\=,{}", key.p[i], 6);
    if (is_name)
        return buffer_add_bytes(out, key);
    struct json j = JSON_INIT(out);
    j.spaced = true;
    json_string(&j, key);
    return j.r;
}

static int put_attrs(struct buffer *out, const struct attr *attrs, uint32_t n)
{
    int r = 0;
    for (uint32_t i = 0; i < n && r == 0; i++) {
        r = i ? buffer_add_str(out, ", ") : 0;
        r = r < 0 ? r : put_key(out, attrs[i].key);
        r = r < 0 ? r : buffer_add_str(out, "=");
        struct json j = JSON_INIT(out);
        j.spaced = true;
        put_value(&j, &attrs[i].value);
        r = r < 0 ? r : j.r;
    }
    return r;
}

/* ---- one order: two runs can be compared ---------------------------------------------------- */

static int compare_values(const struct attr_value *a, const struct attr_value *b)
{
    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    switch (a->kind) {
    case ATTR_BOOL: return (int)a->boolean - (int)b->boolean;
    case ATTR_INT: return order_of(a->integer, b->integer);
    case ATTR_DOUBLE: return order_of(a->real, b->real);
    default: return bytes_compare(a->text, b->text);
    }
}

static int compare_attrs(const struct attr *a, uint32_t n_a, const struct attr *b, uint32_t n_b)
{
    int order = 0;
    for (uint32_t i = 0; order == 0 && i < min_of(n_a, n_b); i++) {
        order = bytes_compare(a[i].key, b[i].key);
        order = order ? order : compare_values(&a[i].value, &b[i].value);
    }
    return order ?: order_of(n_a, n_b);
}

static int by_attrs(const void *a, const void *b)
{
    const struct metric_resource *x = a, *y = b;
    return compare_attrs(x->attrs, x->n_attrs, y->attrs, y->n_attrs);
}

static double number(const struct metric_point *p)
{
    return p->is_double ? p->real : (double)p->integer;
}

static int by_value(const void *a, const void *b)
{
    const struct metric_point *p = a, *q = b;
    double x = number(p), y = number(q);
    return order_of(y, x) ?: compare_attrs(p->attrs, p->n_attrs, q->attrs, q->n_attrs);
}

static void put_in_order(struct metric_batch *batch)
{
    qsort(batch->resources, batch->n_resources, sizeof *batch->resources, by_attrs);
    for (uint32_t i = 0; i < batch->n_resources; i++)
        for (uint32_t j = 0; j < batch->resources[i].n_metrics; j++) {
            struct metric *m = &batch->resources[i].metrics[j];
            qsort(m->points, m->n_points, sizeof *m->points, by_value);
        }
}

static int put_point(struct buffer *out, const struct metric *m, const struct metric_point *p)
{
    int r = buffer_printf(out, "%.*s {", BYTES_FMT(m->name));
    r = r < 0 ? r : put_attrs(out, p->attrs, p->n_attrs);
    return r < 0          ? r
           : p->is_double ? buffer_printf(out, "} %.9g %.*s\n", p->real, BYTES_FMT(m->unit))
                          : buffer_printf(out, "} %lld\n", (long long)p->integer);
}

static int print_batch(const struct metric_batch *batch)
{
    cleanup(buffer_release) struct buffer out = {0};
    int r = 0;
    for (uint32_t i = 0; i < batch->n_resources && r == 0; i++) {
        const struct metric_resource *resource = &batch->resources[i];
        if (resource->n_attrs > 0) {
            r = buffer_add_str(&out, "# ");
            r = r < 0 ? r : put_attrs(&out, resource->attrs, resource->n_attrs);
            r = r < 0 ? r : buffer_add_str(&out, "\n");
        }
        for (uint32_t j = 0; j < resource->n_metrics; j++)
            for (uint32_t k = 0; k < resource->metrics[j].n_points && r == 0; k++)
                r = put_point(&out, &resource->metrics[j], &resource->metrics[j].points[k]);
    }
    if (r == 0)
        fwrite(out.p, 1, out.n, stdout);
    return r;
}

static int print_json(const struct metric_batch *batch, int n_files)
{
    cleanup(buffer_release) struct buffer line = {0};
    int r = metrics_encode_json(batch, &line);
    if (r == 0)
        printf(
            "{\"files\": %d, \"profiles\": %llu, \"samples\": %llu, \"rejected_samples\": %llu, \"metrics\": %.*s}\n",
            n_files, (unsigned long long)stats_read(STATS_PROFILES),
            (unsigned long long)stats_read(STATS_SAMPLES),
            (unsigned long long)stats_read(STATS_SAMPLES_REJECTED), (int)(line.n > 0 ? line.n - 1 : 0),
            (char *)line.p);
    return r;
}

/* What is missing from the numbers, and nothing else tells. */
static void tell_missing(void)
{
    const unsigned long long unweighed = stats_read(STATS_SAMPLES_UNWEIGHED),
                             gave_up = stats_read(STATS_REGEX_GAVE_UP);
    if (unweighed > 0)
        fprintf(
            stderr,
            "profgate count: %llu sample%s could not be weighed: no time in type, unit or period, or a negative value\n",
            unweighed, unweighed == 1 ? "" : "s");
    if (gave_up > 0)
        fprintf(stderr, "profgate count: taken as no match: %llu search%s of a regex that ran out of steps\n",
                gave_up, gave_up == 1 ? "" : "es");
}

/* ---- the command --------------------------------------------------------------------------- */

static int count(const struct count_arguments *a, char **files, int n_files, const struct rule_files *rules,
                 struct error *e)
{
    struct budget budget = BUDGET_INIT((size_t)8 << 30, NULL);
    struct pipeline_options options = {
        .program = rules->program,
        .ingest = {.limits = {.column_bytes = (size_t)4 << 30, .depth = 64}},
        .budget = &budget,
    };
    struct aggregate_metric *metrics = pipeline_metrics(rules->program, &options.n_metrics);
    options.metrics = metrics;
    struct pipeline pipeline = {0};
    struct store *store = NULL;
    struct output *output = NULL;
    struct output_options all = OUTPUT_OPTIONS_DEFAULT;
    all.projection = a->resources ? PROJECT_ALL : PROJECT_KEEP;
    all.cardinality_limit = ALL_SERIES;
    all.max_resources = ALL_SERIES;
    if (metrics && pipeline_init(&pipeline, &options) == 0)
        store = store_new(metrics, options.n_metrics, 1, &budget, pipeline.stats);
    if (store)
        output = store_add_output(store, &all, clock_realtime());
    int r = output ? 0 : error_set(e, -ENOMEM, "out of memory");

    struct counter counter = {&pipeline, e};
    for (int i = 0; i < n_files && r == 0; i++) {
        r = capture_file_requests(files[i], count_request, &counter, e);
        store_apply(store, 0, aggregate_take(pipeline.aggregate), clock_realtime());
    }
    struct metric_batch *batch = NULL;
    if (r == 0)
        r = output_collect(output, clock_realtime(), &batch);
    if (r == 0) {
        put_in_order(batch);
        r = a->json ? print_json(batch, n_files) : print_batch(batch);
        tell_missing();
    }
    metric_batch_free(batch);
    store_free(store);
    pipeline_release(&pipeline);
    free(metrics);
    return r;
}

static int run(int argc, char **argv)
{
    struct count_arguments arguments = {.config = config_new(NULL)};
    struct rule_files rules = {0};
    struct error e = {""};
    int rest = argc;
    int r = arguments.config ? settings_flags(&flags, argc, argv, &arguments, NULL, &rest, &e) : -ENOMEM;
    int code = EXIT_USAGE;
    if (r == 0 && rest == argc)
        r = error_set(&e, -EINVAL, "name a captured request");
    if (r == 0)
        r = configure(&arguments, &e);
    if (r == 0)
        r = rule_files_load(&rules, arguments.config, NULL, &e);
    if (r == 0) {
        r = count(&arguments, argv + rest, argc - rest, &rules, &e);
        code = exit_of_work(r);
    }
    if (r < 0)
        fprintf(stderr, "profgate count: %s\n", e.text[0] ? e.text : "out of memory");
    rule_files_release(&rules);
    config_free(arguments.config);
    buffer_release(&arguments.files);
    buffer_release(&arguments.enable);
    buffer_release(&arguments.builtin);
    return code;
}

const struct settings_command count_command = {
    .name = "profgate count",
    .usage = "[--rules FILE]... FILE...",
    .doc = "classify captured requests offline and print the counters",
    .text =
        "Classifies captured requests (serialized ExportProfilesServiceRequest or ProfilesData, or OTLP/JSON,\n"
        "one request or one a line), pprof, folded stacks or what `perf script` printed, plain, gzip or zstd, and prints\n"
        "what was counted: resources and labels in their order, the largest value of a metric first.\n",
    .flags = &flags,
    .run = run,
};
