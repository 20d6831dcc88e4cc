/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the stage listens on, with what limits, and for whom.
 */
#ifndef GATEWAY_LISTEN_OPTIONS_H
#define GATEWAY_LISTEN_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/error.h"
#include "proto/http/exchange.h"

struct io_loop;

#define LISTEN_WORKERS_MAX   256u
#define LISTEN_ADDRESSES_MAX 16u

/* TLS 1.2 and 1.3 by what the client can, "h2" before "http/1.1" (RFC 7301). */
struct listen_tls {
    const char *cert_file, *key_file; /* PEM: the chain, ours first; its key */
    const char *client_ca_file; /* PEM: who signs clients, each of which must show a certificate; or NULL */
    const char *min_version;    /* "1.2" or "1.3"; NULL: 1.2 */
    bool allow_plaintext;       /* the first byte decides, on the same port: TLS or plain */
};

struct listen_address {
    const char *address; /* "host:port", port 0 picks a free one; "unix:/path", as proto/io/listener.h */
    void *user;          /* reaches the handler as http_peer.listener */
    const struct listen_tls *tls; /* NULL: plain */
};

struct listen_options {
    const struct listen_address *addresses;
    uint32_t n_addresses;     /* 1 … LISTEN_ADDRESSES_MAX */
    uint32_t workers;         /* 1 … LISTEN_WORKERS_MAX */
    uint32_t connections_max; /* all workers together; more are closed at once and counted */
    struct http_server_limits http;
};

/* Files that are open beside connections: loops and listeners of workers, what destinations are reached by,
 * what is read and written. Room for so many is taken at the start. */
#define LISTEN_FILES_BESIDE 1024u

/* What main gives the stage. All functions run on the worker's thread. */
struct listen_factory {
    const struct http_handler *handler;
    /* Before the worker's first connection. Returns the handler's context for this worker; NULL: it cannot
     * start, *e says why. */
    void *(*worker_start)(void *context, uint32_t index, struct io_loop *loop, struct error *e);
    /* After its last connection closed. May be NULL. */
    void (*worker_stop)(void *context, uint32_t index, void *worker);
    void *context;
    /* Who may connect, asked at accept, by address: false closes at once and counts as refused. May be NULL:
     * everybody. It may set peer->client. */
    bool (*admit)(void *context, void *worker, struct http_peer *peer);
    /* Once for each that was admitted: it is gone, and its exchanges before it. May be NULL. */
    void (*leave)(void *context, void *worker, struct http_peer *peer);
};

#endif
