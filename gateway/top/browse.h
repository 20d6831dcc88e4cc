/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `profgate top` where somebody sits at a terminal and the gateway keeps stacks: who is busy, over time, and
 * the flame graph, functions, callers and callees, or comparison with the time before of whom is chosen. Asks
 * /api/v1/look.
 */
#ifndef GATEWAY_TOP_BROWSE_H
#define GATEWAY_TOP_BROWSE_H

#include "gateway/top/browse_options.h"

struct browse;
struct io_loop;

/* Asks first, and takes the terminal when there is an answer. NULL: memory is out. */
struct browse *browse_new(struct io_loop *loop, const struct browse_options *options,
                          const struct browse_events *events);

/* Gives the terminal back; what stood on it stays behind. NULL is fine. Returns NULL. */
struct browse *browse_free(struct browse *b);

#endif
