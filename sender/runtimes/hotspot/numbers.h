/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compressed numbers (HotSpot's unsigned5.hpp), as tables of lines and of inlined methods have them: one to
 * five bytes, each worth 64 times the one before; one below 192, and the fifth, is the last.
 */
#ifndef SENDER_RUNTIMES_HOTSPOT_NUMBERS_H
#define SENDER_RUNTIMES_HOTSPOT_NUMBERS_H

#include <stdbool.h>
#include <stdint.h>

#include "sender/symbolize/elf/cursor.h"

/* A stream of them in a process's memory. */
struct numbers {
    struct cursor bytes;
    bool no_zeros; /* no byte is 0, and each is one more than it is worth */
};

void numbers_begin(struct numbers *s, const struct source *memory, uint64_t at, uint32_t most, bool no_zeros);

/* The next number. False: there is none. */
bool numbers_next(struct numbers *s, uint32_t *ret);

/* Likewise one with a sign, which is in its lowest bit. */
bool numbers_signed(struct numbers *s, int32_t *ret);

#endif
