/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a rule program says of the samples of a request: whom this stage asks before it decides with its
 * seeded hash (pick.h). The program joins the two; here nobody knows what a rule is.
 */
#ifndef GATEWAY_FORWARD_KEEP_H
#define GATEWAY_FORWARD_KEEP_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/bytes.h"
#include "proto/otlp/view/profiles.h"

/* Shares are millionths. */
#define KEEP_ONE 1000000u

/* A sample is kept if it is not dropped and any of the shares says so (pick.h). All zero: no rule takes it,
 * so the configuration's share decides. */
struct keep_said {
    bool dropped;
    uint32_t of_stacks, of_profiles, of_samples;
    uint32_t rates, n_rates; /* keep_decider.rate(context, rates + i) */
};

/* At most `count` samples a period, of those that no share kept, for each text. */
struct keep_rate {
    uint32_t rule;     /* a number of its own for each rule of a program */
    struct bytes text; /* valid until the next question */
    uint32_t count;
    bool per_second; /* else per minute */
};

struct keep_decider {
    void *context;
    /* Whether there is any rule at all. False: nothing else is asked. NULL: false. */
    bool (*has_rules)(void *context);
    /* Begins with a request that was counted before, in this thread. 0 or -ENOMEM. */
    int (*begin)(void *context, const struct profiles *view);
    /* Of a sample that is not rejected; samples in order. 0 or -ENOMEM. */
    int (*sample)(void *context, uint32_t profile, uint32_t sample, struct keep_said *ret);
    void (*rate)(void *context, uint32_t rate, struct keep_rate *ret);
    /* The request is done with, whatever came before. */
    void (*end)(void *context);
};

#endif
