/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How requests leave: a client with a bounded queue in memory; or, given a spool, by way of the disk
 * (proto/journal), one after the other, each removed when the receiver has acknowledged it, so that neither a
 * gateway that is away nor the end of this process, kill -9 included, costs any. A receiver that is away is
 * tried for ever: what bounds the waiting is room, not time, and where there is none the oldest go, counted.
 */
#ifndef SENDER_DELIVER_DELIVERY_H
#define SENDER_DELIVER_DELIVERY_H

#include <stdatomic.h>

#include "proto/base/buffer.h"
#include "proto/client/client.h"
#include "proto/io/loop.h"
#include "proto/journal/journal.h"

struct io_timer;

struct delivery_counts {
    uint64_t sent, rejected, lost; /* samples: acknowledged, of these refused; not deliverable */
    uint64_t requests, retries;
};

struct spool_counts {
    uint64_t requests, bytes; /* on disk, synced */
    uint64_t waiting;         /* requests that are not, yet: kill -9 would cost them */
    uint64_t dropped;         /* samples, for room or because the disk did not take or give them */
};

struct spool_options {
    const char *folder; /* NULL: memory only */
    uint64_t bytes_max;
    void (*begin)(void); /* first thing on the thread that writes; may be NULL */
};

struct delivery {
    struct client *client;
    struct journal *spool; /* NULL: memory only */
    struct delivery_counts counts;
    uint64_t underway;   /* number of the record that the client has; 0: none */
    uint64_t settled;    /* of the last one that was */
    uint64_t asked_last; /* of the last one there was when the next was asked for */
    bool is_reading, is_ending, was_left;
    struct journal_read read;
    struct io_loop *loop;
    struct io_timer *timer; /* the disk could not be read a moment ago; at the end: how long it may take */
    struct io_post post;    /* something is on disk, was read, or all is */
    atomic_bool has_read, is_over;
    atomic_uint_fast64_t dropped;
    atomic_uint_fast64_t unwritten;   /* samples that the spool has, and no commit has taken */
    atomic_uint_fast64_t quiet_since; /* when it took the first of them, or wrote any */
    void (*done)(void *user);
    void *done_user;
};

/* `options` as for client_new; retries are set here. 0, or negative with *e; then delivery_close has the
 * rest. */
int delivery_open(struct delivery *d, struct io_loop *loop, const struct client_options *options,
                  const struct spool_options *spool, struct error *e);

/* Sends the bytes in *out (taken), `items` samples. What cannot be taken is counted and logged. */
void delivery_push(struct delivery *d, struct buffer *out, uint64_t items);

/* Whether nothing waits on disk or for it. */
bool delivery_is_done(const struct delivery *d);

/* Whether the disk has been silent for long while something waits to be written: an NFS server that is away.
 * The process could end, but not execute itself anew. */
bool delivery_is_stuck(const struct delivery *d);

/* Zeros: there is no spool. */
struct spool_counts delivery_spool(const struct delivery *d);

/* As client_shutdown; what is on disk stays for the next start. What waits for the disk is written first, and
 * given up, counted as lost, where that takes more than 5 s. */
void delivery_shutdown(struct delivery *d, uint64_t deadline_ns, void (*done)(void *user), void *user);

/* Before the loop is freed, and at the end of the process: what a disk that does not answer has is left to
 * it.
 */
void delivery_close(struct delivery *d);

#endif
