/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A growing array of plain records, typed: `VEC(struct thing) things` has the members p, n and room, and
 * things.p[i] is the i-th of things.n. It doubles, so that adding one costs the same however many there are;
 * what it holds moves then: pointers into it last until the next call that adds.
 *
 *     VEC(struct thing) things = {0};
 *     if (vec_append(&things, (struct thing){.name = name}) < 0)
 *         return -ENOMEM;
 *
 * With things.budget set, its memory is charged there, and a spent budget is no memory. Elements are copied
 * as bytes: what they own is the owner's to release. One object, one thread.
 *
 * Not for what lives and dies in an arena (rules/source/list.h), for bytes and text (buffer.h, which has a
 * maximum) or strings with numbers (intern.h), nor where the number of elements is known beforehand.
 */
#ifndef PROTO_BASE_VEC_H
#define PROTO_BASE_VEC_H

#include <errno.h>
#include <stdint.h>

#include "proto/base/budget.h"
#include "proto/base/macros.h"

/* All zero is an empty one. One without a budget frees itself as `autofree VEC(struct thing) things = {0};`.
 */
#define VEC(type) VEC_AS(, type)

/* The same with a name, for what functions take: after VEC_AS(things, struct thing); it is struct things. */
#define VEC_AS(tag, type)                                           \
    struct tag {                                                    \
        type *p;               /* NULL until there is room */       \
        uint32_t n;            /* elements */                       \
        uint32_t room;         /* elements that p has memory for */ \
        struct budget *budget; /* charged for room; may be NULL */  \
    }

/* In all of these `v` is the address of a VEC; where they can fail they give 0, or -ENOMEM with nothing
 * changed. */

/* Room for `need` elements in all. */
#define vec_reserve(v, need) vec_need((v), (need), sizeof *(v)->p)

/* One more, at the end: vec_append(&v, value). The value may be one of the array's own. */
#define vec_append(v, ...)                                     \
    ({                                                         \
        __typeof__(v) vec_ = (v);                              \
        __typeof__(*vec_->p) vec_element_ = __VA_ARGS__;       \
        int vec_r_ = vec_reserve(vec_, (uint64_t)vec_->n + 1); \
        if (likely(vec_r_ == 0))                               \
            vec_->p[vec_->n++] = vec_element_;                 \
        vec_r_;                                                \
    })

/* `count` more, copied from the array `from`, which is another one. */
#define vec_append_all(v, from, count) \
    ((void)sizeof((v)->p == (from)), vec_add((v), (from), (count), sizeof *(v)->p))

/* At least `count` elements: those that were not there are zero. For arrays by number. */
#define vec_extend(v, count) vec_fill((v), (count), sizeof *(v)->p)

/* The address of the last one; the last one itself, taken off. There is one. */
#define vec_last(v) (&(v)->p[(v)->n - 1])
#define vec_pop(v)                        \
    ({                                    \
        __typeof__(v) vec_popped_ = (v);  \
        vec_popped_->p[--vec_popped_->n]; \
    })

/* No elements; the memory stays. */
#define vec_clear(v) ((void)((v)->n = 0))

/* Gives back room that is not used; where realloc refuses, it stays. */
#define vec_fit(v) vec_trim((v), sizeof *(v)->p)

/* Frees the memory, refunds the budget, and leaves an empty one with that budget. */
#define vec_release(v) vec_free((v), sizeof *(v)->p)

/* ---- what the macros call: v is a VEC of elements of `size` bytes ----------------------------- */

struct vec {
    void *p;
    uint32_t n, room;
    struct budget *budget;
};

int vec_grow(void *v, uint64_t need, size_t size);
int vec_add(void *v, const void *from, uint32_t count, size_t size);
int vec_fill(void *v, uint32_t count, size_t size);
void vec_trim(void *v, size_t size);
void vec_free(void *v, size_t size);

static inline int vec_need(void *v, uint64_t need, size_t size)
{
    return likely(need <= ((const struct vec *)v)->room) ? 0 : vec_grow(v, need, size);
}

#endif
