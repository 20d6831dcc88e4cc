/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What metrics, labels and examples are to this stage, for those who add and those who merge.
 */
#ifndef GATEWAY_AGGREGATE_SHAPES_H
#define GATEWAY_AGGREGATE_SHAPES_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/bytes.h"
#include "proto/otlp/metrics/metrics.h"

/* What a metric is; the strings live as long as the rule program. */
struct aggregate_metric {
    struct bytes name, description, unit;
    enum metric_kind kind;
    bool is_seconds; /* added up in integer nanoseconds, sent as a double in seconds */
    uint32_t limit;  /* label sets per resource; 0: the gateway's */
    bool largest;    /* sums: which label sets that are, the heaviest say; else the first to come */
    bool keeps_last; /* gauges: aggregate_keep in place of aggregate_add */
    bool is_counted; /* aggregate_count is told how many samples went into it */
};

struct aggregate_label {
    struct bytes name, value;
};

/* A sample that belongs to a span, offered as an example of what a series counts. */
struct aggregate_exemplar {
    uint8_t trace_id[16]; /* not all zero */
    uint8_t span_id[8];
    uint64_t time_unix_nano; /* when it was measured; 0: not known */
    int64_t value;           /* what it added: in the metric's own unit of addition */
};

/* When a profile was taken, and when it came. */
struct aggregate_moment {
    uint64_t time; /* Unix nanoseconds */
    uint64_t arrival;
};

#endif
