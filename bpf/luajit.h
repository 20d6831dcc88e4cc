/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * What the step of LuaJIT (luajit_step.h) has to know of a process, and the words it sends; both sides.
 *
 * LuaJIT 2.1 with 64-bit references (LJ_GC64, so LJ_FR2), on x86-64. The interpreter is assembler of one
 * frame, which each call of Lua from C, and each coroutine, has on the stack of the machine. A Lua function's
 * frame is on the stack of its lua_State (lj_frame.h): below its first slot, the base, are its function and
 * what links it to its caller: where that goes on, or how far below it is and why. Of those, one call of the
 * interpreter runs all down to one that C has called: a segment. Compiled code (a trace) runs on the
 * interpreter's frame, with some room for itself above it, and the Lua frame it was entered in.
 */
#ifndef BPF_LUAJIT_H
#define BPF_LUAJIT_H

#include "bpf/runtimes.h"

/* Over runtime_place.word. */
struct luajit_place {
    bpf_u64 start, size; /* the interpreter, all but its calls of C by ffi */
    bpf_u32 dispatch;    /* what r14 holds in it, and in traces, is so far into the global_State */
    bpf_u32 trace_base;  /* in a global_State: of the trace that runs, the base it was entered at; 0: there is
                            no compiler */
    /* The kernel side does not look at this. */
    char version[24];
};
_Static_assert(sizeof(struct luajit_place) <= 8 * RUNTIME_PLACE_WORDS, "fits");

/* The interpreter's frame, from its stack pointer on (CFRAME_…), in words. What is behind it are the
 * registers saved, and the return address. */
enum {
    LUAJIT_FRAME_RESULTS = 1,
    LUAJIT_FRAME_STATE,
    LUAJIT_FRAME_PC,
    LUAJIT_FRAME_PREVIOUS,
    LUAJIT_FRAME_WORDS
};
#define LUAJIT_FRAME_BYTES 80u
#define LUAJIT_FRAME(word) ((word) & ~3ull) /* … with two bits of flags */

/* lua_State, from this byte on, in words: what it is; … */
#define LUAJIT_STATE_FROM 8u
enum {
    LUAJIT_STATE_KIND,
    LUAJIT_STATE_GLOBAL,
    LUAJIT_STATE_BASE = 3,
    LUAJIT_STATE_END = 5,
    LUAJIT_STATE_BOTTOM,
    LUAJIT_STATE_FRAME = 9, /* the topmost of the interpreter's frames that it has */
    LUAJIT_STATE_WORDS
};
#define LUAJIT_IS_STATE(kind) (((kind) >> 8 & 0xffff) == 0x0106)

/* Below a base, in words. */
enum { LUAJIT_BELOW_HOW = 0, LUAJIT_BELOW_PC, LUAJIT_BELOW_FUNCTION, LUAJIT_BELOW_LINK, LUAJIT_BELOW_WORDS };
#define LUAJIT_IS_FUNCTION(slot) ((slot) >> 47 == 0x1fff7)
#define LUAJIT_REFERENCE(slot)   ((slot) & ((1ull << 47) - 1))
#define LUAJIT_LINK_IS_PC(link)  (((link)&3) == 0)
#define LUAJIT_LINK(link)        ((link)&7)
#define LUAJIT_LINK_C            1u
#define LUAJIT_LINK_CONTINUES    2u /* a metamethod: what goes on with its result is below */
#define LUAJIT_LINK_VARIABLE     3u /* of a vararg function: it is below once more, as it was called */
#define LUAJIT_LINK_CP           5u /* C, in protected mode */
#define LUAJIT_LINK_BYTES(link)  ((link) & ~7ull)
#define LUAJIT_HOW_CALLBACK      1u /* it continues in C that ffi has called */

/* A function. */
enum { LUAJIT_FUNCTION_KIND = 1, LUAJIT_FUNCTION_CODE = 4, LUAJIT_FUNCTION_WORDS };
#define LUAJIT_FUNCTION_OF(kind) ((kind) >> 8 & 0xffff)
#define LUAJIT_FUNCTION_LUA      8u /* a function; anything above the byte: one written in C or assembler */

