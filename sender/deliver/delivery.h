/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How requests leave: a client with a bounded queue in memory; or, given a spool, by way of the disk, one
 * after the other, each removed when the receiver has acknowledged it. A receiver that is away is tried for
 * ever: what bounds the waiting is room, not time.
 */
#ifndef SENDER_DELIVER_DELIVERY_H
#define SENDER_DELIVER_DELIVERY_H

#include "proto/base/buffer.h"
#include "proto/client/client.h"
#include "sender/deliver/spool.h"

struct io_loop;

struct delivery_counts {
    uint64_t sent, rejected, lost; /* samples: acknowledged, of these refused; not deliverable */
    uint64_t requests, retries;
};

struct delivery {
    struct client *client;
    struct spool *spool;         /* NULL: memory only */
    struct spool_entry underway; /* of the spool; .number 0: none */
    struct delivery_counts counts;
    bool is_ending;
};

/* Takes the spool over, which may be NULL. `options` as for client_new; retries are set here. 0, or
 * negative with *e. */
int delivery_open(struct delivery *d, struct io_loop *loop, const struct client_options *options,
                  struct spool *spool, struct error *e);

/* Sends the bytes in *out (taken), `items` samples. 0 or -errno: lost, and counted. */
int delivery_push(struct delivery *d, struct buffer *out, uint64_t items);

/* Whether nothing waits on disk. */
bool delivery_is_done(const struct delivery *d);

/* As client_shutdown; what is on disk stays for the next start. */
void delivery_shutdown(struct delivery *d, uint64_t deadline_ns, void (*done)(void *user), void *user);

void delivery_close(struct delivery *d);

#endif
