/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * One step through a thread's Erlang frames: from code that was generated to its process's stack, along that
 * a return address each, and back to the thread's stack where process_main was called. The same code runs in
 * the kernel (runtimes.bpf.h) and in user space (step.h).
 */
#ifndef BPF_BEAM_STEP_H
#define BPF_BEAM_STEP_H

#include "bpf/beam.h"
#include "bpf/cpython.h"
#include "bpf/sample.h"
#include "bpf/step.h"

/* What is read of memory at once, in words: of a stack, and of code. */
#define BEAM_READ_WORDS 16u
#define BEAM_CODE_WORDS 32u

/* What a walk knows; all 0 but `is_inside` may be anything at first. */
struct beam_walk {
    bpf_u64 is_inside; /* more is to come of the Erlang stack */
    bpf_u64 next;      /* where on it */
    bpf_u64 base;      /* the scheduler's registers; 0: to be looked for */
    bpf_u64 odd;       /* the topmost return address, if it is no multiple of 4; else 0 */
    bpf_u64 one;
    bpf_u64 back, check;      /* ahead: where C returns to, and what BEAM_CHECK says */
    bpf_u64 last, last_at;    /* the return address before, 0 at first, and where on the stack it is … */
    bpf_u64 again;            /* … and how many above it are the same */
    struct sample_frame word; /* to be told if its kind says so */
    bpf_u64 read[BEAM_CODE_WORDS];
};

/* As the machine has them: rbx, DWARF's number 3. */
#define BEAM_REGISTERS 3

/* Instructions behind a call from Erlang code to C: at most so many bytes are between. What makes a binary
 * goes back behind all of its parts. */
#define BEAM_BEHIND     (8 * BEAM_CODE_WORDS - 8)
#define BEAM_BY_RBP     0xec8948u         /* mov %rbp, %rsp */
#define BEAM_CALL       0xe8u             /* call, and four bytes of how far */
#define BEAM_BY_PROCESS 0x658b49u         /* mov …(%r13), %rsp */
#define BEAM_STACK_MAX  (64u << 20)       /* of a scheduler's thread */
#define BEAM_HEAP_MAX   (1ull << 36)      /* of a process, whose stack is in it */
#define BEAM_FRAME_MAX  4096u             /* of who calls process_main */
#define BEAM_FAR        (1ull << 44)      /* all that is mapped is nearer to each other */
#define BEAM_SPECIFIC   CPYTHON_TSD_FIRST /* glibc: where a thread has what belongs to its keys */
#define BEAM_KEYS       32u               /* looked at: 16 bytes each, of which the second 8 are the value */

/* What goes along a list without a tail call, as Enum.map does, has as many frames as that has elements: all
 * of one return address, and of one size, which is its code's. So many of them are told; the rest is gone
 * past without a frame each, and a word says that it was. */
#define BEAM_AGAIN 64u
#define BEAM_READS 4u /* of BEAM_CODE_WORDS, a step */
#define BEAM_PAGE  4096u

/* Where process_main was called, above a scheduler's registers at `base`. It has made room for them, and they
 * begin at a multiple of BEAM_ALIGNED: so that was at one of four places, the others of which may have
 * anything; what comes behind it may be addresses of functions. How many words of w->read it is, of which the
 * last is the return address; or -1: there is none. */
STEP_PART beam_root(STEP_HANDLE handle, bpf_u64 base)
{
    STEP_OPEN(beam, handle);
    if (RUNTIME_READ(w->read, BEAM_ALIGNED, base + p->frame))
        return -1;
    STEP_LOOP
    for (bpf_u32 i = BEAM_ALIGNED / 8; i > 0; i -= 2) {
        bpf_u64 back = w->read[(i - 1) & (BEAM_READ_WORDS - 1)];
        if (back - p->text >= p->text_size || STEP_LOAD(back - 8, &w->one) ||
            (w->one >> 24 & 0xff) != BEAM_CALL)
            continue;
        bpf_u64 called = back + (bpf_u64)(bpf_s64)(bpf_s32)(w->one >> 32);
        if (p->call ? called == p->call : called - p->text < p->text_size)
            return (int)i;
    }
    return -1;
}

/* Goes back to there. 0 or -1. */
STEP_PART beam_leave(STEP_HANDLE handle)
{
    STEP_OPEN(beam, handle);
    int n = beam_root(handle, w->base);
    w->is_inside = 0;
    if (n < 0)
        return -1;
    r->ip = w->read[(n - 1) & (BEAM_READ_WORDS - 1)];
    r->sp = w->base + p->frame + 8 * (bpf_u64)n;
    r->is_return = 1;
    r->has_all = 0;
    /* Nobody has kept rbp for who never returns; but C's part of process_main, which jumped to the generated
     * one, may have pushed it first, as where frame pointers are kept: nothing is written there any more. */
    r->bp = w->read[(n - 2) & (BEAM_READ_WORDS - 1)];
    r->bp_lost = (r->bp & 7) || r->bp - r->sp >= BEAM_FRAME_MAX || STEP_LOAD(r->bp + 8, &w->one) ||
                 w->one - p->text >= p->text_size;
    return 0;
}

