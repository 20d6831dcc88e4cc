/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The worker's side of the store: a consumer of the decoded view that keeps, of each request, as many samples
 * as it may (rates.h), by the hash of their stacks. A stack's names are copied once, then the hash says it.
 *
 * What is kept has the weight that counting gives it: the sum over everything of a type is what the metric
 * `profile.cpu.time` adds up, exactly where nothing was thinned.
 *
 * One for each thread that counts; its thread.
 */
#ifndef GATEWAY_LOOK_TAP_H
#define GATEWAY_LOOK_TAP_H

#include "gateway/look/batch.h"
#include "proto/otlp/view/profiles.h"

struct look_tap;

/* `rates` and `budget` outlive it; `budget` is charged for its tables, and for each batch at most
 * `batch_bytes`. NULL: no memory. */
struct look_tap *look_tap_new(struct look_rates *rates, struct budget *budget, size_t batch_bytes);
struct look_tap *look_tap_free(struct look_tap *t);

/* A request's view; `now` is Unix time in nanoseconds. What there is no memory for is counted. */
void look_tap_push(struct look_tap *t, const struct profiles *view, uint64_t now);

/* What was kept since the last time, the caller's to free; NULL: nothing. Gives back what one huge request
 * needed. */
struct look_batch *look_tap_take(struct look_tap *t);

/* Bytes of its tables on the budget. */
size_t look_tap_memory_used(const struct look_tap *t);

#endif
