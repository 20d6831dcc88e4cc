/* SPDX-License-Identifier: Apache-2.0 */
/* needs: proto/schema dep_jsonc */
#include "tests/lib/unit.h"

#include <errno.h>
#include <json-c/json.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "metrics_service.pb-c.h"
#include "proto/otlp/metrics/metrics.h"

#define REQUEST(x) opentelemetry__proto__collector__metrics__v1__export_metrics_service_request__##x
typedef Opentelemetry__Proto__Collector__Metrics__V1__ExportMetricsServiceRequest request_pb;
typedef Opentelemetry__Proto__Metrics__V1__ResourceMetrics resource_pb;
typedef Opentelemetry__Proto__Metrics__V1__Metric metric_pb;
typedef Opentelemetry__Proto__Metrics__V1__NumberDataPoint point_pb;

static struct attr text_attr(const char *key, const char *value)
{
    return (struct attr){.key = bytes_str(key), .value = {.kind = ATTR_STRING, .text = bytes_str(value)}};
}

/* kvlist { a: [1, "x", []], b: {} } as protobuf */
static const uint8_t nested[] = {
    0x0a, 0x16, 0x0a, 0x01, 'a',  0x12, 0x11, 0x2a, 0x0f, /* values { key a, value { array_value */
    0x0a, 0x02, 0x18, 0x01, 0x0a, 0x03, 0x0a, 0x01, 'x',  /* int 1, string x */
    0x0a, 0x04, 0x2a, 0x02, 0x0a, 0x00,                   /* array with one empty value */
    0x0a, 0x07, 0x0a, 0x01, 'b',  0x12, 0x02, 0x32, 0x00, /* key b, an empty list */
};

/* n_resources resources; each has a sum with n_points points and a gauge with one. */
static struct metric_batch *make(uint32_t n_resources, uint32_t n_points)
{
    struct metric_batch *b = unit_made(metric_batch_new(NULL));
    struct arena *a = &b->arena;
    b->scope_name = BYTES_LIT("profgate");
    b->scope_version = BYTES_LIT("1");
    b->n_resources = n_resources;
    b->resources = unit_made(arena_calloc(a, n_resources, sizeof *b->resources));
    for (uint32_t i = 0; i < n_resources; i++) {
        struct metric_resource *r = &b->resources[i];
        struct attr *attrs = unit_made(arena_calloc(a, 1, sizeof *attrs));
        attrs[0] = text_attr("service.name", arena_printf(a, "service-%u", i));
        *r = (struct metric_resource){
            .attrs = attrs, .n_attrs = 1, .schema_url = BYTES_LIT("u"), .n_metrics = 2};
        r->metrics = unit_made(arena_calloc(a, 2, sizeof *r->metrics));
        struct metric *sum = &r->metrics[0], *gauge = &r->metrics[1];
        *sum = (struct metric){.name = BYTES_LIT("samples.user.count"),
                               .description = BYTES_LIT("d"),
                               .unit = BYTES_LIT("1"),
                               .kind = METRIC_SUM,
                               .temporality = METRIC_DELTA};
        sum->n_points = n_points;
        sum->points = unit_made(arena_calloc(a, n_points, sizeof *sum->points));
        for (uint32_t j = 0; j < n_points; j++) {
            struct attr *labels = unit_made(arena_calloc(a, 1, sizeof *labels));
            labels[0] = text_attr("area", arena_printf(a, "%u", j));
            sum->points[j] = (struct metric_point){.attrs = labels,
                                                   .n_attrs = 1,
                                                   .start_unix_nano = 1000,
                                                   .time_unix_nano = 2000,
                                                   .integer = -(int64_t)(i * 1000 + j)};
        }
        *gauge = (struct metric){.name = BYTES_LIT("g"), .kind = METRIC_GAUGE, .n_points = 1};
        gauge->points = unit_made(arena_calloc(a, 1, sizeof *gauge->points));
        gauge->points[0] = (struct metric_point){.time_unix_nano = 5, .is_double = true, .real = 0.25};
    }
    return b;
}

