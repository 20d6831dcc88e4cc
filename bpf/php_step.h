/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * One step through a thread's PHP frames: from a frame of the machine that runs them to their words, a step
 * each. The same code runs in the kernel (runtimes.bpf.h) and in user space (step.h).
 */
#ifndef BPF_PHP_STEP_H
#define BPF_PHP_STEP_H

#include "bpf/php.h"
#include "bpf/sample.h"
#include "bpf/step.h"

/* What a walk knows, and what it has read: the kernel's stack is short, and its verifier does not follow what
 * is elsewhere through all its branches. All 0 but `is_begun` and `is_inside` may be anything at first. */
struct php_walk {
    bpf_u32 is_begun;    /* the thread's first frame was looked for: PHP_BEGUN; or PHP_CALLED, PHP_AHEAD */
    bpf_u32 is_inside;   /* of this frame of the machine, more are to come */
    bpf_u64 frame;       /* the next one; 0: there is none */
    bpf_u64 asked;       /* the generator that waits for the one that was told; 0: there is none */
    bpf_u64 told;        /* of those between them, the last that was told; 0: none yet */
    bpf_u32 delegates;   /* of all of the stack */
    bpf_u32 is_fiber;    /* what follows has resumed it, and is on another stack of the machine */
    bpf_u32 is_internal; /* the function is not written in PHP */
    bpf_u32 what;        /* … and is enum php_where */
    struct sample_frame word; /* the frame's; `where` 0: it has none */
    bpf_u64 one, name_hash;   /* what was read last; and before that */
    bpf_u32 line, was_inside;
    bpf_u64 called; /* what the loop has called, in PHP's file or an extension's; of PHP_CALLED */
    bpf_u32 caller; /* of PHP_AHEAD: who called the first frame, a callback's; see PHP_IS_OF. 0: it is none */
    bpf_u64 read[PHP_FRAME_WORDS];
    bpf_u64 function[PHP_FUNCTION_WORDS];
    bpf_u64 source[PHP_SOURCE_WORDS];
};

/* Where a thread is, if its registers are known: execute_ex keeps its frame and the next instruction in
 * registers (Zend/zend_execute.c: ZEND_VM_FP_GLOBAL_REG, ZEND_VM_IP_GLOBAL_REG), and stores the latter only
 * before it calls what may ask. By DWARF number. */
#define PHP_REGISTER_FRAME  14u
#define PHP_REGISTER_OPLINE 15u

#define PHP_BEGUN  1u
#define PHP_CALLED 2u
#define PHP_AHEAD  3u /* what it has called is not known yet */

STEP_INLINE int php_is_in_loop(const struct php_place *p, bpf_u64 address)
{
    return address - p->start[0] < p->size[0] || address - p->start[1] < p->size[1];
}

/* The line that a frame is at. It is one of its function's: an instruction that was never stored is that of
 * who had the memory before, and then the first line is said. */
STEP_INLINE bpf_u16 php_line(struct php_walk *c)
{
    bpf_u32 first = (bpf_u32)c->source[1], last = c->source[1] >> 32;
    if (RUNTIME_READ(&c->line, 4, c->read[PHP_FRAME_OPLINE] + PHP_OPLINE_LINE_AT) || c->line < first ||
        c->line > last)
        c->line = first;
    return c->line <= 0xffff ? (bpf_u16)c->line : PHP_NO_LINE;
}

/* What the function is that was read. */
STEP_INLINE enum php_where php_what(const struct php_walk *c)
{
    bpf_u32 type = (bpf_u32)c->read[PHP_FRAME_TYPE];
    if (c->is_internal)
        return PHP_WHERE_FUNCTION;
    if (c->function[PHP_FUNCTION_NAME])
        return (type & (PHP_CALL_CLOSURE | PHP_CALL_FAKE)) == PHP_CALL_CLOSURE ? PHP_WHERE_CLOSURE
                                                                               : PHP_WHERE_FUNCTION;
    if (!c->read[PHP_FRAME_PREVIOUS])
        return PHP_WHERE_MAIN;
    return PHP_IS_EVAL(c->function) ? PHP_WHERE_EVAL : PHP_WHERE_FILE;
}

/* Makes the word of the frame that was read, if it has one. A frame without a function, and one that cannot
 * be read, are as those of internal ones: there is more to come. */
