/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the store's watches (watch.h) hear of what a worker hands over: private to this folder.
 */
#ifndef GATEWAY_AGGREGATE_WATCHING_H
#define GATEWAY_AGGREGATE_WATCHING_H

#include "gateway/aggregate/output.h"

/* One delta of a worker, its dictionary known already. */
struct watching {
    const struct store *store;
    uint32_t worker;
    const struct worker_dict *dict;
    const struct aggregate_delta *delta;
    const struct store_generation *generation;
    uint64_t now;
};

void watching_apply(struct store *s, const struct watching *what);
void watching_release(struct store *s);

#endif
