/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * What the step of Ruby (ruby_step.h) has to know of a process, and the words it sends; both sides.
 *
 * A thread's frames, of methods written in Ruby and in C alike, are an array of its own, or of the fiber's
 * that it runs ("execution context", vm_core.h), which comes in segments: those that one call of rb_vm_exec
 * runs. Each begins with a frame that has the mark FINISH.
 */
#ifndef BPF_RUBY_H
#define BPF_RUBY_H

#include "bpf/context.h"
#include "bpf/runtimes.h"
#include "bpf/step.h"
#include "bpf/unwind.h"

/* How a class's name is kept. */
enum ruby_classes {
    RUBY_CLASS_TABLE,  /* among its variables, a hash table (up to 3.1) */
    RUBY_CLASS_VALUES, /* among its variables, whose names are elsewhere (3.2) */
    RUBY_CLASS_FIELD,  /* in it (from 3.3 on) */
};

/* Over runtime_place.word. Offsets are in bytes. */
struct ruby_place {
    bpf_u64 exec, exec_size; /* rb_vm_exec, whose calls the segments are … */
    bpf_u64 core, core_size; /* … and what it calls to run instructions; size 0: that is in it */
    bpf_u64 code, code_size; /* all of libruby, which calls what YJIT generates */
    bpf_u64 current; /* address of a pointer to the context of the thread that has the lock (2.7); … */
    struct context_place context; /* … else where a thread has a pointer to its own; `start` is not used */
    bpf_u64 vm;   /* address of a pointer to the virtual machine; 0: not known, nor if it collects */
    bpf_u16 heap; /* in that: its heap, … */
    bpf_u8 collects, collects_bit; /* … in which this bit of this byte says that it collects garbage */
    bpf_u16 frame;                 /* size of a frame */
    bpf_u16 thread;                /* in a context: its thread, in which are … */
    bpf_u16 thread_id;             /* … with `current`: the thread pointer; … */
    bpf_u16 ractor, running;       /* … without: its ractor, in that the context that has the lock */
    /* For names; the kernel side does not look at these. */
    bpf_u16 version;       /* 27, 30, … 33 */
    bpf_u8 patch;          /* 3.1.patch */
    bpf_u8 classes;        /* enum ruby_classes */
    bpf_u16 lines, local;  /* in what an iseq has: its table of lines; the iseq of its method */
    bpf_u8 line_size;      /* of an entry of the table */
    bpf_u8 is_first_value; /* first_lineno is a Fixnum */
    bpf_u8 has_length;     /* a string's length is a word even if its characters are in it … */
    bpf_u8 zero;           /* … and they are behind that */
    bpf_u64 symbols;       /* address of the table of symbols (rb_symbols_t); 0: not known */
};
_Static_assert(sizeof(struct ruby_place) <= 8 * RUNTIME_PLACE_WORDS, "fits");

/* What is the same in all versions, in words. rb_execution_context_t: vm_stack, vm_stack_size, cfp. */
enum { RUBY_EC_STACK, RUBY_EC_SIZE, RUBY_EC_FRAME, RUBY_EC_WORDS };
/* rb_control_frame_t, as much as is read of it. */
enum { RUBY_FRAME_PC, RUBY_FRAME_SP, RUBY_FRAME_ISEQ, RUBY_FRAME_SELF, RUBY_FRAME_EP, RUBY_FRAME_WORDS };
/* The three words that end where ep points at (VM_ENV_DATA_INDEX_…). */
enum { RUBY_ENV_METHOD, RUBY_ENV_PARENT, RUBY_ENV_FLAGS, RUBY_ENV_WORDS };
/* rb_callable_method_entry_t; of an svar the second is what it stands before. */
enum {
    RUBY_ENTRY_FLAGS,
    RUBY_ENTRY_CLASS,
    RUBY_ENTRY_METHOD,
    RUBY_ENTRY_ID,
    RUBY_ENTRY_OWNER,
    RUBY_ENTRY_WORDS
};
/* In an iseq, in bytes: what it has (rb_iseq_constant_body); and in that, as much as the kernel side reads.
 */
#define RUBY_ISEQ_BODY 16u
#define RUBY_BODY_FROM 8u
enum { RUBY_BODY_CODE, RUBY_BODY_LABEL = 9, RUBY_BODY_WORDS };

