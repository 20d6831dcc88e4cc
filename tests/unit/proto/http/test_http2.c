/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <nghttp2/nghttp2.h>

#include "tests/unit/proto/http/frames.h"
#include "tests/unit/proto/http/recorder.h"

/* One server and one client, with bytes moved between them in pieces. */
struct pair {
    struct recorder r;
    struct http_session *s;
    struct http_client *c;
    enum http_version version;
    size_t step;
    uint64_t now;
    bool in_place; /* the client's bodies are drained so */
};

/* Declared before its pair: a call that is open when that closes tells it. */
struct outcome {
    int n;
    enum http_call_result result;
    uint32_t status, n_headers, n_trailers;
    size_t n_body;
    uint64_t sum;
    char grpc_status[8];
};

static void on_done(void *user, enum http_call_result result, const struct http_response *response)
{
    struct outcome *o = user;
    o->n++;
    o->result = result;
    o->status = response->status;
    o->n_headers = response->n_headers;
    o->n_trailers = response->n_trailers;
    o->n_body = response->body.n;
    o->sum = body_sum(response->body.p, response->body.n);
    struct bytes g = http_header_find(response->trailers, response->n_trailers, "grpc-status");
    if (!g.p)
        g = http_header_find(response->headers, response->n_headers, "grpc-status");
    snprintf(o->grpc_status, sizeof o->grpc_status, "%.*s", BYTES_FMT(g));
}

static void pair_open_with(struct pair *p, enum http_version version, const struct http_server_limits *limits)
{
    p->s = recorder_session(&p->r, limits);
    p->version = version;
    p->c = http_client_new(version, 8 << 20);
    p->now = p->now ? p->now : SEC;
    p->step = p->step ? p->step : 1 << 16;
    ck_assert_ptr_nonnull(p->c);
}

static void pair_open(struct pair *p, enum http_version version)
{
    pair_open_with(p, version, NULL);
}

static int client_feed_steps(struct http_client *c, struct bytes in, size_t step)
{
    while (in.n > 0) {
        size_t n = step < in.n ? step : in.n;
        int r = http_client_feed(c, bytes_of(in.p, n));
        if (r < 0)
            return r;
        in.p += n;
        in.n -= n;
    }
    return 0;
}

/* What is drained with bodies in their place, as it goes on the wire; the number of those. */
static uint32_t drain_in_place(struct http_client *c, struct buffer *to, size_t max)
{
    struct buffer out = BUFFER_INIT(0);
    struct http_places places;
    struct bytes parts[HTTP_PARTS_MAX];
    ck_assert_int_eq(http_client_drain_in_place(c, &out, max, &places), 0);
    uint32_t n = http_places_parts(&places, buffer_bytes(&out), parts);
    for (uint32_t i = 0; i < n; i++)
        ck_assert_int_eq(buffer_add_bytes(to, parts[i]), 0);
    buffer_release(&out);
    return places.n;
}

/* Moves bytes until both are silent. */
static void pair_run(struct pair *p)
{
    cleanup(buffer_release) struct buffer b = BUFFER_INIT(0);
    bool moved = true;
    while (moved) {
        moved = false;
        b.n = 0;
        if (p->in_place)
            drain_in_place(p->c, &b, 40000);
        else
            ck_assert_int_eq(http_client_drain(p->c, &b, 40000), 0);
        moved |= b.n > 0;
        ck_assert_int_eq(feed_steps(p->s, buffer_bytes(&b), p->step, p->now), 0);
        b.n = 0;
        ck_assert_int_eq(http_session_drain(p->s, &b, 40000), 0);
        moved |= b.n > 0;
        ck_assert_int_eq(client_feed_steps(p->c, buffer_bytes(&b), p->step), 0);
    }
}

static void pair_close(struct pair *p)
{
    http_client_free(p->c);
    http_session_free(p->s);
    ck_assert_uint_eq(p->r.n_head, p->r.n_close);
}

static struct http_call *post_behind(struct pair *p, struct bytes prefix, struct bytes body,
                                     struct outcome *o)
{
    static const struct http_header te = {BYTES_LIT("te"), BYTES_LIT("trailers")};
    struct http_request q = {.method = "POST",
                             .scheme = "http",
                             .authority = "host:1",
                             .path = "/svc?x=y",
                             .headers = &te,
                             .n_headers = 1,
                             .prefix = prefix,
                             .body = body};
    return http_client_call(p->c, &q, on_done, o);
}

