/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Positions (v8: src/codegen/source-position-table.cc): pairs of numbers, how many bytes of code further, of
 * which the sign says something else, and how far from the position before, as src/codegen/source-position.h
 * has it: shifted left by one, and one more than it is. Numbers are in 7 bits a byte, the least first, their
 * sign lowest.
 *
 * Lines: an array of where each ends, which V8 makes when it first needs it; else the text is read.
 */
#include "sender/runtimes/v8/lines.h"

#include "proto/base/macros.h"
#include "sender/symbolize/elf/cursor.h"

/* The next number; false: there is none, or more of it than 64 bits. */
static bool number(struct cursor *c, int64_t *ret)
{
    uint64_t value = 0;
    for (uint32_t shift = 0; shift < 64; shift += 7) {
        int byte = cursor_next(c);
        if (byte < 0)
            return false;
        value |= (uint64_t)(byte & 127) << shift;
        if (!(byte & 128)) {
            *ret = (int64_t)(value >> 1 ^ (0 - (value & 1)));
            return true;
        }
    }
    return false;
}

bool v8_position(const struct heap *h, uint64_t bytecode, uint32_t offset, uint32_t *ret)
{
    const struct v8_place *p = h->place;
    uint64_t array, length;
    int64_t code = -1, position = 0, step, from;
    bool found = false;
    uint32_t first = p->bytecode - 1; /* offsets count from the tagged pointer on */
    if (offset < first || !heap_is(h, bytecode, p->type_bytecode) ||
        !heap_field(h, bytecode, p->positions, &array) || !heap_field(h, array, p->array_length, &length))
        return false;
    const struct extent table = {*h->memory, array - V8_TAG + p->array_data,
                                 min_of(heap_smi(length), V8_POSITIONS_MAX)};
    struct cursor c;
    cursor_extent(&c, &table, 0);
    while (number(&c, &step) && number(&c, &from)) {
        code += step >= 0 ? step : -(step + 1);
        if (code > (int64_t)(offset - first))
            break;
        position += from;
        found = true;
    }
    *ret = (uint32_t)(position >> 1) - 1;
    return found && position >= 2 && position >> 1 <= INT32_MAX && !(position & 1);
}

/* By the array of where lines end. */
static uint32_t by_ends(const struct heap *h, uint64_t ends, uint32_t position)
{
    uint64_t n, end;
    if (!heap_field(h, ends, h->place->array_length, &n))
        return 0;
    uint32_t low = 0, high = heap_smi(n);
    while (low < high) { /* the first that does not end before it */
        uint32_t middle = low + (high - low) / 2;
        if (!heap_field(h, ends, h->place->array_data + 8 * middle, &end))
            return 0;
        if (heap_smi(end) < position)
            low = middle + 1;
        else
            high = middle;
    }
    return low + 1;
}

/* By the text, in which a carriage return alone ends a line as well. */
static uint32_t by_text(const struct heap *h, uint64_t source, uint32_t position)
{
    struct heap_text text;
    uint8_t piece[8192];
    uint32_t line = 1;
    bool is_return = false;
    if (!heap_text(h, source, &text) || position > text.n ||
        (uint64_t)position << text.is_wide > V8_SOURCE_MAX)
        return 0;
    for (uint32_t at = 0; at < position;) {
        uint32_t n = min_of(position - at, (uint32_t)sizeof piece >> text.is_wide);
        if (!source_read(h->memory, text.at + ((uint64_t)at << text.is_wide), piece,
                         (size_t)n << text.is_wide))
            return 0;
        for (uint32_t i = 0; i < n; i++) {
            uint32_t c = text.is_wide ? piece[2 * i] | (uint32_t)piece[2 * i + 1] << 8 : piece[i];
            line += c == '\r' || (c == '\n' && !is_return) || c == 0x2028 || c == 0x2029;
            is_return = c == '\r';
        }
        at += n;
    }
    return line;
}

uint32_t v8_line(const struct heap *h, uint64_t script, uint32_t position)
{
    uint64_t ends, source;
    if (!heap_field(h, script, h->place->script_lines, &ends) ||
        !heap_field(h, script, h->place->script_source, &source))
        return 0;
    return heap_is(h, ends, h->place->type_array) ? by_ends(h, ends, position) : by_text(h, source, position);
}
