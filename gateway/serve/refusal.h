/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every reason for which a request is not accepted, and its words: one table for the HTTP status, the code in
 * the google.rpc.Status body that OTLP/HTTP asks for, the gRPC code, and the counter.
 */
#ifndef GATEWAY_SERVE_REFUSAL_H
#define GATEWAY_SERVE_REFUSAL_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/bytes.h"
#include "proto/base/error.h"

/* clang-format off */
/*
 * Sources: OTLP specification, "OTLP/gRPC Response", "OTLP/gRPC Throttling", "OTLP/HTTP Response" (G1–G10 and H1–H11 of
 * README.md); gRPC's PROTOCOL-HTTP2.md, statuscodes.md and compression.md. Where they leave a choice:
 * - An unknown Content-Encoding is 415 with Accept-Encoding (RFC 9110 §15.5.16), though the Collector says 400.
 * - What cannot be parsed is INVALID_ARGUMENT, which OTLP recommends for bad data (G9), though gRPC libraries generate
 *   INTERNAL. A compressed message that cannot be decompressed is INTERNAL, as gRPC's compression.md says ("Compression Method Asymmetry Between Peers").
 * - gRPC over HTTP/1 is 505: the method and the type are right, the version is not (RFC 9110 §15.6.6).
 * - A missing or malformed tenant is 400, not the 401 of Grafana's servers: no credentials would help, and a 401 must
 *   name a scheme of credentials (RFC 9110 §15.5.2).
 * - Whoever needs a certificate that was not shown is 403 for the same reason; gRPC has a word for it all the same, but
 *   one that promises that other credentials in the call would help.
 * - A body that does not come in its time is 503, not the 408 that RFC 9110 has for it: OTLP's clients do not repeat
 *   that one, and the line may be better the next time.
 * - A wire version that is malformed, repeated or unknown: opentelemetry-proto#857 "Profiles development version".
 * - Limits of a client or tenant are retryable: 429 and RESOURCE_EXHAUSTED, always with a hint (G2, G8, H9), but for the
 *   request that passes a limit by itself.
 *
 *    id               HTTP  body's code           gRPC code            counter */
