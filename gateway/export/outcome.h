/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a destination's events mean for the gateway: counters, the queue gauge, and a line in the log for each
 * kind of failure (at most one a second). Private to this folder.
 */
#ifndef GATEWAY_EXPORT_OUTCOME_H
#define GATEWAY_EXPORT_OUTCOME_H

#include "gateway/stats/stats.h"
#include "proto/client/exporter.h"

struct outcome {
    char *name; /* as the configuration calls the destination */
    enum otlp_signal signal;
    struct stats *stats; /* the control loop's block, or NULL */
    struct otlp_exporter *exporter;
    void *context;      /* the owner's own */
    size_t shown_bytes; /* this destination's part of EXPORT_QUEUE_BYTES */
};

/* An otlp_event_fn; user is the struct outcome. */
void outcome_event(void *user, const struct otlp_event *event);

/* Brings the gauge up to date; user is the struct outcome. */
void outcome_queued(void *user);

#endif
