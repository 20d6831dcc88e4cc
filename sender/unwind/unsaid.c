/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Instructions are gone through from front to back, in chains: from one that nothing falls into to the next
 * that nothing falls out of (a return, a jump). A chain begins with the frame that an earlier jump to it had,
 * else with the one, of those it may have, that it goes on with without contradiction: a function's first, as
 * its caller left it; that of the jump before it, as code often lies where it is jumped to; or that of a jump
 * by table, or of a branch, before a return in the middle.
 *
 * Where a direct call leads to a function begins, and so does one where registers are pushed right behind a
 * call, which then does not come back, there as elsewhere: what is compiled for size has no padding between
 * functions.
 *
 * A contradiction is a return with something on the stack, or two ways to an instruction with different
 * frames. A function is believed if it returns without one, or has none and begins as functions do: what is
 * no code, a table of numbers, does not.
 */
#include "sender/unwind/unsaid.h"

#include "proto/base/macros.h"
#include "sender/symbolize/elf/instruction.h"

/* Registers' numbers. */
#define RBX 3u
#define RSP 4u
#define RBP 5u
#define R12 12u

/* As unsaid_frame.base: there is no caller. */
#define NOBODY (REGISTER_NONE + 1)

/* As unsaid_frame.rbp: it was not kept, and is 0, as of who has no caller (psABI, "Stack State"). */
#define ZEROED (-1)

/* Bytes of one frame: what has more is no frame. */
#define FRAME_MAX (1 << 20)

/* Jumps at the end of a chain that a trial of it goes along, and bytes that all trials do there. */
#define JUMPS_MAX 8u
#define ALONG_MAX (4u * UNSAID_MAX)

/* Functions remembered that do not come back: __stack_chk_fail, abort. */
#define FINAL_MAX 8u

/* In unsaid.at: an instruction of which nothing is known; below it are numbers of frames, from 1. */
#define NOT_KNOWN (UNSAID_FRAMES + 1)

/* Chains of which nothing comes; what has more of them is no code. */
#define UNKNOWN_MAX 128u

static const struct unsaid_frame called = {.is_known = true,
                                           .has_rsp = true,
                                           .depth = 8,
                                           .base = REGISTER_NONE},
                                 begun = {.is_known = true, .base = NOBODY};

/* A register gets another value. */
static void overwrite(struct unsaid_frame *f, uint8_t reg)
{
    if (reg == RSP)
        f->has_rsp = false;
    if (reg == (f->is_by_rbp ? RBP : RSP))
        f->has_slot = f->is_by_rbp = false;
    if (reg == f->base && !f->has_slot)
        f->base = REGISTER_NONE;
}

/* rsp is less by n. */
static void push(struct unsaid_frame *f, int64_t n)
{
    if (n > FRAME_MAX || n < -FRAME_MAX || f->depth > FRAME_MAX || f->slot > FRAME_MAX) {
        overwrite(f, RSP);
        return;
    }
    f->depth += (int32_t)n;
    f->slot += f->is_by_rbp ? 0 : (int32_t)n;
}

/* rsp is what `base` + n is. */
static void leave(struct unsaid_frame *f, int32_t n)
{
    f->has_rsp = true;
    f->has_slot = f->is_by_rbp = false;
    f->depth = f->base_depth - n;
}

static void push_register(struct unsaid_frame *f, uint8_t reg)
{
    push(f, 8);
    if (reg == RBP && f->has_rsp && !f->rbp)
        f->rbp = f->depth;
}

static void pop_register(struct unsaid_frame *f, uint8_t reg)
{
    if (reg == RBP && f->has_rsp && f->depth == f->rbp)
        f->rbp = 0;
    if (reg == RSP && f->has_slot && !f->is_by_rbp && f->slot == 0) {
        leave(f, 0);
        return;
    }
    overwrite(f, reg);
    push(f, -8);
}