/* Whether a thread's value of a key, which is at `key`, is its scheduler: of the registers at w->base, which
 * is set if it is 0. Sets w->one to it. Apart, so that it is not verified for each key. */
STEP_PART beam_is_scheduler(STEP_HANDLE handle, bpf_u64 key)
{
    STEP_OPEN(beam, handle);
    bpf_u64 scheduler = 0, base = 0;
    if (STEP_LOAD(key, &scheduler) || !scheduler || STEP_LOAD(scheduler + BEAM_SCHEDULER_REGISTERS, &base))
        return 0;
    if (!w->base) {
        if ((base & (BEAM_ALIGNED - 1)) || base - r->sp >= BEAM_STACK_MAX || beam_root(handle, base) < 0)
            return 0;
        w->base = base;
    }
    w->one = scheduler;
    return base == w->base;
}

/* Sets w->next to the stack pointer of the process that this thread's scheduler runs. 0, or -1: it runs none,
 * or is not found. */
STEP_PART beam_process(STEP_HANDLE handle)
{
    STEP_OPEN(beam, handle);
    bpf_u64 at = RUNTIME_THREAD() + BEAM_SPECIFIC + 8, process = 0;
    int found = 0;
    STEP_LOOP
    for (bpf_u64 i = 0; i < BEAM_KEYS && found <= 0; i++)
        found = beam_is_scheduler(handle, at + 16 * i);
    return found <= 0 || STEP_LOAD(w->one + BEAM_SCHEDULER_PROCESS, &process) ||
                   STEP_LOAD(process + p->stop, &w->next)
               ? -1
               : 0;
}

/* Where code that has called C has its Erlang stack pointer: by what it will go back by. */
enum beam_saved {
    BEAM_NOT_SAVED = -1, /* it cannot be said */
    BEAM_IN_RBP,
    BEAM_IN_PROCESS,
};

/* What of that begins in one word of the code in w->read. Apart, so that it is verified once and not for each
 * byte. */
STEP_PART beam_saved_by(STEP_HANDLE handle, bpf_u32 word)
{
    STEP_OPEN(beam, handle);
    bpf_u64 code = w->read[word & (BEAM_CODE_WORDS - 1)],
            behind = w->read[(word + 1) & (BEAM_CODE_WORDS - 1)];
    STEP_LOOP
    for (bpf_u32 i = 0; i < 8; i++) {
        bpf_u32 is = code & 0xffffff;
        if (is == BEAM_BY_RBP)
            return BEAM_IN_RBP;
        if (is == BEAM_BY_PROCESS && (code >> 24 & 0xff) == p->stop)
            return BEAM_IN_PROCESS;
        code = code >> 8 | behind << 56;
        behind >>= 8;
    }
    return BEAM_NOT_SAVED;
}

STEP_PART beam_saved(STEP_HANDLE handle, bpf_u64 back)
{
    STEP_OPEN(beam, handle);
    int saved = BEAM_NOT_SAVED;
    if (RUNTIME_READ(w->read, sizeof w->read, back))
        return BEAM_NOT_SAVED;
    STEP_LOOP
    for (bpf_u32 i = 0; i < BEAM_BEHIND / 8 && saved < 0; i++)
        saved = beam_saved_by(handle, i);
    return saved;
}

/* Sets w->next to the Erlang stack pointer of code that has called C and will go on at `back`. enum
 * beam_saved. */
STEP_INLINE int beam_called(STEP_HANDLE handle, bpf_u64 back)
{
    STEP_OPEN(beam, handle);
    int saved = beam_saved(handle, back);
    if (saved == BEAM_IN_PROCESS)
        return beam_process(handle) ? BEAM_NOT_SAVED : BEAM_IN_PROCESS;
    w->next = r->bp;
    return saved == BEAM_IN_RBP && !r->bp_lost ? BEAM_IN_RBP : BEAM_NOT_SAVED;
}

/* Makes the word of an address in the code. */
STEP_PART beam_word(STEP_HANDLE handle, bpf_u64 address)
{
    STEP_OPEN(beam, handle);
    if (STEP_LOAD(address & ~7ull, &w->one))
        return -1;
    w->word.kind = SAMPLE_FRAME_WORD;
    w->word.file = BEAM_COOKIE(w->one);
    w->word.where = address;
    return 0;
}

/* Whether a word at `at` is a frame pointer: to one further up the same stack, which is to one again, or 0.
 * What is at a return address is code, and no such number; in which mapping it is says nothing, code has
 * many. */
