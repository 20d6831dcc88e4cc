/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who sends which wire layout: requests by producer and layout, the one self-metric with a label that peers
 * fill.
 *
 * Hence its bounds: the first STATS_PRODUCERS names the process meets have series of their own, all later
 * ones are "other"; a name is cut to PRODUCER_NAME_MAX bytes and holds printable UTF-8 only. Names are one
 * list for all threads, counts are each thread's own block (struct stats).
 */
#ifndef GATEWAY_STATS_PRODUCERS_H
#define GATEWAY_STATS_PRODUCERS_H

#include "gateway/stats/block.h"
#include "gateway/stats/exposition.h"
#include "proto/base/arena.h"
#include "proto/otlp/metrics/metrics.h"
#include "proto/otlp/view/profiles.h"

/* As long as any scope name in the field (go.opentelemetry.io/ebpf-profiler has 33). */
#define PRODUCER_NAME_MAX 64u

#define PRODUCERS_NAME "profgate_requests_by_producer_total"
#define PRODUCERS_DESCRIPTION \
    "Export requests accepted, by the wire layout of profiles they had and who made them"

/* Who made a request: the instrumentation scope of its first profile, else that resource's SDK; "" when it
 * does not say, and for NULL. A request comes from one of them; what several were merged into has the name of
 * whoever comes first. */
struct bytes producers_of(const struct profiles *view);

/* The place of a name among those that are told apart, 0 … STATS_PRODUCERS: the last is of all others; "" is
 * "unknown". And the name that labels have at a place. Any thread. */
uint32_t producers_number(struct bytes name);
struct bytes producers_name(uint32_t number);

/* One request of `layout` (STATS_LAYOUT_1_5 … STATS_LAYOUT_1_10) by `name`; "" is counted as "unknown". By
 * the block's own thread. A NULL block counts nothing. */
void producers_add(struct stats *s, enum stats_id layout, struct bytes name);

/* Writes the family, nothing when nothing was counted. Any thread. */
void producers_prometheus(struct exposition *x);

/* One point a series, with the attributes layout and producer, in memory of the arena. 0 or -ENOMEM. Any
 * thread. */
int producers_points(struct arena *arena, uint64_t start_unix_nano, uint64_t now_unix_nano,
                     struct metric_point **ret, uint32_t *ret_n);

#endif
