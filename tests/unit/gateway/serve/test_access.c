/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may, and how much, as the peer sees it: the words of each refusal, and when they are said.
 */
#include <stdio.h>
#include <unistd.h>

#include "gateway/access/access.h"
#include "proto/base/clock.h"
#include "proto/base/macros.h"
#include "proto/io/loop.h"
#include "tests/unit/gateway/serve/fake.h"

#define CAROL "Basic Y2Fyb2w6c2VjcmV0" /* carol:secret */

struct fixture {
    struct budget budget;
    struct io_loop *loop;
    struct access *access;
    struct access_worker *worker;
    struct stats stats;
    struct serve_listener listener;
    struct http_peer peer;
    struct serve *serve;
};

static void start(struct fixture *f, struct access_options options, const char *tokens, const char *users,
                  const char *identity)
{
    char path[2][UNIT_PATH_MAX];
    const char *text[2] = {tokens, users};
    *f = (struct fixture){.budget = BUDGET_INIT(64 << 20, NULL), .peer = {.address = "192.0.2.1:1"}};
    for (int i = 0; i < 2; i++) {
        int fd = text[i] ? unit_new_file(path[i], "") : -1;
        ck_assert(!text[i] || write(fd, text[i], strlen(text[i])) == (ssize_t)strlen(text[i]));
        if (text[i])
            close(fd);
        else
            path[i][0] = 0;
    }
    struct error e;
    f->loop = unit_made(io_loop_new());
    ck_assert_int_eq(access_new(&f->access, &options, &f->budget, &e), 0);
    struct access_policy_options o = {path[0], path[1], &identity, identity != NULL};
    ck_assert_msg(access_policy_new(f->access, &o, &f->listener.policy, &e) == 0, "%s", e.text);
    for (int i = 0; i < 2; i++)
        if (text[i])
            unlink(path[i]);
    f->worker = unit_made(access_worker_new(f->access, f->loop, &f->stats));
    struct serve_options so = SERVE_OPTIONS_DEFAULT;
    so.request_bytes = 1 << 20;
    so.retry_after_ns = 1500000000;
    so.access = f->worker;
    so.services = (struct services *)f; /* not NULL: fake.h's */
    f->serve = unit_made(serve_new(&so, NULL, &f->stats, &f->budget));
    f->peer.listener = &f->listener;
    ck_assert(serve_admit(NULL, f->serve, &f->peer));
    next_answer = (struct ingest_answer){.verdict = INGEST_ACCEPTED};
    n_pushes = n_taken = 0;
}

static void stop(struct fixture *f)
{
    serve_leave(NULL, f->serve, &f->peer);
    fake_release(f->serve);
    access_worker_free(f->worker);
    io_loop_free(f->loop);
    access_free(f->access);
    ck_assert_uint_eq(atomic_load(&f->budget.used), 0);
}

/* As ask(), on the fixture's connection; a verification is waited for. */
static const char *ask_as_peer(struct fixture *f, const struct call *call)
{
    const struct http_handler *h = serve_handler();
    struct http_exchange x;
    said.n = 0;
    n_replies = 0;
    exchange_begin(call, &x);
    x.peer = &f->peer;
    h->on_head(f->serve, &x);
    if (n_replies == 0 && call->body.n > 0)
        h->on_body(f->serve, &x, call->body);
    if (n_replies == 0)
        h->on_end(f->serve, &x);
    while (n_replies == 0)
        io_loop_run_once(f->loop, NSEC_PER_SEC);
    h->on_close(f->serve, &x);
    ck_assert_int_eq(buffer_add(&said, "", 1), 0);
    return (const char *)said.p;
}

static void has(const char *text, const char *part)
{
    ck_assert_msg(strstr(text, part) != NULL, "\"%s\" is not in:\n%s", part, text);
}

static void begins(const char *text, const char *part)
{
    ck_assert_msg(strncmp(text, part, strlen(part)) == 0, "this does not begin with \"%s\":\n%s", part, text);
}

