/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listening sockets, TCP or unix, for one address on one loop.
 */
#ifndef PROTO_IO_LISTENER_H
#define PROTO_IO_LISTENER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/error.h"

struct io_channel;
struct io_listener;
struct io_loop;

/* Whether several loops of this process listen on one address (SO_REUSEPORT, socket(7)). The first one is
 * bound without sharing and opened for the others afterwards, so that a second process of ours is told
 * "address in use" instead of silently taking half of the connections. */
enum io_port_sharing {
    IO_PORT_ALONE = 0,
    IO_PORT_FIRST,
    IO_PORT_MORE,
};

#define IO_LISTEN_BACKLOG 1024 /* the kernel lowers it to net.core.somaxconn */
#define IO_UNIX_MODE      0660 /* of a unix socket's file: its owner and group may connect */

/* Connections taken in one turn of the loop, so that a flood of them leaves the others their turn: half a
 * millisecond's worth. */
#define IO_LISTENER_TURN_MAX 16u

/* An accepted connection, not started; the callee owns it from here (io_channel_start or io_channel_close).
 */
typedef void (*io_accept_fn)(void *user, struct io_channel *c);

/* Binds "host:port". The host is an IPv4 address, a bracketed IPv6 address, a name, or nothing, "*" or "[::]"
 * for every address of both families. A name is resolved here and now and every address of it is bound, as
 * far as possible
 * ("localhost" is 127.0.0.1 and ::1; one is enough). Port 0 picks a free one, the same for all addresses.
 * Accepts nothing before io_listener_start. 0; -EINVAL: no such address; -EADDRINUSE, -EACCES, -EADDRNOTAVAIL
 * …: *e says what and what to do.
 * "unix:…" or "unix-abstract:…" (unix_address.h) is io_listener_new_unix with IO_UNIX_MODE. */
int io_listener_new(struct io_listener **ret, struct io_loop *l, const char *address,
                    enum io_port_sharing sharing, struct error *e);

/* Binds a unix socket whose file has these permissions; listens at once, so that a second process can see
 * that it is not a leftover, and accepts from io_listener_start on. Sharing is not by address: the other
 * loops have io_listener_share. The file goes with this listener. Errors as above. */
int io_listener_new_unix(struct io_listener **ret, struct io_loop *l, const char *address, uint32_t mode,
                         struct error *e);

/* A listener on another loop for the same sockets: each connection goes to whoever takes it first. `of` must
 * not be freed by another thread during the call. 0 or -errno, *e says what. */
int io_listener_share(struct io_listener **ret, struct io_loop *l, const struct io_listener *of,
                      struct error *e);

/* Begins to listen(2) and accept. 0 or -errno (-EADDRINUSE also comes here), *e says what. */
int io_listener_start(struct io_listener *l, io_accept_fn on_accept, void *user, struct error *e);

/* Lets nobody in any more, and hands over the connections that the kernel has taken already and that wait:
 * freed with the listener they would be reset, and what their peers have sent with them. A started one only;
 * freeing is next. */
void io_listener_take_waiting(struct io_listener *l);

/* The port it is bound to; 0 for a unix socket. */
uint16_t io_listener_port(const struct io_listener *l);

/* Stops accepting and frees; NULL is fine. Returns NULL. */
struct io_listener *io_listener_free(struct io_listener *l);

/* Whether it is a unix socket's: "unix:…", "unix-abstract:…". */
bool io_address_is_unix(const char *address);

/* Splits "host:port" as above: the host without brackets ("" for every address) goes to host[cap]; a unix
 * socket's address goes there whole, with port 0. 0, -EINVAL or -ENAMETOOLONG, *e says what is wrong. */
int io_address_parse(const char *address, char *host, size_t cap, uint16_t *ret_port, struct error *e);

#endif
