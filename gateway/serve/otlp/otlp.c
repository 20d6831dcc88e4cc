/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/serve/otlp/otlp.h"

#include "gateway/serve/otlp/words.h"
#include "gateway/serve/paths.h"
#include "proto/otlp/json/profiles.h"

static enum refusal decode_json(const struct intake_head *head, struct bytes body, struct buffer *out,
                                struct budget *budget, struct profiles_written *ret, struct error *why)
{
    /* ingest has its own limits, for all */
    switch (profiles_json_transcode(body, &profiles_limits_default, budget, out, ret, why)) {
    case 0: return REFUSAL_NONE;
    case PROFILES_MALFORMED: return REFUSAL_MALFORMED;
    case PROFILES_UNSUPPORTED: return REFUSAL_UNSUPPORTED;
    case PROFILES_TOO_LARGE: why->text[0] = 0; return REFUSAL_TOO_LARGE;
    default: why->text[0] = 0; return REFUSAL_BUSY;
    }
}

/* PROTOCOL-HTTP2.md "Content-Type": "+proto" is what no subtype means. */
const struct intake otlp_grpc = {
    .protocol = INTAKE_GRPC,
    .method = BYTES_LIT("POST"),
    .path = BYTES_LIT(ROUTE_GRPC_SERVICE ROUTE_GRPC_METHOD),
    .media = (const char *const[]){"application/grpc", "application/grpc+proto", NULL},
    .is_protobuf = true,
    .words = &otlp_words_grpc,
};

const struct intake otlp_http_proto = {
    .protocol = INTAKE_HTTP,
    .method = BYTES_LIT("POST"),
    .path = BYTES_LIT(ROUTE_HTTP_PATH),
    .media = (const char *const[]){"application/x-protobuf", NULL},
    .is_protobuf = true,
    .words = &otlp_words_proto,
};

/* It has names instead of numbers: a claimed version other than today's would be of no meaning. */
const struct intake otlp_http_json = {
    .protocol = INTAKE_HTTP,
    .method = BYTES_LIT("POST"),
    .path = BYTES_LIT(ROUTE_HTTP_PATH),
    .media = (const char *const[]){"application/json", NULL},
    .decode = decode_json,
    .words = &otlp_words_json,
};
