/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * One step through a thread's Lua frames: from a frame of the machine that runs them to the words of its
 * segment, a step each. The same code runs in the kernel (runtimes.bpf.h) and in user space (step.h).
 *
 * The interpreter's frame says whose stack it runs on. Where its topmost frame is there, registers say best:
 * the state knows only what was so when C was called last, and not for each function of C. Where a result is
 * being returned, and a function has overwritten itself with it, it is its caller that is told.
 */
#ifndef BPF_LUAJIT_STEP_H
#define BPF_LUAJIT_STEP_H

#define LUAJIT_READ(from, to, n, address) RUNTIME_READ(to, n, address)
#include "bpf/luajit_called.h"
#include "bpf/sample.h"
#include "bpf/step.h"

/* What a walk knows; all but the first three, which are 0, may be anything at first. */
struct luajit_walk {
    bpf_u16 is_begun;                /* a segment was looked for */
    bpf_u16 tries;                   /* to find the first frame of the interpreter's */
    bpf_u32 is_inside;               /* of this frame of the machine, more are to come */
    bpf_u64 base;                    /* the next frame's; 0: there is none */
    bpf_u64 pc;                      /* where it goes on; anything else: it is not known */
    bpf_u64 frame;                   /* the interpreter's frame */
    bpf_u64 below;                   /* the next one of the same state */
    bpf_u64 state;                   /* whose stack `base` is on … */
    bpf_u64 other_state, other_base; /* … and what was so of another one before */
    bpf_u64 call;     /* where the caller of the frame that is told goes on; 0: it is not known */
    bpf_u32 op;       /* the instruction that has called it */
    bpf_u16 is_end;   /* that frame is the last of its segment */
    bpf_u16 is_above; /* the walk is not at the interpreter's frame itself, but somewhere above it */
    bpf_u64 called;   /* what tells its name from others (luajit_called) */
    bpf_u64 slot[LUAJIT_BELOW_WORDS]; /* below its base */
    union {                           /* what was read */
        bpf_u64 machine[LUAJIT_FRAME_WORDS];
        bpf_u64 thread[LUAJIT_STATE_WORDS];
        struct {
            bpf_u64 function[LUAJIT_FUNCTION_WORDS];
            bpf_u64 proto[LUAJIT_PROTO_WORDS];
        };
        struct luajit_call by;
    };
    struct sample_frame word; /* of the kinds below */
};

/* What a step may tell besides a word: the code as such; nothing. */
#define LUAJIT_TELL_CODE    SAMPLE_FRAME_CODE
#define LUAJIT_TELL_NOTHING SAMPLE_FRAME_KERNEL

/* By DWARF number. */
#define LUAJIT_REGISTER_BASE     1u /* rdx */
#define LUAJIT_REGISTER_PC       3u /* rbx */
#define LUAJIT_REGISTER_DISPATCH 14u

/* Ahead of a walk the first frame is looked for so many times in LUAJIT_ABOVE_MAX slots. */
#define LUAJIT_TRIES_MAX 32u

/* Whether the topmost frame of a state is at w->frame, which else moves up; -1: there is no memory. */
STEP_PART luajit_is_top(STEP_HANDLE handle)
{
    STEP_OPEN(luajit, handle);
    bpf_u64 at = w->frame, state = 0, top = 0;
    if (STEP_LOAD(at + 8 * LUAJIT_FRAME_STATE, &state))
        return -1;
    if (state && !(state & 7) && !STEP_LOAD(state + LUAJIT_STATE_FROM + 8 * LUAJIT_STATE_FRAME, &top) &&
        LUAJIT_FRAME(top) == at)
        return 1;
    w->frame = at + 16;
    return 0;
}

/* Looks for the interpreter's frame above which something else has room, from w->frame up. 1: it is there;
 * that it is the topmost of its state tells it from what else has a state. */
STEP_PART luajit_find(STEP_HANDLE handle)
{
    STEP_OPEN(luajit, handle);
    int found = 0;
    w->frame = (w->frame + 15) & ~15ull;
    STEP_LOOP
    for (bpf_u64 i = 0; i < LUAJIT_ABOVE_MAX && !found; i++)
        found = luajit_is_top(handle);
    return found > 0;
}

