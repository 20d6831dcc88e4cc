/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "gateway/serve/serve.h"
#include "gateway/serve/calls/services.h"
#include "proto/base/macros.h"
#include "proto/grpc/frame.h"
#include "tests/lib/unit.h"

/* serve behind real sessions of both versions, joined in memory; ingest alone is faked. */

static struct ingest_answer next_answer;
static size_t pushed;
static unsigned n_pushes;

bool ingest_from(struct ingest *g, uint64_t client)
{
    return true;
}

void ingest_push(struct ingest *g, struct bytes body, enum profiles_layout layout, struct received *received,
                 struct ingest_answer *ret)
{
    pushed = body.n;
    n_pushes++;
    *ret = next_answer;
}

/* No services here: gateway/serve/calls/services.c is not linked, nor are its neighbours. */
bool services_is_public(struct bytes path)
{
    return false;
}

bool services_take(struct services *s, struct http_exchange *x)
{
    return false;
}

static const struct http_server_limits limits = HTTP_SERVER_LIMITS_DEFAULT;
static const struct http_peer peer = {.address = "test"};
static struct budget budget = BUDGET_INIT(64 << 20, NULL);

static struct serve *serve_start(void)
{
    struct serve_options o = SERVE_OPTIONS_DEFAULT;
    o.request_bytes = 1 << 20;
    struct serve *s = unit_made(serve_new(&o, NULL, NULL, &budget));
    next_answer = (struct ingest_answer){.verdict = INGEST_ACCEPTED};
    n_pushes = 0;
    return s;
}

static void serve_stop(struct serve *s)
{
    serve_free(s);
    ck_assert_uint_eq(atomic_load(&budget.used), 0);
}

/* ---- HTTP/1.1 ------------------------------------------------------------------------------ */

UNIT(http1_requests_are_answered_in_order_on_one_connection)
{
    struct serve *s = serve_start();
    struct http_session *session = unit_made(http_session_new(serve_handler(), s, &peer, &limits, 1));
    const char *text =
        "POST /v1development/profiles HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\n"
        "Content-Length: 3\r\n\r\nabc"
        "POST /v1development/profiles HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\n"
        "Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n2\r\ncd\r\n0\r\n\r\n"
        "GET /v1development/profiles HTTP/1.1\r\nHost: x\r\n\r\n"
        "POST /v1development/profiles HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\n"
        "Content-Length: 2000000\r\n\r\n";
    struct buffer out = {0};
    for (const char *at = text; *at; at++) {
        ck_assert_int_eq(http_session_feed(session, bytes_of(at, 1), 1), 0);
        while (http_session_has_output(session))
            ck_assert_int_eq(http_session_drain(session, &out, 4096), 0);
    }
    ck_assert_int_eq(buffer_add(&out, "", 1), 0);
    const char *want[] = {"HTTP/1.1 200 ", "HTTP/1.1 200 ", "HTTP/1.1 405 ", "HTTP/1.1 413 "};
    const char *at = (const char *)out.p;
    for (size_t i = 0; i < ARRAY_LEN(want); i++) {
        at = strstr(at, want[i]);
        ck_assert_msg(at != NULL, "answer %zu is missing in: %s", i, (const char *)out.p);
        at++;
    }
    ck_assert_uint_eq(n_pushes, 2);
    ck_assert_uint_eq(pushed, 4);
    http_session_free(session);
    buffer_release(&out);
    serve_stop(s);
}

/* ---- gRPC over HTTP/2 ---------------------------------------------------------------------- */

struct said {
    enum http_call_result result;
    uint32_t status;
    char code[8], message[128], details[256];
    size_t body;
    unsigned times;
};

/* Trailers-Only answers have their status among the headers. */
static void keep(const struct http_response *r, const char *name, char *to, size_t cap)
{
    struct bytes value = http_header_find(r->trailers, r->n_trailers, name);
    if (!value.p)
        value = http_header_find(r->headers, r->n_headers, name);
    snprintf(to, cap, "%.*s", BYTES_FMT(value));
}

static void on_done(void *user, enum http_call_result result, const struct http_response *r)
{
    struct said *said = user;
    said->times++;
    said->result = result;
    if (!r)
        return;
    said->status = r->status;
    said->body = r->body.n;
    keep(r, "grpc-status", said->code, sizeof said->code);
    keep(r, "grpc-message", said->message, sizeof said->message);
    keep(r, "grpc-status-details-bin", said->details, sizeof said->details);
}

/* Carries bytes both ways until neither side has anything to say. */
static void join(struct http_client *client, struct http_session *session)
{
    cleanup(buffer_release) struct buffer pipe = {0};
    while (http_client_has_output(client) || http_session_has_output(session)) {
        size_t before = 0;
        pipe.n = 0;
        ck_assert_int_eq(http_client_drain(client, &pipe, 10000), 0);
        before = pipe.n;
        if (pipe.n > 0)
            ck_assert_int_eq(http_session_feed(session, buffer_bytes(&pipe), 1), 0);
        pipe.n = 0;
        ck_assert_int_eq(http_session_drain(session, &pipe, 10000), 0);
        before += pipe.n;
        if (pipe.n > 0)
            ck_assert_int_eq(http_client_feed(client, buffer_bytes(&pipe)), 0);
        if (before == 0)
            break;
    }
}

