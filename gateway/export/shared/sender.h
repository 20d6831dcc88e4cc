/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What brings an exporter's requests away: a queue of its own and whoever empties it (proto/client; a Kafka
 * producer). What its functions promise is written in proto/client/client.h; events come to the `sending`
 * that it was made for. Private to export/shared and the kinds.
 */
#ifndef GATEWAY_EXPORT_SHARED_SENDER_H
#define GATEWAY_EXPORT_SHARED_SENDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/client/body.h"

struct client;

struct sender_verbs {
    bool (*reserve)(void *x, size_t n);
    void (*cancel)(void *x, size_t n);
    void (*push)(void *x, struct client_body *body, size_t reserved, uint64_t items);
    bool (*push_tagged)(void *x, struct client_body *body, size_t reserved, uint64_t items, uint64_t tag);
    void (*push_newest)(void *x, struct client_body *body, uint64_t items);
    size_t (*queued_bytes)(void *x);
    void (*shutdown)(void *x, uint64_t deadline_ns, void (*done)(void *user), void *user);
    void (*free)(void *x);
};

struct sender {
    const struct sender_verbs *verbs; /* NULL: there is none yet */
    void *x;
};

/* One that is a client. */
struct sender sender_of_client(struct client *x);

static inline bool sender_reserve(const struct sender *s, size_t n)
{
    return s->verbs->reserve(s->x, n);
}

static inline void sender_cancel(const struct sender *s, size_t n)
{
    s->verbs->cancel(s->x, n);
}

static inline void sender_push(const struct sender *s, struct client_body *body, size_t reserved,
                               uint64_t items)
{
    s->verbs->push(s->x, body, reserved, items);
}

static inline bool sender_push_tagged(const struct sender *s, struct client_body *body, size_t reserved,
                                      uint64_t items, uint64_t tag)
{
    return s->verbs->push_tagged(s->x, body, reserved, items, tag);
}

static inline void sender_push_newest(const struct sender *s, struct client_body *body, uint64_t items)
{
    s->verbs->push_newest(s->x, body, items);
}

static inline size_t sender_queued_bytes(const struct sender *s)
{
    return s->verbs->queued_bytes(s->x);
}

#endif
