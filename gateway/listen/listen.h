/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first stage: worker threads, each with its own loop and its own listening sockets (SO_REUSEPORT) on
 * every configured address. It accepts connections, ends TLS, and joins each one's bytes to an HTTP session;
 * what requests mean is the business of the handler it is given, who may connect that of the hooks.
 */
#ifndef GATEWAY_LISTEN_LISTEN_H
#define GATEWAY_LISTEN_LISTEN_H

#include <stdint.h>

#include "gateway/listen/options.h"
#include "proto/base/error.h"

struct listen;
struct listen_certificates; /* of all addresses, as read */

/* Checks the options and binds every address (so that an address in use is known before anything else
 * starts); copies what it needs. 0; -EINVAL, -EADDRINUSE, -EACCES, -ENOMEM …: *e says what, and what to do.
 */
int listen_new(struct listen **ret, const struct listen_options *options,
               const struct listen_factory *factory, struct error *e);

/* Starts the threads and returns when every worker accepts connections, or with the first failure (then no
 * thread runs; listen_free it). */
int listen_start(struct listen *l, struct error *e);

/* Reads all certificates, keys and client CAs anew, and changes nothing: they are taken or dropped later. 0,
 * -ENOMEM, or another errno with *e saying which file is wrong. Any thread. */
int listen_read_tls(const struct listen *l, struct listen_certificates **ret, struct error *e);

/* Connections from now on use what was read, on every worker, and those that run live on with what they began
 * with. It is not the caller's any more. Any thread. */
void listen_take_tls(struct listen *l, struct listen_certificates *read);

/* Instead of taking them. NULL is fine. Returns NULL. */
struct listen_certificates *listen_drop_tls(struct listen_certificates *read);

/* When address i's certificate ends, in Unix seconds; INT64_MAX: it is plain. Any thread. */
int64_t listen_tls_expiry(struct listen *l, uint32_t i);

/* The port that address i is bound to; 0: a unix socket. Any thread, after listen_new. */
uint16_t listen_port(const struct listen *l, uint32_t i);

/* Conditions of listen_run_on_worker. */
enum {
    LISTEN_STOPPED = 1, /* the worker is gone or not started: fn will not run */
};

/* Has fn(arg, worker) run on worker `index`'s thread, in order of calling, while it runs; `worker` is what
 * worker_start returned. 0, the condition above, or -ENOMEM. Any thread. */
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
