/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fields of an ExportMetricsServiceRequest that are written. For proto/otlp/metrics.
 */
#ifndef PROTO_OTLP_METRICS_FIELDS_H
#define PROTO_OTLP_METRICS_FIELDS_H

/* metrics_service.proto, metrics.proto */
enum { REQUEST_RESOURCE_METRICS = 1 };
enum { RESOURCE_METRICS_RESOURCE = 1, RESOURCE_METRICS_SCOPE_METRICS = 2, RESOURCE_METRICS_SCHEMA_URL = 3 };
enum { SCOPE_METRICS_SCOPE = 1, SCOPE_METRICS_METRICS = 2 };
enum {
    METRIC_NAME = 1,
    METRIC_DESCRIPTION = 2,
    METRIC_UNIT = 3,
    METRIC_DATA_GAUGE = 5,
    METRIC_DATA_SUM = 7,
    METRIC_DATA_HISTOGRAM = 9
};
enum { DATA_POINTS = 1, TEMPORALITY = 2, SUM_MONOTONIC = 3 };
enum {
    POINT_START = 2,
    POINT_TIME = 3,
    POINT_AS_DOUBLE = 4,
    POINT_EXEMPLARS = 5,
    POINT_AS_INT = 6,
    POINT_ATTRIBUTES = 7,
    POINT_FLAGS = 8
};
enum {
    HISTOGRAM_COUNT = 4, /* start and time as of a point */
    HISTOGRAM_SUM = 5,
    HISTOGRAM_BUCKET_COUNTS = 6,
    HISTOGRAM_EXPLICIT_BOUNDS = 7,
    HISTOGRAM_ATTRIBUTES = 9,
    HISTOGRAM_FLAGS = 10
};
enum {
    EXEMPLAR_TIME = 2,
    EXEMPLAR_AS_DOUBLE = 3,
    EXEMPLAR_SPAN = 4,
    EXEMPLAR_TRACE = 5,
    EXEMPLAR_AS_INT = 6
};

#endif
