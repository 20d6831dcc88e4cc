/* SPDX-License-Identifier: Apache-2.0 */
/* The document has one loop, over series, and a place in it: pieces end between two of them. Commas between
 * elements that may stand in two pieces are written here, all others by proto/base/json.h. */
#include "gateway/run/metrics_json.h"

#include <stdlib.h>

#include "gateway/stats/block.h"
#include "proto/base/intern.h"
#include "proto/base/json.h"
#include "proto/otlp/json/text.h"
#include "rules/program/program.h"

struct metrics_json {
    const struct metric_batch *batch;
    const struct rules_program *program;
    const char *pack;
    struct intern names;              /* of the metrics shown; the number is the one in the document */
    bool begun;                       /* the head stands there */
    bool has_resources, has_series;   /* in the document; in the resource that is open */
    bool is_open;                     /* a resource is */
    uint32_t resource, metric, point; /* the next one */
};

static bool is_shown(const struct metrics_json *p, const struct rule_metric *m)
{
    return !p->pack[0] || bytes_is(m->pack, p->pack);
}

struct metrics_json *metrics_json_new(const struct metric_batch *batch, const struct rules_program *program,
                                      const char *pack)
{
    struct metrics_json *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->batch = batch;
    p->program = program;
    p->pack = pack;
    for (uint32_t i = 0; i < rules_program_metrics(program); i++) {
        const struct rule_metric *m = rules_program_metric(program, i);
        if (is_shown(p, m) && intern_add(&p->names, m->name) == INTERN_NONE)
            return metrics_json_free(p);
    }
    return p;
}

struct metrics_json *metrics_json_free(struct metrics_json *p)
{
    if (p) {
        intern_release(&p->names);
        free(p);
    }
    return NULL;
}

/* The names of all sources' labels, each once; a metric has a few. */
static void put_label_names(struct json *j, const struct rule_metric *m)
{
    json_open(j, '[');
    for (uint32_t s = 0; s < m->n_sources; s++) {
        for (uint32_t l = 0; l < m->sources[s].n_labels; l++) {
            struct bytes name = m->sources[s].labels[l].name;
            bool again = false;
            for (uint32_t before = 0; before < s && !again; before++)
                for (uint32_t k = 0; k < m->sources[before].n_labels && !again; k++)
                    again = bytes_eq(m->sources[before].labels[k].name, name);
            if (!again)
                json_string(j, name);
        }
    }
    json_close(j, ']');
}

/* The language's words (rules/LANGUAGE.md, "on"). */
static const char *const kinds[] = {
    [RULE_KIND_CPU] = "cpu",     [RULE_KIND_WALL] = "wall", [RULE_KIND_OFF_CPU] = "off_cpu",
    [RULE_KIND_ALLOC] = "alloc", [RULE_KIND_LOCK] = "lock", [RULE_KIND_ANY] = "any",
};

static int put_head(struct metrics_json *p, struct buffer *out)
{
    struct json j = JSON_INIT(out);
    json_open(&j, '{');
    json_key(&j, "samples"), json_u64(&j, stats_read(STATS_SAMPLES));
    json_key(&j, "metrics"), json_open(&j, '[');
    for (uint32_t i = 0; i < rules_program_metrics(p->program); i++) {
        const struct rule_metric *m = rules_program_metric(p->program, i);
        if (!is_shown(p, m))
            continue;
        json_open(&j, '{');
        json_key(&j, "name"), json_string(&j, m->name);
        json_key(&j, "pack"), json_string(&j, m->pack);
        json_key(&j, "describe"), json_string(&j, m->describe);
        json_key(&j, "unit"), json_string(&j, m->unit);
        if (m->sources[0].on_kind)
            json_key(&j, "on"), json_string(&j, bytes_str(kinds[m->sources[0].kind]));
        json_key(&j, "kind"), json_string(&j, bytes_str(m->gauge ? "gauge" : "counter"));
        json_key(&j, "labels"), put_label_names(&j, m);
        json_close(&j, '}');
    }
    json_close(&j, ']');
    json_key(&j, "resources"), json_open(&j, '[');
    p->begun = j.r == 0;
    return j.r;
}

