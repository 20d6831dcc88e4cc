/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * One step of a walk: from the registers in a frame to those in its caller. The same code runs in the kernel
 * (walk.bpf.h) and in user space, where it is tested on recorded stacks and fuzzed.
 *
 * Who includes it has defined before:
 *
 *     UNWIND_WALK                       the type of what a walk knows
 *     UNWIND_LOAD(w, address, value)    *value = the 8 bytes at address of the thread's memory; 0 if it can
 *     UNWIND_IN_STACK(w, r, address)    whether 16 bytes at address are in the stack that r->sp is in, or in
 *                                       one the thread may have come from
 *     UNWIND_SIGNAL(w, r)               if it is to be other than by UNWIND_LOAD: leaves the frame of a
 *                                       signal handler by unwind_interrupted; how it ended
 */
#ifndef BPF_UNWIND_STEP_H
#define BPF_UNWIND_STEP_H

#include "bpf/unwind.h"

#define UNWIND_INLINE static inline __attribute__((always_inline))

UNWIND_INLINE int unwind_by_pointer(UNWIND_WALK *w, struct unwind_registers *r)
{
    bpf_u64 bp = r->bp, next, ra;
    if (r->bp_lost)
        return UNWIND_END_NO_RULE;
    if (bp == 0) /* the psABI's mark of the outermost frame (3.4.1); in one that has not called, a number */
        return r->is_return ? UNWIND_END_ROOT : UNWIND_END_NO_RULE;
    if ((bp & 7) || !UNWIND_IN_STACK(w, r, bp))
        return UNWIND_END_BAD_FRAME;
    if (UNWIND_LOAD(w, bp, &next) || UNWIND_LOAD(w, bp + 8, &ra))
        return UNWIND_END_UNREADABLE;
    if (ra == 0)
        return UNWIND_END_ROOT;
    r->sp = bp + 16;
    r->bp = next;
    r->ip = ra;
    r->is_return = 1;
    r->has_all = 0;
    r->had_all = 0;
    return UNWIND_END_NONE;
}

/* Where a struct sigcontext begins behind rsp in a handler's frame once its return address is popped
 * (Linux arch/x86: struct rt_sigframe, struct ucontext: flags, link and stack_t come first), and where a
 * register of a DWARF number is in it, in words (sigcontext: r8 … r15, rdi, rsi, rbp, rbx, rdx, rax, rcx,
 * rsp, rip). */
#define UNWIND_SIGNAL_AT 40u
/* Four bits a register, DWARF number 0 lowest (a constant, not a table: the BPF linker knows no small ones).
 */
#define UNWIND_SIGNAL_ORDER 0x76543210fa89becdull

#define UNWIND_SIGNAL_WORDS 17u

/* Goes to where a signal interrupted the thread: `saved` is what a struct sigcontext begins with. */
UNWIND_INLINE int unwind_interrupted(struct unwind_registers *r, const bpf_u64 saved[UNWIND_SIGNAL_WORDS])
{
    bpf_u64 order = UNWIND_SIGNAL_ORDER;
    for (int i = 0; i < 16; i++)
        r->all[i] = saved[order >> 4 * i & 15];
    r->ip = saved[16];
    r->sp = r->all[7];
    r->bp = r->all[6];
    r->bp_lost = 0;
    r->has_all = 1;
    r->is_return = 0;
    return UNWIND_END_NONE;
}

#ifndef UNWIND_SIGNAL
#define UNWIND_SIGNAL(w, r) unwind_signal(w, r)
UNWIND_INLINE int unwind_signal(UNWIND_WALK *w, struct unwind_registers *r)
{
    bpf_u64 saved[UNWIND_SIGNAL_WORDS];
    for (bpf_u32 i = 0; i < UNWIND_SIGNAL_WORDS; i++)
        if (UNWIND_LOAD(w, r->sp + UNWIND_SIGNAL_AT + 8 * i, &saved[i]))
            return UNWIND_END_UNREADABLE;
    return unwind_interrupted(r, saved);
}
#endif

