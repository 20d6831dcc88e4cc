/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What words are called, kept once however many processes say the same: workers of one program have all their
 * names in common. What is equal is found by its content, so that nobody is told as called what another one
 * is.
 *
 * Each has holders, and goes with the last one.
 */
#ifndef SENDER_RUNTIMES_CALLS_H
#define SENDER_RUNTIMES_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sender/runtimes/runtime.h"

struct calls;
struct call; /* what one word is called: does not change */

/* Empty, held; NULL: memory is out. Any thread may do anything with it. */
struct calls *calls_new(void);
struct calls *calls_hold(struct calls *s);
/* The last one frees it: no call is held by then. */
void calls_let_go(struct calls *s);

/* A name and those of what it was inlined into, with its mark if `is_marked`; held. NULL: memory is out. */
const struct call *calls_keep(struct calls *s, const struct runtime_name *name, bool is_marked);

/* One more holder, who has it from one. */
const struct call *call_hold(struct calls *s, const struct call *call);
void call_let_go(struct calls *s, const struct call *call); /* NULL is fine */

/* What it says, without what it is inlined into: slices that are there as long as the call. */
struct runtime_name call_name(const struct call *call);

/* What it is inlined into, and a call that is named as its file, both held by it; NULL: there is none. */
const struct call *call_caller(const struct call *call);
const struct call *call_file(const struct call *call);

/* The bytes that it takes without those two. */
size_t call_size(const struct call *call);

/* Says that holders of so many bytes are to let go of them; or, negative, that they have. */
void calls_leave(struct calls *s, int64_t n);

/* The bytes of all there are but for those. */
size_t calls_size(struct calls *s);

#endif
