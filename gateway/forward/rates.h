/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many samples have been kept by rate: counts by rule and text in the present second or minute. Shared by
 * all workers, since a rate is of the gateway.
 *
 * Windows are fixed: a window's count begins anew when the monotonic clock enters the next second or minute,
 * so that no window has more than its count.
 */
#ifndef GATEWAY_FORWARD_RATES_H
#define GATEWAY_FORWARD_RATES_H

#include <stdbool.h>
#include <stdint.h>

#include "gateway/forward/keep.h"

struct forward_rates;

/* NULL when memory is out. */
struct forward_rates *forward_rates_new(void);
struct forward_rates *forward_rates_free(struct forward_rates *r);

/* Takes one of the rate's samples; false when its window has had them all. Texts are told apart by a 64-bit
 * hash. Any thread. */
bool forward_rates_take(struct forward_rates *r, const struct keep_rate *rate, uint64_t now_ns);

#endif
