/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * One step through a thread's Perl frames: from a frame of the machine that runs them to the words of its
 * segment, a step each. The same code runs in the kernel (runtimes.bpf.h) and in user space (step.h).
 *
 * The topmost segment may be of a call that is not on the stack of the machine, being begun (its statement is
 * still its caller's), or between two elements of a list (PL_op is 0): then it is told with the one below. An
 * eval in a call from C goes on in a call of its own (S_docatch) until that one from C returns, which then
 * has no segment: in between something waits for exceptions, a JMPENV on the stack, of which there is no
 * context. Either way each is told once, and in order.
 */
#ifndef BPF_PERL_STEP_H
#define BPF_PERL_STEP_H

#include "bpf/cpython.h"
#include "bpf/perl.h"
#include "bpf/sample.h"
#include "bpf/step.h"

/* Of the topmost context that there is something to tell of. */
enum perl_top {
    PERL_TOLD,  /* it is not the next one */
    PERL_TOP,   /* it is */
    PERL_APART, /* … and its segment has no call on the stack of the machine */
};

/* What a walk knows; all 0 but `is_begun` and `is_inside` may be anything at first. */
struct perl_walk {
    bpf_u32 is_begun;         /* the thread's stacks were looked for */
    bpf_u32 is_inside;        /* of this frame of the machine, more are to come */
    bpf_u64 stack;            /* the one that the next context is on; 0: there is none */
    bpf_u64 next;             /* that context, … */
    bpf_u64 left;             /* … and how many there are */
    bpf_u64 previous;         /* the stack below */
    bpf_u64 cop;              /* the statement that the next subroutine is at */
    bpf_u64 current;          /* the thread's */
    bpf_u64 behind;           /* where a subroutine that it is calling will return to; PERL_NOT_CALLED */
    bpf_u64 catches;          /* what waits for exceptions next */
    bpf_u32 top;              /* enum perl_top */
    bpf_u32 is_sub;           /* what was told last is a subroutine */
    bpf_u32 is_end;           /* it is what its segment begins with */
    bpf_u32 what;             /* enum perl_what */
    bpf_u64 object, hash, at; /* at: the statement */
    union {                   /* what was read */
        bpf_u64 context[PERL_CONTEXT_WORDS];
        bpf_u64 code[PERL_CODE_WORDS];
        bpf_u64 statement[PERL_COP_WORDS];
        bpf_u64 info[PERL_STACK_WORDS];
    };
    struct sample_frame word; /* if its kind says so */
};

#define PERL_NOT_CALLED ~0ull
#define PERL_ANYWHERE   1ull /* it is called, and about to come to a statement */

/* Contexts that are gone through in one step, and such that wait for exceptions. */
#define PERL_CONTEXTS_MAX 8
#define PERL_CATCHES_MAX  8

STEP_INLINE int perl_is_loop(const struct perl_place *p, bpf_u64 address)
{
    return address - p->start[0] < p->size[0] || address - p->start[1] < p->size[1];
}

/* The thread's interpreter: what offsets are added to. False: it has none. */
STEP_INLINE int perl_interpreter(const struct perl_place *p, bpf_u64 *ret)
{
    bpf_u32 key = 0;
    bpf_u64 self = RUNTIME_THREAD(), block = self + CPYTHON_TSD_FIRST;
    *ret = 0;
    if (!p->key)
        return 1;
    if (RUNTIME_READ(&key, 4, p->key) || key >= CPYTHON_TSD_KEYS)
        return 0;
    if (p->has_musl)
        return !STEP_LOAD(self + CPYTHON_TSD_MUSL, &block) && !STEP_LOAD(block + 8 * (bpf_u64)key, ret) &&
               *ret;
    return (key < 32 || !STEP_LOAD(self + CPYTHON_TSD_BLOCKS + 8 * (bpf_u64)(key / 32), &block)) &&
           !STEP_LOAD(block + 16 * (bpf_u64)(key % 32) + 8, ret) && *ret;
}

/* Goes to a stack. */
STEP_INLINE void perl_enter(struct perl_walk *w, bpf_u64 stack)
{
    w->stack = 0;
    w->left = 0;
    if (!stack || RUNTIME_READ(w->info, sizeof w->info, stack + PERL_STACK_FROM))
        return;
    bpf_s32 top = (bpf_s32)w->info[PERL_STACK_TOP];
    w->stack = stack;
    w->previous = w->info[PERL_STACK_PREVIOUS];
    if (top < 0)
        return;
    w->left = (bpf_u64)top + 1;
    w->next = w->info[PERL_STACK_CONTEXTS] + (bpf_u64)top * PERL_CONTEXT_BYTES;
}

/* Finds the thread's stacks. */
STEP_PART perl_begin(STEP_HANDLE handle)
{
    STEP_OPEN(perl, handle);
    bpf_u64 base, op = 0, kind = 0, stack = 0;
    w->is_begun = 1;
    w->is_sub = 0;
    w->stack = 0;
    if (!perl_interpreter(p, &base) || STEP_LOAD(base + p->cop, &w->cop) || STEP_LOAD(base + p->op, &op) ||
        STEP_LOAD(base + p->catches, &w->catches) || STEP_LOAD(base + p->stack, &stack))
        return 0;
    w->current = w->cop;
    w->top = op ? PERL_TOP : PERL_APART;
    w->behind = PERL_NOT_CALLED;
    if (op && !STEP_LOAD(op + PERL_COP_FROM, &kind)) {
        bpf_u32 is = PERL_OP_KIND(kind);
        if (is == p->nextstate)
            w->behind = PERL_ANYWHERE;
        else if (!is || is == p->entersub) /* from C it is an operation of no kind (Perl_call_sv, myop) */
            STEP_LOAD(op, &w->behind);
    }
    perl_enter(w, stack);
    return 0;
}

/* An eval that nobody has written: of who calls from C and wants to know of exceptions. */
STEP_INLINE int perl_is_from_c(const bpf_u64 context[PERL_CONTEXT_WORDS])
{
    return PERL_TYPE(context[PERL_CONTEXT_TYPE]) == PERL_TYPE_EVAL &&
           (context[PERL_CONTEXT_TYPE] & PERL_EVAL_BLOCK) && !context[PERL_CONTEXT_RETURN];
}

/* Whether a frame of the machine is one whose segment an eval has gone on with. What waits for exceptions
 * below it is left behind. */
STEP_PART perl_is_caught(STEP_HANDLE handle, bpf_u64 sp)
{
    STEP_OPEN(perl, handle);
    bpf_u32 found = 0;
    STEP_LOOP
    for (int i = 0; i < PERL_CATCHES_MAX && w->catches && w->catches < sp; i++) {
        found = w->is_sub;
        if (STEP_LOAD(w->catches, &w->catches))
            w->catches = 0;
    }
    w->is_sub = 0;
    return found &&
           !(w->left && !RUNTIME_READ(w->context, sizeof w->context, w->next) && perl_is_from_c(w->context));
}

/* Whether below the next context is a block that sort or a pattern calls: what such a block calls last has
 * nowhere to return to either. */
STEP_INLINE int perl_is_in_block(const struct perl_walk *w)
{
    bpf_u64 type = 0;
    return w->left && !STEP_LOAD(w->next, &type) &&
           (PERL_TYPE(type) == PERL_TYPE_SORT ||
            (PERL_TYPE(type) == PERL_TYPE_SUB && (type & PERL_SUB_CALLED)));
}

/* What tells a subroutine, w->object, from others: w->what, object and hash. */
STEP_PART perl_code(STEP_HANDLE handle)
{
    STEP_OPEN(perl, handle);
    bpf_u64 code = w->object, head[PERL_HEAD_WORDS], name, text = 0, glob[PERL_GLOB_WORDS];
    w->object = PERL_NO_OBJECT;
    w->what = PERL_UNNAMED;
    if (RUNTIME_READ(head, sizeof head, code) || !PERL_IS_CODE(head) ||
        RUNTIME_READ(w->code, sizeof w->code, head[PERL_HEAD_BODY] + PERL_CODE_FROM))
        return 0;
    glob[PERL_GLOB_NAME] = name = w->code[PERL_CODE_GLOB];
    glob[PERL_GLOB_PACKAGE] = w->code[PERL_CODE_PACKAGE];
    bpf_u32 is_named = PERL_CODE_IS_NAMED(w->code);
    if (!is_named && (RUNTIME_READ(head, sizeof head, name) || !PERL_IS_GLOB(head) ||
                      RUNTIME_READ(glob, sizeof glob, head[PERL_HEAD_BODY] + PERL_GLOB_FROM)))
        return 0;
    if (STEP_LOAD(glob[PERL_GLOB_NAME], &text))
        return 0;
    w->object = is_named ? code : name;
    w->what = is_named ? PERL_NAMED : PERL_GLOB;
    w->hash = PERL_HASH_NAME(glob[PERL_GLOB_NAME], text, glob[PERL_GLOB_PACKAGE]);
    return 0;
}

/* Reads the next context. 1: there is something to tell, at least that its segment ends; 0: there is not; -1:
 * it is not there. */
STEP_PART perl_look(STEP_HANDLE handle)
{
    STEP_OPEN(perl, handle);
    w->object = PERL_NO_OBJECT;
    w->hash = 0;
    w->at = w->cop;
    if (!w->left) {
        w->what = PERL_MAIN;
        w->is_end = 1;
        bpf_u64 previous = w->previous;
        perl_enter(w, previous);
        return !previous ? 1 : w->stack ? 0 : -1;
    }
    bpf_u32 top = w->top;
    if (RUNTIME_READ(w->context, sizeof w->context, w->next)) {
        w->stack = 0;
        return -1;
    }
    w->next -= PERL_CONTEXT_BYTES;
    w->left--;
    bpf_u64 type = w->context[PERL_CONTEXT_TYPE], cop = w->context[PERL_CONTEXT_COP];
    bpf_u32 of = PERL_TYPE(type);
    w->is_end = !w->context[PERL_CONTEXT_RETURN] && !perl_is_in_block(w);
    w->what = PERL_NOTHING;
    if (of == PERL_TYPE_SORT || of == PERL_TYPE_DEFER)
        w->is_end = 1;
    else if (of == PERL_TYPE_EVAL) {
        if ((type & PERL_EVAL_TRY) || perl_is_from_c(w->context))
            return 0;
        w->what = PERL_EVAL_OP(type) == p->require ? PERL_REQUIRE : PERL_EVAL;
    } else if (of != PERL_TYPE_SUB && of != PERL_TYPE_FORMAT)
        return 0;
    else if (of == PERL_TYPE_FORMAT || !(type & PERL_SUB_PATTERN))
        w->what = PERL_GLOB;
    w->top = PERL_TOLD;
    w->is_sub = of != PERL_TYPE_EVAL;
    if (top && cop == w->current) {
        if (w->what == PERL_GLOB &&
            (w->behind == PERL_ANYWHERE || w->context[PERL_CONTEXT_RETURN] == w->behind))
            return 0; /* its first statement is to come */
        w->is_end = 0;
    }
    if (top == PERL_APART)
        w->is_end = 0;
    if (w->what == PERL_NOTHING)
        return w->is_end; /* the statement is the next one's */
    if (w->what == PERL_GLOB) {
        w->object = w->context[PERL_CONTEXT_CODE];
        perl_code(handle);
        if (top && w->what == PERL_UNNAMED)
            return 0; /* it is being made */
    }
    w->cop = cop;
    return 1;
}

/* What the name of a statement's file begins with; 0: it is not known. */
STEP_INLINE bpf_u64 perl_file(const struct perl_place *p, bpf_u64 file)
{
    bpf_u64 text = 0;
    if (!p->key) {
        if (STEP_LOAD(file, &file) || STEP_LOAD(file + PERL_GLOB_FROM, &file))
            return 0;
        file += PERL_NAME_TEXT + PERL_FILE_PREFIX;
    }
    return STEP_LOAD(file, &text) ? 0 : text;
}

/* Makes the word. */
STEP_PART perl_word(STEP_HANDLE handle)
{
    STEP_OPEN(perl, handle);
    bpf_u64 at = w->at, text, hash = 0;
    bpf_u32 kind;
    if (!at || RUNTIME_READ(w->statement, sizeof w->statement, at + PERL_COP_FROM) ||
        ((kind = PERL_OP_KIND(w->statement[PERL_COP_KIND])) != p->nextstate && kind != p->nextstate + 1u))
        at = 0; /* what is being compiled has none */
    else {
        text = perl_file(p, w->statement[PERL_COP_FILE]);
        bpf_u64 line = PERL_COP_LINE(w->statement);
        if (PERL_IS_EVAL(text)) {
            w->what |= PERL_LINE;
            at = line << 3;
        } else
            hash = PERL_HASH_PLACE(w->statement[PERL_COP_FILE], text, line);
    }
    w->word.kind = SAMPLE_FRAME_WORD;
    w->word.extra = PERL_EXTRA(at, w->what);
    w->word.file = PERL_FILE(at);
    w->word.where = PERL_WHERE(w->object, w->hash, hash);
    return 0;
}

/* A step at `address`, where the stack pointer is `sp` (0: it is not known). STEP_NATIVE: the frame of the
 * machine is what there is. Else it is not told, and w->word is a word if its kind says so; STEP_TAKEN: more
 * is to come of the same frame of the machine. */
STEP_INLINE int perl_walk_on(STEP_HANDLE handle, bpf_u64 address, bpf_u64 sp)
{
    STEP_OPEN(perl, handle);
    bpf_u32 was_inside = w->is_inside;
    w->word = (struct sample_frame){.kind = SAMPLE_FRAME_KERNEL, .runtime = RUNTIME_PERL};
    if (!was_inside) {
        if (!perl_is_loop(p, address))
            return STEP_NATIVE;
        if (!w->is_begun)
            perl_begin(handle);
        if (!w->stack)
            return STEP_NATIVE;
        if (perl_is_caught(handle, sp))
            return STEP_PASSED;
    }
    int found = 0;
    STEP_LOOP
    for (int i = 0; i < PERL_CONTEXTS_MAX && !found; i++)
        found = perl_look(handle);
    w->is_inside = !found || (found > 0 && !w->is_end);
    if (found < 0)
        return was_inside ? STEP_PASSED : STEP_NATIVE;
    if (!found)
        return STEP_TAKEN;
    if (w->what == PERL_NOTHING)
        return STEP_PASSED;
    perl_word(handle);
    return w->is_end ? STEP_LAST : STEP_TAKEN;
}

#endif