STEP_INLINE void php_word(const struct php_place *p, struct php_walk *c)
{
    bpf_u64 function = c->read[PHP_FRAME_FUNCTION] & ~7ull;
    c->is_internal = 1;
    if (!function || RUNTIME_READ(c->function, sizeof c->function, function))
        return;
    c->is_internal = PHP_IS_INTERNAL(c->function);
    if (c->is_internal && !c->function[PHP_FUNCTION_NAME])
        return; /* a fiber's own frame */
    c->source[0] = 0;
    c->source[1] = 0;
    c->one = 0;
    c->name_hash = 0;
    if ((!c->is_internal && (RUNTIME_READ(c->source, sizeof c->source, function + p->file) ||
                             RUNTIME_READ(&c->one, 8, c->source[0] + PHP_STRING_HASH_AT))) ||
        (c->function[PHP_FUNCTION_NAME] &&
         RUNTIME_READ(&c->name_hash, 8, c->function[PHP_FUNCTION_NAME] + PHP_STRING_HASH_AT))) {
        c->source[1] = 0; /* see PHP_COOKIE_UNREAD */
        c->one = 0;
        c->name_hash = 0;
    }
    c->what = php_what(c);
    c->word.extra = php_line(c);
    c->word.where = function;
    c->word.file = PHP_COOKIE(c->function, c->name_hash, c->one, c->source[1]);
    if (*(volatile bpf_u32 *)&c->what) {
        c->word.where = (c->source[0] & ~7ull) | c->what;
        c->word.file = PHP_FILE_COOKIE(c->one);
    }
}

/* A frame without a function: whether it stands for generators that wait. */
STEP_INLINE void php_ask(const struct php_place *p, struct php_walk *c)
{
    bpf_u64 generator = c->read[PHP_FRAME_THIS];
    if (c->read[PHP_FRAME_FUNCTION] || (c->read[PHP_FRAME_TYPE] & 255) != PHP_OBJECT || !p->generator_class ||
        RUNTIME_READ(&c->one, 8, p->generator_class) ||
        RUNTIME_READ(&c->source[0], 8, generator + PHP_OBJECT_CLASS) || c->one != c->source[0])
        return;
    c->asked = generator;
    c->told = 0;
}

/* The frame of the next of the generators that wait, from the one that is waited for to the one that was
 * asked: the one whose parent was told last. 0: there is none, as of the first one, whose frame is in the
 * list. */
STEP_INLINE bpf_u64 php_delegate(const struct php_place *p, struct php_walk *c)
{
    bpf_u64 at = c->asked, told = c->told;
    c->one = ~0ull;
    STEP_LOOP
    for (bpf_u32 i = 0; i < PHP_DELEGATES_MAX; i++) {
        if (RUNTIME_READ(&c->one, 8, at + p->generator_parent) || c->one == told)
            break;
        at = c->one;
        c->one = ~0ull;
    }
    c->told = at;
    if (at == c->asked || c->one != told || ++c->delegates > PHP_DELEGATES_MAX)
        c->asked = 0;
    if (!told || c->one != told || RUNTIME_READ(&c->one, 8, at + p->generator_frame))
        return 0;
    return c->one;
}

enum php_entry {
    PHP_OTHER,    /* tables know it */
    PHP_COMPILED, /* no frame: what has jumped to it is, and `at` is there now */
    PHP_ROOT,     /* of a fiber; unwind_by_pointer ends there */
    PHP_LEAF,     /* there is just a return address on the stack */
};

/* What PHP knows of a frame of the machine and tables do not. What is compiled is jumped to from execute_ex
 * and runs on its frame; what makes fibers is assembler. */
STEP_INLINE enum php_entry php_enter(const struct php_place *p, struct unwind_registers *at)
{
    bpf_u64 address = at->ip - (at->is_return != 0);
    if (address - p->text >= p->text_size && p->body) {
        at->ip = p->body;
        at->is_return = 0;
        return PHP_COMPILED;
    }
    if (address - p->fiber >= p->fiber_size)
        return PHP_OTHER;
    if (!at->is_return)
        return PHP_LEAF;
    at->bp = 0;
    at->bp_lost = 0;
    return PHP_ROOT;
}

