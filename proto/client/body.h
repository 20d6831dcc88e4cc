/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of a request, shared by the destinations that send it: reference-counted and never changed (OTLP
 * specification "Multi-Destination Exporting": queues share immutable data).
 */
#ifndef PROTO_CLIENT_BODY_H
#define PROTO_CLIENT_BODY_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/bytes.h"

struct client_body {
    atomic_uint refs;
    size_t n;
    uint8_t *p;
};

/* One reference to n malloc'd bytes, which it takes over, on failure too (they are freed then). NULL: memory
 * is out. */
struct client_body *client_body_new(uint8_t *p, size_t n);

/* One more reference. Any thread. */
struct client_body *client_body_ref(struct client_body *b);

/* Gives one reference back; the last one frees. NULL is fine. Returns NULL. Any thread. */
struct client_body *client_body_unref(struct client_body *b);

static inline struct bytes client_body_bytes(const struct client_body *b)
{
    return bytes_of(b->p, b->n);
}

#endif
