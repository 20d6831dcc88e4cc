/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which label sets of a metric deserve a name (`limit N largest`): private to this folder. Between two
 * collects those without a name are candidates, at most four times the limit in each resource and metric, by
 * Space-Saving (Metwally, Agrawal, El Abbadi, "Efficient computation of frequent and top-k elements in data
 * streams", 2005): a newcomer takes the place of the lightest, and its weight on top of its own.
 *
 * So what adds up to more than a 4N-th of what all of them add up to is among the candidates at the end,
 * whatever the order. A weight only ranks; beside it stands what was added since the candidate came in, which
 * is exact: what it had before went to overflow when it was put out.
 */
#ifndef GATEWAY_AGGREGATE_LARGEST_H
#define GATEWAY_AGGREGATE_LARGEST_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/idmap.h"
#include "gateway/aggregate/shapes.h"
#include "proto/base/vec.h"

#define LARGEST_CANDIDATES 4u /* times the limit */

/* Candidates of an output, all metrics and resources together. 16 MiB; beyond it newcomers only replace. */
#define LARGEST_MAX (1u << 18)

struct largest_candidate {
    uint32_t group, series;
    uint32_t at;       /* in the group's heap */
    uint32_t exemplar; /* place in exemplars, + 1; 0: none */
    int64_t value;     /* added since it came in */
    uint64_t weight;   /* what it had may be as much as this: value, and that of those put out for it */
};

struct largest_group {
    uint32_t resource, metric;
    VEC(uint32_t) heap; /* candidates, the lightest in front */
};

struct largest {
    struct budget *budget;
    struct idmap group_of;     /* (resource, metric) → group */
    struct idmap candidate_of; /* (resource, series) → candidate + 1; 0: it was put out */
    VEC(struct largest_group) groups;
    VEC(struct largest_candidate) candidates;
    VEC(struct aggregate_exemplar) exemplars;
};

void largest_init(struct largest *l, struct budget *budget);
void largest_release(struct largest *l);

/* Forgets all candidates. */
void largest_clear(struct largest *l);

/* Adds value >= 0 to a series without a name. What must go to overflow for it comes in *ret_out: the value of
 * the one it put out, or its own where there is no memory for it. */
void largest_add(struct largest *l, uint32_t resource, uint32_t series, uint32_t metric, uint32_t limit,
                 int64_t value, int64_t *ret_out);

/* The candidate of a series, or NULL. */
struct largest_candidate *largest_find(const struct largest *l, uint32_t resource, uint32_t series);

/* Gives a candidate its example; without memory there is none. */
void largest_exemplar(struct largest *l, struct largest_candidate *c, const struct aggregate_exemplar *e);

/* Copies a candidate into another table under other numbers. False: no memory. */
bool largest_copy(struct largest *to, const struct largest *from, const struct largest_candidate *c,
                  uint32_t resource, uint32_t series);

#endif
