/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ExportMetricsServiceRequest, written by hand: no object graph (README.md has the figures).
 *
 * Metrics are appended one after the other. What a point takes is known before it is written, so that those
 * of a metric that fit are counted first, and its messages (Metric, Sum) then written where they stay. Those
 * around them (ResourceMetrics, ScopeMetrics) are opened with the first point that is in them, and closed
 * behind the last. The first point that does not fit is where the next request begins.
 */
#include "proto/base/macros.h"
#include "proto/otlp/layouts/fields.h"
#include "proto/otlp/metrics/fields.h"
#include "proto/otlp/metrics/metrics.h"
#include "proto/wire/writer.h"

/* Most bytes a tag and a length take, for a message below 4 GiB. */
#define PREFIX_MAX 6u

/* What an AnyValue and a KeyValue take; their tags are all of one byte. */

static size_t value_size(const struct attr_value *v)
{
    switch (v->kind) {
    case ATTR_EMPTY: break;
    case ATTR_BOOL: return 2;
    case ATTR_INT: return 1 + wire_varint_size((uint64_t)v->integer);
    case ATTR_DOUBLE: return 1 + sizeof v->real;
    case ATTR_STRING:
    case ATTR_ARRAY:
    case ATTR_KVLIST:
    case ATTR_BYTES: return 1 + wire_varint_size(v->text.n) + v->text.n;
    }
    return 0;
}

static size_t attr_size(struct bytes key, size_t value)
{
    return (key.n > 0 ? 1 + wire_varint_size(key.n) + key.n : 0) + 1 + wire_varint_size(value) + value;
}

static uint8_t *store_tag(uint8_t *p, uint32_t field, uint32_t type)
{
    *p = (uint8_t)WIRE_TAG(field, type);
    return p + 1;
}

static uint8_t *store_double(uint8_t *p, double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    return wire_store_fixed64(p, bits);
}

static uint8_t *store_value(uint8_t *p, const struct attr_value *v)
{
    switch (v->kind) {
    case ATTR_EMPTY: break;
    case ATTR_STRING: return wire_store_bytes(p, ANY_VALUE_STRING_VALUE, v->text);
    case ATTR_BOOL:
        p = store_tag(p, ANY_VALUE_BOOL_VALUE, WIRE_VARINT);
        return wire_store_varint(p, v->boolean);
    case ATTR_INT:
        p = store_tag(p, ANY_VALUE_INT_VALUE, WIRE_VARINT);
        return wire_store_varint(p, (uint64_t)v->integer);
    case ATTR_DOUBLE: return store_double(store_tag(p, ANY_VALUE_DOUBLE_VALUE, WIRE_I64), v->real);
    case ATTR_ARRAY: return wire_store_bytes(p, ANY_VALUE_ARRAY_VALUE, v->text);
    case ATTR_KVLIST: return wire_store_bytes(p, ANY_VALUE_KVLIST_VALUE, v->text);
    case ATTR_BYTES: return wire_store_bytes(p, ANY_VALUE_BYTES_VALUE, v->text);
    }
    return p;
}

/* Each is written where it stays: its lengths are known before. */
static void put_attrs(struct wire_writer *w, uint32_t field, const struct attr *attrs, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        const struct bytes key = attrs[i].key;
        const size_t value = value_size(&attrs[i].value), attr = attr_size(key, value);
        uint8_t *p = wire_room(w, PREFIX_MAX + attr);
        if (!p)
            return;
        p = wire_store_varint(store_tag(p, field, WIRE_LEN), attr);
        if (key.n > 0)
            p = wire_store_bytes(p, KEY_VALUE_KEY, key);
        p = wire_store_varint(store_tag(p, KEY_VALUE_VALUE, WIRE_LEN), value);
        wire_filled(w, store_value(p, &attrs[i].value));
    }
}

