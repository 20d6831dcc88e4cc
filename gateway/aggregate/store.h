/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The merger: what all workers' tables add up to, kept once for each output in the shape its exporter needs.
 * One thread at a time.
 *
 * Times are Unix nanoseconds; the clock may step backwards: an output's own time then stands still, so that
 * no point is ever sent with time < start, and windows never overlap.
 */
#ifndef GATEWAY_AGGREGATE_STORE_H
#define GATEWAY_AGGREGATE_STORE_H

#include "gateway/aggregate/aggregate.h"
#include "gateway/aggregate/options.h"
#include "gateway/stats/stats.h"

struct store;
struct output;

/* Distinct metrics (name, unit, kind) that one process may meet in its life, by reloads. A metric that is
 * gone keeps its number, in case that it comes back. */
#define STORE_METRICS_MAX 65536u

/* The metrics must be those of the workers' tables; all of it is copied. stats may be NULL. NULL: memory is
 * out, or there are more metrics than STORE_METRICS_MAX. */
struct store *store_new(const struct aggregate_metric *metrics, uint32_t n_metrics, uint32_t n_workers,
                        struct budget *budget, struct stats *stats);
struct store *store_free(struct store *s);

/* One more output, owned by the store; it sees what is applied from now on, its first window begins now. The
 * options are copied, keys too. NULL: memory is out. */
struct output *store_add_output(struct store *s, const struct output_options *options, uint64_t now);

/* Conditions of store_replace_metrics. */
enum {
    STORE_FULL = 1, /* there were more than STORE_METRICS_MAX different metrics since the start */
};

/* A reload: from now on the workers' tables may be made for these metrics; the number for
 * aggregate_set_generation comes in *ret_generation. A metric that has the name, unit, kind and is_seconds of
 * one before it, and like it keeps_last or not, goes on with its totals, whatever else of it changed. One
 * that is no longer there tells what it has not told, then ends with a stale point. Workers change over one
 * by one, each in its own time: deltas of the metrics before are added as long as they come, so nothing is
 * lost. 0, the condition above, or -ENOMEM; unless 0 nothing has changed. */
int store_replace_metrics(struct store *s, const struct aggregate_metric *metrics, uint32_t n_metrics,
                          uint32_t *ret_generation);

/* The metrics before a reload are kept until every worker has been heard with later ones. A worker that does
 * not run yet (STORE_WORKER_IDLE) is not waited for; before it counts, it is said which generation it begins
 * with. */
#define STORE_WORKER_IDLE UINT32_MAX
void store_worker_is_at(struct store *s, uint32_t worker, uint32_t generation);

/* Adds a worker's delta (and those linked to it) to every output, and frees it. Never fails: what finds no
 * memory is added to the overflow series of its metric, for which there is always room. delta may be NULL. */
void store_apply(struct store *s, uint32_t worker, struct aggregate_delta *delta, uint64_t now);

/* Now and then, also where nothing comes: what has been idle for metric_expiration in outputs that are pulled
 * ends, and idle resources make room where others found none. */
void store_expire(struct store *s, uint64_t now);

/* A batch of what the output has to say at `now`; the caller's to free; without resources when there is
 * nothing.
 *
 * Delta: every series added to since the last collect, window (last collect, now]. Cumulative: every live
 * series, from the beginning of the window it appeared in. One idle for metric_expiration is sent once more
 * with the stale flag, then forgotten; should it return, it starts anew. (When it is full of resources,
 * new ones share the overflow resource until idle ones have left: room.h.) A gauge is the total of the
 * window, in cumulative outputs that of the last finished gauge interval in which it was added to. 0, or
 * -ENOMEM: then nothing has changed, and the next collect covers this one's window too.
 *
 * What is in the batch is told: it will arrive, or whoever sends it counts what is lost. */
int output_collect(struct output *o, uint64_t now, struct metric_batch **ret);

/* What a batch says that may arrive or not. */
struct output_receipt;

/* The same for one of several who ask, of a cumulative output: it is told only when the receipt comes back.
 * Meanwhile, and if it never does, others are told the same. All there is may be much: points are in brief.
 * *ret_receipt is the caller's; NULL where there was no memory for it, as if it would never come back. */
int output_show(struct output *o, uint64_t now, struct metric_batch **ret,
                struct output_receipt **ret_receipt);

/* The batch has arrived. In any order; the receipt may be NULL. */
void output_told(struct output *o, const struct output_receipt *receipt);
struct output_receipt *output_receipt_free(struct output_receipt *receipt);

/* Series live in all outputs. */
uint64_t store_series(const struct store *s);

#endif