static struct http_call *post(struct pair *p, struct bytes body, struct outcome *o)
{
    return post_behind(p, (struct bytes){0}, body, o);
}

static const struct http_header grpc_ok = {BYTES_LIT("grpc-status"), BYTES_LIT("0")};

UNIT(a_call_goes_through_in_either_version_and_any_pieces)
{
    for (int version = 1; version <= 2; version++)
        for (size_t step = 1; step < 3000; step = step * 3 + 1) {
            struct outcome o = {0};
            cleanup(pair_close) struct pair p = {
                .step = step, .r = {.reply = {.status = 200, .body = BYTES_LIT("answer")}}};
            pair_open(&p, version);
            ck_assert_ptr_nonnull(post(&p, BYTES_LIT("question"), &o));
            ck_assert_int_eq(o.n, 0);
            pair_run(&p);
            ck_assert_int_eq(o.n, 1);
            ck_assert_int_eq(o.result, HTTP_CALL_DONE);
            ck_assert_uint_eq(o.status, 200);
            ck_assert_uint_eq(o.sum, body_sum((const uint8_t *)"answer", 6));
            ck_assert_str_eq(p.r.log, "POST /svc?x=y host:1|");
            ck_assert_uint_eq(p.r.body_sum, body_sum((const uint8_t *)"question", 8));
            ck_assert_uint_eq(p.r.n_close, 1);
        }
}

/* gRPC's five bytes go before a body that is not copied for them; of an empty message they are all. */
UNIT(a_prefix_is_part_of_the_body)
{
    size_t n = 40000; /* more than a DATA frame */
    autofree uint8_t *whole = unit_made(calloc(1, n));
    for (size_t i = 0; i < n; i++)
        whole[i] = (uint8_t)(i * 31 + i / 999);
    for (int version = 1; version <= 2; version++)
        for (size_t all = 5; all <= n; all += n - 5) {
            struct outcome o = {0};
            cleanup(pair_close) struct pair p = {
                .r = {.reply = {.status = 200, .body = BYTES_LIT("answer")}}};
            pair_open(&p, version);
            ck_assert_ptr_nonnull(post_behind(&p, bytes_of(whole, 5), bytes_of(whole + 5, all - 5), &o));
            pair_run(&p);
            ck_assert_int_eq(o.result, HTTP_CALL_DONE);
            ck_assert_uint_eq(p.r.n_body, all);
            ck_assert_uint_eq(p.r.body_sum, body_sum(whole, all));
        }
}

UNIT(a_megabyte_passes_the_windows_both_ways)
{
    size_t n = (3 << 20) + 17;
    autofree uint8_t *big = malloc(n);
    for (size_t i = 0; i < n; i++)
        big[i] = (uint8_t)(i * 31 + i / 999);
    for (int version = 1; version <= 2; version++) {
        struct http_server_limits l = HTTP_SERVER_LIMITS_DEFAULT;
        struct outcome o = {0};
        cleanup(pair_close) struct pair p = {.r = {.reply = {.status = 200, .body = {big, n}}}};
        l.window_bytes = 100000;
        pair_open_with(&p, version, &l);
        post(&p, bytes_of(big, n), &o);
        pair_run(&p);
        ck_assert_int_eq(o.result, HTTP_CALL_DONE);
        ck_assert_uint_eq(o.n, 1);
        ck_assert_uint_eq(p.r.n_body, n);
        ck_assert_uint_eq(p.r.body_sum, body_sum(big, n));
        ck_assert_uint_eq(o.n_body, n);
        ck_assert_uint_eq(o.sum, body_sum(big, n));
    }
}

UNIT(trailers_follow_a_body_and_join_the_head_without_one)
{
    struct outcome o = {0};
    cleanup(pair_close) struct pair p = {.step = 7};
    p.r.reply =
        (struct http_reply){.status = 200, .body = BYTES_LIT("m"), .trailers = &grpc_ok, .n_trailers = 1};
    pair_open(&p, HTTP_VERSION_2);
    post(&p, BYTES_LIT("q"), &o);
    pair_run(&p);
    ck_assert_int_eq(o.result, HTTP_CALL_DONE);
    ck_assert_uint_eq(o.n_trailers, 1);
    ck_assert_str_eq(o.grpc_status, "0");
    p.r.reply.body = bytes_of(NULL, 0);
    struct outcome only = {0};
    post(&p, BYTES_LIT("q"), &only);
    pair_run(&p);
    ck_assert_int_eq(only.result, HTTP_CALL_DONE);
    ck_assert_uint_eq(only.n_trailers, 0);
    ck_assert_uint_eq(only.n_headers, 1);
    ck_assert_str_eq(only.grpc_status, "0");
}

