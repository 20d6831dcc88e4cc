/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gauges that keep what the newest profile says (`combine last`), over latest.h: kept once for all outputs,
 * shown by each. Private to this folder.
 */
#ifndef GATEWAY_AGGREGATE_LEVELS_H
#define GATEWAY_AGGREGATE_LEVELS_H

#include "gateway/aggregate/cells.h"

void levels_init(struct levels *l, struct budget *budget);
void levels_release(struct levels *l);

/* Takes what a worker heard of the newest profiles. */
void levels_apply(struct catalogue *c, const struct worker_dict *dict, const struct aggregate_delta *d,
                  const struct store_generation *g, uint64_t now);

/* Lets the cells of metrics that keep the newest profile show that, as a part of a collect. */
void levels_show(struct output *o);

#endif
