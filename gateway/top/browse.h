/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `profgate top` where somebody sits at a terminal and the gateway keeps stacks: who is busy, over time, and
 * the flame graph, functions, callers and callees, or comparison with the time before of whom is chosen. Asks
 * /api/v1/look.
 */
#ifndef GATEWAY_TOP_BROWSE_H
#define GATEWAY_TOP_BROWSE_H

#include <stdbool.h>
#include <stdint.h>

#include "gateway/top/fetch.h"
#include "gateway/top/line.h"

struct browse;
struct io_loop;

struct browse_options {
    const struct top_url *url; /* its path is of no interest; must stay in place */
    const char *name;          /* of the gateway, for the first line */
    const char *note;          /* NULL: none */
    uint64_t interval, window; /* ns */
    bool ascii;
};

struct browse_events {
    void (*ended)(void *user); /* somebody wants to go */
    /* No stacks are kept there, or it is no gateway, or this no terminal: nothing was shown. */
    void (*unavailable)(void *user);
    void *user;
};

/* Asks first, and takes the terminal when there is an answer. NULL: memory is out. */
struct browse *browse_new(struct io_loop *loop, const struct browse_options *options,
                          const struct browse_events *events);

/* Gives the terminal back; what stood on it stays behind. NULL is fine. Returns NULL. */
struct browse *browse_free(struct browse *b);

#endif
