/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/client/body.h"

#include <stdlib.h>

struct client_body *client_body_new(uint8_t *p, size_t n)
{
    return client_body_received(p, n, CODING_IDENTITY, n, CODING_UNKNOWN);
}

struct client_body *client_body_received(uint8_t *p, size_t n, enum coding coding, size_t n_plain,
                                         enum coding received)
{
    struct client_body *b = malloc(sizeof *b);
    if (!b) {
        free(p);
        return NULL;
    }
    atomic_init(&b->refs, 1);
    b->coding = coding;
    b->received = received;
    b->p = p;
    b->n = n;
    b->n_plain = n_plain;
    return b;
}

struct client_body *client_body_ref(struct client_body *b)
{
    atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);
    return b;
}

struct client_body *client_body_unref(struct client_body *b)
{
    if (b && atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel) == 1) {
        free(b->p);
        free(b);
    }
    return NULL;
}
