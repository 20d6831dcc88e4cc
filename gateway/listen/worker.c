/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/listen/worker.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/macros.h"
#include "proto/base/thread.h"
#include "proto/io/listener.h"
#include "proto/io/loop.h"
#include "proto/io/timer.h"

/* ---- shutting down ---- */

static void end_if_empty(void *user)
{
    struct worker *w = user;
    if (w->shutting_down && w->connections.n == 0)
        io_loop_stop(w->loop);
}

static void on_end(void *user)
{
    struct worker *w = user;
    connections_close(&w->connections);
}

static void close_listeners(struct worker *w)
{
    for (uint32_t i = 0; i < w->shared->n_addresses; i++)
        w->listeners[i].io = io_listener_free(w->listeners[i].io);
}

static void arm_end(struct worker *w)
{
    pthread_mutex_lock(&w->lock);
    uint64_t at = w->shutdown_at;
    pthread_mutex_unlock(&w->lock);
    io_timer_set(w->end_timer, at == UINT64_MAX ? at - 1 : at);
}

static void shut_down(void *arg)
{
    struct worker *w = arg;
    if (!w->shutting_down) {
        w->shutting_down = true;
        for (uint32_t i = 0; i < w->shared->n_addresses; i++)
            io_listener_take_waiting(w->listeners[i].io);
        close_listeners(w);
        connections_shutdown(&w->connections);
    }
    arm_end(w);
    end_if_empty(w);
}

void worker_shutdown(struct worker *w, uint64_t deadline_ns)
{
    autolock(&w->lock);
    w->shutdown_at = min_of(w->shutdown_at, deadline_ns);
    if (w->state == WORKER_RUNNING)
        io_loop_post_in(w->loop, &w->shutdown);
}

/* ---- tasks ---- */

struct task {
    struct worker *worker;
    void (*fn)(void *arg, void *worker);
    void *arg;
};

static void run_task(void *arg)
{
    struct task *t = arg;
    t->fn(t->arg, t->worker->context);
    free(t);
}

int worker_post(struct worker *w, void (*fn)(void *arg, void *worker), void *arg)
{
    autofree struct task *t = malloc(sizeof *t);
    if (!t)
        return -ENOMEM;
    *t = (struct task){.worker = w, .fn = fn, .arg = arg};
    pthread_mutex_lock(&w->lock);
    int r = w->state == WORKER_RUNNING ? io_loop_post(w->loop, run_task, t) : WORKER_STOPPED;
    pthread_mutex_unlock(&w->lock);
    if (r == 0)
        take_ptr(t);
    return r;
}

/* ---- the thread ---- */

static void set_state(struct worker *w, enum worker_state state)
{
    autolock(&w->lock);
    w->state = state;
    pthread_cond_broadcast(&w->changed);
}

static void on_accept(void *user, struct io_channel *channel)
{
    struct worker_listener *l = user;
    connections_accept(&l->worker->connections, channel, &l->origin);
}

static void on_arrival(void *arg)
{
    struct connection_node *n = arg;
    struct worker *w = n->way.to;
    connections_arrive(&w->connections, n);
}

static bool give(void *user, struct connection_node *n, uint32_t to)
{
    struct worker *w = &((struct worker *)user)->shared->workers[to];
    n->way.to = w;
    n->way.post = (struct io_post){.fn = on_arrival, .arg = n};
    autolock(&w->lock);
    bool runs = w->state == WORKER_RUNNING;
    if (runs)
        io_loop_post_in(w->loop, &n->way.post);
    return runs;
}

/* Everything up to the first connection. 0 or -errno with w->error. */
static int begin(struct worker *w)
{
    const struct listen_factory *f = &w->shared->factory;
    w->connections = (struct connections){
        .host = {.loop = w->loop,
                 .stats = stats_new(), /* none: then nothing is counted */
                 .factory = f,
                 .http = &w->shared->http,
                 .patience_ns = w->shared->http.body_ns,
                 .balance = {.all = w->shared->told, .n = w->shared->n_workers, .own = w->index}},
        .of_all = &w->shared->connections,
        .of_all_max = w->shared->connections_max,
        .is_empty = end_if_empty,
        .give = give,
        .user = w,
    };
    w->end_timer = io_timer_new(w->loop, on_end, w);
    if (connections_init(&w->connections) < 0 || !w->end_timer)
        return error_set(&w->error, -ENOMEM, "starting worker %u: out of memory", w->index);
    w->context = f->worker_start(f->context, w->index, w->loop, &w->error);
    if (!w->context)
        return -ECANCELED;
    w->connections.host.context = w->context;
    for (uint32_t i = 0; i < w->shared->n_addresses; i++) {
        int r = io_listener_start(w->listeners[i].io, on_accept, &w->listeners[i], &w->error);
        if (r < 0)
            return r;
    }
    return 0;
}

