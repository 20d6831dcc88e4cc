/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * What a frame of V8's code is called: a word, or nothing, and then it is machine code like other. The same
 * code runs in the kernel (runtimes.bpf.h) and in user space, where it is tried on memory that lies.
 *
 * Who includes it has defined before:
 *
 *     V8_FROM                       the type of what is known of the thread
 *     V8_READ(from, to, n, address) copies n bytes of its memory; 0 if it can
 *
 * Frames are told apart by what is in their slots, never by where the code is: a builtin without a frame of
 * its own, or the first instructions of a function, run over the frame of their caller, which is then what is
 * told.
 */
#ifndef BPF_V8_STEP_H
#define BPF_V8_STEP_H

#include "bpf/sample.h"
#include "bpf/step.h"
#include "bpf/v8.h"

/* A frame's slots. */
struct v8_slots {
    bpf_u64 context, function, bytecode, offset;
};

/* What a walk knows, and what it reads: the kernel's stack is short. */
struct v8_walk {
    bpf_u64 is_begun; /* 0: nothing yet */
    bpf_u64 map;      /* of a SharedFunctionInfo, as was seen in this stack; all in a process have the same */
    struct v8_slots slots;
    bpf_u64 one;
    bpf_u64 script, script_id; /* that was looked at last; most functions of a stack have the one before's */
    bpf_u64 function; /* the one that was looked at last; 0: none; what it leads to is in `read`, … */
    struct sample_frame word; /* … and this is its word: a function that calls itself is looked at once */
    bpf_u64 read[V8_SHARED_WORDS];
};

STEP_INLINE bpf_u64 v8_field(const struct v8_walk *v, bpf_u16 at)
{
    return v->read[at >> 3 & (V8_SHARED_WORDS - 1)];
}

/* Reads a SharedFunctionInfo, which the garbage collector may just have moved: then its first word is where
 * to. Its address, or 0: it is none. */
STEP_INLINE bpf_u64 v8_shared(V8_FROM *from, const struct v8_place *p, struct v8_walk *v, bpf_u64 at)
{
    bpf_u32 n = p->read & (8 * V8_SHARED_WORDS - 1);
    at &= ~V8_TAG;
    if (V8_READ(from, v->read, n, at))
        return 0;
    if (!(v->read[0] & V8_TAG)) {
        at = v->read[0];
        if (V8_READ(from, v->read, n, at) || !(v->read[0] & V8_TAG))
            return 0;
    }
    if (v->read[0] != v->map) {
        v->one = 0;
        if (V8_READ(from, &v->one, 2, v->read[0] - V8_TAG + p->map_type) || v->one != p->type_shared)
            return 0;
        v->map = v->read[0];
    }
    return at;
}

/* The word for the frame that v->slots are of; false: it has none. */
STEP_INLINE int v8_word(V8_FROM *from, const struct v8_place *p, struct v8_walk *v, struct sample_frame *ret)
{
    const struct v8_slots *slots = &v->slots;
    if (!v->is_begun) {
        v->is_begun = 1;
        v->map = 0;
        v->function = 0;
        v->script = 0;
        v->script_id = 0;
    }
    if (!(slots->context & V8_TAG)) { /* the kind of a frame, times 2 */
        if (!p->kind_regexp || slots->context != 2 * (bpf_u64)p->kind_regexp)
            return 0;
        *ret = (struct sample_frame){
            .kind = SAMPLE_FRAME_WORD, .runtime = RUNTIME_V8, .extra = V8_NO_OFFSET, .where = V8_REGEXP};
        return 1;
    }
    if (slots->function != v->function) {
        v->function = 0;
        if (!(slots->function & V8_TAG) || V8_READ(from, &v->one, 8, slots->function - V8_TAG + p->shared) ||
            !(v->one & V8_TAG))
            return 0;
        bpf_u64 shared = v8_shared(from, p, v, v->one), script = v8_field(v, p->script);
        if (!shared || !(v8_field(v, p->data) & V8_TAG))
            return 0;
        if (script != v->script) {
            v->script = script;
            if (!p->script_id || !(script & V8_TAG) ||
                V8_READ(from, &v->script_id, 8, script - V8_TAG + p->script_id))
                v->script_id = 0;
        }
        bpf_u32 number = v8_field(v, p->number) >> 8 * (p->number & 4);
        v->word = (struct sample_frame){.kind = SAMPLE_FRAME_WORD,
                                        .runtime = RUNTIME_V8,
                                        .extra = V8_NO_OFFSET,
                                        .file = V8_COOKIE(v->script_id, number, v8_field(v, p->name), script),
                                        .where = shared};
        v->function = slots->function;
    }
    *ret = v->word;
    bpf_u64 offset = slots->offset >> V8_IS_SMI;
    if (slots->bytecode == v8_field(v, p->data) && !(slots->offset & V8_TAG) && offset < V8_NO_OFFSET)
        ret->extra = offset;
    return 1;
}

#endif
