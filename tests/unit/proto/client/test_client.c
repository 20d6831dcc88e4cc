/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include <errno.h>
#include <pthread.h>
#include <unistd.h>

#include "proto/base/base64.h"
#include "proto/client/client.h"
#include "proto/coding/coding.h"
#include "proto/grpc/status.h"
#include "tests/unit/proto/client/fake_server.h"

struct world {
    struct io_loop *loop;
    struct fake_server server;
    struct client_options options;
    struct client *client;
    uint64_t n[CLIENT_SHUT_DOWN + 1], items[CLIENT_SHUT_DOWN + 1], rejected, attempts;
    char last[ERROR_TEXT_MAX]; /* message of the last event that had one */
    bool done;
    int tag; /* the test's own */
    char endpoint[80];
};

static void on_event(void *user, const struct client_event *event)
{
    struct world *w = user;
    w->n[event->kind] += event->requests;
    w->items[event->kind] += event->items;
    w->rejected += event->rejected;
    if (event->attempts)
        w->attempts = event->attempts;
    if (event->message && event->message[0])
        snprintf(w->last, sizeof w->last, "%s", event->message);
}

static struct world *world_new(void (*answer)(struct fake_server *, struct http_exchange *, struct bytes))
{
    struct world *w = calloc(1, sizeof *w);
    w->loop = unit_made(io_loop_new());
    w->server.answer = answer;
    w->server.user = w;
    fake_start(&w->server, w->loop, 0);
    w->options = (struct client_options)CLIENT_DEFAULT;
    w->options.compression = CLIENT_COMPRESS_NONE;
    w->options.retry.initial_interval_ns = 20 * NSEC_PER_MSEC;
    w->options.retry.max_interval_ns = 40 * NSEC_PER_MSEC;
    snprintf(w->endpoint, sizeof w->endpoint, "%s", w->server.address);
    w->options.endpoint = w->endpoint;
    return w;
}

static void begin(struct world *w)
{
    struct error e = {""};
    ck_assert_msg(client_new(&w->client, w->loop, &w->options, on_event, w, &e) == 0, "%s", e.text);
}

