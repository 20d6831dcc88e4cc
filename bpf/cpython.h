/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * What the step of CPython (cpython_step.h) has to know of a process, and the words it sends; both sides.
 *
 * A thread's frames are a list of its own, which hangs on its thread state; that is found as
 * PyGILState_GetThisThreadState finds it, by a key of pthread_getspecific(3). Up to 3.11 that is the thread's
 * first one, also while it is in another interpreter: then it is who has the lock, or, of all there are, the
 * one whose running call is the innermost on the thread's stack. The list comes in segments: those that one
 * call of _PyEval_EvalFrameDefault runs.
 */
#ifndef BPF_CPYTHON_H
#define BPF_CPYTHON_H

#include "bpf/runtimes.h"
#include "bpf/step.h"
#include "bpf/unwind.h"

/* Where one call's segment of the list ends. */
enum cpython_segment {
    CPYTHON_ONE,    /* a frame a call (up to 3.10) */
    CPYTHON_MARKED, /* behind a frame that says that it is the first (3.11) */
    CPYTHON_SHIM,   /* before one that is no frame, but stands for the call (from 3.12 on) */
};

/* Over runtime_place.word. Offsets are in bytes. */
struct cpython_place {
    bpf_u64 start[2],
        size[2];     /* where _PyEval_EvalFrameDefault is, and what of it is kept apart, being cold */
    bpf_u64 key;     /* address of the key: a word that is 1 once it is made, then its number */
    bpf_u64 current; /* that of the pointer to the state of who has the lock; 0: the key always leads to it */
    bpf_u64 interpreters; /* and of the one to the first interpreter, as from 3.10 on; 0: it is not known */
    bpf_u32 segment;      /* enum cpython_segment */
    bpf_u16 states;       /* in an interpreter: its first thread state, … */
    bpf_u16 thread_id;    /* … in which is its thread's pointer, … */
    bpf_u16 on_stack; /* … one to what its running call has on the stack, if there are `interpreters`, … */
    bpf_u16 thread_frame; /* … and its frame … */
    bpf_u16 cframe;       /* … or if `has_cframe`, a pointer to what has the frame at this */
    bpf_u16 has_cframe;
    bpf_u16 from;                      /* what is read of a frame begins here */
    bpf_u16 code, previous, at, owner; /* in that; `at`: the instruction, `owner`: says where segments end */
    bpf_u16 code_start;                /* in a code object: the first instruction; 0: `at` is an index, … */
    bpf_u16 at_shift;                  /* … which is to be shifted right to be one of instructions */
    bpf_u16 cookie;                    /* in a code object: three pointers, see CPYTHON_COOKIE */
    bpf_u16 hashed;                    /* which of these leads to co_name: 0 or 1 */
    bpf_u16 version;  /* instead (from 3.12 on): 4 bytes, a number that is used once; 0: none */
    bpf_u16 has_musl; /* the C library is musl, not glibc */
    /* For names; the kernel side does not look at these. */
    bpf_u64 code_type;                     /* where PyCode_Type is */
    bpf_u16 minor, micro;                  /* the version, 3.minor.micro; CPYTHON_NO_MICRO: not known */
    bpf_u16 file_name, name, first, lines; /* in a code object */
    bpf_u16 ascii, wide;                   /* in a string: its characters, if all are ASCII, and if not */
};
_Static_assert(sizeof(struct cpython_place) <= 8 * RUNTIME_PLACE_WORDS, "fits");

#define CPYTHON_NO_MICRO 0xffffu

/* The next interpreter, in an interpreter, and the next thread state, in one: up to 3.11. So many of both are
 * looked at for the state that a thread is in; those made last come first. */
#define CPYTHON_NEXT_INTERPRETER 0u
#define CPYTHON_NEXT_STATE       8u
#define CPYTHON_STATES_MAX       64u

/* As much of a frame is read, in words. */
#define CPYTHON_FRAME_WORDS 11u
/* From 3.11 on frames lie one above the other, as on a stack: so much of that is read at once. */
#define CPYTHON_WINDOW_WORDS 48u
/* The value of `owner` from which on it is a shim: FRAME_OWNED_BY_CSTACK, from 3.14 on _INTERPRETER. */
#define CPYTHON_OWNER_SHIM 3u

/* A word: `where` is the code object, `extra` the number of the instruction in it, in units of 2 bytes, and
 * `file` is made of the pointers to its name, what follows that, and its table of lines, and of the name's
 * hash: what tells it from another code object that gets its memory, and often theirs. From 3.12 on it is
 * co_version, if that is not 0: those are all given out. */
#define CPYTHON_NO_INSTRUCTION 0xffffu
#define CPYTHON_COOKIE_WORDS   3u
#define CPYTHON_COOKIE(word, name_hash)                                                   \
    ((bpf_u32)(((word)[0] * 0x9e3779b97f4a7c15ull ^ (word)[1] * 0xd6e8feb86659fd93ull ^   \
                (word)[2] * 0xc2b2ae3d27d4eb4full ^ (name_hash)*0xff51afd7ed558ccdull) >> \
               32))

/* With -X perf (from 3.12 on) the frame of each function is run by a copy of this, in memory of no file
 * (Python/asm_trampoline.S): sub $8, %rsp; call *%rcx; add $8, %rsp; ret. Its first 8 bytes, and where in it
 * a thread can be: first, behind the call. Nothing is told of it: the function's frame has a word. */
#define CPYTHON_TRAMPOLINE       0x8348d1ff08ec8348ull
#define CPYTHON_TRAMPOLINE_AT(i) (0x0a000406u >> 8 * (i)&255)
#define CPYTHON_TRAMPOLINE_N     4u

/* At the i-th of these: how far above the stack pointer the return address is. */
#define CPYTHON_TRAMPOLINE_UP(i) ((i) < 2 ? 8u : 0u)

/* Goes from there to the caller, whose address is `ip`. */
STEP_INLINE void cpython_leave_trampoline(struct unwind_registers *at, bpf_u32 i, bpf_u64 ip)
{
    at->ip = ip;
    at->sp += CPYTHON_TRAMPOLINE_UP(i) + 8;
    at->is_return = 1;
    at->has_all = 0;
}

/* What the JIT makes of bytecode (from 3.13 on) has no frame and no tables. A shim, which saves five
 * registers, calls the first of its parts, each of which jumps to the next one; one that needs rbp has pushed
 * that first, below its return address. So many words of the stack are looked at for where
 * _PyEval_EvalFrameDefault has called the shim; there rbp is near that, or it is what was pushed. */
#define CPYTHON_JIT_MINOR 13u
#define CPYTHON_JIT_WORDS 16u
#define CPYTHON_JIT_NEAR  4096u
#define CPYTHON_JIT_BP    (7u * 8u)

/* In a string: its hash, which a code object's name has from the beginning (PyASCIIObject.hash). */
#define CPYTHON_STRING_HASH 24u

/* Where thread-specific data is, from the thread pointer on: glibc (nptl/descr.h, struct pthread), x86-64,
 * 2.2 and later. Blocks of 32 entries of two words, a counter and the value; the first block lies in the
 * thread itself, pointers to all behind it. */
#define CPYTHON_TSD_FIRST  0x310u
#define CPYTHON_TSD_BLOCKS 0x510u
#define CPYTHON_TSD_KEYS   1024u
/* musl (src/internal/pthread_impl.h), x86-64, 1.2.2 and later: a pointer to words, one a key. */
#define CPYTHON_TSD_MUSL 0x80u

#endif
