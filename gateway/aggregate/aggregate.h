/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The push header of the aggregate stage: one worker's table of running sums, keyed by (resource, metric,
 * labels).
 *
 * A worker adds to its own table and shares nothing; now and then it hands its sums, as a delta, to the one
 * merger (aggregate/store.h), which keeps what each exporter needs. Numbers given out here are small and
 * dense, and stay valid until aggregate_epoch() changes: a caller that remembers them compares the epoch once
 * per request.
 *
 * Nothing is dropped: when a bound is reached, sums go to the metric's overflow series
 * ({otel.metric.overflow=true}, OpenTelemetry metrics SDK specification, "Cardinality limits").
 */
#ifndef GATEWAY_AGGREGATE_AGGREGATE_H
#define GATEWAY_AGGREGATE_AGGREGATE_H

#include <stdbool.h>
#include <stdint.h>

#include "gateway/aggregate/shapes.h"
#include "proto/base/budget.h"
#include "proto/otlp/attr.h"

struct accounts;
struct aggregate;
struct stats;

/* A worker's table for these metrics (numbered 0 … n - 1 in this order). The
 * array is copied, its strings are not. NULL: no memory. */
struct aggregate *aggregate_new(const struct aggregate_metric *metrics, uint32_t n_metrics,
                                struct budget *budget);
struct aggregate *aggregate_free(struct aggregate *a);

/* For a table whose metrics are those of a store_replace_metrics: the number that it gave. Before the first
 * addition. */
void aggregate_set_generation(struct aggregate *a, uint32_t generation);

/* Values of attributes are cut at `max` bytes (attrset.h), which stats counts; without it they are not. */
void aggregate_cut_values(struct aggregate *a, uint32_t max, struct stats *stats);

/* What each client's requests brought that is not added up yet is charged to its account (the merger refunds
 * it), and never refused: it is few bytes a name. `accounts` outlives all deltas. */
void aggregate_charge_to(struct aggregate *a, struct accounts *accounts);

/* Changes whenever numbers given out before become invalid (never inside a request: see aggregate_begin). */
uint32_t aggregate_epoch(const struct aggregate *a);

/* Call at the start of each request: the only place where the table may forget (and change its epoch). */
void aggregate_begin(struct aggregate *a);

/* Whose requests come from here on (a number for a client or a tenant; 0: nobody knows): resources that are
 * new belong to them, and nobody may have them all (options.h, max_resources). */
void aggregate_from(struct aggregate *a, uint64_t client);

/* Between requests: forgets all names, as aggregate_begin does when there are too many. Without memory to
 * remember the sums until they are taken nothing is forgotten. */
void aggregate_forget(struct aggregate *a);

/* Bytes of names and of the table, without what is on its way to the merger. */
size_t aggregate_memory_used(const struct aggregate *a);

/* The number of a resource: equal attributes (as a set), equal number. Copies what it needs. Never fails:
 * when memory or the table is full it is the number of the overflow resource (no attributes but
 * otel.metric.overflow=true). */
uint32_t aggregate_resource(struct aggregate *a, const struct attr *attrs, uint32_t n_attrs);

/* The same for attributes that some bytes say all of, such as the message they were decoded from: equal
 * bytes, equal attributes. Remembered by those bytes. */
uint32_t aggregate_resource_of(struct aggregate *a, struct bytes raw, const struct attr *attrs,
                               uint32_t n_attrs);

/* The number of a label set of a metric. Labels in any order; equal sets, equal number. A value that is not
 * UTF-8 has its bad bytes replaced by U+FFFD. Never fails: overflow as above. */
uint32_t aggregate_series(struct aggregate *a, uint32_t metric, const struct aggregate_label *labels,
                          uint32_t n_labels);

/* Adds to a sum or a gauge's interval total. Integer nanoseconds where the metric is_seconds. Never fails:
 * totals stop at the ends of int64_t, and a negative addition to a sum is ignored, because sums are monotonic
 * and values come from peers. */
void aggregate_add(struct aggregate *a, uint32_t resource, uint32_t series, int64_t value);

/* What was said of it will be added to soon: its place is fetched meanwhile. */
void aggregate_prefetch(const struct aggregate *a, uint32_t resource, uint32_t series);

/* Numbers for n profiles that came just now: the first of n that follow each other. Any thread, without a
 * table: they order what all workers hear. */
uint64_t aggregate_arrivals(uint32_t n);

/* What a profile says of a series of a gauge that keeps_last: all of it, added up. Of each resource and
 * metric the newest profile by time, then by arrival, counts; what an older one said, of other series too, is
 * forgotten. Once a profile and series. Never fails: without memory it is not kept. */
void aggregate_keep(struct aggregate *a, uint32_t resource, uint32_t series,
                    const struct aggregate_moment *moment, int64_t value);

/* How many samples are in what was added to a series of a metric that is_counted. Never fails. */
void aggregate_count(struct aggregate *a, uint32_t resource, uint32_t series, uint64_t samples);

/* Whether anybody wants to know. */
bool aggregate_is_counted(const struct aggregate *a, uint32_t metric);

/* Offers a sample that was added to a series. Of those offered between two hand-overs one is kept for each
 * series, every one with the same chance. Exemplars are examples: at a bound or without memory one is
 * forgotten. Call it for samples that have a trace only; the additions themselves know nothing of it. */
void aggregate_offer(struct aggregate *a, uint32_t resource, uint32_t series,
                     const struct aggregate_exemplar *e);

/* What was added since the last take, for store_apply(); the sums are zero again. On the worker's own thread;
 * the delta may then go to another. Deltas of one worker must be applied in order, each once. NULL when there
 * is nothing to hand over (cheap), or when memory is out (the sums then stay for the next take). */
struct aggregate_delta *aggregate_take(struct aggregate *a);

/* Whether there is nothing left to take. After a take that gave nothing it tells why. */
bool aggregate_is_empty(const struct aggregate *a);

/* For a delta that is not applied. Any thread; before the budget's end. */
struct aggregate_delta *aggregate_delta_free(struct aggregate_delta *delta);

#endif
