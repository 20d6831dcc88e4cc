/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stacks whose weight is not known yet: taken as a thread left the CPU or a request went to a device, and
 * kept here by ticket until that is over.
 */
#ifndef SENDER_COLLECT_PENDING_H
#define SENDER_COLLECT_PENDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/sample.h"

/* Every thread of a large host may wait at once; what is above makes the oldest go, counted. */
#define PENDING_MAX   65536u
#define PENDING_BYTES (32u << 20)

struct pending_stack {
    struct pending_stack *next;          /* of the same slot; private */
    struct pending_stack *older, *newer; /* private */
    struct sample_head head;
    uint64_t body[]; /* SAMPLE_BODY_BYTES */
};

/* A weight that came before its stack, which was on its way through user space (SAMPLE_REST). */
struct pending_value {
    uint64_t ticket, value, time;
};

/* Of these the latest, by ticket. */
#define PENDING_VALUES 1024u

/* Zeroed is empty. */
struct pending {
    struct pending_stack **slot;
    struct pending_stack *oldest, *newest;
    struct pending_value *value; /* PENDING_VALUES; NULL: none yet */
    uint32_t n;
    size_t bytes;
    uint64_t dropped; /* for want of room or memory */
};

/* Keeps a stack; head->ticket is not 0. */
void pending_add(struct pending *p, const struct sample_head *head, const uint64_t *body);

/* Takes the stack of a ticket out: the caller frees it. NULL: there is none. */
struct pending_stack *pending_take(struct pending *p, uint64_t ticket);

/* Keeps what a SAMPLE_VALUE says for a stack that is not there yet. */
void pending_value(struct pending *p, const struct sample_head *head);

/* Takes that out. False: there is none. */
bool pending_take_value(struct pending *p, uint64_t ticket, struct pending_value *ret);

void pending_release(struct pending *p);

#endif
