/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files that make up an output share (output.c, output_largest.c, output_levels.c): private to them.
 */
#ifndef GATEWAY_AGGREGATE_OUTPUT_PARTS_H
#define GATEWAY_AGGREGATE_OUTPUT_PARTS_H

#include "gateway/aggregate/output.h"

/* The output's number of a resource's attributes. */
uint32_t output_resource_of_set(struct output *o, struct bytes set);

/* The cell of numbers of the output, alive; NULL where there is no room for it. */
struct output_cell *output_cell_live(struct output *o, uint32_t resource, uint32_t series, uint32_t metric);

struct output_cell *output_cell_find(const struct output *o, uint32_t resource, uint32_t series);

/* Label sets that may have a name in a resource. */
uint32_t output_limit(const struct output *o, uint32_t metric);

/* Gives a live cell its example. */
void output_set_exemplar(struct output *o, struct output_cell *cell, const struct aggregate_exemplar *e);

/* Adds to a series that has a name, or where there is no room for one to its overflow. */
void output_add_to(struct output *o, uint32_t resource, uint32_t series, uint32_t metric, int64_t sum);

static inline bool output_is_overflow(const struct store *s, uint32_t series)
{
    return series < s->n_metrics;
}

/* Which label sets of the metric get a name, the heaviest say; a gauge's do not: it may fall. */
static inline bool output_names_heaviest(const struct store *s, uint32_t metric)
{
    return s->metrics[metric].largest && s->metrics[metric].kind == METRIC_SUM;
}

/* output_largest.c: adds to a series of a metric whose heaviest get names. */
void output_add_largest(struct output *o, uint32_t resource, uint32_t series, uint32_t metric, int64_t sum);

/* Gives the heaviest names and puts the others into overflow, as a part of a collect. 0 or -ENOMEM: nothing
 * has changed. What it decided stays, also where the collect then fails. */
int output_choose(struct output *o);

/* output_levels.c: lets the cells of metrics that keep the newest profile show that, as a part of a
 * collect. */
void output_show_levels(struct output *o);

#endif
