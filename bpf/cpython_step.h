/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * One step through a thread's Python frames: from a frame of the machine that runs them to the words of its
 * segment, a step each. The same code runs in the kernel (runtimes.bpf.h) and in user space (step.h).
 */
#ifndef BPF_CPYTHON_STEP_H
#define BPF_CPYTHON_STEP_H

#include "bpf/cpython.h"
#include "bpf/sample.h"
#include "bpf/step.h"

/* A frame that is elsewhere is read to the first words, the window to those behind it. */
#define CPYTHON_READ_WORDS  64u /* a power of two: the index is masked */
#define CPYTHON_WINDOW_FROM (CPYTHON_READ_WORDS - CPYTHON_WINDOW_WORDS)
_Static_assert(CPYTHON_WINDOW_FROM >= CPYTHON_FRAME_WORDS, "there is room for one");

/* What a walk knows; all 0 but `is_begun` and `is_inside` may be anything at first. */
struct cpython_walk {
    bpf_u32 is_begun;  /* the thread's first frame was looked for */
    bpf_u32 is_inside; /* of this frame of the machine, more are to come */
    bpf_u64 frame;     /* the next one; 0: there is none */
    bpf_u64 last;      /* what was read of the one before began there */
    bpf_u64 window_at; /* the window began there */
    bpf_u64 from;      /* in `read`: what is read of the frame, in words */
    bpf_u64 read[CPYTHON_READ_WORDS];
    bpf_u64 cookie[CPYTHON_COOKIE_WORDS];
    bpf_u64 told;    /* the code object that was told last … */
    bpf_u32 told_as; /* … and with what cookie: as long as the thread stands here it cannot be freed */
    bpf_u64 interpreter, state;      /* the next ones, while one is looked for, … */
    bpf_u64 innermost, innermost_at; /* … and the best until then */
};

/* Whether what a state's running call has at this address is on the thread's stack, which the walk has come
 * to `sp` of. A thread's own data is above its stack, but for the first thread's. */
STEP_INLINE int cpython_is_on_stack(bpf_u64 at, bpf_u64 sp, bpf_u64 thread)
{
    return at >= sp && (thread < sp || at < thread);
}

/* Whether who has the lock is this thread. */
STEP_INLINE int cpython_is_current(const struct cpython_place *p, bpf_u64 state, bpf_u64 sp, bpf_u64 thread)
{
    bpf_u64 at = 0;
    if (p->interpreters)
        return !RUNTIME_READ(&at, 8, state + p->on_stack) && cpython_is_on_stack(at, sp, thread);
    return !RUNTIME_READ(&at, 8, state + p->thread_id) && at == thread;
}

/* Looks at the next one of all thread states; 1: there are no more. */
STEP_PART cpython_look_at_next(STEP_HANDLE handle, bpf_u64 sp)
{
    STEP_OPEN(cpython, handle);
    bpf_u64 state = w->state, interpreter = w->interpreter, at = 0;
    if (!state)
        return !interpreter || RUNTIME_READ(&w->state, 8, interpreter + p->states) ||
               RUNTIME_READ(&w->interpreter, 8, interpreter + CPYTHON_NEXT_INTERPRETER);
    if (RUNTIME_READ(&at, 8, state + p->on_stack) || RUNTIME_READ(&w->state, 8, state + CPYTHON_NEXT_STATE))
        return 1;
    if (at < w->innermost_at && cpython_is_on_stack(at, sp, RUNTIME_THREAD())) {
        w->innermost = state;
        w->innermost_at = at;
    }
    return 0;
}

/* Finds, of all thread states, the one whose running call is the innermost on the thread's stack:
 * w->innermost; 0: there is one interpreter, or none of them has any. */