/* lea: `reg` becomes memory's address; mov of a register is one of displacement 0. */
static void load_address(struct unsaid_frame *f, uint8_t reg, uint8_t base, int32_t displacement)
{
    if (reg == RSP && base == RSP) {
        push(f, -(int64_t)displacement);
    } else if (f->has_slot && ((reg == RSP && base == RBP && f->is_by_rbp) || (reg == RBP && base == RSP))) {
        if (displacement == 0) /* else rsp is of no use, as the slot is found by rbp */
            f->is_by_rbp = reg == RBP;
    } else if (reg == RSP && base == f->base && base != REGISTER_NONE && !f->has_slot) {
        leave(f, displacement);
    } else if (base == RSP && reg != RSP && f->has_rsp && displacement == 0 &&
               (f->base == REGISTER_NONE || reg == RBP || reg == f->base)) {
        f->base = reg;
        f->base_depth = f->depth;
    } else {
        overwrite(f, reg);
    }
}

static void store(struct unsaid_frame *f, uint8_t reg, int32_t displacement)
{
    if (reg == RBP && f->base != RBP && f->has_rsp && !f->rbp && displacement <= f->depth - 2 * 8)
        f->rbp = f->depth - displacement;
    if (reg == f->base && !f->has_rsp) {
        f->has_slot = true;
        f->is_by_rbp = false;
        f->slot = displacement;
    }
}

static void load(struct unsaid_frame *f, uint8_t reg, int32_t displacement)
{
    if (reg == RBP && f->has_rsp && f->rbp == f->depth - displacement)
        f->rbp = 0;
    if (reg == RSP && f->has_slot && !f->is_by_rbp && f->slot == displacement)
        leave(f, 0);
    else
        overwrite(f, reg);
}

/* Instructions that have one operand, memory or a register, and perhaps another register. */
static void operate(struct unsaid_frame *f, const struct instruction *is)
{
    uint8_t op = is->opcode, base = is->base;
    if (is->displacement > FRAME_MAX || is->displacement < -FRAME_MAX)
        base = REGISTER_NONE;
    bool by_immediate = (op == 0x81 || op == 0x83) && is->rm == RSP;
    if (by_immediate && is->extension == 5)
        push(f, is->immediate);
    else if (by_immediate && is->extension == 0)
        push(f, -is->immediate);
    else if (op == 0x8d && base != REGISTER_NONE)
        load_address(f, is->reg, base, is->displacement);
    else if (op == 0x89 && is->rm != REGISTER_NONE)
        load_address(f, is->rm, is->reg, 0);
    else if (op == 0x8b && is->rm != REGISTER_NONE)
        load_address(f, is->reg, is->rm, 0);
    else if (op == 0x89 && base == RSP)
        store(f, is->reg, is->displacement);
    else if (op == 0x8b && base == RSP)
        load(f, is->reg, is->displacement);
    else if (op == 0xff && is->extension == 6)
        push(f, 8);
    else if (op == 0x8f)
        is->rm != REGISTER_NONE ? pop_register(f, is->rm) : push(f, -8);
    else if ((op & 0xf8) == 0x38 || op == 0x84 || op == 0x85 || op == 0x89 ||
             ((op == 0x81 || op == 0x83) && is->extension == 7))
        ; /* compares, or stores */
    else if ((op < 0x40 && (op & 7) == 3) || op == 0x63 || op == 0x69 || op == 0x6b || op == 0x8b ||
             op == 0x8d)
        overwrite(f, is->reg);
    else if (is->rm != REGISTER_NONE && (op & 1) && !(op >= 0xd8 && op <= 0xdf))
        overwrite(f, is->rm);
}

