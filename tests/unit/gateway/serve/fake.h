/* SPDX-License-Identifier: Apache-2.0 */
/*
 * serve without its neighbours: http_reply writes down the answer as text, ingest_push gives the answer a
 * test has set.
 */
#ifndef TESTS_UNIT_GATEWAY_SERVE_FAKE_H
#define TESTS_UNIT_GATEWAY_SERVE_FAKE_H

#include <stdlib.h>

#include "gateway/serve/serve.h"
#include "gateway/serve/calls/services.h"
#include "tests/lib/unit.h"

/* The answer: "STATUS\nname: value\n…\nbody: BYTES\n-- trailers\nname: value\n…", bytes outside printable
 * ASCII as \xNN. */
static struct buffer said;
static unsigned n_replies;

/* What ingest was given last, and what it answers. */
static struct buffer pushed;
static unsigned n_pushes;
static struct ingest_answer next_answer;

/* What it was received as: the coding; whether the coded bytes may go on as they are, and them. A test may
 * have the memory taken over. */
static enum coding received_coding;
static bool received_whole, take_received;
static struct buffer received_bytes;

static void say(struct bytes b)
{
    for (size_t i = 0; i < b.n; i++)
        if (b.p[i] >= 0x20 && b.p[i] < 0x7f && b.p[i] != '\\')
            buffer_add(&said, &b.p[i], 1);
        else
            buffer_printf(&said, "\\x%02x", b.p[i]);
}

static void say_headers(const struct http_header *headers, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        say(headers[i].name);
        buffer_add_str(&said, ": ");
        say(headers[i].value);
        buffer_add_str(&said, "\n");
    }
}

int http_reply(struct http_exchange *x, const struct http_reply *reply)
{
    ck_assert_uint_eq(n_replies, 0);
    n_replies++;
    buffer_printf(&said, "%u\n", reply->status);
    say_headers(reply->headers, reply->n_headers);
    buffer_add_str(&said, "body: ");
    say(reply->body);
    buffer_add_str(&said, "\n");
    if (reply->n_trailers > 0)
        buffer_add_str(&said, "-- trailers\n");
    say_headers(reply->trailers, reply->n_trailers);
    return 0;
}

/* The services beside the one that takes profiles: one path that anybody may ask, one for those who may. */
static unsigned n_taken __attribute__((unused));

bool services_is_public(struct bytes path)
{
    return bytes_is(path, "/grpc.health.v1.Health/Check");
}

bool services_take(struct services *s, struct http_exchange *x)
{
    if (!services_is_public(x->path) && !bytes_is(x->path, "/service/Method"))
        return false;
    n_taken++;
    return true;
}

static enum profiles_layout pushed_layout __attribute__((unused));

bool ingest_from(struct ingest *g, uint64_t client)
{
    return true;
}

void ingest_push(struct ingest *g, struct bytes body, enum profiles_layout layout, struct received *received,
                 struct ingest_answer *ret)
{
    n_pushes++;
    pushed.n = 0;
    buffer_add_bytes(&pushed, body);
    /* The padding must be ours to read (ASan looks). */
    volatile uint8_t sum = 0;
    for (size_t i = 0; i < PROFILES_PADDING; i++)
        sum ^= body.p[body.n + i];
    (void)sum;
    pushed_layout = layout;
    ck_assert(received->plain->p == body.p && received->plain->n == body.n);
    received_coding = received->coding;
    received_whole = received->coded != NULL;
    received_bytes.n = 0;
    if (received->coded)
        buffer_add_bytes(&received_bytes, buffer_bytes(received->coded));
    for (int i = 0; i < 2 && take_received; i++) {
        struct buffer *from = i == 0 ? received->plain : received->coded;
        size_t n;
        if (from)
            free(room_take(from, i == 0 ? received->plain_budget : received->coded_budget, &n));
    }
    *ret = next_answer;
}

#define GRPC_PATH "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export"
#define HTTP_PATH "/v1development/profiles"

/* Named headers end with a NULL name. */
struct call {
    const char *method, *path;
    enum http_version version;
    struct http_header headers[8];
    int64_t content_length;
    struct bytes body;
    size_t step; /* size of the pieces; 0: one piece */
    const struct http_peer *peer;
};

static void exchange_begin(const struct call *call, struct http_exchange *x)
{
    *x = (struct http_exchange){.version = call->version ? call->version : HTTP_VERSION_2,
                                .method = bytes_str(call->method ? call->method : "POST"),
                                .path = bytes_str(call->path),
                                .headers = call->headers,
                                .content_length = call->content_length ? call->content_length : -1,
                                .peer = call->peer};
    while (x->n_headers < 8 && call->headers[x->n_headers].name.p)
        x->n_headers++;
}

/* Runs one request as a session would; returns the answer, NUL-terminated. */
static inline const char *ask(struct serve *s, const struct call *call)
{
    const struct http_handler *h = serve_handler();
    struct http_exchange x;
    said.n = 0;
    n_replies = 0;
    exchange_begin(call, &x);
    h->on_head(s, &x);
    size_t step = call->step ? call->step : call->body.n;
    for (size_t at = 0; at < call->body.n && n_replies == 0; at += step) {
        /* An exact-size copy, so that a sanitizer sees a read past the piece. */
        size_t n = call->body.n - at < step ? call->body.n - at : step;
        autofree uint8_t *copy = malloc(n);
        memcpy(copy, call->body.p + at, n);
        h->on_body(s, &x, bytes_of(copy, n));
    }
    if (n_replies == 0)
        h->on_end(s, &x);
    h->on_close(s, &x);
    ck_assert_uint_eq(n_replies, 1);
    ck_assert_int_eq(buffer_add(&said, "", 1), 0);
    return (const char *)said.p;
}

#define H(name_, value_)                    \
    {                                       \
        BYTES_LIT(name_), BYTES_LIT(value_) \
    }
#define GRPC_TYPE  H("content-type", "application/grpc")
#define PROTO_TYPE H("content-type", "application/x-protobuf")
#define JSON_TYPE  H("content-type", "application/json")

static inline struct serve *serve_with(size_t request_bytes, struct budget *budget)
{
    struct serve_options o = SERVE_OPTIONS_DEFAULT;
    o.request_bytes = request_bytes;
    o.retry_after_ns = 1500000000;
    struct serve *s = unit_made(serve_new(&o, NULL, NULL, budget));
    next_answer = (struct ingest_answer){.verdict = INGEST_ACCEPTED};
    n_pushes = 0;
    return s;
}

static inline void fake_release(struct serve *s)
{
    serve_free(s);
    buffer_release(&said);
    buffer_release(&pushed);
    buffer_release(&received_bytes);
}

#endif