UNIT(many_streams_at_once_end_each_once)
{
    struct outcome o[150] = {0};
    cleanup(pair_close) struct pair p = {.step = 1000,
                                         .r = {.reply = {.status = 200, .body = BYTES_LIT("x")}}};
    pair_open(&p, HTTP_VERSION_2);
    int n = 0;
    pair_run(&p);
    while (n < 150 && post(&p, BYTES_LIT("body"), &o[n]))
        n++;
    ck_assert_int_eq(n, 100); /* SETTINGS_MAX_CONCURRENT_STREAMS */
    ck_assert(!http_client_is_ready(p.c));
    pair_run(&p);
    for (int i = 0; i < n; i++)
        ck_assert_msg(o[i].n == 1 && o[i].result == HTTP_CALL_DONE, "%d", i);
    ck_assert(http_client_is_ready(p.c));
    ck_assert_uint_eq(p.r.n_close, 100);
}

UNIT(an_early_reply_stops_the_upload)
{
    size_t n = 8 << 20;
    uint8_t *big = calloc(1, n);
    struct outcome o = {0};
    cleanup(pair_close) struct pair p = {.r = {.answer = ANSWER_AT_HEAD, .reply = {.status = 413}}};
    pair_open(&p, HTTP_VERSION_2);
    post(&p, bytes_of(big, n), &o);
    pair_run(&p);
    ck_assert_int_eq(o.result, HTTP_CALL_DONE);
    ck_assert_uint_eq(o.status, 413);
    ck_assert_uint_eq(p.r.n_body + p.r.n_end, 0);
    ck_assert_uint_eq(p.r.n_close, 1);
    free(big);
    struct outcome again = {0};
    ck_assert(http_client_is_ready(p.c));
    post(&p, BYTES_LIT("small"), &again);
    pair_run(&p);
    ck_assert_uint_eq(again.status, 413);
}

UNIT(a_cancelled_call_is_gone_on_both_sides)
{
    struct outcome o = {0}, other = {0};
    cleanup(pair_close) struct pair p = {.r = {.answer = ANSWER_LATER}};
    pair_open(&p, HTTP_VERSION_2);
    struct http_call *unsent = unit_made(post(&p, BYTES_LIT("q"), &o));
    http_client_cancel(p.c, unsent);
    pair_run(&p);
    ck_assert_uint_eq(p.r.n_head, 0);
    uint8_t *body = calloc(1, 4 << 20);
    const int told = o.n;
    struct http_call *half = unit_made(post(&p, bytes_of(body, 4 << 20), &o));
    struct buffer b = BUFFER_INIT(0);
    http_client_drain(p.c, &b, 20000);
    ck_assert_int_eq(o.n, told); /* still ours to cancel */
    http_client_cancel(p.c, half);
    free(body); /* what is cancelled is not read from any more */
    ck_assert_int_eq(http_session_feed(p.s, buffer_bytes(&b), SEC), 0);
    buffer_release(&b);
    pair_run(&p);
    ck_assert_uint_eq(p.r.n_head, 1);
    ck_assert_uint_eq(p.r.n_close, 1);
    post(&p, BYTES_LIT("q"), &other);
    pair_run(&p);
    http_reply(unit_made(p.r.last), &p.r.reply);
    pair_run(&p);
    ck_assert_int_eq(other.result, HTTP_CALL_DONE);
    ck_assert_int_eq(o.n, 0);
}

