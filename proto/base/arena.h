/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that is freed all at once: everything one request makes us hold.
 *
 * Resetting keeps the largest block, because giving pages back between requests costs more than the request
 * (41 µs of a request become 184).
 */
#ifndef PROTO_BASE_ARENA_H
#define PROTO_BASE_ARENA_H

#include <stddef.h>
#include <stdint.h>

#include "proto/base/budget.h"
#include "proto/base/bytes.h"

struct arena_block;

struct arena {
    struct arena_block *blocks; /* newest first */
    struct budget *budget;      /* may be NULL */
    uint8_t *at, *end;
};

#define ARENA_INIT(budget_) \
    {                       \
        .budget = (budget_) \
    }

/* n bytes, 16-aligned, not zeroed; NULL when memory or the budget is out. n = 0 gives a valid pointer. */
void *arena_alloc(struct arena *a, size_t n);

/* The same, zeroed, for count × size bytes (overflow gives NULL). */
void *arena_calloc(struct arena *a, size_t count, size_t size);

/* A copy with a NUL behind it; .p is NULL when memory is out. */
struct bytes arena_copy(struct arena *a, struct bytes b);

/* One block for the next n bytes, ARENA_EACH counted for each allocation besides its own; where there is no
 * memory for it, nothing. */
#define ARENA_EACH 16u
void arena_reserve(struct arena *a, size_t n);

/* A formatted string, or NULL. */
char *arena_printf(struct arena *a, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Forgets everything allocated and keeps the largest block, if it is at most keep_max bytes, for what comes
 * next. */
void arena_reset(struct arena *a, size_t keep_max);

/* Frees all blocks and refunds the budget; the arena may be used again. */
void arena_release(struct arena *a);

#endif
