/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one worker hands to the merger: private to this folder. Everything lives in the delta's own arena, so
 * that the two threads share nothing.
 *
 * Worker numbers: resource 0 is the overflow resource, 1 + i the i-th of the dictionary; series 0 … n_metrics
 * - 1 are the metrics' overflow series, n_metrics + i the i-th of the dictionary. Overflow thus needs no
 * memory.
 */
#ifndef GATEWAY_AGGREGATE_DELTA_H
#define GATEWAY_AGGREGATE_DELTA_H

#include <stdint.h>

#include "gateway/aggregate/shapes.h"
#include "proto/base/arena.h"
#include "proto/base/bytes.h"

#define RESOURCE_OVERFLOW 0u

struct delta_cell {
    uint32_t resource, series;
    uint32_t metric; /* the series' own: known even where the merger had no memory for the dictionary */
    int64_t sum;
};

struct delta_exemplar {
    uint32_t resource, series, metric;
    struct aggregate_exemplar exemplar;
};

/* A worker's entry of latest.h, of its resource's newest profile. */
struct delta_kept {
    uint32_t resource, series, metric;
    struct aggregate_moment moment;
    int64_t value;
};

struct delta_count {
    uint32_t resource, series, metric;
    uint64_t samples;
};

struct aggregate_delta {
    struct aggregate_delta *next; /* newer; applied after this one */
    struct arena arena;
    uint32_t generation; /* of the metrics' numbers: store_replace_metrics */
    uint32_t epoch;
    /* The dictionary's entries [from, from + n): attribute sets, and label sets behind a 4-byte metric
     * number. */
    uint32_t resource_from, n_resources, series_from, n_series;
    struct bytes *resources, *series;
    uint64_t *clients; /* of the resources: aggregate_from */
    uint32_t n_cells;
    struct delta_cell *cells;
    struct accounts *accounts; /* refunded when the delta is freed: */
    size_t *charged;           /* [account]; NULL: nothing was */
    uint32_t n_exemplars;
    struct delta_exemplar *exemplars;
    uint32_t n_kept;
    struct delta_kept *kept;
    uint32_t n_counts;
    struct delta_count *counts;
};

/* Totals stop at the ends of the range: a peer chooses the values. */
static inline int64_t add_clamped(int64_t a, int64_t b)
{
    int64_t sum;
    if (__builtin_add_overflow(a, b, &sum))
        return b < 0 ? INT64_MIN : INT64_MAX;
    return sum;
}

#endif