/* What an instruction does to the frame. */
static void apply(struct unsaid_frame *f, const struct instruction *is)
{
    uint8_t op = is->opcode;
    if (is->map != MAP_ONE_BYTE) {
        if (is->map == MAP_TWO_BYTES && (op == 0xa0 || op == 0xa8))
            push(f, 8);
        else if (is->map == MAP_TWO_BYTES && (op == 0xa1 || op == 0xa9))
            push(f, -8);
        else if (is->map == MAP_TWO_BYTES && ((op & 0xf0) == 0x40 || op == 0xaf || (op & 0xf6) == 0xb6))
            overwrite(f, is->reg);
        return;
    }
    if (is->has_operands) {
        operate(f, is);
        if ((op == 0x31 || op == 0x33) && is->rm == RBP && is->reg == RBP && !f->rbp)
            f->rbp = ZEROED;
    } else if (op >= 0x50 && op <= 0x57) {
        push_register(f, is->rm);
    } else if (op >= 0x58 && op <= 0x5f) {
        pop_register(f, is->rm);
    } else if (op == 0x68 || op == 0x6a || op == 0x9c) {
        push(f, 8);
    } else if (op == 0x9d) {
        push(f, -8);
    } else if (op == 0xc9 && f->base == RBP) {
        leave(f, 0);
        pop_register(f, RBP);
    } else if (op >= 0xb8 && op <= 0xbf) {
        overwrite(f, is->rm);
    }
}

static bool is_by_rbp(const struct unsaid_frame *f)
{
    return f->base == RBP && !f->has_slot;
}

/* Where the frame is found by rbp, rsp may be anywhere: behind an alloca. */
static bool is_same(const struct unsaid_frame *a, const struct unsaid_frame *b)
{
    if (a->rbp == b->rbp && is_by_rbp(a) && is_by_rbp(b))
        return a->base_depth == b->base_depth;
    if (a->has_rsp != b->has_rsp || a->rbp != b->rbp)
        return false;
    if (a->has_rsp)
        return a->depth == b->depth;
    return a->base == b->base && a->base_depth == b->base_depth && a->has_slot == b->has_slot &&
           (!a->has_slot || (a->slot == b->slot && a->is_by_rbp == b->is_by_rbp));
}

static bool is_called(const struct unsaid_frame *f)
{
    return is_same(f, &called);
}

struct sweep {
    struct unsaid *u;
    struct bytes code;
    size_t begin;                         /* of the function */
    bool is_proven, is_wrong;             /* it is; it has contradicted itself */
    struct unsaid_frame by_table, branch; /* of the last such jumps in it */
    uint32_t n_unknown;
    uint16_t last; /* number of a frame */
    size_t along;  /* bytes, of ALONG_MAX */
    uint32_t n_final;
    int64_t final[FINAL_MAX]; /* what is called there does not come back */
};

/* A chain: how it went, where it ended, and its last call. */
enum verdict { CONTRADICTED, OPEN, PROVEN };
struct chain {
    enum verdict verdict;
    enum instruction_flow end_by;
    size_t end, call_end;      /* 0: there is none */
    struct unsaid_frame frame; /* at its end */
};

/* The number of a frame, NOT_KNOWN if there are too many. */
static uint16_t number_of(struct sweep *s, const struct unsaid_frame *f)
{
    struct unsaid *u = s->u;
    uint32_t i = u->n_frames;
    if (!f->is_known)
        return NOT_KNOWN;
    if (s->last > 0 && memcmp(&u->frame[s->last - 1], f, sizeof *f) == 0)
        return s->last; /* most instructions change nothing */
    while (i > 0 && memcmp(&u->frame[i - 1], f, sizeof *f) != 0)
        i--;
    if (i == 0 && u->n_frames < UNSAID_FRAMES) {
        u->frame[u->n_frames++] = *f;
        i = u->n_frames;
    }
    s->last = (uint16_t)i;
    return i > 0 ? (uint16_t)i : NOT_KNOWN;
}

/* Whether a jump leads out of what is looked at: no function is that long. */
static bool is_far(const struct sweep *s, int64_t target)
{
    return target < 0 || target >= (int64_t)s->code.n;
}

