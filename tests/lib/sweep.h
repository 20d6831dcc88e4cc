/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What comes after a failed allocation: a scenario that runs again and again, with its first allocation
 * failing, then its second, its third … until it runs through.
 *
 *     OOM_SWEEP(a_refused_push_counts_nothing)
 *     {
 *         struct store *s = store_new();
 *         if (!s)
 *             return;
 *         …
 *         store_free(s);
 *     }
 *
 * The scenario takes every refusal (NULL, -ENOMEM, -ENOBUFS) in its stride, checks what must hold all the
 * same, and frees everything: what it leaves behind fails the case. In builds without AddressSanitizer it
 * runs once, with nothing failing.
 */
#ifndef TESTS_LIB_SWEEP_H
#define TESTS_LIB_SWEEP_H

#include "tests/lib/unit.h"

/* How the allocations fail from the N-th on. */
enum sweep_how {
    SWEEP_ONCE = 1,    /* one, and the next succeeds */
    SWEEP_BURST = 2,   /* a few in a row: the way out of one failure finds memory no better */
    SWEEP_FOR_GOOD = 4 /* all */
};

/* Runs it for every N in each way of `how`; fails the case for leaks, naming N. */
void unit_sweep(const char *name, void (*scenario)(void), unsigned how);

/* How many allocations of this run have failed by now: what goes wrong without this becoming more is wrong.
 * Any thread. */
uint32_t sweep_failures(void);
static inline bool sweep_has_failed(void)
{
    return sweep_failures() > 0;
}

/* Between these two nothing fails: for what a scenario sets up for itself. No nesting. */
void sweep_pause(void);
void sweep_resume(void);

/* The rest of this run has all the memory it wants. */
void sweep_over(void);

/* For a library's own allocator hooks: as those of our code, they fail where they should. */
void *sweep_malloc(size_t n);
void *sweep_realloc(void *p, size_t n);

#define OOM_SWEEP_HOW(id, how)               \
    static void sweep_fn_##id(void);         \
    UNIT_CASE(id, true)                      \
    {                                        \
        unit_sweep(#id, sweep_fn_##id, how); \
    }                                        \
    static void sweep_fn_##id(void)

#define OOM_SWEEP(id) OOM_SWEEP_HOW(id, SWEEP_ONCE | SWEEP_BURST | SWEEP_FOR_GOOD)

#endif