UNIT(proto_says_what_the_batch_says)
{
    struct metric_batch *b = make(2, 3);
    ck_assert_uint_eq(metric_batch_points(b), 8);
    b->resources[1].metrics[1].points[0].stale = true;
    struct buffer out = BUFFER_INIT(0);
    uint32_t from = 0, place = 0;
    ck_assert_int_eq(metrics_encode_proto(b, SIZE_MAX, &from, &place, &out), 0);
    ck_assert_uint_eq(from, 2);
    ck_assert_uint_eq(place, 0);
    request_pb *m = unit_made(REQUEST(unpack)(NULL, out.n, out.p));
    ck_assert_uint_eq(m->n_resource_metrics, 2);
    resource_pb *r = m->resource_metrics[1];
    ck_assert_str_eq(r->schema_url, "u");
    ck_assert_str_eq(r->resource->attributes[0]->key, "service.name");
    ck_assert_str_eq(r->resource->attributes[0]->value->string_value, "service-1");
    ck_assert_str_eq(r->scope_metrics[0]->scope->name, "profgate");
    ck_assert_str_eq(r->scope_metrics[0]->scope->version, "1");
    metric_pb *sum = r->scope_metrics[0]->metrics[0], *gauge = r->scope_metrics[0]->metrics[1];
    ck_assert_str_eq(sum->name, "samples.user.count");
    ck_assert_str_eq(sum->unit, "1");
    ck_assert(sum->sum->is_monotonic);
    ck_assert_int_eq(sum->sum->aggregation_temporality, 1);
    point_pb *p = sum->sum->data_points[2];
    ck_assert_int_eq(p->as_int, -1002);
    ck_assert_uint_eq(p->start_time_unix_nano, 1000);
    ck_assert_uint_eq(p->time_unix_nano, 2000);
    ck_assert_str_eq(p->attributes[0]->value->string_value, "2");
    ck_assert_uint_eq(gauge->gauge->data_points[0]->flags, 1);
    ck_assert_int_eq(gauge->gauge->data_points[0]->value_case, 0);
    ck_assert_double_eq(
        m->resource_metrics[0]->scope_metrics[0]->metrics[1]->gauge->data_points[0]->as_double, 0.25);
    /* The independent encoder writes the same number of bytes: nothing is padded or said twice. */
    ck_assert_uint_eq(REQUEST(get_packed_size)(m), out.n);
    REQUEST(free_unpacked)(m, NULL);
    buffer_release(&out);
    metric_batch_free(b);
}

/* Adds up a request: points, and a sum of their values that any loss or doubling would change. */
static void tally(const struct buffer *out, uint64_t *points, int64_t *sum)
{
    request_pb *m = unit_made(REQUEST(unpack)(NULL, out->n, out->p));
    for (size_t i = 0; i < m->n_resource_metrics; i++) {
        resource_pb *r = m->resource_metrics[i];
        ck_assert_uint_eq(r->resource->n_attributes, 1);
        for (size_t j = 0; j < r->scope_metrics[0]->n_metrics; j++) {
            metric_pb *metric = r->scope_metrics[0]->metrics[j];
            bool is_sum = metric->data_case == OPENTELEMETRY__PROTO__METRICS__V1__METRIC__DATA_SUM;
            size_t n = is_sum ? metric->sum->n_data_points : metric->gauge->n_data_points;
            ck_assert_uint_gt(n, 0);
            *points += n;
            for (size_t k = 0; is_sum && k < n; k++)
                *sum += metric->sum->data_points[k]->as_int * metric->sum->data_points[k]->as_int;
        }
    }
    REQUEST(free_unpacked)(m, NULL);
}

