/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An exporter's requests that are on disk (proto/journal) until the destination has them.
 *
 * A request goes to the journal and, while the sender's queue has room, to that at once: raw profiles at the
 * same time, since safe is what is on disk or delivered; metrics when they are on disk. What finds no room
 * stays on disk, and so does all behind it, until it was read back in its turn. So the order of requests is
 * that of their numbers, and memory is bounded by the queue, disk by storage_size.
 */
#ifndef GATEWAY_EXPORT_SHARED_STORED_H
#define GATEWAY_EXPORT_SHARED_STORED_H

#include "gateway/export/shared/outcome.h"
#include "gateway/export/shared/sender.h"

struct stored;

/* Unwritten bodies in memory, beside those in the sender's queue. */
#define STORED_WAITING_MAX (64u << 20)

struct stored_options {
    const char *folder;
    uint64_t bytes_max, age_max_ns;
    uint64_t queue_bytes; /* of the sender */
    size_t request_max;   /* of a body out of its coding */
    bool keeps_dead;      /* what is refused for good, or out of time, stays as a file */
};

/* Opens (makes) the folder's journal of c->name and signal. `sender` and `outcome` outlive it. What an
 * earlier process left is sent first. 0, or negative with *e. The loop's thread. */
int stored_open(struct stored **ret, const struct stored_options *options, const struct export_context *c,
                struct sender sender, struct outcome *outcome, struct error *e);

/* As those of an exporter. Any thread. */
bool stored_reserve(struct stored *s, size_t n);
void stored_cancel(struct stored *s, size_t n);

/* Raw profiles under a reservation; `safe` is owed one, which is kept when they are on disk or delivered.
 * Takes a reference of its own. Any thread. */
void stored_push(struct stored *s, struct client_body *body, size_t reserved, uint64_t items,
                 struct promise *safe);

/* Metrics, to be sent when they are on disk; false: there is no room, and nothing was done. Any thread. */
bool stored_push_metrics(struct stored *s, struct client_body *body, uint64_t points);

/* All of a window was pushed: a process that ends without stored_drain says from here what was lost. */
void stored_window_ends(struct stored *s);

/* What became of a request; every event of the sender goes through here to the outcome. Loop's thread. */
void stored_event(struct stored *s, const struct client_event *event);

/* Bytes waiting, for the gauge. Any thread. */
size_t stored_bytes(struct stored *s);

/* The sender has stopped: closes the journal and frees, then calls done from the loop; at the deadline
 * without that (journal_leave), if the disk does not answer. */
void stored_drain(struct stored *s, uint64_t deadline_ns, void (*done)(void *user), void *user);

#endif
