/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gauges that keep what the newest profile says (`combine last`): private to this folder. Of each resource
 * and metric the moment of the newest profile that added to it, and of each series what its profile said;
 * entries of older profiles are as good as absent. Workers and the merger keep the same, under their own
 * numbers.
 */
#ifndef GATEWAY_AGGREGATE_LATEST_H
#define GATEWAY_AGGREGATE_LATEST_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/idmap.h"
#include "gateway/aggregate/shapes.h"
#include "proto/base/vec.h"

/* Series of such gauges, in a worker or in all: 16 MiB. Further ones are not kept. */
#define LATEST_MAX (1u << 18)

struct latest_entry {
    uint32_t resource, series, metric;
    struct aggregate_moment moment;
    int64_t value;
    uint64_t updated; /* the merger's: its time, and the number of the hand-over */
    uint64_t handover;
};

struct latest_newest {
    uint32_t resource, metric;
    struct aggregate_moment moment;
};

struct latest {
    struct idmap entry_of;  /* (resource, series) → entry */
    struct idmap newest_of; /* (resource, metric) → newest */
    VEC(struct latest_entry) entries;
    VEC(struct latest_newest) newest;
};

void latest_init(struct latest *l, struct budget *budget);
void latest_release(struct latest *l);
void latest_clear(struct latest *l); /* keeps the memory */

enum { LATEST_OLDER = 1 }; /* than a profile that was heard */

/* 0, LATEST_OLDER, or -ENOMEM: no memory, or LATEST_MAX. */
int latest_put(struct latest *l, const struct latest_entry *e);

/* Whether the entry is of its resource's newest profile. */
bool latest_is_current(const struct latest *l, const struct latest_entry *e);

#endif