/* Whether a frame of the interpreter's is at `at`. */
STEP_INLINE int luajit_is_frame(bpf_u64 at)
{
    bpf_u64 state = 0, kind = 0;
    return !STEP_LOAD(at + 8 * LUAJIT_FRAME_STATE, &state) && state && !(state & 7) &&
           !STEP_LOAD(state + LUAJIT_STATE_FROM, &kind) && LUAJIT_IS_STATE(kind);
}

/* Whether a trace runs, by the registers that were interrupted: they know the global_State, if they are the
 * interpreter's. */
STEP_PART luajit_is_trace(STEP_HANDLE handle)
{
    STEP_OPEN(luajit, handle);
    bpf_u64 global = r->all[LUAJIT_REGISTER_DISPATCH] - p->dispatch;
    bpf_u64 current[2] = {0}, of = 0; /* cur_L, jit_base */
    return p->trace_base && !RUNTIME_READ(current, sizeof current, global + p->trace_base - 8) &&
           current[1] && !STEP_LOAD(current[0] + LUAJIT_STATE_FROM + 8 * LUAJIT_STATE_GLOBAL, &of) &&
           of == global;
}

/* The first and last instructions of the interpreter, where registers are saved and restored, are said by no
 * table: how far above the stack pointer the caller's is. 0: it is none of them. */
STEP_INLINE bpf_u32 luajit_room(bpf_u64 ip)
{
    bpf_u32 code = 0;
    if (RUNTIME_READ(&code, 4, ip))
        return 0;
    switch (code & 255) {
    case 0x55: return 8;  /* push %rbp */
    case 0x53: return 16; /* push %rbx */
    case 0x5d: return 16; /* pop %rbp */
    case 0x5b: return 24; /* pop %rbx */
    case 0xc3: return 8;  /* ret */
    }
    switch (code & 0xffff) {
    case 0x5741: return 24; /* push %r15 */
    case 0x5641: return 32; /* push %r14 */
    case 0x5f41: return 32; /* pop %r15 */
    case 0x5e41: return 40; /* pop %r14 */
    }
    return code == 0x28ec8348 ? 40 : 0; /* sub $40, %rsp */
}

/* Likewise of what ffi has made for C to call (lj_ccallback.c). */
STEP_INLINE bpf_u32 luajit_callback_room(bpf_u64 ip)
{
    bpf_u32 code = 0;
    if (RUNTIME_READ(&code, 4, ip))
        return 0;
    switch (code & 255) {
    case 0xb0: return 8;  /* mov $…, %al */
    case 0xeb: return 8;  /* jmp */
    case 0x55: return 8;  /* push %rbp */
    case 0xb4: return 16; /* mov $…, %ah */
    }
    code &= 0xffff;
    return code == 0xbd48 || code == 0x25ff ? 16 : 0; /* mov $…, %rbp; jmp *…(%rip) */
}

/* Leaves a frame of so much room, none if it is 0; whether it has. */
STEP_PART luajit_leave(STEP_HANDLE handle, bpf_u32 room)
{
    STEP_OPEN(luajit, handle);
    bpf_u64 ip = 0, bp = r->bp;
    if (!room || STEP_LOAD(r->sp + room - 8, &ip) || (room > 8 && STEP_LOAD(r->sp + room - 16, &bp)))
        return 0;
    r->sp += room;
    r->ip = ip;
    r->bp = bp;
    r->is_return = 1;
    r->has_all = 0;
    w->word.kind = LUAJIT_TELL_CODE;
    return 1;
}

enum luajit_fit {
    LUAJIT_FITS_NOT,  /* there is none */
    LUAJIT_FITS,      /* it is a Lua function's that is at `pc`; or that of another one, */
    LUAJIT_FITS_HALF, /* or of a Lua function that is elsewhere */
};

