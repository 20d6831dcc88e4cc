/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One output: what workers hand over, kept in its own shape. Private to this folder; collect.c makes batches
 * of it.
 */
#ifndef GATEWAY_AGGREGATE_OUTPUT_H
#define GATEWAY_AGGREGATE_OUTPUT_H

#include "gateway/aggregate/cells.h"

/* The catalogue outlives it. NULL: memory is out. */
struct output *output_new(const struct catalogue *all, const struct output_options *options, uint64_t now);
struct output *output_free(struct output *o);

/* Moves the output's time and its gauge interval on, or everything back to a clock that was put back
 * (catalogue.h): all streams begin anew with what no collect has told yet. Call before adding. */
void output_advance(struct output *o, uint64_t now);

/* Adds a worker's cells, at the output's time, and gives series that are alive their examples, if the output
 * wants any. g: what the delta's numbers of metrics are in the store. */
void output_apply(struct output *o, uint32_t worker, const struct aggregate_delta *d,
                  const struct store_generation *g);

#endif