/* A jump to `target` with a frame; PROVEN if another way there had the same. */
static enum verdict check_target(struct sweep *s, const struct unsaid_frame *f, int64_t target, bool is_trial,
                                 size_t from)
{
    if (is_far(s, target))
        return OPEN;
    uint16_t *at = &s->u->at[target];
    if (*at != 0 && *at != NOT_KNOWN)
        return is_same(&s->u->frame[*at - 1], f) ? PROVEN : CONTRADICTED;
    if (!is_trial && *at == 0 && (size_t)target > from)
        *at = number_of(s, f);
    return OPEN;
}

static bool is_final(const struct sweep *s, int64_t target)
{
    for (uint32_t i = 0; i < s->n_final; i++)
        if (s->final[i] == target)
            return true;
    return false;
}

static void note_called(struct sweep *s, uint64_t at)
{
    if (at < s->code.n)
        s->u->called[at / 8] |= (uint8_t)(1u << at % 8);
}

static bool is_called_at(const struct sweep *s, size_t at)
{
    return at < s->code.n && s->u->called[at / 8] >> at % 8 & 1;
}

/* Whether code saves registers for whoever has called it: two, or one and then makes room. Behind a call none
 * but a function's beginning was seen to (126 of 126 in bash, libc, gdb, perl, tar, git and cc1). */
static bool saves_registers(const struct sweep *s, size_t at)
{
    struct instruction is;
    for (uint32_t n = 0; at < s->code.n && instruction_read(s->code, at, &is); at += is.length, n++) {
        const bool is_kept = is.rm == RBX || is.rm == RBP || (is.rm >= R12 && is.rm < REGISTER_NONE);
        if (is.map != MAP_ONE_BYTE || (is.opcode & 0xf8) != 0x50 || !is_kept)
            return n > 0 && is.map == MAP_ONE_BYTE && (is.opcode == 0x81 || is.opcode == 0x83) &&
                   is.is_wide && is.rm == RSP && is.extension == 5;
        if (n == 1)
            return true;
    }
    return false;
}

/* Notes where a function begins (and what does not come back), as a direct call leads there or its address is
 * taken (lea n(%rip), of a 64-bit register). Any bytes may be that: of four that are no distance one in
 * 200,000 leads into what is looked at. */
static void find_called(struct sweep *s)
{
    const uint8_t *code = s->code.p;
    memset(s->u->called, 0, sizeof s->u->called);
    for (size_t end = 7; end <= s->code.n; end++) {
        int32_t distance;
        const uint8_t *is = code + end - 7;
        if (is[2] != 0xe8 && !((is[0] & 0xfb) == 0x48 && is[1] == 0x8d && (is[2] & 0xc7) == 5))
            continue;
        memcpy(&distance, code + end - sizeof distance, sizeof distance);
        const int64_t target = (int64_t)end + distance;
        if (distance != 0)
            note_called(s, (uint64_t)target);
        if (is[2] == 0xe8 && s->n_final < FINAL_MAX && saves_registers(s, end) && !is_final(s, target))
            s->final[s->n_final++] = target;
    }
}

/* Whether what is right behind a call is another function. */
static bool is_another(const struct sweep *s, size_t at)
{
    return at < s->code.n && s->u->at[at] == 0 && (is_called_at(s, at) || saves_registers(s, at));
}

/* What is between functions, which nobody runs. */
static size_t padding_at(struct bytes code, size_t at)
{
    struct instruction is;
    if (code.p[at] == 0)
        return 1; /* no function begins with that */
    if (!instruction_read(code, at, &is))
        return 0;
    bool pads = is.map == MAP_ONE_BYTE    ? (is.opcode == 0x90 && !is.is_repeated) || is.opcode == 0xcc
                : is.map == MAP_TWO_BYTES ? is.opcode == 0x1f
                                          : false;
    return pads ? is.length : 0;
}

