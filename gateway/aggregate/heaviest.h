/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which label sets of an output get names where the heaviest say so (`limit N largest`), over largest.h.
 * Private to this folder.
 */
#ifndef GATEWAY_AGGREGATE_HEAVIEST_H
#define GATEWAY_AGGREGATE_HEAVIEST_H

#include "gateway/aggregate/cells.h"

/* Adds to a series of a metric whose heaviest get names. */
void heaviest_add(struct output *o, uint32_t resource, uint32_t series, uint32_t metric, int64_t sum);

/* Gives the heaviest names and puts the others into overflow, as a part of a collect. 0 or -ENOMEM: nothing
 * has changed. What it decided stays, also where the collect then fails. */
int heaviest_choose(struct output *o);

#endif
