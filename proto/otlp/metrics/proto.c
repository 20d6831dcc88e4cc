/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ExportMetricsServiceRequest, written by hand: no object graph. Each message is one function that puts its
 * fields into a sink; a sink without memory only counts, which is how a nested message's length is known
 * before it is written, and how a batch is cut before anything is (proto/wire's writer cannot count).
 */
#include <assert.h>
#include <errno.h>

#include "proto/base/macros.h"
#include "proto/otlp/metrics/metrics.h"
#include "proto/wire/wire.h"

struct sink {
    uint8_t *at; /* NULL: count only */
    size_t n;
};

static void put_byte(struct sink *s, uint8_t byte)
{
    if (s->at)
        s->at[s->n] = byte;
    s->n++;
}

static void put_varint(struct sink *s, uint64_t v)
{
    for (; v >= 0x80; v >>= 7)
        put_byte(s, (uint8_t)(v | 0x80));
    put_byte(s, (uint8_t)v);
}

static void put_tag(struct sink *s, uint32_t field, uint32_t type)
{
    put_varint(s, field << 3 | type);
}

static void put_fixed64(struct sink *s, uint32_t field, uint64_t v)
{
    put_tag(s, field, WIRE_I64);
    for (int i = 0; i < 8; i++)
        put_byte(s, (uint8_t)(v >> 8 * i));
}

static void put_uint(struct sink *s, uint32_t field, uint64_t v)
{
    put_tag(s, field, WIRE_VARINT);
    put_varint(s, v);
}

/* Also when empty: a oneof's member is there even so. */
static void put_bytes(struct sink *s, uint32_t field, struct bytes b)
{
    put_tag(s, field, WIRE_LEN);
    put_varint(s, b.n);
    if (s->at && b.n)
        memcpy(s->at + s->n, b.p, b.n);
    s->n += b.n;
}

/* proto3: a plain string field that is empty is left out. */
static void put_string(struct sink *s, uint32_t field, struct bytes b)
{
    if (b.n)
        put_bytes(s, field, b);
}

/* A nested message: its length, counted, then itself. */
#define PUT_NESTED(s, field, fn, ...) \
    do {                              \
        struct sink count_ = {0};     \
        fn(&count_, __VA_ARGS__);     \
        put_tag(s, field, WIRE_LEN);  \
        put_varint(s, count_.n);      \
        if ((s)->at)                  \
            fn(s, __VA_ARGS__);       \
        else                          \
            (s)->n += count_.n;       \
    } while (0)

static uint64_t double_bits(double d)
{
    uint64_t bits;
    memcpy(&bits, &d, sizeof bits);
    return bits;
}

/* common.proto AnyValue */
static void put_value(struct sink *s, const struct attr_value *v)
{
    switch (v->kind) {
    case ATTR_EMPTY: break;
    case ATTR_STRING: put_bytes(s, 1, v->text); break;
    case ATTR_BOOL: put_uint(s, 2, v->boolean); break;
    case ATTR_INT: put_uint(s, 3, (uint64_t)v->integer); break;
    case ATTR_DOUBLE: put_fixed64(s, 4, double_bits(v->real)); break;
    case ATTR_ARRAY: put_bytes(s, 5, v->text); break;
    case ATTR_KVLIST: put_bytes(s, 6, v->text); break;
    case ATTR_BYTES: put_bytes(s, 7, v->text); break;
    }
}

/* common.proto KeyValue */
static void put_attr(struct sink *s, const struct attr *a)
{
    put_string(s, 1, a->key);
    PUT_NESTED(s, 2, put_value, &a->value);
}

static bool is_zero(const uint8_t *p, size_t n)
{
    uint8_t any = 0;
    for (size_t i = 0; i < n; i++)
        any |= p[i];
    return any == 0;
}

/* metrics.proto Exemplar */
static void put_exemplar(struct sink *s, const struct metric_exemplar *e, bool is_double)
{
    put_fixed64(s, 2, e->time_unix_nano);
    if (is_double)
        put_fixed64(s, 3, double_bits(e->real));
    if (!is_zero(e->span_id, sizeof e->span_id))
        put_bytes(s, 4, bytes_of(e->span_id, sizeof e->span_id));
    put_bytes(s, 5, bytes_of(e->trace_id, sizeof e->trace_id));
    if (!is_double)
        put_fixed64(s, 6, (uint64_t)e->integer);
}

/* metrics.proto NumberDataPoint */
static void put_point(struct sink *s, const struct metric_point *p)
{
    if (p->start_unix_nano)
        put_fixed64(s, 2, p->start_unix_nano);
    if (p->time_unix_nano)
        put_fixed64(s, 3, p->time_unix_nano);
    if (p->stale) /* NO_RECORDED_VALUE: there is no value to tell */
        put_uint(s, 8, 1);
    else if (p->is_double)
        put_fixed64(s, 4, double_bits(p->real));
    else
        put_fixed64(s, 6, (uint64_t)p->integer);
    if (p->exemplar && !p->stale)
        PUT_NESTED(s, 5, put_exemplar, p->exemplar, p->is_double);
    for (uint32_t i = 0; i < p->n_attrs; i++)
        PUT_NESTED(s, 7, put_attr, &p->attrs[i]);
}

/* Some points of one metric: Gauge or Sum. */
static void put_points(struct sink *s, const struct metric *m, uint32_t begin, uint32_t end)
{
    for (uint32_t i = begin; i < end; i++)
        PUT_NESTED(s, 1, put_point, &m->points[i]);
    if (m->kind == METRIC_SUM) {
        put_uint(s, 2, m->temporality);
        put_uint(s, 3, 1);
    }
}

static void put_metric(struct sink *s, const struct metric *m, uint32_t begin, uint32_t end)
{
    put_string(s, 1, m->name);
    put_string(s, 2, m->description);
    put_string(s, 3, m->unit);
    PUT_NESTED(s, m->kind == METRIC_SUM ? 7 : 5, put_points, m, begin, end);
}

static void put_resource(struct sink *s, const struct metric_resource *r)
{
    for (uint32_t i = 0; i < r->n_attrs; i++)
        PUT_NESTED(s, 1, put_attr, &r->attrs[i]);
}

static void put_scope(struct sink *s, const struct metric_batch *b)
{
    put_string(s, 1, b->scope_name);
    put_string(s, 2, b->scope_version);
}

/* Points [begin, end) of a resource, numbered through its metrics: ScopeMetrics. */
static void put_scope_metrics(struct sink *s, const struct metric_batch *b, const struct metric_resource *r,
                              uint32_t begin, uint32_t end)
{
    PUT_NESTED(s, 1, put_scope, b);
    uint32_t at = 0;
    for (uint32_t i = 0; i < r->n_metrics && at < end; at += r->metrics[i++].n_points) {
        const struct metric *m = &r->metrics[i];
        uint32_t lo = begin > at ? begin - at : 0, hi = min_of(end - at, m->n_points);
        if (lo < hi)
            PUT_NESTED(s, 2, put_metric, m, lo, hi);
    }
}

static void put_resource_metrics(struct sink *s, const struct metric_batch *b,
                                 const struct metric_resource *r, uint32_t begin, uint32_t end)
{
    PUT_NESTED(s, 1, put_resource, r);
    PUT_NESTED(s, 2, put_scope_metrics, b, r, begin, end);
    put_string(s, 3, r->schema_url);
}

static uint32_t resource_points(const struct metric_resource *r)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < r->n_metrics; i++)
        n += r->metrics[i].n_points;
    return (uint32_t)min_of(n, (uint64_t)UINT32_MAX);
}

