/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small random generator (xorshift64*) for jitter and sampling. Not for secrets. The state is the caller's,
 * so that tests are repeatable.
 */
#ifndef PROTO_BASE_RNG_H
#define PROTO_BASE_RNG_H

#include <stdint.h>

struct rng {
    uint64_t state;
};

static inline void rng_seed(struct rng *r, uint64_t seed)
{
    r->state = seed ? seed : 0x9e3779b97f4a7c15u;
}

static inline uint64_t rng_next(struct rng *r)
{
    r->state ^= r->state >> 12;
    r->state ^= r->state << 25;
    r->state ^= r->state >> 27;
    return r->state * 0x2545f4914f6cdd1du;
}

/* In [0, 1). */
static inline double rng_unit(struct rng *r)
{
    return (double)(rng_next(r) >> 11) * 0x1p-53;
}

#endif