#define REFUSAL_TABLE(X) \
    X(NO_PATH,         404,  NOT_FOUND,            UNIMPLEMENTED,       REQUESTS_REFUSED)     \
    X(NO_SERVICE,      404,  NOT_FOUND,            UNIMPLEMENTED,       REQUESTS_REFUSED)     \
    X(NO_METHOD,       404,  NOT_FOUND,            UNIMPLEMENTED,       REQUESTS_REFUSED)     \
    X(NOT_POST,        405,  UNIMPLEMENTED,        INTERNAL,            REQUESTS_REFUSED)     \
    X(GRPC_HTTP1,      505,  UNIMPLEMENTED,        UNIMPLEMENTED,       REQUESTS_REFUSED)     \
    X(MEDIA_TYPE,      415,  INVALID_ARGUMENT,     UNIMPLEMENTED,       REQUESTS_REFUSED)     \
    X(CODING,          415,  UNIMPLEMENTED,        UNIMPLEMENTED,       REQUESTS_REFUSED)     \
    X(BAD_TIMEOUT,     400,  INVALID_ARGUMENT,     INTERNAL,            REQUESTS_REFUSED)     \
    X(NO_MESSAGE,      400,  INVALID_ARGUMENT,     INTERNAL,            REQUESTS_MALFORMED)   \
    X(CUT_SHORT,       400,  INVALID_ARGUMENT,     INTERNAL,            REQUESTS_MALFORMED)   \
    X(BAD_FLAG,        400,  INVALID_ARGUMENT,     INTERNAL,            REQUESTS_MALFORMED)   \
    X(FLAG_NO_CODING,  400,  INVALID_ARGUMENT,     INTERNAL,            REQUESTS_MALFORMED)   \
    X(SECOND_MESSAGE,  400,  INVALID_ARGUMENT,     UNIMPLEMENTED,       REQUESTS_MALFORMED)   \
    X(CORRUPT,         400,  INVALID_ARGUMENT,     INTERNAL,            REQUESTS_MALFORMED)   \
    X(MALFORMED,       400,  INVALID_ARGUMENT,     INVALID_ARGUMENT,    REQUESTS_MALFORMED)   \
    X(UNSUPPORTED,     400,  INVALID_ARGUMENT,     INVALID_ARGUMENT,    REQUESTS_UNSUPPORTED) \
    X(TOO_LARGE,       413,  RESOURCE_EXHAUSTED,   RESOURCE_EXHAUSTED,  REQUESTS_TOO_LARGE)   \
    X(BUSY,            503,  UNAVAILABLE,          UNAVAILABLE,         REQUESTS_BUSY)        \
    X(SLOW,            503,  UNAVAILABLE,          UNAVAILABLE,         REQUESTS_REFUSED)     \
    X(LATE,            503,  DEADLINE_EXCEEDED,    DEADLINE_EXCEEDED,   REQUESTS_REFUSED)     \
    X(VERSION,         400,  INVALID_ARGUMENT,     INVALID_ARGUMENT,    REQUESTS_UNSUPPORTED) \
    X(NO_CREDENTIALS,  401,  UNAUTHENTICATED,      UNAUTHENTICATED,     REQUESTS_REFUSED)     \
    X(WRONG_CREDENTIALS, 401, UNAUTHENTICATED,     UNAUTHENTICATED,     REQUESTS_REFUSED)     \
    X(FORBIDDEN,       403,  PERMISSION_DENIED,    PERMISSION_DENIED,   REQUESTS_REFUSED)     \
    X(VERIFYING,       503,  UNAVAILABLE,          UNAVAILABLE,         REQUESTS_BUSY)        \
    X(NO_TENANT,       400,  INVALID_ARGUMENT,     INVALID_ARGUMENT,    REQUESTS_REFUSED)     \
    X(BAD_TENANT,      400,  INVALID_ARGUMENT,     INVALID_ARGUMENT,    REQUESTS_REFUSED)     \
    X(LIMIT_BYTES,     429,  RESOURCE_EXHAUSTED,   RESOURCE_EXHAUSTED,  REQUESTS_REFUSED)     \
    X(LIMIT_CONNECTIONS, 429, RESOURCE_EXHAUSTED,  RESOURCE_EXHAUSTED,  REQUESTS_REFUSED)     \
    X(LIMIT_REQUESTS,  429,  RESOURCE_EXHAUSTED,   RESOURCE_EXHAUSTED,  REQUESTS_REFUSED)     \
    X(LIMIT_MEMORY,    429,  RESOURCE_EXHAUSTED,   RESOURCE_EXHAUSTED,  REQUESTS_REFUSED)     \
    X(LIMIT_NEVER,     413,  RESOURCE_EXHAUSTED,   RESOURCE_EXHAUSTED,  REQUESTS_TOO_LARGE)
/* clang-format on */

enum refusal {
    REFUSAL_NONE,
#define REFUSAL_ENUM(id, ...) REFUSAL_##id,
    REFUSAL_TABLE(REFUSAL_ENUM)
#undef REFUSAL_ENUM
        REFUSAL_N
};

/* What the words of a refusal need to know. */
struct refusal_facts {
    struct bytes path;
    bool is_asking; /* GET: a person, or a scraper of metrics */
    bool is_grpc;
    const char *coding; /* of the body */
    const char *media;  /* that would be taken, "a or b"; with MEDIA_TYPE */
    uint64_t limit;     /* bytes of a request */
};

/* What a person should read about a refusal that was decided in this stage; "" for those that ingest words.
 */
void refusal_explain(enum refusal refusal, const struct refusal_facts *f, struct error *ret);

/* Whether the same request may be sent again later: such a refusal says when (G8, H9), and no other does,
 * since a hint turns RESOURCE_EXHAUSTED into an invitation (G2). */
bool refusal_is_retryable(enum refusal refusal);

#endif
