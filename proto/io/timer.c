/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/io/timer.h"

#include <stdlib.h>
#include <uv.h>

#include "proto/base/clock.h"
#include "proto/base/macros.h"
#include "proto/io/loop.h"

struct io_timer {
    uv_timer_t uv;
    void (*fn)(void *user);
    void *user;
};

static void on_fire(uv_timer_t *uv)
{
    struct io_timer *t = container_of(uv, struct io_timer, uv);
    t->fn(t->user);
}

static void on_closed(uv_handle_t *handle)
{
    free(container_of((uv_timer_t *)handle, struct io_timer, uv));
}

struct io_timer *io_timer_new(struct io_loop *l, void (*fn)(void *user), void *user)
{
    struct io_timer *t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    t->fn = fn;
    t->user = user;
    uv_timer_init(io_loop_uv(l), &t->uv);
    return t;
}

void io_timer_set(struct io_timer *t, uint64_t at_ns)
{
    if (at_ns == UINT64_MAX) {
        uv_timer_stop(&t->uv);
        return;
    }
    uint64_t at = at_ns / NSEC_PER_MSEC + (at_ns % NSEC_PER_MSEC != 0), now = uv_now(t->uv.loop);
    uv_timer_start(&t->uv, on_fire, at > now ? at - now : 0, 0);
}

void io_timer_stop(struct io_timer *t)
{
    uv_timer_stop(&t->uv);
}

struct io_timer *io_timer_free(struct io_timer *t)
{
    if (t)
        uv_close((uv_handle_t *)&t->uv, on_closed);
    return NULL;
}