/* Whether a frame is at a base. */
STEP_PART luajit_fits(STEP_HANDLE handle, bpf_u64 base, bpf_u64 pc)
{
    STEP_OPEN(luajit, handle);
    bpf_u64 slot = 0;
    bpf_u32 size = 0;
    if (!base || (base & 7) || STEP_LOAD(base - 16, &slot) || !LUAJIT_IS_FUNCTION(slot) ||
        RUNTIME_READ(w->function, sizeof w->function, LUAJIT_REFERENCE(slot)))
        return LUAJIT_FITS_NOT;
    bpf_u64 of = LUAJIT_FUNCTION_OF(w->function[LUAJIT_FUNCTION_KIND]),
            code = w->function[LUAJIT_FUNCTION_CODE];
    if ((of & 255) != LUAJIT_FUNCTION_LUA)
        return LUAJIT_FITS_NOT;
    if (of == LUAJIT_FUNCTION_LUA &&
        (RUNTIME_READ(&size, 4, code - LUAJIT_PROTO_BYTES + LUAJIT_PROTO_SIZE_AT) ||
         pc - code > 4 * (bpf_u64)size))
        return LUAJIT_FITS_HALF;
    return LUAJIT_FITS;
}

/* Where the interpreter itself is: w->base and pc by its registers. 0: they do not say it. */
STEP_INLINE int luajit_by_registers(STEP_HANDLE handle, struct luajit_walk *w,
                                    const struct unwind_registers *r)
{
    bpf_u64 base = r->all[LUAJIT_REGISTER_BASE], pc = r->all[LUAJIT_REGISTER_PC];
    bpf_u32 op = 0;
    if (luajit_fits(handle, base, pc) != LUAJIT_FITS) {
        if (!LUAJIT_LINK_IS_PC(pc) || RUNTIME_READ(&op, 4, pc - 4))
            return 0;
        base -= 16 + 8 * (bpf_u64)LUAJIT_OP_A(op);
        if (luajit_fits(handle, base, pc) != LUAJIT_FITS)
            return 0;
    }
    w->base = base;
    w->pc = pc;
    return 1;
}

/* The topmost frame of a stack that was not met yet, by its state, which was read. */
STEP_PART luajit_top(STEP_HANDLE handle, bpf_u64 bp)
{
    STEP_OPEN(luajit, handle);
    bpf_u64 trace = 0, global = w->thread[LUAJIT_STATE_GLOBAL], bottom = w->thread[LUAJIT_STATE_BOTTOM],
            room = w->thread[LUAJIT_STATE_END] - bottom;
    w->base = w->thread[LUAJIT_STATE_BASE];
    if (!w->is_begun && p->trace_base && !STEP_LOAD(global + p->trace_base, &trace) && trace) {
        w->base = trace;
        w->pc = 0;
    } else if (!(r->has_all && !w->is_above && luajit_by_registers(handle, w, r)) && bp - bottom < room &&
               luajit_fits(handle, bp, w->pc)) {
        w->base = bp; /* where who calls C without telling where it is keeps it */
    }
    return 0;
}

/* Begins with the segment that the interpreter's frame runs, w->frame. 0: it has none; 2: it is luajit_top
 * that knows where, by the state. */
STEP_PART luajit_begin(STEP_HANDLE handle)
{
    STEP_OPEN(luajit, handle);
    bpf_u64 base = w->base, of = w->state;
    if (!w->is_begun) {
        of = 0;
        w->other_state = 0;
        w->below = 0;
    }
    if (RUNTIME_READ(w->machine, sizeof w->machine, w->frame)) {
        w->base = 0;
        return 0;
    }
    bpf_u64 state = w->machine[LUAJIT_FRAME_STATE];
    bpf_s32 results = (bpf_s32)w->machine[LUAJIT_FRAME_RESULTS];
    w->below = LUAJIT_FRAME(w->machine[LUAJIT_FRAME_PREVIOUS]);
    w->pc = w->machine[LUAJIT_FRAME_PC];
    if (results < 0) /* it runs something written in C, in protected mode; … */
        state = of;
    if (state == of) {
        if (!of) /* … there is more to come all the same */
            w->base = 1;
        w->state = of;
        return results >= 0 && base;
    }
    w->state = state;
    w->base = w->other_base;
    int is_new = state != w->other_state;
    w->other_state = of;
    w->other_base = base;
    if (!is_new)
        return w->base != 0;
    w->base = 0;
    return RUNTIME_READ(w->thread, sizeof w->thread, state + LUAJIT_STATE_FROM) ? 0 : 2;
}

