/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first stage: worker threads, each with its own loop and its own listening sockets (SO_REUSEPORT) on
 * every configured address. It accepts connections, ends TLS, and joins each one's bytes to an HTTP session;
 * what requests mean is the business of the handler it is given, who may connect that of the hooks.
 */
#ifndef GATEWAY_LISTEN_LISTEN_H
#define GATEWAY_LISTEN_LISTEN_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/error.h"
#include "proto/http/exchange.h"

struct io_loop;
struct listen;

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
    uint32_t unix_mode;           /* permissions of a unix socket's file; 0: 0660 */
};

struct listen_options {
    const struct listen_address *addresses;
    uint32_t n_addresses;     /* 1 … LISTEN_ADDRESSES_MAX */
    uint32_t workers;         /* 1 … LISTEN_WORKERS_MAX */
    uint32_t connections_max; /* all workers together; more are closed at once and counted */
    struct http_server_limits http;
};

#define LISTEN_CONNECTIONS_MAX_DEFAULT 10000u

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

/* Checks the options and binds every address (so that an address in use is known before anything else
 * starts); copies what it needs. 0; -EINVAL, -EADDRINUSE, -EACCES, -ENOMEM …: *e says what, and what to do.
 */
int listen_new(struct listen **ret, const struct listen_options *options,
               const struct listen_factory *factory, struct error *e);

/* Starts the threads and returns when every worker accepts connections, or with the first failure (then no
 * thread runs; listen_free it). */
int listen_start(struct listen *l, struct error *e);

/* Reads all certificates, keys and client CAs anew; when all of them are good, connections from now on use
 * them, on every worker, and those that run live on with what they began with. 0; on an error nothing changes
 * and *e says which file is wrong. Any thread. */
int listen_reload_tls(struct listen *l, struct error *e);

/* When address i's certificate ends, in Unix seconds; INT64_MAX: it is plain. Any thread. */
int64_t listen_tls_expiry(struct listen *l, uint32_t i);

/* The port that address i is bound to; 0: a unix socket. Any thread, after listen_new. */
uint16_t listen_port(const struct listen *l, uint32_t i);

uint32_t listen_workers(const struct listen *l);

/* Has fn(arg, worker) run on worker `index`'s thread, in order of calling, while it runs; `worker` is what
 * worker_start returned. 0; -ENOMEM; -ESHUTDOWN: the worker is gone or not started (fn will not run). Any
 * thread. */
int listen_run_on_worker(struct listen *l, uint32_t index, void (*fn)(void *arg, void *worker), void *arg);

/* Stops accepting, tells peers (GOAWAY, Connection: close), lets running requests end until the monotonic
 * time deadline_ns, then closes what is left and ends the threads. Returns at once; listen_free waits. A
 * second call with an earlier deadline shortens it. Any thread. */
void listen_shutdown(struct listen *l, uint64_t deadline_ns);

/* Connections open now. Any thread. */
uint32_t listen_connections(const struct listen *l);

/* Joins the threads (shuts down at once if nobody did before) and frees. NULL is fine. Returns NULL. */
struct listen *listen_free(struct listen *l);

#endif
