/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * One step through a thread's Ruby frames: from a frame of the machine that runs them to the words of its
 * segment, a step each. The same code runs in the kernel (runtimes.bpf.h) and in user space (step.h).
 *
 * A segment is there from a little before rb_vm_exec is called until a little before it returns. So the first
 * frame of all may be of a call that is not on the stack yet, which then is told with the segment below. The
 * other way round a call may have no segment any more and gets that of its caller, and so on; the last one
 * stays a frame of the machine. Either way each frame is told once, and in order.
 */
#ifndef BPF_RUBY_STEP_H
#define BPF_RUBY_STEP_H

#include "bpf/ruby.h"
#include "bpf/sample.h"
#include "bpf/step.h"

/* The context of the thread; 0: it has none. */
STEP_INLINE bpf_u64 ruby_context(const struct ruby_place *p)
{
    bpf_u64 pointer = RUNTIME_THREAD(), self = pointer, context = 0, variable = p->current;
    if (!variable)
        CONTEXT_VARIABLE(&p->context, pointer, STEP_LOAD, &variable);
    if (!variable || STEP_LOAD(variable, &context) || !context)
        return 0;
    if (p->current &&
        (STEP_LOAD(context + p->thread, &self) || STEP_LOAD(self + p->thread_id, &self) || self != pointer))
        return 0; /* another thread's */
    return context;
}

/* Whether it is this thread, one that has called something, which collects garbage. */
STEP_INLINE bpf_u32 ruby_collects(const struct ruby_place *p, bpf_u64 context)
{
    bpf_u64 at = 0, running = 0;
    bpf_u8 flags = 0;
    if (!p->vm || STEP_LOAD(p->vm, &at) || !at || STEP_LOAD(at + p->heap, &at) || !at ||
        RUNTIME_READ(&flags, 1, at + p->collects) || !(flags >> (p->collects_bit & 7) & 1))
        return 0;
    return p->current || (!STEP_LOAD(context + p->thread, &at) && !STEP_LOAD(at + p->ractor, &at) &&
                          !STEP_LOAD(at + p->running, &running) && running == context);
}

/* Finds the thread's frames. */
STEP_PART ruby_begin(STEP_HANDLE handle, bpf_u32 is_return)
{
    STEP_OPEN(ruby, handle);
    bpf_u64 context = ruby_context(p);
    w->begun = is_return ? RUBY_AT_RETURN : RUBY_BEGUN;
    w->frame = 0;
    if (!context || RUNTIME_READ(w->at, 8 * RUBY_EC_WORDS, context) || !w->at[RUBY_EC_STACK])
        return 0;
    w->end = w->at[RUBY_EC_STACK] + 8 * w->at[RUBY_EC_SIZE];
    if (w->at[RUBY_EC_FRAME] < w->end)
        w->frame = w->at[RUBY_EC_FRAME];
    if (is_return && ruby_collects(p, context))
        w->begun = RUBY_COLLECTS;
    return 0;
}

/* Reads the entry of a method at an address: its kind of object. */
STEP_INLINE bpf_u32 ruby_read_entry(struct ruby_walk *w, bpf_u64 at)
{
    return at && !RUNTIME_READ(w->entry, sizeof w->entry, at) ? RUBY_IMEMO(w->entry[RUBY_ENTRY_FLAGS])
                                                              : RUBY_IMEMO_NONE;
}

/* Looks for the entry in an environment: 1: it is read, and is at env[RUBY_ENV_METHOD]; -1: there is none; 0:
 * if there is one, then in the environment around it, which is read. A function of its own: the verifier goes
 * through each round of a loop. */
STEP_PART ruby_look(STEP_HANDLE handle)
{
    STEP_OPEN(ruby, handle);
    bpf_u32 kind = ruby_read_entry(w, w->env[RUBY_ENV_METHOD]);
    if (kind == RUBY_IMEMO_SVAR) {
        w->env[RUBY_ENV_METHOD] = w->entry[RUBY_ENTRY_CLASS];
        kind = ruby_read_entry(w, w->env[RUBY_ENV_METHOD]);
    }
    if (kind == RUBY_IMEMO_ENTRY)
        return 1;
    if (w->env[RUBY_ENV_FLAGS] & RUBY_FRAME_LOCAL)
        return -1;
    bpf_u64 around = w->env[RUBY_ENV_PARENT] & RUBY_ENV_PARENT_MASK;
    return RUNTIME_READ(w->env, sizeof w->env, around - 8 * RUBY_ENV_FLAGS) ? -1 : 0;
}

