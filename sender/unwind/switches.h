/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Code that goes elsewhere and says nothing of its frame, known by its instructions.
 *
 * Code that goes from one stack to another is written by hand. Two are in nearly all that have coroutines:
 * Boost.Context's jump_fcontext (PHP's fibers, folly's) and libcoro's coro_transfer (Perl's Coro, Ruby's
 * fibers). And lld and mold make stubs to call functions of other files (.plt) without a word of them, where
 * GNU ld and gold say what their frame is.
 */
#ifndef SENDER_UNWIND_SWITCHES_H
#define SENDER_UNWIND_SWITCHES_H

#include "proto/base/bytes.h"
#include "sender/unwind/cfi.h"

/* No switch is longer. */
#define SWITCH_MAX 128u

/* The first switch in some code, or what begins a context of Boost.Context's, which is its root; the code
 * begins `at` bytes behind a multiple of 16. False: there is none. */
bool switches_find(struct bytes code, uint32_t at, size_t *ret_first);

/* The one that the code begins with and those that follow on it: on_row is called where the rule changes,
 * `address` being from the code's begin on. Where they end; 0: there is none. */
size_t switches_run(struct bytes code, uint32_t at, cfi_row_fn on_row, void *user);

#endif
