/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is counted and kept: the rules, compiled, with their metrics as the aggregate stage wants them. The
 * control loop makes one at the start and one at each reload; each worker changes over to the newest in its
 * own time, and what nobody uses any more goes.
 */
#ifndef GATEWAY_RUN_COUNTING_H
#define GATEWAY_RUN_COUNTING_H

#include "gateway/aggregate/aggregate.h"
#include "gateway/config/config.h"
#include "gateway/forward/forward.h"
#include "gateway/run/rule_files.h"

struct counting {
    struct rule_files rules;
    struct aggregate_metric *metrics;
    uint32_t n_metrics;
    uint32_t generation;         /* aggregate_set_generation; 0: the first */
    uint32_t value_length_limit; /* bytes of an attribute's value in metrics */
    struct forward_rates *rates; /* of the rules' `keep N per …`: of all workers */
    struct forward_options forward;
    double check_share; /* of a thread's time, for checking requests */
    uint32_t users;     /* the control loop counts them; nobody else may touch it */
};

/* With one user, the caller. NULL with *e set: the rules are wrong, or memory is out. */
struct counting *counting_new(const struct config *c, struct error *e);

struct counting *counting_use(struct counting *c);

/* One user less; the last one frees it. NULL is fine. Returns NULL. */
struct counting *counting_drop(struct counting *c);

#endif