/* A prototype, GCproto, with its code (BCIns) behind it. */
#define LUAJIT_PROTO_BYTES   104u
#define LUAJIT_PROTO_SIZE_AT 12u
#define LUAJIT_PROTO_FROM    8u
enum {
    LUAJIT_PROTO_SIZE, /* in its upper half */
    LUAJIT_PROTO_CONSTANTS = 3,
    LUAJIT_PROTO_N_CONSTANTS = 5,
    LUAJIT_PROTO_BYTES_OF, /* with all that is behind it; in the lower half */
    LUAJIT_PROTO_CHUNK,
    LUAJIT_PROTO_LINES,
    LUAJIT_PROTO_LINE_INFO,
    LUAJIT_PROTO_WORDS,
    LUAJIT_PROTO_UPVALUES = LUAJIT_PROTO_WORDS, /* what they are called; likewise local variables */
    LUAJIT_PROTO_VARIABLES,
    LUAJIT_CALLER_WORDS
};

/* A string has a number that no other one had before it. */
#define LUAJIT_STRING_NUMBER_AT  12u
#define LUAJIT_FIRST_LINE(lines) ((bpf_u32)(lines))
#define LUAJIT_N_LINES(lines)    ((bpf_u32)((lines) >> 32))
#define LUAJIT_OP(op)            ((op)&255)
#define LUAJIT_OP_A(op)          ((op) >> 8 & 255)

/* Instructions (lj_bc.h) of all of 2.1. */
enum {
    LUAJIT_OP_MOV = 18,
    LUAJIT_OP_UGET = 45,
    LUAJIT_OP_GGET = 54,
    LUAJIT_OP_TGETS = 57,
    LUAJIT_OP_CALLM = 65,
    LUAJIT_OP_ITERC = 69,
    LUAJIT_OP_ITERN = 70,
};
#define LUAJIT_IS_CALL(op) (LUAJIT_OP(op) >= LUAJIT_OP_CALLM && LUAJIT_OP(op) <= LUAJIT_OP_ITERN)

/* What a word stands for. */
enum luajit_what {
    LUAJIT_LUA, /* a function written in Lua: `where` has its prototype … */
    LUAJIT_C,   /* … or not: it is just before where it was called */
};
#define LUAJIT_WHAT(where) ((where)&3)

/* A word: `where` is the address of that object, a multiple of 8 below 2^47, what it is, and 18 bits that
 * tell it, and what it was called, from others that get its memory, but not from what is loaded anew of the
 * same text; `file` how many instructions further its caller goes on, which knows what it has called it,
 * 0: it is not known; `extra` is the line. */
#define LUAJIT_NO_LINE      0u
#define LUAJIT_COOKIE_BITS  18u
#define LUAJIT_COOKIE(hash) ((bpf_u64)(hash) >> (64 - LUAJIT_COOKIE_BITS))
#define LUAJIT_WHERE(object, hash, what) \
    ((bpf_u64)(object) >> 3 << (LUAJIT_COOKIE_BITS + 2) | LUAJIT_COOKIE(hash) << 2 | (what))
#define LUAJIT_OBJECT(where)         ((where) >> (LUAJIT_COOKIE_BITS + 2) << 3)
#define LUAJIT_WITHOUT_OBJECT(where) ((where) & ((1ull << (LUAJIT_COOKIE_BITS + 2)) - 1))
#define LUAJIT_CALLER(object, file)  ((file) ? (object) + 4 * (bpf_u64)(bpf_s64)(bpf_s32)(file) : 0)

/* Of a prototype the number of its chunk's name, its lines, and how many instructions there are; and the
 * instruction by which it was called, with what luajit_called says of it. */
#define LUAJIT_HASH(one, two, three, call, called)                                 \
    ((bpf_u64)(one)*0x9e3779b97f4a7c15ull ^ (bpf_u64)(two)*0xd6e8feb86659fd93ull ^ \
     (bpf_u64)(three)*0xc2b2ae3d27d4eb4full ^                                      \
     ((bpf_u64)(call)*0xff51afd7ed558ccdull + (bpf_u64)(called)) * 0x9fb21c651e98df25ull)

/* Slots of 16 bytes above the interpreter's frame that compiled code, and what it is left through, have. */
#define LUAJIT_ABOVE_MAX 64u

#endif
