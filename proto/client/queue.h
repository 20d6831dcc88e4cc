/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sending queue: requests that wait or are in flight, bounded in number and bytes. Any thread may reserve
 * and push; one thread pops.
 *
 * A reservation is room for one request of so many bytes; reservations are sums (client.h). The entries
 * exist from the start, so pushing under a reservation cannot fail: what was promised to a producer is kept.
 * Room is taken until send_queue_finish: what is in flight still counts. The bytes are charged to a budget as
 * well, reservations included.
 */
#ifndef PROTO_CLIENT_QUEUE_H
#define PROTO_CLIENT_QUEUE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "proto/base/budget.h"
#include "proto/client/body.h"
#include "proto/client/event.h"

struct send_entry {
    STAILQ_ENTRY(send_entry) next; /* in one of the lists; private */
    struct client_body *body;
    size_t charged; /* bytes of the queue it takes */
    uint64_t items, tag;
};

struct send_queue {
    pthread_mutex_t lock;
    struct budget *budget;   /* NULL: unlimited */
    size_t max_bytes, bytes; /* bytes: reserved, waiting and in flight */
    uint32_t max_requests, requests;
    bool closed;
    struct send_entry *entries;                /* all of them: max_requests */
    STAILQ_HEAD(, send_entry) unused, waiting; /* waiting: oldest first */

    /* The owner's, for what is offered: */
    size_t request_max;       /* of one, in plain bytes */
    void (*came)(void *user); /* after each, on its thread; NULL: nobody is told */
    void *user;
    struct {
        atomic_uint_fast64_t requests, items;
    } lost[CLIENT_SHUT_DOWN + 1]; /* that were not taken, by event kind: told from the loop */
};

/* 0 or -ENOMEM. Without a bound for one request until the owner sets it. */
int send_queue_init(struct send_queue *q, uint32_t max_requests, size_t max_bytes, struct budget *budget);

/* Gives the bodies that still wait back and frees; nothing may be in flight. */
void send_queue_release(struct send_queue *q);

/* Room for one request of n bytes: true, or nothing and false (full, or closed). Any thread. */
bool send_queue_reserve(struct send_queue *q, size_t n);

/* Gives a reservation back. Any thread. */
void send_queue_cancel(struct send_queue *q, size_t n);

/* Queues under a reservation of `reserved` bytes; keeps the body's size of it and gives the rest back. Takes
 * the reference. The entry keeps the number `tag`. False when the queue was closed meanwhile: then the
 * reservation is settled and the body given back. Any thread. */
bool send_queue_push(struct send_queue *q, struct client_body *body, size_t reserved, uint64_t items,
                     uint64_t tag);

/* What send_queue_push_newest threw out to make room. */
struct send_evicted {
    uint64_t requests, items;
};

/* Queues without a reservation, throwing out the oldest waiting requests as far as needed. True; or false
 * when there is no room even so (what is in flight and reserved fills it), or it is closed: the body is given
 * back. Any thread. */
bool send_queue_push_newest(struct send_queue *q, struct client_body *body, uint64_t items,
                            struct send_evicted *ret);

/* Queues a request under a reservation of `reserved` >= body->n bytes. Takes a reference of its own: the
 * caller still gives his back. `items` is what events report (samples, points). Any thread. */
void send_queue_offer(struct send_queue *q, struct client_body *body, size_t reserved, uint64_t items);

/* The same of a request that its owner knows by a number above 0, which its events bear. False: it is larger
 * than request_max or came after the close; then the reservation is settled and no event comes. */
bool send_queue_offer_tagged(struct send_queue *q, struct client_body *body, size_t reserved, uint64_t items,
                             uint64_t tag);

/* Queues a request without a reservation; where there is no room, the oldest ones that are waiting are
 * dropped, and if that is not enough, this one. Takes a reference of its own, likewise. Any thread. */
void send_queue_offer_newest(struct send_queue *q, struct client_body *body, uint64_t items);

/* Tells of requests that were offered and are lost since the last time; `why` is by the event's kind. Of the
 * thread that pops. */
void send_queue_tell_lost(struct send_queue *q, const char *const why[CLIENT_SHUT_DOWN + 1],
                          client_event_fn on_event, void *user);

/* The oldest waiting entry, now in flight, or NULL. */
struct send_entry *send_queue_pop(struct send_queue *q);

/* Settles an entry that was popped: gives its body back and frees its room. */
void send_queue_finish(struct send_queue *q, struct send_entry *entry);

/* From now on nothing more is taken; what waits stays. Any thread. */
void send_queue_close(struct send_queue *q);

/* Bytes taken. Any thread. */
size_t send_queue_bytes(struct send_queue *q);

#endif