/* Attributes whose value is no text, number or truth are kept apart by the hex of their message, as on
 * /metrics. */
static void put_attrs(struct json *j, const struct attr *attrs, uint32_t n)
{
    json_open(j, '{');
    for (uint32_t i = 0; i < n; i++) {
        const struct attr_value *v = &attrs[i].value;
        json_string_key(j, attrs[i].key);
        switch (v->kind) {
        case ATTR_STRING: json_string(j, v->text); break;
        case ATTR_BOOL: json_bool(j, v->boolean); break;
        case ATTR_INT: json_i64(j, v->integer); break;
        case ATTR_DOUBLE: json_double(j, v->real); break;
        case ATTR_BYTES:
        case ATTR_ARRAY:
        case ATTR_KVLIST: json_put_hex(j, v->text); break;
        case ATTR_EMPTY: json_null(j); break;
        }
    }
    json_close(j, '}');
}

static int put_comma(struct buffer *out, bool *ret_has_any)
{
    int r = *ret_has_any ? buffer_add_str(out, ",") : 0;
    *ret_has_any = true;
    return r;
}

static int open_resource(struct metrics_json *p, const struct metric_resource *resource, struct buffer *out)
{
    int r = put_comma(out, &p->has_resources);
    if (r < 0)
        return r;
    struct json j = JSON_INIT(out);
    json_open(&j, '{');
    json_key(&j, "attributes"), put_attrs(&j, resource->attrs, resource->n_attrs);
    json_key(&j, "series"), json_open(&j, '[');
    p->is_open = true;
    p->has_series = false;
    return j.r;
}

static int put_series(struct metrics_json *p, uint32_t number, const struct metric_point *point,
                      struct buffer *out)
{
    int r = p->is_open ? 0 : open_resource(p, &p->batch->resources[p->resource], out);
    if (r == 0)
        r = put_comma(out, &p->has_series);
    if (r < 0)
        return r;
    struct json j = JSON_INIT(out);
    json_open(&j, '{');
    json_key(&j, "metric"), json_u64(&j, number);
    json_key(&j, "labels"), put_attrs(&j, point->attrs, point->n_attrs);
    json_key(&j, "value");
    if (point->is_double)
        json_double(&j, point->real);
    else
        json_i64(&j, point->integer);
    json_close(&j, '}');
    return j.r;
}

static int next_resource(struct metrics_json *p, struct buffer *out)
{
    p->metric = p->point = 0;
    p->resource++;
    int r = p->is_open ? buffer_add_str(out, "]}") : 0;
    p->is_open = false;
    return r;
}

int metrics_json_next(struct metrics_json *p, size_t enough, struct buffer *out)
{
    const size_t begin = out->n;
    int r = p->begun ? 0 : put_head(p, out);
    while (r == 0 && out->n - begin < enough && p->resource < p->batch->n_resources) {
        const struct metric_resource *resource = &p->batch->resources[p->resource];
        if (p->metric == resource->n_metrics) {
            r = next_resource(p, out);
            continue;
        }
        const struct metric *m = &resource->metrics[p->metric];
        uint32_t number = intern_find(&p->names, m->name);
        if (number == INTERN_NONE || p->point == m->n_points) {
            p->point = 0;
            p->metric++;
        } else {
            struct metric_point room;
            const struct metric_point *point = metric_point_of(p->batch, m, p->point++, &room);
            r = point->stale ? 0 : put_series(p, number, point, out);
        }
    }
    if (r < 0 || p->resource < p->batch->n_resources)
        return r;
    r = buffer_add_str(out, "]}\n");
    return r < 0 ? r : METRICS_JSON_ENDS;
}