STEP_PART cpython_find_innermost(STEP_HANDLE handle, bpf_u64 sp)
{
    STEP_OPEN(cpython, handle);
    bpf_u64 first = 0;
    w->state = 0;
    w->innermost = 0;
    w->innermost_at = ~0ull;
    if (RUNTIME_READ(&first, 8, p->interpreters) ||
        RUNTIME_READ(&w->interpreter, 8, first + CPYTHON_NEXT_INTERPRETER) || !w->interpreter)
        return 0;
    w->interpreter = first;
    STEP_LOOP
    for (bpf_u32 i = 0; i < CPYTHON_STATES_MAX; i++)
        if (cpython_look_at_next(handle, sp))
            break;
    return 0;
}

/* Finds the state that the key leads to; 0: there is none. */
STEP_INLINE bpf_u64 cpython_state_of_key(const struct cpython_place *p, bpf_u64 thread)
{
    bpf_u32 made[2] = {0};
    bpf_u64 at = 0, state = 0;
    if (RUNTIME_READ(made, 8, p->key) || made[0] != 1)
        return 0;
    bpf_u32 key = made[1];
    if (key >= CPYTHON_TSD_KEYS)
        return 0;
    if (p->has_musl) {
        if (RUNTIME_READ(&at, 8, thread + CPYTHON_TSD_MUSL) || RUNTIME_READ(&state, 8, at + 8 * (bpf_u64)key))
            return 0;
        return state;
    }
    at = thread + CPYTHON_TSD_FIRST;
    if ((key >= 32 && RUNTIME_READ(&at, 8, thread + CPYTHON_TSD_BLOCKS + 8 * (bpf_u64)(key / 32))) ||
        RUNTIME_READ(&state, 8, at + 16 * (bpf_u64)(key % 32) + 8))
        return 0;
    return state;
}

/* Finds the thread's state; 0: it has none. */
STEP_INLINE bpf_u64 cpython_state(const struct cpython_place *p, struct cpython_walk *w, STEP_HANDLE handle,
                                  bpf_u64 sp)
{
    bpf_u64 thread = RUNTIME_THREAD(), state = 0;
    if (p->current && !RUNTIME_READ(&state, 8, p->current) && state &&
        cpython_is_current(p, state, sp, thread))
        return state;
    w->innermost = 0;
    if (p->interpreters)
        cpython_find_innermost(handle, sp);
    return w->innermost ? w->innermost : cpython_state_of_key(p, thread);
}

/* Finds the thread's topmost frame: w->frame; 0: it has none. Apart, as that is once a stack, or the verifier
 * went on from each way through it. */
STEP_PART cpython_begin(STEP_HANDLE handle, bpf_u64 sp)
{
    STEP_OPEN(cpython, handle);
    bpf_u64 state = cpython_state(p, w, handle, sp), frame = 0;
    w->is_begun = 1;
    w->told = 1; /* none */
    if (state && RUNTIME_READ(&frame, 8, state + p->thread_frame))
        frame = 0;
    if (p->has_cframe && (!frame || RUNTIME_READ(&frame, 8, frame + p->cframe)))
        frame = 0;
    w->frame = frame & ~7ull;
    w->last = w->frame + p->from;
    w->window_at = ~0ull >> 1; /* nowhere */
    return 0;
}

STEP_INLINE bpf_u64 cpython_field(const struct cpython_walk *c, bpf_u16 at)
{
    return c->read[(c->from + (at >> 3)) & (CPYTHON_READ_WORDS - 1)] >> 8 * (at & 7);
}

/* Reads the next frame; 0 if it can. Those that call one another are in one window, from the top down; one of
 * a generator, or a shim, is elsewhere, and the window stays. It does not begin in a page before the frame's:
 * there may be none. */