UNIT(shutdown_takes_what_was_under_way_and_then_ends)
{
    struct outcome o = {0};
    cleanup(pair_close) struct pair p = {.r = {.answer = ANSWER_LATER}};
    pair_open(&p, HTTP_VERSION_2);
    post(&p, BYTES_LIT("q"), &o);
    pair_run(&p);
    http_session_shutdown(p.s);
    pair_run(&p); /* notice, ping, answer, last GOAWAY */
    ck_assert(!http_client_is_ready(p.c));
    ck_assert(!http_session_is_done(p.s));
    http_reply(unit_made(p.r.last), &p.r.reply);
    ck_assert_uint_eq(p.r.n_late, 1);
    pair_run(&p);
    ck_assert_int_eq(o.result, HTTP_CALL_DONE);
    ck_assert(http_session_is_done(p.s));
    ck_assert(http_client_is_done(p.c));
}

UNIT(shutdown_does_not_wait_for_a_peer_that_answers_no_ping)
{
    cleanup(pair_close) struct pair p = {0};
    cleanup(buffer_release) struct buffer b = BUFFER_INIT(0);
    pair_open(&p, HTTP_VERSION_2);
    pair_run(&p);
    http_session_shutdown(p.s);
    drain_all(p.s, &b);
    ck_assert(!http_session_is_done(p.s));
    http_session_tick(p.s, http_session_deadline(p.s));
    drain_all(p.s, &b);
    ck_assert(http_session_is_done(p.s));
}

UNIT(calls_of_a_broken_connection_are_told)
{
    for (int version = 1; version <= 2; version++) {
        struct outcome o = {0};
        cleanup(pair_close) struct pair p = {.r = {.answer = ANSWER_LATER}};
        pair_open(&p, version);
        post(&p, BYTES_LIT("q"), &o);
        pair_run(&p);
        http_client_feed_eof(p.c);
        ck_assert_int_eq(o.n, 1);
        ck_assert_int_eq(o.result, HTTP_CALL_BROKEN);
        ck_assert(!http_client_is_ready(p.c));
    }
}

/* Which need not end the connection: the call does not wait for that. */
UNIT(another_protocol_ends_the_call_at_once)
{
    static const struct bytes strangers[] = {
        BYTES_LIT("HTTP/1.1 400 Bad Request\r\n\r\n"), BYTES_LIT("SSH-2.0-OpenSSH\r\n"),
        BYTES_LIT("\x15\x03\x03\x00\x02\x02\x46"), /* a TLS alert */
        BYTES_LIT("\0\0\4\6\0\0\0\0\0"),           /* a PING first */
    };
    for (size_t i = 0; i < ARRAY_LEN(strangers); i++)
        for (size_t step = 1; step <= 4; step += 3) {
            struct outcome o = {0};
            cleanup(pair_close) struct pair p = {.r = {.answer = ANSWER_LATER}};
            pair_open(&p, HTTP_VERSION_2);
            post(&p, BYTES_LIT("q"), &o);
            int r = 0;
            for (size_t at = 0; at < strangers[i].n && r == 0; at += step)
                r = http_client_feed(p.c, bytes_of(strangers[i].p + at, min_of(step, strangers[i].n - at)));
            ck_assert_int_eq(r, -EPROTO);
            ck_assert_int_eq(o.n, 1);
            ck_assert_int_eq(o.result, HTTP_CALL_NOT_HTTP);
            ck_assert(!http_client_is_ready(p.c));
        }
}

UNIT(a_response_too_large_is_not_held)
{
    autofree uint8_t *big = calloc(1, 9 << 20);
    for (int version = 1; version <= 2; version++) {
        struct outcome o = {0};
        cleanup(pair_close) struct pair p = {.r = {.reply = {.status = 200, .body = {big, 9 << 20}}}};
        pair_open(&p, version);
        post(&p, BYTES_LIT("q"), &o);
        if (version == 2) {
            pair_run(&p);
        } else {
            struct buffer b = BUFFER_INIT(0);
            http_client_drain(p.c, &b, 1 << 20);
            http_session_feed(p.s, buffer_bytes(&b), SEC);
            b.n = 0;
            drain_all(p.s, &b);
            http_client_feed(p.c, buffer_bytes(&b));
            buffer_release(&b);
            ck_assert(http_client_is_done(p.c));
        }
        ck_assert_int_eq(o.n, 1);
        ck_assert_int_eq(o.result, HTTP_CALL_TOO_LARGE);
    }
}