/* Gives back what begin and the run made. Called without connections. */
static void end(struct worker *w)
{
    const struct listen_factory *f = &w->shared->factory;
    if (w->context && f->worker_stop)
        f->worker_stop(f->context, w->index, w->context);
    w->context = NULL;
    close_listeners(w);
    w->end_timer = io_timer_free(w->end_timer);
    connections_release(&w->connections);
    w->loop = io_loop_free(w->loop);
}

static void *run(void *arg)
{
    struct worker *w = arg;
    if (begin(w) < 0) {
        end(w);
        set_state(w, WORKER_FAILED);
        return NULL;
    }
    set_state(w, WORKER_RUNNING);
    io_loop_run(w->loop);
    set_state(w, WORKER_ENDED);
    io_loop_run_once(w->loop, 0); /* tasks that were still let in, and connections from other workers */
    arm_end(w);
    while (w->connections.n > 0)
        io_loop_run(w->loop);
    end(w);
    return NULL;
}

int worker_start(struct worker *w, struct error *e)
{
    char name[16];
    snprintf(name, sizeof name, "worker%u", w->index);
    int r = thread_begin(&w->thread, NULL, name, run, w);
    if (r < 0)
        return error_set(e, r, "starting worker %u: %s", w->index, strerror(-r));
    w->has_thread = true;
    pthread_mutex_lock(&w->lock);
    while (w->state == WORKER_NEW)
        pthread_cond_wait(&w->changed, &w->lock);
    bool failed = w->state == WORKER_FAILED;
    pthread_mutex_unlock(&w->lock);
    return failed ? error_set(e, -ECANCELED, "%s", w->error.text) : 0;
}

/* ---- the frame ---- */

/* The address with the port that was bound in the place of what may have been 0. */
static int fix_port(struct listen_address *a, uint16_t port)
{
    if (port == 0) /* a unix socket */
        return 0;
    const char *colon = strrchr(a->address, ':');
    char *fixed = NULL;
    if (asprintf(&fixed, "%.*s:%u", (int)(colon - a->address), a->address, port) < 0)
        return -ENOMEM;
    free((char *)a->address);
    a->address = fixed;
    return 0;
}

static int open_listener(struct worker *w, uint32_t i, bool alone, const struct worker *first,
                         struct error *e)
{
    const struct listen_address *a = &w->shared->addresses[i];
    struct io_listener **io = &w->listeners[i].io;
    enum io_port_sharing sharing = alone ? IO_PORT_ALONE : first ? IO_PORT_MORE : IO_PORT_FIRST;
    if (!io_address_is_unix(a->address))
        return io_listener_new(io, w->loop, a->address, sharing, e);
    return first ? io_listener_share(io, w->loop, first->listeners[i].io, e)
                 : io_listener_new_unix(io, w->loop, a->address, IO_UNIX_MODE, e);
}

int worker_init(struct worker *w, struct worker_shared *shared, uint32_t index, bool alone,
                const struct worker *first, struct error *e)
{
    w->shared = shared;
    w->index = index;
    w->shutdown_at = UINT64_MAX;
    w->shutdown = (struct io_post){.fn = shut_down, .arg = w};
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->changed, NULL);
    w->loop = io_loop_new();
    if (!w->loop)
        return error_set(e, -ENOMEM, "starting worker %u: no event loop: %s", index, strerror(errno));
    int reserved = io_loop_reserve(w->loop, shared->connections_max + LISTEN_FILES_BESIDE);
    if (reserved < 0)
        return error_set(e, reserved, "starting worker %u: no room for its connections: %s", index,
                         strerror(-reserved));
    for (uint32_t i = 0; i < shared->n_addresses; i++) {
        struct worker_listener *l = &w->listeners[i];
        int r = open_listener(w, i, alone, first, e);
        if (r < 0)
            return r;
        l->worker = w;
        if (!first && fix_port(&shared->addresses[i], io_listener_port(l->io)) < 0)
            return error_set(e, -ENOMEM, "listening: out of memory");
        l->origin = (struct connection_origin){&shared->certificates, i, shared->addresses[i].user,
                                               shared->addresses[i].address};
    }
    return 0;
}

void worker_release(struct worker *w)
{
    if (w->has_thread)
        pthread_join(w->thread, NULL);
    if (w->loop) { /* it never had a thread */
        close_listeners(w);
        io_loop_free(w->loop);
    }
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
}
