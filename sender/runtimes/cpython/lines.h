/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lines of a code object: a table of steps through its instructions, in one of three forms.
 */
#ifndef SENDER_RUNTIMES_CPYTHON_LINES_H
#define SENDER_RUNTIMES_CPYTHON_LINES_H

#include <stdint.h>

#include "sender/symbolize/elf/source.h"

/* As much of a table is read: that of 65,535 instructions has a few bytes each. */
#define CPYTHON_LINES_MAX (256u << 10)

/* The line of instruction number `at` (units of 2 bytes) of a code object that begins at line `first`, by the
 * n bytes of its table at `address`; `minor` is the version. 0: it has none, or the table makes no sense. */
uint32_t cpython_line(const struct source *memory, uint64_t address, uint64_t n, uint32_t minor,
                      uint32_t first, uint32_t at);

#endif