#define AUTH(value) H("authorization", value)
static const struct bytes grpc_x = {(const uint8_t *)"\0\0\0\0\1x", 6};
#define TOKENS "alpha alice\nbeta bob\n"
#define USERS  "carol:$2y$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW\n"

UNIT(h11_without_credentials_it_is_401_with_the_challenges_and_a_status)
{
    struct fixture f;
    start(&f, (struct access_options){0}, TOKENS, USERS, NULL);
    struct call call = {.path = HTTP_PATH, .headers = {JSON_TYPE}, .body = BYTES_LIT("{}")};
    const char *answer = ask_as_peer(&f, &call);
    begins(answer, "401\ncontent-type: application/json\nwww-authenticate: Bearer realm=\"profgate\"\n"
                   "www-authenticate: Basic realm=\"profgate\", charset=\"UTF-8\"\nbody: {\"code\":16,");
    call.headers[1] = (struct http_header)AUTH("Bearer wrong");
    answer = ask_as_peer(&f, &call);
    has(answer, "www-authenticate: Bearer realm=\"profgate\", error=\"invalid_token\"\n");
    call.headers[0] = (struct http_header)PROTO_TYPE;
    has(ask_as_peer(&f, &call), "\nbody: \\x08\\x10\\x12"); /* Status {code = 16, message} */
    call.headers[1] = (struct http_header)AUTH("Bearer alpha");
    begins(ask_as_peer(&f, &call), "200\n");
    ck_assert_uint_eq(n_pushes, 1);
    ck_assert_uint_eq(f.stats.value[STATS_AUTH_MISSING], 1);
    ck_assert_uint_eq(f.stats.value[STATS_AUTH_WRONG], 2);
    ck_assert_uint_eq(f.stats.value[STATS_REQUESTS_REFUSED], 3);
    stop(&f);
}

UNIT(grpc_without_credentials_is_unauthenticated_and_final)
{
    struct fixture f;
    start(&f, (struct access_options){0}, TOKENS, NULL, NULL);
    struct call call = {.path = GRPC_PATH, .headers = {GRPC_TYPE}, .body = grpc_x};
    const char *answer = ask_as_peer(&f, &call);
    begins(answer, "200\n");
    has(answer, "grpc-status: 16\n");
    ck_assert_ptr_null(strstr(answer, "details-bin"));
    call.headers[1] = (struct http_header)AUTH("Bearer beta");
    has(ask_as_peer(&f, &call), "grpc-status: 0\n");
    stop(&f);
}

UNIT(credentials_come_before_everything_else_about_a_request)
{
    struct fixture f;
    start(&f, (struct access_options){0}, TOKENS, NULL, NULL);
    struct call call = {.path = "/elsewhere", .method = "GET", .headers = {JSON_TYPE}};
    begins(ask_as_peer(&f, &call), "401\n");
    call.headers[1] = (struct http_header)AUTH("Bearer alpha");
    begins(ask_as_peer(&f, &call), "404\n");
    stop(&f);
}

UNIT(a_certificate_that_is_not_listed_is_403_and_permission_denied)
{
    struct fixture f;
    start(&f, (struct access_options){0}, NULL, NULL, "spiffe://prod/*");
    struct call call = {.path = HTTP_PATH, .headers = {PROTO_TYPE}};
    begins(ask_as_peer(&f, &call), "403\ncontent-type: application/x-protobuf\nbody: \\x08\\x07\\x12");
    struct call grpc = {.path = GRPC_PATH, .headers = {GRPC_TYPE}, .body = grpc_x};
    snprintf(f.peer.identity, sizeof f.peer.identity, "spiffe://test/agent");
    has(ask_as_peer(&f, &grpc), "grpc-status: 7\n");
    snprintf(f.peer.identity, sizeof f.peer.identity, "spiffe://prod/agent");
    has(ask_as_peer(&f, &grpc), "grpc-status: 0\n");
    stop(&f);
}

