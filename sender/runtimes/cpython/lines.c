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
#include "sender/symbolize/elf/cursor.h"

static uint32_t by_lnotab(struct cursor *c, uint32_t line, uint32_t at)
{
    for (uint32_t code = 0;;) {
        int bytes = cursor_next(c), lines = cursor_next(c);
        if (bytes < 0 || lines < 0)
            return line;
        code += (uint32_t)bytes;
        if (code > 2 * at)
            return line;
        line += (uint32_t)(int8_t)lines;
    }
}

#define NO_LINE_STEP (-128)

static uint32_t by_linetable(struct cursor *c, uint32_t line, uint32_t at)
{
    for (uint32_t code = 0;;) {
        int bytes = cursor_next(c), lines = cursor_next(c);
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
static uint32_t varint(struct cursor *c)
{
    uint32_t value = 0;
    for (uint32_t shift = 0; shift < 32; shift += 6) {
        int byte = cursor_next(c);
        if (byte < 0)
            return 0;
        value |= (uint32_t)(byte & 63) << shift;
        if (!(byte & 64))
            break;
    }
    return value;
}

static uint32_t signed_varint(struct cursor *c)
{
    uint32_t value = varint(c);
    return value & 1 ? 0 - (value >> 1) : value >> 1;
}

enum { SHORT_LAST = 9, ONE_LINE = 10, ONE_LINE_LAST = 12, NO_COLUMNS = 13, LONG = 14, NONE = 15 };

static uint32_t by_locations(struct cursor *c, uint32_t line, uint32_t at)
{
    for (uint32_t code = 0;;) {
        int first = cursor_next(c);
        if (first < 0 || !(first & 0x80))
            return 0;
        int kind = first >> 3 & 15;
        if (kind <= SHORT_LAST) {
            (void)cursor_next(c);
        } else if (kind <= ONE_LINE_LAST) {
            line += (uint32_t)(kind - ONE_LINE);
            (void)cursor_next(c);
            (void)cursor_next(c);
        } else if (kind != NONE) {
            line += signed_varint(c);
            for (int i = 0; kind == LONG && i < 3; i++)
                (void)varint(c);
        }
        code += (uint32_t)(first & 7) + 1;
        if (code > at)
            return kind == NONE ? 0 : line;
    }
}

uint32_t cpython_line(const struct source *memory, uint64_t address, uint64_t n, uint32_t minor,
                      uint32_t first, uint32_t at)
{
    const struct extent table = {*memory, address, min_of(n, (uint64_t)CPYTHON_LINES_MAX)};
    struct cursor c;
    cursor_extent(&c, &table, 0);
    return minor <= 9    ? by_lnotab(&c, first, at)
           : minor == 10 ? by_linetable(&c, first, at)
                         : by_locations(&c, first, at);
}
