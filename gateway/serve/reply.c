/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/serve/reply.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "proto/base/clock.h"
#include "proto/base/macros.h"
#include "proto/coding/coding.h"
#include "proto/grpc/code.h"
#include "proto/grpc/frame.h"
#include "proto/grpc/status.h"
#include "proto/grpc/text.h"

static const struct {
    uint32_t http;
    enum grpc_code body, grpc;
    enum stats_id counter;
} rows[REFUSAL_N] = {
#define REFUSAL_ROW(id, http_, body_, grpc_, counter_) \
    [REFUSAL_##id] = {http_, GRPC_##body_, GRPC_##grpc_, STATS_##counter_},
    REFUSAL_TABLE(REFUSAL_ROW)
#undef REFUSAL_ROW
};

enum stats_id refusal_counter(enum refusal refusal)
{
    return rows[refusal].counter;
}

/* Text that may go into a protobuf or JSON string: messages can quote what a peer sent, and may be cut inside
 * a character. */
struct clean {
    char text[ERROR_TEXT_MAX];
};

static struct bytes clean_text(const struct error *message, struct clean *c)
{
    struct bytes text = bytes_str(message->text);
    if (bytes_is_utf8(text))
        return text;
    for (size_t i = 0; i < text.n; i++)
        c->text[i] = text.p[i] < 0x80 ? (char)text.p[i] : '?';
    return bytes_of(c->text, text.n);
}

/* ---- bodies -------------------------------------------------------------------------------- */

/* Bodies are built on the stack; a gateway that is out of memory can still say so. The longest is a Status in
 * JSON with every character of the text escaped, twice (message and violation). */
#define BODY_MAX (2 * 6 * ERROR_TEXT_MAX + 512)

struct body {
    uint8_t bytes[BODY_MAX];
    size_t n;
};

static void put(struct body *b, const void *p, size_t n)
{
    if (n > BODY_MAX - b->n)
        n = BODY_MAX - b->n;
    memcpy(b->bytes + b->n, p, n);
    b->n += n;
}

static void put_str(struct body *b, const char *s)
{
    put(b, s, strlen(s));
}

#define NUMBER_MAX 64 /* what put_format writes at once: a number and a few fixed characters */

__attribute__((format(printf, 2, 3))) static void put_format(struct body *b, const char *format, ...)
{
    char text[NUMBER_MAX];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    put(b, text, min_of((size_t)max_of(n, 0), sizeof text - 1));
}

static void put_varint(struct body *b, uint64_t v)
{
    uint8_t bytes[10];
    size_t n = 0;
    for (; v > 0x7f; v >>= 7)
        bytes[n++] = (uint8_t)(v | 0x80);
    bytes[n++] = (uint8_t)v;
    put(b, bytes, n);
}

/* A JSON string (RFC 8259 §7). */
static void put_json_string(struct body *b, struct bytes text)
{
    put_str(b, "\"");
    for (size_t i = 0; i < text.n; i++) {
        uint8_t c = text.p[i];
        if (c == '"' || c == '\\')
            put_str(b, "\\");
        if (c < 0x20)
            put_format(b, "\\u%04x", c);
        else
            put(b, &c, 1);
    }
    put_str(b, "\"");
}

/* ExportProfilesServiceResponse{partial_success = 1: {rejected_profiles = 1, error_message = 2}}; nothing at
 * all when everything is well: partial_success must then be unset (G4). */
static void put_response(struct body *b, enum dialect dialect, uint64_t rejected, struct bytes message)
{
    bool partial = rejected > 0 || message.n > 0;
    if (dialect == DIALECT_JSON) {
        put_str(b, partial ? "{\"partialSuccess\":{" : "{");
        if (rejected > 0)
            put_format(b, "\"rejectedProfiles\":\"%" PRIu64 "\"", rejected);
        if (message.n > 0) {
            put_str(b, rejected > 0 ? ",\"errorMessage\":" : "\"errorMessage\":");
            put_json_string(b, message);
        }
        put_str(b, partial ? "}}" : "}");
        return;
    }
    if (!partial)
        return;
    struct body inner;
    inner.n = 0;
    if (rejected > 0) {
        put_str(&inner, "\x08");
        put_varint(&inner, rejected);
    }
    if (message.n > 0) {
        put_str(&inner, "\x12");
        put_varint(&inner, message.n);
        put(&inner, message.p, message.n);
    }
    put_str(b, "\x0a");
    put_varint(b, inner.n);
    put(b, inner.bytes, inner.n);
}

/* google.rpc.Status as proto3 JSON: a detail is its message with "@type" added, a Duration is "1.500s". */
static void put_json_status(struct body *b, const struct grpc_status *s)
{
    put_format(b, "{\"code\":%d,\"message\":", (int)s->code);
    put_json_string(b, s->message);
    if (s->has_retry) {
        put_str(b, ",\"details\":[{\"@type\":\"" GRPC_TYPE_RETRY_INFO "\",\"retryDelay\":\"");
        put_format(b, "%" PRIu64, s->retry_ns / NSEC_PER_SEC);
        if (s->retry_ns % NSEC_PER_SEC)
            put_format(b, ".%09" PRIu64, s->retry_ns % NSEC_PER_SEC);
        put_str(b, "s\"}]");
    } else if (s->has_violation) {
        put_str(b, ",\"details\":[{\"@type\":\"" GRPC_TYPE_BAD_REQUEST "\",\"fieldViolations\":[{\"field\":");
        put_json_string(b, s->field);
        put_str(b, ",\"description\":");
        put_json_string(b, s->description);
        put_str(b, "}]}]");
    }
    put_str(b, "}");
}

static int put_status(struct body *b, enum dialect dialect, const struct grpc_status *s)
{
    if (dialect == DIALECT_JSON) {
        put_json_status(b, s);
        return 0;
    }
    /* A buffer over the stack: it has all the room it needs, so it never grows. */
    struct buffer out = {.p = b->bytes, .cap = BODY_MAX, .max = BODY_MAX};
    int r = grpc_status_encode(s, &out);
    b->n = out.n;
    return r;
}

/* ---- headers ------------------------------------------------------------------------------- */

#define HEADER(name_, value_)                       \
    (struct http_header)                            \
    {                                               \
        .name = BYTES_LIT(name_), .value = (value_) \
    }

static struct bytes media_type(enum dialect dialect)
{
    switch (dialect) {
    case DIALECT_PROTO: return BYTES_LIT("application/x-protobuf");
    case DIALECT_GRPC: return BYTES_LIT("application/grpc");
    default: return BYTES_LIT("application/json");
    }
}

int reply_accepted(struct http_exchange *x, enum dialect dialect, uint64_t rejected_profiles,
                   const struct error *message)
{
    struct clean clean;
    struct body body;
    body.n = 0;
    if (dialect == DIALECT_GRPC)
        body.n = GRPC_PREFIX_BYTES;
    put_response(&body, dialect, rejected_profiles, clean_text(message, &clean));
    struct http_header headers[] = {HEADER("content-type", media_type(dialect))};
    struct http_header trailers[] = {HEADER("grpc-status", BYTES_LIT("0"))};
    struct http_reply reply = {.status = 200, .headers = headers, .n_headers = 1};
    if (dialect == DIALECT_GRPC) {
        grpc_prefix_write(body.bytes, false, (uint32_t)(body.n - GRPC_PREFIX_BYTES));
        reply.trailers = trailers;
        reply.n_trailers = 1;
    }
    reply.body = bytes_of(body.bytes, body.n);
    return http_reply(x, &reply);
}

/* What is wrong with which part of the request, for BadRequest: messages about a place begin with it, "place:
 * what". */
static void set_violation(struct grpc_status *s)
{
    s->has_violation = true;
    s->description = s->message;
    const uint8_t *colon = s->message.n ? memchr(s->message.p, ':', s->message.n) : NULL;
    size_t n = colon ? (size_t)(colon - s->message.p) : 0;
    if (n > 0 && s->message.n - n > 2 && colon[1] == ' ' && !memchr(s->message.p, ' ', n)) {
        s->field = bytes_of(s->message.p, n);
        s->description = bytes_of(colon + 2, s->message.n - n - 2);
    }
}

/* Trailers-Only: one block of headers with the status in it. */
static int refuse_grpc(struct http_exchange *x, enum refusal refusal, const struct grpc_status *s)
{
    char code[4];
    int n = snprintf(code, sizeof code, "%d", (int)s->code);
    struct http_header headers[3] = {HEADER("content-type", media_type(DIALECT_GRPC))}, trailers[3];
    struct http_reply reply = {
        .status = 200, .headers = headers, .n_headers = 1, .trailers = trailers, .n_trailers = 2};
    if (refusal == REFUSAL_CODING)
        headers[reply.n_headers++] = HEADER("grpc-accept-encoding", BYTES_LIT(CODING_LIST));
    if (refusal == REFUSAL_NOT_POST) {
        reply.status = 405;
        headers[reply.n_headers++] = HEADER("allow", BYTES_LIT("POST"));
    }

    /* On the stack too: percent-encoding triples the message, base64 adds a third to the details. */
    uint8_t message[3 * ERROR_TEXT_MAX], encoded[BODY_MAX];
    struct buffer message_out = {.p = message, .cap = sizeof message, .max = sizeof message};
    struct buffer details_out = {.p = encoded, .cap = sizeof encoded, .max = sizeof encoded};
    int r = grpc_percent_encode(s->message, &message_out);
    if (r == 0 && (s->has_retry || s->has_violation)) {
        struct body details;
        details.n = 0;
        r = put_status(&details, DIALECT_GRPC, s);
        if (r == 0)
            r = grpc_base64_encode(bytes_of(details.bytes, details.n), &details_out);
    }
    if (r < 0)
        return r;
    trailers[0] = HEADER("grpc-status", bytes_of(code, (size_t)n));
    trailers[1] = HEADER("grpc-message", buffer_bytes(&message_out));
    if (details_out.n > 0)
        trailers[reply.n_trailers++] = HEADER("grpc-status-details-bin", buffer_bytes(&details_out));
    return http_reply(x, &reply);
}

/* RFC 9110 §11.6.1: each scheme that is taken. RFC 6750 §3: a token that is wrong in any way is
 * "invalid_token", and nothing is said when none was sent. RFC 7617 §2.1: the user's name and password are
 * UTF-8. */
static void add_challenges(struct http_reply *reply, struct http_header *headers, enum refusal refusal,
                           const struct reply_hint *hint)
{
    if (hint->takes_bearer)
        headers[reply->n_headers++] =
            HEADER("www-authenticate", refusal == REFUSAL_WRONG_CREDENTIALS
                                           ? BYTES_LIT("Bearer realm=\"profgate\", error=\"invalid_token\"")
                                           : BYTES_LIT("Bearer realm=\"profgate\""));
    if (hint->takes_basic)
        headers[reply->n_headers++] =
            HEADER("www-authenticate", BYTES_LIT("Basic realm=\"profgate\", charset=\"UTF-8\""));
}

static int refuse_http(struct http_exchange *x, enum dialect dialect, enum refusal refusal,
                       const struct grpc_status *s, const struct reply_hint *hint)
{
    struct http_header headers[4] = {HEADER("content-type", media_type(dialect))};
    struct http_reply reply = {.status = rows[refusal].http, .headers = headers, .n_headers = 1};
    char seconds[24];
    if (s->has_retry) {
        /* Retry-After counts whole seconds (RFC 9110 §10.2.3): rounded up, 0 would mean at once. */
        uint64_t n = s->retry_ns / NSEC_PER_SEC + (s->retry_ns % NSEC_PER_SEC != 0);
        int len = snprintf(seconds, sizeof seconds, "%llu", (unsigned long long)max_of(n, (uint64_t)1));
        headers[reply.n_headers++] = HEADER("retry-after", bytes_of(seconds, (size_t)len));
    }
    if (refusal == REFUSAL_NOT_POST)
        headers[reply.n_headers++] = HEADER("allow", BYTES_LIT("POST"));
    if (refusal == REFUSAL_CODING)
        headers[reply.n_headers++] = HEADER("accept-encoding", BYTES_LIT(CODING_LIST));
    if (refusal == REFUSAL_MEDIA_TYPE)
        headers[reply.n_headers++] = HEADER("accept", BYTES_LIT("application/x-protobuf, application/json"));
    if (rows[refusal].http == 401)
        add_challenges(&reply, headers, refusal, hint);
    struct body body;
    body.n = 0;
    int r = put_status(&body, dialect, s);
    if (r < 0)
        return r;
    reply.body = bytes_of(body.bytes, body.n);
    return http_reply(x, &reply);
}

int reply_refused(struct http_exchange *x, enum dialect dialect, enum refusal refusal,
                  const struct error *message, const struct reply_hint *hint)
{
    struct clean clean;
    struct grpc_status s = {
        .code = (int32_t)(dialect == DIALECT_GRPC ? rows[refusal].grpc : rows[refusal].body),
        .message = clean_text(message, &clean),
    };
    if (refusal_is_retryable(refusal)) {
        s.has_retry = true;
        s.retry_ns = hint->retry_after_ns;
    } else if (rows[refusal].http == 400 && s.code == GRPC_INVALID_ARGUMENT) {
        set_violation(&s);
    }
    return dialect == DIALECT_GRPC ? refuse_grpc(x, refusal, &s) : refuse_http(x, dialect, refusal, &s, hint);
}
