/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What /metrics or /api/v1/metrics answers to one scraper: taken from the outputs at one moment, on the
 * control loop, and written piece by piece elsewhere. It shares nothing with the outputs.
 */
#ifndef GATEWAY_RUN_METRICS_PAGE_H
#define GATEWAY_RUN_METRICS_PAGE_H

#include "gateway/admin/metrics.h"
#include "proto/base/buffer.h"

struct counting;
struct metrics_page;
struct output_receipt;
struct outputs;

/* What was counted, what the gateway knows of itself (now), or both. On the budget, which must outlive it, as
 * `wanted` must. Uses the counting for as long as it is there. Control loop, as metrics_page_free. 0 or a
 * negative errno: there is no page. */
int metrics_page_new(struct metrics_page **ret, struct outputs *o, struct counting *counting,
                     const struct admin_metrics *wanted);
struct metrics_page *metrics_page_free(struct metrics_page *p);

/* Takes what was counted: once, first. Whoever has the merger. 0 or a negative errno. */
int metrics_page_take(struct metrics_page *p);

/* What outputs_told is given when the page was read; the caller's, once. NULL: nothing. */
struct output_receipt *metrics_page_receipt(struct metrics_page *p);

/* Conditions of metrics_page_next. */
enum {
    METRICS_PAGE_ENDS = 1, /* that was the last of it, to the end of the text ("# EOF") */
};

/* Appends the next lines, some tens of kilobytes. 0, the condition above, or a negative errno: the page
 * cannot go on. Any thread, one at a time. */
int metrics_page_next(struct metrics_page *p, struct buffer *out);

#endif
