/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A batch as one line of OTLP/JSON (OTLP specification, "JSON Protobuf Encoding"). A small writer of its own:
 * there is nothing here that a JSON library's object tree would make shorter, and this runs over every series
 * at each flush.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "proto/base/macros.h"
#include "proto/otlp/json/text.h"
#include "proto/otlp/metrics/metrics.h"
#include "proto/wire/reader.h"

struct writer {
    struct buffer *out;
    int r; /* the first failure; nothing is written after it */
};

static void put(struct writer *w, const char *text)
{
    if (w->r == 0)
        w->r = buffer_add_str(w->out, text);
}

static void put_raw(struct writer *w, const void *p, size_t n)
{
    if (w->r == 0)
        w->r = buffer_add(w->out, p, n);
}

static void put_comma(struct writer *w, bool *first)
{
    if (!*first)
        put(w, ",");
    *first = false;
}

static void put_string(struct writer *w, struct bytes s)
{
    if (w->r == 0)
        w->r = json_write_string(w->out, s);
}

/* "name": */
static void put_key(struct writer *w, const char *name)
{
    put(w, "\"");
    put(w, name);
    put(w, "\":");
}

static void put_u64(struct writer *w, const char *name, uint64_t v)
{
    char text[32];
    snprintf(text, sizeof text, "\"%" PRIu64 "\"", v);
    put_key(w, name);
    put(w, text);
}

static void put_i64(struct writer *w, const char *name, int64_t v)
{
    char text[32];
    snprintf(text, sizeof text, "\"%" PRId64 "\"", v);
    put_key(w, name);
    put(w, text);
}

static void put_double(struct writer *w, const char *name, double v)
{
    put_key(w, name);
    if (w->r == 0)
        w->r = json_write_double(w->out, v);
}

static void put_base64(struct writer *w, struct bytes b)
{
    if (w->r == 0)
        w->r = json_write_base64(w->out, b);
}

/* ---- AnyValue -------------------------------------------------------------------------------- */

/* How deep arrays and lists may nest before a value is written as empty; the decoder's own limit is the same
 * (PROFILES_LIMITS_DEFAULT), so nothing that came in through it is lost. */
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
    bool is_map, first;
    bool in_pair; /* it is the value of a key itself */
};

struct open_lists {
    struct open_list item[VALUE_DEPTH_MAX];
    uint32_t n;
};

/* Writes {"xValue":…} whole, or the beginning of an array's or list's and pushes it. */
static void begin_value(struct writer *w, const struct attr_value *v, struct open_lists *lists, bool in_pair)
{
    bool is_list = v->kind == ATTR_ARRAY || v->kind == ATTR_KVLIST;
    put(w, "{");
    if (is_list && lists->n < VALUE_DEPTH_MAX) {
        put_key(w, v->kind == ATTR_ARRAY ? "arrayValue" : "kvlistValue");
        put(w, "{\"values\":[");
        lists->item[lists->n++] = (struct open_list){.rest = wire_reader(v->text),
                                                     .is_map = v->kind == ATTR_KVLIST,
                                                     .first = true,
                                                     .in_pair = in_pair};
        return;
    }
    switch (v->kind) {
    case ATTR_STRING:
        put_key(w, "stringValue");
        put_string(w, v->text);
        break;
    case ATTR_BOOL:
        put_key(w, "boolValue");
        put(w, v->boolean ? "true" : "false");
        break;
    case ATTR_INT: put_i64(w, "intValue", v->integer); break;
    case ATTR_DOUBLE: put_double(w, "doubleValue", v->real); break;
    case ATTR_BYTES:
        put_key(w, "bytesValue");
        put_base64(w, v->text);
        break;
    case ATTR_EMPTY:
    case ATTR_ARRAY:
    case ATTR_KVLIST: break;
    }
    put(w, in_pair ? "}}" : "}");
}

