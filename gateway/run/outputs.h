/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where counters leave: the merger with one output for /metrics and one for each metrics exporter, and the
 * exporters themselves. Control loop; what touches counts (replace_metrics, store, apply, expire, flush,
 * show, told) whoever has the merger (merger.h).
 */
#ifndef GATEWAY_RUN_OUTPUTS_H
#define GATEWAY_RUN_OUTPUTS_H

#include <stdint.h>

#include "gateway/aggregate/aggregate.h"
#include "gateway/config/config.h"
#include "gateway/export/prometheus/names.h"
#include "proto/base/error.h"

struct export_profiles;
struct io_loop;
struct output_receipt;
struct outputs;
struct stats;
struct store;

/* What tells the streams of one gateway from those of another that sees the same resources: an attribute of
 * every resource that leaves, and so a label of every series. */
#define OUTPUTS_INSTANCE_KEY "profgate.instance.id"

struct outputs_options {
    const struct config *config;
    const struct aggregate_metric *metrics;
    uint32_t n_metrics, n_workers;
    struct budget *budget;
    struct stats *stats, *merger_stats; /* the loop's; of who has the counts */
};

/* NULL with *e set: an exporter's options are wrong, or memory is out. */
struct outputs *outputs_new(const struct outputs_options *options, struct io_loop *loop, struct error *e);
struct outputs *outputs_free(struct outputs *o); /* after outputs_shutdown's done */

/* Where raw profiles go; NULL when nowhere. */
struct export_profiles *outputs_profiles(struct outputs *o);

/* The name of an exporter of raw profiles that would refuse a request of n bytes now, or NULL. */
const char *outputs_without_room(struct outputs *o, size_t n);

/* A reload (store_replace_metrics): 0 with the number for aggregate_set_generation of tables for these
 * metrics, OUTPUTS_FULL: too many different ones since the start, or -ENOMEM. The exporters stay. */
enum { OUTPUTS_FULL = 1 };
int outputs_replace_metrics(struct outputs *o, const struct aggregate_metric *metrics, uint32_t n_metrics,
                            uint32_t *ret_generation);

/* When the certificate that the i-th exporter shows ends, in Unix seconds, and which it is; INT64_MAX: it
 * shows none. False: there is no i-th. */
bool outputs_tls_expiry(const struct outputs *o, uint32_t i, int64_t *ret, const char **ret_name,
                        const char **ret_signal);

/* What triggers watch. */
struct store *outputs_store(struct outputs *o);

/* Whoever has more to say on what the gateway knows of itself: `write` appends Prometheus text 0.0.4. */
void outputs_set_more(struct outputs *o, int (*write)(void *context, struct buffer *out), void *context);

/* Adds what a worker counted since its last hand-over. Takes the delta, which may be NULL. */
void outputs_apply(struct outputs *o, uint32_t worker, struct aggregate_delta *delta);

/* After each round of hand-overs: what nobody asks for ends, too. */
void outputs_expire(struct outputs *o);

/* Sends every exporter what it has not had; one whose storage takes nothing gets it later, unless this is the
 * last time. Whether all of them have it now. */
bool outputs_flush(struct outputs *o, bool is_last);

/* The counters as a scraper of /metrics shall see them now; *ret NULL: metrics.exporters has no prometheus.
 * The batch and the receipt (output_show) are the caller's. 0 or -ENOMEM. */
int outputs_show(struct outputs *o, struct metric_batch **ret, struct output_receipt **ret_receipt);

/* That was read. */
void outputs_told(struct outputs *o, const struct output_receipt *receipt);

/* Appends what the gateway knows of itself, without the end of the text. 0 or a negative errno. */
int outputs_self(const struct outputs *o, enum prometheus_format format, struct buffer *out);

/* How names and labels are written for Prometheus, as configured. */
struct prometheus_options outputs_names(const struct outputs *o);

/* Drains the exporters' queues until the monotonic time deadline_ns, then calls done from the loop. */
void outputs_shutdown(struct outputs *o, uint64_t deadline_ns, void (*done)(void *user), void *user);

#endif
