/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one OTLP export call says, and what its answer means. No sockets, no state: a head that is the same
 * for every call to a destination, a body, a verdict.
 */
#ifndef PROTO_CLIENT_CALL_H
#define PROTO_CLIENT_CALL_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/arena.h"
#include "proto/base/error.h"
#include "proto/client/endpoint.h"
#include "proto/client/options.h"
#include "proto/coding/coding.h"
#include "proto/grpc/frame.h"
#include "proto/http/exchange.h"

/* Header fields of a destination's own: more would not fit a server's header limit anyway. */
#define CALL_HEADERS_MAX 64u

struct call_head {
    struct arena arena; /* owns what follows */
    enum otlp_protocol protocol;
    enum otlp_signal signal;
    enum client_compression compression; /* what it makes of a request: call_coding */
    bool any_success, retry_5xx;         /* struct client_dialect */
    bool retry_exhausted;                /* struct client_options */
    size_t response_max;                 /* of the answer's message, decompressed */
    const char *scheme, *authority, *path;
    struct http_header
        *headers; /* with room for three more behind n_headers: a coding, grpc-timeout, authorization */
    uint32_t n_headers;
};

/* From the client's options; the endpoint's strings must stay. 0, -ENOMEM, or -EINVAL with *e naming the
 * header that cannot be sent (RFC 9110 §5.5 and §5.6.2, RFC 9113 §8.2). */
int call_head_init(struct call_head *ret, const struct client_options *o, const struct endpoint *endpoint,
                   struct error *e);
void call_head_release(struct call_head *h);

/* The coding for a request that came in `received`: client_coding. */
enum coding call_coding(enum client_compression compression, enum coding received);

/* A body as it goes on the wire. */
struct call_body {
    enum coding coding;
    struct bytes bytes;                /* in that coding; where they are */
    uint8_t prefix[GRPC_PREFIX_BYTES]; /* goes before them in gRPC */
};

/* 0, or CALL_TOO_LARGE above gRPC's 4 GiB. */
enum { CALL_TOO_LARGE = 1 };
int call_body_init(struct call_body *ret, enum coding coding, struct bytes bytes);

/* The request for a body; says its coding and, to gRPC, the timeout; authorization may be NULL. timeout_text
 * is the memory for that; it and the body must stay as long as the request is used. */
struct http_request call_request(const struct call_head *h, const struct call_body *body, uint64_t timeout_ns,
                                 const char *authorization, char timeout_text[16]);

/* Whether the answer says that the caller is not known (401, UNAUTHENTICATED): another token may help. */
bool call_is_unauthenticated(const struct call_head *h, const struct http_response *response);

enum call_outcome {
    CALL_OK,        /* acknowledged; with partial set, not all of it */
    CALL_RETRYABLE, /* may be repeated, after retry_after_ns if that is not 0 */
    CALL_FINAL,     /* must not be repeated */
};

struct call_result {
    enum call_outcome outcome;
    bool partial;
    uint64_t rejected;       /* of a partial success: profiles or data points */
    uint64_t retry_after_ns; /* what the peer asked for; 0: nothing */
    struct error message;    /* of a failure, or the peer's warning; "" if there is nothing to say */
};

/* What an answer means: OTLP specification "OTLP/gRPC Response", "OTLP/HTTP Response"; gRPC's own documents
 * for what lies below. A success is believed only from something that speaks OTLP: HTTP 200 with text/html is
 * a final failure (reference: a web server in front swallowed data that way). unix_s is the time now, for
 * Retry-After dates. */
void call_read(const struct call_head *h, enum http_call_result result, const struct http_response *response,
               struct coding_decoder *decoder, int64_t unix_s, struct call_result *ret);

#endif