/* Looks how the frame that is told was called by the one that goes on at `link`, and has its base at w->base,
 * or where the call says, below that of the other. 0: there is no such code. */
STEP_PART luajit_caller(STEP_HANDLE handle, bpf_u64 link, bpf_u32 is_below)
{
    STEP_OPEN(luajit, handle);
    bpf_u64 slot = 0, code = 0;
    if (RUNTIME_READ(w->by.code, sizeof w->by.code, link - sizeof w->by.code)) {
        __builtin_memset(w->by.code, 0, sizeof w->by.code); /* memory begins in between */
        if (RUNTIME_READ(&w->by.code[LUAJIT_CALL_CODE - 1], 4, link - 4))
            return 0;
    }
    w->op = w->by.code[LUAJIT_CALL_CODE - 1];
    w->call = link;
    if (is_below)
        w->base -= 16 + 8 * (bpf_u64)LUAJIT_OP_A(w->op);
    if (LUAJIT_IS_CALL(w->op) && !STEP_LOAD(w->base - 16, &slot) && LUAJIT_IS_FUNCTION(slot) &&
        !STEP_LOAD(LUAJIT_REFERENCE(slot) + 8 * LUAJIT_FUNCTION_CODE, &code) &&
        !RUNTIME_READ(w->by.proto, sizeof w->by.proto, code - LUAJIT_PROTO_BYTES + LUAJIT_PROTO_FROM))
        w->called = luajit_called(0, &w->by, code - LUAJIT_PROTO_BYTES);
    return 1;
}

/* Reads what is below the base, and what links it to the next frame, which w->base is then. 0: there is
 * nothing. */
STEP_PART luajit_look(STEP_HANDLE handle)
{
    STEP_OPEN(luajit, handle);
    bpf_u64 base = w->base, link;
    w->base = 0;
    w->call = 0;
    w->called = 0;
    w->is_end = 1;
    if (!base || RUNTIME_READ(w->slot, sizeof w->slot, base - sizeof w->slot) ||
        !LUAJIT_IS_FUNCTION(w->slot[LUAJIT_BELOW_FUNCTION]))
        return 0;
    link = w->slot[LUAJIT_BELOW_LINK];
    if (LUAJIT_LINK(link) == LUAJIT_LINK_VARIABLE) { /* how it was called is said below */
        base -= LUAJIT_LINK_BYTES(link);
        if (RUNTIME_READ(w->slot, sizeof w->slot, base - sizeof w->slot) ||
            !LUAJIT_IS_FUNCTION(w->slot[LUAJIT_BELOW_FUNCTION]))
            return 0;
        link = w->slot[LUAJIT_BELOW_LINK];
    }
    w->op = 0;
    if (LUAJIT_LINK_IS_PC(link)) {
        w->base = base;
        w->is_end = 0;
        if (luajit_caller(handle, link, 1))
            return 1;
        w->base = 0;
        return 0;
    }
    bpf_u64 is = LUAJIT_LINK(link), bytes = LUAJIT_LINK_BYTES(link), how = w->slot[LUAJIT_BELOW_HOW];
    if (!bytes || bytes >= base)
        return 0;
    w->base = base - bytes;
    if (is == LUAJIT_LINK_CONTINUES && how > LUAJIT_HOW_CALLBACK)
        luajit_caller(handle, w->slot[LUAJIT_BELOW_PC], 0); /* no call; or one that a trace has made */
    if (is == LUAJIT_LINK_CONTINUES ? how != LUAJIT_HOW_CALLBACK
                                    : is != LUAJIT_LINK_C && is != LUAJIT_LINK_CP)
        w->is_end = 0;
    return 1;
}

