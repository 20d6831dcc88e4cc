/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a request is, by its head alone: which intake it is for, how its body is coded, and whether it is
 * one of ours.
 */
#ifndef GATEWAY_SERVE_ROUTE_H
#define GATEWAY_SERVE_ROUTE_H

#include "gateway/serve/request.h"
#include "proto/http/exchange.h"

/* More HTTP paths that take profiles, beside OTLP's own. */
struct route_aliases {
    const char *const *paths; /* may be NULL */
    uint32_t n;
};

/* Reads the head. REFUSAL_NONE, or why the request is not taken; *ret is set either way, so that the refusal
 * can be worded as the request would have it. */
enum refusal route_find(const struct route_aliases *aliases, const struct http_exchange *x,
                        struct route *ret);

#endif
