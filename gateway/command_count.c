#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/aggregate/store.h"
#include "gateway/command.h"
#include "gateway/flags.h"
#include "gateway/pipeline.h"
#include "gateway/rule_files.h"
#include "proto/base/clock.h"
#include "proto/base/macros.h"
#include "proto/coding/coding.h"
#include "proto/otlp/json_reader.h"
#include "proto/otlp/metrics.h"
#include "proto/otlp/profiles_json.h"

#define CAPTURE_MAX (1u << 30) /* bytes of one capture, plain */
#define ALL_SERIES  1000000u   /* offline nothing is folded away */

struct count_arguments {
    struct config *config;
    struct buffer files, enable, builtin;
    bool json, resources;
};

/* ---- arguments
 * ------------------------------------------------------------------------------------------------- */

static int add_item(struct buffer *list, const char *value)
{
    return list->n > 0 ? buffer_printf(list, ",%s", value) : buffer_add_str(list, value);
}

static int set_rules(void *target, const char *value, struct error *e)
{
    return add_item(&((struct count_arguments *)target)->files, value);
}

static int set_enable(void *target, const char *value, struct error *e)
{
    return add_item(&((struct count_arguments *)target)->enable, value);
}

static int set_builtin(void *target, const char *value, struct error *e)
{
    return add_item(&((struct count_arguments *)target)->builtin, value);
}

static int set_json(void *target, const char *value, struct error *e)
{
    ((struct count_arguments *)target)->json = true;
    return 0;
}

static int set_resources(void *target, const char *value, struct error *e)
{
    ((struct count_arguments *)target)->resources = true;
    return 0;
}

static const struct flag flags[] = {
    {"rules", "FILE", "a rule file beside the shipped packs; may be repeated", set_rules},
    {"enable", "METRIC", "a metric that is shipped switched off; may be repeated", set_enable},
    {"builtin", "PACKS", "shipped packs to count with: all, none, or names; default all", set_builtin},
    {"resources", NULL, "keep resources (processes) apart instead of adding them up", set_resources},
    {"json", NULL, "print totals and the metrics as OTLP/JSON", set_json},
};

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

/* ---- counting
 * -------------------------------------------------------------------------------------------------- */

/* Reads a file, gunzipped if it is gzip, with the padding the decoder wants. */
static int read_capture(const char *path, struct buffer *out, struct error *e)
{
    FILE *f = fopen(path, "rbe");
    if (!f)
        return error_set(e, -errno, "cannot read %s: %s", path, strerror(errno));
    struct buffer raw = BUFFER_INIT(CAPTURE_MAX);
    int r = 0;
    size_t n;
    do {
        uint8_t *at = buffer_cursor(&raw, 1 << 16);
        n = at ? fread(at, 1, 1 << 16, f) : 0;
        raw.n += n;
        if (!at)
            r = error_set(e, -EFBIG, "%s: longer than 1 GiB, or out of memory", path);
    } while (n > 0);
    if (r == 0 && ferror(f))
        r = error_set(e, -EIO, "cannot read %s", path);
    fclose(f);
    out->n = 0;
    if (r == 0 && raw.n >= 2 && raw.p[0] == 0x1f && raw.p[1] == 0x8b) {
        struct coding_decoder *decoder = coding_decoder_new();
        r = decoder ? coding_decode(decoder, CODING_GZIP, buffer_bytes(&raw), CAPTURE_MAX, PROFILES_PADDING,
                                    NULL, out)
                    : -ENOMEM;
        coding_decoder_free(decoder);
        if (r != 0)
            r = error_set(e, -EINVAL, "%s: corrupt gzip, or longer than 1 GiB", path);
    } else if (r == 0) {
        r = buffer_add_bytes(out, buffer_bytes(&raw));
        if (r == 0)
            r = buffer_reserve(out, PROFILES_PADDING);
    }
    buffer_release(&raw);
    return r;
}

/* `place` is the file, and the line in it where there are several requests. */
static int count_request(struct pipeline *p, const char *place, struct bytes body,
                         enum profiles_layout layout, struct error *e)
{
    struct ingest_answer answer;
    ingest_push(p->ingest, body, layout, &answer);
    if (answer.verdict != INGEST_ACCEPTED)
        return error_set(e, -EBADMSG, "%s: %s", place, answer.message.text);
    if (answer.rejected_profiles > 0)
        fprintf(stderr, "%s: %s\n", place, answer.message.text);
    return 0;
}

#define PLACE_MAX 512 /* bytes of a path and a line number in a message */

/* OTLP/JSON: one request, or as many as there are, one behind the other: the Collector's file exporter writes
 * one a line. */
static int count_json(struct pipeline *p, const char *path, struct bytes texts, struct error *e)
{
    static const struct profiles_limits limits = PROFILES_LIMITS_DEFAULT;
    struct buffer proto = BUFFER_INIT(CAPTURE_MAX);
    unsigned line = 1;
    int r = 0;
    do {
        char place[PLACE_MAX];
        snprintf(place, sizeof place, "%s:%u", path, line);
        size_t n = json_text_length(texts);
        struct bytes text = bytes_of(texts.p, n > 0 ? n : texts.n); /* if it is none, we are told where */
        proto.n = 0;
        r = profiles_json_transcode(text, &limits, NULL, &proto, e);
        if (r == 0)
            r = count_request(p, place, buffer_bytes(&proto), PROFILES_LAYOUT_1_10, e);
        else if (r < 0)
            error_set(e, r, "%s: out of memory, or longer than 1 GiB as protobuf", place);
        else
            r = error_prefix(e, -EBADMSG, "%s: ", place);
        texts = bytes_of(texts.p + text.n, texts.n - text.n);
        for (size_t i = 0; i < text.n; i++)
            line += text.p[i] == '\n';
        while (texts.n > 0 && strchr(" \t\r\n", texts.p[0]) && texts.p[0] != '\0') {
            line += texts.p[0] == '\n';
            texts = bytes_of(texts.p + 1, texts.n - 1);
        }
    } while (r == 0 && texts.n > 0);
    buffer_release(&proto);
    return r;
}