UNIT(a_password_is_waited_for_and_the_body_kept_meanwhile)
{
    struct fixture f;
    start(&f, (struct access_options){.per_client = {.requests = 10}}, NULL, USERS, NULL);
    struct call call = {.path = GRPC_PATH, .headers = {GRPC_TYPE, AUTH(CAROL)}, .body = grpc_x};
    has(ask_as_peer(&f, &call), "grpc-status: 0\n");
    ck_assert_uint_eq(n_pushes, 1);
    ck_assert(bytes_is(buffer_bytes(&pushed), "x"));
    call.headers[1] = (struct http_header)AUTH("Basic Y2Fyb2w6d3Jvbmc=");
    has(ask_as_peer(&f, &call), "grpc-status: 16\n");
    call = (struct call){.path = HTTP_PATH, .headers = {PROTO_TYPE, AUTH("Basic Y2Fyb2w6d3Jvbmc=")}};
    begins(ask_as_peer(&f, &call),
           "401\ncontent-type: application/x-protobuf\nwww-authenticate: Basic realm=");
    ck_assert_uint_eq(n_pushes, 1);
    stop(&f);
}

UNIT(a_client_that_goes_while_its_password_is_verified_leaves_nothing)
{
    struct fixture f;
    start(&f, (struct access_options){0}, NULL, USERS, NULL);
    struct call call = {.path = GRPC_PATH, .headers = {GRPC_TYPE, AUTH(CAROL)}};
    struct http_exchange x;
    n_replies = 0;
    exchange_begin(&call, &x);
    x.peer = &f.peer;
    serve_handler()->on_head(f.serve, &x);
    serve_handler()->on_body(f.serve, &x, grpc_x);
    serve_handler()->on_close(f.serve, &x);
    ck_assert_uint_eq(n_replies, 0);
    stop(&f);
}

/* Nobody knows yet who sends it, so little of it is held. */
UNIT(a_large_body_before_the_password_is_verified_is_told_to_come_again)
{
    struct fixture f;
    start(&f, (struct access_options){0}, NULL, USERS, NULL);
    struct call call = {.path = HTTP_PATH, .headers = {PROTO_TYPE, AUTH(CAROL)}};
    static uint8_t body[300000];
    call.body = bytes_of(body, sizeof body);
    const char *answer = ask_as_peer(&f, &call);
    begins(answer, "503\ncontent-type: application/x-protobuf\nretry-after: 2\n");
    ck_assert_uint_eq(atomic_load(&access_waiting_budget(f.worker)->used), 0);
    call.body = BYTES_LIT("x");
    begins(ask_as_peer(&f, &call), "200\n"); /* waits for the same verification, or finds it done */
    call.body = bytes_of(body, sizeof body);
    begins(ask_as_peer(&f, &call), "200\n");
    stop(&f);
}

UNIT(health_is_for_everybody_and_other_services_for_those_who_may)
{
    struct fixture f;
    start(&f, (struct access_options){0}, TOKENS, USERS, NULL);
    struct http_exchange x;
    struct call call = {.path = "/grpc.health.v1.Health/Check", .headers = {GRPC_TYPE}};
    exchange_begin(&call, &x);
    x.peer = &f.peer;
    serve_handler()->on_head(f.serve, &x);
    ck_assert_uint_eq(n_taken, 1);
    call = (struct call){.path = "/service/Method", .headers = {GRPC_TYPE}, .body = grpc_x};
    has(ask_as_peer(&f, &call), "grpc-status: 16\n");
    ck_assert_uint_eq(n_taken, 1);
    call.headers[1] = (struct http_header)AUTH("Bearer alpha");
    exchange_begin(&call, &x);
    x.peer = &f.peer;
    serve_handler()->on_head(f.serve, &x);
    ck_assert_uint_eq(n_taken, 2);
    /* A stream cannot be handed over half way: its client tries again, and is known then. */
    call.headers[1] = (struct http_header)AUTH(CAROL);
    has(ask_as_peer(&f, &call), "grpc-status: 14\n");
    ck_assert_uint_eq(n_taken, 2);
    stop(&f);
}