/* A place in the batch: a resource, and points of it. */
struct place {
    uint32_t resource, point;
};

static void put_request(struct sink *s, const struct metric_batch *b, struct place from, struct place to)
{
    for (uint32_t i = from.resource; i < b->n_resources && i <= to.resource; i++) {
        const struct metric_resource *r = &b->resources[i];
        uint32_t begin = i == from.resource ? from.point : 0;
        uint32_t end = i == to.resource ? to.point : resource_points(r);
        if (begin < end)
            PUT_NESTED(s, 1, put_resource_metrics, b, r, begin, end);
    }
}

/* Most bytes a tag and a length take, for a message below 4 GiB. */
#define PREFIX_MAX 6u

/* What a resource, a metric and a point add at most, with the prefixes of the messages around their content.
 */
static size_t resource_cost(const struct metric_batch *b, const struct metric_resource *r)
{
    struct sink s = {0};
    put_resource(&s, r);
    put_scope(&s, b);
    return s.n + r->schema_url.n + 5 * PREFIX_MAX;
}

static size_t metric_cost(const struct metric *m)
{
    return m->name.n + m->description.n + m->unit.n + 5 * PREFIX_MAX + 4; /* 4: temporality and monotonic */
}

static size_t point_cost(const struct metric_point *p)
{
    struct sink s = {0};
    put_point(&s, p);
    return s.n + PREFIX_MAX;
}

/* How far one request of max_bytes reaches; at least one point. *ret_any: whether there is any point in it.
 */
static struct place plan(const struct metric_batch *b, struct place from, size_t max_bytes, bool *ret_any)
{
    size_t bytes = 0;
    *ret_any = false;
    for (uint32_t i = from.resource; i < b->n_resources; i++) {
        const struct metric_resource *r = &b->resources[i];
        uint32_t at = 0, begin = i == from.resource ? from.point : 0;
        size_t pending = resource_cost(b, r);
        for (uint32_t j = 0; j < r->n_metrics; at += r->metrics[j++].n_points) {
            const struct metric *m = &r->metrics[j];
            size_t head = metric_cost(m);
            for (uint32_t k = begin > at ? begin - at : 0; k < m->n_points; k++) {
                size_t cost = point_cost(&m->points[k]) + head + pending;
                if (*ret_any && (cost > max_bytes || bytes > max_bytes - cost))
                    return (struct place){i, at + k};
                bytes += cost;
                head = pending = 0;
                *ret_any = true;
            }
        }
    }
    return (struct place){b->n_resources, 0};
}

int metrics_encode_proto(const struct metric_batch *b, size_t max_bytes, uint32_t *from, uint32_t *place,
                         struct buffer *out)
{
    struct place begin = {*from, *place};
    bool any;
    struct place end = plan(b, begin, max_bytes, &any);
    if (any) {
        struct sink count = {0};
        put_request(&count, b, begin, end);
        int r = buffer_reserve(out, count.n);
        if (r < 0)
            return r;
        struct sink s = {.at = out->p + out->n};
        put_request(&s, b, begin, end);
        assert(s.n == count.n);
        out->n += s.n;
    }
    *from = end.resource;
    *place = end.point;
    return 0;
}