/* One call with a message of n bytes. */
static struct said call(struct serve *s, const char *path, size_t n)
{
    struct http_session *session = unit_made(http_session_new(serve_handler(), s, &peer, &limits, 1));
    struct http_client *client = unit_made(http_client_new(HTTP_VERSION_2, 1 << 20));
    struct http_header headers[] = {{BYTES_LIT("content-type"), BYTES_LIT("application/grpc")},
                                    {BYTES_LIT("te"), BYTES_LIT("trailers")}};
    uint8_t *body = calloc(1, GRPC_PREFIX_BYTES + n);
    ck_assert(session && client && body);
    grpc_prefix_write(body, false, (uint32_t)n);
    struct http_request request = {.method = "POST",
                                   .scheme = "http",
                                   .authority = "x",
                                   .path = path,
                                   .headers = headers,
                                   .n_headers = 2,
                                   .body = bytes_of(body, GRPC_PREFIX_BYTES + n)};
    struct said said = {.times = 0};
    ck_assert_ptr_nonnull(http_client_call(client, &request, on_done, &said));
    join(client, session);
    http_client_free(client);
    http_session_free(session);
    free(body);
    ck_assert_uint_eq(said.times, 1);
    return said;
}

#define EXPORT "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export"

UNIT(grpc_calls_are_accepted_with_trailers)
{
    struct serve *s = serve_start();
    const size_t sizes[] = {0, 1, 4096, 100000, 1 << 20};
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        struct said said = call(s, EXPORT, sizes[i]);
        ck_assert_int_eq(said.result, HTTP_CALL_DONE);
        ck_assert_uint_eq(said.status, 200);
        ck_assert_str_eq(said.code, "0");
        ck_assert_uint_eq(said.body, GRPC_PREFIX_BYTES);
        ck_assert_uint_eq(pushed, sizes[i]);
    }
    ck_assert_uint_eq(n_pushes, ARRAY_LEN(sizes));
    serve_stop(s);
}

UNIT(grpc_refusals_are_trailers_only)
{
    struct serve *s = serve_start();
    struct said said = call(s, "/other.Service/Call", 10);
    ck_assert_int_eq(said.result, HTTP_CALL_DONE);
    ck_assert_uint_eq(said.status, 200);
    ck_assert_str_eq(said.code, "12");
    ck_assert_uint_eq(said.body, 0);

    said = call(s, EXPORT, (1 << 20) + 1);
    ck_assert_int_eq(said.result, HTTP_CALL_DONE);
    ck_assert_str_eq(said.code, "8");
    ck_assert_str_eq(said.details, "");

    next_answer.verdict = INGEST_BUSY;
    next_answer.retry_after_ns = 1000000000;
    error_set(&next_answer.message, 0, "full 100%%");
    said = call(s, EXPORT, 10);
    ck_assert_str_eq(said.code, "14");
    ck_assert_str_eq(said.message, "full 100%25");
    ck_assert_str_ne(said.details, "");
    serve_stop(s);
}

/* The two share an address: the first bytes and the Content-Type tell them apart (L701-703). */
UNIT(g11_h1_one_address_takes_grpc_and_http_of_both_versions)
{
    struct serve *s = serve_start();
    ck_assert_str_eq(call(s, EXPORT, 10).code, "0");
    struct http_session *session = unit_made(http_session_new(serve_handler(), s, &peer, &limits, 1));
    const char *text =
        "POST /v1development/profiles HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\n"
        "Content-Length: 3\r\n\r\nabc";
    struct buffer out = {0};
    ck_assert_int_eq(http_session_feed(session, bytes_str(text), 1), 0);
    ck_assert_int_eq(http_session_drain(session, &out, 4096), 0);
    ck_assert(bytes_starts(buffer_bytes(&out), "HTTP/1.1 200 "));
    http_session_free(session);
    buffer_release(&out);
    struct http_header headers[] = {{BYTES_LIT("content-type"), BYTES_LIT("application/x-protobuf")}};
    struct http_request request = {.method = "POST",
                                   .scheme = "http",
                                   .authority = "x",
                                   .path = "/v1development/profiles",
                                   .headers = headers,
                                   .n_headers = 1,
                                   .body = BYTES_LIT("abcd")};
    session = http_session_new(serve_handler(), s, &peer, &limits, 1);
    struct http_client *client = unit_made(http_client_new(HTTP_VERSION_2, 1 << 20));
    struct said said = {.times = 0};
    ck_assert(session && client && http_client_call(client, &request, on_done, &said));
    join(client, session);
    ck_assert_uint_eq(said.status, 200);
    ck_assert_str_eq(said.code, ""); /* no trailers */
    ck_assert_uint_eq(n_pushes, 3);
    http_client_free(client);
    http_session_free(session);
    serve_stop(s);
}

/* Over HTTP/2 a client that has sent all it has hears the refusal, and no RST_STREAM after it. */
UNIT(small_refused_calls_end_without_a_reset)
{
    struct serve *s = serve_start();
    const size_t sizes[] = {0, 1, 10000, 60000};
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        struct said said = call(s, "/other.Service/Call", sizes[i]);
        ck_assert_int_eq(said.result, HTTP_CALL_DONE);
        ck_assert_str_eq(said.code, "12");
    }
    serve_stop(s);
}