/* Flags of a frame (VM_FRAME_…, VM_ENV_FLAG_LOCAL). */
#define RUBY_FRAME_LOCAL     0x0002u
#define RUBY_FRAME_FINISH    0x0020u
#define RUBY_FRAME_C         0x0080u
#define RUBY_FRAME_KIND      0x7fff0001u
#define RUBY_FRAME_KIND_C    0x55550001u
#define RUBY_FRAME_KIND_NONE 0x79990001u /* what a stack begins with */
#define RUBY_ENV_PARENT_MASK (~3ull)
/* Blocks within blocks that are gone through for the method they are in. */
#define RUBY_ENVS_MAX 8

/* What an object is, by its flags: an internal one (T_IMEMO), and its kind. */
#define RUBY_IMEMO(flags) (((flags)&31) == 0x1a ? (bpf_u32)((flags) >> 12 & 15) : RUBY_IMEMO_NONE)
#define RUBY_IMEMO_SVAR   2u
#define RUBY_IMEMO_ENTRY  6u
#define RUBY_IMEMO_ISEQ   7u
#define RUBY_IMEMO_NONE   16u

/* A word: `where` has the object's address, which is a multiple of 8 below 2^47, and 20 bits that tell it
 * from another one that gets its memory.
 *
 * The object is an iseq, `extra` the number of the instruction in it, in words, and `file` says how far
 * behind it, in units of 8 bytes, the entry of the method is whose code it is, or whose block; 0: of none, or
 * too far. Or it is itself the entry of a method written in C. Or the collector of garbage. */
#define RUBY_COOKIE_BITS 20u
#define RUBY_WHERE(object, hash) \
    ((bpf_u64)(object) >> 3 << RUBY_COOKIE_BITS | (bpf_u64)(hash) >> (64 - RUBY_COOKIE_BITS))
#define RUBY_OBJECT(where)  ((where) >> RUBY_COOKIE_BITS << 3)
#define RUBY_NO_INSTRUCTION 0xffffu
#define RUBY_COLLECTOR      1ull /* `where`: there is no object */

#define RUBY_HASH_ISEQ(body, code, label, method)                                    \
    ((bpf_u64)(body)*0x9e3779b97f4a7c15ull ^ (bpf_u64)(code)*0xd6e8feb86659fd93ull ^ \
     (bpf_u64)(label)*0xc2b2ae3d27d4eb4full ^ (bpf_u64)(method)*0xff51afd7ed558ccdull)
#define RUBY_HASH_ENTRY(entry)                                                                             \
    ((entry)[RUBY_ENTRY_METHOD] * 0x9e3779b97f4a7c15ull ^ (entry)[RUBY_ENTRY_ID] * 0xd6e8feb86659fd93ull ^ \
     (entry)[RUBY_ENTRY_OWNER] * 0xc2b2ae3d27d4eb4full)

/* How far a walk is. */
enum ruby_begun {
    RUBY_NOT_BEGUN,
    RUBY_COLLECTS,  /* that it collects garbage is to be told first */
    RUBY_AT_RETURN, /* the first frame may be of a call that is not there yet */
    RUBY_BEGUN,
};

/* Where the return address of generated code is looked for. */
#define RUBY_STACK_SAVED 3u
#define RUBY_STACK_WORDS 12u

/* What a walk knows; all 0 but `begun` and `is_inside` may be anything at first. */
struct ruby_walk {
    bpf_u32 begun;     /* enum ruby_begun */
    bpf_u32 is_inside; /* of this frame of the machine, more are to come */
    bpf_u64 frame;     /* the next one; 0: there is none */
    bpf_u64 end;       /* behind the last one */
    union {
        struct {
            bpf_u64 at[RUBY_FRAME_WORDS];
            bpf_u64 env[RUBY_ENV_WORDS];
            bpf_u64 entry[RUBY_ENTRY_WORDS];
            bpf_u64 body[RUBY_BODY_WORDS];
        };
        bpf_u64 stack[RUBY_STACK_WORDS];
    };
};

/* Moves *at from a frame of code that YJIT made, whose RUBY_STACK_WORDS are `stack`, to its caller in
 * libruby. It has saved three registers, and what it has in others as it calls; it has no frame pointer, and
 * leaves rbp alone. False: it is not found. */
STEP_INLINE int ruby_leave_generated(const struct ruby_place *p, const bpf_u64 stack[RUBY_STACK_WORDS],
                                     struct unwind_registers *at)
{
    STEP_LOOP
    for (bpf_u32 i = RUBY_STACK_SAVED; i < RUBY_STACK_WORDS; i++) {
        if (stack[i] - p->code >= p->code_size)
            continue;
        at->sp += 8 * (bpf_u64)i + 8;
        at->ip = stack[i];
        at->is_return = 1;
        at->has_all = 0;
        return 1;
    }
    return 0;
}

#endif
