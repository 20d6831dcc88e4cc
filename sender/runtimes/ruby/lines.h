/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lines of an iseq: entries, each from an instruction on, and a table that says how many there are up to
 * one.
 */
#ifndef SENDER_RUNTIMES_RUBY_LINES_H
#define SENDER_RUNTIMES_RUBY_LINES_H

#include <stdint.h>

#include "sender/symbolize/elf/source.h"

/* As iseq.insns_info (iseq.h) is in memory: entries, numbers of their instructions or NULL, how many, the
 * table. */
struct ruby_lines {
    uint64_t entries, positions;
    uint32_t n, zero;
    uint64_t table;
};

/* The line that holds at instruction number `at` (in words), by entries of `size` bytes. 0: it has none, or
 * the table makes no sense. */
uint32_t ruby_line(const struct source *memory, const struct ruby_lines *lines, uint32_t size, uint32_t at);

#endif
