/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/serve/otlp/words.h"

#include <inttypes.h>

#include "proto/base/clock.h"
#include "proto/grpc/status.h"

static int put_varint(struct buffer *b, uint64_t v)
{
    uint8_t bytes[10];
    size_t n = 0;
    for (; v > 0x7f; v >>= 7)
        bytes[n++] = (uint8_t)(v | 0x80);
    bytes[n++] = (uint8_t)v;
    return buffer_add(b, bytes, n);
}

static size_t varint_bytes(uint64_t v)
{
    size_t n = 1;
    for (; v > 0x7f; v >>= 7)
        n++;
    return n;
}

/* A JSON string (RFC 8259 §7). */
static int put_json_string(struct buffer *b, struct bytes text)
{
    int r = buffer_add_str(b, "\"");
    for (size_t i = 0; i < text.n && r == 0; i++) {
        uint8_t c = text.p[i];
        if (c == '"' || c == '\\')
            r = buffer_add_str(b, "\\");
        if (r == 0)
            r = c < 0x20 ? buffer_printf(b, "\\u%04x", c) : buffer_add(b, &c, 1);
    }
    return r == 0 ? buffer_add_str(b, "\"") : r;
}

/* ---- ExportProfilesServiceResponse{partial_success = 1: {rejected_profiles = 1, error_message = 2}}
 * -------- Nothing at all when everything is well: partial_success must then be unset (OTLP specification,
 * "Full Success"). */

static int accepted_json(struct buffer *out, uint64_t rejected, struct bytes message)
{
    if (rejected == 0 && message.n == 0)
        return buffer_add_str(out, "{}");
    int r = buffer_add_str(out, "{\"partialSuccess\":{");
    if (r == 0 && rejected > 0)
        r = buffer_printf(out, "\"rejectedProfiles\":\"%" PRIu64 "\"", rejected);
    if (r == 0 && message.n > 0) {
        r = buffer_add_str(out, rejected > 0 ? ",\"errorMessage\":" : "\"errorMessage\":");
        if (r == 0)
            r = put_json_string(out, message);
    }
    return r == 0 ? buffer_add_str(out, "}}") : r;
}

static int accepted_proto(struct buffer *out, uint64_t rejected, struct bytes message)
{
    if (rejected == 0 && message.n == 0)
        return 0;
    size_t inner = rejected > 0 ? 1 + varint_bytes(rejected) : 0;
    if (message.n > 0)
        inner += 1 + varint_bytes(message.n) + message.n;
    int r = buffer_add_str(out, "\x0a");
    if (r == 0)
        r = put_varint(out, inner);
    if (r == 0 && rejected > 0) {
        r = buffer_add_str(out, "\x08");
        if (r == 0)
            r = put_varint(out, rejected);
    }
    if (r == 0 && message.n > 0) {
        r = buffer_add_str(out, "\x12");
        if (r == 0)
            r = put_varint(out, message.n);
        if (r == 0)
            r = buffer_add_bytes(out, message);
    }
    return r;
}

/* ---- google.rpc.Status --------------------------------------------------------------------- */

/* As proto3 JSON: a detail is its message with "@type" added, a Duration is "1.500s". */
static int refused_json(struct buffer *out, const struct grpc_status *s)
{
    int r = buffer_printf(out, "{\"code\":%d,\"message\":", (int)s->code);
    if (r == 0)
        r = put_json_string(out, s->message);
    if (r == 0 && s->has_retry) {
        r = buffer_printf(out,
                          ",\"details\":[{\"@type\":\"" GRPC_TYPE_RETRY_INFO "\",\"retryDelay\":\"%" PRIu64,
                          s->retry_ns / NSEC_PER_SEC);
        if (r == 0 && s->retry_ns % NSEC_PER_SEC)
            r = buffer_printf(out, ".%09" PRIu64, (uint64_t)(s->retry_ns % NSEC_PER_SEC));
        if (r == 0)
            r = buffer_add_str(out, "s\"}]");
    } else if (r == 0 && s->has_violation) {
        r = buffer_add_str(out, ",\"details\":[{\"@type\":\"" GRPC_TYPE_BAD_REQUEST
                                "\",\"fieldViolations\":[{\"field\":");
        if (r == 0)
            r = put_json_string(out, s->field);
        if (r == 0)
            r = buffer_add_str(out, ",\"description\":");
        if (r == 0)
            r = put_json_string(out, s->description);
        if (r == 0)
            r = buffer_add_str(out, "}]}]");
    }
    return r == 0 ? buffer_add_str(out, "}") : r;
}

static int refused_proto(struct buffer *out, const struct grpc_status *s)
{
    return grpc_status_encode(s, out);
}

const struct intake_words otlp_words_grpc = {
    .media_type = BYTES_LIT("application/grpc"),
    .accepted = accepted_proto,
};

const struct intake_words otlp_words_proto = {
    .media_type = BYTES_LIT("application/x-protobuf"),
    .accepted = accepted_proto,
    .refused = refused_proto,
};

const struct intake_words otlp_words_json = {
    .media_type = BYTES_LIT("application/json"),
    .accepted = accepted_json,
    .refused = refused_json,
};
