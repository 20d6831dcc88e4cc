/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/serve/refusal.h"

#include "gateway/serve/paths.h"
#include "proto/base/macros.h"
#include "proto/coding/coding.h"

#define RELEASES "1 (opentelemetry-proto 1.10 and 1.11), or a release: 1.4, 1.5, 1.7, 1.8, 1.9, 1.10, 1.11"

/* Those whose words depend on the request. False: another one. */
static bool explain_request(enum refusal refusal, const struct refusal_facts *f, struct error *e)
{
    unsigned long long limit = f->limit;
    switch (refusal) {
    case REFUSAL_NO_PATH:
        error_set(e, 0, "nothing is served at %.*s; profiles go to " ROUTE_HTTP_PATH "%s",
                  (int)min_of(f->path.n, (size_t)200), (const char *)f->path.p,
                  f->is_asking ? ", pages and /metrics are at the admin address" : "");
        return true;
    case REFUSAL_MEDIA_TYPE:
        error_set(e, 0, f->is_grpc ? "messages must be protobuf: content-type %s" : "content-type must be %s",
                  f->media);
        return true;
    case REFUSAL_CODING:
        error_set(e, 0, "unknown %s; these are taken: " CODING_LIST,
                  f->is_grpc ? "grpc-encoding" : "content-encoding");
        return true;
    case REFUSAL_CORRUPT:
        error_set(e, 0, "the body is not what its encoding, %s, says", f->coding);
        return true;
    case REFUSAL_TOO_LARGE:
        error_set(e, 0, "the request is larger than %llu bytes, before or after decompression", limit);
        return true;
    default: return false;
    }
}

static const char *const words[REFUSAL_N] = {
    [REFUSAL_NO_SERVICE] = ("unknown service; this one is " ROUTE_GRPC_SERVICE ROUTE_GRPC_METHOD),
    [REFUSAL_NO_METHOD] = "the service has no such method",
    [REFUSAL_NOT_POST] = "the method must be POST",
    [REFUSAL_GRPC_HTTP1] = "gRPC needs HTTP/2",
    [REFUSAL_BAD_TIMEOUT] = "malformed grpc-timeout",
    [REFUSAL_NO_MESSAGE] = "the call ended without a message",
    [REFUSAL_CUT_SHORT] = "the message was cut short",
    [REFUSAL_BAD_FLAG] = "malformed message prefix: the compressed flag is neither 0 nor 1",
    [REFUSAL_FLAG_NO_CODING] = "compressed flag set without a grpc-encoding",
    [REFUSAL_SECOND_MESSAGE] = "more than one message in a unary call",
    [REFUSAL_BUSY] = "out of memory for requests just now; try again",
    [REFUSAL_SLOW] = "the body came too slowly (limits.request_timeout, limits.request_rate); try again",
    [REFUSAL_LATE] = "the deadline passed before the request was complete",
    [REFUSAL_VERSION] = (ROUTE_VERSION_HEADER ": it must be there at most once and be one of " RELEASES
                                              " (JSON: 1, 1.10 or 1.11)"),
    [REFUSAL_NO_CREDENTIALS] = "credentials are needed; none of a kind that is taken came",
    [REFUSAL_WRONG_CREDENTIALS] = "these credentials are not right",
    [REFUSAL_FORBIDDEN] = "the client's certificate is not one of those that may send here",
    [REFUSAL_VERIFYING] = "too many passwords are being verified just now; try again",
    [REFUSAL_NO_TENANT] = "the request must name its tenant",
    [REFUSAL_BAD_TENANT] = "the tenant must be named once, by at most 128 letters, digits and !-_.*'()",
    [REFUSAL_LIMIT_BYTES] = "over the limit of bytes a second; try again later",
    [REFUSAL_LIMIT_CONNECTIONS] = "over the limit of connections of one client",
    [REFUSAL_LIMIT_REQUESTS] = "over the limit of requests at once; try again later",
    [REFUSAL_LIMIT_MEMORY] =
        "over the limit of memory for the requests of one client or tenant; try again later",
    [REFUSAL_LIMIT_NEVER] = "the request is larger than the memory one client or tenant may use",
};

void refusal_explain(enum refusal refusal, const struct refusal_facts *f, struct error *ret)
{
    ret->text[0] = 0;
    if (!explain_request(refusal, f, ret) && words[refusal])
        error_set(ret, 0, "%s", words[refusal]);
}

bool refusal_is_retryable(enum refusal refusal)
{
    switch (refusal) {
    case REFUSAL_BUSY:
    case REFUSAL_SLOW:
    case REFUSAL_VERIFYING:
    case REFUSAL_LIMIT_BYTES:
    case REFUSAL_LIMIT_CONNECTIONS:
    case REFUSAL_LIMIT_REQUESTS:
    case REFUSAL_LIMIT_MEMORY: return true;
    default: return false;
    }
}