static bool is_zero(const uint8_t *p, size_t n)
{
    uint8_t any = 0;
    for (size_t i = 0; i < n; i++)
        any |= p[i];
    return any == 0;
}

static size_t exemplar_size(const struct metric_exemplar *e)
{
    const size_t span = is_zero(e->span_id, sizeof e->span_id) ? 0 : 2 + sizeof e->span_id;
    return 9 + 9 + span + 2 + sizeof e->trace_id;
}

static uint8_t *store_exemplar(uint8_t *p, const struct metric_exemplar *e, bool is_double)
{
    p = wire_store_varint(store_tag(p, POINT_EXEMPLARS, WIRE_LEN), exemplar_size(e));
    p = wire_store_fixed64(store_tag(p, EXEMPLAR_TIME, WIRE_I64), e->time_unix_nano);
    if (is_double)
        p = store_double(store_tag(p, EXEMPLAR_AS_DOUBLE, WIRE_I64), e->real);
    if (!is_zero(e->span_id, sizeof e->span_id))
        p = wire_store_bytes(p, EXEMPLAR_SPAN, bytes_of(e->span_id, sizeof e->span_id));
    p = wire_store_bytes(p, EXEMPLAR_TRACE, bytes_of(e->trace_id, sizeof e->trace_id));
    if (!is_double)
        p = wire_store_fixed64(store_tag(p, EXEMPLAR_AS_INT, WIRE_I64), (uint64_t)e->integer);
    return p;
}

static void put_distribution(struct wire_writer *w, const struct metric_distribution *d)
{
    wire_put_fixed64(w, HISTOGRAM_COUNT, d->count);
    wire_put_double(w, HISTOGRAM_SUM, d->sum);
    wire_put_packed_fixed64(w, HISTOGRAM_BUCKET_COUNTS, d->counts, d->n_bounds + 1);
    wire_put_packed_double(w, HISTOGRAM_EXPLICIT_BOUNDS, d->bounds, d->n_bounds);
}

/* ---- what points share ---- */

/* A label set comes in each resource that has it, and a metric's name, description and unit in each resource:
 * they are encoded once, beside the message, and copied from there. They are known by their address, so that
 * of metrics and points that share none each costs a look at its slot. */
#define SHARED_SLOTS     256u
#define SHARED_BYTES_MAX ((size_t)256 << 10)

struct shared {
    struct buffer bytes;
    struct shared_labels {
        const struct attr *attrs;
        uint32_t n_attrs, from, n;
    } labels[SHARED_SLOTS];
    struct shared_head {
        const struct metric *metric;
        uint32_t from, n;
    } heads[SHARED_SLOTS];
};

struct request {
    struct wire_writer w;
    const struct metric_batch *b;
    struct shared *shared;
    size_t bytes, max_bytes;        /* what the points so far take at most */
    bool any, in_resource;          /* a point is there; one's resource is open */
    size_t resource, scope_metrics; /* marks */
};

static uint32_t slot_of(const void *p)
{
    return (uint32_t)((uintptr_t)p * 0x9e3779b97f4a7c15u >> 56) % SHARED_SLOTS;
}

/* Where the next is encoded. */
static struct wire_writer shared_writer(struct shared *s)
{
    if (s->bytes.n > SHARED_BYTES_MAX) {
        buffer_clear(&s->bytes, 2 * SHARED_BYTES_MAX);
        memset(s->labels, 0, sizeof s->labels);
        memset(s->heads, 0, sizeof s->heads);
    }
    return wire_writer(&s->bytes);
}

static struct bytes shared_bytes(const struct shared *s, uint32_t from, uint32_t n)
{
    return n > 0 ? bytes_of(s->bytes.p + from, n) : (struct bytes){0};
}