UNIT(g2_g8_h9_over_the_rate_is_429_and_resource_exhausted_always_with_a_hint)
{
    struct fixture f;
    start(&f, (struct access_options){.per_client = {.bytes_per_second = 1000}}, NULL, NULL, NULL);
    static uint8_t body[1 << 20];
    struct call big = {
        .path = HTTP_PATH, .headers = {PROTO_TYPE}, .content_length = 1 << 20, .body = {body, sizeof body}};
    begins(ask_as_peer(&f, &big), "200\n"); /* the burst is at least one request */
    const char *answer = ask_as_peer(&f, &big);
    begins(answer, "429\ncontent-type: application/x-protobuf\nretry-after: 10");
    struct call json = {
        .path = HTTP_PATH, .headers = {JSON_TYPE}, .content_length = 1000, .body = BYTES_LIT("{}")};
    answer = ask_as_peer(&f, &json);
    begins(answer, "429\n");
    has(answer, "google.rpc.RetryInfo");
    has(answer, "\"code\":8");
    big.headers[0] = (struct http_header)GRPC_TYPE;
    big.path = GRPC_PATH;
    answer = ask_as_peer(&f, &big);
    has(answer, "grpc-status: 8\n");
    has(answer, "grpc-status-details-bin: ");
    ck_assert_uint_eq(n_pushes, 1);
    ck_assert_uint_eq(f.stats.value[STATS_LIMIT_CLIENT_BYTES], 3);
    ck_assert_uint_eq(f.stats.value[STATS_REQUESTS_REFUSED], 3);
    stop(&f);
}

UNIT(requests_at_once_and_memory_are_limited_with_a_hint_but_not_what_never_fits)
{
    struct fixture f;
    start(&f, (struct access_options){.per_client = {.requests = 1, .memory = 100000}}, NULL, NULL, NULL);
    struct call call = {.path = GRPC_PATH, .headers = {GRPC_TYPE}, .body = grpc_x};
    struct http_exchange first;
    exchange_begin(&call, &first);
    first.peer = &f.peer;
    serve_handler()->on_head(f.serve, &first);
    const char *answer = ask_as_peer(&f, &call);
    has(answer, "grpc-status: 8\n");
    has(answer, "grpc-status-details-bin: ");
    serve_handler()->on_close(f.serve, &first);
    has(ask_as_peer(&f, &call), "grpc-status: 0\n");
    static uint8_t body[200000] = {0, 0, 3, 0x0d, 0x3b}; /* a message of 199,995 bytes */
    call.body = bytes_of(body, sizeof body);
    answer = ask_as_peer(&f, &call);
    has(answer, "grpc-status: 8\n");
    ck_assert_ptr_null(strstr(answer, "details-bin"));
    call = (struct call){.path = HTTP_PATH, .headers = {PROTO_TYPE}, .content_length = 200000};
    begins(ask_as_peer(&f, &call), "413\n");
    ck_assert_uint_eq(f.stats.value[STATS_LIMIT_CLIENT_REQUESTS], 1);
    ck_assert_uint_eq(f.stats.value[STATS_LIMIT_CLIENT_MEMORY], 2);
    stop(&f);
}

UNIT(a_tenant_that_is_missing_or_malformed_is_400)
{
    struct fixture f;
    start(&f, (struct access_options){.tenant_header = "X-Scope-OrgID", .tenant_required = true}, NULL, NULL,
          NULL);
    struct call call = {.path = HTTP_PATH, .headers = {JSON_TYPE}, .body = BYTES_LIT("{}")};
    const char *answer = ask_as_peer(&f, &call);
    begins(answer, "400\n");
    has(answer, "must name its tenant");
    call.headers[1] = (struct http_header)H("x-scope-orgid", "a b");
    begins(ask_as_peer(&f, &call), "400\n");
    call.headers[1] = (struct http_header)H("x-scope-orgid", "team-a");
    begins(ask_as_peer(&f, &call), "200\n");
    struct call grpc = {.path = GRPC_PATH, .headers = {GRPC_TYPE}, .body = grpc_x};
    has(ask_as_peer(&f, &grpc), "grpc-status: 3\n");
    stop(&f);
}