UNIT(a_header_list_over_the_limit_is_431)
{
    static char long_value[20000];
    memset(long_value, 'v', sizeof long_value - 1);
    struct http_header h = {BYTES_LIT("x"), {(uint8_t *)long_value, sizeof long_value - 1}};
    struct outcome o = {0};
    cleanup(pair_close) struct pair p = {0};
    pair_open(&p, HTTP_VERSION_2);
    struct http_request q = {
        .method = "GET", .scheme = "http", .authority = "h", .path = "/", .headers = &h, .n_headers = 1};
    ck_assert_ptr_nonnull(http_client_call(p.c, &q, on_done, &o));
    pair_run(&p);
    ck_assert_int_eq(o.result, HTTP_CALL_DONE);
    ck_assert_uint_eq(o.status, 431);
    ck_assert_uint_eq(p.r.n_head, 0);
}

UNIT(bodies_are_drained_from_where_they_are)
{
    static const size_t sizes[] = {1, 1000, 5000, 300000}; /* small ones are copied */
    static uint8_t body[300005];
    for (size_t i = 0; i < sizeof body; i++)
        body[i] = (uint8_t)(i * 7 + i / 1000);
    for (int version = 1; version <= 2; version++)
        for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
            struct outcome o = {0};
            cleanup(pair_close) struct pair p = {.in_place = true, .r = {.reply = {.status = 200}}};
            pair_open(&p, version);
            post_behind(&p, bytes_of(body, 5), bytes_of(body + 5, sizes[i]), &o);
            pair_run(&p);
            ck_assert_int_eq(o.result, HTTP_CALL_DONE);
            ck_assert_uint_eq(p.r.body_sum, body_sum(body, 5 + sizes[i]));
            post(&p, bytes_of(body + 5, sizes[i]), &o);
            cleanup(buffer_release) struct buffer b = BUFFER_INIT(0);
            ck_assert_int_eq(drain_in_place(p.c, &b, 40000) > 0, sizes[i] >= 5000);
            ck_assert_uint_le(b.n, 40000 + (17 << 10));
        }
}

static void on_done_overwrite(void *user, enum http_call_result result, const struct http_response *response)
{
    (void)response;
    ck_assert_int_eq(result, HTTP_CALL_RESET);
    memset(user, 'X', 1 << 20); /* it is the caller's again */
}

/* A frame that was half drained goes out before the reset that ends its call. */
UNIT(a_body_that_goes_while_it_is_drained_was_copied)
{
    struct http_client *c = unit_made(http_client_new(HTTP_VERSION_2, 1 << 20));
    autofree uint8_t *body = unit_made(malloc(1 << 20));
    struct buffer b = BUFFER_INIT(0), from = BUFFER_INIT(0);
    memset(body, 'b', 1 << 20);
    struct http_request q = {
        .method = "POST", .scheme = "http", .authority = "h:1", .path = "/", .body = bytes_of(body, 1 << 20)};
    ck_assert_ptr_nonnull(http_client_call(c, &q, on_done_overwrite, body));
    ck_assert_uint_eq(drain_in_place(c, &b, 20000), 2);
    frame(&from, 4, 0, 0, bytes_of(NULL, 0));
    frame(&from, 1, 4, 1, BYTES_LIT("\x40\x01\x61\x01\x62")); /* no :status, RFC 9113 §8.3.2 */
    ck_assert_int_eq(http_client_feed(c, buffer_bytes(&from)), 0);
    b.n = 0;
    drain_in_place(c, &b, 40000);
    ck_assert_int_eq(body[0], 'X');
    size_t data = 0;
    uint32_t error;
    for (size_t at = 0; at + 9 <= b.n;) {
        const size_t n = (size_t)b.p[at] << 16 | (size_t)b.p[at + 1] << 8 | b.p[at + 2];
        for (size_t i = 0; b.p[at + 3] == 0 && i < n; i++, data++)
            ck_assert_int_eq(b.p[at + 9 + i], 'b');
        at += 9 + n;
    }
    ck_assert_uint_gt(data, 0);
    ck_assert(find_frame(&b, 3, &error));
    ck_assert_uint_eq(error, NGHTTP2_PROTOCOL_ERROR);
    buffer_release(&b);
    buffer_release(&from);
    http_client_free(c);
}