UNIT(split_below_a_limit_loses_nothing)
{
    struct metric_batch *b = make(3, 40);
    int64_t want = 0;
    for (int64_t i = 0; i < 3; i++)
        for (int64_t j = 0; j < 40; j++)
            want += (i * 1000 + j) * (i * 1000 + j);
    static const size_t limits[] = {1, 150, 200, 500, 1000, 1777, 100000};
    for (size_t l = 0; l < sizeof limits / sizeof *limits; l++) {
        uint64_t points = 0;
        int64_t sum = 0;
        uint32_t from = 0, place = 0, requests = 0;
        while (from < b->n_resources) {
            struct buffer out = BUFFER_INIT(0);
            ck_assert_int_eq(metrics_encode_proto(b, limits[l], &from, &place, &out), 0);
            ck_assert_uint_gt(out.n, 0);
            if (limits[l] >= 200)
                ck_assert_uint_le(out.n, limits[l]);
            tally(&out, &points, &sum);
            buffer_release(&out);
            ck_assert_uint_le(++requests, 123);
        }
        ck_assert_uint_eq(points, 123);
        ck_assert_int_eq(sum, want);
        if (limits[l] == 1)
            ck_assert_uint_eq(requests, 123); /* one point each */
        if (limits[l] == 100000)
            ck_assert_uint_eq(requests, 1);
    }
    metric_batch_free(b);
}

/* Label sets of about a kibibyte, and names that begin at one place, as each resource has them; or a copy of
 * its own for each point. */
#define SETS 600u

static struct metric_batch *make_shared(bool is_copied)
{
    static const struct bytes names[] = {BYTES_LIT("abc"), BYTES_LIT("")};
    struct metric_batch *b = unit_made(metric_batch_new(NULL));
    struct arena *a = &b->arena;
    struct attr *sets = unit_made(arena_calloc(a, SETS, sizeof *sets));
    char *long_text = unit_made(arena_calloc(a, 1001, 1));
    memset(long_text, 'x', 1000);
    for (uint32_t i = 0; i < SETS; i++)
        sets[i] = text_attr(arena_printf(a, "key-%u", i), arena_printf(a, "%u%s", i, long_text));
    b->n_resources = 3;
    b->resources = unit_made(arena_calloc(a, b->n_resources, sizeof *b->resources));
    for (uint32_t i = 0; i < b->n_resources; i++) {
        struct metric_resource *r = &b->resources[i];
        r->n_metrics = SETS;
        r->metrics = unit_made(arena_calloc(a, SETS, sizeof *r->metrics));
        for (uint32_t j = 0; j < SETS; j++) {
            struct metric *m = &r->metrics[j];
            const struct attr *set = &sets[j - j % 2];
            if (is_copied)
                set = memcpy(unit_made(arena_alloc(a, sizeof *set)), set, sizeof *set);
            *m = (struct metric){.name = bytes_of(names[0].p, 1 + j % 3),
                                 .unit = names[j / 3 % 2],
                                 .description = names[j / 6 % 2],
                                 .n_points = 1,
                                 .kind = METRIC_GAUGE};
            if (is_copied)
                m->name = arena_copy(a, m->name), m->unit = arena_copy(a, m->unit);
            m->points = unit_made(arena_calloc(a, 1, sizeof *m->points));
            m->points[0] = (struct metric_point){.attrs = set, .n_attrs = j % 2, .integer = i * SETS + j};
        }
    }
    return b;
}

UNIT(what_points_share_is_said_of_each)
{
    struct buffer out[2] = {BUFFER_INIT(0), BUFFER_INIT(0)};
    for (uint32_t i = 0; i < 2; i++) {
        struct metric_batch *b = make_shared(i);
        uint32_t from = 0, place = 0;
        ck_assert_int_eq(metrics_encode_proto(b, SIZE_MAX, &from, &place, &out[i]), 0);
        metric_batch_free(b);
    }
    ck_assert_uint_eq(out[0].n, out[1].n);
    ck_assert_mem_eq(out[0].p, out[1].p, out[0].n);
    ck_assert_uint_gt(out[0].n, 3 * SETS / 2 * 1000); /* and all of it is there */
    request_pb *request = unit_made(REQUEST(unpack)(NULL, out[0].n, out[0].p));
    ck_assert_uint_eq(request->n_resource_metrics, 3);
    metric_pb *last = request->resource_metrics[2]->scope_metrics[0]->metrics[SETS - 1];
    ck_assert_str_eq(last->name, "abc");
    ck_assert_str_eq(last->gauge->data_points[0]->attributes[0]->key, "key-598");
    REQUEST(free_unpacked)(request, NULL);
    buffer_release(&out[0]);
    buffer_release(&out[1]);
}

