/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What profsend says of itself: one list of figures, as OTLP metrics and as the text of the status page.
 */
#ifndef SENDER_REPORT_TELEMETRY_H
#define SENDER_REPORT_TELEMETRY_H

#include "proto/base/buffer.h"
#include "sender/attach/sampler.h"
#include "sender/deliver/delivery.h"
#include "sender/pods/pods.h"

/* Read anew for each report; sums are since the start. */
struct telemetry {
    struct sampler_counts sampler;
    struct delivery_counts delivery;
    struct spool_counts spool;
    uint64_t window_dropped; /* samples: limits and memory */
    uint64_t unwanted;       /* likewise: that rules left out */
    uint64_t matches_given_up;
    uint64_t frames_replaced; /* of collectors */
    struct pods_counts pods;
    uint64_t tables_unpaid, tables_refused, tables_failed; /* of unwind tables, times one was not loaded */
    uint64_t pending_dropped;                              /* stacks that waited for their weight */
    uint64_t cpu_ns, memory;                               /* our own */
    uint64_t begun, now;                                   /* Unix, ns */
    uint64_t windows, windows_stretched, naming_ns;
    uint32_t processes, files, pending;
    const char *endpoint, *host_name;
};

/* Appends an ExportMetricsServiceRequest. 0 or -ENOMEM. */
int telemetry_encode(const struct telemetry *t, struct buffer *out);

/* Appends lines "name{attribute=value} number unit". 0 or -ENOMEM. */
int telemetry_text(const struct telemetry *t, struct buffer *out);

/* Appends the same in Prometheus's text format 0.0.4, named as Prometheus names OTLP metrics: dots become
 * '_', the unit comes behind, then "_total" of sums. 0 or -ENOMEM. */
int telemetry_exposition(const struct telemetry *t, struct buffer *out);

#endif