UNIT(silent_bodies_and_idle_connections_end)
{
    struct http_server_limits l = HTTP_SERVER_LIMITS_DEFAULT;
    struct outcome o = {0};
    cleanup(pair_close) struct pair p = {0};
    pair_open(&p, HTTP_VERSION_2);
    autofree uint8_t *body = calloc(1, 4 << 20);
    post(&p, bytes_of(body, 4 << 20), &o);
    cleanup(buffer_release) struct buffer b = BUFFER_INIT(0);
    http_client_drain(p.c, &b, 20000); /* a part, then nothing */
    http_session_feed(p.s, buffer_bytes(&b), 5 * SEC);
    ck_assert_uint_eq(p.r.n_head, 1);
    ck_assert_uint_eq(http_session_deadline(p.s), 5 * SEC + l.body_ns);
    http_session_tick(p.s, 5 * SEC + l.body_ns - 1);
    b.n = 0;
    drain_all(p.s, &b);
    ck_assert_uint_eq(p.r.n_close, 0);
    http_session_tick(p.s, 5 * SEC + l.body_ns);
    drain_all(p.s, &b);
    ck_assert_uint_eq(p.r.n_close, 1);
    http_client_feed(p.c, buffer_bytes(&b));
    ck_assert_int_eq(o.result, HTTP_CALL_RESET);
    ck_assert_uint_eq(o.status, NGHTTP2_CANCEL);
    ck_assert_uint_eq(http_session_deadline(p.s), 5 * SEC + l.body_ns + l.idle_ns);
    http_session_tick(p.s, 5 * SEC + l.body_ns + l.idle_ns);
    b.n = 0;
    drain_all(p.s, &b);
    ck_assert_uint_gt(b.n, 0);
    ck_assert(http_session_is_done(p.s));
}

/* ---- a peer that vanished ---- */

#define PING_FRAME 6

/* A session with one request that is not answered yet. */
static struct http_session *waiting_session(struct recorder *r, struct buffer *in, struct buffer *out)
{
    struct http_session *s = recorder_session(r, NULL);
    preface(in);
    frame(in, 1, 5, 1, POST_HEAD);
    ck_assert_int_eq(http_session_feed(s, buffer_bytes(in), 5 * SEC), 0);
    drain_all(s, out);
    ck_assert_uint_eq(r->n_head, 1);
    out->n = 0;
    return s;
}

static void tick_until(struct http_session *s, uint64_t until)
{
    for (uint64_t at; (at = http_session_deadline(s)) <= until;)
        http_session_tick(s, at);
}

UNIT(a_peer_with_open_requests_that_vanished_is_asked_and_then_given_up)
{
    const struct http_server_limits l = HTTP_SERVER_LIMITS_DEFAULT;
    struct recorder r = {.answer = ANSWER_LATER};
    cleanup(buffer_release) struct buffer in = BUFFER_INIT(0), out = BUFFER_INIT(0);
    struct http_session *s = waiting_session(&r, &in, &out);
    uint32_t code;
    tick_until(s, 5 * SEC + l.ping_ns - 1);
    drain_all(s, &out);
    ck_assert(!find_frame(&out, PING_FRAME, &code));
    tick_until(s, 5 * SEC + l.ping_ns);
    drain_all(s, &out);
    ck_assert(find_frame(&out, PING_FRAME, &code));
    out.n = 0;
    tick_until(s, 5 * SEC + l.ping_ns + l.ping_answer_ns - 1);
    drain_all(s, &out);
    ck_assert_uint_eq(out.n, 0);
    ck_assert(!http_session_is_done(s));
    tick_until(s, 5 * SEC + l.ping_ns + l.ping_answer_ns);
    drain_all(s, &out);
    ck_assert(http_session_is_done(s));
    http_session_free(s);
    ck_assert_uint_eq(r.n_close, 1);
}

UNIT(a_peer_that_answers_is_asked_again_much_later_and_may_wait_for_ever)
{
    const struct http_server_limits l = HTTP_SERVER_LIMITS_DEFAULT;
    struct recorder r = {.answer = ANSWER_LATER};
    cleanup(buffer_release) struct buffer in = BUFFER_INIT(0), out = BUFFER_INIT(0);
    struct http_session *s = waiting_session(&r, &in, &out);
    uint64_t heard = 5 * SEC;
    uint32_t code;
    for (int i = 0; i < 10; i++) {
        tick_until(s, heard + l.ping_ns + 19 * SEC);
        out.n = 0;
        drain_all(s, &out);
        ck_assert(find_frame(&out, PING_FRAME, &code));
        in.n = 0;
        frame(&in, PING_FRAME, 1, 0, BYTES_LIT("hello?\0\0"));
        heard += l.ping_ns + 19 * SEC;
        ck_assert_int_eq(http_session_feed(s, buffer_bytes(&in), heard), 0);
        ck_assert(!http_session_is_done(s));
    }
    ck_assert_uint_eq(r.n_close, 0);
    http_session_free(s);
}

