/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the gateway knows about itself: one table (block.h), used by the code that counts, by /metrics and by
 * self-telemetry.
 */
#ifndef GATEWAY_STATS_STATS_H
#define GATEWAY_STATS_STATS_H

#include <stdint.h>

#include "gateway/stats/block.h"
#include "proto/otlp/metrics/metrics.h"

/* Everything in Prometheus text 0.0.4, with HELP and TYPE, and the process's own CPU seconds, resident
 * memory, start time and build info (profgate_build_info{version="…"} 1). Appends. 0 or -ENOMEM. */
int stats_prometheus(struct buffer *out);

/* The same as OTLP metrics, (cumulative since the process began;
 * profgate_requests_total is profgate.requests), of one resource with these attributes: so the gateway's own
 * numbers leave by the way everything else does. The batch keeps copies and is the caller's to free. Any
 * thread. NULL: memory is out.
 */
struct metric_batch *stats_batch(const struct attr *resource, uint32_t n_attrs, uint64_t now_unix_nano,
                                 struct budget *budget);

/* What was added between two of these (`earlier` NULL: since the process began), as deltas; gauges are those
 * of now. Texts stay those of `now`, which must outlive it. NULL: memory is out. */
struct metric_batch *stats_batch_since(const struct metric_batch *now, const struct metric_batch *earlier,
                                       struct budget *budget);

#endif
