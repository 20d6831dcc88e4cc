/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request of raw profiles written anew, in pieces: in another form, below a limit, or cut where what goes
 * together ends. The request is decoded once more, by the thread that asks; a view is kept for each thread
 * that was here at once. Private to export/shared and the kinds.
 */
#ifndef GATEWAY_EXPORT_SHARED_PIECES_H
#define GATEWAY_EXPORT_SHARED_PIECES_H

#include "proto/base/budget.h"
#include "proto/client/body.h"
#include "proto/otlp/write/subset.h"

struct pieces;

struct pieces_options {
    struct subset_form form; /* what it points to stays */
    size_t request_max;      /* bytes of a piece; below it they are halved until they fit */
    struct budget *budget;   /* NULL: unlimited */
    /* Where a piece that begins with sample `from` ends at the latest, above `from`; NULL: nowhere. */
    uint32_t (*end)(const void *user, const struct profiles *view, uint32_t from);
    const void *user;
};

/* NULL: memory is out. */
struct pieces *pieces_new(const struct pieces_options *options);
struct pieces *pieces_free(struct pieces *x); /* NULL is fine; returns NULL */

/* Writes a plain body of layout 1.10. Each piece has `samples` of it, is malloc'd and the callee's. What
 * cannot be written for lack of memory, or does not fit alone, is missing from their sum. Any thread. */
void pieces_write(struct pieces *x, const struct client_body *body,
                  void (*piece)(void *user, uint8_t *p, size_t n, uint64_t samples), void *user);

#endif
