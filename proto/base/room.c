/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/room.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

#include "proto/base/macros.h"

/* Up to here what grows doubles; above, the slack would be real memory: half more. */
#define DOUBLE_MAX ((size_t)1 << 20)

/* Of what begins empty the size is usually known: whole pages, and no slack, which would be held for as long
 * as memory that is taken out is (room_take), or be a hole behind it. */
#define PAGE ((size_t)4 << 10)

/* So much of what is taken out may be slack: cut off, it would be a hole that nothing fits in, and the whole
 * one too small for the next of its size. */
#define SLACK_PART 8u

static size_t capacity_for(const struct buffer *b, size_t need)
{
    if (b->n == 0)
        return max_of((size_t)ROOM_MIN, (need + PAGE - 1) / PAGE * PAGE);
    if (need > DOUBLE_MAX)
        return max_of(need, b->cap + b->cap / 2);
    size_t cap = ROOM_MIN;
    while (cap < need)
        cap *= 2;
    return cap;
}

int room_make(struct buffer *b, size_t more, struct budget *budget)
{
    if (b->p && more <= b->cap - b->n)
        return 0;
    size_t need;
    if (__builtin_add_overflow(b->n, more, &need) || need > SIZE_MAX / 2)
        return -ENOMEM;
    size_t cap = capacity_for(b, need);
    if (b->max >= need)
        cap = min_of(cap, b->max);
    /* What fits without the slack should not be refused for it. */
    if (!budget_charge(budget, cap - b->cap)) {
        cap = need;
        if (!budget_charge(budget, cap - b->cap))
            return ROOM_OVER_BUDGET;
    }
    /* Nothing to keep: free first, so that realloc does not copy what nobody will read. */
    uint8_t *p;
    if (b->n == 0) {
        p = malloc(cap);
        if (p)
            free(b->p);
    } else {
        p = realloc(b->p, cap);
    }
    if (!p) {
        budget_refund(budget, cap - b->cap);
        return -ENOMEM;
    }
    b->p = p;
    b->cap = cap;
    return 0;
}

void room_release(struct buffer *b, struct budget *budget)
{
    budget_refund(budget, b->cap);
    buffer_release(b);
}

void room_clear(struct buffer *b, size_t keep_max, struct budget *budget)
{
    if (b->cap > keep_max)
        room_release(b, budget);
    b->n = 0;
}

uint8_t *room_take(struct buffer *b, struct budget *budget, size_t *ret_n)
{
    const size_t slack = b->cap - b->n;
    budget_refund(budget, b->cap);
    uint8_t *p = buffer_take(b, ret_n);
    uint8_t *cut = *ret_n > 0 && slack > *ret_n / SLACK_PART ? realloc(p, *ret_n) : NULL;
    return cut ? cut : p; /* what cannot be cut is fine as it is */
}
