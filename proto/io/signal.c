/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/io/signal.h"

#include <signal.h>
#include <stdlib.h>
#include <uv.h>

#include "proto/base/macros.h"
#include "proto/io/loop.h"

struct io_signal {
    uv_signal_t uv;
    void (*fn)(void *user, int signum);
    void *user;
};

static void on_signal(uv_signal_t *uv, int signum)
{
    struct io_signal *s = container_of(uv, struct io_signal, uv);
    s->fn(s->user, signum);
}

static void on_closed(uv_handle_t *handle)
{
    free(container_of((uv_signal_t *)handle, struct io_signal, uv));
}

struct io_signal *io_signal_new(struct io_loop *l, int signum, void (*fn)(void *user, int signum), void *user)
{
    struct io_signal *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->fn = fn;
    s->user = user;
    if (uv_signal_init(io_loop_uv(l), &s->uv) < 0) {
        free(s);
        return NULL;
    }
    uv_unref((uv_handle_t *)&s->uv); /* waiting for a signal is no reason to go on */
    if (uv_signal_start(&s->uv, on_signal, signum) < 0)
        return io_signal_free(s);
    return s;
}

struct io_signal *io_signal_free(struct io_signal *s)
{
    if (s)
        uv_close((uv_handle_t *)&s->uv, on_closed);
    return NULL;
}

void io_signal_hold(int signum, bool holds)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, signum);
    pthread_sigmask(holds ? SIG_BLOCK : SIG_UNBLOCK, &set, NULL);
}
