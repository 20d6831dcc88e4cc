/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/vec.h"

#include <stdlib.h>
#include <string.h>

/* The first memory that is taken, so that a few small elements do not move four times. */
#define FIRST_BYTES    256u
#define FIRST_ELEMENTS 4u

static uint64_t grown(uint32_t room, uint64_t need, size_t size)
{
    uint64_t more = room ? room : max_of((uint64_t)(FIRST_BYTES / size), (uint64_t)FIRST_ELEMENTS);
    while (more < need)
        more *= 2;
    return min_of(more, max_of(need, (uint64_t)UINT32_MAX));
}

int vec_grow(void *v, uint64_t need, size_t size)
{
    struct vec *x = v;
    size_t bytes, was = x->room * size;
    uint64_t room = need <= UINT32_MAX ? grown(x->room, need, size) : need;
    if (room > UINT32_MAX || __builtin_mul_overflow(room, size, &bytes) ||
        !budget_charge(x->budget, bytes - was))
        return -ENOMEM;
    void *p = realloc(x->p, bytes);
    if (!p) {
        budget_refund(x->budget, bytes - was);
        return -ENOMEM;
    }
    x->p = p;
    x->room = (uint32_t)room;
    return 0;
}

int vec_add(void *v, const void *from, uint32_t count, size_t size)
{
    struct vec *x = v;
    int r = vec_need(v, (uint64_t)x->n + count, size);
    if (r == 0 && count > 0)
        memcpy((char *)x->p + x->n * size, from, count * size);
    x->n += r == 0 ? count : 0;
    return r;
}

int vec_fill(void *v, uint32_t count, size_t size)
{
    struct vec *x = v;
    if (count <= x->n)
        return 0;
    int r = vec_need(v, count, size);
    if (r < 0)
        return r;
    memset((char *)x->p + x->n * size, 0, (count - x->n) * size);
    x->n = count;
    return 0;
}

void vec_trim(void *v, size_t size)
{
    struct vec *x = v;
    if (x->n == 0) {
        vec_free(v, size);
        return;
    }
    void *p = x->n < x->room ? realloc(x->p, x->n * size) : NULL;
    if (!p)
        return;
    budget_refund(x->budget, (x->room - x->n) * size);
    x->p = p;
    x->room = x->n;
}

void vec_free(void *v, size_t size)
{
    struct vec *x = v;
    free(x->p);
    budget_refund(x->budget, x->room * size);
    *x = (struct vec){.budget = x->budget};
}
