/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process's memory made by hand: what is at address n is byte n. One a test program.
 */
#ifndef TESTS_UNIT_SENDER_RUNTIMES_MADE_MEMORY_H
#define TESTS_UNIT_SENDER_RUNTIMES_MADE_MEMORY_H

#include <string.h>

#include "sender/symbolize/elf/source.h"

static uint8_t memory[1 << 16];
static uint64_t reads;          /* of those who resolve names */
static void (*on_read)(void);   /* NULL: it does not change underneath */
static uint64_t absent = ~0ull; /* in a page that is not there, for the steps */

static inline void put(uint64_t at, uint64_t value)
{
    memcpy(memory + at, &value, sizeof value);
}

static inline uint64_t get(uint64_t at)
{
    uint64_t value;
    memcpy(&value, memory + at, sizeof value);
    return value;
}

static size_t read_some(void *of, uint64_t offset, void *to, size_t n)
{
    reads++;
    memcpy(to, memory + offset, n);
    if (on_read)
        on_read();
    return n;
}

/* As those who resolve names read it. */
static inline struct source all(void)
{
    return source_read_by(read_some, NULL, sizeof memory);
}

/* As the steps that the kernel runs do; there is nothing at its very beginning, and in the page of `absent`.
 */
static inline int step_read(void *to, size_t n, uint64_t address)
{
    if (address < 64 || address > sizeof memory || n > sizeof memory - address ||
        (address >> 12 <= absent >> 12 && (address + n - 1) >> 12 >= absent >> 12))
        return -1;
    memcpy(to, memory + address, n);
    return 0;
}

#endif
