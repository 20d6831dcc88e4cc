/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a worker's numbers mean to the merger: private to this folder. The worker sends each name once; its
 * numbers are good for one epoch of its dictionary, and of one generation of metrics.
 */
#ifndef GATEWAY_AGGREGATE_DICT_H
#define GATEWAY_AGGREGATE_DICT_H

#include <stdint.h>

#include "proto/base/arena.h"
#include "proto/base/vec.h"

struct names {
    VEC(struct bytes) of; /* by number; .p NULL: there was no memory for it */
};

struct worker_dict {
    uint32_t generation, epoch;
    struct arena arena;
    struct names resources, series;
    VEC(uint64_t) clients; /* of the resources */
};

/* What the numbers of a generation of metrics are in the store: needed as long as a worker may have it. */
struct store_generation {
    struct store_generation *next; /* older */
    uint32_t number, n_metrics;
    uint32_t slot[];
};

/* What somebody found a worker's numbers to be, by number. */
#define NO_ID UINT32_MAX
struct numbers {
    VEC(uint32_t) of; /* NO_ID until it is known */
};

/* Where number `id` of `known` is remembered, or NULL: there is no memory for it. Valid until the next call.
 */
static inline uint32_t *numbers_place(struct numbers *x, uint32_t id, uint32_t known)
{
    const uint32_t before = x->of.n;
    if (vec_extend(&x->of, known) < 0 || id >= x->of.n)
        return NULL;
    for (uint32_t i = before; i < x->of.n; i++)
        x->of.p[i] = NO_ID;
    return &x->of.p[id];
}

/* They mean other things now. */
static inline void numbers_forget(struct numbers *x)
{
    vec_clear(&x->of);
}

#endif
