/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A batch as one line of OTLP/JSON (OTLP specification, "JSON Protobuf Encoding"): what proto.c writes of it,
 * by the names of metrics_service.proto and metrics.proto. Members come in the order of the rows here.
 */
#include <errno.h>

#include "proto/otlp/json/mapping.h"
#include "proto/otlp/metrics/fields.h"
#include "proto/otlp/metrics/metrics.h"

#define SUB(number, name, table)                         \
    {                                                    \
        number, name, FIELD_MESSAGE, .message = &(table) \
    }
#define SUBS(number, name, table)                                             \
    {                                                                         \
        number, name, FIELD_MESSAGE, .is_repeated = true, .message = &(table) \
    }
#define OURS(number, name, of)                            \
    {                                                     \
        number, name, FIELD_MESSAGE, .ours = MESSAGE_##of \
    }
#define ATTRIBUTES(number)                                                                  \
    {                                                                                       \
        number, "attributes", FIELD_MESSAGE, .is_repeated = true, .ours = MESSAGE_KEY_VALUE \
    }

MAPPING_TABLE(exemplar, {EXEMPLAR_TIME, "time_unix_nano", FIELD_FIXED64},
              {EXEMPLAR_AS_DOUBLE, "as_double", FIELD_DOUBLE}, {EXEMPLAR_AS_INT, "as_int", FIELD_SFIXED64},
              {EXEMPLAR_SPAN, "span_id", FIELD_SPAN_ID}, {EXEMPLAR_TRACE, "trace_id", FIELD_TRACE_ID});
MAPPING_TABLE(point, ATTRIBUTES(POINT_ATTRIBUTES), {POINT_START, "start_time_unix_nano", FIELD_FIXED64},
              {POINT_TIME, "time_unix_nano", FIELD_FIXED64}, {POINT_FLAGS, "flags", FIELD_UINT32},
              {POINT_AS_DOUBLE, "as_double", FIELD_DOUBLE}, {POINT_AS_INT, "as_int", FIELD_SFIXED64},
              SUBS(POINT_EXEMPLARS, "exemplars", exemplar));
MAPPING_TABLE(histogram_point, ATTRIBUTES(HISTOGRAM_ATTRIBUTES),
              {POINT_START, "start_time_unix_nano", FIELD_FIXED64},
              {POINT_TIME, "time_unix_nano", FIELD_FIXED64}, {HISTOGRAM_FLAGS, "flags", FIELD_UINT32},
              {HISTOGRAM_COUNT, "count", FIELD_FIXED64}, {HISTOGRAM_SUM, "sum", FIELD_DOUBLE},
              {HISTOGRAM_BUCKET_COUNTS, "bucket_counts", FIELD_FIXED64, .is_repeated = true},
              {HISTOGRAM_EXPLICIT_BOUNDS, "explicit_bounds", FIELD_DOUBLE, .is_repeated = true});
MAPPING_TABLE(gauge, SUBS(DATA_POINTS, "data_points", point));
MAPPING_TABLE(sum, SUBS(DATA_POINTS, "data_points", point),
              {TEMPORALITY, "aggregation_temporality", FIELD_UINT32},
              {SUM_MONOTONIC, "is_monotonic", FIELD_BOOL});
MAPPING_TABLE(histogram, SUBS(DATA_POINTS, "data_points", histogram_point),
              {TEMPORALITY, "aggregation_temporality", FIELD_UINT32});
MAPPING_TABLE(metric, {METRIC_NAME, "name", FIELD_STRING}, {METRIC_DESCRIPTION, "description", FIELD_STRING},
              {METRIC_UNIT, "unit", FIELD_STRING}, SUB(METRIC_DATA_GAUGE, "gauge", gauge),
              SUB(METRIC_DATA_SUM, "sum", sum), SUB(METRIC_DATA_HISTOGRAM, "histogram", histogram));
MAPPING_TABLE(scope_metrics, OURS(SCOPE_METRICS_SCOPE, "scope", SCOPE),
              SUBS(SCOPE_METRICS_METRICS, "metrics", metric));
MAPPING_TABLE(resource_metrics, OURS(RESOURCE_METRICS_RESOURCE, "resource", RESOURCE),
              SUBS(RESOURCE_METRICS_SCOPE_METRICS, "scope_metrics", scope_metrics),
              {RESOURCE_METRICS_SCHEMA_URL, "schema_url", FIELD_STRING});
MAPPING_TABLE(request, SUBS(REQUEST_RESOURCE_METRICS, "resource_metrics", resource_metrics));

static int put_line(struct bytes message, struct buffer *out)
{
    struct json j = JSON_INIT(out);
    if (message.n == 0)
        return buffer_add_str(out, "{\"resourceMetrics\":[]}\n");
    int r = mapping_write(&request, message, &j);
    if (r > 0) /* an attribute's value is no AnyValue: the decoder lets none of that in */
        return -EBADMSG;
    return r < 0 ? r : buffer_add_str(out, "\n");
}

/* How long a line will be is known when it is written: one that is too long is written again with fewer
 * points, from as many as there are where JSON is twice as long as protobuf on, to one. */
int metrics_encode_json_part(const struct metric_batch *b, size_t max_bytes, uint32_t *from, uint32_t *place,
                             struct buffer *out)
{
    cleanup(buffer_release) struct buffer message = BUFFER_INIT(0);
    const size_t was = out->n;
    uint32_t i = 0, at = 0;
    for (size_t n = max_bytes / 2;; n = n / 4 * 3) {
        out->n = was;
        message.n = 0;
        i = *from, at = *place;
        int r = metrics_encode_proto(b, n, &i, &at, &message);
        r = r < 0 ? r : put_line(buffer_bytes(&message), out);
        if (r < 0) {
            out->n = was;
            return r;
        }
        if (n == 0 || out->n - was <= max_bytes)
            break;
    }
    *from = i, *place = at;
    return 0;
}

int metrics_encode_json(const struct metric_batch *b, struct buffer *out)
{
    uint32_t from = 0, place = 0;
    return metrics_encode_json_part(b, SIZE_MAX, &from, &place, out);
}
