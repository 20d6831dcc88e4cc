/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A heap of deadlines: which of many connections has to be looked at first. So a worker needs one timer,
 * however many connections it has.
 */
#ifndef GATEWAY_LISTEN_DEADLINES_H
#define GATEWAY_LISTEN_DEADLINES_H

#include "proto/base/vec.h"

/* Embedded in what has a deadline. */
struct deadline {
    uint64_t at;
    uint32_t index; /* in the heap, 1-based; 0: not in it */
};

struct deadlines {
    VEC(struct deadline *) heap; /* heap.p[1] is the earliest; .n counts heap.p[0], too */
};

/* Adds d (not in the heap). 0 or -ENOMEM. */
int deadlines_add(struct deadlines *h, struct deadline *d, uint64_t at);

/* Moves d, which is in the heap. */
void deadlines_set(struct deadlines *h, struct deadline *d, uint64_t at);

/* Takes d out; nothing happens if it is not in. */
void deadlines_remove(struct deadlines *h, struct deadline *d);

/* The earliest, or NULL. */
struct deadline *deadlines_first(const struct deadlines *h);

void deadlines_release(struct deadlines *h);

#endif
