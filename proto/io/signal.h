/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A signal, delivered as a call on a loop.
 */
#ifndef PROTO_IO_SIGNAL_H
#define PROTO_IO_SIGNAL_H

#include <stdbool.h>

struct io_loop;
struct io_signal;

/* Calls fn(user, signum) on the loop each time the process gets the signal. NULL when memory is out or the
 * signal cannot be caught. */
struct io_signal *io_signal_new(struct io_loop *l, int signum, void (*fn)(void *user, int signum),
                                void *user);

/* Gives the signal its former meaning back; NULL is fine. Returns NULL. */
struct io_signal *io_signal_free(struct io_signal *s);

/* Whether a signal waits, instead of being delivered to this thread or to those that it makes from now on: by
 * its default meaning it would end the process where no io_signal is there yet, or any more. It also waits
 * through execve(2), as signal(7) says. */
void io_signal_hold(int signum, bool holds);

#endif
