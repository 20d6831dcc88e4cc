/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What brings an exporter's requests away: a queue to which they are offered, and whoever empties it
 * (proto/client; a Kafka producer). Events come to the `sending` that it was made for. Private to
 * export/shared and the kinds.
 */
#ifndef GATEWAY_EXPORT_SHARED_SENDER_H
#define GATEWAY_EXPORT_SHARED_SENDER_H

#include "proto/client/queue.h"

struct sender {
    void *x; /* NULL: there is none yet */
    struct send_queue *queue;

    /* As client_shutdown and client_free. */
    void (*shutdown)(void *x, uint64_t deadline_ns, void (*done)(void *user), void *user);
    void (*free)(void *x);
};

#endif
