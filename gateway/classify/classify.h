/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The push header of the classify stage: a decoded request in, additions to the worker's aggregate out.
 *
 * Each distinct thing is asked once: a string meets the patterns once (and what it meant is remembered across
 * requests), a location gets its class from its strings, a stack its verdict from its locations; a sample is
 * then an addition. One object per worker thread; the rule program is shared and immutable.
 */
#ifndef GATEWAY_CLASSIFY_CLASSIFY_H
#define GATEWAY_CLASSIFY_CLASSIFY_H

#include <stdint.h>

#include "proto/base/budget.h"
#include "proto/otlp/view/profiles.h"

struct aggregate;
struct rules_program;
struct stats;

struct classify;

/* The program must outlive it. NULL when memory is out. */
struct classify *classify_new(const struct rules_program *program, struct aggregate *aggregate,
                              struct stats *stats, struct budget *budget);
struct classify *classify_free(struct classify *c);

/* Conditions of classify_push. */
enum {
    CLASSIFY_TOO_MUCH_WORK = 1, /* rules that read attributes of samples or profiles would have to look at its
                                   stacks again more often than its bytes pay for */
};

/* Counts every sample of the view that was not rejected. 0, the condition above, or -ENOMEM. Unless 0,
 * nothing of this request was counted. What one huge request made us hold is given back at once. */
int classify_push(struct classify *c, const struct profiles *view);

/* Whose requests come from here on: aggregate_from. */
void classify_from(struct classify *c, uint64_t client);

/* Bytes held now: tables of the request, and what is remembered of others before it, here and in the
 * aggregate. */
size_t classify_memory_used(const struct classify *c);

/* Between requests, when none came for a while: what was kept for the next one is given back, if it is much.
 */
void classify_rest(struct classify *c);

/* Between requests: forgets all that is remembered because it is faster. */
void classify_forget(struct classify *c);

/* The same at the end of the last classify_push, before anything was given back. */
size_t classify_memory_peak(const struct classify *c);

#endif
