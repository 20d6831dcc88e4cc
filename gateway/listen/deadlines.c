/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/listen/deadlines.h"

#include <errno.h>
#include <stdlib.h>

#define FIRST_CAP 64u

static void put(struct deadlines *h, uint32_t i, struct deadline *d)
{
    h->heap[i] = d;
    d->index = i;
}

static void sift(struct deadlines *h, struct deadline *d)
{
    uint32_t i = d->index;
    while (i > 1 && h->heap[i / 2]->at > d->at) {
        put(h, i, h->heap[i / 2]);
        i /= 2;
    }
    while (2 * i <= h->n) {
        uint32_t child = 2 * i;
        if (child < h->n && h->heap[child + 1]->at < h->heap[child]->at)
            child++;
        if (h->heap[child]->at >= d->at)
            break;
        put(h, i, h->heap[child]);
        i = child;
    }
    put(h, i, d);
}

int deadlines_add(struct deadlines *h, struct deadline *d, uint64_t at)
{
    if (h->n + 1 >= h->cap) {
        uint32_t cap = h->cap ? h->cap * 2 : FIRST_CAP;
        struct deadline **heap = realloc(h->heap, cap * sizeof *heap);
        if (!heap)
            return -ENOMEM;
        h->heap = heap;
        h->cap = cap;
    }
    d->at = at;
    put(h, ++h->n, d);
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
    struct deadline *last = h->heap[h->n--];
    if (last != d) {
        put(h, d->index, last);
        sift(h, last);
    }
    d->index = 0;
}

struct deadline *deadlines_first(const struct deadlines *h)
{
    return h->n > 0 ? h->heap[1] : NULL;
}

void deadlines_release(struct deadlines *h)
{
    free(h->heap);
    *h = (struct deadlines){0};
}