/* The same, and in the environments around it: 1 or not. */
STEP_PART ruby_find(STEP_HANDLE handle)
{
    int found = 0;
    STEP_LOOP
    for (int i = 0; i < RUBY_ENVS_MAX && !found; i++)
        found = ruby_look(handle);
    return found;
}

/* The word of a frame of Ruby's. False: it has none. */
STEP_INLINE int ruby_word(struct ruby_walk *w, STEP_HANDLE handle, bpf_u64 flags, struct sample_frame *ret)
{
    bpf_u64 iseq = w->at[RUBY_FRAME_ISEQ], body = 0;
    if ((flags & RUBY_FRAME_C) && (flags & RUBY_FRAME_KIND) != RUBY_FRAME_KIND_C)
        return 0; /* a block written in C; what a stack begins with */
    if ((flags & RUBY_FRAME_KIND) == RUBY_FRAME_KIND_NONE)
        return 0; /* of the main thread, it says that it were <main>, too */
    bpf_u64 entry = ruby_find(handle) > 0 ? w->env[RUBY_ENV_METHOD] : 0;
    if (flags & RUBY_FRAME_C) {
        ret->where = RUBY_WHERE(entry, RUBY_HASH_ENTRY(w->entry));
        ret->extra = RUBY_NO_INSTRUCTION;
        return entry != 0;
    }
    if (!iseq || STEP_LOAD(iseq + RUBY_ISEQ_BODY, &body) ||
        RUNTIME_READ(w->body, sizeof w->body, body + RUBY_BODY_FROM))
        return 0;
    bpf_s64 distance = (bpf_s64)(entry - iseq) >> 3;
    if (!entry || distance != (bpf_s32)distance)
        distance = 0;
    bpf_u64 at = (w->at[RUBY_FRAME_PC] - w->body[RUBY_BODY_CODE]) >> 3;
    ret->extra = at < RUBY_NO_INSTRUCTION ? at : RUBY_NO_INSTRUCTION;
    ret->file = (bpf_u32)distance;
    ret->where = RUBY_WHERE(iseq, RUBY_HASH_ISEQ(body, w->body[RUBY_BODY_CODE], w->body[RUBY_BODY_LABEL],
                                                 distance ? w->entry[RUBY_ENTRY_METHOD] : 0));
    return 1;
}

/* A step at `address`, which is behind a call or (is_return 0) that of the next instruction. STEP_NATIVE: the
 * frame of the machine is what there is. Else it is not told, and *ret is a word if its kind says so;
 * STEP_TAKEN: more is to come of the same frame of the machine. */
STEP_INLINE int ruby_walk_on(STEP_HANDLE handle, bpf_u64 address, bpf_u32 is_return, struct sample_frame *ret)
{
    *ret = (struct sample_frame){.kind = SAMPLE_FRAME_KERNEL, .runtime = RUNTIME_RUBY};
    STEP_OPEN(ruby, handle);
    bpf_u32 is_core = address - p->core < p->core_size;
    if (!w->is_inside) {
        if (!is_core && address - p->exec >= p->exec_size)
            return STEP_NATIVE;
        if (w->begun == RUBY_NOT_BEGUN)
            ruby_begin(handle, is_return);
        if (w->begun == RUBY_COLLECTS) {
            w->begun = RUBY_AT_RETURN;
            ret->kind = SAMPLE_FRAME_WORD;
            ret->where = RUBY_COLLECTOR;
            return STEP_TAKEN;
        }
        if (!w->frame)
            return STEP_NATIVE;
        if (is_core)
            return STEP_PASSED; /* rb_vm_exec is next */
    }
    w->is_inside = 0;
    if (RUNTIME_READ(w->at, sizeof w->at, w->frame) ||
        RUNTIME_READ(w->env, sizeof w->env, w->at[RUBY_FRAME_EP] - 8 * RUBY_ENV_FLAGS)) {
        w->frame = 0;
        return STEP_PASSED;
    }
    bpf_u64 flags = w->env[RUBY_ENV_FLAGS];
    w->frame += p->frame;
    if (w->frame >= w->end)
        w->frame = 0;
    bpf_u32 is_last = !w->frame || (flags & RUBY_FRAME_FINISH);
    if (ruby_word(w, handle, flags, ret)) {
        ret->kind = SAMPLE_FRAME_WORD;
        if (w->begun == RUBY_AT_RETURN && ret->extra == 0 && w->frame)
            is_last = 0;
    }
    w->begun = RUBY_BEGUN;
    w->is_inside = !is_last;
    return is_last ? STEP_LAST : STEP_TAKEN;
}

#endif
