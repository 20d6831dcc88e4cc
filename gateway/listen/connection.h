/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One connection: a channel's bytes joined to an HTTP session. On the thread of its host's loop: a worker's,
 * or the administrative server's (gateway/admin).
 */
#ifndef GATEWAY_LISTEN_CONNECTION_H
#define GATEWAY_LISTEN_CONNECTION_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "gateway/listen/balance.h"
#include "gateway/listen/certificates.h"
#include "gateway/listen/deadlines.h"
#include "gateway/listen/options.h"
#include "gateway/listen/turns.h"
#include "gateway/stats/block.h"
#include "proto/base/buffer.h"
#include "proto/io/loop.h"

struct connection;
struct io_channel;

/* By what the host holds a connection; embedded in it. */
struct connection_node {
    LIST_ENTRY(connection_node) others; /* the host's own, and so is what follows */
    struct connection_node *next_late;
    bool is_late;
    struct balance_sum used; /* time spent on it */
    uint64_t leaves_until;   /* the window until which it is to leave, when it is idle … */
    uint32_t to;             /* …for this worker */
    struct {
        struct io_post post;
        void *to;
        int fd;
    } way; /* on its way there */
    struct deadline deadline;
    struct turn turn;
};

/* What a connection needs of whoever keeps it. */
struct connection_host {
    struct io_loop *loop;
    struct stats *stats;
    const struct listen_factory *factory;
    const struct http_server_limits *http;
    void *context;        /* what factory->worker_start returned */
    uint64_t patience_ns; /* a peer that reads nothing for so long is gone */
    struct turns turns;
    struct deadlines deadlines;
    struct balance balance;
    uint64_t answers_since;      /* the first of those that wait to be said was made then; UINT64_MAX: none */
    struct buffer out;           /* what is drained, on its way to a channel … */
    struct buffer plain, cipher; /* … and on its way through TLS, in and out */
    /* It ends now, and is freed after the call. */
    void (*gone)(struct connection_host *h, struct connection_node *node);
    /* Its deadline is earlier than it was. */
    void (*arm)(struct connection_host *h);
    /* It has put itself into `turns`: connection_turn, soon. */
    void (*turn)(struct connection_host *h);
    /* It is time for balance_look, soon. */
    void (*look)(struct connection_host *h);
    /* It has output that is to be said, or leaves: connection_late, in this turn of the loop or the next. */
    void (*late)(struct connection_host *h, struct connection_node *node);
    /* That, now, of all there are: not from inside a session. */
    void (*say_late)(struct connection_host *h);
};

/* The address it came in on. */
struct connection_origin {
    struct certificates *certificates; /* outlives it; NULL: plain */
    uint32_t address;                  /* of theirs */
    void *user;                        /* listen_address.user */
    const char *name;                  /* for people; outlives it */
};

/* NULL: it may not connect, or memory is out; the channel is still the caller's. Else connection_start is
 * next. */
struct connection *connection_accept(struct connection_host *h, struct io_channel *channel,
                                     const struct connection_origin *origin);

/* Takes the channel over; began: when its accepting did, for what it cost. */
void connection_start(struct connection *c, uint64_t began);

/* Does what is due at the connection's deadline, and sets the next. */
void connection_tick(struct connection *c);

/* Tells the peer that this connection ends (GOAWAY, Connection: close). */
void connection_shutdown(struct connection *c);

/* Closes at once; the second by RST, whatever its peer has not read. Not from within what its session tells.
 */
void connection_close(struct connection *c);
void connection_reset(struct connection *c);

/* Sends what answers made. */
void connection_late(struct connection *c);

/* Takes a connection that is idle away from its host, to which it may not be given back: on_close does not
 * come for it. Its socket; negative: it stays. */
int connection_leave(struct connection *c);

/* On another host's thread: goes on there. False: it is gone, and so is the socket. */
bool connection_arrive(struct connection *c, struct connection_host *h, int fd);

/* Its turn has come: goes on with the input that waits. */
void connection_turn(struct connection *c);

/* Whether it is to leave as soon as it is idle. */
static inline bool connection_leaves(const struct connection_node *n, const struct connection_host *h)
{
    return n->leaves_until > h->balance.window;
}

/* Whether nothing that was said is still on its way to the peer; of one that ends, whether nothing waits
 * here. */
bool connection_is_quiet(const struct connection *c);

/* Whether all that it was asked is answered and said: nothing of it is under way on this thread. */
bool connection_is_idle(const struct connection *c);

/* When it last said something; 0: never. */
uint64_t connection_spoke_at(const struct connection *c);

/* Whether the peer ended its side after it had taken all that was said: also while the connection closes. */
bool connection_was_taken(const struct connection *c);

struct connection_node *connection_node(struct connection *c);
struct connection *connection_of(struct connection_node *n);

/* Whose peer, as listen_factory and handlers know it, that is. */
struct connection *connection_of_peer(const struct http_peer *peer);

#endif
