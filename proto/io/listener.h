/*
 * Listening TCP sockets for one address on one loop.
 */
#ifndef PROTO_IO_LISTENER_H
#define PROTO_IO_LISTENER_H

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

/* An accepted connection, not started; the callee owns it from here (io_channel_start or io_channel_close).
 */
typedef void (*io_accept_fn)(void *user, struct io_channel *c);

/* Binds "host:port". The host is an IPv4 address, a bracketed IPv6 address, a name, or nothing, "*" or "[::]"
 * for every address of both families. A name is resolved here and now and every address of it is bound, as
 * far as possible
 * ("localhost" is 127.0.0.1 and ::1; one is enough). Port 0 picks a free one, the same for all addresses.
 * Accepts nothing before io_listener_start. 0; -EINVAL: no such address; -EADDRINUSE, -EACCES, -EADDRNOTAVAIL
 * …: *e says what and what to do. */
int io_listener_new(struct io_listener **ret, struct io_loop *l, const char *address,
                    enum io_port_sharing sharing, struct error *e);

/* Begins to listen(2) and accept. 0 or -errno (-EADDRINUSE also comes here), *e says what. */
int io_listener_start(struct io_listener *l, io_accept_fn on_accept, void *user, struct error *e);

/* The port it is bound to. */
uint16_t io_listener_port(const struct io_listener *l);

/* Stops accepting and frees; NULL is fine. Returns NULL. */
struct io_listener *io_listener_free(struct io_listener *l);

/* Splits "host:port" as above: the host without brackets ("" for every address) goes to host[cap]. 0 or
 * -EINVAL, *e says what is wrong. */
int io_address_parse(const char *address, char *host, size_t cap, uint16_t *ret_port, struct error *e);

#endif