/* Whether the frame that was read is one of a callback's: c->one is what has called it then. */
STEP_INLINE int php_is_callback(const struct php_place *p, struct php_walk *c)
{
    return p->handler && (c->read[PHP_FRAME_TYPE] & (PHP_CALL_TOP | PHP_CALL_GENERATOR)) == PHP_CALL_TOP &&
           !RUNTIME_READ(&c->one, 8, c->read[PHP_FRAME_PREVIOUS] + 8 * PHP_FRAME_FUNCTION) &&
           !RUNTIME_READ(c->function, sizeof c->function, c->one) && PHP_IS_INTERNAL(c->function) &&
           !RUNTIME_READ(&c->one, 8, c->one + p->handler);
}

/* Finds the first frame. Between a frame being made for a callback, or left, and its call of execute_ex being
 * so, what executor_globals says is one frame off from the stack of the machine: then what has called it is
 * what the loop has just called. Ahead of the walk that is for who comes to the loop to see. `frame` is what
 * the thread's registers say, which may be anything, but for one that the first frame has called. */
STEP_INLINE void php_begin(const struct php_place *p, struct php_walk *c, bpf_u64 frame)
{
    c->frame = 0;
    c->caller = 0;
    c->delegates = 0;
    c->asked = 0;
    c->is_fiber = c->is_inside;
    if (!RUNTIME_READ(&c->frame, 8, p->current) && c->frame) {
        bpf_u64 current = c->frame;
        if (!RUNTIME_READ(c->read, sizeof c->read, frame) && c->read[PHP_FRAME_PREVIOUS] == current &&
            (c->read[PHP_FRAME_TYPE] & PHP_CALL_TOP))
            c->frame = frame;
        else if (RUNTIME_READ(c->read, sizeof c->read, current))
            c->read[PHP_FRAME_TYPE] = 0;
        if ((c->is_begun == PHP_CALLED || c->is_begun == PHP_AHEAD) && php_is_callback(p, c)) {
            if (c->is_begun == PHP_AHEAD)
                c->caller = (bpf_u32)c->one;
            else if (PHP_IS_OF(c->one, c->called))
                c->frame = c->read[PHP_FRAME_PREVIOUS];
        }
    }
    c->is_begun = PHP_BEGUN;
}

/* A step at `address`. `frame` and `opline` are what the thread's registers say, if those of this frame of
 * the machine are known; else `opline` is 0, and `frame` may be anything. STEP_NATIVE: the frame of the
 * machine is what there is. Else c->word is a word, and STEP_TAKEN says that it is not the last of this frame
 * of the machine
 * (.where 0: there is none), STEP_LAST that it is. STEP_PASSED: there is none, and this frame of the machine
 * has had words. */
STEP_INLINE int php_walk_on(const struct php_place *p, struct php_walk *c, bpf_u64 address, bpf_u64 frame,
                            bpf_u64 opline)
{
    bpf_u32 is_inside = c->is_inside;
    c->word = (struct sample_frame){.kind = SAMPLE_FRAME_WORD, .runtime = RUNTIME_PHP};
    if (!is_inside && !php_is_in_loop(p, address))
        return STEP_NATIVE;
    if (c->is_begun != PHP_BEGUN)
        php_begin(p, c, frame);
    c->was_inside = is_inside;
    bpf_u32 is_delegate = c->asked != 0;
    bpf_u64 at = is_delegate ? php_delegate(p, c) : c->frame;
    if (!at || RUNTIME_READ(c->read, sizeof c->read, at)) {
        if (is_delegate)
            return STEP_TAKEN;
        c->frame = 0;
        c->is_inside = 0;
        return c->was_inside ? STEP_PASSED : STEP_NATIVE;
    }
    if (frame == at && opline)
        c->read[PHP_FRAME_OPLINE] = opline;
    c->is_inside = 1;
    php_word(p, c);
    if (is_delegate)
        return STEP_TAKEN;
    c->frame = c->read[PHP_FRAME_PREVIOUS] & ~7ull;
    php_ask(p, c);
    if (c->is_internal || c->is_fiber || !(c->read[PHP_FRAME_TYPE] & PHP_CALL_TOP))
        return STEP_TAKEN;
    c->is_inside = 0;
    return c->word.where ? STEP_LAST : c->was_inside ? STEP_PASSED : STEP_NATIVE;
}

#endif
