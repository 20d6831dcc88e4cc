/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A growing array in an arena: what it outgrows stays behind until the arena goes, at most as much again.
 */
#ifndef RULES_SOURCE_LIST_H
#define RULES_SOURCE_LIST_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "proto/base/arena.h"

struct list {
    void *items;
    uint32_t n, cap;
};

/* Room for one more item of `size` bytes, zeroed and counted; NULL when memory is out. Moves the others. */
static inline void *list_add(struct list *l, struct arena *arena, size_t size)
{
    if (l->n == l->cap) {
        uint32_t cap = l->cap ? l->cap * 2 : 4;
        void *items = arena_alloc(arena, cap * size);
        if (!items)
            return NULL;
        if (l->n > 0)
            memcpy(items, l->items, l->n * size);
        l->items = items;
        l->cap = cap;
    }
    void *item = (char *)l->items + (size_t)l->n++ * size;
    return memset(item, 0, size);
}

/* One more, a copy of the item at this address. False: memory is out. */
#define list_append(l, arena, item) list_copy((l), (arena), (item), sizeof *(item))

static inline bool list_copy(struct list *l, struct arena *arena, const void *from, size_t size)
{
    void *item = list_add(l, arena, size);
    if (item)
        memcpy(item, from, size);
    return item != NULL;
}

#endif
