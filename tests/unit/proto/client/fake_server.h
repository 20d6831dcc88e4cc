/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An OTLP server for tests, on the loop of the test: every complete request goes to a function that answers
 * it, now or later, or not at all. HTTP/1.1 and HTTP/2, plain or TLS, on a free port of 127.0.0.1.
 */
#ifndef TESTS_UNIT_PROTO_CLIENT_FAKE_SERVER_H
#define TESTS_UNIT_PROTO_CLIENT_FAKE_SERVER_H

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "proto/base/clock.h"
#include "proto/base/macros.h"
#include "proto/http/exchange.h"
#include "proto/io/channel.h"
#include "proto/io/listener.h"
#include "proto/io/loop.h"
#include "proto/io/tls.h"

struct fake_server;

struct fake_link {
    struct fake_server *server;
    struct io_channel *channel;
    struct http_session *session;
    struct tls *tls;
    struct http_peer peer;
    struct fake_link *next;
};

struct fake_server {
    struct io_loop *loop;
    struct io_listener *listener;
    struct tls_context *tls;
    struct fake_link *links;
    uint16_t port;
    uint32_t streams; /* HTTP/2 calls it takes at once; 0: the usual 100 */
    char address[64]; /* "127.0.0.1:PORT" */
    void (*answer)(struct fake_server *s, struct http_exchange *x, struct bytes body);
    void *user;
    uint32_t requests, connections, open, open_max; /* open: requests not closed yet */
    struct http_exchange *held[64];                 /* those whose answer waits: the test's own */
    uint32_t n_held;
};

static void fake_flush(struct fake_link *link)
{
    cleanup(buffer_release) struct buffer out = BUFFER_INIT(0);
    while (link->session && http_session_has_output(link->session)) {
        ck_assert_int_eq(http_session_drain(link->session, &out, 65536), 0);
        if (link->tls) {
            ck_assert_int_eq(tls_write(link->tls, buffer_bytes(&out)), 0);
            out.n = 0;
        }
        io_channel_write(link->channel, buffer_bytes(&out));
        out.n = 0;
    }
    while (link->tls && tls_has_output(link->tls)) {
        ck_assert_int_eq(tls_drain(link->tls, &out, 65536), 0);
        io_channel_write(link->channel, buffer_bytes(&out));
        out.n = 0;
    }
}

static void fake_drop(struct fake_link *link, bool politely)
{
    if (!link->session)
        return;
    link->session = http_session_free(link->session);
    link->tls = tls_free(link->tls);
    if (politely)
        io_channel_finish(link->channel);
    else
        io_channel_close(link->channel);
}

static void fake_on_read(void *user, struct bytes in)
{
    struct fake_link *link = user;
    struct buffer plain = BUFFER_INIT(0);
    int r = 0;
    if (!link->session)
        return;
    if (link->tls) {
        r = tls_feed(link->tls, in, &plain);
        in = buffer_bytes(&plain);
    }
    if (r == 0 && in.n > 0)
        r = http_session_feed(link->session, in, io_loop_now(link->server->loop));
    fake_flush(link);
    buffer_release(&plain);
    if (link->session && (r < 0 || http_session_is_done(link->session)))
        fake_drop(link, true);
}

static void fake_on_end_of_stream(void *user)
{
    fake_drop(user, false);
}
static void fake_on_error(void *user, int error)
{
    fake_drop(user, false);
}

static void fake_on_close(void *user)
{
    struct fake_link *link = user, **at = &link->server->links;
    while (*at != link)
        at = &(*at)->next;
    *at = link->next;
    free(link);
}

static const struct io_channel_events fake_events = {
    .on_read = fake_on_read,
    .on_eof = fake_on_end_of_stream,
    .on_error = fake_on_error,
    .on_close = fake_on_close,
};

static void fake_on_head(void *context, struct http_exchange *x)
{
    struct fake_link *link = context;
    x->user = calloc(1, sizeof(struct buffer));
    link->server->open++;
    link->server->open_max = max_of(link->server->open_max, link->server->open);
}

static void fake_on_body(void *context, struct http_exchange *x, struct bytes piece)
{
    ck_assert_int_eq(buffer_add_bytes(x->user, piece), 0);
}

static void fake_on_end(void *context, struct http_exchange *x)
{
    struct fake_server *s = ((struct fake_link *)context)->server;
    s->requests++;
    s->answer(s, x, buffer_bytes(x->user));
}

