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

#include "proto/base/budget.h"
#include "proto/client/body.h"

struct send_entry {
    struct send_entry *next; /* in the waiting list or the free list; private */
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
    struct send_entry *entries; /* all of them: max_requests */
    struct send_entry *unused;
    struct send_entry *first, **last; /* waiting, oldest first */
};

/* 0 or -ENOMEM. */
int send_queue_init(struct send_queue *q, uint32_t max_requests, size_t max_bytes, struct budget *budget);

/* Gives the bodies that still wait back and frees; nothing may be in flight. */
void send_queue_release(struct send_queue *q);

/* Room for one request of n bytes: true, or nothing and false (full, or closed). Any thread. */
bool send_queue_reserve(struct send_queue *q, size_t n);

/* Gives a reservation back. Any thread. */
void send_queue_cancel(struct send_queue *q, size_t n);

/* Queues under a reservation of `reserved` bytes; keeps the body's size of it and gives the rest back. Takes
 * the reference. False when the queue was closed meanwhile: then the reservation is settled and the body
 * given back. Any thread. */
bool send_queue_push(struct send_queue *q, struct client_body *body, size_t reserved, uint64_t items);

/* The same, with a number that the entry keeps. */
bool send_queue_push_tagged(struct send_queue *q, struct client_body *body, size_t reserved, uint64_t items,
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

/* The oldest waiting entry, now in flight, or NULL. */
struct send_entry *send_queue_pop(struct send_queue *q);

/* Settles an entry that was popped: gives its body back and frees its room. */
void send_queue_finish(struct send_queue *q, struct send_entry *entry);

/* From now on nothing more is taken; what waits stays. Any thread. */
void send_queue_close(struct send_queue *q);

/* Bytes taken. Any thread. */
size_t send_queue_bytes(struct send_queue *q);

#endif
