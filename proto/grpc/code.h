/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gRPC status codes (grpc/grpc doc/statuscodes.md), their names, and how they translate to and from HTTP.
 */
#ifndef PROTO_GRPC_CODE_H
#define PROTO_GRPC_CODE_H

#include <stdint.h>

#include "proto/base/bytes.h"

/* clang-format off */
/* id, number, HTTP status. Every code that OTLP/gRPC calls retryable becomes one that OTLP/HTTP calls retryable (503;
 * OTLP specification "Failures" and "Retryable Response Codes"), which is the Collector's table too. */
#define GRPC_CODE_TABLE(X) \
    X(OK,                   0, 200) \
    X(CANCELLED,            1, 503) \
    X(UNKNOWN,              2, 500) \
    X(INVALID_ARGUMENT,     3, 400) \
    X(DEADLINE_EXCEEDED,    4, 503) \
    X(NOT_FOUND,            5, 404) \
    X(ALREADY_EXISTS,       6, 409) \
    X(PERMISSION_DENIED,    7, 403) \
    X(RESOURCE_EXHAUSTED,   8, 429) \
    X(FAILED_PRECONDITION,  9, 400) \
    X(ABORTED,             10, 503) \
    X(OUT_OF_RANGE,        11, 503) \
    X(UNIMPLEMENTED,       12, 404) \
    X(INTERNAL,            13, 500) \
    X(UNAVAILABLE,         14, 503) \
    X(DATA_LOSS,           15, 503) \
    X(UNAUTHENTICATED,     16, 401)
/* clang-format on */

enum grpc_code {
#define GRPC_CODE_ENUM(id, number, http) GRPC_##id = number,
    GRPC_CODE_TABLE(GRPC_CODE_ENUM)
#undef GRPC_CODE_ENUM
};

/* "INVALID_ARGUMENT"; "UNKNOWN" for a number outside the table. */
const char *grpc_code_name(enum grpc_code code);

/* The code of a grpc-status value: decimal digits. What is no known code is GRPC_UNKNOWN, as statuscodes.md
 * asks. */
enum grpc_code grpc_code_parse(struct bytes value);

/* The HTTP status that says the same in OTLP/HTTP. */
uint32_t grpc_code_to_http(enum grpc_code code);

/* What a client takes an answer without grpc-status for (doc/http-grpc-status-mapping.md). Servers must not
 * use it. */
enum grpc_code grpc_code_from_http(uint32_t status);

#endif
