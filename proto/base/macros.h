/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The few words the whole tree shares: cleanup on scope exit, visible moves, branch hints.
 */
#ifndef PROTO_BASE_MACROS_H
#define PROTO_BASE_MACROS_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#define likely(x)                       __builtin_expect(!!(x), 1)
#define unlikely(x)                     __builtin_expect(!!(x), 0)
#define ARRAY_LEN(a)                    (sizeof(a) / sizeof *(a))
#define container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

/* Runs fn(&variable) when the variable's scope ends. */
#define cleanup(fn) __attribute__((cleanup(fn)))

/* Moves a pointer out of a variable, leaving NULL: the reader sees the change of owner in one token. */
#define take_ptr(p)                                            \
    ({                                                         \
        __typeof__(p) *take_at_ = &(p), take_was_ = *take_at_; \
        *take_at_ = NULL;                                      \
        take_was_;                                             \
    })

/* Moves a file descriptor out of a variable, leaving -1. */
static inline int take_fd(int *fd)
{
    int was = *fd;
    *fd = -1;
    return was;
}

static inline void cleanup_free(void *p)
{
    free(*(void **)p);
}

static inline void cleanup_close(int *fd)
{
    if (*fd >= 0)
        close(*fd);
}

#define autofree  cleanup(cleanup_free)
#define autoclose cleanup(cleanup_close)

/* Each argument is evaluated once; the numbered names let one stand inside the other. */
#define min_of(a, b) MIN_OF(a, b, __COUNTER__)
#define max_of(a, b) MAX_OF(a, b, __COUNTER__)

#define PASTE_(a, b) a##b
#define PASTE(a, b)  PASTE_(a, b)
#define MIN_OF(a, b, id)                                                               \
    ({                                                                                 \
        __typeof__(a) PASTE(min_a_, id) = (a);                                         \
        __typeof__(b) PASTE(min_b_, id) = (b);                                         \
        PASTE(min_a_, id) < PASTE(min_b_, id) ? PASTE(min_a_, id) : PASTE(min_b_, id); \
    })
#define MAX_OF(a, b, id)                                                               \
    ({                                                                                 \
        __typeof__(a) PASTE(max_a_, id) = (a);                                         \
        __typeof__(b) PASTE(max_b_, id) = (b);                                         \
        PASTE(max_a_, id) > PASTE(max_b_, id) ? PASTE(max_a_, id) : PASTE(max_b_, id); \
    })

/* What a comparison says, as of qsort(3): below 0, 0 or above it, as a is to b. Of several, the first that
 * differ decide: order_of(x->file, y->file) ?: order_of(x->line, y->line). */
#define order_of(a, b)                                 \
    ({                                                 \
        __auto_type order_a_ = (a);                    \
        __auto_type order_b_ = (b);                    \
        (order_a_ > order_b_) - (order_a_ < order_b_); \
    })

/* Binary search: the first i below n for which `condition`, which i is the name of, holds; n if none. It
 * holds for all behind one that it holds for. */
#define first_where(n, i, condition)        \
    ({                                      \
        uint32_t from_ = 0, left_ = (n);    \
        while (left_ > 0) {                 \
            uint32_t i = from_ + left_ / 2; \
            if (condition) {                \
                left_ /= 2;                 \
            } else {                        \
                left_ -= left_ / 2 + 1;     \
                from_ = i + 1;              \
            }                               \
        }                                   \
        from_;                              \
    })

/* Whether this is built for AddressSanitizer: its search for leaks is a process that traces this one, and
 * stops each of its threads. */
#if defined(__SANITIZE_ADDRESS__)
#define IS_TRACED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define IS_TRACED 1
#endif
#endif
#ifndef IS_TRACED
#define IS_TRACED 0
#endif

#endif
