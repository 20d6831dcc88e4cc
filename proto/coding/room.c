/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/coding/room.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

#include "proto/base/macros.h"

/* Up to here capacities are powers of two; above, the slack would be real memory: half more when growing,
 * none when the size is known from the beginning. */
#define DOUBLE_MAX ((size_t)1 << 20)

static size_t capacity_for(const struct buffer *b, size_t need)
{
    size_t cap = ROOM_MIN;
    while (cap < need && cap < DOUBLE_MAX)
        cap *= 2;
    if (cap >= need)
        return cap;
    return b->n == 0 ? need : max_of(need, b->cap + b->cap / 2);
}

int room_make(struct buffer *b, size_t more, struct budget *budget)
{
    if (b->p && more <= b->cap - b->n)
        return 0;
    size_t need;
    if (__builtin_add_overflow(b->n, more, &need) || need > SIZE_MAX / 2)
        return -ENOMEM;
    size_t cap = capacity_for(b, need);
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
    const size_t cap = b->cap;
    budget_refund(budget, cap);
    uint8_t *p = buffer_take(b, ret_n);
    uint8_t *cut = p && *ret_n > 0 && *ret_n < cap ? realloc(p, *ret_n) : NULL;
    return cut ? cut : p; /* what cannot be cut is fine as it is */
}
