/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What everything that merges goes by: the metrics there ever were by the store's numbers, the workers'
 * dictionaries, what newest profiles say, and which time it may be. Private to this folder. The store fills
 * it; outputs and watches read it.
 *
 * A wall clock is put right now and then. Times that are told only ascend, a millisecond a window at the
 * least, as long as the clock is behind them by no more than a minute, which it catches up with. Where it is
 * behind by more, what they were told by was wrong (a machine that came up in another year), and whoever went
 * on from there would be wrong until that year: times begin anew, as after a restart.
 */
#ifndef GATEWAY_AGGREGATE_CATALOGUE_H
#define GATEWAY_AGGREGATE_CATALOGUE_H

#include <stdbool.h>

#include "gateway/aggregate/dict.h"
#include "gateway/aggregate/latest.h"
#include "gateway/stats/stats.h"
#include "proto/base/clock.h"
#include "proto/base/intern.h"

/* What newest profiles say (latest.h), of the resources as they came: an output adds up those that it makes
 * one. Numbers in it: resource and series as in `resources` and `series` + 1; 0 is overflow. */
struct levels {
    struct latest latest;
    struct intern resources, series; /* series as in the worker's dictionary, under the store's numbers */
    uint64_t now, handover;
    uint64_t keep_ns;  /* the longest that an output shows what nobody says any more; UINT64_MAX: for ever */
    uint32_t prune_at; /* entries at which it is worth looking for what may go */
};

struct catalogue {
    struct aggregate_metric *metrics; /* by the store's number: of all generations */
    bool *is_gone;                    /* no longer in the newest generation */
    struct arena names;               /* what the metrics' strings are */
    uint32_t n_metrics, n_workers;
    struct budget *budget;
    struct stats *stats;
    struct worker_dict *workers;
    struct levels levels;
};

/* Receivers take what is this much ahead (Prometheus' remote write: ten minutes), and clocks that are kept
 * by NTP are never put back by that much. */
#define PUT_BACK_MIN (60 * (uint64_t)NSEC_PER_SEC)

/* Whether a clock that shows `now` was put back from `told`. */
static inline bool was_put_back(uint64_t told, uint64_t now)
{
    return told > now && told - now > PUT_BACK_MIN;
}

#endif
