/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one place that makes an answer: HTTP status and headers, or gRPC trailers, around what the intake
 * words.
 */
#ifndef GATEWAY_SERVE_REPLY_H
#define GATEWAY_SERVE_REPLY_H

#include <stdint.h>

#include "gateway/serve/refusal.h"
#include "gateway/serve/request.h"
#include "gateway/stats/block.h"
#include "proto/http/exchange.h"

/* Everything was taken, or a part: then rejected_profiles > 0. A message without a rejection is a warning
 * (OTLP "Partial Success"). The answer is far below OTLP's 4 MiB: its message has ERROR_TEXT_MAX bytes. 0 or
 * -ENOMEM. */
int reply_accepted(struct http_exchange *x, const struct route *route, uint64_t rejected_profiles,
                   const struct error *message);

struct access_policy;

/* What a refusal says beside its text. */
struct reply_hint {
    uint64_t retry_after_ns;            /* with those that are retryable alone (refusal_is_retryable) */
    const struct access_policy *policy; /* with a 401: the challenges */
    const char *media;                  /* with a 415 for a media type: those that are taken, "a, b" */
};

/* Refused. The text is for a person. 0 or -ENOMEM. */
int reply_refused(struct http_exchange *x, const struct route *route, enum refusal refusal,
                  const struct error *message, const struct reply_hint *hint);

/* The counter of a refusal. */
enum stats_id refusal_counter(enum refusal refusal);

#endif
