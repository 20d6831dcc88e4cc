/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A token bucket in one word (the generic cell rate algorithm, ITU-T I.371 annex A): the time until which
 * what was taken is paid for. Lock-free; time is passed in.
 */
#ifndef GATEWAY_ACCESS_GCRA_H
#define GATEWAY_ACCESS_GCRA_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct gcra {
    _Atomic uint64_t paid_until; /* ns, monotonic */
};

/* The time that n bytes cost at a rate (> 0); saturates. */
uint64_t gcra_cost(uint64_t n, uint64_t per_second);

/* Takes a cost if the bucket, burst_ns deep, has as much; else *ret_wait_ns is the time until it will have. A
 * cost above the burst never fits. Any thread. */
bool gcra_take(struct gcra *g, uint64_t now, uint64_t cost, uint64_t burst_ns, uint64_t *ret_wait_ns);

/* Takes a cost in any case, into debt; returns how far, in ns: 0 for none. */
uint64_t gcra_owe(struct gcra *g, uint64_t now, uint64_t cost, uint64_t burst_ns);

/* Gives back what was taken. */
void gcra_return(struct gcra *g, uint64_t cost);

#endif