/* ---- raw frames, for what a well-behaved client would not send ---- */

UNIT(rapid_resets_end_the_connection)
{
    struct recorder r = {.answer = ANSWER_LATER};
    struct http_session *s = recorder_session(&r, NULL);
    cleanup(buffer_release) struct buffer in = BUFFER_INIT(0), out = BUFFER_INIT(0);
    uint32_t error = 0;
    preface(&in);
    for (uint32_t i = 0; i < 300; i++) {
        frame(&in, 1, 4, 2 * i + 1, POST_HEAD);
        frame(&in, 3, 0, 2 * i + 1, BYTES_LIT("\0\0\0\x8"));
    }
    http_session_feed(s, buffer_bytes(&in), SEC);
    drain_all(s, &out);
    ck_assert(find_frame(&out, 7, &error));
    ck_assert_uint_eq(error, NGHTTP2_ENHANCE_YOUR_CALM);
    ck_assert(http_session_is_done(s));
    ck_assert_uint_ge(r.n_head, 150);
    ck_assert_uint_lt(r.n_head, 250);
    http_session_free(s);
    ck_assert_uint_eq(r.n_head, r.n_close);
}

UNIT(resets_now_and_then_do_not)
{
    struct recorder r = {.answer = ANSWER_LATER};
    struct http_session *s = recorder_session(&r, NULL);
    cleanup(buffer_release) struct buffer in = BUFFER_INIT(0), out = BUFFER_INIT(0);
    preface(&in);
    for (uint32_t i = 0; i < 300; i++) {
        frame(&in, 1, 4, 2 * i + 1, POST_HEAD);
        frame(&in, 3, 0, 2 * i + 1, BYTES_LIT("\0\0\0\x8"));
        http_session_feed(s, buffer_bytes(&in), SEC + i * (SEC / 50));
        drain_all(s, &out);
        in.n = 0;
    }
    ck_assert(!http_session_is_done(s));
    ck_assert_uint_eq(r.n_head, 300);
    http_session_free(s);
}

UNIT(floods_of_control_frames_end_the_connection)
{
    for (int kind = 0; kind < 2; kind++) {
        struct recorder r = {0};
        struct http_session *s = recorder_session(&r, NULL);
        cleanup(buffer_release) struct buffer in = BUFFER_INIT(0);
        preface(&in);
        for (int i = 0; i < 1000; i++)
            frame(&in, kind ? 4 : 6, 0, 0, kind ? bytes_of(NULL, 0) : BYTES_LIT("12345678"));
        ck_assert_int_lt(http_session_feed(s, buffer_bytes(&in), SEC), 0);
        ck_assert(http_session_is_done(s));
        http_session_free(s);
    }
}

UNIT(endless_continuations_end_the_connection)
{
    for (int kind = 0; kind < 2; kind++) { /* empty ones, and ones with fields */
        struct recorder r = {0};
        struct http_session *s = recorder_session(&r, NULL);
        cleanup(buffer_release) struct buffer in = BUFFER_INIT(0), out = BUFFER_INIT(0);
        int e = 0;
        preface(&in);
        frame(&in, 1, 1, 1, POST_HEAD);
        for (int i = 0; i < 5000; i++)
            frame(&in, 9, 0, 1, kind ? BYTES_LIT("\x0f\x21\x01x") : bytes_of(NULL, 0));
        e = http_session_feed(s, buffer_bytes(&in), SEC);
        drain_all(s, &out);
        ck_assert_msg(e < 0 || http_session_is_done(s), "kind %d", kind);
        ck_assert_uint_eq(r.n_head, 0);
        http_session_free(s);
    }
}

