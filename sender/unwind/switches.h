/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Code that goes from one stack to another is written by hand, and mostly says nothing of its frame. Two are
 * in nearly all that have coroutines: Boost.Context's jump_fcontext (PHP's fibers, folly's) and libcoro's
 * coro_transfer (Perl's Coro, Ruby's fibers). They are known by their instructions.
 */
#ifndef SENDER_UNWIND_SWITCHES_H
#define SENDER_UNWIND_SWITCHES_H

#include "proto/base/bytes.h"
#include "sender/unwind/cfi.h"

/* No switch is longer. */
#define SWITCH_MAX 128u

/* The switches in some code, and what begins a context of Boost.Context's, which is its root: on_row is
 * called where the rule changes, `address` being from the code's begin on. */
void switches_run(struct bytes code, cfi_row_fn on_row, void *user);

#endif
