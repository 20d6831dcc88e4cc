/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When to try again: OTLP's retry rules and exponential backoff with jitter.
 *
 * Pure: time and randomness come in as arguments. Option names and defaults are the Collector's
 * `retry_on_failure`.
 */
#ifndef PROTO_CLIENT_RETRY_H
#define PROTO_CLIENT_RETRY_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/error.h"
#include "proto/base/rng.h"

struct retry_options {
    bool enabled; /* false: every failure is final */
    uint64_t initial_interval_ns, max_interval_ns;
    uint64_t max_elapsed_ns;     /* since the first attempt began; 0: for ever */
    double multiplier;           /* >= 1 */
    double randomization_factor; /* in [0, 1): an interval i becomes one of [i - i*f, i + i*f] */
};

#define RETRY_OPTIONS_DEFAULT                                                                 \
    {                                                                                         \
        .enabled = true, .initial_interval_ns = 5000000000u, .max_interval_ns = 30000000000u, \
        .max_elapsed_ns = 300000000000u, .multiplier = 1.5, .randomization_factor = 0.5       \
    }

/* The longest wait a peer can impose through RetryInfo or Retry-After: a wrong clock or a hostile server must
 * not park data for days. max_elapsed_time usually gives up long before. */
#define RETRY_PEER_DELAY_MAX_NS 3600000000000u

/* 0, or -EINVAL with *e naming the option that makes no sense. */
int retry_options_check(const struct retry_options *o, struct error *e);

/* Whether a failed call with this gRPC status may be repeated (OTLP specification, "Failures", table of
 * codes). RESOURCE_EXHAUSTED counts only when RetryInfo came with it. Unknown codes: no. */
bool retry_grpc_code(int code, bool has_retry_info);

/* Whether a response with this HTTP status may be repeated: 429, 502, 503, 504 (OTLP/HTTP, "Retryable
 * Response Codes"). */
bool retry_http_status(int status);

/* One request's way through its attempts. Zeroed: not begun. */
struct retry {
    uint64_t started_ns;  /* of the first attempt */
    uint64_t interval_ns; /* the next backoff, before jitter; 0: the first one */
};

/* Begins: `now` is when the first attempt starts. */
void retry_begin(struct retry *r, uint64_t now_ns);

/* After a retryable failure: how long to wait before the next attempt, in *ret_wait_ns. peer_delay_ns is what
 * RetryInfo or Retry-After asked for, 0 if nothing: it is a lower bound, jitter is added on top of it, and
 * later intervals grow from it (OTLP specification, "OTLP/gRPC Throttling"). False: time is up (the wait
 * would end past max_elapsed_time, as the Collector does it), or retries are off. */
bool retry_next(struct retry *r, const struct retry_options *o, uint64_t now_ns, uint64_t peer_delay_ns,
                struct rng *rng, uint64_t *ret_wait_ns);

#endif
