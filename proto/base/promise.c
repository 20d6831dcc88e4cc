/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/promise.h"

#include <stdlib.h>

struct promise *promise_new(void)
{
    struct promise *p = calloc(1, sizeof *p);
    if (p)
        p->left = 1;
    return p;
}

struct promise *promise_free(struct promise *p)
{
    free(p);
    return NULL;
}

void promise_owe(struct promise *p)
{
    p->is_owed = true;
    atomic_fetch_add(&p->left, 1);
}

static void leave(struct promise *p)
{
    if (atomic_fetch_sub(&p->left, 1) > 1)
        return;
    p->kept(p->arg, p->forgives ? 0 : p->failed);
    free(p);
}

void promise_keep(struct promise *p, int r)
{
    if (r < 0)
        p->failed = r;
    leave(p);
}

void promise_await(struct promise *p, void (*kept)(void *arg, int r), void *arg)
{
    p->kept = kept;
    p->arg = arg;
    leave(p);
}
