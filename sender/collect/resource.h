/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is said of a process: its resource, as the rules of --relabel leave it.
 */
#ifndef SENDER_COLLECT_RESOURCE_H
#define SENDER_COLLECT_RESOURCE_H

#include "proto/base/arena.h"
#include "sender/collect/request_facts.h"
#include "sender/collect/text.h"
#include "sender/collect/window.h"

/* Attributes of ours; with what it says of itself; and what rules may add. */
#define RESOURCE_OURS 25u
#define RESOURCE_MAX  (RESOURCE_OURS + IDENTITY_MAX + 32u)
/* Memory that is kept from one to the next. */
#define RESOURCE_TEXT_KEPT 65536u

/* All zero at first. */
struct resource {
    struct attr attr[RESOURCE_MAX]; /* until the next one is read, or the window is cleared */
    uint32_t n;
    /* private */
    char scratch[4][TEXT_MAX], created[32];
    struct pods_found pod;
    struct arena text;
};

/* Reads what is to be said of a process of a window that was named. Returns the share of its samples that are
 * to be sent, 0 … 1. */
double resource_read(struct resource *ret, const struct request_facts *facts,
                     const struct window_process *of);

static inline void resource_release(struct resource *r)
{
    arena_release(&r->text);
}

#endif
