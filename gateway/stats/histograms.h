/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long requests take and how large they are: histograms by the names of OpenTelemetry's semantic
 * conventions for HTTP and RPC servers, as a Collector's own telemetry has them, spelled for Prometheus.
 *
 * As the rows of block.h they are counted in each thread's own block, by plain additions, and added up by who
 * reads. A gRPC call is of rpc.server alone, although HTTP/2 carried it.
 */
#ifndef GATEWAY_STATS_HISTOGRAMS_H
#define GATEWAY_STATS_HISTOGRAMS_H

#include "gateway/stats/block.h"
#include "gateway/stats/exposition.h"
#include "proto/otlp/metrics/metrics.h"

/* One value, in ns or bytes. By the block's own thread. A NULL block counts nothing. */
void histograms_add(struct stats *s, enum stats_histogram which, uint64_t value);

/* Writes all of them. Any thread. */
void histograms_prometheus(struct exposition *x);

/* The same as OTLP histograms, cumulative: metric[0] to metric[STATS_HISTOGRAMS - 1], by the conventions'
 * names (http.server.request.duration). 0 or -ENOMEM. Any thread. */
int histograms_metrics(struct arena *arena, uint64_t start_unix_nano, uint64_t now_unix_nano,
                       struct metric metric[STATS_HISTOGRAMS]);

#endif
