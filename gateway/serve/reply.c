/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/serve/reply.h"

#include <stdio.h>

#include "gateway/access/access.h"
#include "proto/base/base64.h"
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

/* Bodies are built on the stack; a gateway that is out of memory can still say so. The longest is a Status in
 * JSON with every character of the text escaped, twice (message and violation). */
#define BODY_MAX (2 * 6 * ERROR_TEXT_MAX + 512)

/* A buffer over the stack: it has all the room it needs, so it never grows. */
#define ON_STACK(bytes)                                          \
    {                                                            \
        .p = (bytes), .cap = sizeof(bytes), .max = sizeof(bytes) \
    }

/* ---- headers ------------------------------------------------------------------------------- */

#define HEADER(name_, value_)                       \
    (struct http_header)                            \
    {                                               \
        .name = BYTES_LIT(name_), .value = (value_) \
    }

int reply_accepted(struct http_exchange *x, const struct route *route, uint64_t rejected_profiles,
                   const struct error *message)
{
    struct clean clean;
    uint8_t bytes[BODY_MAX];
    struct buffer body = ON_STACK(bytes);
    bool is_grpc = route->protocol == INTAKE_GRPC;
    body.n = is_grpc ? GRPC_PREFIX_BYTES : 0;
    int r = route->words->accepted(&body, rejected_profiles, clean_text(message, &clean));
    if (r < 0)
        return r;
    struct http_header headers[] = {HEADER("content-type", route->words->media_type)};
    struct http_header trailers[] = {HEADER("grpc-status", BYTES_LIT("0"))};
    struct http_reply reply = {.status = 200, .headers = headers, .n_headers = 1};
    if (is_grpc) {
        grpc_prefix_write(body.p, false, (uint32_t)(body.n - GRPC_PREFIX_BYTES));
        reply.trailers = trailers;
        reply.n_trailers = 1;
    }
    reply.body = buffer_bytes(&body);
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
    struct http_header headers[3] = {HEADER("content-type", BYTES_LIT("application/grpc"))}, trailers[3];
    struct http_reply reply = {
        .status = 200, .headers = headers, .n_headers = 1, .trailers = trailers, .n_trailers = 2};
    if (refusal == REFUSAL_CODING)
        headers[reply.n_headers++] = HEADER("grpc-accept-encoding", BYTES_LIT(CODING_LIST));
    if (refusal == REFUSAL_NOT_POST) {
        reply.status = 405;
        headers[reply.n_headers++] = HEADER("allow", BYTES_LIT("POST"));
    }

    /* On the stack too: percent-encoding triples the message, base64 adds a third to the details. */
    uint8_t message[3 * ERROR_TEXT_MAX], status[BODY_MAX], encoded[BODY_MAX];
    struct buffer message_out = ON_STACK(message), details_out = ON_STACK(encoded);
    int r = grpc_percent_encode(s->message, &message_out);
    if (r == 0 && (s->has_retry || s->has_violation)) {
        struct buffer details = ON_STACK(status);
        r = grpc_status_encode(s, &details);
        if (r == 0)
            r = base64_encode(buffer_bytes(&details), false, &details_out);
    }
    if (r < 0)
        return r;
    trailers[0] = HEADER("grpc-status", bytes_of(code, (size_t)n));
    trailers[1] = HEADER("grpc-message", buffer_bytes(&message_out));
    if (details_out.n > 0)
        trailers[reply.n_trailers++] = HEADER("grpc-status-details-bin", buffer_bytes(&details_out));
    return http_reply(x, &reply);
}

static int refuse_http(struct http_exchange *x, const struct intake_words *words, enum refusal refusal,
                       const struct grpc_status *s, const struct reply_hint *hint)
{
    struct http_header headers[4] = {
        HEADER("content-type", words->refusal_type.n ? words->refusal_type : words->media_type)};
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
        headers[reply.n_headers++] = HEADER("accept", bytes_str(hint->media));
    if (rows[refusal].http == 401)
        reply.n_headers +=
            access_challenges(hint->policy, refusal == REFUSAL_WRONG_CREDENTIALS, &headers[reply.n_headers]);
    uint8_t bytes[BODY_MAX];
    struct buffer body = ON_STACK(bytes);
    int r = words->refused(&body, s);
    if (r < 0)
        return r;
    reply.body = buffer_bytes(&body);
    return http_reply(x, &reply);
}

int reply_refused(struct http_exchange *x, const struct route *route, enum refusal refusal,
                  const struct error *message, const struct reply_hint *hint)
{
    bool is_grpc = route->protocol == INTAKE_GRPC;
    struct clean clean;
    struct grpc_status s = {
        .code = (int32_t)(is_grpc ? rows[refusal].grpc : rows[refusal].body),
        .message = clean_text(message, &clean),
    };
    if (refusal_is_retryable(refusal)) {
        s.has_retry = true;
        s.retry_ns = hint->retry_after_ns;
    } else if (rows[refusal].http == 400 && s.code == GRPC_INVALID_ARGUMENT) {
        set_violation(&s);
    }
    return is_grpc ? refuse_grpc(x, refusal, &s) : refuse_http(x, route->words, refusal, &s, hint);
}