static void fake_on_exchange_close(void *context, struct http_exchange *x)
{
    struct fake_server *s = ((struct fake_link *)context)->server;
    for (uint32_t i = 0; i < s->n_held; i++)
        if (s->held[i] == x)
            s->held[i] = s->held[--s->n_held];
    buffer_release(x->user);
    free(x->user);
    s->open--;
}

static const struct http_handler fake_handler = {fake_on_head, fake_on_body, fake_on_end,
                                                 fake_on_exchange_close};

static void fake_accept(void *user, struct io_channel *channel)
{
    struct http_server_limits limits = HTTP_SERVER_LIMITS_DEFAULT;
    struct fake_server *s = user;
    if (s->streams)
        limits.concurrent_streams = s->streams;
    struct fake_link *link = calloc(1, sizeof *link);
    *link = (struct fake_link){.server = s, .channel = channel, .next = s->links};
    link->peer.listener = link;
    s->links = link;
    link->session =
        unit_made(http_session_new(&fake_handler, link, &link->peer, &limits, io_loop_now(s->loop)));
    if (s->tls)
        link->tls = unit_made(tls_new(s->tls, NULL));
    s->connections++;
    io_channel_start(channel, &fake_events, link);
}

/* port 0: a free one. */
static void fake_start(struct fake_server *s, struct io_loop *loop, uint16_t port)
{
    struct error e = {""};
    char address[32];
    s->loop = loop;
    snprintf(address, sizeof address, "127.0.0.1:%u", port);
    ck_assert_msg(io_listener_new(&s->listener, loop, address, IO_PORT_ALONE, &e) == 0, "%s", e.text);
    ck_assert_msg(io_listener_start(s->listener, fake_accept, s, &e) == 0, "%s", e.text);
    s->port = io_listener_port(s->listener);
    snprintf(s->address, sizeof s->address, "127.0.0.1:%u", s->port);
}

static inline void fake_stop(struct fake_server *s)
{
    s->listener = io_listener_free(s->listener);
    for (struct fake_link *link = s->links; link; link = link->next) {
        if (link->session)
            fake_drop(link, false);
        else
            io_channel_close(link->channel); /* cuts a polite end short */
    }
    while (s->links)
        io_loop_run_once(s->loop, NSEC_PER_SEC);
}

/* Holds the answer back: it is in held[] until the test replies. */
static inline void fake_hold(struct fake_server *s, struct http_exchange *x, struct bytes body)
{
    ck_assert_uint_lt(s->n_held, ARRAY_LEN(s->held));
    s->held[s->n_held++] = x;
}

static void fake_reply(struct http_exchange *x, const struct http_reply *reply)
{
    ck_assert_int_eq(http_reply(x, reply), 0);
    fake_flush(x->peer->listener);
}

static inline void fake_grpc(struct http_exchange *x, const char *status, struct bytes message,
                             const char *details)
{
    struct http_header headers[] = {{BYTES_LIT("content-type"), BYTES_LIT("application/grpc")}};
    struct http_header trailers[] = {{BYTES_LIT("grpc-status"), bytes_str(status)},
                                     {BYTES_LIT("grpc-status-details-bin"), bytes_str(details)}};
    struct http_reply reply = {.status = 200,
                               .headers = headers,
                               .n_headers = 1,
                               .body = message,
                               .trailers = trailers,
                               .n_trailers = details ? 2 : 1};
    fake_reply(x, &reply);
}

static inline void fake_grpc_ok(struct http_exchange *x)
{
    fake_grpc(x, "0", BYTES_LIT("\0\0\0\0\0"), NULL);
}

static inline void fake_http(struct http_exchange *x, uint32_t status, const char *type, struct bytes body)
{
    struct http_header headers[] = {{BYTES_LIT("content-type"), bytes_str(type)}};
    struct http_reply reply = {.status = status, .headers = headers, .n_headers = 1, .body = body};
    fake_reply(x, &reply);
}

static inline void fake_answer_ok(struct fake_server *s, struct http_exchange *x, struct bytes body)
{
    if (bytes_starts(http_header_find(x->headers, x->n_headers, "content-type"), "application/grpc"))
        fake_grpc_ok(x);
    else
        fake_http(x, 200, "application/x-protobuf", bytes_of(NULL, 0));
}

#endif
