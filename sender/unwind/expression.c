/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/unwind/expression.h"

#include "sender/symbolize/elf/reader.h"

/* DWARF 5, section 7.7.1. */
enum {
    OP_DEREF = 0x06,
    OP_CONST1U = 0x08,
    OP_AND = 0x1a,
    OP_PLUS = 0x22,
    OP_PLUS_UCONST = 0x23,
    OP_SHL = 0x24,
    OP_GE = 0x2a,
    OP_LIT0 = 0x30,
    OP_LIT31 = 0x4f,
    OP_BREG0 = 0x70,
    OP_BREG31 = 0x8f,
};

/* GNU ld's for a PLT: rsp + 8 + ((rip & 15) >= N) * 8, N being where an entry has pushed its number (bfd,
 * elf_x86_64_eh_frame_plt): breg7 8, breg16 0, lit15, and, lit N, ge, lit3, shl, plus. */
static struct expression read_plt(struct bytes b)
{
    static const uint8_t shape[] = {OP_BREG0 + DWARF_RSP,
                                    8,
                                    OP_BREG0 + DWARF_RA,
                                    0,
                                    OP_LIT0 + 15,
                                    OP_AND,
                                    0 /* N */,
                                    OP_GE,
                                    OP_LIT0 + 3,
                                    OP_SHL,
                                    OP_PLUS};
    struct expression e = {.kind = EXPRESSION_OTHER};
    if (b.n != sizeof shape)
        return e;
    for (size_t i = 0; i < b.n; i++)
        if (i != 6 && b.p[i] != shape[i])
            return e;
    if (b.p[6] < OP_LIT0 || b.p[6] > OP_LIT0 + 15)
        return e;
    return (struct expression){.kind = EXPRESSION_PLT, .offset = b.p[6] - OP_LIT0};
}

struct expression expression_read(struct bytes program)
{
    struct reader r = reader_of(program);
    uint8_t op = reader_u8(&r);
    struct expression none = {.kind = EXPRESSION_OTHER};
    if (op < OP_BREG0 || op > OP_BREG31)
        return none;
    struct expression e = {.kind = EXPRESSION_REGISTER, .reg = op - OP_BREG0, .offset = reader_sleb(&r)};
    if (reader_left(&r) == 0)
        return r.is_bad ? none : e;
    if (reader_u8(&r) != OP_DEREF)
        return read_plt(program);
    e.kind = EXPRESSION_MEMORY;
    if (reader_left(&r) == 0)
        return e;
    op = reader_u8(&r);
    if (op == OP_PLUS_UCONST) {
        e.plus = reader_uleb(&r);
        if (e.plus == 0 && reader_left(&r) > 0) {
            const uint8_t first = reader_u8(&r), second = reader_u8(&r);
            if (first != OP_DEREF || second != OP_PLUS_UCONST)
                return none;
            e.kind = EXPRESSION_MEMORY_TWICE;
            e.plus = reader_uleb(&r);
        }
    } else {
        if (op >= OP_LIT0 && op <= OP_LIT31)
            e.plus = op - OP_LIT0;
        else if (op == OP_CONST1U)
            e.plus = reader_u8(&r);
        else
            return none;
        if (reader_u8(&r) != OP_PLUS)
            return none;
    }
    return reader_left(&r) == 0 && !r.is_bad ? e : none;
}