static __attribute__((noinline)) void encode_labels(struct request *q, const struct metric_point *p,
                                                    struct shared_labels *slot)
{
    struct wire_writer w = shared_writer(q->shared);
    const size_t from = w.out->n;
    put_attrs(&w, POINT_ATTRIBUTES, p->attrs, p->n_attrs);
    if (w.failed < 0)
        q->w.failed = w.failed;
    *slot = (struct shared_labels){p->attrs, p->n_attrs, (uint32_t)from, (uint32_t)(w.out->n - from)};
}

/* A number's labels, encoded. */
static inline struct bytes labels_of(struct request *q, const struct metric_point *p)
{
    struct shared_labels *slot = &q->shared->labels[slot_of(p->attrs)];
    if (unlikely(slot->attrs != p->attrs || slot->n_attrs != p->n_attrs))
        encode_labels(q, p, slot);
    return shared_bytes(q->shared, slot->from, slot->n);
}

static bool has_same_head(const struct metric *a, const struct metric *b)
{
    return a && a->name.p == b->name.p && a->description.p == b->description.p && a->unit.p == b->unit.p &&
           a->name.n == b->name.n && a->description.n == b->description.n && a->unit.n == b->unit.n;
}

static struct bytes head_of(struct request *q, const struct metric *m)
{
    struct shared_head *slot = &q->shared->heads[slot_of(m->name.p)];
    if (unlikely(!has_same_head(slot->metric, m))) {
        struct wire_writer w = shared_writer(q->shared);
        const size_t from = w.out->n;
        wire_put_bytes_nonempty(&w, METRIC_NAME, m->name);
        wire_put_bytes_nonempty(&w, METRIC_DESCRIPTION, m->description);
        wire_put_bytes_nonempty(&w, METRIC_UNIT, m->unit);
        if (w.failed < 0)
            q->w.failed = w.failed;
        *slot = (struct shared_head){m, (uint32_t)from, (uint32_t)(w.out->n - from)};
    }
    return shared_bytes(q->shared, slot->from, slot->n);
}

/* ---- points: what one takes, without the field in front of it, and how it is written ---- */

static size_t time_size(uint64_t unix_nano)
{
    return unix_nano ? 9 : 0;
}

static size_t packed_size(size_t n)
{
    return n > 0 ? 1 + wire_varint_size(8 * n) + 8 * n : 0;
}

static size_t histogram_size(const struct metric_point *p)
{
    size_t n = p->stale ? 2
                        : 9 + 9 + packed_size((size_t)p->distribution->n_bounds + 1) +
                              packed_size(p->distribution->n_bounds);
    for (uint32_t i = 0; i < p->n_attrs; i++) {
        const size_t attr = attr_size(p->attrs[i].key, value_size(&p->attrs[i].value));
        n += 1 + wire_varint_size(attr) + attr;
    }
    return n;
}

/* With its labels' bytes, of a number. */
static inline size_t point_size(const struct metric *m, const struct metric_point *p, size_t labels)
{
    const size_t times = time_size(p->start_unix_nano) + time_size(p->time_unix_nano);
    if (unlikely(m->kind == METRIC_HISTOGRAM))
        return times + histogram_size(p);
    return times + labels + (p->stale ? 2 : p->exemplar ? 9 + 2 + exemplar_size(p->exemplar) : 9);
}

static void put_histogram(struct wire_writer *w, const struct metric *m, const struct metric_point *p)
{
    uint8_t *to = wire_room(w, PREFIX_MAX);
    if (!to)
        return;
    wire_filled(w, wire_store_varint(store_tag(to, DATA_POINTS, WIRE_LEN), point_size(m, p, 0)));
    wire_put_fixed64_nonzero(w, POINT_START, p->start_unix_nano);
    wire_put_fixed64_nonzero(w, POINT_TIME, p->time_unix_nano);
    if (p->stale)
        wire_put_uint(w, HISTOGRAM_FLAGS, 1);
    else
        put_distribution(w, p->distribution);
    put_attrs(w, HISTOGRAM_ATTRIBUTES, p->attrs, p->n_attrs);
}