static size_t behind_padding(const struct sweep *s, size_t at)
{
    for (size_t n; at < s->code.n && s->u->at[at] == 0 && (n = padding_at(s->code, at)) > 0;)
        at += n;
    return at;
}

/* Instructions looked at for where they jump back to. */
#define LOOP_MAX 64u

/* Whether a call does not come back: what is behind it is padding, and then another function, not a loop,
 * which compilers align as well. */
static bool is_last_call(const struct sweep *s, size_t end)
{
    struct instruction is;
    const size_t begin = behind_padding(s, end);
    enum instruction_flow flow = FLOW_ON;
    if (begin == end)
        return false;
    size_t at = begin;
    for (uint32_t i = 0; i < LOOP_MAX && flow < FLOW_JUMP; at += is.length, i++) {
        if (!instruction_read(s->code, at, &is) || s->u->at[at] != 0)
            return false;
        flow = instruction_flow(&is);
        bool is_jump = flow == FLOW_BRANCH || flow == FLOW_JUMP;
        if (is_jump && (int64_t)(at + is.length) + is.immediate == (int64_t)begin)
            return false;
    }
    return true;
}

/* Whether who comes to a place with a frame finds another function: one without a frame has jumped there,
 * which is its last call. */
static bool is_jumped_to(const struct sweep *s, size_t at, const struct unsaid_frame *f)
{
    uint16_t here = at < s->code.n ? s->u->at[at] : 0;
    return here != 0 && here != NOT_KNOWN && is_called(&s->u->frame[here - 1]) && !is_called(f);
}

/* Whether a function with a frame pointer begins at a place. Code that has one already does not lead there: a
 * call before it does not come back. */
static bool makes_pointer(const struct sweep *s, size_t at)
{
    static const uint8_t code[] = {0x55, 0x48, 0x89, 0xe5}; /* push %rbp; mov %rsp, %rbp */
    return code_has(s->code, at, code, sizeof code);
}

/* Comes with a frame to an instruction, which an earlier jump may have led to. */
static enum verdict arrive(const struct sweep *s, size_t at, struct unsaid_frame *f)
{
    uint16_t here = s->u->at[at];
    if (here == 0 || !f->is_known)
        return OPEN;
    if (here == NOT_KNOWN) {
        f->is_known = false;
        return OPEN;
    }
    const struct unsaid_frame *other = &s->u->frame[here - 1];
    if (!is_same(other, f))
        return CONTRADICTED;
    if (other->base != f->base)
        f->base = REGISTER_NONE;
    f->has_rsp &= other->has_rsp && other->depth == f->depth;
    return PROVEN;
}

/* What the instruction at `at` does, of which c->end is the end. */
static enum verdict act(struct sweep *s, size_t at, const struct instruction *is, bool is_trial,
                        struct chain *c)
{
    struct unsaid_frame *f = &c->frame;
    int64_t target = (int64_t)(c->end + (uint64_t)is->immediate);
    if (!f->is_known)
        return OPEN;
    switch (c->end_by) {
    case FLOW_JUMP:
        if (is_far(s, target)) /* a call, and a return to whoever has called here */
            return is_called(f) ? PROVEN : f->base == NOBODY ? OPEN : CONTRADICTED;
        return check_target(s, f, target, is_trial, at);
    case FLOW_BRANCH: return check_target(s, f, target, is_trial, at);
    case FLOW_RETURN: /* rbp may have been stored and then left alone */
        return f->has_rsp && f->depth == called.depth ? PROVEN : CONTRADICTED;
    case FLOW_CALL:
        if ((is->opcode == 0xe8 && is_final(s, target)) || is_last_call(s, c->end) || is_another(s, c->end) ||
            is_jumped_to(s, behind_padding(s, c->end), f) ||
            (f->base == RBP && f->rbp && makes_pointer(s, c->end)))
            c->end_by = FLOW_STOP;
        else
            c->call_end = c->end;
        if (!f->has_slot && f->base != RBX && f->base != RBP && f->base < R12)
            f->base = REGISTER_NONE;
        return OPEN;
    case FLOW_ON:
        if (f->base == NOBODY)
            return OPEN;
        apply(f, is);
        if (f->has_rsp && f->depth < called.depth) { /* nobody returns from there: a thread may begin */
            f->is_known = false;
            if (f->rbp == ZEROED)
                *f = begun;
        }
        return OPEN;
    default: return OPEN;
    }
}