UNIT(nothing_in_it_is_no_request)
{
    struct metric_batch *b = make(2, 0);
    b->resources[0].metrics[1].n_points = b->resources[1].metrics[1].n_points = 0;
    struct buffer out = BUFFER_INIT(0);
    uint32_t from = 0, place = 0;
    ck_assert_int_eq(metrics_encode_proto(b, 1000, &from, &place, &out), 0);
    ck_assert_uint_eq(from, 2);
    ck_assert_uint_eq(out.n, 0);
    ck_assert_int_eq(metrics_encode_json(b, &out), 0);
    ck_assert(bytes_is(buffer_bytes(&out), "{\"resourceMetrics\":[]}\n"));
    buffer_release(&out);
    metric_batch_free(b);
}

static char *json_of(const struct metric_batch *b)
{
    struct buffer out = BUFFER_INIT(0);
    ck_assert_int_eq(metrics_encode_json(b, &out), 0);
    ck_assert_uint_eq(out.p[out.n - 1], '\n');
    ck_assert_ptr_eq(memchr(out.p, '\n', out.n), out.p + out.n - 1);
    ck_assert(bytes_is_utf8(buffer_bytes(&out)));
    out.p[out.n - 1] = 0;
    json_object *parsed = json_tokener_parse((char *)out.p);
    ck_assert_msg(parsed != NULL, "not JSON: %s", (char *)out.p);
    json_object_put(parsed);
    return (char *)out.p;
}

UNIT(json_exactly)
{
    struct metric_batch *b = make(1, 1);
    b->resources[0].metrics[0].points[0].integer = INT64_MIN;
    char *json = json_of(b);
    ck_assert_str_eq(
        json, "{\"resourceMetrics\":[{\"resource\":{\"attributes\":[{\"key\":\"service.name\",\"value\":"
              "{\"stringValue\":\"service-0\"}}]},\"scopeMetrics\":[{\"scope\":{\"name\":\"profgate\","
              "\"version\":\"1\"},\"metrics\":[{\"name\":\"samples.user.count\",\"description\":\"d\","
              "\"unit\":\"1\",\"sum\":{\"dataPoints\":[{\"attributes\":[{\"key\":\"area\",\"value\":"
              "{\"stringValue\":\"0\"}}],\"startTimeUnixNano\":\"1000\",\"timeUnixNano\":\"2000\","
              "\"asInt\":\"-9223372036854775808\"}],\"aggregationTemporality\":1,\"isMonotonic\":true}},"
              "{\"name\":\"g\",\"gauge\":{\"dataPoints\":[{\"timeUnixNano\":\"5\",\"asDouble\":0.25}]}}]}],"
              "\"schemaUrl\":\"u\"}]}");
    free(json);
    metric_batch_free(b);
}

static void expect_value(struct attr_value v, const char *want)
{
    struct metric_batch *b = make(1, 1);
    struct attr *a = unit_made(arena_calloc(&b->arena, 1, sizeof *a));
    *a = (struct attr){.key = BYTES_LIT("k"), .value = v};
    b->resources[0].attrs = a;
    char *json = json_of(b), *full;
    ck_assert_int_gt(asprintf(&full, "{\"resource\":{\"attributes\":[{\"key\":\"k\",\"value\":%s}]}", want),
                     0);
    ck_assert_msg(strstr(json, full) != NULL, "no %s in %s", full, json);
    free(full);
    free(json);
    metric_batch_free(b);
}

