/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one place that words an answer: HTTP status, headers and google.rpc.Status body, or gRPC trailers.
 */
#ifndef GATEWAY_SERVE_REPLY_H
#define GATEWAY_SERVE_REPLY_H

#include <stdint.h>

#include "gateway/ingest/ingest.h"
#include "gateway/serve/refusal.h"
#include "gateway/serve/route.h"
#include "gateway/stats/stats.h"
#include "proto/http/exchange.h"

/* Everything was taken, or a part: then rejected_profiles > 0. A message without a rejection is a warning
 * (OTLP "Partial Success"). The answer is far below OTLP's 4 MiB: its message has ERROR_TEXT_MAX bytes. 0 or
 * -ENOMEM. */
int reply_accepted(struct http_exchange *x, enum dialect dialect, uint64_t rejected_profiles,
                   const struct error *message);

/* What a refusal says beside its text. */
struct reply_hint {
    uint64_t retry_after_ns;        /* with those that are retryable alone (refusal_is_retryable) */
    bool takes_bearer, takes_basic; /* with a 401: the challenges */
};

/* Refused. The text is for a person. 0 or -ENOMEM. */
int reply_refused(struct http_exchange *x, enum dialect dialect, enum refusal refusal,
                  const struct error *message, const struct reply_hint *hint);

/* The counter of a refusal. */
enum stats_id refusal_counter(enum refusal refusal);

#endif
