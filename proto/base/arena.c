/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/arena.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define BLOCK_MIN (8u << 10)
#define BLOCK_MAX \
    (1u << 20) /* blocks double up to here; a larger single request gets a block of its own size */
#define ALIGN ARENA_EACH

struct arena_block {
    struct arena_block *next;
    size_t size; /* of data */
    _Alignas(ALIGN) uint8_t data[];
};

static struct arena_block *block_new(struct arena *a, size_t need)
{
    size_t size = a->blocks ? a->blocks->size * 2 : BLOCK_MIN;
    if (size > BLOCK_MAX)
        size = BLOCK_MAX;
    if (size < need)
        size = need;
    size_t total = sizeof(struct arena_block) + size;
    if (total < size || !budget_charge(a->budget, total))
        return NULL;
    struct arena_block *block = malloc(total);
    if (!block) {
        budget_refund(a->budget, total);
        return NULL;
    }
    block->size = size;
    block->next = a->blocks;
    a->blocks = block;
    a->at = block->data;
    a->end = block->data + size;
    return block;
}

void *arena_alloc(struct arena *a, size_t n)
{
    if (n > SIZE_MAX - ALIGN)
        return NULL;
    n = (n + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    if (n == 0)
        n = ALIGN;
    if ((size_t)(a->end - a->at) < n && !block_new(a, n))
        return NULL;
    void *p = a->at;
    a->at += n;
    return p;
}

void *arena_calloc(struct arena *a, size_t count, size_t size)
{
    size_t n;
    if (__builtin_mul_overflow(count, size, &n))
        return NULL;
    void *p = arena_alloc(a, n);
    if (p)
        memset(p, 0, n);
    return p;
}

void arena_reserve(struct arena *a, size_t n)
{
    if ((size_t)(a->end - a->at) < n)
        block_new(a, n);
}

struct bytes arena_copy(struct arena *a, struct bytes b)
{
    uint8_t *p = b.n == SIZE_MAX ? NULL : arena_alloc(a, b.n + 1);
    if (!p)
        return (struct bytes){0};
    if (b.n > 0)
        memcpy(p, b.p, b.n);
    p[b.n] = 0;
    return bytes_of(p, b.n);
}

char *arena_printf(struct arena *a, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *p = n < 0 ? NULL : arena_alloc(a, (size_t)n + 1);
    if (p)
        vsnprintf(p, (size_t)n + 1, format, again);
    va_end(again);
    return p;
}

static void block_free(struct arena *a, struct arena_block *block)
{
    budget_refund(a->budget, sizeof *block + block->size);
    free(block);
}

void arena_reset(struct arena *a, size_t keep_max)
{
    struct arena_block *keep = NULL;
    for (struct arena_block *block = a->blocks, *next; block; block = next) {
        next = block->next;
        if (block->size <= keep_max && (!keep || block->size > keep->size)) {
            if (keep)
                block_free(a, keep);
            keep = block;
        } else {
            block_free(a, block);
        }
    }
    a->blocks = keep;
    a->at = keep ? keep->data : NULL;
    a->end = keep ? keep->data + keep->size : NULL;
    if (keep)
        keep->next = NULL;
}

void arena_release(struct arena *a)
{
    arena_reset(a, 0);
}