/* Goes along a chain from `at` on, to `limit` at most. A trial leaves no traces; where a jump leads that ends
 * it, it goes on, as long as it has found out nothing. */
static struct chain follow(struct sweep *s, size_t at, struct unsaid_frame f, size_t limit, bool is_trial)
{
    struct chain c = {.verdict = OPEN, .end = at, .frame = f};
    struct instruction is = {0};
    uint32_t n_jumps = 0;
    size_t call_end = 0; /* in this chain */
    for (const size_t begin = at; at < limit; at = c.end) {
        if (c.end_by >= FLOW_JUMP) {
            at = c.end + (size_t)(int64_t)is.immediate;
            if (!is_trial || c.end_by != FLOW_JUMP || c.verdict != OPEN || !c.frame.is_known || at >= limit ||
                s->along > ALONG_MAX || n_jumps++ == JUMPS_MAX)
                break;
            if (n_jumps == 1)
                call_end = c.call_end;
            c.call_end = 0;
        }
        enum verdict there = at == begin ? OPEN : arrive(s, at, &c.frame);
        if (there != OPEN)
            c.verdict = there;
        if (there == CONTRADICTED || (there == PROVEN && is_trial))
            break;
        if (!is_trial)
            s->u->at[at] = number_of(s, &c.frame);
        if (!instruction_read(s->code, at, &is)) {
            c.verdict = CONTRADICTED;
            break;
        }
        c.end = at + is.length;
        c.end_by = instruction_flow(&is);
        s->along += n_jumps > 0 ? is.length : 0;
        enum verdict then = act(s, at, &is, is_trial, &c);
        if (then != OPEN)
            c.verdict = then;
        if (then == CONTRADICTED)
            break;
        if (!is_trial && c.end_by == FLOW_BRANCH)
            s->branch = c.frame;
        if (!is_trial && c.end_by == FLOW_JUMP_BY_TABLE)
            s->by_table = c.frame;
    }
    if (n_jumps > 0) {
        if (c.verdict == CONTRADICTED && c.call_end > 0)
            c.verdict = OPEN; /* or that call never comes back */
        c.call_end = call_end;
    }
    return c;
}

/* Says of [from, to) that nothing is known, wherever something was said. */
static void forget(struct sweep *s, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++)
        s->u->at[i] = s->u->at[i] ? NOT_KNOWN : 0;
}

/* Whether an instruction makes room for a frame, as no data and no other code do that is jumped over. */
static bool makes_room(const struct instruction *is)
{
    if (is->map == MAP_TWO_BYTES)
        return is->opcode == 0x1e && is->is_repeated; /* endbr64 */
    if (is->map != MAP_ONE_BYTE)
        return false;
    return (is->opcode & 0xf8) == 0x50 ||
           ((is->opcode == 0x81 || is->opcode == 0x83) && is->is_wide && is->rm == RSP &&
            is->extension == 5) ||
           (is->opcode == 0x8d && is->is_wide && is->reg == RSP && is->base == RSP && is->displacement < 0);
}

/* Whether the first instruction at a place, or one of the first `n`, makes room for a frame. */
static bool is_prologue(const struct sweep *s, size_t at, uint32_t n)
{
    struct instruction is;
    for (; n > 0 && at < s->code.n && instruction_read(s->code, at, &is); at += is.length, n--) {
        if (makes_room(&is))
            return true;
        if (instruction_flow(&is) != FLOW_ON)
            return false;
    }
    return false;
}

