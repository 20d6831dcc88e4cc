/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What there is to know of V8 by its file: constants that it exports for debuggers (v8dbg_…), which version
 * it is, and where the builtins are. An executable, or libnode; stripped ones as well.
 */
#ifndef SENDER_RUNTIMES_V8_BINARY_H
#define SENDER_RUNTIMES_V8_BINARY_H

#include <stdbool.h>

#include "bpf/v8.h"
#include "sender/symbolize/elf/source.h"

/* The last version of V8 that is known: 10.2 to 14.6 are Node 18 to 26. */
#define V8_MAJOR_LAST 14u

/* Whether a file has V8 in it. */
bool v8_binary_is(const struct source *file);

/* Fills a zeroed place, all of it. 0; RUNTIME_NOT_KNOWN: this version is not known, or was built with
 * compressed pointers. */
int v8_binary_place(struct v8_place *ret, const struct source *file);

#endif
