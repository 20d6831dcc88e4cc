/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One connection: a channel's bytes joined to an HTTP session. For gateway/listen only.
 */
#ifndef GATEWAY_LISTEN_CONNECTION_H
#define GATEWAY_LISTEN_CONNECTION_H

#include "gateway/listen/worker.h"

struct io_channel;

/* Takes the channel over: into the worker's list, or closed for a limit or for want of memory. */
void connection_accept(struct worker_listener *l, struct io_channel *channel);

/* Does what is due at the connection's deadline, and sets the next. */
void connection_tick(struct connection *c);

/* Tells the peer that this connection ends (GOAWAY, Connection: close). */
void connection_shutdown(struct connection *c);

/* Closes at once. */
void connection_close(struct connection *c);

/* Sends what a late answer made. */
void connection_late(struct connection *c);

struct connection *connection_next(const struct connection *c);
struct connection *connection_next_late(const struct connection *c);
struct connection *connection_of_deadline(struct deadline *d);
struct connection *connection_of_turn(struct turn *t);

/* Its turn has come: goes on with the input that waits. */
void connection_turn(struct connection *c);

/* Told by a connection that is gone; the worker may end now. In worker.c. */
void worker_connection_gone(struct worker *w);

/* Sets the worker's timer to the earliest deadline. In worker.c. */
void worker_arm(struct worker *w);

#endif