/* How far from a function's beginning its frame may be made: compilers put before that what its first call is
 * passed. */
#define PROLOGUE_MAX 4u

static void begin_function(struct sweep *s, size_t at)
{
    if (!s->is_proven)
        forget(s, s->begin, at);
    s->begin = at;
    s->is_proven = is_prologue(s, at, PROLOGUE_MAX);
    s->is_wrong = false;
    s->by_table = s->branch = (struct unsaid_frame){0};
}

/* Which of some frames the chain that begins at `at` goes on with best. False: with none. *limit: where it
 * ends, if its last call never comes back and another function is behind that. */
static bool choose(struct sweep *s, size_t at, const struct unsaid_frame *may, size_t n, bool may_begin,
                   struct unsaid_frame *ret, size_t *limit)
{
    enum verdict best = CONTRADICTED;
    for (size_t i = 0; i < n && best != PROVEN; i++) {
        if (!may[i].is_known || (i > 0 && is_same(&may[i], &may[i - 1])))
            continue;
        struct chain c = follow(s, at, may[i], s->code.n, true);
        size_t end = s->code.n;
        if (c.verdict == CONTRADICTED && c.call_end > 0) {
            struct chain other = follow(s, behind_padding(s, c.call_end), called, s->code.n, true);
            c.verdict = other.verdict == PROVEN ? OPEN : CONTRADICTED;
            end = c.call_end;
        }
        bool is_likely = is_called(&may[i]) ? may_begin : is_same(&may[i], &s->by_table);
        if (c.verdict == OPEN && !is_likely && n > 1)
            continue;
        if (c.verdict > best) {
            best = c.verdict;
            *ret = may[i];
            *limit = end;
        }
    }
    return best != CONTRADICTED;
}

/* Whether the instruction that ends at a place is one that is never gone on from: hlt, ud2. What is behind it
 * is as often the rest of the function, of which that was one end of many, as another one. */
static bool ends_in_trap(const struct sweep *s, size_t end)
{
    const uint8_t *code = s->code.p;
    return (end >= 1 && end <= s->code.n && code[end - 1] == 0xf4) ||
           (end >= 2 && end <= s->code.n && code[end - 2] == 0x0f && code[end - 1] == 0x0b);
}

static void run_chain(struct sweep *s, size_t at, struct chain *last)
{
    struct unsaid_frame f = {0};
    size_t limit = s->code.n;
    uint16_t here = s->u->at[at];
    bool is_good = true;
    if (here == 0) {
        bool by_jump =
            last->end_by == FLOW_JUMP || last->end_by == FLOW_JUMP_BY_TABLE || ends_in_trap(s, last->end);
        const struct unsaid_frame may[] = {called, last->frame, s->by_table, s->branch};
        bool is_behind_padding = at > last->end;
        bool may_begin = !by_jump || is_called(&last->frame) || makes_pointer(s, at) || is_called_at(s, at) ||
                         (is_behind_padding && is_prologue(s, at, 1));
        size_t n_may = s->is_wrong || is_called_at(s, at) ? 1 : ARRAY_LEN(may);
        if (choose(s, at, may, n_may, may_begin, &f, &limit) && is_called(&f))
            begin_function(s, at);
    } else if (here != NOT_KNOWN) {
        is_good = choose(s, at, &s->u->frame[here - 1], 1, false, &f, &limit);
    }
    if (f.base == NOBODY) {
        begin_function(s, at);
        s->is_proven = true;
    }
    *last = follow(s, at, f, limit, false);
    s->is_proven |= (last->verdict == PROVEN && last->end_by == FLOW_RETURN) || limit < s->code.n;
    if (last->verdict == CONTRADICTED) {
        is_good &= !f.is_known;
        last->end = max_of(last->end, at + 1);
        last->frame.is_known = false;
    }
    if (!is_good) {
        forget(s, s->begin, s->code.n);
        s->is_wrong = true;
    }
    s->n_unknown += !f.is_known || !is_good;
}

