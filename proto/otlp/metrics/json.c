/* SPDX-License-Identifier: Apache-2.0 */
/* A batch as one line of OTLP/JSON (OTLP specification, "JSON Protobuf Encoding"). */
#include <string.h>

#include "proto/base/json.h"
#include "proto/otlp/json/text.h"
#include "proto/otlp/metrics/metrics.h"
#include "proto/wire/reader.h"

/* ---- AnyValue -------------------------------------------------------------------------------- */

/* How deep arrays and lists may nest before a value is written as empty; the decoder's own limit is the same
 * (profiles_limits_default), so nothing that came in through it is lost. */
#define VALUE_DEPTH_MAX 64

/* A serialized AnyValue; of several members the last one counts, as with any oneof. */
static struct attr_value parse_value(struct bytes message)
{
    struct attr_value v = {.kind = ATTR_EMPTY};
    struct wire_reader reader = wire_reader(message);
    struct wire_field f;
    while (wire_next(&reader, &f) == 0) {
        switch (WIRE_TAG(f.number, f.type)) {
        case WIRE_TAG(1, WIRE_LEN): v = (struct attr_value){.kind = ATTR_STRING, .text = f.bytes}; break;
        case WIRE_TAG(2, WIRE_VARINT):
            v = (struct attr_value){.kind = ATTR_BOOL, .boolean = f.value != 0};
            break;
        case WIRE_TAG(3, WIRE_VARINT):
            v = (struct attr_value){.kind = ATTR_INT, .integer = (int64_t)f.value};
            break;
        case WIRE_TAG(4, WIRE_I64):
            v.kind = ATTR_DOUBLE;
            memcpy(&v.real, &f.value, sizeof v.real);
            break;
        case WIRE_TAG(5, WIRE_LEN): v = (struct attr_value){.kind = ATTR_ARRAY, .text = f.bytes}; break;
        case WIRE_TAG(6, WIRE_LEN): v = (struct attr_value){.kind = ATTR_KVLIST, .text = f.bytes}; break;
        case WIRE_TAG(7, WIRE_LEN): v = (struct attr_value){.kind = ATTR_BYTES, .text = f.bytes}; break;
        }
    }
    return v;
}

/* An array or a list that is being written. */
struct open_list {
    struct wire_reader rest;
    bool is_map;
    bool in_pair; /* it is the value of a key itself */
};

struct open_lists {
    struct open_list item[VALUE_DEPTH_MAX];
    uint32_t n;
};

/* Writes {"xValue":…} whole, or the beginning of an array's or list's and pushes it. */
static void begin_value(struct json *j, const struct attr_value *v, struct open_lists *lists, bool in_pair)
{
    bool is_list = v->kind == ATTR_ARRAY || v->kind == ATTR_KVLIST;
    json_open(j, '{');
    if (is_list && lists->n < VALUE_DEPTH_MAX) {
        json_key(j, v->kind == ATTR_ARRAY ? "arrayValue" : "kvlistValue"), json_open(j, '{');
        json_key(j, "values"), json_open(j, '[');
        lists->item[lists->n++] =
            (struct open_list){wire_reader(v->text), v->kind == ATTR_KVLIST, .in_pair = in_pair};
        return;
    }
    switch (v->kind) {
    case ATTR_STRING: json_key(j, "stringValue"), json_string(j, v->text); break;
    case ATTR_BOOL: json_key(j, "boolValue"), json_bool(j, v->boolean); break;
    case ATTR_INT: json_key(j, "intValue"), json_quoted_i64(j, v->integer); break;
    case ATTR_DOUBLE: json_key(j, "doubleValue"), json_double(j, v->real); break;
    case ATTR_BYTES: json_key(j, "bytesValue"), json_put_base64(j, v->text); break;
    case ATTR_EMPTY:
    case ATTR_ARRAY:
    case ATTR_KVLIST: break;
    }
    json_close(j, '}');
    if (in_pair)
        json_close(j, '}');
}

/* One element of the innermost list. */
static void put_element(struct json *j, struct bytes message, bool is_map, struct open_lists *lists)
{
    if (is_map) {
        struct bytes key = {0}, inner = {0};
        struct wire_reader reader = wire_reader(message);
        struct wire_field f;
        while (wire_next(&reader, &f) == 0) {
            if (f.type == WIRE_LEN && f.number == 1)
                key = f.bytes;
            else if (f.type == WIRE_LEN && f.number == 2)
                inner = f.bytes;
        }
        json_open(j, '{');
        json_key(j, "key"), json_string(j, key);
        json_key(j, "value");
        message = inner;
    }
    struct attr_value v = parse_value(message);
    begin_value(j, &v, lists, is_map);
}

