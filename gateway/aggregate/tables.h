/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An output's tables as a whole: made, emptied, copied into others without what is dead. Private to this
 * folder.
 */
#ifndef GATEWAY_AGGREGATE_TABLES_H
#define GATEWAY_AGGREGATE_TABLES_H

#include "gateway/aggregate/cells.h"

/* Empty ones for n_metrics metrics. False: no memory. */
bool output_tables_init(struct output_tables *t, uint32_t n_metrics, struct budget *budget);
void output_tables_release(struct output_tables *t);

/* The tables as they must be for n_metrics metrics, at least the store's present number: a copy. False: no
 * memory. */
bool output_tables_for(const struct output *o, uint32_t n_metrics, struct output_tables *ret);

/* The same without the resources (by number) that are gone, with all they have. */
bool output_tables_without(const struct output *o, const bool *gone, uint32_t n_metrics,
                           struct output_tables *ret);

/* Puts them in place of the old ones. A new generation. */
void output_tables_take(struct output *o, struct output_tables *tables);

/* Drops everything (delta, after a collect). A new generation. */
void output_clear(struct output *o);

/* Whether names that nobody uses are many: label sets that were candidates for a while. */
bool output_has_old_names(const struct output *o);

/* Drops dead cells and the names only they used, when they are many or stand in newcomers' way. Numbers
 * change: a new generation. */
void output_compact(struct output *o);

#endif
