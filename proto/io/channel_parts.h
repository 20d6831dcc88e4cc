/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a listener and a connector need to make a channel. For proto/io only.
 */
#ifndef PROTO_IO_CHANNEL_PARTS_H
#define PROTO_IO_CHANNEL_PARTS_H

#include <uv.h>

struct io_channel;
struct io_loop;

enum io_channel_kind { IO_CHANNEL_TCP, IO_CHANNEL_UNIX };

/* A channel with an initialised, unconnected handle inside; NULL when memory is out. */
struct io_channel *io_channel_new(struct io_loop *l, enum io_channel_kind kind);

uv_stream_t *io_channel_stream(struct io_channel *c);

/* Once it is connected: sets TCP_NODELAY (whole messages are written at once, so waiting for more only costs
 * latency) and learns the peer's address. */
void io_channel_connected(struct io_channel *c);

/* "127.0.0.1:40312", "[::1]:4317"; text has IO_CHANNEL_ADDRESS_MAX bytes. */
void io_channel_format_address(const struct sockaddr *a, char *text);

/* The two addresses of "localhost", ::1 first, as getaddrinfo(3) has them: known without asking anybody,
 * whatever /etc/hosts says (RFC 6761 §6.3), for a container or a chroot may have none. Returns how many there
 * are: 0 for any other host. */
#define IO_LOCALHOST_ADDRESSES 2u
uint32_t io_localhost_addresses(const char *host, uint16_t port, struct sockaddr_storage *ret);

#endif
