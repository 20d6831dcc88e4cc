/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cumulative batch as Prometheus remote write requests: protobuf, not yet compressed. Private to this
 * folder.
 *
 * 1.0: message prometheus.WriteRequest ("Prometheus Remote-Write 1.0 specification"). 2.0: message
 * io.prometheus.write.v2.Request ("Prometheus Remote-Write 2.0 specification", 2.0-rc.4), with metadata and
 * start times. Both say Content-Encoding: snappy, the block format. A series that has ended is the stale
 * marker, a NaN of its own.
 */
#ifndef GATEWAY_EXPORT_REMOTE_WRITE_REMOTE_WRITE_H
#define GATEWAY_EXPORT_REMOTE_WRITE_REMOTE_WRITE_H

#include "gateway/export/prometheus/names.h"

enum remote_write_version { REMOTE_WRITE_1 = 1, REMOTE_WRITE_2 = 2 };

/* What a request says of itself: headers. */
#define REMOTE_WRITE_1_TYPE    "application/x-protobuf"
#define REMOTE_WRITE_2_TYPE    "application/x-protobuf;proto=io.prometheus.write.v2.Request"
#define REMOTE_WRITE_1_VERSION "0.1.0"
#define REMOTE_WRITE_2_VERSION "2.0.0"

/* Prometheus' marker of staleness (model/value: StaleNaN). */
#define REMOTE_WRITE_STALE 0x7ff0000000000002ull

struct remote_write;

/* 0, -EINVAL for delta sums, -ENOMEM. Keeps the batch's strings: the batch must outlive it. Of the options
 * strategy and scope_labels count; names that are not [a-zA-Z0-9_:] go as they are. */
int remote_write_new(struct remote_write **ret, const struct metric_batch *batch,
                     enum remote_write_version version, const struct prometheus_options *options);
struct remote_write *remote_write_free(struct remote_write *w);

/* Appends one request with as many series as fit max_bytes, at least one; *ret_series 0 when all are written.
 * 0, -ENOMEM, -ENOBUFS: then nothing moved. */
int remote_write_next(struct remote_write *w, size_t max_bytes, struct buffer *out, uint32_t *ret_series);

#endif
