/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A batch of metrics on its way out: what an ExportMetricsServiceRequest says
 * (opentelemetry/proto/metrics/v1/metrics.proto), as plain structs in one arena, and its encodings.
 *
 * Every exporter reads this one shape: OTLP protobuf (gRPC and HTTP), OTLP/JSON lines, Prometheus text.
 */
#ifndef PROTO_OTLP_METRICS_METRICS_H
#define PROTO_OTLP_METRICS_METRICS_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/arena.h"
#include "proto/base/buffer.h"
#include "proto/base/vec.h"
#include "proto/otlp/attr.h"

/* A sum is monotonic: our counters never go down. */
enum metric_kind { METRIC_SUM, METRIC_GAUGE, METRIC_HISTOGRAM };

enum metric_temporality {
    METRIC_DELTA = 1,
    METRIC_CUMULATIVE = 2
}; /* as AggregationTemporality numbers them */

/* What a histogram's point says: counts[i] is of values above bounds[i - 1] and up to bounds[i], and there is
 * one more count than bounds (metrics data model, "Histogram"). */
struct metric_distribution {
    const double *bounds; /* ascending */
    uint64_t *counts;
    uint32_t n_bounds;
    uint64_t count; /* the sum of counts */
    double sum;     /* of the values */
};

/* One measurement that the point's value includes, and the span it was made in (metrics data model,
 * "Exemplars"). */
struct metric_exemplar {
    uint8_t trace_id[16]; /* not all zero */
    uint8_t span_id[8];   /* all zero: unknown */
    uint64_t time_unix_nano;
    union { /* as the point's is_double says */
        int64_t integer;
        double real;
    };
};

struct metric_point {
    const struct attr *attrs;
    uint32_t n_attrs;
    bool is_double; /* not of a histogram, nor an exemplar */
    bool stale;     /* flags = DATA_POINT_FLAGS_NO_RECORDED_VALUE_MASK: the series has ended */
    const struct metric_exemplar *exemplar;   /* NULL: none */
    uint64_t start_unix_nano, time_unix_nano; /* the window (start, time] */
    union {
        int64_t integer;
        double real;
        const struct metric_distribution *distribution; /* of a histogram */
    };
};

/* A point in a third of the memory: of batches that show all there is (metric_batch). Not of a histogram. */
struct metric_brief {
    uint32_t labels, life; /* places in the batch's */
    union {                /* as the metric's is_double says */
        int64_t integer;
        double real;
    };
};

struct metric {
    struct bytes name, description, unit;
    enum metric_kind kind;
    enum metric_temporality temporality; /* of a sum or a histogram */
    union {
        struct metric_point *points;
        struct metric_brief *briefs; /* is_brief */
    };
    uint32_t n_points;
    bool is_brief, is_double; /* is_double: of briefs */
};

struct metric_resource {
    const struct attr *attrs;
    uint32_t n_attrs;
    struct bytes schema_url;
    struct metric *metrics;
    uint32_t n_metrics;
};

/* What briefs have in common with others. */
struct metric_labels {
    const struct attr *attrs;
    uint32_t n;
};
struct metric_life {
    uint64_t start_unix_nano;
    const struct metric_exemplar *exemplar;
    bool stale;
};

/* Of most batches the points are whole; where they are in brief, metric_point_of is who reads them. */
struct metric_batch {
    struct arena arena; /* owns everything below, but for lives */
    struct bytes scope_name, scope_version;
    struct metric_resource *resources;
    uint32_t n_resources;
    /* Of briefs: */
    struct metric_labels *labels;
    VEC(struct metric_life) lives;
    uint64_t time_unix_nano;
};

/* A heap batch, empty; NULL when memory is out. */
struct metric_batch *metric_batch_new(struct budget *budget);
struct metric_batch *metric_batch_free(struct metric_batch *b);

/* The i-th point of a metric of the batch, itself or made in *room. */
static inline const struct metric_point *metric_point_of(const struct metric_batch *b, const struct metric *m,
                                                         uint32_t i, struct metric_point *room)
{
    if (!m->is_brief)
        return &m->points[i];
    const struct metric_brief *from = &m->briefs[i];
    const struct metric_labels *labels = &b->labels[from->labels];
    const struct metric_life *life = &b->lives.p[from->life];
    *room = (struct metric_point){.attrs = labels->attrs,
                                  .n_attrs = labels->n,
                                  .is_double = m->is_double,
                                  .stale = life->stale,
                                  .exemplar = life->exemplar,
                                  .start_unix_nano = life->start_unix_nano,
                                  .time_unix_nano = b->time_unix_nano,
                                  .integer = from->integer};
    return room;
}

/* Number of points in it. */
uint64_t metric_batch_points(const struct metric_batch *b);

/* Appends one ExportMetricsServiceRequest (protobuf) of a batch whose points are whole, with as many points
 * as fit `max_bytes`, at least one. The place to go on is (*from, *place): a resource and how many of its
 * points are already written, 0 and 0 to begin; a loop until *from == n_resources splits a batch below a
 * receiver's limit, at any point. Empty metrics and resources are left out; where nothing is left but those,
 * nothing is appended. 0 or -ENOMEM, -ENOBUFS (out's own maximum): then nothing moved.
 */
int metrics_encode_proto(const struct metric_batch *b, size_t max_bytes, uint32_t *from, uint32_t *place,
                         struct buffer *out);

/* Appends the whole batch, whose points are not in brief, as one OTLP/JSON line, '\n' included (OTLP
 * specification "JSON Protobuf Encoding": lowerCamelCase keys, 64-bit integers as strings, enums as numbers;
 * bytes that are not UTF-8 become U+FFFD). 0, -ENOMEM or -ENOBUFS; on failure nothing is added. */
int metrics_encode_json(const struct metric_batch *b, struct buffer *out);

/* As much of the batch as fits max_bytes, at least one point; the place as for metrics_encode_proto. */
int metrics_encode_json_part(const struct metric_batch *b, size_t max_bytes, uint32_t *from, uint32_t *place,
                             struct buffer *out);

#endif