STEP_PART beam_is_pointer(STEP_HANDLE handle, bpf_u64 value, bpf_u64 at)
{
    STEP_OPEN(beam, handle);
    if ((value & 7) || value - at >= BEAM_HEAP_MAX || STEP_LOAD(value, &w->one))
        return 0;
    return !w->one || (!(w->one & 7) && w->one - value < BEAM_HEAP_MAX);
}

/* The first of the words that were read which may be a return address; -1: there is none. */
STEP_PART beam_find(STEP_HANDLE handle)
{
    STEP_OPEN(beam, handle);
    bpf_u64 shared = p->shared;
    STEP_LOOP
    for (bpf_u64 i = 0; i < BEAM_READ_WORDS; i++) {
        bpf_u64 value = w->read[i];
        /* Code that reads binaries leaves offsets there, which are near to nothing. */
        if (!(value & 3) && value && value - shared + BEAM_FAR < 2 * BEAM_FAR)
            return (int)i;
    }
    return -1;
}

/* Looks for the next return address. -1: the stack cannot be read. */
enum beam_found {
    BEAM_NONE, /* up to w->next */
    BEAM_LAST,
    BEAM_CALLER, /* it is w->one */
};
STEP_PART beam_next(STEP_HANDLE handle)
{
    STEP_OPEN(beam, handle);
    bpf_u64 at = w->next;
    if (at & 7)
        return -1;
    if (RUNTIME_READ(w->read, 8 * BEAM_READ_WORDS, at)) {
        /* The end of the heap is nearer. */
        bpf_u64 room = BEAM_PAGE - (at & (BEAM_PAGE - 1));
        if (room > 8 * BEAM_READ_WORDS)
            room = 8 * BEAM_READ_WORDS;
        for (bpf_u32 i = 0; i < BEAM_READ_WORDS; i++)
            w->read[i] = 0;
        if (RUNTIME_READ(w->read, room, at)) {
            /* The top of a stack, where the thread is just getting a page: nothing is in that. */
            if (w->last)
                return -1;
            w->last = 1;
            w->next = (at | (BEAM_PAGE - 1)) + 1;
            return BEAM_NONE;
        }
    }
    int found = beam_find(handle);
    if (found < 0) {
        w->next = at + 8 * BEAM_READ_WORDS;
        return BEAM_NONE;
    }
    bpf_u64 value = w->read[(bpf_u32)found & (BEAM_READ_WORDS - 1)];
    w->next = at + 8 * (bpf_u64)found + 8;
    if (p->has_pointers && beam_is_pointer(handle, value, at) > 0)
        return BEAM_NONE;
    w->one = value;
    if (value == p->exit)
        return BEAM_LAST;
    return value - p->shared < p->shared_size ? BEAM_NONE : BEAM_CALLER;
}

/* Goes past return addresses that are w->last, `distance` words from each other, as far as is read at once.
 * 1: all of it was so. */
STEP_PART beam_skip(STEP_HANDLE handle, bpf_u64 distance)
{
    STEP_OPEN(beam, handle);
    if (RUNTIME_READ(w->read, sizeof w->read, w->last_at + 8))
        return 0;
    bpf_u64 next;
    *(volatile bpf_u64 *)&w->one = distance - 1; /* or older verifiers lose its bounds */
    STEP_LOOP
    for (bpf_u32 i = 0; i < BEAM_CODE_WORDS; i++) {
        next = *(volatile bpf_u64 *)&w->one;
        if (next >= BEAM_CODE_WORDS || w->read[next & (BEAM_CODE_WORDS - 1)] != w->last)
            break;
        *(volatile bpf_u64 *)&w->one = next + distance;
    }
    next = *(volatile bpf_u64 *)&w->one;
    w->last_at += 8 * (next + 1 - distance);
    return next >= BEAM_CODE_WORDS && next + 1 > distance;
}

/* Tells the return address w->one, which is below w->next; or goes past all that are the same. 0 or -1. */
STEP_PART beam_caller(STEP_HANDLE handle)
{
    STEP_OPEN(beam, handle);
    bpf_u64 back = w->one, at = w->next - 8, distance = (at - w->last_at) / 8;
    w->again = back == w->last ? w->again + 1 : 0;
    w->last = back;
    w->last_at = at;
    if (w->again < BEAM_AGAIN)
        return beam_word(handle, back - 1);
    if (w->again == BEAM_AGAIN) {
        w->word.kind = SAMPLE_FRAME_WORD;
        w->word.where = BEAM_RECURSION;
    }
    STEP_LOOP
    for (bpf_u32 i = 0; i < BEAM_READS && beam_skip(handle, distance) > 0; i++)
        ;
    w->next = w->last_at + 8;
    return 0;
}

/* Whether a word on top of an Erlang stack, which is no multiple of 4, is a return address: behind a call of
 * the shared code. Where that is, no value's bytes are. */
