/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The connections of one loop, a worker's or the administrative server's: who is looked at when, by one timer
 * for all deadlines and a queue for turns. On the loop's thread.
 */
#ifndef GATEWAY_LISTEN_CONNECTIONS_H
#define GATEWAY_LISTEN_CONNECTIONS_H

#include <stdatomic.h>

#include "gateway/listen/connection.h"

#define CONNECTIONS_BEST 4u /* that leave after one look because they fit best */

struct io_idle;
struct io_timer;

struct connections {
    struct connection_host host;
    LIST_HEAD(, connection_node) list; /* all */
    struct connection_node *late;      /* those with output that is to be said, and those that leave */
    uint32_t n;
    struct io_timer *timer, *late_timer, *look_timer;
    bool shutting_down;
    struct io_idle *turn_idle; /* on while somebody waits for a turn */
    atomic_uint *of_all;       /* workers together */
    uint32_t of_all_max;
    void (*is_empty)(void *user); /* the last one is gone */
    /* To the worker `to`, where connections_arrive is next; false: that one has stopped. Not called where the
     * balance has one worker. */
    bool (*give)(void *user, struct connection_node *n, uint32_t to);
    void *user;
};

/* loop, stats, factory, http, patience_ns and balance of the host, of_all, of_all_max, is_empty, give and
 * user are set, the rest is zero. 0 or -ENOMEM; either way connections_release is next at the end. */
int connections_init(struct connections *s);

/* Without connections; before the loop goes. */
void connections_release(struct connections *s);

/* Takes the channel over: as a connection, or closed for a limit or for want of memory. */
void connections_accept(struct connections *s, struct io_channel *channel,
                        const struct connection_origin *origin);

/* Takes a connection over that another worker gave. */
void connections_arrive(struct connections *s, struct connection_node *n);

/* Tells all peers that their connections end; closes all at once. */
void connections_shutdown(struct connections *s);
void connections_close(struct connections *s);

#endif