STEP_INLINE int cpython_read(const struct cpython_place *p, struct cpython_walk *c)
{
    bpf_u64 at = c->frame + p->from, last = c->last, distance = at - c->window_at;
    c->last = at;
    c->from = CPYTHON_WINDOW_FROM + (distance >> 3);
    if (distance <= 8 * (CPYTHON_WINDOW_WORDS - CPYTHON_FRAME_WORDS))
        return 0;
    if (last - at >= 8 * CPYTHON_WINDOW_WORDS) {
        c->from = 0;
        return RUNTIME_READ(c->read, 8 * CPYTHON_FRAME_WORDS, at);
    }
    bpf_u64 room = at & 4095, below = 8 * (CPYTHON_WINDOW_WORDS - CPYTHON_FRAME_WORDS);
    if (below > room)
        below = room;
    c->window_at = at - below;
    c->from = CPYTHON_WINDOW_FROM + (below >> 3);
    return RUNTIME_READ(&c->read[CPYTHON_WINDOW_FROM], 8 * CPYTHON_WINDOW_WORDS, at - below);
}

/* Sets c->told_as to what tells a code object from others; 0 if it can. */
STEP_INLINE int cpython_look(const struct cpython_place *p, struct cpython_walk *c, bpf_u64 code)
{
    bpf_u64 name_hash = 0;
    if (p->version && !RUNTIME_READ(&c->told_as, sizeof c->told_as, code + p->version) && c->told_as)
        return 0;
    if (RUNTIME_READ(c->cookie, sizeof c->cookie, code + p->cookie))
        return -1;
    if (RUNTIME_READ(&name_hash, sizeof name_hash, c->cookie[p->hashed & 1] + CPYTHON_STRING_HASH))
        name_hash = 0; /* swapped out: a word without a name */
    c->told_as = CPYTHON_COOKIE(c->cookie, name_hash);
    return 0;
}

/* The number of the instruction a frame is at. */
STEP_INLINE bpf_u16 cpython_instruction(const struct cpython_place *p, const struct cpython_walk *c,
                                        bpf_u64 code)
{
    bpf_u64 at = cpython_field(c, p->at);
    if (p->code_start)
        at = (at - code - p->code_start) >> 1;
    else
        at = (bpf_u32)at >> (p->at_shift & 1);
    return at < CPYTHON_NO_INSTRUCTION ? (bpf_u16)at : CPYTHON_NO_INSTRUCTION;
}

/* A step at `address`, with the stack pointer there. STEP_NATIVE: the frame of the machine is what there is.
 * Else *ret is a word, and STEP_TAKEN says that it is not the last of this frame of the machine, STEP_LAST
 * that it is. STEP_PASSED: there is none, and this frame of the machine has had words. */
STEP_INLINE int cpython_walk_on(const struct cpython_place *p, struct cpython_walk *c, STEP_HANDLE handle,
                                bpf_u64 address, bpf_u64 sp, struct sample_frame *ret)
{
    bpf_u32 is_inside = c->is_inside;
    if (!is_inside && address - p->start[0] >= p->size[0] && address - p->start[1] >= p->size[1])
        return STEP_NATIVE;
    if (!c->is_begun)
        cpython_begin(handle, sp);
    c->is_inside = 0;
    if (!c->frame || cpython_read(p, c)) {
        c->frame = 0;
        return is_inside ? STEP_PASSED : STEP_NATIVE;
    }
    c->frame = cpython_field(c, p->previous) & ~7ull;
    bpf_u32 owner = cpython_field(c, p->owner) & 255;
    if (p->segment == CPYTHON_SHIM && owner >= CPYTHON_OWNER_SHIM)
        return is_inside ? STEP_PASSED : STEP_NATIVE;
    bpf_u64 code = cpython_field(c, p->code) & ~7ull;
    if (code != c->told && cpython_look(p, c, code)) {
        c->frame = 0;
        return is_inside ? STEP_PASSED : STEP_NATIVE;
    }
    c->told = code;
    *ret = (struct sample_frame){.kind = SAMPLE_FRAME_WORD,
                                 .runtime = RUNTIME_CPYTHON,
                                 .extra = cpython_instruction(p, c, code),
                                 .file = c->told_as,
                                 .where = code};
    c->is_inside = p->segment == CPYTHON_SHIM || (p->segment == CPYTHON_MARKED && owner != 1);
    return c->is_inside ? STEP_TAKEN : STEP_LAST;
}

#endif
