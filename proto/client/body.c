/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/client/body.h"

#include <stdlib.h>

struct client_body *client_body_new(uint8_t *p, size_t n)
{
    struct client_body *b = malloc(sizeof *b);
    if (!b) {
        free(p);
        return NULL;
    }
    atomic_init(&b->refs, 1);
    b->p = p;
    b->n = n;
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
