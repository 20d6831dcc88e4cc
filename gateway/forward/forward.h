/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The push header of the forward stage: raw profiles on their way downstream, thinned after they were
 * counted.
 *
 * The order of a request is: forward_reserve (is there room downstream for as much as this could become?),
 * decode and count, then forward_push, and forward_take_over last, or forward_cancel. So a full queue refuses
 * a request before anything of it was counted, or the destination goes without; and what was acknowledged is
 * in a queue, and on disk where there is storage (forward_owed). One object per
 * worker; the queues behind it are shared and thread-safe.
 */
#ifndef GATEWAY_FORWARD_FORWARD_H
#define GATEWAY_FORWARD_FORWARD_H

#include <stdbool.h>
#include <stdint.h>

#include "gateway/forward/keep.h"
#include "gateway/forward/rates.h"
#include "proto/base/budget.h"
#include "proto/coding/received.h"
#include "proto/otlp/view/profiles.h"

struct export_profiles; /* the destinations: gateway/export/profiles.h */
struct stats;

struct forward_options {
    double keep;   /* share of stacks kept: 1 passes the bytes through untouched (README.md), 0 forwards
                    * nothing; of samples that no rule takes */
    uint64_t seed; /* all gateways that share it agree on what is kept */
    struct keep_decider decider; /* of this worker; zeroed: there are no rules */
    bool refuse_when_full; /* no room with one destination refuses the request; else that one goes without */
    struct forward_rates *rates; /* of all workers; NULL: one of its own */
};

struct forward;
struct promise;

struct forward *forward_new(const struct forward_options *options, struct export_profiles *destinations,
                            struct stats *stats, struct budget *budget);
struct forward *forward_free(struct forward *f);

/* Reserves room for one request of body_bytes in the destinations' queues. Where one is full its samples will
 * count as dropped; or, with refuse_when_full, false: nothing is reserved, refuse the request with a
 * retryable error. */
bool forward_reserve(struct forward *f, size_t body_bytes);

/* Whether that will never be otherwise: a destination's queue or storage is smaller than that. */
bool forward_never_fits(const struct forward *f, size_t body_bytes);

/* Gives the reservation back without sending. */
void forward_cancel(struct forward *f, size_t body_bytes);

/* Sends what is to be kept of the request and settles the reservation. `received`: what the view was decoded
 * from, then forward_take_over must follow; NULL: that is somebody else's. Never fails towards the producer:
 * what cannot be built for lack of memory is counted as dropped. */
void forward_push(struct forward *f, const struct profiles *view, const struct received *received,
                  size_t body_bytes);

/* Nobody looks at the view of the last push any more: where the request leaves as it came, it leaves now, in
 * the memory it came in. */
void forward_take_over(struct forward *f, struct received *received);

/* What the answer to the last request must wait for, the caller's to await; NULL: nothing. After
 * forward_push, and forward_take_over where that follows. */
struct promise *forward_owed(struct forward *f);

#endif