UNIT(json_values)
{
    expect_value((struct attr_value){.kind = ATTR_EMPTY}, "{}");
    expect_value((struct attr_value){.kind = ATTR_BOOL, .boolean = true}, "{\"boolValue\":true}");
    expect_value((struct attr_value){.kind = ATTR_INT, .integer = -7}, "{\"intValue\":\"-7\"}");
    expect_value((struct attr_value){.kind = ATTR_DOUBLE, .real = 0.1}, "{\"doubleValue\":0.1}");
    expect_value((struct attr_value){.kind = ATTR_DOUBLE, .real = 1.0 / 3},
                 "{\"doubleValue\":0.3333333333333333}");
    expect_value((struct attr_value){.kind = ATTR_DOUBLE, .real = NAN}, "{\"doubleValue\":\"NaN\"}");
    expect_value((struct attr_value){.kind = ATTR_DOUBLE, .real = -INFINITY},
                 "{\"doubleValue\":\"-Infinity\"}");
    expect_value((struct attr_value){.kind = ATTR_BYTES, .text = BYTES_LIT("\x01\xff\x00\x10")},
                 "{\"bytesValue\":\"Af8AEA==\"}");
    expect_value((struct attr_value){.kind = ATTR_STRING, .text = BYTES_LIT("a\"b\\c\n\x01\xc3\xa4")},
                 "{\"stringValue\":\"a\\\"b\\\\c\\u000a\\u0001\xc3\xa4\"}");
    expect_value(
        (struct attr_value){.kind = ATTR_STRING, .text = BYTES_LIT("\xc3\xa4\xff\xed\xa0\x80z\xe2\x82")},
        "{\"stringValue\":\"\xc3\xa4\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdz\xef\xbf\xbd\xef\xbf\xbd\"}");
    expect_value(
        (struct attr_value){.kind = ATTR_KVLIST, .text = bytes_of(nested, sizeof nested)},
        "{\"kvlistValue\":{\"values\":[{\"key\":\"a\",\"value\":{\"arrayValue\":{\"values\":[{\"intValue\":"
        "\"1\"},{\"stringValue\":\"x\"},{\"arrayValue\":{\"values\":[{}]}}]}}},{\"key\":\"b\",\"value\":"
        "{\"kvlistValue\":{}}}]}}");
}

/* 300 arrays in one another, and every truncation of a valid value: valid JSON, or nothing. */
UNIT(json_of_hostile_values)
{
    uint8_t deep[4096];
    size_t at = sizeof deep;
    for (int i = 0; i < 300; i++) { /* { values: { array_value: INNER } }, with lengths of two bytes */
        size_t inner = sizeof deep - at;
        uint8_t head[6] = {0x0a, (uint8_t)((inner + 3) | 0x80), (uint8_t)((inner + 3) >> 7),
                           0x2a, (uint8_t)(inner | 0x80),       (uint8_t)(inner >> 7)};
        at -= sizeof head;
        memcpy(deep + at, head, sizeof head);
    }
    struct metric_batch *b = make(1, 1);
    struct attr a = {.key = BYTES_LIT("k"),
                     .value = {.kind = ATTR_ARRAY, .text = bytes_of(deep + at, sizeof deep - at)}};
    b->resources[0].attrs = &a;
    struct buffer out = BUFFER_INIT(0);
    ck_assert_int_eq(metrics_encode_json(b, &out), -EBADMSG);
    uint32_t taken = 0;
    for (size_t n = 0; n <= sizeof nested; n++) {
        a.value = (struct attr_value){.kind = ATTR_KVLIST, .text = bytes_of(nested, n)};
        ck_assert_uint_eq(out.n, 0);
        if (metrics_encode_json(b, &out) == 0) {
            free(json_of(b));
            taken++;
            out.n = 0;
        }
    }
    ck_assert_uint_ge(taken, 2); /* none of it, and all */
    buffer_release(&out);
    metric_batch_free(b);
}

UNIT(a_full_buffer_is_left_as_it_was)
{
    struct metric_batch *b = make(1, 10);
    struct buffer out = BUFFER_INIT(100);
    buffer_add_str(&out, "before");
    uint32_t from = 0, place = 0;
    ck_assert_int_eq(metrics_encode_proto(b, SIZE_MAX, &from, &place, &out), -ENOBUFS);
    ck_assert_int_eq(metrics_encode_json(b, &out), -ENOBUFS);
    ck_assert_uint_eq(from, 0);
    ck_assert(bytes_is(buffer_bytes(&out), "before"));
    buffer_release(&out);
    metric_batch_free(b);
}

