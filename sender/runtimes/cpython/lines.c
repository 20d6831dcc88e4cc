/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Up to 3.9 (Objects/lnotab_notes.txt): pairs of bytes, how many bytes of code further, how many lines
 * (signed) further; a line holds from where both steps lead to.
 *
 * 3.10 (PEP 626): pairs of bytes, the length of a range in bytes of code, how many lines (signed) it is from
 * the one before; -128: it has none.
 *
 * From 3.11 on (Objects/locations.md): entries, whose first byte has bit 7 set, the kind in 4 bits, and the
 * length in instructions, less one, in 3. What follows has bit 7 clear, but for two bytes of columns.
 */
#include "sender/runtimes/cpython/lines.h"

#include "proto/base/macros.h"

/* A table, read by pieces. */
struct table {
    const struct source *memory;
    uint64_t at, end;
    uint32_t i, n;
    uint8_t piece[4096];
};

/* The next byte; -1: there is none. */
static int next(struct table *t)
{
    if (t->i == t->n) {
        t->n = (uint32_t)min_of(t->end - t->at, (uint64_t)sizeof t->piece);
        if (t->n == 0 || !source_read(t->memory, t->at, t->piece, t->n))
            return -1;
        t->at += t->n;
        t->i = 0;
    }
    return t->piece[t->i++];
}

static uint32_t by_lnotab(struct table *t, uint32_t line, uint32_t at)
{
    for (uint32_t code = 0;;) {
        int bytes = next(t), lines = next(t);
        if (bytes < 0 || lines < 0)
            return line;
        code += (uint32_t)bytes;
        if (code > 2 * at)
            return line;
        line += (uint32_t)(int8_t)lines;
    }
}

#define NO_LINE_STEP (-128)

static uint32_t by_linetable(struct table *t, uint32_t line, uint32_t at)
{
    for (uint32_t code = 0;;) {
        int bytes = next(t), lines = next(t);
        if (bytes < 0 || lines < 0)
            return 0;
        bool has_line = (int8_t)lines != NO_LINE_STEP;
        if (has_line)
            line += (uint32_t)(int8_t)lines;
        code += (uint32_t)bytes;
        if (code > 2 * at)
            return has_line ? line : 0;
    }
}

/* Six bits a byte, the least first; bit 6 set in all but the last. */
static uint32_t varint(struct table *t)
{
    uint32_t value = 0;
    for (uint32_t shift = 0; shift < 32; shift += 6) {
        int byte = next(t);
        if (byte < 0)
            return 0;
        value |= (uint32_t)(byte & 63) << shift;
        if (!(byte & 64))
            break;
    }
    return value;
}

static uint32_t signed_varint(struct table *t)
{
    uint32_t value = varint(t);
    return value & 1 ? 0 - (value >> 1) : value >> 1;
}

enum { SHORT_LAST = 9, ONE_LINE = 10, ONE_LINE_LAST = 12, NO_COLUMNS = 13, LONG = 14, NONE = 15 };

static uint32_t by_locations(struct table *t, uint32_t line, uint32_t at)
{
    for (uint32_t code = 0;;) {
        int first = next(t);
        if (first < 0 || !(first & 0x80))
            return 0;
        int kind = first >> 3 & 15;
        if (kind <= SHORT_LAST) {
            (void)next(t);
        } else if (kind <= ONE_LINE_LAST) {
            line += (uint32_t)(kind - ONE_LINE);
            (void)next(t);
            (void)next(t);
        } else if (kind != NONE) {
            line += signed_varint(t);
            for (int i = 0; kind == LONG && i < 3; i++)
                (void)varint(t);
        }
        code += (uint32_t)(first & 7) + 1;
        if (code > at)
            return kind == NONE ? 0 : line;
    }
}

uint32_t cpython_line(const struct source *memory, uint64_t address, uint64_t n, uint32_t minor,
                      uint32_t first, uint32_t at)
{
    struct table t = {
        .memory = memory, .at = address, .end = address + min_of(n, (uint64_t)CPYTHON_LINES_MAX)};
    return minor <= 9    ? by_lnotab(&t, first, at)
           : minor == 10 ? by_linetable(&t, first, at)
                         : by_locations(&t, first, at);
}
