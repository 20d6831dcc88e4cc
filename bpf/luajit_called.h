/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * What tells a call and the name it is made by from others, the same in the kernel and in user space: so that
 * a word is not named by a caller that has got the memory of the one there was.
 *
 * Who includes it has defined LUAJIT_READ(from, to, n, address), which copies n bytes of the process's
 * memory; 0 if it can.
 */
#ifndef BPF_LUAJIT_CALLED_H
#define BPF_LUAJIT_CALLED_H

#include "bpf/luajit.h"
#include "bpf/step.h"

#define LUAJIT_CALL_CODE 8u
#define LUAJIT_NAMES     8u

struct luajit_call {
    bpf_u32 code[LUAJIT_CALL_CODE];     /* of the caller; the last one is the call */
    bpf_u64 proto[LUAJIT_CALLER_WORDS]; /* the caller's, from LUAJIT_PROTO_FROM on */
    bpf_u64 names[LUAJIT_NAMES];
};

/* The instruction that has put there what is called; 0: it is none of the last ones. */
STEP_INLINE bpf_u32 luajit_setter(const bpf_u32 code[LUAJIT_CALL_CODE])
{
    bpf_u32 call = code[LUAJIT_CALL_CODE - 1], ret = 0;
    bpf_u32 slot = LUAJIT_OP_A(call) - (LUAJIT_OP(call) >= LUAJIT_OP_ITERC ? 3 : 0);
#ifdef __clang__
#pragma clang loop unroll(full)
#endif
    for (bpf_u32 i = 0; i < LUAJIT_CALL_CODE - 1; i++) {
        bpf_u32 op = LUAJIT_OP(code[i]);
        if (LUAJIT_OP_A(code[i]) == slot &&
            (op == LUAJIT_OP_MOV || op == LUAJIT_OP_UGET || op == LUAJIT_OP_GGET || op == LUAJIT_OP_TGETS))
            ret = code[i];
    }
    return ret;
}

/* Of a call whose code was read, and whose caller's prototype, which is at `proto`: a constant's number, or
 * what the first of its upvalues or local variables are called. */
STEP_INLINE bpf_u64 luajit_called(void *from, struct luajit_call *c, bpf_u64 proto)
{
    (void)from;
    bpf_u32 op = luajit_setter(c->code), n = LUAJIT_OP(op) == LUAJIT_OP_GGET ? op >> 16 : op >> 16 & 255;
    bpf_u64 at = 0, ret = 0;
    if (LUAJIT_OP(op) == LUAJIT_OP_GGET || LUAJIT_OP(op) == LUAJIT_OP_TGETS) {
        if (n >= (bpf_u32)c->proto[LUAJIT_PROTO_N_CONSTANTS] ||
            LUAJIT_READ(from, &at, 8, c->proto[LUAJIT_PROTO_CONSTANTS] - 8 * ((bpf_u64)n + 1)) ||
            LUAJIT_READ(from, &n, 4, at + LUAJIT_STRING_NUMBER_AT))
            return 0;
        return n + 1ull;
    }
    at = c->proto[LUAJIT_OP(op) == LUAJIT_OP_UGET ? LUAJIT_PROTO_UPVALUES : LUAJIT_PROTO_VARIABLES];
    bpf_u64 room = proto + (bpf_u32)c->proto[LUAJIT_PROTO_BYTES_OF] - at;
    if (!at || room - 1 >= 1u << 20)
        return 0;
    bpf_u32 size = room < sizeof c->names ? (bpf_u32)room : (bpf_u32)sizeof c->names;
    __builtin_memset(c->names, 0, sizeof c->names);
    if (LUAJIT_READ(from, c->names, size, at))
        return 0;
#ifdef __clang__
#pragma clang loop unroll(full)
#endif
    for (bpf_u32 i = 0; i < LUAJIT_NAMES; i++)
        ret = (ret ^ c->names[i]) * 0x9e3779b97f4a7c15ull;
    return ret | 1;
}

#endif
