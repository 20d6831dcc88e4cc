/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/listen/deadlines.h"

static void put(struct deadlines *h, uint32_t i, struct deadline *d)
{
    h->heap.p[i] = d;
    d->index = i;
}

static void sift(struct deadlines *h, struct deadline *d)
{
    uint32_t i = d->index;
    while (i > 1 && h->heap.p[i / 2]->at > d->at) {
        put(h, i, h->heap.p[i / 2]);
        i /= 2;
    }
    while (2 * i < h->heap.n) {
        uint32_t child = 2 * i;
        if (child + 1 < h->heap.n && h->heap.p[child + 1]->at < h->heap.p[child]->at)
            child++;
        if (h->heap.p[child]->at >= d->at)
            break;
        put(h, i, h->heap.p[child]);
        i = child;
    }
    put(h, i, d);
}

int deadlines_add(struct deadlines *h, struct deadline *d, uint64_t at)
{
    if (vec_extend(&h->heap, 1) < 0 || vec_append(&h->heap, d) < 0)
        return -ENOMEM;
    d->at = at;
    d->index = h->heap.n - 1;
    sift(h, d);
    return 0;
}

void deadlines_set(struct deadlines *h, struct deadline *d, uint64_t at)
{
    d->at = at;
    sift(h, d);
}

void deadlines_remove(struct deadlines *h, struct deadline *d)
{
    if (d->index == 0)
        return;
    struct deadline *last = vec_pop(&h->heap);
    if (last != d) {
        put(h, d->index, last);
        sift(h, last);
    }
    d->index = 0;
}

struct deadline *deadlines_first(const struct deadlines *h)
{
    return h->heap.n > 1 ? h->heap.p[1] : NULL;
}

void deadlines_release(struct deadlines *h)
{
    vec_release(&h->heap);
}