/* The CFA by a rule; 0 or how the walk ends. */
UNWIND_INLINE int unwind_cfa(UNWIND_WALK *w, const struct unwind_registers *r, struct unwind_rule rule,
                             bpf_u64 *ret)
{
    bpf_u64 at;
    switch (rule.cfa) {
    case UNWIND_CFA_PADDING: *ret = r->sp + 8; return 0; /* a stub of a few bytes */
    case UNWIND_CFA_UNSAID:
    case UNWIND_CFA_RSP: *ret = r->sp + (bpf_s64)rule.cfa_offset; return 0;
    case UNWIND_CFA_RBP:
        if (r->bp_lost)
            return UNWIND_END_NO_RULE;
        *ret = r->bp + (bpf_s64)rule.cfa_offset;
        return 0;
    case UNWIND_CFA_PLT: *ret = r->sp + 8 + ((r->ip & 15) >= (bpf_u32)rule.cfa_offset ? 8 : 0); return 0;
    case UNWIND_CFA_AT_RSP_TWICE:
    case UNWIND_CFA_AT_RSP:
    case UNWIND_CFA_AT_RBP:
        if (rule.cfa == UNWIND_CFA_AT_RBP && r->bp_lost)
            return UNWIND_END_NO_RULE;
        at = (rule.cfa == UNWIND_CFA_AT_RBP ? r->bp : r->sp) + (bpf_s64)(rule.cfa_offset >> 8);
        if (UNWIND_LOAD(w, at, ret) || (rule.cfa == UNWIND_CFA_AT_RSP_TWICE && UNWIND_LOAD(w, *ret, ret)))
            return UNWIND_END_UNREADABLE;
        *ret += (bpf_u32)rule.cfa_offset & 255;
        return 0;
    default: /* a register, of which the caller's frames know nothing */
        if (!(rule.cfa < UNWIND_CFA_KEPT ? r->has_all : r->has_all | r->had_all))
            return UNWIND_END_NO_RULE;
        *ret = r->all[(rule.cfa - UNWIND_CFA_REGISTER) & 15] + (bpf_s64)rule.cfa_offset;
        return 0;
    }
}

/* The caller's rbp by a rule. */
UNWIND_INLINE int unwind_rbp(UNWIND_WALK *w, struct unwind_registers *r, struct unwind_rule rule, bpf_u64 cfa)
{
    bpf_u64 base = cfa;
    if (rule.rbp == UNWIND_RBP_SAME || rule.rbp == UNWIND_RBP_RA_IN_REG)
        return 0;
    if (rule.rbp == UNWIND_RBP_LOST) {
        r->bp_lost = 1;
        return 0;
    }
    if (rule.rbp == UNWIND_RBP_AT_RBP) {
        if (r->bp_lost)
            return UNWIND_END_NO_RULE;
        base = r->bp;
    } else if (rule.rbp == UNWIND_RBP_AT_RSP) {
        base = r->sp;
    }
    if (UNWIND_LOAD(w, base + (bpf_s64)rule.rbp_offset, &r->bp))
        return UNWIND_END_UNREADABLE;
    r->bp_lost = 0;
    return 0;
}

/* Moves *r to the caller's frame: 0 (UNWIND_END_NONE), or how the walk ended. */
UNWIND_INLINE int unwind_step(UNWIND_WALK *w, struct unwind_registers *r, struct unwind_rule rule)
{
    bpf_u64 cfa = 0, ra = 0;
    int end;
    if (rule.cfa == UNWIND_CFA_NONE || rule.cfa == UNWIND_CFA_UNKNOWN || rule.cfa >= UNWIND_CFA_END)
        return unwind_by_pointer(w, r);
    /* A return address behind padding is a function's first byte: the frame was made by hand, for a thread or
     * a coroutine to begin in (makecontext). */
    if (rule.cfa == UNWIND_CFA_ROOT || (rule.cfa == UNWIND_CFA_PADDING && r->is_return))
        return UNWIND_END_ROOT;
    if (rule.cfa == UNWIND_CFA_SIGNAL)
        return UNWIND_SIGNAL(w, r);
    end = unwind_cfa(w, r, rule, &cfa);
    if (end)
        return end;
    if (rule.rbp == UNWIND_RBP_RA_IN_REG) {
        if (!r->has_all)
            return UNWIND_END_NO_RULE;
        ra = r->all[rule.rbp_offset & 15];
    } else if (UNWIND_LOAD(w, cfa - 8, &ra)) {
        return UNWIND_END_UNREADABLE;
    }
    end = unwind_rbp(w, r, rule, cfa);
    if (end)
        return end;
    if (ra == 0) /* code that returns in another way (GHC's) has no caller on the stack, where nobody may have
                    written */
        return rule.cfa == UNWIND_CFA_UNSAID && !r->is_return ? UNWIND_END_NO_RULE : UNWIND_END_ROOT;
    /* Equal only where a leaf popped its return address (vfork); lower where one has gone to another stack:
     * where that before is it knows by a register, or has stored it there (OCaml 5). */
    if ((cfa < r->sp && rule.cfa < UNWIND_CFA_REGISTER && rule.cfa != UNWIND_CFA_AT_RSP) ||
        (cfa == r->sp && rule.rbp != UNWIND_RBP_RA_IN_REG))
        return UNWIND_END_BAD_FRAME;
    r->sp = cfa;
    r->ip = ra;
    r->is_return = 1;
    r->had_all = r->has_all;
    r->has_all = 0;
    return UNWIND_END_NONE;
}

#endif
