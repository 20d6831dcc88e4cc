/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One instruction of x86-64: how long it is, and of what it does as much as moves the stack (Intel SDM,
 * volume 2, chapter 2 and appendix A).
 */
#ifndef SENDER_SYMBOLIZE_ELF_INSTRUCTION_H
#define SENDER_SYMBOLIZE_ELF_INSTRUCTION_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "proto/base/bytes.h"

/* Which table its opcode is of. Others are those of vectors, which leave the stack alone. */
enum instruction_map { MAP_ONE_BYTE, MAP_TWO_BYTES, MAP_OTHER };

#define REGISTER_NONE 16u

struct instruction {
    uint8_t length, opcode;
    enum instruction_map map;
    bool is_wide;                /* of eight bytes (REX.W) */
    bool is_narrow, is_repeated; /* has a prefix: 0x66; 0xf2 or 0xf3 */
    bool has_operands;           /* a ModRM byte: `reg`, and `rm`, or memory at `base` + `displacement` */
    uint8_t extension;           /* of the opcode: `reg` without its highest bit */
    uint8_t reg,
        rm;       /* numbers as encoded: 4 is rsp, 5 is rbp; rm: REGISTER_NONE for memory; or in the opcode */
    uint8_t base; /* REGISTER_NONE where an index or rip is added, too */
    int32_t displacement;
    int64_t immediate; /* of a jump: from its end on */
};

/* Whether the code has these n bytes at `at`. */
static inline bool code_has(struct bytes code, size_t at, const uint8_t *what, size_t n)
{
    return at <= code.n && n <= code.n - at && memcmp(code.p + at, what, n) == 0;
}

/* Reads the one that begins at `at`. False: there is none, or none that programs have. */
bool instruction_read(struct bytes code, size_t at, struct instruction *ret);

/* How it goes on: to what is behind it, or where. */
enum instruction_flow {
    FLOW_ON,
    FLOW_CALL,
    FLOW_BRANCH,
    FLOW_JUMP,
    FLOW_JUMP_BY_TABLE,
    FLOW_RETURN,
    FLOW_STOP
};
enum instruction_flow instruction_flow(const struct instruction *is);

#endif
