/* SPDX-License-Identifier: Apache-2.0 */
/* needs: dep_jsonc rules */
/*
 * The pack `connector` against what Elastic's profilingmetricsconnector answered on the same requests: every
 * number, name and attribute, by resource. tests/data/connector/NAME.default.json is its default
 * configuration, NAME.all.json has every option on and four custom aggregations.
 */
#include <dirent.h>
#include <json-c/json.h>
#include <limits.h>
#include <string.h>

#include "gateway/classify/classify.h"
#include "proto/otlp/view/profiles.h"
#include "rules/program/program.h"
#include "tests/unit/rules/rules_helper.h"
#include "tests/unit/gateway/classify/fake_aggregate.h"

static const char aggregations[] =
    "gauge samples.custom_aggregation { unit \"1\"  on any  value one  combine mean  each frame is /^runtime\\./\n"
    "    label frame_type = \"go-runtime\"  label profile.type_unit = type_unit }\n"
    "also gauge samples.custom_aggregation { each frame is /lock|futex|mutex/i\n"
    "    label frame_type = \"locking\"  label profile.type_unit = type_unit }\n"
    "also gauge samples.custom_aggregation { each frame is /^(?:tcp|sock|ip|__sock|inet)_/\n"
    "    label frame_type = \"net\"  label profile.type_unit = type_unit }\n"
    "also gauge samples.custom_aggregation { each frame is /java\\.util\\./\n"
    "    label frame_type = \"java-util\"  label profile.type_unit = type_unit }\n";

static const char everything[] = "rules 1\npack site\n"
                                 "enable samples.frame_type\n"
                                 "enable samples.classification\n";

static struct rule_set *compile(bool all)
{
    static struct buffer texts[2]; /* a shipped pack's outlives its set */
    struct buffer *text = &texts[all];
    text->n = 0;
    for (const struct embedded_file *f = rules_builtin; f->name; f++)
        if (strcmp(f->name, "connector.rules") == 0)
            buffer_add(text, f->data, f->size);
    ck_assert_uint_gt(text->n, 0);
    if (all)
        buffer_add_str(text, aggregations);
    struct rules_input inputs[] = {{"connector.rules", buffer_bytes(text), true},
                                   {"site.rules", bytes_str(everything), false}};
    return compile_set(inputs, all ? 2 : 1);
}

/* One expected or counted number, as "resource|metric|labels". */
struct point {
    char *key;
    int64_t value;
};
struct points {
    struct point *p;
    uint32_t n;
};

static void point_add(struct points *t, char *key, int64_t value)
{
    for (uint32_t i = 0; i < t->n; i++) {
        if (strcmp(t->p[i].key, key) == 0) {
            t->p[i].value += value;
            free(key);
            return;
        }
    }
    t->p = realloc(t->p, (t->n + 1) * sizeof *t->p);
    t->p[t->n++] = (struct point){key, value};
}