/* One element of the innermost list. */
static void put_element(struct writer *w, struct bytes message, bool is_map, struct open_lists *lists)
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
        put(w, "{\"key\":");
        put_string(w, key);
        put(w, ",\"value\":");
        message = inner;
    }
    struct attr_value v = parse_value(message);
    begin_value(w, &v, lists, is_map);
}

static void put_value(struct writer *w, const struct attr_value *value)
{
    struct open_lists lists = {.n = 0};
    begin_value(w, value, &lists, false);
    while (lists.n > 0 && w->r == 0) {
        struct open_list *list = &lists.item[lists.n - 1];
        struct wire_field f;
        if (wire_next(&list->rest, &f) != 0) {
            put(w, list->in_pair ? "]}}}" : "]}}");
            lists.n--;
        } else if (f.type == WIRE_LEN && f.number == 1) {
            put_comma(w, &list->first);
            put_element(w, f.bytes, list->is_map, &lists);
        }
    }
}

/* ---- the batch ------------------------------------------------------------------------------- */

/* "attributes":[…], nothing when there are none. */
static bool put_attrs(struct writer *w, const struct attr *attrs, uint32_t n)
{
    if (n == 0)
        return false;
    bool first = true;
    put(w, "\"attributes\":[");
    for (uint32_t i = 0; i < n; i++) {
        put_comma(w, &first);
        put(w, "{\"key\":");
        put_string(w, attrs[i].key);
        put(w, ",\"value\":");
        put_value(w, &attrs[i].value);
        put(w, "}");
    }
    put(w, "]");
    return true;
}

/* Trace and span ids are in hex, unlike other bytes (OTLP specification, "JSON Protobuf Encoding"). A span
 * id that is all zero is unknown: "". */
static void put_hex_id(struct writer *w, const char *name, const uint8_t *id, size_t n)
{
    static const char digit[] = "0123456789abcdef";
    uint8_t any = 0;
    put(w, ",");
    put_key(w, name);
    put(w, "\"");
    for (size_t i = 0; i < n; i++)
        any |= id[i];
    for (size_t i = 0; i < n && any; i++)
        put_raw(w, (char[2]){digit[id[i] >> 4], digit[id[i] & 15]}, 2);
    put(w, "\"");
}

static void put_exemplar(struct writer *w, const struct metric_exemplar *e, bool is_double)
{
    put(w, "\"exemplars\":[{");
    put_u64(w, "timeUnixNano", e->time_unix_nano);
    put(w, ",");
    if (is_double)
        put_double(w, "asDouble", e->real);
    else
        put_i64(w, "asInt", e->integer);
    put_hex_id(w, "spanId", e->span_id, sizeof e->span_id);
    put_hex_id(w, "traceId", e->trace_id, sizeof e->trace_id);
    put(w, "}]");
}

static void put_point(struct writer *w, const struct metric_point *p)
{
    put(w, "{");
    bool first = !put_attrs(w, p->attrs, p->n_attrs);
    if (p->start_unix_nano) {
        put_comma(w, &first);
        put_u64(w, "startTimeUnixNano", p->start_unix_nano);
    }
    if (p->time_unix_nano) {
        put_comma(w, &first);
        put_u64(w, "timeUnixNano", p->time_unix_nano);
    }
    put_comma(w, &first);
    if (p->stale)
        put(w, "\"flags\":1");
    else if (p->is_double)
        put_double(w, "asDouble", p->real);
    else
        put_i64(w, "asInt", p->integer);
    if (p->exemplar && !p->stale) {
        put(w, ",");
        put_exemplar(w, p->exemplar, p->is_double);
    }
    put(w, "}");
}

static void put_text_field(struct writer *w, const char *name, struct bytes text)
{
    if (text.n == 0)
        return;
    put(w, ",");
    put_key(w, name);
    put_string(w, text);
}

static void open_metric(struct writer *w, const struct metric *m)
{
    put(w, "{\"name\":");
    put_string(w, m->name);
    put_text_field(w, "description", m->description);
    put_text_field(w, "unit", m->unit);
    put(w, m->kind == METRIC_SUM ? ",\"sum\":{\"dataPoints\":[" : ",\"gauge\":{\"dataPoints\":[");
}

