/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One worker: a loop, its listening sockets, its connections. For gateway/listen only; but for worker_post
 * and worker_shutdown, everything happens on the worker's thread.
 */
#ifndef GATEWAY_LISTEN_WORKER_H
#define GATEWAY_LISTEN_WORKER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "gateway/listen/certificates.h"
#include "gateway/listen/connections.h"
#include "gateway/listen/options.h"
#include "proto/io/loop.h"

struct io_listener;
struct io_timer;
struct worker;

/* What all workers share; written before they start, but for the count. */
struct worker_shared {
    struct listen_factory factory;
    struct listen_address
        addresses[LISTEN_ADDRESSES_MAX]; /* .address is copied, with the port that was bound; .tls is not
                                            used: it is in the certificates */
    struct certificates certificates;
    uint32_t n_addresses;
    uint32_t connections_max;
    struct http_server_limits http;
    atomic_uint connections;
    struct worker *workers;    /* all of them; … */
    struct balance_told *told; /* …and what each says of itself */
    uint32_t n_workers;
};

enum worker_state { WORKER_NEW, WORKER_RUNNING, WORKER_FAILED, WORKER_ENDED };

/* Joins a listener to the worker and the address it listens on. */
struct worker_listener {
    struct worker *worker;
    struct io_listener *io;
    struct connection_origin origin;
};

struct worker {
    struct worker_shared *shared;
    uint32_t index;
    pthread_t thread;
    bool has_thread;
    pthread_mutex_t lock; /* state, error, shutdown_at */
    pthread_cond_t changed;
    enum worker_state state;
    struct error error;
    uint64_t shutdown_at;    /* UINT64_MAX: not asked */
    struct io_post shutdown; /* its message, at hand so that memory cannot be short for it */

    struct io_loop *loop;
    struct worker_listener listeners[LISTEN_ADDRESSES_MAX];
    void *context; /* the handler's */
    struct connections connections;
    struct io_timer *end_timer;
    bool shutting_down;
};

/* With its sockets bound. The first worker (`first` is NULL, and it is `alone` if none will follow) fills in
 * the ports; the others take its unix sockets from it. 0 or -errno with *e. */
int worker_init(struct worker *w, struct worker_shared *shared, uint32_t index, bool alone,
                const struct worker *first, struct error *e);

/* Starts the thread and waits until it accepts connections. 0 or -errno with *e. */
int worker_start(struct worker *w, struct error *e);

/* Conditions of worker_post. */
enum {
    WORKER_STOPPED = 1, /* or not started: fn will not run */
};

/* As listen_run_on_worker: 0, the condition above or -ENOMEM. Any thread. */
int worker_post(struct worker *w, void (*fn)(void *arg, void *worker), void *arg);

/* As listen_shutdown. Any thread. */
void worker_shutdown(struct worker *w, uint64_t deadline_ns);

/* Joins the thread, if there is one, and releases what is left. */
void worker_release(struct worker *w);

#endif
