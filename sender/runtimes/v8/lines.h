/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines: where in its script a function is at an offset in its bytecode, and which line of the script that
 * is.
 */
#ifndef SENDER_RUNTIMES_V8_LINES_H
#define SENDER_RUNTIMES_V8_LINES_H

#include <stdint.h>

#include "sender/runtimes/v8/heap.h"

/* As much is read of a table of positions, and of a script, in bytes, where V8 has not counted its lines. */
#define V8_POSITIONS_MAX (64u << 10)
#define V8_SOURCE_MAX    (192u << 10)

/* The position in its script, in characters, of a function that is at `offset` (of a word) of a
 * BytecodeArray. False: it is not known. */
bool v8_position(const struct heap *h, uint64_t bytecode, uint32_t offset, uint32_t *ret);

/* The line that a position of a script is in, from 1 on. 0: it is not known, or too far from the beginning.
 */
uint32_t v8_line(const struct heap *h, uint64_t script, uint32_t position);

#endif