static void close_metric(struct writer *w, const struct metric *m)
{
    put(w, "]");
    if (m->kind == METRIC_SUM)
        put(w, m->temporality == METRIC_DELTA ? ",\"aggregationTemporality\":1,\"isMonotonic\":true"
                                              : ",\"aggregationTemporality\":2,\"isMonotonic\":true");
    put(w, "}}");
}

static void put_scope(struct writer *w, const struct metric_batch *b)
{
    put(w, "\"scope\":{");
    if (b->scope_name.n) {
        put_key(w, "name");
        put_string(w, b->scope_name);
    }
    if (b->scope_version.n) {
        if (b->scope_name.n)
            put(w, ",");
        put_key(w, "version");
        put_string(w, b->scope_version);
    }
    put(w, "}");
}

static void open_resource(struct writer *w, const struct metric_batch *b, const struct metric_resource *r)
{
    put(w, "{\"resource\":{");
    put_attrs(w, r->attrs, r->n_attrs);
    put(w, "},\"scopeMetrics\":[{");
    put_scope(w, b);
    put(w, ",\"metrics\":[");
}

static void close_resource(struct writer *w, const struct metric_resource *r)
{
    put(w, "]}]");
    put_text_field(w, "schemaUrl", r->schema_url);
    put(w, "}");
}

/* What closes a request in which a resource and a metric are open, without the resource's schema_url. */
#define CLOSING_MAX 128u

/* A request being written, up to a number of bytes. */
struct request {
    struct writer w;
    const struct metric_batch *batch;
    size_t begin, max_bytes;
    bool any, any_resource; /* points, resources in it */
    bool full;
};

/* The points of one metric from the first on; *open: its resource is open. How many were written. */
static uint32_t put_points(struct request *q, const struct metric_resource *r, const struct metric *m,
                           uint32_t first, bool *open, bool *any_metric)
{
    struct writer *w = &q->w;
    bool metric_open = false;
    uint32_t i = first;
    for (; i < m->n_points && w->r == 0 && !q->full; i++) {
        size_t before = w->out->n;
        bool comma = metric_open, had_resource = *open;
        if (!*open) {
            put(w, q->any_resource ? "," : "");
            open_resource(w, q->batch, r);
        }
        if (!metric_open) {
            put(w, had_resource && *any_metric ? "," : "");
            open_metric(w, m);
        }
        put(w, comma ? "," : "");
        put_point(w, &m->points[i]);
        size_t room = CLOSING_MAX + r->schema_url.n, written = w->out->n - q->begin;
        if (q->any && (room > q->max_bytes || written > q->max_bytes - room)) {
            w->out->n = before; /* it is the next request's */
            q->full = true;
            break;
        }
        q->any = q->any_resource = *open = metric_open = *any_metric = true;
    }
    if (metric_open)
        close_metric(w, m);
    return i - first;
}

int metrics_encode_json_part(const struct metric_batch *b, size_t max_bytes, uint32_t *from, uint32_t *place,
                             struct buffer *out)
{
    struct request q = {.w = {.out = out}, .batch = b, .begin = out->n, .max_bytes = max_bytes};
    uint32_t i = *from, at = *place;
    put(&q.w, "{\"resourceMetrics\":[");
    for (; i < b->n_resources && !q.full && q.w.r == 0; i += !q.full, at = q.full ? at : 0) {
        const struct metric_resource *r = &b->resources[i];
        bool open = false, any_metric = false;
        uint32_t before = 0; /* points of the resource before the metric */
        for (uint32_t m = 0; m < r->n_metrics && !q.full; before += r->metrics[m++].n_points)
            if (at < before + r->metrics[m].n_points)
                at += put_points(&q, r, &r->metrics[m], at - before, &open, &any_metric);
        if (open)
            close_resource(&q.w, r);
    }
    put(&q.w, "]}\n");
    if (q.w.r < 0) {
        out->n = q.begin;
        return q.w.r;
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