UNIT(a_header_block_that_never_ends_runs_out_of_time)
{
    struct http_server_limits l = HTTP_SERVER_LIMITS_DEFAULT;
    struct recorder r = {0};
    struct http_session *s = recorder_session(&r, NULL);
    cleanup(buffer_release) struct buffer in = BUFFER_INIT(0), out = BUFFER_INIT(0);
    preface(&in);
    frame(&in, 1, 1, 1, POST_HEAD);
    ck_assert_int_eq(http_session_feed(s, buffer_bytes(&in), SEC), 0);
    ck_assert_uint_eq(http_session_deadline(s), SEC + l.head_ns);
    http_session_tick(s, SEC + l.head_ns);
    drain_all(s, &out);
    ck_assert(http_session_is_done(s));
    http_session_free(s);
}

UNIT(malformed_requests_are_reset)
{
    const struct bytes heads[] = {
        BYTES_LIT("\x83\x86\x01\x01h"),                   /* no :path */
        BYTES_LIT("\x83\x86\x84\x01\x01h\x40\x01X\x01y"), /* upper case */
        BYTES_LIT("\x83\x86\x84\x01\x01h\x40\x0a"
                  "connection"
                  "\x05"
                  "close"),
        BYTES_LIT("\x83\x86\x84\x01\x01h\x83"), /* :method twice */
    };
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        struct recorder r = {0};
        struct http_session *s = recorder_session(&r, NULL);
        cleanup(buffer_release) struct buffer in = BUFFER_INIT(0), out = BUFFER_INIT(0);
        uint32_t error = 0;
        preface(&in);
        frame(&in, 1, 5, 1, heads[i]);
        ck_assert_int_eq(http_session_feed(s, buffer_bytes(&in), SEC), 0);
        drain_all(s, &out);
        ck_assert_msg(find_frame(&out, 3, &error), "head %zu", i);
        ck_assert_uint_eq(error, NGHTTP2_PROTOCOL_ERROR);
        ck_assert_uint_eq(r.n_head, 0);
        http_session_free(s);
    }
}

UNIT(a_half_closed_connection_gets_its_answers_and_ends)
{
    struct recorder r = {.answer = ANSWER_LATER};
    struct http_session *s = recorder_session(&r, NULL);
    cleanup(buffer_release) struct buffer in = BUFFER_INIT(0), out = BUFFER_INIT(0);
    preface(&in);
    frame(&in, 1, 5, 1, POST_HEAD); /* complete */
    frame(&in, 1, 4, 3, POST_HEAD); /* not */
    http_session_feed(s, buffer_bytes(&in), SEC);
    struct http_exchange *half = r.last;
    http_session_feed_eof(s);
    drain_all(s, &out);
    ck_assert_uint_eq(r.n_head, 2);
    ck_assert_uint_eq(r.n_close, 1);
    ck_assert_ptr_ne(r.last, half);
    ck_assert(!http_session_is_done(s));
    http_session_free(s);
}

UNIT(a_slow_body_is_answered_by_the_handler)
{
    struct http_server_limits l = HTTP_SERVER_LIMITS_DEFAULT;
    for (int dribbles = 0; dribbles < 2; dribbles++) {
        struct outcome o = {0};
        cleanup(pair_close) struct pair p = {.r = {.answer = ANSWER_WHEN_SLOW, .reply.status = 503}};
        pair_open(&p, HTTP_VERSION_2);
        autofree uint8_t *body = calloc(1, 4 << 20);
        post(&p, bytes_of(body, 4 << 20), &o);
        cleanup(buffer_release) struct buffer b = BUFFER_INIT(0), back = BUFFER_INIT(0);
        uint64_t t = 5 * SEC, until = t + l.request_ns + 2 * l.body_ns;
        http_client_drain(p.c, &b, 20000);
        http_session_feed(p.s, buffer_bytes(&b), t);
        for (; p.r.n_close == 0 && t < until; t += SEC) {
            b.n = 0;
            if (dribbles) /* never silent */
                http_client_drain(p.c, &b, 1);
            http_session_feed(p.s, buffer_bytes(&b), t);
            http_session_tick(p.s, t);
            drain_all(p.s, &back);
        }
        ck_assert_uint_eq(p.r.n_close, 1); /* the stream is reset after its answer */
        http_client_feed(p.c, buffer_bytes(&back));
        ck_assert_int_eq(o.result, HTTP_CALL_DONE);
        ck_assert_uint_eq(o.status, 503);
    }
}
