/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * The runtimes whose frames are told apart: the list that the kernel side's steps (runtimes.bpf.h) and user
 * space's rows (sender/runtimes) are both made from.
 */
#ifndef BPF_RUNTIMES_H
#define BPF_RUNTIMES_H

#include "bpf/types.h"

/* To add one: a row here, its step in runtimes.bpf.h, its folder in sender/runtimes. */
#define RUNTIMES(ROW)     \
    ROW(NATIVE, native)   \
    ROW(CPYTHON, cpython) \
    ROW(V8, v8)           \
    ROW(HOTSPOT, hotspot) \
    ROW(PHP, php)         \
    ROW(RUBY, ruby)       \
    ROW(PERL, perl)       \
    ROW(GO, go)           \
    ROW(LUAJIT, luajit)   \
    ROW(BEAM, beam)

#define RUNTIME_TAG(tag, name) RUNTIME_##tag,
enum runtime_tag { RUNTIMES(RUNTIME_TAG) RUNTIME_TAGS };
#undef RUNTIME_TAG

/* Of a mapping: code of no file. It is that of the process's one runtime that generates code; of several, the
 * last one's here. */
#define RUNTIME_GENERATED RUNTIME_TAGS
#define RUNTIMES_GENERATING                                                                  \
    (1u << RUNTIME_CPYTHON | 1u << RUNTIME_V8 | 1u << RUNTIME_HOTSPOT | 1u << RUNTIME_RUBY | \
     1u << RUNTIME_LUAJIT | 1u << RUNTIME_BEAM)
/* Whose frames are those of the machine, or among them. */
#define RUNTIMES_ON_STACK (1u << RUNTIME_V8 | 1u << RUNTIME_HOTSPOT | 1u << RUNTIME_GO)

/* Whose frames are found by the thread, so that they are its own wherever it is; and by the process, so that
 * they are most likely its first thread's, which a frame of the machine has to say of any other. */
#define RUNTIMES_BY_THREAD  (1u << RUNTIME_CPYTHON | 1u << RUNTIME_RUBY)
#define RUNTIMES_BY_PROCESS (1u << RUNTIME_PHP | 1u << RUNTIME_PERL)

/* What a runtime's step did at a frame of the machine. */
enum runtime_step {
    STEP_NATIVE, /* nothing: it is native's, to be told and left */
    STEP_TAKEN,  /* the step is taken: walk.at is the caller; or more is to come of the same frame */
    STEP_LAST,   /* a word was told, the last of this frame, which is left as native's is … */
    STEP_PASSED, /* … or without one */
};

/* Of what a step remembers, the word that is 0 when there is nothing more to come. */
#define RUNTIME_NEXT_WORD 1u

/* Places are kept by this, so many. */
#define RUNTIME_PLACE_KEY(pid, runtime) ((bpf_u64)(runtime) << 32 | (pid))
#define RUNTIME_PLACES                  4096u

/* What the step of a runtime has to know of a process: filled by user space, which is asked for it when a
 * walk meets the runtime's code in a process without one. */
#define RUNTIME_PLACE_WORDS    24u
#define RUNTIME_PLACE_TIME(ns) ((bpf_u32)((ns) >> 30)) /* seconds, about */
struct runtime_place {
    bpf_u64 start;   /* of the process, as in struct sample_head: no other one with its pid */
    bpf_u32 runtime; /* enum runtime_tag */
    bpf_u32 used;    /* when a walk looked for it last: RUNTIME_PLACE_TIME; 0: none has */
    bpf_u32 user;    /* whose process it is */
    bpf_u32 zero;
    bpf_u64 word[RUNTIME_PLACE_WORDS]; /* the runtime's own: addresses, offsets */
};

#endif
