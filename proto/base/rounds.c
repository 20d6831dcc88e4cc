/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/rounds.h"

/* In front of whose turn it is, so behind all others. */
static void join_ring(struct rounds *r, struct rounds_queue *q)
{
    if (!r->turn) {
        r->turn = q->prev = q->next = q;
        return;
    }
    q->next = r->turn;
    q->prev = r->turn->prev;
    q->prev->next = q->next->prev = q;
}

static void leave_ring(struct rounds *r, struct rounds_queue *q)
{
    q->prev->next = q->next;
    q->next->prev = q->prev;
    if (r->turn == q)
        r->turn = q->next == q ? NULL : q->next;
}

void rounds_join(struct rounds *r, struct rounds_queue *q, struct rounds_item *i)
{
    if (!q->first)
        join_ring(r, q);
    *i = (struct rounds_item){.prev = q->last, .waits = true};
    *(q->last ? &q->last->next : &q->first) = i;
    q->last = i;
}

void rounds_leave(struct rounds *r, struct rounds_queue *q, struct rounds_item *i)
{
    *(i->prev ? &i->prev->next : &q->first) = i->next;
    *(i->next ? &i->next->prev : &q->last) = i->prev;
    *i = (struct rounds_item){0};
    if (!q->first)
        leave_ring(r, q);
}

struct rounds_queue *rounds_next(struct rounds *r)
{
    struct rounds_queue *q = r->turn;
    if (q)
        r->turn = q->next;
    return q;
}