#define UNTIL(w, condition)                                                                           \
    do {                                                                                              \
        uint64_t until_ = clock_monotonic() + unit_patience(10 * (uint64_t)NSEC_PER_SEC);             \
        while (!(condition)) {                                                                        \
            ck_assert_msg(clock_monotonic() < until_, "never: %s (last: %s)", #condition, (w)->last); \
            io_loop_run_once((w)->loop, 50 * NSEC_PER_MSEC);                                          \
        }                                                                                             \
    } while (0)

static void push(struct world *w, const char *text, uint64_t items)
{
    struct client_body *body = unit_made(client_body_new((uint8_t *)strdup(text), strlen(text)));
    ck_assert(send_queue_reserve(client_queue(w->client), 100));
    send_queue_offer(client_queue(w->client), body, 100, items);
    client_body_unref(body);
}

static void on_done(void *user)
{
    ((struct world *)user)->done = true;
}

static void world_end(struct world *w, uint64_t within_ns)
{
    client_shutdown(w->client, clock_monotonic() + within_ns, on_done, w);
    ck_assert(!w->done);
    UNTIL(w, w->done);
    ck_assert_uint_eq(send_queue_bytes(client_queue(w->client)), 0);
    client_free(w->client);
    if (w->server.listener || w->server.links)
        fake_stop(&w->server);
    tls_context_free(w->server.tls);
    io_loop_free(w->loop);
    free(w);
}

static void check_hello(struct fake_server *s, struct http_exchange *x, struct bytes body)
{
    ck_assert_int_eq(x->version, HTTP_VERSION_2);
    ck_assert(bytes_is(x->method, "POST"));
    ck_assert(
        bytes_is(x->path, "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export"));
    ck_assert(bytes_is(http_header_find(x->headers, x->n_headers, "te"), "trailers"));
    ck_assert(http_header_find(x->headers, x->n_headers, "grpc-timeout").n > 1);
    ck_assert(bytes_eq(body, BYTES_LIT("\0\0\0\0\5hello")));
    fake_grpc_ok(x);
}

UNIT(grpc_ok)
{
    struct world *w = world_new(check_hello);
    begin(w);
    push(w, "hello", 7);
    ck_assert_uint_eq(send_queue_bytes(client_queue(w->client)), 5);
    UNTIL(w, w->n[CLIENT_SENT] == 1);
    ck_assert_uint_eq(w->items[CLIENT_SENT], 7);
    push(w, "hello", 7);
    UNTIL(w, w->n[CLIENT_SENT] == 2);
    ck_assert_uint_eq(w->server.connections, 1); /* kept alive */
    world_end(w, NSEC_PER_SEC);
}

static void check_gzip(struct fake_server *s, struct http_exchange *x, struct bytes body)
{
    bool grpc = x->version == HTTP_VERSION_2;
    struct buffer plain = BUFFER_INIT(0);
    struct coding_decoder *decoder = unit_made(coding_decoder_new());
    ck_assert(bytes_is(
        http_header_find(x->headers, x->n_headers, grpc ? "grpc-encoding" : "content-encoding"), "gzip"));
    if (grpc) {
        ck_assert_uint_eq(body.p[0], 1);
        body = bytes_of(body.p + 5, body.n - 5);
    }
    ck_assert_int_eq(coding_decode(decoder, CODING_GZIP, body, 1000, 0, NULL, &plain), 0);
    ck_assert(bytes_is(buffer_bytes(&plain), "hello"));
    coding_decoder_free(decoder);
    buffer_release(&plain);
    fake_answer_ok(s, x, body);
}

UNIT(gzip)
{
    for (int protocol = OTLP_GRPC; protocol <= OTLP_HTTP; protocol++) {
        struct world *w = world_new(check_gzip);
        w->options.compression = CLIENT_COMPRESS_GZIP;
        w->options.protocol = (enum otlp_protocol)protocol;
        begin(w);
        push(w, "hello", 1);
        push(w, "hello", 1);
        UNTIL(w, w->n[CLIENT_SENT] == 2);
        world_end(w, NSEC_PER_SEC);
    }
}

#define AS_IT_CAME "\x1f\x8b these bytes are gzip because the body says so"

/* The coding and the message of a request. */
static void split_call(const struct http_exchange *x, struct bytes *body, struct bytes *coding)
{
    bool grpc = x->version == HTTP_VERSION_2;
    *coding = http_header_find(x->headers, x->n_headers, grpc ? "grpc-encoding" : "content-encoding");
    if (!grpc)
        return;
    ck_assert_uint_eq(body->p[0], coding->n > 0);
    ck_assert_uint_eq(body->p[4], body->n - 5);
    *body = bytes_of(body->p + 5, body->n - 5);
}

static void later_then_ok_as_it_came(struct fake_server *s, struct http_exchange *x, struct bytes body)
{
    struct bytes coding;
    split_call(x, &body, &coding);
    ck_assert(bytes_is(coding, "zstd"));
    ck_assert(bytes_is(body, AS_IT_CAME));
    if (s->requests > 1)
        fake_answer_ok(s, x, body);
    else if (x->version == HTTP_VERSION_2)
        fake_grpc(x, "14", (struct bytes){0}, NULL);
    else
        fake_http(x, 503, "text/plain", (struct bytes){0});
}

static struct client_body *as_it_came(size_t n_plain, enum coding coding)
{
    return unit_made(
        client_body_received((uint8_t *)strdup(AS_IT_CAME), sizeof AS_IT_CAME - 1, coding, n_plain, coding));
}

/* With every attempt the same bytes, from where they are; the queue holds them, and not what they become. */
UNIT(what_is_in_the_wanted_coding_is_sent_as_it_is)
{
    static const enum client_compression compressions[] = {CLIENT_COMPRESS_ZSTD, CLIENT_COMPRESS_AS_RECEIVED};
    for (int protocol = OTLP_GRPC; protocol <= OTLP_HTTP; protocol++)
        for (size_t i = 0; i < ARRAY_LEN(compressions); i++) {
            struct world *w = world_new(later_then_ok_as_it_came);
            w->options.compression = compressions[i];
            w->options.protocol = (enum otlp_protocol)protocol;
            w->options.max_request_bytes = 1000;
            begin(w);
            struct client_body *body = as_it_came(1000, CODING_ZSTD), *large = as_it_came(1001, CODING_ZSTD);
            ck_assert(send_queue_reserve(client_queue(w->client), 1000));
            send_queue_offer(client_queue(w->client), body, 1000, 1);
            ck_assert_uint_eq(send_queue_bytes(client_queue(w->client)), body->n);
            ck_assert(send_queue_reserve(client_queue(w->client), 1000));
            send_queue_offer(client_queue(w->client), large, 1000, 1); /* the limit is one of plain bytes */
            UNTIL(w, w->n[CLIENT_SENT] == 1 && w->n[CLIENT_TOO_LARGE] == 1);
            ck_assert_uint_eq(w->n[CLIENT_RETRIED], 1);
            client_body_unref(body);
            client_body_unref(large);
            world_end(w, NSEC_PER_SEC);
        }
}

static void check_coding(struct fake_server *s, struct http_exchange *x, struct bytes body)
{
    const struct world *w = s->user;
    struct buffer plain = BUFFER_INIT(0);
    struct coding_decoder *decoder = unit_made(coding_decoder_new());
    struct bytes coding;
    split_call(x, &body, &coding);
    enum coding c = coding_parse(coding);
    ck_assert_int_eq(c, client_coding(w->client, (enum coding)w->tag));
    ck_assert_int_eq(coding_decode(decoder, c, body, 1000, 0, NULL, &plain), 0);
    ck_assert(bytes_is(buffer_bytes(&plain), "hello"));
    coding_decoder_free(decoder);
    buffer_release(&plain);
    fake_answer_ok(s, x, body);
}

/* What was built anew of a request leaves in the coding the request came in; one slot makes them all. */
UNIT(plain_bytes_go_in_the_coding_they_were_received_in)
{
    for (int protocol = OTLP_GRPC; protocol <= OTLP_HTTP; protocol++) {
        struct world *w = world_new(check_coding);
        w->options.compression = CLIENT_COMPRESS_AS_RECEIVED;
        w->options.compression_level = 1;
        w->options.queue.num_consumers = 1;
        w->options.protocol = (enum otlp_protocol)protocol;
        begin(w);
        for (int c = CODING_IDENTITY; c <= CODING_UNKNOWN; c++) {
            struct client_body *body = unit_made(
                client_body_received((uint8_t *)strdup("hello"), 5, CODING_IDENTITY, 5, (enum coding)c));
            w->tag = c;
            ck_assert(send_queue_reserve(client_queue(w->client), 5));
            send_queue_offer(client_queue(w->client), body, 5, 1);
            client_body_unref(body);
            UNTIL(w, w->n[CLIENT_SENT] == (unsigned)c + 1);
        }
        world_end(w, NSEC_PER_SEC);
    }
}

static void check_http(struct fake_server *s, struct http_exchange *x, struct bytes body)
{
    ck_assert_int_eq(x->version, HTTP_VERSION_1);
    ck_assert(bytes_is(x->path, "/v1/metrics"));
    ck_assert(bytes_is(body, "hello"));
    fake_answer_ok(s, x, body);
}

UNIT(http_keeps_its_connection)
{
    struct world *w = world_new(check_http);
    w->options.protocol = OTLP_HTTP;
    w->options.signal = OTLP_METRICS;
    w->options.queue.num_consumers = 1;
    begin(w);
    for (int i = 0; i < 5; i++)
        push(w, "hello", 1);
    UNTIL(w, w->n[CLIENT_SENT] == 5);
    ck_assert_uint_eq(w->server.connections, 1);
    world_end(w, NSEC_PER_SEC);
}

static void answer_partial(struct fake_server *s, struct http_exchange *x, struct bytes body)
{
    fake_grpc(x, "0", BYTES_LIT("\0\0\0\0\x08\x0a\x06\x08\x07\x12\x02no"), NULL);
}

UNIT(partial_success_is_not_repeated)
{
    struct world *w = world_new(answer_partial);
    begin(w);
    push(w, "x", 10);
    UNTIL(w, w->n[CLIENT_PARTIAL] == 1);
    ck_assert_uint_eq(w->rejected, 7);
    ck_assert_ptr_nonnull(strstr(w->last, "no"));
    world_end(w, NSEC_PER_SEC);
}

static void answer_unavailable_once(struct fake_server *s, struct http_exchange *x, struct bytes body)
{
    if (s->requests > 1) {
        fake_grpc_ok(x);
        return;
    }
    cleanup(buffer_release) struct buffer status = BUFFER_INIT(0), text = BUFFER_INIT(0);
    struct grpc_status info = {.code = 14, .has_retry = true, .retry_ns = 100 * NSEC_PER_MSEC};
    grpc_status_encode(&info, &status);
    base64_encode(buffer_bytes(&status), false, &text);
    ck_assert_int_eq(buffer_add(&text, "", 1), 0);
    fake_grpc(x, "14", bytes_of(NULL, 0), (char *)text.p);
}

UNIT(unavailable_with_retry_info_then_ok)
{
    struct world *w = world_new(answer_unavailable_once);
    begin(w);
    uint64_t began = clock_monotonic();
    push(w, "x", 1);
    UNTIL(w, w->n[CLIENT_RETRIED] == 1);
    push(w, "y", 1); /* the peer asked for quiet: this one waits too */
    UNTIL(w, w->n[CLIENT_SENT] == 2);
    ck_assert_uint_ge(clock_monotonic() - began, 100 * NSEC_PER_MSEC);
    ck_assert_uint_eq(w->server.requests, 3);
    world_end(w, NSEC_PER_SEC);
}

static void answer_invalid(struct fake_server *s, struct http_exchange *x, struct bytes body)
{
    fake_grpc(x, "3", bytes_of(NULL, 0), NULL);
}

UNIT(invalid_argument_is_dropped)
{
    struct world *w = world_new(answer_invalid);
    begin(w);
    push(w, "x", 9);
    UNTIL(w, w->n[CLIENT_REFUSED] == 1);
    ck_assert_uint_eq(w->items[CLIENT_REFUSED], 9);
    ck_assert_uint_eq(w->server.requests, 1);
    ck_assert_ptr_nonnull(strstr(w->last, "INVALID_ARGUMENT"));
    world_end(w, NSEC_PER_SEC);
}

static void answer_html(struct fake_server *s, struct http_exchange *x, struct bytes body)
{
    fake_http(x, 200, "text/html", BYTES_LIT("<html>hello</html>"));
}

UNIT(a_web_page_is_no_acknowledgement)
{
    struct world *w = world_new(answer_html);
    w->options.protocol = OTLP_HTTP;
    begin(w);
    push(w, "x", 1);
    UNTIL(w, w->n[CLIENT_REFUSED] == 1);
    ck_assert_ptr_nonnull(strstr(w->last, "text/html"));
    world_end(w, NSEC_PER_SEC);
}

UNIT(connection_refused_then_back)
{
    struct world *w = world_new(fake_answer_ok);
    uint16_t port = w->server.port;
    fake_stop(&w->server);
    begin(w);
    push(w, "x", 1);
    UNTIL(w, w->n[CLIENT_RETRIED] >= 2);
    ck_assert_ptr_nonnull(strstr(w->last, "efused"));
    fake_start(&w->server, w->loop, port);
    UNTIL(w, w->n[CLIENT_SENT] == 1);
    ck_assert_uint_ge(w->attempts, 3);
    world_end(w, NSEC_PER_SEC);
}

UNIT(out_of_time)
{
    struct world *w = world_new(fake_answer_ok);
    fake_stop(&w->server);
    w->options.retry.max_elapsed_ns = 60 * NSEC_PER_MSEC;
    begin(w);
    push(w, "x", 3);
    UNTIL(w, w->n[CLIENT_OUT_OF_TIME] == 1);
    ck_assert_uint_eq(w->items[CLIENT_OUT_OF_TIME], 3);
    world_end(w, NSEC_PER_SEC);
}

static void answer_late(struct fake_server *s, struct http_exchange *x, struct bytes body)
{
    if (s->requests > 1)
        fake_answer_ok(s, x, body);
    else
        fake_hold(s, x, body);
}

UNIT(deadline_exceeded)
{
    for (int protocol = OTLP_GRPC; protocol <= OTLP_HTTP; protocol++) {
        struct world *w = world_new(answer_late);
        w->options.timeout_ns = NSEC_PER_SEC; /* the name is resolved and the connection made in it, too */
        w->options.protocol = (enum otlp_protocol)protocol;
        begin(w);
        push(w, "x", 1);
        UNTIL(w, w->n[CLIENT_RETRIED] == 1);
        ck_assert_str_eq(w->last, "no answer in time");
        UNTIL(w, w->n[CLIENT_SENT] == 1);
        ck_assert_uint_eq(w->server.requests, 2);
        world_end(w, NSEC_PER_SEC);
    }
}

static void answer_and_go_away(struct fake_server *s, struct http_exchange *x, struct bytes body)
{
    if (s->requests == 1)
        http_session_shutdown(x->session);
    fake_answer_ok(s, x, body);
}

UNIT(goaway_midway_loses_nothing)
{
    for (int protocol = OTLP_GRPC; protocol <= OTLP_HTTP; protocol++) {
        struct world *w = world_new(answer_and_go_away);
        w->options.protocol = (enum otlp_protocol)protocol;
        begin(w);
        for (int i = 0; i < 10; i++)
            push(w, "x", 1);
        UNTIL(w, w->n[CLIENT_SENT] == 10);
        ck_assert_uint_ge(w->server.connections, 2);
        world_end(w, NSEC_PER_SEC);
    }
}

static void drop_first(void *arg)
{
    fake_drop(arg, false);
}

static void answer_after_hanging_up(struct fake_server *s, struct http_exchange *x, struct bytes body)
{
    if (s->requests == 1) /* posted: the session is busy feeding us */
        ck_assert_int_eq(io_loop_post(s->loop, drop_first, x->peer->listener), 0);
    else
        fake_answer_ok(s, x, body);
}

UNIT(hung_up_without_an_answer)
{
    for (int protocol = OTLP_GRPC; protocol <= OTLP_HTTP; protocol++) {
        struct world *w = world_new(answer_after_hanging_up);
        w->options.protocol = (enum otlp_protocol)protocol;
        begin(w);
        push(w, "x", 1);
        UNTIL(w, w->n[CLIENT_SENT] == 1);
        ck_assert_uint_eq(w->n[CLIENT_RETRIED], 1);
        world_end(w, NSEC_PER_SEC);
    }
}

UNIT(so_many_calls_at_a_time)
{
    for (int protocol = OTLP_GRPC; protocol <= OTLP_HTTP; protocol++) {
        struct world *w = world_new(fake_hold);
        w->options.queue.num_consumers = 3;
        w->options.protocol = (enum otlp_protocol)protocol;
        begin(w);
        for (int i = 0; i < 9; i++)
            push(w, "x", 1);
        while (w->n[CLIENT_SENT] < 9) {
            UNTIL(w, w->server.n_held == min_of(3u, 9 - (uint32_t)w->n[CLIENT_SENT]));
            uint64_t before = w->n[CLIENT_SENT];
            fake_answer_ok(&w->server, w->server.held[0], bytes_of(NULL, 0));
            UNTIL(w, w->n[CLIENT_SENT] == before + 1);
        }
        ck_assert_uint_eq(w->server.open_max, 3);
        ck_assert_uint_eq(w->server.connections, protocol == OTLP_GRPC ? 1 : 3);
        world_end(w, NSEC_PER_SEC);
    }
}

UNIT(the_peer_may_allow_fewer_calls)
{
    struct world *w = world_new(fake_answer_ok);
    w->server.streams = 1;
    w->options.queue.num_consumers = 8;
    begin(w);
    for (int i = 0; i < 100; i++)
        push(w, "x", 1);
    UNTIL(w, w->n[CLIENT_SENT] == 100);
    ck_assert_uint_eq(w->server.open_max, 1);
    ck_assert_uint_eq(w->server.connections, 1);
    world_end(w, NSEC_PER_SEC);
}

static void answer_huge(struct fake_server *s, struct http_exchange *x, struct bytes body)
{
    static uint8_t huge[300000];
    fake_http(x, 200, "application/x-protobuf", bytes_of(huge, sizeof huge));
}

UNIT(a_response_above_the_limit_is_final)
{
    struct world *w = world_new(answer_huge);
    w->options.protocol = OTLP_HTTP;
    w->options.max_response_bytes = 1000;
    begin(w);
    push(w, "x", 1);
    UNTIL(w, w->n[CLIENT_REFUSED] == 1);
    ck_assert_ptr_nonnull(strstr(w->last, "larger"));
    world_end(w, NSEC_PER_SEC);
}

/* What arrives is bytes of something else: no crash, no acknowledgement, and the queue goes on. */
static void on_stranger(void *user, struct io_channel *c)
{
    static const char noise[] = "220 mail.example ESMTP\r\n\0\0\0\377\r\n\r\n";
    io_channel_write(c, bytes_of(noise, sizeof noise));
    io_channel_finish(c);
}

UNIT(a_stranger_answers)
{
    for (int protocol = OTLP_GRPC; protocol <= OTLP_HTTP; protocol++) {
        struct world *w = world_new(fake_answer_ok);
        struct io_listener *stranger;
        ck_assert_int_eq(io_listener_new(&stranger, w->loop, "127.0.0.1:0", IO_PORT_ALONE, NULL), 0);
        ck_assert_int_eq(io_listener_start(stranger, on_stranger, w, NULL), 0);
        snprintf(w->endpoint, sizeof w->endpoint, "127.0.0.1:%u", io_listener_port(stranger));
        w->options.protocol = (enum otlp_protocol)protocol;
        w->options.retry.max_elapsed_ns = 100 * NSEC_PER_MSEC;
        begin(w);
        push(w, "x", 4);
        UNTIL(w, w->n[CLIENT_OUT_OF_TIME] == 1);
        ck_assert_uint_eq(w->items[CLIENT_OUT_OF_TIME], 4);
        ck_assert_uint_eq(w->n[CLIENT_SENT], 0);
        io_listener_free(stranger);
        world_end(w, NSEC_PER_SEC);
    }
}

UNIT(a_full_queue_refuses_or_evicts)
{
    struct world *w = world_new(fake_hold);
    w->options.queue.num_consumers = 1;
    w->options.queue.queue_size = 3;
    begin(w);
    push(w, "a", 1);
    push(w, "b", 2);
    push(w, "c", 4);
    ck_assert(!send_queue_reserve(client_queue(w->client), 1));
    UNTIL(w, w->server.n_held == 1);
    ck_assert(!send_queue_reserve(client_queue(w->client), 1)); /* in flight still counts */
    struct client_body *newest = unit_made(client_body_new((uint8_t *)strdup("d"), 1));
    client_push_newest(w->client, newest, 8);
    client_body_unref(newest);
    UNTIL(w, w->n[CLIENT_EVICTED] == 1);
    ck_assert_uint_eq(w->items[CLIENT_EVICTED], 2);
    for (int i = 0; i < 3; i++) {
        UNTIL(w, w->server.n_held == 1);
        fake_grpc_ok(w->server.held[0]);
        UNTIL(w, w->n[CLIENT_SENT] == (uint64_t)i + 1);
    }
    ck_assert_uint_eq(w->items[CLIENT_SENT], 1 + 4 + 8);
    world_end(w, NSEC_PER_SEC);
}

UNIT(too_large_is_never_sent)
{
    struct world *w = world_new(fake_answer_ok);
    w->options.max_request_bytes = 4;
    begin(w);
    push(w, "12345", 3);
    push(w, "1234", 5);
    UNTIL(w, w->n[CLIENT_SENT] == 1 && w->n[CLIENT_TOO_LARGE] == 1);
    ck_assert_uint_eq(w->items[CLIENT_TOO_LARGE], 3);
    ck_assert_uint_eq(w->items[CLIENT_SENT], 5);
    world_end(w, NSEC_PER_SEC);
}

UNIT(shutdown_drains)
{
    autofree struct world *w = world_new(fake_answer_ok);
    w->options.queue.num_consumers = 2;
    begin(w);
    for (int i = 0; i < 50; i++)
        push(w, "x", 1);
    client_shutdown(w->client, clock_monotonic() + 5 * (uint64_t)NSEC_PER_SEC, on_done, w);
    ck_assert(!send_queue_reserve(client_queue(w->client), 1));
    UNTIL(w, w->done);
    ck_assert_uint_eq(w->n[CLIENT_SENT], 50);
    client_free(w->client);
    fake_stop(&w->server);
    io_loop_free(w->loop);
}

UNIT(shutdown_says_what_is_left)
{
    autofree struct world *w = world_new(fake_hold);
    w->options.queue.num_consumers = 2;
    w->options.compression = CLIENT_COMPRESS_GZIP;
    begin(w);
    for (int i = 0; i < 10; i++)
        push(w, "x", 2);
    UNTIL(w, w->server.n_held == 2);
    client_shutdown(w->client, clock_monotonic() + 50 * NSEC_PER_MSEC, on_done, w);
    UNTIL(w, w->done);
    ck_assert_uint_eq(w->n[CLIENT_SHUT_DOWN], 10);
    ck_assert_uint_eq(w->items[CLIENT_SHUT_DOWN], 20);
    client_free(w->client);
    fake_stop(&w->server);
    io_loop_free(w->loop);
}

UNIT(shutdown_repeats_at_once)
{
    autofree struct world *w = world_new(fake_answer_ok);
    uint16_t port = w->server.port;
    fake_stop(&w->server);
    w->options.retry.initial_interval_ns = w->options.retry.max_interval_ns = 100 * (uint64_t)NSEC_PER_SEC;
    begin(w);
    push(w, "x", 1);
    UNTIL(w, w->n[CLIENT_RETRIED] == 1);
    fake_start(&w->server, w->loop, port);
    client_shutdown(w->client, clock_monotonic() + 5 * (uint64_t)NSEC_PER_SEC, on_done, w);
    UNTIL(w, w->done);
    ck_assert_uint_eq(w->n[CLIENT_SENT], 1);
    client_free(w->client);
    fake_stop(&w->server);
    io_loop_free(w->loop);
}

static void refuse_the_first_six(struct fake_server *s, struct http_exchange *x, struct bytes body)
{
    if (s->requests <= 6)
        fake_grpc(x, "14", bytes_of(NULL, 0), NULL);
    else
        fake_grpc_ok(x);
}

/* Not once, and not with the usual pauses of up to half a minute: there is less than that to go. */
UNIT(shutdown_repeats_as_long_as_there_is_time)
{
    autofree struct world *w = world_new(refuse_the_first_six);
    w->options.retry.initial_interval_ns = 5 * (uint64_t)NSEC_PER_SEC;
    w->options.retry.max_interval_ns = 30 * (uint64_t)NSEC_PER_SEC;
    w->options.queue.num_consumers = 2;
    begin(w);
    for (int i = 0; i < 8; i++)
        push(w, "x", 1);
    client_shutdown(w->client, clock_monotonic() + 60 * (uint64_t)NSEC_PER_SEC, on_done, w);
    UNTIL(w, w->done);
    ck_assert_uint_eq(w->n[CLIENT_SENT], 8);
    ck_assert_uint_eq(w->n[CLIENT_RETRIED], 6);
    client_free(w->client);
    fake_stop(&w->server);
    io_loop_free(w->loop);
}

/* Half of the answers fail in one way or another; nothing may be lost or told twice. */
static void answer_by_whim(struct fake_server *s, struct http_exchange *x, struct bytes body)
{
    switch (s->requests % 4) {
    case 0: fake_grpc(x, "14", bytes_of(NULL, 0), NULL); break;
    case 1: fake_grpc(x, "3", bytes_of(NULL, 0), NULL); break;
    default: fake_grpc_ok(x);
    }
}

struct feeder {
    struct world *w;
    uint64_t pushed;
};

static void *feed(void *arg)
{
    struct feeder *f = arg;
    for (int i = 0; i < 300; i++) {
        if (!send_queue_reserve(client_queue(f->w->client), 64))
            continue;
        if (i % 5 == 0) {
            send_queue_cancel(client_queue(f->w->client), 64);
            continue;
        }
        f->pushed++;
        struct client_body *body = unit_made(client_body_new((uint8_t *)strdup("0123456789"), 10));
        send_queue_offer(client_queue(f->w->client), body, 64, 1);
        client_body_unref(body);
    }
    return NULL;
}

UNIT(threads_feed_it)
{
    struct world *w = world_new(answer_by_whim);
    w->options.compression = CLIENT_COMPRESS_GZIP;
    w->options.retry.initial_interval_ns = w->options.retry.max_interval_ns = NSEC_PER_MSEC;
    begin(w);
    struct feeder feeder[3] = {{w, 0}, {w, 0}, {w, 0}};
    pthread_t thread[3];
    for (int i = 0; i < 3; i++)
        pthread_create(&thread[i], NULL, feed, &feeder[i]);
    for (int i = 0; i < 3; i++)
        pthread_join(thread[i], NULL);
    uint64_t pushed = feeder[0].pushed + feeder[1].pushed + feeder[2].pushed;
    ck_assert_uint_gt(pushed, 0);
    UNTIL(w, w->n[CLIENT_SENT] + w->n[CLIENT_REFUSED] == pushed);
    ck_assert_uint_gt(w->n[CLIENT_REFUSED], 0);
    ck_assert_uint_gt(w->n[CLIENT_RETRIED], 0);
    world_end(w, NSEC_PER_SEC);
}

/* A certificate of our own for 127.0.0.1. */
static bool make_certificate(char cert[static UNIT_PATH_MAX], char key[static UNIT_PATH_MAX])
{
    char command[1024];
    close(unit_new_file(cert, ".pem"));
    close(unit_new_file(key, ".pem"));
    snprintf(command, sizeof command,
             "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=test "
             "-addext subjectAltName=IP:127.0.0.1,DNS:collector.test -keyout %s -out %s 2>/dev/null",
             key, cert);
    return system(command) == 0;
}

static void tls_round(const char *cert, const char *key, enum otlp_protocol protocol, const char *server_name,
                      bool works)
{
    static const char *const alpn[] = {"h2", "http/1.1", NULL};
    struct world *w = world_new(fake_answer_ok);
    struct tls_options server = {.server = true, .cert_file = cert, .key_file = key, .alpn = alpn};
    struct error e = {""};
    ck_assert_msg(tls_context_new(&w->server.tls, &server, &e) == 0, "%s", e.text);
    snprintf(w->endpoint, sizeof w->endpoint, "https://%s", w->server.address);
    w->options.tls.ca_file = cert;
    w->options.tls.server_name = server_name;
    w->options.protocol = protocol;
    begin(w);
    push(w, "x", 1);
    if (works) {
        UNTIL(w, w->n[CLIENT_SENT] == 1);
    } else {
        UNTIL(w, w->n[CLIENT_RETRIED] >= 1);
        ck_assert_ptr_nonnull(strstr(w->last, "TLS"));
    }
    world_end(w, 50 * NSEC_PER_MSEC);
}

UNIT(tls)
{
    char cert[UNIT_PATH_MAX], key[UNIT_PATH_MAX];
    if (!make_certificate(cert, key))
        unit_skip("no openssl command to make a certificate with");
    tls_round(cert, key, OTLP_GRPC, NULL, true);
    tls_round(cert, key, OTLP_HTTP, NULL, true);
    tls_round(cert, key, OTLP_GRPC, "collector.test", true);
    tls_round(cert, key, OTLP_GRPC, "another.test", false);
}

UNIT(options_are_checked)
{
    struct io_loop *loop = unit_made(io_loop_new());
    struct client_options ok = CLIENT_DEFAULT, o;
    struct client *x = NULL;
    struct error e;
#define BAD(assignment, word)                                      \
    o = ok, e.text[0] = 0, assignment;                             \
    ck_assert_int_lt(client_new(&x, loop, &o, NULL, NULL, &e), 0); \
    ck_assert_msg(strstr(e.text, word) != NULL, "%s", e.text)
    BAD(o.endpoint = "", "endpoint");
    BAD(o.queue.num_consumers = 0, "num_consumers");
    BAD(o.queue.num_consumers = 1000, "num_consumers");
    BAD(o.queue.queue_size = 0, "queue_size");
    BAD(o.queue.queue_bytes = 0, "queue_bytes");
    BAD(o.timeout_ns = 0, "timeout");
    BAD(o.max_request_bytes = 0, "request");
    BAD(o.retry.multiplier = 0, "multiplier");
    BAD((o.endpoint = "https://x", o.tls.cert_file = "x"), "key_file");
    BAD((o.endpoint = "https://x", o.tls.ca_file = "/does/not/exist"), "/does/not/exist");
    ck_assert_ptr_null(x);
    io_loop_free(loop);
}