/* The line that a Lua function is at, whose prototype was read. */
STEP_INLINE bpf_u32 luajit_line(const struct luajit_walk *w, bpf_u64 pc, bpf_u32 size)
{
    bpf_u64 lines = w->proto[LUAJIT_PROTO_LINES], n = (pc - w->function[LUAJIT_FUNCTION_CODE]) / 4;
    bpf_u32 first = LUAJIT_FIRST_LINE(lines), line = 0, width = 0;
    if (!w->proto[LUAJIT_PROTO_LINE_INFO])
        return LUAJIT_NO_LINE;
    if (n <= 1 || n > size) /* … or where it is is not known */
        return first;
    if (LUAJIT_N_LINES(lines) >= 256)
        width = LUAJIT_N_LINES(lines) >= 65536 ? 2 : 1;
    if (RUNTIME_READ(&line, 4, w->proto[LUAJIT_PROTO_LINE_INFO] + ((n - 2) << width)))
        return LUAJIT_NO_LINE;
    return first + (width == 0 ? line & 0xff : width == 1 ? line & 0xffff : line);
}

/* Makes the word of the frame that was looked at, which goes on at `pc`, if it has one: of a function that is
 * not written in Lua nobody knows more than what it was called. */
STEP_PART luajit_word(STEP_HANDLE handle, bpf_u64 pc)
{
    STEP_OPEN(luajit, handle);
    bpf_u64 at = LUAJIT_REFERENCE(w->slot[LUAJIT_BELOW_FUNCTION]), what = LUAJIT_C, hash = 0;
    bpf_u32 chunk = 0, size, line = 0;
    if (RUNTIME_READ(w->function, sizeof w->function, at))
        return 0;
    bpf_u64 of = LUAJIT_FUNCTION_OF(w->function[LUAJIT_FUNCTION_KIND]),
            code = w->function[LUAJIT_FUNCTION_CODE];
    if ((of & 255) != LUAJIT_FUNCTION_LUA || (of != LUAJIT_FUNCTION_LUA && !w->call))
        return 0;
    hash = LUAJIT_HASH(0, 0, 0, w->op, w->called);
    if (of == LUAJIT_FUNCTION_LUA) {
        at = code - LUAJIT_PROTO_BYTES;
        what = LUAJIT_LUA;
        if (RUNTIME_READ(w->proto, sizeof w->proto, at + LUAJIT_PROTO_FROM))
            return 0;
        size = w->proto[LUAJIT_PROTO_SIZE] >> 32;
        line = luajit_line(w, pc, size);
        if (RUNTIME_READ(&chunk, sizeof chunk, w->proto[LUAJIT_PROTO_CHUNK] + LUAJIT_STRING_NUMBER_AT))
            chunk = 0; /* swapped out: a word without a name */
        hash = LUAJIT_HASH(chunk, w->proto[LUAJIT_PROTO_LINES], size, w->op, w->called);
    }
    if (what == LUAJIT_C) /* it may be made for this call, and where it was called stays */
        at = (w->call & ~7ull) - 8;
    bpf_s64 away = w->call ? (bpf_s64)(w->call - at) >> 2 : 0; /* both are multiples of it */
    if (away == (bpf_s32)away)
        w->word.file = (bpf_u32)away;
    w->word.kind = SAMPLE_FRAME_WORD;
    w->word.extra = line <= 0xffff ? (bpf_u16)line : LUAJIT_NO_LINE;
    w->word.where = LUAJIT_WHERE(at, hash, what);
    return 0;
}

enum luajit_comes {
    LUAJIT_COMES_NOT,  /* there is no frame yet, or none any more */
    LUAJIT_COMES,      /* w->frame is */
    LUAJIT_COMES_FROM, /* it is to be looked for from there up */
    LUAJIT_COMES_OUT,  /* it had none, and *r is out of it */
};

