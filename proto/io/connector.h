/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One attempt to connect: resolve, try each address in turn, give a channel or the reason why not.
 */
#ifndef PROTO_IO_CONNECTOR_H
#define PROTO_IO_CONNECTOR_H

#include <stdint.h>

struct io_channel;
struct io_connector;
struct io_loop;

/* How it ended: a channel (not started, the callee's), or NULL with -errno and words for a person
 * ("connecting to 10.0.0.7:4317: connection refused"; valid during the call). -ETIMEDOUT: the time was up.
 * -EHOSTUNREACH: the name cannot be resolved. The connector is gone when this is called. */
typedef void (*io_connect_fn)(void *user, struct io_channel *c, int error, const char *message);

/* Begins to connect to host (a name or an address without brackets; "unix:/path" with any port is a unix
 * socket). Names but localhost are resolved on libuv's thread pool. When several addresses answer to the
 * name, each has its share of the time. `done` is called exactly once, never from inside this function,
 * unless it is cancelled. NULL: memory is out. */
struct io_connector *io_connect(struct io_loop *l, const char *host, uint16_t port, uint64_t timeout_ns,
                                io_connect_fn done, void *user);

/* Forgets it; `done` is not called. NULL is fine. Returns NULL. */
struct io_connector *io_connector_cancel(struct io_connector *c);

#endif
