/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/symbolize/elf/extent.h"

#include "proto/base/macros.h"
#include "sender/symbolize/elf/elf.h"
#include "sender/symbolize/elf/instruction.h"

enum way { WAY_ON, WAY_AWAY, WAY_NOBODY_KNOWS };

/* Whether the next instruction, which is at `next`, is gone on to, and what else may be; 0: nothing. */
static enum way way_of(const struct instruction *is, int64_t next, int64_t *other)
{
    const uint8_t op = is->opcode;
    const bool is_long = is->map == MAP_TWO_BYTES;
    *other = 0;
    if (is->map == MAP_OTHER)
        return WAY_ON;
    if (is_long ? op >= 0x80 && op <= 0x8f : (op >= 0x70 && op <= 0x7f) || (op >= 0xe0 && op <= 0xe3)) {
        *other = next + is->immediate;
        return WAY_ON;
    }
    if (is_long)
        return op == 0x0b ? WAY_AWAY : WAY_ON; /* ud2 */
    switch (op) {
    case 0xe9:
    case 0xeb: *other = next + is->immediate; return WAY_AWAY;
    case 0xc2:
    case 0xc3:
    case 0xf4: return WAY_AWAY; /* ret, hlt */
    case 0xff: return is->extension == 4 ? WAY_NOBODY_KNOWS : WAY_ON;
    case 0x8d: /* lea: of what it jumps to, if rip is what is added to */
        *other = is->base == REGISTER_NONE ? next + is->displacement : 0;
        return WAY_ON;
    default: return WAY_ON;
    }
}

uint64_t extent_end(const struct source *s, uint64_t start, uint64_t end)
{
    uint8_t code[EXTENT_MAX];
    uint64_t at, room;
    if (end <= start || !elf_file_offset(s, start, &at, &room))
        return end;
    const int64_t may = (int64_t)min_of(end - start, room);
    const size_t n = (size_t)min_of(may, (int64_t)sizeof code);
    if (!source_read(s, at, code, n))
        return end;
    struct instruction is;
    int64_t furthest = 0, other;
    for (size_t i = 0; i < n && instruction_read(bytes_of(code, n), i, &is);) {
        i += is.length;
        enum way way = way_of(&is, (int64_t)i, &other);
        if (way == WAY_NOBODY_KNOWS)
            return end;
        if (other < may) /* what is further is another function */
            furthest = max_of(furthest, other);
        if (way == WAY_AWAY && furthest < (int64_t)i)
            return start + i;
    }
    return end;
}
