/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A wall clock that was put right: private to this folder. Times that are told only ascend, a millisecond a
 * window at the least, as long as the clock is behind them by no more than a minute, which it catches up
 * with. Where it is behind by more, what they were told by was wrong (a machine that came up in another
 * year), and whoever went on from there would be wrong until that year: times begin anew, as after a restart.
 */
#ifndef GATEWAY_AGGREGATE_PUT_BACK_H
#define GATEWAY_AGGREGATE_PUT_BACK_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/clock.h"

/* Receivers take what is this much ahead (Prometheus' remote write: ten minutes), and clocks that are kept
 * by NTP are never put back by that much. */
#define PUT_BACK_MIN (60 * (uint64_t)NSEC_PER_SEC)

/* Whether a clock that shows `now` was put back from `told`. */
static inline bool was_put_back(uint64_t told, uint64_t now)
{
    return told > now && told - now > PUT_BACK_MIN;
}

#endif