static int count_file(struct pipeline *p, const char *path, struct buffer *body, struct error *e)
{
    int r = read_capture(path, body, e);
    if (r < 0)
        return r;
    if (body->n > 0 && body->p[0] == '{') /* as protobuf that were a group, which no OTLP message has */
        return count_json(p, path, buffer_bytes(body), e);
    memset(body->p + body->n, 0, PROFILES_PADDING);
    return count_request(p, path, buffer_bytes(body), PROFILES_LAYOUT_UNKNOWN, e);
}

/* ---- printing
 * -------------------------------------------------------------------------------------------------- */

static void print_value(const struct attr_value *v)
{
    switch (v->kind) {
    case ATTR_STRING: printf("\"%.*s\"", BYTES_FMT(v->text)); break;
    case ATTR_BOOL: fputs(v->boolean ? "true" : "false", stdout); break;
    case ATTR_INT: printf("%lld", (long long)v->integer); break;
    case ATTR_DOUBLE: printf("%.17g", v->real); break;
    default: printf("(%zu bytes)", v->text.n); break;
    }
}

static void print_attrs(const struct attr *attrs, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        printf("%s%.*s=", i ? ", " : "", BYTES_FMT(attrs[i].key));
        print_value(&attrs[i].value);
    }
}

static double number(const struct metric_point *p)
{
    return p->is_double ? p->real : (double)p->integer;
}

static int by_value(const void *a, const void *b)
{
    double x = number(a), y = number(b);
    return x > y ? -1 : x < y;
}

static void print_batch(const struct metric_batch *batch)
{
    for (uint32_t i = 0; i < batch->n_resources; i++) {
        struct metric_resource *r = &batch->resources[i];
        if (r->n_attrs > 0) {
            fputs("# ", stdout);
            print_attrs(r->attrs, r->n_attrs);
            fputs("\n", stdout);
        }
        for (uint32_t j = 0; j < r->n_metrics; j++) {
            struct metric *m = &r->metrics[j];
            qsort(m->points, m->n_points, sizeof *m->points, by_value);
            for (uint32_t k = 0; k < m->n_points; k++) {
                printf("%.*s {", BYTES_FMT(m->name));
                print_attrs(m->points[k].attrs, m->points[k].n_attrs);
                if (m->points[k].is_double)
                    printf("} %.9g %.*s\n", m->points[k].real, BYTES_FMT(m->unit));
                else
                    printf("} %lld\n", (long long)m->points[k].integer);
            }
        }
    }
}

static int print_json(const struct metric_batch *batch, int n_files)
{
    struct buffer line = {0};
    int r = metrics_encode_json(batch, &line);
    if (r == 0)
        printf(
            "{\"files\": %d, \"profiles\": %llu, \"samples\": %llu, \"rejected_samples\": %llu, \"metrics\": %.*s}\n",
            n_files, (unsigned long long)stats_read(STATS_PROFILES),
            (unsigned long long)stats_read(STATS_SAMPLES),
            (unsigned long long)stats_read(STATS_SAMPLES_REJECTED), (int)(line.n > 0 ? line.n - 1 : 0),
            (char *)line.p);
    buffer_release(&line);
    return r;
}

/* ---- the command
 * ----------------------------------------------------------------------------------------------- */

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

    struct buffer body = {0};
    for (int i = 0; i < n_files && r == 0; i++) {
        r = count_file(&pipeline, files[i], &body, e);
        store_apply(store, 0, aggregate_take(pipeline.aggregate), clock_realtime());
    }
    struct metric_batch *batch = NULL;
    if (r == 0)
        r = output_collect(output, clock_realtime(), &batch);
    if (r == 0 && a->json)
        r = print_json(batch, n_files);
    else if (r == 0)
        print_batch(batch);
    metric_batch_free(batch);
    buffer_release(&body);
    store_free(store);
    pipeline_release(&pipeline);
    free(metrics);
    return r;
}

int command_count(int argc, char **argv)
{
    struct count_arguments arguments = {.config = config_new()};
    struct rule_files rules = {0};
    struct error e = {""};
    int rest = argc;
    int r =
        arguments.config ? flags_parse(flags, ARRAY_LEN(flags), argc, argv, &arguments, &rest, &e) : -ENOMEM;
    int code = EXIT_USAGE;
    if (r == FLAGS_HELP) {
        flags_help(
            "count [--rules FILE]... FILE...",
            "Classifies captured requests (serialized ExportProfilesServiceRequest or ProfilesData, or OTLP/JSON, one\n"
            "request or one a line; plain or gzip) and prints what was counted.\n",
            flags, ARRAY_LEN(flags));
        code = EXIT_DONE;
    } else {
        if (r == 0 && rest == argc)
            r = error_set(&e, -EINVAL, "name a captured request");
        if (r == 0)
            r = configure(&arguments, &e);
        if (r == 0)
            r = rule_files_load(&rules, arguments.config, &e);
        if (r == 0) {
            r = count(&arguments, argv + rest, argc - rest, &rules, &e);
            code = r == 0 ? EXIT_DONE : EXIT_NO;
        }
        if (r < 0)
            fprintf(stderr, "profgate count: %s\n", e.text[0] ? e.text : "out of memory");
    }
    rule_files_release(&rules);
    config_free(arguments.config);
    buffer_release(&arguments.files);
    buffer_release(&arguments.enable);
    buffer_release(&arguments.builtin);
    return code;
}
