/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rules' triggers at work: fed once a second from what the merger hears, they say which groups fire;
 * that is shown and logged, and a group whose trigger says `keep all` is captured while it fires.
 *
 * What a group adds up to is seen by a watch of the merger (aggregate/watch.h): before any limit of an
 * output, and at no cost where samples are counted. Without triggers nothing is watched. Control loop.
 */
#ifndef GATEWAY_CONTROL_TRIGGERS_H
#define GATEWAY_CONTROL_TRIGGERS_H

#include <stdint.h>

#include "gateway/aggregate/aggregate.h"
#include "gateway/control/capture.h"
#include "proto/base/budget.h"
#include "proto/base/buffer.h"
#include "proto/base/error.h"

struct rule_set;
struct store;
struct control_triggers;

struct control_triggers_options {
    const struct rule_set *rules; /* outlives it */
    struct store *store;          /* and so do these */
    struct captures *captures;
    struct budget *budget;
    /* Of the rules before, or NULL: how often triggers fired is taken over by their names. Nothing else is: a
     * trigger begins with an empty window. */
    const struct control_triggers *before;
};

/* Sets is_counted of those metrics of a program that a share is taken of: its evidence is samples. Before
 * the metrics go to workers and merger. */
void control_triggers_mark(const struct rule_set *rules, struct aggregate_metric *metrics,
                           uint32_t n_metrics);

/* NULL with *e set: memory is out. */
struct control_triggers *control_triggers_new(const struct control_triggers_options *options,
                                              struct error *e);

/* Ends what fires: its captures are withdrawn. Before the store's end. NULL is fine. */
struct control_triggers *control_triggers_free(struct control_triggers *c);

/* Once the merger has heard all workers; what is less than half a second after the last time does nothing.
 * now_ns is monotonic, unix_ns as given to store_apply. */
void control_triggers_second(struct control_triggers *c, uint64_t now_ns, uint64_t unix_ns);

/* Appends what they are doing as Prometheus text 0.0.4; only groups that fire are named, so there are at most
 * 64 a trigger. 0 or -ENOMEM. */
int control_triggers_prometheus(const struct control_triggers *c, struct buffer *out);

/* Appends it as JSON: {"triggers": [{"name", "pack", "describe", "groups", "fired", "unseen", "held_seconds",
 * "firing": [{"group": {KEY: TEXT or null}, "value", "for_seconds", "capturing"}]}]}. 0 or -ENOMEM. */
int control_triggers_json(const struct control_triggers *c, uint64_t now_ns, struct buffer *out);

#endif
