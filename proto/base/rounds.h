/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queues that take turns: whoever waits does so in the queue of his kind, the queues with somebody in them
 * form a ring, and each time the next queue's first is taken. So a kind with a thousand who wait has no more
 * turns than one with a single one. Intrusive: joining needs no memory and cannot fail. One thread, or under
 * its owner's lock.
 */
#ifndef PROTO_BASE_ROUNDS_H
#define PROTO_BASE_ROUNDS_H

#include <stdbool.h>
#include <stddef.h>

/* Embedded in what waits; all zero is one that does not. */
struct rounds_item {
    struct rounds_item *prev, *next;
    bool waits;
};

/* Embedded in its owner's row for a kind; all zero is an empty one. */
struct rounds_queue {
    struct rounds_item *first, *last;
    struct rounds_queue *prev, *next; /* in the ring */
};

struct rounds {
    struct rounds_queue *turn; /* whose it is; NULL: nobody waits */
};

/* To the end of the queue; a queue that was empty comes behind all others. The item does not wait yet. */
void rounds_join(struct rounds *r, struct rounds_queue *q, struct rounds_item *i);

/* Out of its queue, in which it waits. */
void rounds_leave(struct rounds *r, struct rounds_queue *q, struct rounds_item *i);

/* Whose turn it is, or NULL; it is the next one's then. The item stays where it is: rounds_leave. */
struct rounds_queue *rounds_next(struct rounds *r);

#endif
