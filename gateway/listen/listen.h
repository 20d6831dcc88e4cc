/*
 * The first stage: worker threads, each with its own loop and its own listening sockets (SO_REUSEPORT) on
 * every configured address. It accepts connections and joins each one's bytes to an HTTP session; what
 * requests mean is the business of the handler it is given.
 */
#ifndef GATEWAY_LISTEN_LISTEN_H
#define GATEWAY_LISTEN_LISTEN_H

#include <stdint.h>

#include "proto/base/error.h"
#include "proto/http/exchange.h"

struct io_loop;
struct listen;

#define LISTEN_WORKERS_MAX   256u
#define LISTEN_ADDRESSES_MAX 16u

struct listen_address {
    const char *address; /* "host:port", as proto/io/listener.h; port 0 picks a free one */
    void *user;          /* reaches the handler as http_peer.listener */
};

struct listen_options {
    const struct listen_address *addresses;
    uint32_t n_addresses;     /* 1 … LISTEN_ADDRESSES_MAX */
    uint32_t workers;         /* 1 … LISTEN_WORKERS_MAX */
    uint32_t connections_max; /* all workers together; more are closed at once and counted */
    struct http_server_limits http;
};

#define LISTEN_CONNECTIONS_MAX_DEFAULT 10000u

/* What main gives the stage. Both functions run on the worker's thread. */
struct listen_factory {
    const struct http_handler *handler;
    /* Before the worker's first connection. Returns the handler's context for this worker; NULL: it cannot
     * start, *e says why. */
    void *(*worker_start)(void *context, uint32_t index, struct io_loop *loop, struct error *e);
    /* After its last connection closed. May be NULL. */
    void (*worker_stop)(void *context, uint32_t index, void *worker);
    void *context;
};

/* Checks the options and binds every address (so that an address in use is known before anything else
 * starts); copies what it needs. 0; -EINVAL, -EADDRINUSE, -EACCES, -ENOMEM …: *e says what, and what to do.
 */
int listen_new(struct listen **ret, const struct listen_options *options,
               const struct listen_factory *factory, struct error *e);

/* Starts the threads and returns when every worker accepts connections, or with the first failure (then no
 * thread runs; listen_free it). */
int listen_start(struct listen *l, struct error *e);

/* The port that address i is bound to. Any thread, after listen_new. */
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
