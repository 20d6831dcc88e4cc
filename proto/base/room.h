/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A buffer whose capacity is charged to a budget: out->cap bytes are on the account as long as it holds them.
 */
#ifndef PROTO_BASE_ROOM_H
#define PROTO_BASE_ROOM_H

#include <stddef.h>

#include "proto/base/budget.h"
#include "proto/base/buffer.h"

/* Conditions of room_make. */
enum {
    ROOM_OVER_BUDGET = 1, /* nothing changed */
};

/* Makes room for `more` bytes behind the filled ones; an empty buffer gets as much and no more, a
 * filled one grows by doubling from ROOM_MIN, by halves above 1 MiB.
 * The buffer's own maximum bounds what it grows by, not `more`. 0, ROOM_OVER_BUDGET or -ENOMEM. */
int room_make(struct buffer *b, size_t more, struct budget *budget);

/* The smallest capacity, so that small bodies fit without growing. */
#define ROOM_MIN (8u << 10)

/* Frees the memory and refunds it. */
void room_release(struct buffer *b, struct budget *budget);

/* Empties it; gives the memory back only if more than keep_max is held: giving pages back between requests
 * costs more than the request. */
void room_clear(struct buffer *b, size_t keep_max, struct budget *budget);

/* Takes the memory out, refunded and cut to little more than what is filled: the caller's to free. NULL when
 * there was none.
 */
uint8_t *room_take(struct buffer *b, struct budget *budget, size_t *ret_n);

#endif