static void put_value(struct json *j, const struct attr_value *value)
{
    struct open_lists lists = {.n = 0};
    begin_value(j, value, &lists, false);
    while (lists.n > 0 && j->r == 0) {
        struct open_list *list = &lists.item[lists.n - 1];
        struct wire_field f;
        if (wire_next(&list->rest, &f) != 0) {
            json_close(j, ']'), json_close(j, '}'), json_close(j, '}');
            if (list->in_pair)
                json_close(j, '}');
            lists.n--;
        } else if (f.type == WIRE_LEN && f.number == 1) {
            put_element(j, f.bytes, list->is_map, &lists);
        }
    }
}

/* ---- the batch ------------------------------------------------------------------------------- */

/* "attributes":[…], nothing when there are none. */
static void put_attrs(struct json *j, const struct attr *attrs, uint32_t n)
{
    if (n == 0)
        return;
    json_key(j, "attributes"), json_open(j, '[');
    for (uint32_t i = 0; i < n; i++) {
        json_open(j, '{');
        json_key(j, "key"), json_string(j, attrs[i].key);
        json_key(j, "value"), put_value(j, &attrs[i].value);
        json_close(j, '}');
    }
    json_close(j, ']');
}

/* Trace and span ids are in hex, unlike other bytes (OTLP specification, "JSON Protobuf Encoding"). A span
 * id that is all zero is unknown: "". */
static void put_hex_id(struct json *j, const char *name, const uint8_t *id, size_t n)
{
    uint8_t any = 0;
    for (size_t i = 0; i < n; i++)
        any |= id[i];
    json_key(j, name), json_put_hex(j, bytes_of(id, any ? n : 0));
}

static void put_time(struct json *j, const char *name, uint64_t unix_nano)
{
    if (unix_nano)
        json_key(j, name), json_quoted_u64(j, unix_nano);
}

static void put_number(struct json *j, bool is_double, double real, int64_t integer)
{
    if (is_double)
        json_key(j, "asDouble"), json_double(j, real);
    else
        json_key(j, "asInt"), json_quoted_i64(j, integer);
}

static void put_exemplar(struct json *j, const struct metric_exemplar *e, bool is_double)
{
    json_key(j, "exemplars"), json_open(j, '['), json_open(j, '{');
    json_key(j, "timeUnixNano"), json_quoted_u64(j, e->time_unix_nano);
    put_number(j, is_double, e->real, e->integer);
    put_hex_id(j, "spanId", e->span_id, sizeof e->span_id);
    put_hex_id(j, "traceId", e->trace_id, sizeof e->trace_id);
    json_close(j, '}'), json_close(j, ']');
}

static void put_distribution(struct json *j, const struct metric_distribution *d)
{
    json_key(j, "count"), json_quoted_u64(j, d->count);
    json_key(j, "sum"), json_double(j, d->sum);
    json_key(j, "bucketCounts"), json_open(j, '[');
    for (uint32_t i = 0; i <= d->n_bounds; i++)
        json_quoted_u64(j, d->counts[i]);
    json_close(j, ']');
    json_key(j, "explicitBounds"), json_open(j, '[');
    for (uint32_t i = 0; i < d->n_bounds; i++)
        json_double(j, d->bounds[i]);
    json_close(j, ']');
}

static void put_point(struct json *j, const struct metric_point *p, enum metric_kind kind)
{
    json_open(j, '{');
    put_attrs(j, p->attrs, p->n_attrs);
    put_time(j, "startTimeUnixNano", p->start_unix_nano);
    put_time(j, "timeUnixNano", p->time_unix_nano);
    if (p->stale)
        json_key(j, "flags"), json_u64(j, 1);
    else if (kind == METRIC_HISTOGRAM)
        put_distribution(j, p->distribution);
    else
        put_number(j, p->is_double, p->real, p->integer);
    if (p->exemplar && !p->stale)
        put_exemplar(j, p->exemplar, p->is_double);
    json_close(j, '}');
}

static void put_text_field(struct json *j, const char *name, struct bytes text)
{
    if (text.n > 0)
        json_key(j, name), json_string(j, text);
}

