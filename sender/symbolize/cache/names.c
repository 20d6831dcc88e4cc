/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/symbolize/cache/names.h"

#include <stdlib.h>

#include "proto/base/macros.h"

/* A set without ranges and users is kept no longer than this many windows: it knows nothing. */
#define EMPTY_WINDOWS 2u

static void drop(struct names *n, uint32_t i)
{
    ranges_release(&n->set[i]->ranges);
    free(n->set[i]);
    n->set[i] = n->set[--n->n];
}

/* Makes room for one set: the unused one that was in use the longest ago leaves. */
static bool make_room(struct names *n)
{
    uint32_t oldest = n->n;
    for (uint32_t i = 0; i < n->n; i++)
        if (n->set[i]->users == 0 && (oldest == n->n || n->set[i]->used < n->set[oldest]->used))
            oldest = i;
    if (oldest == n->n)
        return false;
    drop(n, oldest);
    n->evicted++;
    return true;
}

struct names_set *names_open(struct names *n, struct bytes key)
{
    key.n = min_of(key.n, (size_t)NAMES_KEY_MAX);
    for (uint32_t i = 0; i < n->n; i++) {
        struct names_set *s = n->set[i];
        if (key.n && bytes_eq(bytes_of(s->key, s->key_n), key)) {
            s->users++;
            return s;
        }
    }
    if (n->n == NAMES_SETS_MAX && !make_room(n))
        return NULL;
    struct names_set *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    if (key.n)
        memcpy(s->key, key.p, key.n);
    s->key_n = (uint32_t)key.n;
    s->users = 1;
    s->used = n->window;
    n->set[n->n++] = s;
    return s;
}

void names_close(struct names_set *set)
{
    if (set)
        set->users--;
}

size_t names_memory(const struct names *n)
{
    size_t bytes = n->places.bytes;
    for (uint32_t i = 0; i < n->n; i++)
        bytes += n->set[i]->ranges.all.room * sizeof(struct range) + sizeof(struct names_set);
    return bytes;
}

/* Writes the places that are still used into fresh tables: texts are shared, so they cannot leave one by one.
 */
static void rebuild(struct names *n)
{
    struct places fresh = {0};
    for (uint32_t i = 0; i < n->n; i++) {
        struct ranges *r = &n->set[i]->ranges;
        for (uint32_t j = 0; j < r->all.n; j++)
            r->all.p[j].place = places_move(&fresh, &n->places, r->all.p[j].place);
    }
    places_release(&n->places);
    n->places = fresh;
}

static int by_used(const void *a, const void *b)
{
    const struct names_set *const *x = a, *const *y = b;
    return order_of((*x)->used, (*y)->used);
}

/* Empties sets, the oldest first, with half of all ranges; at least one. */
static void empty_older_half(struct names *n)
{
    uint64_t all = 0, gone = 0;
    for (uint32_t i = 0; i < n->n; i++)
        all += n->set[i]->ranges.all.n;
    qsort(n->set, n->n, sizeof *n->set, by_used);
    for (uint32_t i = 0; i < n->n && gone * 2 < all; i++) {
        gone += n->set[i]->ranges.all.n;
        n->evicted += n->set[i]->ranges.all.n > 0;
        ranges_release(&n->set[i]->ranges);
        n->set[i]->may_stay = false; /* what is on disk has more than it will find again */
    }
}

void names_sweep(struct names *n, size_t max)
{
    for (uint32_t i = n->n; i-- > 0;) {
        const struct names_set *s = n->set[i];
        bool is_nameless = s->key_n == 0 || s->ranges.all.n == 0;
        if (s->users == 0 && is_nameless && n->window - s->used >= EMPTY_WINDOWS)
            drop(n, i);
    }
    n->window++;
    for (uint32_t ranges = 1; names_memory(n) > max && ranges > 0;) {
        empty_older_half(n);
        rebuild(n);
        ranges = 0;
        for (uint32_t i = 0; i < n->n; i++)
            ranges += n->set[i]->ranges.all.n;
    }
}

void names_release(struct names *n)
{
    while (n->n > 0)
        drop(n, n->n - 1);
    places_release(&n->places);
    *n = (struct names){0};
}