/* The points of a request in JSON, counted and added up as tally() does for protobuf. */
static void tally_json(const struct buffer *out, uint64_t *points, int64_t *sum)
{
    json_tokener *tokener = json_tokener_new();
    json_object *top = json_tokener_parse_ex(tokener, (const char *)out->p, (int)out->n);
    json_object *resources = unit_made(json_object_object_get(top, "resourceMetrics"));
    for (size_t r = 0; r < json_object_array_length(resources); r++) {
        json_object *resource = json_object_array_get_idx(resources, r);
        json_object *scope = json_object_array_get_idx(json_object_object_get(resource, "scopeMetrics"), 0);
        json_object *all = json_object_object_get(scope, "metrics");
        ck_assert_ptr_nonnull(json_object_object_get(resource, "schemaUrl"));
        for (size_t m = 0; m < json_object_array_length(all); m++) {
            json_object *metric = json_object_array_get_idx(all, m);
            json_object *data = json_object_object_get(metric, "sum");
            bool is_sum = data != NULL;
            data =
                json_object_object_get(is_sum ? data : json_object_object_get(metric, "gauge"), "dataPoints");
            *points += json_object_array_length(data);
            for (size_t p = 0; is_sum && p < json_object_array_length(data); p++) {
                int64_t v = json_object_get_int64(
                    json_object_object_get(json_object_array_get_idx(data, p), "asInt"));
                *sum += v * v;
            }
        }
    }
    json_object_put(top);
    json_tokener_free(tokener);
}

UNIT(json_split_below_a_limit_loses_nothing)
{
    struct metric_batch *b = make(3, 40);
    int64_t want = 0;
    for (int64_t i = 0; i < 3; i++)
        for (int64_t j = 0; j < 40; j++)
            want += (i * 1000 + j) * (i * 1000 + j);
    static const size_t limits[] = {1, 150, 600, 700, 2000, 7777, 100000};
    for (size_t l = 0; l < sizeof limits / sizeof *limits; l++) {
        uint64_t points = 0;
        int64_t sum = 0;
        uint32_t from = 0, place = 0, requests = 0;
        while (from < b->n_resources) {
            struct buffer out = BUFFER_INIT(0);
            ck_assert_int_eq(metrics_encode_json_part(b, limits[l], &from, &place, &out), 0);
            if (limits[l] >= 600)
                ck_assert_uint_le(out.n, limits[l]);
            tally_json(&out, &points, &sum);
            buffer_release(&out);
            ck_assert_uint_le(++requests, 123);
        }
        ck_assert_uint_eq(points, 123);
        ck_assert_int_eq(sum, want);
        if (limits[l] == 1)
            ck_assert_uint_eq(requests, 123);
        if (limits[l] == 100000)
            ck_assert_uint_eq(requests, 1);
    }
    metric_batch_free(b);
}

UNIT(an_exemplar_is_in_both_encodings)
{
    struct metric_batch *b = make(1, 1);
    struct metric_exemplar e = {.time_unix_nano = 1500, .integer = 3};
    memset(e.trace_id, 0xab, sizeof e.trace_id);
    memset(e.span_id, 0x1c, sizeof e.span_id);
    struct metric_point *point = &b->resources[0].metrics[0].points[0];
    point->exemplar = &e;
    struct buffer out = BUFFER_INIT(0);
    uint32_t from = 0, place = 0;
    ck_assert_int_eq(metrics_encode_proto(b, SIZE_MAX, &from, &place, &out), 0);
    /* NumberDataPoint.exemplars (5) { time 2, span_id 4, trace_id 5, as_int 6 } */
    static const uint8_t want[] = {0x2a, 0x2e, 0x11, 0xdc, 0x05, 0,    0,    0,    0,    0,    0,    0x22,
                                   0x08, 0x1c, 0x1c, 0x1c, 0x1c, 0x1c, 0x1c, 0x1c, 0x1c, 0x2a, 0x10, 0xab,
                                   0xab, 0xab, 0xab, 0xab, 0xab, 0xab, 0xab, 0xab, 0xab, 0xab, 0xab, 0xab,
                                   0xab, 0xab, 0xab, 0x31, 3,    0,    0,    0,    0,    0,    0,    0};
    ck_assert_ptr_nonnull(memmem(out.p, out.n, want, sizeof want));
    buffer_release(&out);
    char *json = json_of(b);
    ck_assert_ptr_nonnull(strstr(json,
                                 "\"asInt\":\"0\",\"exemplars\":[{\"timeUnixNano\":\"1500\",\"asInt\":\"3\","
                                 "\"spanId\":\"1c1c1c1c1c1c1c1c\","
                                 "\"traceId\":\"abababababababababababababababab\"}]}"));
    free(json);
    point->is_double = true;
    e.real = 0.5;
    memset(e.span_id, 0, sizeof e.span_id);
    json = json_of(b);
    ck_assert_ptr_nonnull(strstr(json, "\"asDouble\":0.5,\"traceId\":\"ab"));
    free(json);
    point->stale = true; /* no value, no example of it */
    json = json_of(b);
    ck_assert_ptr_null(strstr(json, "exemplars"));
    free(json);
    metric_batch_free(b);
}