static struct unwind_rule rule_of(const struct unsaid_frame *f)
{
    /* by their numbers in instructions */
    static const uint8_t dwarf[] = {0, 2, 1, 3, 7, 6, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15};
    struct unwind_rule rule = {.cfa = UNWIND_CFA_ROOT};
    if (f->base == NOBODY)
        return rule;
    /* rbp is as it was behind a call, whatever that has taken off the stack (V8's takes its arguments). */
    if (f->has_rsp && !is_by_rbp(f)) {
        rule.cfa = UNWIND_CFA_RSP;
        rule.cfa_offset = f->depth;
    } else if (f->has_slot && f->base_depth >= 0 && f->base_depth < 256) {
        rule.cfa = f->is_by_rbp ? UNWIND_CFA_AT_RBP : UNWIND_CFA_AT_RSP;
        rule.cfa_offset = f->slot * 256 + f->base_depth;
    } else if (f->base < ARRAY_LEN(dwarf)) {
        rule.cfa = (uint8_t)(f->base == RBP ? UNWIND_CFA_RBP : UNWIND_CFA_REGISTER + dwarf[f->base]);
        rule.cfa_offset = f->base_depth;
    } else {
        return (struct unwind_rule){0};
    }
    if (f->rbp > 0) {
        rule.rbp = f->rbp <= INT16_MAX ? UNWIND_RBP_AT_CFA : UNWIND_RBP_LOST;
        rule.rbp_offset = (int16_t)-f->rbp;
    } else if (is_by_rbp(f)) {
        rule.rbp = UNWIND_RBP_LOST;
    }
    return rule;
}

int64_t unsaid_main(struct bytes begin)
{
    static const uint8_t first_argument[] = {0x48, 0x8d, 0x3d}; /* lea main(%rip), %rdi */
    int32_t distance;
    for (size_t at = 0; at + sizeof first_argument + sizeof distance <= begin.n; at++)
        if (code_has(begin, at, first_argument, sizeof first_argument)) {
            memcpy(&distance, (const uint8_t *)begin.p + at + sizeof first_argument, sizeof distance);
            return (int64_t)(at + sizeof first_argument + sizeof distance) + distance;
        }
    return 0;
}

void unsaid_run(struct unsaid *u, struct bytes code, bool is_begin, uint64_t entry, uint64_t main,
                cfi_row_fn on_row, void *user)
{
    struct sweep s = {
        .u = u, .code = bytes_of(code.p, min_of(code.n, (size_t)UNSAID_MAX)), .is_proven = true};
    struct chain last = {.end_by = is_begin ? FLOW_RETURN : FLOW_ON};
    uint16_t before = NOT_KNOWN;
    size_t at = 0;
    u->n_frames = 0;
    memset(u->at, 0, s.code.n * sizeof *u->at);
    find_called(&s);
    note_called(&s, main);
    if (!is_begin) /* the rest of a function */
        u->at[0] = NOT_KNOWN;
    if (entry < s.code.n)
        u->at[entry] = number_of(&s, &begun);
    for (; (at = behind_padding(&s, at)) < s.code.n && s.n_unknown < UNKNOWN_MAX; at = last.end)
        run_chain(&s, at, &last);
    begin_function(&s, at);
    forget(&s, at, s.code.n);
    for (size_t i = 0; i < s.code.n; i++) {
        if (u->at[i] == 0 || u->at[i] == before)
            continue;
        before = u->at[i];
        struct unwind_rule rule = {0};
        if (before != NOT_KNOWN)
            rule = rule_of(&u->frame[before - 1]);
        on_row(user, i, &rule);
    }
}
