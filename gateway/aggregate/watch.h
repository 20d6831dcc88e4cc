/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Running totals of some series by some attributes of their resources, beside what leaves: what a trigger
 * looks at. It sees what workers hand over, before any limit, expiry or choice of attributes of an output,
 * and costs a look-up for each series a worker added to since its last hand-over; nothing for each sample.
 *
 * A group is one combination of the attributes' values. Control loop.
 */
#ifndef GATEWAY_AGGREGATE_WATCH_H
#define GATEWAY_AGGREGATE_WATCH_H

#include <stdint.h>

#include "gateway/aggregate/shapes.h"

#define WATCH_SUMS       2u
#define WATCH_KEYS_MAX   8u
#define WATCH_TEXT_SPACE 32u

struct store;
struct watch;

struct watch_options {
    const struct bytes *keys; /* of resource attributes; outlive the watch */
    uint32_t n_keys;          /* at most WATCH_KEYS_MAX; 0: one group of all */
    /* Bit i: the label set's sums are added to sum[i]. Asked once for each that a worker names. */
    unsigned (*select)(void *context, const struct aggregate_metric *metric,
                       const struct aggregate_label *labels, uint32_t n_labels);
    /* A value as a group has it, perhaps written into the space; .p NULL: as if the attribute were absent. */
    struct bytes (*text)(const struct attr_value *value, char space[WATCH_TEXT_SPACE]);
    void *context;
    uint32_t groups_max; /* what further ones add is not seen, and counted */
    uint64_t idle_ns;    /* a group that nothing was added to for so long is forgotten */
};

/* In the unit of addition of the series' metrics; what is_counted of them: the samples, too. */
struct watch_totals {
    int64_t sum[WATCH_SUMS];
    uint64_t samples[WATCH_SUMS];
};

/* One more watch, owned by the store; it sees what is applied from now on. NULL: no memory. */
struct watch *store_add_watch(struct store *s, const struct watch_options *options);
void store_drop_watch(struct store *s, struct watch *w);

/* Every group, after those that have been idle are forgotten. values: one a key, .p NULL where the resource
 * lacks it, valid during the call. now: as in store_apply. */
void watch_each(struct watch *w, uint64_t now,
                void (*each)(void *context, const struct bytes *values, const struct watch_totals *totals),
                void *context);

/* Additions that were not seen, for groups_max or want of memory. Any thread. */
uint64_t watch_unseen(const struct watch *w);

#endif