static char *attributes_text(struct json_object *attrs, bool typed)
{
    char *lines[64];
    size_t n = attrs ? json_object_array_length(attrs) : 0;
    cleanup(intern_release) struct intern one = INTERN_INIT(NULL);
    ck_assert_uint_le(n, 64);
    for (size_t i = 0; i < n; i++) {
        struct json_object *attr = json_object_array_get_idx(attrs, i), *value, *v;
        const char *key = json_object_get_string(json_object_object_get(attr, "key"));
        value = json_object_object_get(attr, "value");
        const char *kind = typed ? "s:" : "";
        char number[40] = "", *line;
        const char *text = NULL;
        if (json_object_object_get_ex(value, "stringValue", &v)) {
            text = json_object_get_string(v);
        } else if (json_object_object_get_ex(value, "intValue", &v)) {
            kind = "i:";
            text = json_object_get_string(v);
        } else if (json_object_object_get_ex(value, "boolValue", &v)) {
            kind = "b:";
            text = json_object_get_boolean(v) ? "1" : "0";
        } else if (json_object_object_get_ex(value, "doubleValue", &v)) {
            kind = "d:";
            snprintf(number, sizeof number, "%.17g", json_object_get_double(v));
            text = number;
        } else {
            kind = "?:";
            text = json_object_object_get_ex(value, "arrayValue", &v)    ? "5"
                   : json_object_object_get_ex(value, "kvlistValue", &v) ? "6"
                   : json_object_object_get_ex(value, "bytesValue", &v)  ? "7"
                                                                         : "0";
        }
        /* Our one deliberate difference: a label's text ends after 256 bytes (rules/LANGUAGE.md §9). All that
         * are longer here are ASCII, so no character is split. */
        ck_assert_int_ge(asprintf(&line, "%s=%s%.*s", key, kind, typed ? INT_MAX : 256, text), 0);
        lines[i] = line;
    }
    fake_intern(&one, "", lines, (uint32_t)n);
    char *text = unit_made(bytes_dup(intern_get(&one, 0)));
    return text;
}

static void expect_metric(struct points *t, const char *resource, struct json_object *metric)
{
    struct json_object *data;
    const char *name = json_object_get_string(json_object_object_get(metric, "name"));
    if (!json_object_object_get_ex(metric, "sum", &data))
        data = json_object_object_get(metric, "gauge");
    struct json_object *points = json_object_object_get(data, "dataPoints");
    for (size_t i = 0; i < json_object_array_length(points); i++) {
        struct json_object *point = json_object_array_get_idx(points, i), *attrs = NULL;
        json_object_object_get_ex(point, "attributes", &attrs);
        char *labels = attributes_text(attrs, false), *key;
        ck_assert_int_ge(asprintf(&key, "%s|%s|%s", resource, name, labels), 0);
        point_add(t, key, strtoll(json_object_get_string(json_object_object_get(point, "asInt")), NULL, 10));
        free(labels);
    }
}

static struct points expected(const char *path)
{
    struct points t = {0};
    struct json_object *all, *root = json_object_from_file(path);
    ck_assert_msg(root != NULL, "%s: %s", path, json_util_get_last_err());
    if (!json_object_object_get_ex(root, "resourceMetrics", &all))
        all = NULL;
    for (size_t i = 0; all && i < json_object_array_length(all); i++) {
        struct json_object *one = json_object_array_get_idx(all, i), *r = NULL, *attrs = NULL, *scopes;
        if (json_object_object_get_ex(one, "resource", &r))
            json_object_object_get_ex(r, "attributes", &attrs);
        autofree char *resource = attributes_text(attrs, true);
        scopes = json_object_object_get(one, "scopeMetrics");
        for (size_t j = 0; j < json_object_array_length(scopes); j++) {
            struct json_object *metrics =
                json_object_object_get(json_object_array_get_idx(scopes, j), "metrics");
            for (size_t k = 0; k < json_object_array_length(metrics); k++)
                expect_metric(&t, resource, json_object_array_get_idx(metrics, k));
        }
    }
    json_object_put(root);
    return t;
}

static struct points counted(const struct aggregate *a, const struct rules_program *program)
{
    struct points t = {0};
    for (uint32_t i = 0; i < a->n_sums; i++) {
        struct bytes resource = intern_get(&a->resources, a->sums[i].resource);
        struct bytes series = intern_get(&a->series, a->sums[i].series);
        const char *labels = unit_made(strchr((const char *)series.p, '\n')) + 1;
        const struct rule_metric *m = rules_program_metric(program, (uint32_t)atoi((const char *)series.p));
        char *key;
        ck_assert_int_ge(asprintf(&key, "%.*s|%.*s|%s", BYTES_FMT(resource), BYTES_FMT(m->name), labels), 0);
        point_add(&t, key, a->sums[i].value);
    }
    return t;
}

