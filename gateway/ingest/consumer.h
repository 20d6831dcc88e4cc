/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who wants a request's decoded view: counting, forwarding, a store of recent stacks. ingest has a list of
 * them, made by whoever joins the stages, and knows none by name.
 *
 * A request goes to all of them or to none: first each reserves the room that the request could take, in the
 * order of the list; when one has none, those before it take their reservation back, and the request is
 * refused before anything of it was counted. Then it is decoded and pushed, in order; that settles a
 * reservation. Where it cannot be decoded, or has no sample, each reservation is cancelled instead. Last,
 * when nobody looks at the view any more, the memory in which the request came may be taken over.
 *
 * All on the worker's thread, one request at a time; called by request, never by sample. A function that a
 * consumer has no use for is NULL.
 */
#ifndef GATEWAY_INGEST_CONSUMER_H
#define GATEWAY_INGEST_CONSUMER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/coding/received.h"
#include "proto/otlp/view/profiles.h"

/* Conditions of view_consumer.push. */
enum {
    VIEW_TOO_MUCH_WORK = 1, /* its samples ask for more than a request of its size may cost */
};

struct view_consumer {
    /* Room for a request of so many bytes. False: there is none just now; nothing is reserved. */
    bool (*reserve)(void *context, size_t body_bytes);
    const char *full; /* what the producer is told then; with `reserve` */
    /* Whether there never will be; NULL: there will. Then the producer is told this. */
    bool (*never_fits)(const void *context, size_t body_bytes);
    const char *too_large;
    /* Takes the view, which is valid during the call, and settles the reservation. `received`: what the view
     * was decoded from; NULL: the caller keeps that. 0, the condition above, or -ENOMEM: it has taken
     * nothing. Only the first of a list may say anything but 0, since what others have taken could not be
     * taken back.
     */
    int (*push)(void *context, const struct profiles *view, const struct received *received,
                size_t body_bytes);
    /* A request's own bytes, of any layout and with PROFILES_PADDING behind them, once it is settled: for who
     * looks at what was sent. `view`: as it was decoded, also where it has no samples; NULL: it was refused,
     * and `layout` is what it was said to have. Not of one that is to come again. */
    void (*look)(void *context, struct bytes body, enum profiles_layout layout, const struct profiles *view);
    /* The last call of a request that was pushed, with what `received` was: the view is gone, and the memory
     * may be taken out of the buffers. Not called where that is NULL. */
    void (*take_over)(void *context, struct received *received);
    /* Behind that: what the answer must wait for, the caller's to await; NULL: nothing. */
    struct promise *(*owed)(void *context);
    /* Gives the reservation back; after a push that was not 0, too. */
    void (*cancel)(void *context, size_t body_bytes);
    /* Bytes on the budget: now, and at the end of the last push before anything was given back. */
    size_t (*memory_used)(const void *context);
    size_t (*memory_peak)(const void *context);
    /* No request came for a while: what is kept for the next one may go. */
    void (*rest)(void *context);
    /* Between requests: all that is kept because it is faster is given back. */
    void (*forget)(void *context);
    /* Whose requests come from here on: ingest_from. */
    void (*from)(void *context, uint64_t client);
    void *context;
};

#endif
