/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The section `look`: the store of recent stacks on a thread of its own, and its pages. Batches come with the
 * hand-overs, once a second; questions wait for the thread in turn, four at most. The control loop's, but for
 * looking_tap.
 */
#ifndef GATEWAY_RUN_LOOKING_H
#define GATEWAY_RUN_LOOKING_H

#include "gateway/admin/page.h"
#include "gateway/config/config.h"
#include "gateway/look/querier.h"
#include "proto/base/budget.h"

/* The part of limits.memory that stacks have at most, so that requests always have the most of it. */
#define LOOKING_MEMORY_SHARE 8u

struct counting;
struct io_loop;
struct look_batch;
struct look_tap;
struct looking;

/* *ret is NULL where the configuration has it off, or must not show it: the log says why. 0, or negative with
 * *e. */
int looking_new(struct looking **ret, const struct config *c, struct io_loop *loop, struct budget *budget,
                struct error *e);
/* Runs the loop until the thread has done all that it was given. At the end: when the admin server is gone,
 * and who counts has handed over for the last time; then taps are freed, and then this. NULL is fine. */
void looking_end(struct looking *l);
struct looking *looking_free(struct looking *l);

/* Whose rules questions are about from here on; one user more. `l` NULL: nothing. */
void looking_set_counting(struct looking *l, struct counting *c);

/* For a thread that counts. NULL when memory is out. */
struct look_tap *looking_tap(struct looking *l);

/* What a tap took, or NULL: once a second in any case. Takes the batch over. `l` NULL: nothing. */
void looking_take(struct looking *l, struct look_batch *batch);

/* One for each endpoint, and for each method of querier.v1. How many. */
#define LOOKING_PAGES_MAX ((uint32_t)LOOK_N_ENDPOINTS + LOOK_N_METHODS)
uint32_t looking_pages(struct looking *l, struct admin_page ret[LOOKING_PAGES_MAX]);

#endif
