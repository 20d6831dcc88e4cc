/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a request is, by its head alone: which dialect it speaks, how its body is coded, and whether it is one
 * of ours.
 */
#ifndef GATEWAY_SERVE_ROUTE_H
#define GATEWAY_SERVE_ROUTE_H

#include <stdint.h>

#include "gateway/serve/refusal.h"
#include "gateway/serve/serve.h"
#include "proto/coding/coding.h"
#include "proto/http/exchange.h"

/* How the answer is worded. */
enum dialect {
    DIALECT_PROTO, /* OTLP/HTTP, application/x-protobuf */
    DIALECT_JSON,  /* OTLP/HTTP, application/json; and the refusal of what speaks no OTLP at all */
    DIALECT_GRPC,
};

struct route {
    enum dialect dialect;
    enum coding coding; /* Content-Encoding of the body; gRPC: grpc-encoding of messages that say they are
                           compressed */
    enum profiles_layout layout; /* what the request says that it has; UNKNOWN: nothing */
    bool expects_continue;       /* the body only comes when it is asked for (RFC 9110 §10.1.1) */
    uint64_t timeout_ns;         /* gRPC: how long the client waits; UINT64_MAX: it did not say */
};

#define ROUTE_HTTP_PATH    "/v1development/profiles"
#define ROUTE_GRPC_SERVICE "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/"
#define ROUTE_GRPC_METHOD  "Export"

/* opentelemetry-proto#857 "Profiles development version": request metadata that says which schema the body
 * has. */
#define ROUTE_VERSION_HEADER "otlp-profiles-development-version"

/* Reads the head. REFUSAL_NONE, or why the request is not taken; *ret is set either way, so that the refusal
 * can be worded in the dialect of the request. */
enum refusal route_find(const struct serve_options *options, const struct http_exchange *x,
                        struct route *ret);

#endif