static uint8_t *store_time(uint8_t *p, uint32_t field, uint64_t unix_nano)
{
    return unix_nano ? wire_store_fixed64(store_tag(p, field, WIRE_I64), unix_nano) : p;
}

static uint8_t *store_number(uint8_t *p, const struct metric_point *from)
{
    if (from->stale) /* NO_RECORDED_VALUE: there is no value to tell */
        return wire_store_varint(store_tag(p, POINT_FLAGS, WIRE_VARINT), 1);
    if (from->is_double)
        p = store_double(store_tag(p, POINT_AS_DOUBLE, WIRE_I64), from->real);
    else
        p = wire_store_fixed64(store_tag(p, POINT_AS_INT, WIRE_I64), (uint64_t)from->integer);
    return from->exemplar ? store_exemplar(p, from->exemplar, from->is_double) : p;
}

/* Where there is room for it. */
static uint8_t *store_point(struct request *q, uint8_t *p, const struct metric *m,
                            const struct metric_point *from)
{
    const struct bytes labels = labels_of(q, from);
    p = wire_store_varint(store_tag(p, DATA_POINTS, WIRE_LEN), point_size(m, from, labels.n));
    p = store_time(p, POINT_START, from->start_unix_nano);
    p = store_number(store_time(p, POINT_TIME, from->time_unix_nano), from);
    return labels.n > 0 ? mempcpy(p, labels.p, labels.n) : p;
}

/* ---- what is around points ---- */

/* What a resource adds at most, with the prefixes of the messages around its content. */
static size_t resource_cost(const struct request *q, const struct metric_resource *r)
{
    size_t n = q->b->scope_name.n + q->b->scope_version.n + r->schema_url.n + 7 * PREFIX_MAX;
    for (uint32_t i = 0; i < r->n_attrs; i++)
        n += r->attrs[i].key.n + value_size(&r->attrs[i].value) + 3 * PREFIX_MAX;
    return n;
}

static void open_resource(struct request *q, const struct metric_resource *r)
{
    struct wire_writer *w = &q->w;
    q->in_resource = true;
    q->resource = wire_begin(w, REQUEST_RESOURCE_METRICS);
    size_t resource = wire_begin(w, RESOURCE_METRICS_RESOURCE);
    put_attrs(w, RESOURCE_ATTRIBUTES, r->attrs, r->n_attrs);
    wire_end(w, resource);
    q->scope_metrics = wire_begin(w, RESOURCE_METRICS_SCOPE_METRICS);
    size_t scope = wire_begin(w, SCOPE_METRICS_SCOPE);
    wire_put_bytes_nonempty(w, SCOPE_NAME, q->b->scope_name);
    wire_put_bytes_nonempty(w, SCOPE_VERSION, q->b->scope_version);
    wire_end(w, scope);
}

static void close_resource(struct request *q, const struct metric_resource *r)
{
    if (!q->in_resource)
        return;
    q->in_resource = false;
    wire_end(&q->w, q->scope_metrics);
    wire_put_bytes_nonempty(&q->w, RESOURCE_METRICS_SCHEMA_URL, r->schema_url);
    wire_end(&q->w, q->resource);
}

/* What is behind the points of a metric. */
static struct bytes metric_end(const struct metric *m, uint8_t *to)
{
    uint8_t *p = to;
    if (m->kind != METRIC_GAUGE)
        p = wire_store_varint(store_tag(p, TEMPORALITY, WIRE_VARINT), m->temporality);
    if (m->kind == METRIC_SUM)
        p = wire_store_varint(store_tag(p, SUM_MONOTONIC, WIRE_VARINT), 1);
    return bytes_of(to, (size_t)(p - to));
}

