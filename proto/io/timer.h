/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A one-shot timer on a loop.
 */
#ifndef PROTO_IO_TIMER_H
#define PROTO_IO_TIMER_H

#include <stdint.h>

struct io_loop;
struct io_timer;

/* Not running yet. NULL when memory is out. */
struct io_timer *io_timer_new(struct io_loop *l, void (*fn)(void *user), void *user);

/* Calls fn once at the monotonic time at_ns (rounded up to a millisecond), or as soon as possible if that has
 * passed; replaces an earlier setting. UINT64_MAX stops it. */
void io_timer_set(struct io_timer *t, uint64_t at_ns);

void io_timer_stop(struct io_timer *t);

/* Stops and frees it; NULL is fine. Returns NULL. May be called from fn. */
struct io_timer *io_timer_free(struct io_timer *t);

#endif
