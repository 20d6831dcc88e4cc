/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A byte stream over a socket (TCP or unix): what was read is pushed to its user, what is written is sent or
 * kept until it can be. Comes from a listener or a connector; says nothing until io_channel_start.
 *
 * Back-pressure: while more than IO_CHANNEL_PENDING_MAX bytes of output wait, nothing is read; the user
 * should also write no more until on_drain.
 */
#ifndef PROTO_IO_CHANNEL_H
#define PROTO_IO_CHANNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/bytes.h"

struct io_channel;
struct io_loop;

/* Output kept for a peer that does not read, before we stop reading it. */
#define IO_CHANNEL_PENDING_MAX (256u << 10)
/* Read from one stream in one turn of the loop, so that one which is always ready does not keep the others
 * waiting. */
#define IO_CHANNEL_TURN_BYTES (128u << 10)
/* io_channel_finish: how long the peer may take for the rest, and what it may still send meanwhile. */
#define IO_CHANNEL_LINGER_NS    2000000000u
#define IO_CHANNEL_LINGER_BYTES (4u << 20)
#define IO_CHANNEL_ADDRESS_MAX  64

struct io_channel_events {
    /* Bytes from the peer, valid during the call. Never empty. */
    void (*on_read)(void *user, struct bytes in);
    /* The peer will send no more; we may still write. Once. */
    void (*on_eof)(void *user);
    /* All output went out, after some of it had to wait. May be NULL. */
    void (*on_drain)(void *user);
    /* The connection broke (-ECONNRESET, -EPIPE …). Close it; nothing but on_close comes after. Once. */
    void (*on_error)(void *user, int error);
    /* The socket is closed and the channel is gone: the last call, exactly once for each io_channel_close or
     * io_channel_finish, never from inside them. May be NULL. */
    void (*on_close)(void *user);
    /* n bytes came after io_channel_finish and were read away. May be NULL. */
    void (*on_read_away)(void *user, size_t n);
};

/* Begins reading. events must stay in place. May be called again on a started channel to change its user. */
void io_channel_start(struct io_channel *c, const struct io_channel_events *events, void *user);

/* Sends, or copies what cannot be sent now. 0, or -ENOMEM (nothing more should be written: close it). An
 * error of the connection itself comes through on_error later, never from inside. */
int io_channel_write(struct io_channel *c, struct bytes out);

/* The same of several parts, one after another, by one system call. */
#define IO_CHANNEL_PARTS_MAX 65u
int io_channel_write_parts(struct io_channel *c, const struct bytes *parts, uint32_t n);

/* Bytes that wait to be sent. */
size_t io_channel_pending(const struct io_channel *c);

/* Bytes of the peer's that our kernel has and that were not read yet. */
size_t io_channel_unread(const struct io_channel *c);

/* Bytes that the peer's kernel has not taken yet; over a unix socket, that the peer has not read. */
size_t io_channel_untaken(const struct io_channel *c);

/* Whether the peer ended its side in order after it had taken all: then it has read it, else the kernel would
 * have reset the connection. May be asked from within on_close, too. */
bool io_channel_was_taken(const struct io_channel *c);

/* Reading on or off, for a user with back-pressure of its own. On after start. */
void io_channel_read_pause(struct io_channel *c, bool paused);

/* Closes at once; what is pending is lost. No callback but on_close after this. NULL is fine. */
void io_channel_close(struct io_channel *c);

/* Closes at once, and so that the peer sees it whatever it has not read yet: a reset. */
void io_channel_reset(struct io_channel *c);

/* Closes politely: sends what is pending, tells the peer that nothing follows, reads its rest away (so that
 * TCP does not turn our last words into a reset, RFC 9112 §9.6) within the LINGER bounds, closes. No callback
 * but on_read_away and on_close after this. io_channel_close cuts it short. */
void io_channel_finish(struct io_channel *c);

/* The socket itself, for a channel on another loop (io_channel_adopt); this one closes as by
 * io_channel_close. Only where nothing is pending. A file descriptor, or -errno: nothing changed. */
int io_channel_detach(struct io_channel *c);

/* A channel of a socket that was detached, not started; the socket is its own, or closed. NULL: memory is
 * out. */
struct io_channel *io_channel_adopt(struct io_loop *l, int fd);

/* "127.0.0.1:40312", "[::1]:4317", "unix:uid=1000" (who the peer was when it connected, unix(7) SO_PEERCRED;
 * "unix" if the kernel does not say); in the channel. */
const char *io_channel_peer(const struct io_channel *c);

#endif