/* Points from the first on: `points` bytes in all. */
static void put_metric(struct request *q, const struct metric *m, uint32_t first, uint32_t n, size_t points)
{
    const struct bytes head = head_of(q, m), end = metric_end(m, (uint8_t[2 * WIRE_VARINT_MAX]){0});
    const size_t data = points + end.n, metric = head.n + 1 + wire_varint_size(data) + data;
    uint8_t *p = wire_room(&q->w, 2 * PREFIX_MAX + metric);
    if (!p)
        return;
    p = wire_store_varint(store_tag(p, SCOPE_METRICS_METRICS, WIRE_LEN), metric);
    if (head.n > 0)
        p = mempcpy(p, head.p, head.n);
    p = store_tag(p,
                  m->kind == METRIC_SUM         ? METRIC_DATA_SUM
                  : m->kind == METRIC_HISTOGRAM ? METRIC_DATA_HISTOGRAM
                                                : METRIC_DATA_GAUGE,
                  WIRE_LEN);
    p = wire_store_varint(p, data);
    if (unlikely(m->kind == METRIC_HISTOGRAM)) {
        wire_filled(&q->w, p);
        for (uint32_t i = first; i < first + n; i++)
            put_histogram(&q->w, m, &m->points[i]);
        wire_put_raw(&q->w, end);
        return;
    }
    for (uint32_t i = first; i < first + n; i++)
        p = store_point(q, p, m, &m->points[i]);
    wire_filled(&q->w, mempcpy(p, end.p, end.n));
}

/* The points of a metric from the first on, as many as fit; how many those are. */
static uint32_t add_metric(struct request *q, const struct metric_resource *r, const struct metric *m,
                           uint32_t first)
{
    size_t points = 0, around = m->name.n + m->description.n + m->unit.n + 5 * PREFIX_MAX + 4;
    if (!q->in_resource)
        around += resource_cost(q, r);
    uint32_t i = first;
    for (; i < m->n_points; i++) {
        const struct metric_point *p = &m->points[i];
        const size_t labels = m->kind == METRIC_HISTOGRAM ? 0 : labels_of(q, p).n,
                     n = point_size(m, p, labels), cost = around + n + PREFIX_MAX;
        if (q->any && (cost > q->max_bytes || q->bytes > q->max_bytes - cost))
            break;
        q->any = true;
        q->bytes += cost;
        points += 1 + wire_varint_size(n) + n;
        around = 0;
    }
    if (i > first) {
        if (!q->in_resource)
            open_resource(q, r);
        put_metric(q, m, first, i - first, points);
    }
    return i - first;
}

/* The points of a resource from the one at `place` on; returns the place of the first that does not fit, or
 * how many there are. */
static uint32_t add_resource(struct request *q, const struct metric_resource *r, uint32_t place,
                             bool *ret_all)
{
    uint32_t at = 0;
    *ret_all = true;
    for (uint32_t i = 0; i < r->n_metrics && *ret_all && q->w.failed == 0; i++) {
        const struct metric *m = &r->metrics[i];
        uint32_t k = place > at ? min_of(place - at, m->n_points) : 0;
        k += add_metric(q, r, m, k);
        *ret_all = k == m->n_points;
        at += k;
    }
    close_resource(q, r);
    return at;
}

int metrics_encode_proto(const struct metric_batch *b, size_t max_bytes, uint32_t *from, uint32_t *place,
                         struct buffer *out)
{
    struct shared shared = {.bytes = BUFFER_INIT(0)};
    struct request q = {.w = wire_writer(out), .b = b, .shared = &shared, .max_bytes = max_bytes};
    size_t was = out->n;
    uint32_t i = *from, at = *place;
    for (bool all = true; i < b->n_resources && q.w.failed == 0;) {
        at = add_resource(&q, &b->resources[i], at, &all);
        if (!all)
            break;
        at = 0;
        i++;
    }
    buffer_release(&shared.bytes);
    if (q.w.failed < 0) {
        out->n = was;
        return q.w.failed;
    }
    *from = i;
    *place = at;
    return 0;
}
