/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many samples were added to a series, where somebody asked for that: private to this folder. Beside the
 * worker's table and not in it, so that who does not ask pays nothing.
 */
#ifndef GATEWAY_AGGREGATE_TALLY_H
#define GATEWAY_AGGREGATE_TALLY_H

#include <stdint.h>

#include "proto/base/idmap.h"
#include "proto/base/vec.h"

struct tally_item {
    uint32_t resource, series;
    uint64_t n;
};

struct tally {
    struct idmap item_of; /* (resource, series) → item */
    VEC(struct tally_item) items;
};

void tally_init(struct tally *t, struct budget *budget);
void tally_release(struct tally *t);
void tally_clear(struct tally *t); /* keeps the memory */

/* Without memory it is forgotten: what is asked of it is whether there were enough. */
void tally_add(struct tally *t, uint32_t resource, uint32_t series, uint64_t n);

#endif
