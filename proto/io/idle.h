/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work that is left for the next turn of a loop: while it is on, fn is called once in each turn, between
 * timers and sockets, and the loop does not sleep.
 *
 * A timer set to "now" from inside its own function is no such thing: libuv 1.44 calls it again in the same
 * turn, and the sockets never get theirs.
 */
#ifndef PROTO_IO_IDLE_H
#define PROTO_IO_IDLE_H

struct io_idle;
struct io_loop;

/* Off. NULL when memory is out. */
struct io_idle *io_idle_new(struct io_loop *l, void (*fn)(void *user), void *user);

/* On: fn is called for the first time in this turn, if its place in it is still to come, or in the next.
 * Nothing happens if it is on. */
void io_idle_start(struct io_idle *i);

void io_idle_stop(struct io_idle *i);

/* Stops and frees it; NULL is fine. Returns NULL. May be called from fn. */
struct io_idle *io_idle_free(struct io_idle *i);

#endif
