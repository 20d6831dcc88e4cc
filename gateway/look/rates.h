/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many samples of each service are digested: all of them as long as together they are at most N a second
 * (and ten seconds' worth at once, after a rest); beyond that those of the services that send most are
 * thinned, to the same number of each (max-min fair). What is kept stands for 1/p samples.
 *
 * A service is a place by its hash: two of one place are thinned as one, which is as honest.
 *
 * Read and taken from by any thread; set once a second by the store's.
 */
#ifndef GATEWAY_LOOK_RATES_H
#define GATEWAY_LOOK_RATES_H

#include <stdatomic.h>
#include <stdint.h>

#define LOOK_RATES     256u
#define LOOK_RATES_ONE 65536u

struct look_rates {
    uint32_t per_second;            /* N */
    _Atomic int64_t tokens;         /* samples that may still be kept */
    _Atomic uint32_t p[LOOK_RATES]; /* chance of a sample of that place, in 1/LOOK_RATES_ONE */
    _Atomic uint32_t generation;    /* of the store: what was told before is forgotten when it changes */
    double demand[LOOK_RATES];      /* samples a second, of late; the setter's */
};

void look_rates_init(struct look_rates *r, uint32_t per_second);

/* Takes tokens for about n·p samples of that place. The chance, in 1/LOOK_RATES_ONE, that each may be kept
 * with; 0: none, there is no room. Any thread. */
uint32_t look_rates_take(struct look_rates *r, uint32_t place, uint32_t n);

/* What came in the last `seconds` (some), by place: earns tokens and says anew who is thinned. */
void look_rates_set(struct look_rates *r, const uint64_t came[LOOK_RATES], double seconds);

#endif