/* Comes to the interpreter. */
STEP_PART luajit_enter(STEP_HANDLE handle)
{
    STEP_OPEN(luajit, handle);
    w->frame = r->sp;
    w->is_above = 0;
    if (r->has_all ? luajit_is_trace(handle) : !luajit_is_frame(r->sp)) {
        w->is_above = 1; /* where a trace is left through, or what only traces call */
        return LUAJIT_COMES_FROM;
    }
    if (!r->has_all)
        return LUAJIT_COMES;
    bpf_u64 to = 0;
    bpf_u32 room = luajit_room(r->ip);
    if (room == 8 && !STEP_LOAD(r->sp, &to) && to - p->start < p->size)
        room = 0; /* it is a subroutine of its own that returns */
    if (luajit_leave(handle, room))
        return LUAJIT_COMES_OUT;
    if (luajit_is_frame(r->sp))
        return LUAJIT_COMES;
    w->frame += 8; /* in a subroutine of its own */
    return luajit_is_frame(w->frame) ? LUAJIT_COMES : LUAJIT_COMES_NOT;
}

/* Comes to the next frame of the interpreter's ahead of the walk. */
STEP_PART luajit_ahead(STEP_HANDLE handle)
{
    STEP_OPEN(luajit, handle);
    w->is_above = 1;
    if (!w->is_begun) {
        if (!w->tries)
            w->frame = r->sp;
        if (w->tries++ < LUAJIT_TRIES_MAX)
            return LUAJIT_COMES_FROM;
    } else {
        w->frame = w->below ? w->below : w->frame + LUAJIT_FRAME_BYTES; /* who resumes has called just that */
        if (luajit_is_frame(w->frame))
            return LUAJIT_COMES;
    }
    return LUAJIT_COMES_NOT;
}

/* Finds the interpreter's frame below compiled code, and goes to it; or leaves a callback. */
STEP_PART luajit_generated(STEP_HANDLE handle)
{
    STEP_OPEN(luajit, handle);
    w->frame = r->sp;
    w->word.kind = LUAJIT_TELL_NOTHING;
    if (!luajit_find(handle))
        return r->has_all && luajit_leave(handle, luajit_callback_room(r->ip)) ? STEP_TAKEN : STEP_NATIVE;
    r->sp = w->frame;
    r->ip = p->start;
    r->is_return = 0;
    r->has_all = 0;
    return STEP_TAKEN;
}

/* A step at `address`; or ahead of the walk. STEP_NATIVE: the frame of the machine is what there is. Else it
 * is not told, and w->word is a word, or says that the code is to be told, by its kind; STEP_TAKEN: more is
 * to come of the same frame of the machine, or *r is the next. */
STEP_INLINE int luajit_walk_on(STEP_HANDLE handle, bpf_u64 address, bpf_u32 is_ahead)
{
    STEP_OPEN(luajit, handle);
    bpf_u32 was_inside = w->is_inside;
    w->word = (struct sample_frame){.kind = LUAJIT_TELL_NOTHING, .runtime = RUNTIME_LUAJIT};
    if (!was_inside) {
        if (!is_ahead && address - p->start >= p->size)
            return STEP_NATIVE;
        int comes = is_ahead ? luajit_ahead(handle) : luajit_enter(handle);
        if (comes == LUAJIT_COMES_FROM && luajit_find(handle))
            comes = LUAJIT_COMES;
        if (comes == LUAJIT_COMES_OUT || (is_ahead && comes == LUAJIT_COMES_FROM))
            return STEP_TAKEN;
        if (comes != LUAJIT_COMES) {
            if (is_ahead)
                w->base = 0;
            return STEP_NATIVE;
        }
        if (!is_ahead)
            r->sp = w->frame;
        int begun = luajit_begin(handle);
        if (begun == 2)
            luajit_top(handle, !is_ahead && !r->bp_lost ? r->bp : 0);
        w->is_begun = 1;
        if (!begun)
            return STEP_NATIVE;
    }
    bpf_u64 pc = w->pc;
    if (!luajit_look(handle)) {
        w->is_inside = 0;
        return was_inside ? STEP_PASSED : STEP_NATIVE;
    }
    luajit_word(handle, pc);
    w->pc = w->call;
    w->is_inside = !w->is_end;
    if (!w->is_end)
        return STEP_TAKEN;
    return w->word.kind == SAMPLE_FRAME_WORD ? STEP_LAST : was_inside ? STEP_PASSED : STEP_NATIVE;
}

#endif
