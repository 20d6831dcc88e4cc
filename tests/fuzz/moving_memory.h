/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of a process that says what it likes, and each time something else: the input over and over, of
 * which the first byte says how much it is moved from one reading to the next. One at a time.
 */
#ifndef TESTS_FUZZ_MOVING_MEMORY_H
#define TESTS_FUZZ_MOVING_MEMORY_H

#include "sender/symbolize/elf/source.h"

static struct {
    const uint8_t *data;
    size_t n;
    uint64_t moved;
} memory;

static size_t read_some(void *of, uint64_t offset, void *to, size_t n)
{
    memory.moved += memory.data[0];
    for (size_t i = 0; i < n; i++)
        ((uint8_t *)to)[i] = memory.data[(offset + memory.moved + i) % memory.n];
    return n;
}

/* Anew, of n bytes, at least one. */
static struct source memory_of(const uint8_t *data, size_t n)
{
    memory.data = data;
    memory.n = n;
    memory.moved = 0;
    return source_read_by(read_some, NULL, INT64_MAX);
}

#endif