STEP_INLINE int beam_is_back(STEP_HANDLE handle, bpf_u64 value)
{
    STEP_OPEN(beam, handle);
    if (!(value & 3) || STEP_LOAD(value - 8, &w->one) || (w->one >> 24 & 0xff) != BEAM_CALL)
        return 0;
    return value + (bpf_u64)(bpf_s64)(bpf_s32)(w->one >> 32) - p->shared < p->shared_size;
}

STEP_INLINE int beam_is_exit(const struct beam_place *p, bpf_u64 address)
{
    return address - p->exit < BEAM_EXIT_SIZE;
}

/* Whether code has no Erlang stack: the scheduler's own, and what ends a process. */
STEP_INLINE int beam_is_bare(const struct beam_place *p, bpf_u64 address)
{
    return address - p->main < p->main_size || beam_is_exit(p, address);
}

/* From generated code to the Erlang stack. 0: w->next is there, or 0 where there is none; -1: it cannot be
 * said. */
STEP_INLINE int beam_enter(STEP_HANDLE handle, bpf_u64 address)
{
    STEP_OPEN(beam, handle);
    bpf_u64 top = 0;
    w->next = r->sp;
    w->base = r->has_all ? r->all[BEAM_REGISTERS] - p->registers : r->sp;
    w->odd = 0;
    if (!w->base || (w->base & (BEAM_ALIGNED - 1)))
        return -1;
    if (r->sp == w->base) {
        if (!beam_is_bare(p, address))
            return beam_called(handle, r->ip) == BEAM_NOT_SAVED ? -1 : 0;
        w->next = 0;
    } else if (address - p->shared < p->shared_size && !STEP_LOAD(w->next, &top) && beam_is_back(handle, top))
        w->odd = top;
    return 0;
}

/* From C that generated code has called, and that was not gone through, to the Erlang stack. As beam_enter.
 */
STEP_INLINE int beam_ahead(STEP_HANDLE handle)
{
    STEP_OPEN(beam, handle);
    w->base = w->next = w->odd = w->check = 0;
    (void)beam_process(handle);
    w->next = 0;
    if (!w->base || STEP_LOAD(w->base - 8, &w->back))
        return -1;
    if (beam_is_bare(p, w->back))
        return 0;
    int saved = beam_called(handle, w->back);
    if (saved == BEAM_NOT_SAVED) {
        w->next = 0;
        return -1;
    }
    w->check = saved == BEAM_IN_RBP ? r->bp : 0;
    if (w->back - p->shared >= p->shared_size) { /* told as if it were on top of the stack */
        w->odd = w->back;
        w->next -= 8;
    }
    return 0;
}

/* The end of an Erlang stack. */
STEP_INLINE void beam_end(STEP_HANDLE handle, struct beam_walk *w, struct unwind_registers *r, int failed,
                          int is_ahead)
{
    if (is_ahead) {
        w->is_inside = w->next = 0;
        if (!failed) {
            w->word.kind = SAMPLE_FRAME_WORD;
            w->word.file = BEAM_CHECK(w->base, w->check);
        }
    } else if (failed || beam_leave(handle)) {
        w->is_inside = 0;
        r->ip = 0; /* the walk ends, and is not complete */
    }
}

/* A step at `address`; or ahead, where the walk will not come to. STEP_NATIVE: it is not known where it goes
 * on, or, ahead, it is the end. STEP_TAKEN: it is. Either way w->word is to be told if its kind says so. */
STEP_PART beam_walk_on(STEP_HANDLE handle, bpf_u64 address, bpf_u32 is_ahead)
{
    STEP_OPEN(beam, handle);
    w->word = (struct sample_frame){.kind = SAMPLE_FRAME_KERNEL, .runtime = RUNTIME_BEAM};
    if (!w->is_inside) {
        if (is_ahead ? beam_ahead(handle) : beam_enter(handle, address))
            return STEP_NATIVE;
        w->is_inside = 1;
        w->last = w->again = 0;
        /* Of code that is no module's, what calls C is not told. */
        if (!is_ahead && (r->has_all || (address - p->shared >= p->shared_size && !beam_is_exit(p, address))))
            beam_word(handle, address);
        return STEP_TAKEN;
    }
    if (w->odd) { /* called by code that does not look at the stack */
        beam_word(handle, w->odd - 1);
        w->odd = 0;
        w->next += 8;
        return STEP_TAKEN;
    }
    int found = w->next ? beam_next(handle) : BEAM_LAST;
    if (found == BEAM_CALLER)
        found = beam_caller(handle);
    if (found == BEAM_NONE)
        return STEP_TAKEN;
    beam_end(handle, w, r, found < 0, is_ahead);
    return is_ahead ? STEP_NATIVE : STEP_TAKEN;
}

#endif
