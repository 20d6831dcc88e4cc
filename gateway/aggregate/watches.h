/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store's watches (watch.h): a list, and how it hears of what a worker hands over. Private to this
 * folder.
 */
#ifndef GATEWAY_AGGREGATE_WATCHES_H
#define GATEWAY_AGGREGATE_WATCHES_H

#include "gateway/aggregate/catalogue.h"
#include "gateway/aggregate/delta.h"

struct watch;
struct watch_options;

struct watches {
    struct watch *first;
};

/* One delta of a worker, its dictionary known already. */
struct watching {
    const struct catalogue *all;
    uint32_t worker;
    const struct worker_dict *dict;
    const struct aggregate_delta *delta;
    const struct store_generation *generation;
    uint64_t now;
};

/* One more. NULL: no memory. */
struct watch *watches_add(struct watches *list, const struct catalogue *all,
                          const struct watch_options *options);
void watches_drop(struct watches *list, struct watch *w);
void watches_apply(struct watches *list, const struct watching *what);
void watches_release(struct watches *list);

#endif
