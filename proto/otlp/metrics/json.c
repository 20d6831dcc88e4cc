/* SPDX-License-Identifier: Apache-2.0 */
/* A batch as one line of OTLP/JSON (OTLP specification, "JSON Protobuf Encoding"). */
#include <string.h>

#include "proto/base/json.h"
#include "proto/otlp/json/text.h"
#include "proto/otlp/json/write.h"
#include "proto/otlp/metrics/metrics.h"

/* ---- AnyValue -------------------------------------------------------------------------------- */

/* What cannot be read of it is no member; the decoder lets none of that in. */
static void put_list(struct json *j, const char *name, enum message message, struct bytes list)
{
    const size_t before = j->out->n;
    json_key(j, name);
    const int r = json_put_message(j, message, list);
    if (r < 0)
        j->r = r;
    else if (r > 0)
        j->out->n = before;
}

static void put_value(struct json *j, const struct attr_value *v)
{
    json_open(j, '{');
    switch (v->kind) {
    case ATTR_STRING: json_key(j, "stringValue"), json_string(j, v->text); break;
    case ATTR_BOOL: json_key(j, "boolValue"), json_bool(j, v->boolean); break;
    case ATTR_INT: json_key(j, "intValue"), json_quoted_i64(j, v->integer); break;
    case ATTR_DOUBLE: json_key(j, "doubleValue"), json_double(j, v->real); break;
    case ATTR_BYTES: json_key(j, "bytesValue"), json_put_base64(j, v->text); break;
    case ATTR_ARRAY: put_list(j, "arrayValue", MESSAGE_ARRAY_VALUE, v->text); break;
    case ATTR_KVLIST: put_list(j, "kvlistValue", MESSAGE_KEY_VALUE_LIST, v->text); break;
    case ATTR_EMPTY: break;
    }
    json_close(j, '}');
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
