/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of a request, plain or in a content coding, shared by the destinations that send it:
 * reference-counted and never changed (OTLP specification "Multi-Destination Exporting": queues share
 * immutable data).
 */
#ifndef PROTO_CLIENT_BODY_H
#define PROTO_CLIENT_BODY_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/bytes.h"
#include "proto/coding/coding.h"

struct client_body {
    atomic_uint refs;
    enum coding coding;   /* of the bytes: one whole member or frame; CODING_IDENTITY: they are plain */
    enum coding received; /* in which it came to us, plain bytes too (CLIENT_COMPRESS_AS_RECEIVED);
                             CODING_UNKNOWN: it did not, it was made here */
    size_t n, n_plain;    /* n_plain: out of the coding */
    uint8_t *p;
};

/* One reference to n malloc'd plain bytes, which it takes over, on failure too (they are freed then). NULL:
 * memory is out. */
struct client_body *client_body_new(uint8_t *p, size_t n);

/* The same of a request that came in the coding `received`; of bytes that are still in it n_plain says what
 * they become, of plain ones it is n and `coding` CODING_IDENTITY. */
struct client_body *client_body_received(uint8_t *p, size_t n, enum coding coding, size_t n_plain,
                                         enum coding received);

/* One more reference. Any thread. */
struct client_body *client_body_ref(struct client_body *b);

/* Gives one reference back; the last one frees. NULL is fine. Returns NULL. Any thread. */
struct client_body *client_body_unref(struct client_body *b);

static inline struct bytes client_body_bytes(const struct client_body *b)
{
    return bytes_of(b->p, b->n);
}

#endif
