/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/unwind/leaf.h"

#include "proto/base/macros.h"
#include "sender/symbolize/elf/instruction.h"

#define RAX 0u

/* Whether an operand is, or is in, the register. What has no prefix for that says ah by rsp's number. */
static bool is_in(const struct instruction *is, uint8_t reg)
{
    return is->reg == reg || is->rm == reg ||
           (reg == RAX && !(is->opcode & 1) && (is->reg == 4 || is->rm == 4));
}

/* One byte without operands: on rax alone, as which most of them work, or what `rm` is (pop, mov). */
static bool changes_plain(const struct instruction *is, uint8_t reg)
{
    const uint8_t op = is->opcode;
    if ((op & 0xf8) == 0x58 || (op & 0xf8) == 0xb8)
        return is->rm == reg;
    if (op >= 0x91 && op <= 0x97) /* xchg */
        return true;
    const bool leaves = (op & 0xf8) == 0x50 || (op & 0xf0) == 0x70 || op == 0x68 || op == 0x6a ||
                        op == 0x90 || op == 0x3c || op == 0x3d || op == 0xa8 || op == 0xa9 || op == 0xc3 ||
                        op == 0xe9 || op == 0xeb || op == 0xfc;
    return reg == RAX && !leaves;
}

static bool changes_by_operands(const struct instruction *is, uint8_t reg)
{
    const uint8_t op = is->opcode;
    if ((op & 0xfc) == 0x38 || op == 0x84 || op == 0x85 ||
        ((op & 0xfc) == 0x80 && is->extension == 7)) /* cmp, test */
        return false;
    if (op == 0x88 || op == 0x89) /* mov */
        return is->rm == reg || (op == 0x88 && is->rm == 4 && reg == RAX);
    if ((op & 0xfe) == 0xf6 && is->extension >= 4) /* mul, div */
        return reg == RAX || is->rm == reg;
    if ((op & 0xfc) == 0x80 || (op & 0xfe) == 0xc0 || (op & 0xfe) == 0xc6 || (op & 0xfc) == 0xd0 ||
        (op & 0xfe) == 0xf6 || (op & 0xfe) == 0xfe) /* an operation and no register is in `reg` */
        return is->rm == reg || (is->rm == 4 && reg == RAX && !(op & 1));
    return is_in(is, reg);
}

static bool changes_two(const struct instruction *is, uint8_t reg)
{
    const uint8_t op = is->opcode;
    const uint8_t high = op & 0xf0;
    if (op == 0x01 || op == 0x05 || (op >= 0x30 && op <= 0x35) || op == 0xa2 || op == 0xb0 || op == 0xb1 ||
        op == 0xc7 || (op >= 0xc8 && op <= 0xcf)) /* syscall, rdtsc, cpuid, cmpxchg, bswap */
        return true;
    if (high == 0x90) /* setcc */
        return is->rm == reg || (is->rm == 4 && reg == RAX);
    const bool is_general = high == 0x40 || high == 0xa0 || high == 0xb0 || op == 0x2c || op == 0x2d ||
                            op == 0x50 || op == 0x7e || op == 0xc0 || op == 0xc1 || op == 0xc5 ||
                            op == 0xd7; /* of others the operands are vectors and memory */
    return is_general && is_in(is, reg);
}

/* Vectors' instructions, of whose registers the reader knows the low bits. */
static bool changes_other(const struct instruction *is, uint8_t reg)
{
    const uint8_t op = is->opcode;
    const bool is_general = op == 0x2c || op == 0x2d || op == 0x50 || op == 0x7e || op == 0x92 ||
                            op == 0x93 || op == 0xc5 || op == 0xd7 || (op >= 0x14 && op <= 0x17) ||
                            op == 0xf0 || op == 0xf1;
    if (op >= 0xf2 && op <= 0xf7) /* of BMI, one has a register in the prefix */
        return true;
    return is_general &&
           ((is->reg & 7) == (reg & 7) || (is->rm != REGISTER_NONE && (is->rm & 7) == (reg & 7)));
}

static bool changes(const struct instruction *is, uint8_t reg)
{
    switch (is->map) {
    case MAP_ONE_BYTE: return is->has_operands ? changes_by_operands(is, reg) : changes_plain(is, reg);
    case MAP_TWO_BYTES: return changes_two(is, reg);
    default: return changes_other(is, reg);
    }
}

bool leaf_leaves(struct bytes code, uint8_t reg)
{
    struct instruction is;
    int64_t furthest = 0; /* that it jumps to */
    bool returns = false;
    if (reg != RAX && (reg < 8 || reg > 11))
        return false;
    for (size_t at = 0; at < code.n && instruction_read(code, at, &is);) {
        at += is.length;
        const enum instruction_flow flow = instruction_flow(&is);
        const bool is_far =
            is.map == MAP_ONE_BYTE && is.opcode == 0xff && (is.extension == 3 || is.extension == 5);
        if (flow == FLOW_CALL || flow == FLOW_JUMP_BY_TABLE || is_far || changes(&is, reg))
            return false;
        if (flow == FLOW_BRANCH || flow == FLOW_JUMP) {
            const int64_t target = (int64_t)at + is.immediate;
            if (target < 0 || target >= (int64_t)code.n)
                return false;
            furthest = max_of(furthest, target);
        }
        const bool is_return = flow == FLOW_RETURN && is.opcode == 0xc3; /* one that takes no arguments off */
        returns |= is_return;
        if ((is_return || flow == FLOW_JUMP) && furthest < (int64_t)at)
            return returns;
    }
    return false;
}
