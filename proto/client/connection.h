/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection to an endpoint that can be opened again and again: resolve, connect, TLS, then an HTTP client
 * session. It joins proto/io's channel and TLS with proto/http's client.
 *
 * HTTP/2 when asked for (gRPC: prior knowledge, or ALPN h2 which must be agreed on), else what ALPN gives,
 * else HTTP/1.1. It opens only when told to and does not repeat by itself: whoever has something to send
 * decides when.
 */
#ifndef PROTO_CLIENT_CONNECTION_H
#define PROTO_CLIENT_CONNECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/http/exchange.h"

struct budget;
struct client_connection;
struct endpoint;
struct io_loop;
struct tls_context;

struct connection_options {
    struct io_loop *loop;
    const struct endpoint *endpoint; /* these two must outlive the connection */
    struct tls_context *tls;         /* NULL: plain; renewed for each connection, so of one thread */
    const struct endpoint *proxy; /* by which a tunnel leads there (CONNECT, RFC 9110 §9.3.6); NULL: none */
    const char *proxy_authorization; /* what is said to it; NULL: nothing. Both likewise */
    uint64_t age_max_ns;     /* older ones take no new call: the next opens anew, by the name; 0: any age */
    const char *server_name; /* NULL: the endpoint's host; likewise */
    bool http2;              /* nothing but HTTP/2 will do */
    size_t response_max;     /* headers and body of one response */
    struct budget *budget;   /* on which responses are while they come; NULL: unlimited */
    /* A connection begins with the files that TLS had before, since those that are there now cannot be used.
     * May be NULL. The user is on_change's; the connection may not be freed from inside. */
    void (*on_stale)(void *user, const char *why);
};

/* The connection's state changed: it became ready, it can take a call again, or it failed (then *failure says
 * why, else it is NULL). Calls that were running have been told before. Never from inside a function of this
 * header. The connection may not be freed from inside. */
typedef void (*connection_fn)(void *user, struct client_connection *c, const char *failure);

/* Closed at first. NULL: memory is out. */
struct client_connection *connection_new(const struct connection_options *options, connection_fn on_change,
                                         void *user);

/* Closes; running calls end with HTTP_CALL_BROKEN first. No on_change. NULL is fine. Returns NULL. */
struct client_connection *connection_free(struct client_connection *c);

/* Opens it if it is closed; else nothing. on_change tells how it went, after timeout_ns at the latest. */
void connection_open(struct client_connection *c, uint64_t timeout_ns);

/* Whether a call would be taken now. */
bool connection_is_ready(const struct client_connection *c);

/* As http_client_call; NULL when it is not ready or memory is out. Each call must be matched by one
 * connection_end: first thing in `done`. */
struct http_call *connection_call(struct client_connection *c, const struct http_request *request,
                                  http_call_fn done, void *user);
void connection_end(struct client_connection *c);

/* Gives a call up, whose deadline passed (no connection_end for it). If nothing at all was heard from the
 * peer since began_ns the connection is taken for dead and closed: else every next call would wait for TCP to
 * notice. */
void connection_give_up(struct client_connection *c, struct http_call *call, uint64_t began_ns);

#endif