static void open_metric(struct json *j, const struct metric *m)
{
    json_open(j, '{');
    json_key(j, "name"), json_string(j, m->name);
    put_text_field(j, "description", m->description);
    put_text_field(j, "unit", m->unit);
    json_key(j, m->kind == METRIC_SUM         ? "sum"
                : m->kind == METRIC_HISTOGRAM ? "histogram"
                                              : "gauge"),
        json_open(j, '{');
    json_key(j, "dataPoints"), json_open(j, '[');
}

static void close_metric(struct json *j, const struct metric *m)
{
    json_close(j, ']');
    if (m->kind != METRIC_GAUGE)
        json_key(j, "aggregationTemporality"), json_u64(j, m->temporality);
    if (m->kind == METRIC_SUM)
        json_key(j, "isMonotonic"), json_bool(j, true);
    json_close(j, '}'), json_close(j, '}');
}

static void open_resource(struct json *j, const struct metric_batch *b, const struct metric_resource *r)
{
    json_open(j, '{');
    json_key(j, "resource"), json_open(j, '{');
    put_attrs(j, r->attrs, r->n_attrs);
    json_close(j, '}');
    json_key(j, "scopeMetrics"), json_open(j, '['), json_open(j, '{');
    json_key(j, "scope"), json_open(j, '{');
    put_text_field(j, "name", b->scope_name);
    put_text_field(j, "version", b->scope_version);
    json_close(j, '}');
    json_key(j, "metrics"), json_open(j, '[');
}

static void close_resource(struct json *j, const struct metric_resource *r)
{
    json_close(j, ']'), json_close(j, '}'), json_close(j, ']');
    put_text_field(j, "schemaUrl", r->schema_url);
    json_close(j, '}');
}

/* What closes a request in which a resource and a metric are open, without the resource's schema_url. */
#define CLOSING_MAX 128u

/* A request being written, up to a number of bytes. */
struct request {
    struct json json;
    const struct metric_batch *batch;
    size_t max_bytes;
    bool any; /* points in it */
    bool full;
};

/* The points of one metric from the first on; *open: its resource is open. How many were written. */
static uint32_t put_points(struct request *q, const struct metric_resource *r, const struct metric *m,
                           uint32_t first, bool *open)
{
    struct json *j = &q->json;
    bool metric_open = false;
    uint32_t i = first;
    for (; i < m->n_points && j->r == 0 && !q->full; i++) {
        size_t before = j->out->n;
        if (!*open)
            open_resource(j, q->batch, r);
        if (!metric_open)
            open_metric(j, m);
        put_point(j, &m->points[i], m->kind);
        size_t room = CLOSING_MAX + r->schema_url.n, written = j->out->n - j->from;
        if (q->any && (room > q->max_bytes || written > q->max_bytes - room)) {
            j->out->n = before; /* it is the next request's */
            q->full = true;
            break;
        }
        q->any = *open = metric_open = true;
    }
    if (metric_open)
        close_metric(j, m);
    return i - first;
}

int metrics_encode_json_part(const struct metric_batch *b, size_t max_bytes, uint32_t *from, uint32_t *place,
                             struct buffer *out)
{
    struct request q = {.json = JSON_INIT(out), .batch = b, .max_bytes = max_bytes};
    struct json *j = &q.json;
    uint32_t i = *from, at = *place;
    json_open(j, '{');
    json_key(j, "resourceMetrics"), json_open(j, '[');
    for (; i < b->n_resources && !q.full && j->r == 0; i += !q.full, at = q.full ? at : 0) {
        const struct metric_resource *r = &b->resources[i];
        bool open = false;
        uint32_t before = 0; /* points of the resource before the metric */
        for (uint32_t m = 0; m < r->n_metrics && !q.full; before += r->metrics[m++].n_points)
            if (at < before + r->metrics[m].n_points)
                at += put_points(&q, r, &r->metrics[m], at - before, &open);
        if (open)
            close_resource(j, r);
    }
    json_close(j, ']'), json_close(j, '}');
    if (j->r == 0)
        j->r = buffer_add_str(out, "\n");
    if (j->r < 0) {
        out->n = j->from;
        return j->r;
    }
    *from = i;
    *place = at;
    return 0;
}

int metrics_encode_json(const struct metric_batch *b, struct buffer *out)
{
    uint32_t from = 0, place = 0;
    return metrics_encode_json_part(b, SIZE_MAX, &from, &place, out);
}
