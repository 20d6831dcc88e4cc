/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/io/idle.h"

#include <stdlib.h>
#include <uv.h>

#include "proto/base/macros.h"
#include "proto/io/loop.h"

struct io_idle {
    uv_idle_t uv;
    void (*fn)(void *user);
    void *user;
};

static void on_turn(uv_idle_t *uv)
{
    struct io_idle *i = container_of(uv, struct io_idle, uv);
    i->fn(i->user);
}

static void on_closed(uv_handle_t *handle)
{
    free(container_of((uv_idle_t *)handle, struct io_idle, uv));
}

struct io_idle *io_idle_new(struct io_loop *l, void (*fn)(void *user), void *user)
{
    struct io_idle *i = calloc(1, sizeof *i);
    if (!i)
        return NULL;
    i->fn = fn;
    i->user = user;
    uv_idle_init(io_loop_uv(l), &i->uv);
    return i;
}

void io_idle_start(struct io_idle *i)
{
    uv_idle_start(&i->uv, on_turn);
}

void io_idle_stop(struct io_idle *i)
{
    uv_idle_stop(&i->uv);
}

struct io_idle *io_idle_free(struct io_idle *i)
{
    if (i)
        uv_close((uv_handle_t *)&i->uv, on_closed);
    return NULL;
}