UNIT(histograms_in_both_encodings)
{
    static const double bounds[] = {0.1, 2.5};
    uint64_t counts[] = {3, 0, 4};
    const struct metric_distribution d = {bounds, counts, 2, 7, 12.25};
    struct attr label = text_attr("a", "b");
    struct metric_point points[] = {
        {.attrs = &label, .n_attrs = 1, .start_unix_nano = 1000, .time_unix_nano = 2000, .distribution = &d},
        {.time_unix_nano = 2000, .stale = true}};
    struct metric m = {.name = BYTES_LIT("h"),
                       .kind = METRIC_HISTOGRAM,
                       .temporality = METRIC_DELTA,
                       .points = points,
                       .n_points = 2};
    struct metric_resource res = {.metrics = &m, .n_metrics = 1};
    const struct metric_batch b = {.resources = &res, .n_resources = 1};
    cleanup(buffer_release) struct buffer out = BUFFER_INIT(0);
    uint32_t from = 0, place = 0;
    ck_assert_int_eq(metrics_encode_proto(&b, SIZE_MAX, &from, &place, &out), 0);
    request_pb *q = unit_made(REQUEST(unpack)(NULL, out.n, out.p));
    const metric_pb *got = q->resource_metrics[0]->scope_metrics[0]->metrics[0];
    ck_assert_int_eq(got->data_case, OPENTELEMETRY__PROTO__METRICS__V1__METRIC__DATA_HISTOGRAM);
    ck_assert_int_eq((int)got->histogram->aggregation_temporality, METRIC_DELTA);
    ck_assert_uint_eq(got->histogram->n_data_points, 2);
    const Opentelemetry__Proto__Metrics__V1__HistogramDataPoint *p = got->histogram->data_points[0];
    ck_assert(p->start_time_unix_nano == 1000 && p->time_unix_nano == 2000 && p->count == 7);
    ck_assert(p->_sum_case && p->sum == 12.25 && p->n_bucket_counts == 3 && p->n_explicit_bounds == 2);
    ck_assert(p->bucket_counts[0] == 3 && p->bucket_counts[1] == 0 && p->bucket_counts[2] == 4);
    ck_assert(p->explicit_bounds[0] == 0.1 && p->explicit_bounds[1] == 2.5);
    ck_assert_str_eq(p->attributes[0]->key, "a");
    ck_assert_uint_eq(got->histogram->data_points[1]->flags, 1);
    ck_assert_uint_eq(got->histogram->data_points[1]->n_bucket_counts, 0);
    REQUEST(free_unpacked)(q, NULL);
    buffer_clear(&out, 0);
    ck_assert_int_eq(metrics_encode_json(&b, &out), 0);
    static const char expected[] =
        "\"histogram\":{\"dataPoints\":[{\"attributes\":[{\"key\":\"a\",\"value\":"
        "{\"stringValue\":\"b\"}}],\"startTimeUnixNano\":\"1000\",\"timeUnixNano\":"
        "\"2000\",\"count\":\"7\",\"sum\":12.25,\"bucketCounts\":[\"3\",\"0\",\"4\"],"
        "\"explicitBounds\":[0.1,2.5]},{\"timeUnixNano\":\"2000\",\"flags\":1}],"
        "\"aggregationTemporality\":1}";
    ck_assert_ptr_nonnull(memmem(out.p, out.n, expected, sizeof expected - 1));
}
