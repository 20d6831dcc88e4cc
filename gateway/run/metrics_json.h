/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What /api/v1/metrics answers: the counters with what the rules say of them, for programs that show them.
 *
 *     {"samples": 812,                           counted since the gateway began, whatever is shown
 *      "metrics": [{"name": "profile.busy.time", "pack": "busy", "describe": "…", "unit": "s",
 *                   "on": "cpu", "kind": "counter", "labels": ["function", "category"]}, …],
 *      "resources": [{"attributes": {"service.name": "dd", …},
 *                     "series": [{"metric": 0, "labels": {"function": "read(2)"}, "value": 1.25}, …]}, …]}
 *
 * Metrics are those that are counted now, as the rules define them, one after the other; "metric" is a place
 * in that list; what counts profiles by their type's name has no "on". A counter's value is a total that only
 * ascends until the gateway or the series begins anew.
 */
#ifndef GATEWAY_RUN_METRICS_JSON_H
#define GATEWAY_RUN_METRICS_JSON_H

#include "proto/base/buffer.h"
#include "proto/otlp/metrics/metrics.h"

struct metrics_json;
struct rules_program;

/* Of a batch and the rules that counted it, which outlive it. pack: only the metrics of that one; "": all.
 * NULL: memory is out. */
struct metrics_json *metrics_json_new(const struct metric_batch *batch, const struct rules_program *program,
                                      const char *pack);
struct metrics_json *metrics_json_free(struct metrics_json *p);

/* Conditions of metrics_json_next. */
enum {
    METRICS_JSON_ENDS = 1, /* that was the last of the document */
};

/* Appends what comes next until that is `enough` bytes. 0, the condition above, -ENOMEM or -ENOBUFS: the
 * document cannot go on. Any thread, one at a time. */
int metrics_json_next(struct metrics_json *p, size_t enough, struct buffer *out);

#endif
