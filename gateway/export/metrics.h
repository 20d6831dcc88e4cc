/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The push header of the export stage for metrics: a batch to each destination of its temporality.
 */
#ifndef GATEWAY_EXPORT_METRICS_H
#define GATEWAY_EXPORT_METRICS_H

#include "proto/otlp/metrics/metrics.h"

struct export_metrics; /* one metrics destination: OTLP gRPC or HTTP, remote write, or a file */

/* Encodes, splits below the destination's limit and queues. Keeps nothing of the batch. A full queue drops
 * the oldest request and counts its points. Control loop only. */
void export_metrics_push(struct export_metrics *x, const struct metric_batch *batch);

#endif
