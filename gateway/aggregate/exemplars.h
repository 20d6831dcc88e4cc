/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One example for each series that was offered any: private to this folder. Algorithm R with one place a
 * series: the n-th sample offered takes the place with probability 1/n, so each has the same chance.
 */
#ifndef GATEWAY_AGGREGATE_EXEMPLARS_H
#define GATEWAY_AGGREGATE_EXEMPLARS_H

#include "gateway/aggregate/shapes.h"
#include "proto/base/idmap.h"
#include "proto/base/rng.h"
#include "proto/base/vec.h"

/* Series with an example in one hand-over, a second's worth: beyond it examples are forgotten. 360 KiB. */
#define EXEMPLARS_MAX 4096u

struct exemplar_place {
    uint32_t resource, series;
    uint32_t n_offered;
    struct aggregate_exemplar exemplar;
};

struct exemplars {
    struct idmap place_of; /* (resource, series) → place */
    VEC(struct exemplar_place) places;
    struct rng rng;
};

/* seed: of the draw; different for each worker. */
void exemplars_init(struct exemplars *x, struct budget *budget, uint64_t seed);
void exemplars_release(struct exemplars *x);

/* Without memory, or beyond EXEMPLARS_MAX, it is forgotten. */
void exemplars_offer(struct exemplars *x, uint32_t resource, uint32_t series,
                     const struct aggregate_exemplar *e);

/* Forgets all, keeps the memory. */
void exemplars_clear(struct exemplars *x);

#endif