static int64_t find(const struct points *t, const char *key, bool *ret_found)
{
    *ret_found = false;
    for (uint32_t i = 0; i < t->n; i++) {
        if (strcmp(t->p[i].key, key) == 0) {
            *ret_found = true;
            return t->p[i].value;
        }
    }
    return 0;
}

static uint32_t compare(const char *name, const struct points *want, const struct points *have)
{
    uint32_t wrong = 0;
    bool found;
    for (uint32_t i = 0; i < want->n; i++) {
        int64_t value = find(have, want->p[i].key, &found);
        if (found && value == want->p[i].value)
            continue;
        if (wrong++ < 5)
            fprintf(stderr, "%s: %s: expected %lld, counted %lld%s\n", name, want->p[i].key,
                    (long long)want->p[i].value, (long long)value, found ? "" : " (no such series)");
    }
    for (uint32_t i = 0; i < have->n; i++) {
        find(want, have->p[i].key, &found);
        if (!found && wrong++ < 5)
            fprintf(stderr, "%s: %s: counted %lld, expected no such series\n", name, have->p[i].key,
                    (long long)have->p[i].value);
    }
    return wrong;
}

static void points_release(struct points *t)
{
    for (uint32_t i = 0; i < t->n; i++)
        free(t->p[i].key);
    free(t->p);
}

static void view_file(struct profiles *view, const char *name, unsigned char **ret_body)
{
    struct error e = {.text = ""};
    size_t len;
    *ret_body = unit_data(name, &len);
    ck_assert_msg(profiles_decode(view, bytes_of(*ret_body, len), &profiles_limits_default, &e) == 0,
                  "%s: %s", name, e.text);
}

/* One request through one classify, whose matcher may know other requests already. */
static uint32_t check_file(struct classify *c, struct aggregate *a, const struct rules_program *program,
                           const char *base, bool all)
{
    cleanup(profiles_release) struct profiles view;
    autofree unsigned char *body;
    char name[300], path[600];
    snprintf(name, sizeof name, "connector/%s.pb", base);
    snprintf(path, sizeof path, PG_SOURCE_DIR "/tests/data/connector/%s.%s.json", base,
             all ? "all" : "default");
    ck_assert_int_eq(profiles_init(&view, NULL), 0);
    view_file(&view, name, &body);
    a->n_sums = 0;
    ck_assert_int_eq(classify_push(c, &view), 0);
    cleanup(points_release) struct points want = expected(path), have = counted(a, program);
    return compare(path, &want, &have);
}

static void check_all(bool all)
{
    struct rule_set *set = compile(all);
    struct error e = {.text = ""};
    struct rules_program *program = unit_made(rules_program_new(set, &e));
    struct aggregate *a = unit_made(aggregate_new(NULL, 0, NULL));
    struct budget budget = BUDGET_INIT((size_t)1 << 30, NULL);
    struct classify *c = unit_made(classify_new(program, a, NULL, &budget));
    uint32_t files = 0, wrong = 0;
    for (int round = 0; round < 2; round++) { /* the second with everything remembered */
        DIR *dir = unit_made(opendir(PG_SOURCE_DIR "/tests/data/connector"));
        for (struct dirent *entry; (entry = readdir(dir));) {
            size_t n = strlen(entry->d_name);
            char base[256];
            if (n < 4 || strcmp(entry->d_name + n - 3, ".pb") != 0)
                continue;
            snprintf(base, sizeof base, "%.*s", (int)n - 3, entry->d_name);
            wrong += check_file(c, a, program, base, all);
            files++;
        }
        closedir(dir);
    }
    ck_assert_uint_ge(files, 2 * 20);
    ck_assert_uint_eq(wrong, 0);
    classify_free(c);
    ck_assert_uint_eq(budget.used, 0);
    aggregate_free(a);
    rules_program_free(program);
    rules_set_free(set);
}

UNIT(default_configuration)
{
    check_all(false);
}

UNIT(all_options)
{
    check_all(true);
}
