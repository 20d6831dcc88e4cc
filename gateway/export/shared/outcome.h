/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What becomes of an exporter's requests, as the gateway tells it: counters, the queue's gauge, and a line in
 * the log for each kind of failure (at most one a second of each exporter: none hides what another one's
 * trouble is; of what is left at the end one, with its sum). For the kinds of exporters; the control loop's
 * thread.
 */
#ifndef GATEWAY_EXPORT_SHARED_OUTCOME_H
#define GATEWAY_EXPORT_SHARED_OUTCOME_H

#include "gateway/export/exporter.h"
#include "proto/base/error.h"
#include "proto/base/log.h"
#include "proto/client/client.h"

struct outcome {
    char *name; /* as the configuration calls the exporter */
    bool metrics;
    struct stats *stats;                         /* the control loop's block, or NULL */
    bool is_failing;                             /* of its storage, as STORAGE_FAILING shows it */
    size_t shown_bytes;                          /* this exporter's part of EXPORT_QUEUE_BYTES */
    struct log_limit told[CLIENT_SHUT_DOWN + 1]; /* by kind of event */
    struct {
        uint64_t requests, items;
        struct error why; /* of the first */
    } left;               /* at the end: told once, by outcome_end */
};

/* 0 or -ENOMEM. */
int outcome_init(struct outcome *o, const struct export_context *c);
void outcome_release(struct outcome *o);

/* Counts and tells it. */
void outcome_event(struct outcome *o, const struct client_event *event);

/* The event of `requests` that were lost on our side, with their samples or points. */
void outcome_lost(struct outcome *o, uint64_t requests, uint64_t items, const char *why);

/* Its storage takes nothing, or takes again; `times` it did not since this was said last. */
void outcome_storage(struct outcome *o, bool is_failing, uint64_t times);

/* All is drained: tells what was left, whose sum is only known then. */
void outcome_end(const struct outcome *o);

/* The queue holds so many bytes now. */
void outcome_queued(struct outcome *o, size_t bytes);

#endif
