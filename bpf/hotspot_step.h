/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * One step through Java's frames on a thread's stack: from a frame whose code is in the code cache to its
 * caller. The same code runs in the kernel (runtimes.bpf.h) and in user space, where it ends walks
 * (sender/run/resumer) and is tried on memory that lies.
 *
 * Compiled code and most stubs have frames of a fixed size, with the return address and above the caller's
 * rbp at its end; until they are made, and when they are torn down, the instructions around say how far that
 * is. The interpreter and other stubs have rbp lead on. Who called Java's code is in the code cache, too (C++
 * enters it by a stub), by which a frame that is misjudged is known.
 *
 * The verifier looks at a global function once, and before 5.12 such a one is passed numbers only: so each
 * part is one that is passed a handle. Who includes this has defined before what unwind_step.h asks for, and
 *
 *     STEP_HANDLE               a type: by which the walk is found
 *     STEP_PART                 what a function that returns int begins with
 *     HOTSPOT_OPEN(h)              declares p, c, r and w, which are the place, what is worked in, registers
 *                                  and the walk; or returns -1
 *     HOTSPOT_READ(w, to, n, at)   copies n bytes of the process's memory; 0 if it can
 *     HOTSPOT_IN_STACK(w, r, at)   whether 16 bytes there are in the stack that r->sp is in, above it
 *     HOTSPOT_KNOWN(w, ip)         a struct hotspot_known for an address in the walk's process, or NULL
 *     HOTSPOT_PROCESS(w)           what tells that process from others
 *
 * No part calls others more than three deep: eight frames is what the verifier allows in all.
 */
#ifndef BPF_HOTSPOT_STEP_H
#define BPF_HOTSPOT_STEP_H

#include "bpf/hotspot.h"
#include "bpf/step.h"
#include "bpf/unwind_step.h"

/* Blobs by the first letters of their names, which are the same in all versions. */
enum hotspot_kind {
    HOTSPOT_METHOD = 0x74656d6e,      /* "nmethod" */
    HOTSPOT_NATIVE = 0x6974616e,      /* "native nmethod": a native method's wrapper */
    HOTSPOT_INTERPRETER = 0x65746e49, /* "Interpreter" */
    HOTSPOT_ADAPTER = 0x2f433249,     /* "I2C/C2I adapters" */
    HOTSPOT_STUBS = 0x62757453,       /* "StubRoutines (1)": many */
    HOTSPOT_FLUSH = 0x73756c66,       /* "flush_icache_stub": without a frame, and called by C++ */
    HOTSPOT_UPCALL = 0x61637075,      /* "upcall_stub": what C calls for a method (java.lang.foreign) */
};

UNWIND_INLINE int hotspot_has(const struct hotspot_place *p, bpf_u64 address)
{
    return address - p->heap[0].low < p->heap[0].size || address - p->heap[1].low < p->heap[1].size ||
           address - p->heap[2].low < p->heap[2].size || address - p->heap[3].low < p->heap[3].size;
}

/* A segment has the distance to its block's first one, or to one on the way there. */
#define HOTSPOT_HOPS 24
#define HOTSPOT_FREE 0xff

/* Goes from a segment, c->end, whose heap has their map at `segments`, one further. 1: it is there; -1: it
 * has no block. */
STEP_PART hotspot_hop(STEP_HANDLE h, bpf_u64 segments)
{
    HOTSPOT_OPEN(h);
    c->value = 0;
    if (HOTSPOT_READ(w, &c->value, 1, segments + c->end) || c->value == HOTSPOT_FREE || c->value > c->end)
        return -1;
    c->end -= c->value;
    return c->value == 0;
}

/* Sets c->blob to the header of an address's code. */
STEP_PART hotspot_find(STEP_HANDLE h, bpf_u64 address)
{
    HOTSPOT_OPEN(h);
    bpf_u64 low = 0, segments = 0;
    int found = 0;
    for (int i = 0; i < (int)HOTSPOT_HEAPS; i++)
        if (address - p->heap[i].low < p->heap[i].size) {
            low = p->heap[i].low;
            segments = p->heap[i].segments;
        }
    c->end = (address - low) >> (p->segment_shift & 31);
    STEP_LOOP
    for (bpf_u64 i = 0; i < HOTSPOT_HOPS && low && !found; i++)
        found = hotspot_hop(h, segments);
    c->blob = low + (c->end << (p->segment_shift & 31)) + p->block_header;
    return found > 0 ? 0 : -1;
}

/* Sets c->value to a word of the stack. */
STEP_PART hotspot_load(STEP_HANDLE h, bpf_u64 address)
{
    HOTSPOT_OPEN(h);
    return UNWIND_LOAD(w, address, &c->value);
}

UNWIND_INLINE bpf_u64 hotspot_field(const struct hotspot_walk *c, bpf_u16 at)
{
    return c->read[at >> 3 & (HOTSPOT_BLOB_WORDS - 1)] >> 8 * (at & 7);
}

UNWIND_INLINE bpf_u64 hotspot_code(const struct hotspot_place *p, const struct hotspot_walk *c)
{
    bpf_u64 code = hotspot_field(c, p->blob_code);
    return p->is_relative & HOTSPOT_CODE ? c->blob + (bpf_u32)code : code;
}

/* How many bytes of code make a frame. */
UNWIND_INLINE bpf_u64 hotspot_complete(const struct hotspot_place *p, const struct hotspot_walk *c)
{
    return (bpf_u32)hotspot_field(c, p->blob_complete) & (p->is_relative & HOTSPOT_SHORT ? 0xffff : ~0u);
}

/* The distance from the stack pointer to the return address of a frame with a size. */
UNWIND_INLINE bpf_u64 hotspot_to_return(const struct hotspot_place *p, const struct hotspot_walk *c)
{
    return 8 * ((hotspot_field(c, p->blob_frame) & 0xfffff) - 1);
}

/* How a frame is left. */
#define HOTSPOT_WITH_BP   1u  /* the caller's rbp is above the return address; else it is where it was */
#define HOTSPOT_TO_ANY    2u  /* not only to Java's code */
#define HOTSPOT_NOT_SELF  4u  /* not to the stub itself, which pushes addresses of its own */
#define HOTSPOT_MAYBE_BP  8u  /* as HOTSPOT_WITH_BP, if that is what rbp leads to */
#define HOTSPOT_CALLED    16u /* only to where the stub was called from */
#define HOTSPOT_STUB_SIZE 1024u
#define HOTSPOT_STUBS_MAX (256u << 10) /* of a blob with many stubs, some 100 KiB long */

/* Whether `ip` is behind a call (call n; movabs n, %r10; call *%r10) of c->blob's code from its beginning; of
 * one with many stubs from anywhere outside to anywhere in it. */
STEP_PART hotspot_is_called(STEP_HANDLE h, bpf_u64 ip)
{
    HOTSPOT_OPEN(h);
    bpf_u64 call[2] = {0}, code = hotspot_code(p, c), to;
    if (HOTSPOT_READ(w, call, sizeof call, ip - sizeof call))
        return 0;
    if ((call[1] >> 24 & 0xff) == 0xe8)
        to = ip + (bpf_u64)((bpf_s64)call[1] >> 32);
    else if ((call[0] >> 24 & 0xffff) == 0xba49 && call[1] >> 40 == 0xd2ff41)
        to = call[0] >> 40 | call[1] << 24;
    else
        return 0;
    if (c->kind == HOTSPOT_STUBS)
        return to - code < HOTSPOT_STUBS_MAX && ip - code >= HOTSPOT_STUBS_MAX;
    return to == code;
}

/* Leaves a frame whose return address is at `at`. 1: it is not one that it could return to. */
STEP_PART hotspot_leave(STEP_HANDLE h, bpf_u64 at, bpf_u32 how)
{
    HOTSPOT_OPEN(h);
    bpf_u64 ip = 0;
    if (at < r->sp || UNWIND_LOAD(w, at, &ip))
        return -1;
    if (!ip || (!(how & HOTSPOT_TO_ANY) && !hotspot_has(p, ip)) ||
        (how & HOTSPOT_NOT_SELF && ip - c->blob < HOTSPOT_STUB_SIZE) ||
        (how & HOTSPOT_CALLED && hotspot_is_called(h, ip) != 1))
        return 1;
    if (how & HOTSPOT_WITH_BP || (how & HOTSPOT_MAYBE_BP && at == r->bp + 8)) {
        if (UNWIND_LOAD(w, at - 8, &r->bp))
            return -1;
        r->bp_lost = 0;
    }
    r->ip = ip;
    r->sp = at + 8;
    r->is_return = 1;
    r->has_all = 0;
    return 0;
}

/* Words of the stack that are looked at where a frame is not as it should be; and by what a return address
 * can hardly be anything else: SHA-256 works in 80. */
#define HOTSPOT_SCAN        16
#define HOTSPOT_SCAN_CALLED 96

STEP_PART hotspot_scan(STEP_HANDLE h, bpf_u64 at, bpf_u32 how)
{
    bpf_u64 n = how & HOTSPOT_CALLED ? HOTSPOT_SCAN_CALLED : HOTSPOT_SCAN;
    int did = 1;
    STEP_LOOP
    for (bpf_u64 i = 0; i < HOTSPOT_SCAN_CALLED && i < n && did > 0; i++)
        did = hotspot_leave(h, at + 8 * i, how | HOTSPOT_MAYBE_BP);
    return did > 0 ? -1 : did;
}

/* By the frame pointer. 1: it is none. */
STEP_PART hotspot_leave_pointer(STEP_HANDLE h, bpf_u32 how)
{
    HOTSPOT_OPEN(h);
    if (r->bp_lost || (r->bp & 7) || !HOTSPOT_IN_STACK(w, r, r->bp))
        return 1;
    bpf_u64 at = r->bp + 8;
    if (hotspot_load(h, at))
        return -1;
    if (c->value != ~0ull)
        return hotspot_leave(h, at, HOTSPOT_WITH_BP | how);
    /* What looks at code as it is entered (a barrier of the collector's) has a mark below the return address.
     */
    int did = hotspot_leave(h, at + 8, how);
    if (did == 0 && !hotspot_load(h, at - 8))
        r->bp = c->value;
    return did;
}

/* Goes over an instruction of c->code, that at byte c->value, which pushes, pops or calls: c->end is by what
 * it pops further, by what it pushes less far. -1: it is another. */
STEP_PART hotspot_count(STEP_HANDLE h)
{
    HOTSPOT_OPEN(h);
    const bpf_u8 *code = (const bpf_u8 *)c->code;
    bpf_u32 at = c->value, is_high = code[at & 15] == 0x41, b = code[(at + is_high) & 15];
    c->value = at + 1 + is_high;
    if ((b & 0xf8) == 0x50)
        c->end -= 8;
    else if ((b & 0xf8) == 0x58 && (is_high || b != 0x5d)) /* pop %rbp is the frame's end */
        c->end += 8;
    else if (b == 0xe8)
        c->value = at + 5;
    else
        return -1;
    return 0;
}

/* Adds to c->end what is on the stack below a frame that is whole at an instruction: what is pushed for a
 * call (two classes, of which a stub of C1's finds out whether one is of the other) is popped behind it. */
STEP_PART hotspot_pushed(STEP_HANDLE h, bpf_u64 ip)
{
    HOTSPOT_OPEN(h);
    bpf_u64 end = c->end;
    if (HOTSPOT_READ(w, c->code, sizeof c->code, ip))
        return -1;
    c->value = 0;
    STEP_LOOP
    for (bpf_u64 i = 0; i < 5; i++)
        if (hotspot_count(h))
            break;
    if (c->end < end)
        c->end = end;
    return 0;
}

/* What of a frame there is at an instruction of code that the thread is at itself. */
enum hotspot_edge {
    HOTSPOT_WHOLE,
    HOTSPOT_RETURN,  /* the return address is at rsp */
    HOTSPOT_POINTER, /* the caller's rbp is, and the return address behind it */
    HOTSPOT_ROOM,    /* all of it, but rbp is the caller's yet */
};

/* Byte `i` from the instruction on. */
#define HOTSPOT_BYTE(c, i) ((bpf_u32)((c)->code[((i) + 1) >> 3] >> 8 * (((i) + 1) & 7)) & 255)

/* The frame is made, but what is behind it still counts as making it: a look at whether a collector wants to
 * see the code first (from JDK 20 on always), which is nothing up to 7 bytes long, cmpl n, n(%r15), and a je
 * over a call, or a jne. */
UNWIND_INLINE int hotspot_is_entered(const struct hotspot_walk *c)
{
    bpf_u32 before = HOTSPOT_BYTE(c, -1), b0 = HOTSPOT_BYTE(c, 0), b1 = HOTSPOT_BYTE(c, 1);
    if (b0 == 0xe8 || (b0 == 0x74 && b1 == 5) || (b0 == 0x0f && b1 == 0x84 && HOTSPOT_BYTE(c, 2) == 5) ||
        (b0 == 0x0f && b1 == 0x85 && before == 0)) /* behind a number; a look at the class ends otherwise */
        return 1;
    /* Bytes that are 0 where the look's three are: one of the first 8, or the first. */
    bpf_u64 low = c->code[0], high = c->code[1], each = 0x0101010101010101ull;
    bpf_u64 differs = ((low >> 8 | high << 56) ^ 0x41 * each) | ((low >> 16 | high << 48) ^ 0x81 * each) |
                      ((low >> 24 | high << 40) ^ 0x7f * each);
    if (b0 != 0x90 && b0 != 0x66 && (b0 != 0x0f || b1 != 0x1f))
        differs |= ~0xffull;
    return ((differs - each) & ~differs & 0x80 * each) != 0;
}

UNWIND_INLINE int hotspot_keeps_bp(const struct hotspot_walk *c) /* mov %rbp, n(%rsp) */
{
    return (c->code[0] >> 8 & 0xff3fffff) == 0x242c8948;
}

UNWIND_INLINE int hotspot_in_prologue(const struct hotspot_walk *c)
{
    bpf_u32 before = HOTSPOT_BYTE(c, -1), b0 = HOTSPOT_BYTE(c, 0), b1 = HOTSPOT_BYTE(c, 1),
            b2 = HOTSPOT_BYTE(c, 2);
    if (b0 != 0x48)
        return hotspot_is_entered(c) ? HOTSPOT_WHOLE : HOTSPOT_RETURN;
    if (hotspot_keeps_bp(c))
        return HOTSPOT_ROOM;
    if (before == 0x55 && ((b1 == 0x8b && b2 == 0xec) || (b1 == 0x89 && b2 == 0xe5))) /* mov %rsp, %rbp */
        return HOTSPOT_POINTER;
    if ((b1 == 0x81 || b1 == 0x83) && b2 == 0xec) /* sub n, %rsp; behind a push, or the mov behind that */
        return before == 0x55 || before == 0xec || before == 0xe5 ? HOTSPOT_POINTER : HOTSPOT_RETURN;
    return HOTSPOT_RETURN;
}

/* Behind `add n, %rsp`: pop %rbp, a look at the page for safepoints, ret. */
UNWIND_INLINE int hotspot_in_epilogue(const struct hotspot_walk *c)
{
    bpf_u32 b0 = HOTSPOT_BYTE(c, 0), b1 = HOTSPOT_BYTE(c, 1), b2 = HOTSPOT_BYTE(c, 2),
            b3 = HOTSPOT_BYTE(c, 3), b6 = HOTSPOT_BYTE(c, 6), b10 = HOTSPOT_BYTE(c, 10);
    if (b0 == 0xc3)
        return HOTSPOT_RETURN;
    if (b0 == 0x5d)
        return b1 == 0x49 || b1 == 0xc3 || b1 == 0x85 || b1 == 0x41 || b1 == 0x4d || b1 == 0xe9
                   ? HOTSPOT_POINTER
                   : HOTSPOT_WHOLE;
    if ((b0 == 0x49 && b1 == 0x3b && (b2 & 0x3f) == 0x27) ||      /* cmp n(%r15), %rsp: 4 bytes, 1 */
        (b0 == 0x0f && b1 == 0x87 && b6 == 0xc3) ||               /* ja */
        (b0 == 0x49 && b1 == 0x81 && b2 == 0x7f && b3 == 0x08) || /* cmp n, 8(%r15) */
        (b0 == 0x85 && b1 == 0x05 && b6 == 0xc3) ||               /* test %eax, n(%rip) */
        (b0 == 0x41 && b1 == 0x85 && b3 == 0xc3) ||               /* test %eax, (%r10) */
        (b0 == 0x4d && b1 == 0x8b && b2 == 0x97 && b10 == 0xc3))  /* mov n(%r15), %r10; test; not a loop's */
        return HOTSPOT_RETURN;
    return HOTSPOT_WHOLE;
}

UNWIND_INLINE struct sample_frame hotspot_word(bpf_u64 where, bpf_u32 cookie, bpf_u16 extra)
{
    return (struct sample_frame){.kind = SAMPLE_FRAME_WORD,
                                 .runtime = RUNTIME_HOTSPOT,
                                 .extra = extra,
                                 .file = cookie,
                                 .where = where};
}

/* Sets c->value to where a thread returns to indeed, if that was put aside, for the frame is to be made
 * another one; else to `ip`. */
STEP_PART hotspot_original(STEP_HANDLE h, bpf_u64 ip)
{
    HOTSPOT_OPEN(h);
    c->code[1] = 0;
    if (HOTSPOT_READ(w, &c->code[0], 8, c->blob + p->nmethod_deopt[0]) ||
        (p->nmethod_deopt[1] && HOTSPOT_READ(w, &c->code[1], 8, c->blob + p->nmethod_deopt[1])))
        return -1;
    if (p->is_relative & HOTSPOT_DEOPT) {
        c->code[0] = c->blob + (bpf_u32)c->code[0];
        c->code[1] = c->blob + (bpf_u32)c->code[1];
    }
    c->value = ip;
    if (ip != c->code[0] && ip != c->code[1])
        return 0;
    if (HOTSPOT_READ(w, &c->value, 8, c->blob + p->nmethod_original_pc))
        return -1;
    if (hotspot_load(h, r->sp + (c->value & 0xfffff)))
        return -1;
    if (!hotspot_has(p, c->value)) /* not there (yet): with an exception on its way */
        c->value = ip;
    return 0;
}

/* The part of a frame that there is at the thread's instruction. */
STEP_PART hotspot_find_edge(STEP_HANDLE h)
{
    HOTSPOT_OPEN(h);
    bpf_u64 blob = c->blob;
    c->edge = HOTSPOT_WHOLE;
    if (HOTSPOT_READ(w, c->code, sizeof c->code, r->ip - 1))
        return -1;
    c->edge =
        r->ip - hotspot_code(p, c) < hotspot_complete(p, c) ? hotspot_in_prologue(c) : hotspot_in_epilogue(c);
    /* Behind pop %rbp a jump out of the method is on with an exception (jmp n). */
    if ((c->code[0] & 0xffff) == 0xe95d) {
        if (hotspot_find(h, r->ip + 5 + (bpf_u64)(bpf_s64)(bpf_s32)(c->code[0] >> 16)) || c->blob != blob)
            c->edge = HOTSPOT_RETURN;
        c->blob = blob;
    }
    return 0;
}

#define HOTSPOT_KNOWN_OF(w, ip) ((ip) ^ HOTSPOT_PROCESS(w) * 0x9e3779b97f4a7c15ull)

/* Instead of a distance to the return address: the code is the interpreter's. */
#define HOTSPOT_INTERPRETED 0xffffffffull

/* Remembers code, whose number is in c->word. */
STEP_PART hotspot_remember(STEP_HANDLE h, bpf_u64 distance)
{
    HOTSPOT_OPEN(h);
    struct hotspot_known *known = HOTSPOT_KNOWN(w, r->ip);
    bpf_u64 said = distance << 32 | c->word.file;
    if (!known)
        return -1;
    *(volatile bpf_u64 *)&known->blob = c->blob;
    *(volatile bpf_u64 *)&known->said = said;
    *(volatile bpf_u64 *)&known->of = HOTSPOT_KNOWN_OF(w, r->ip) ^ c->blob ^ said;
    return 0;
}

/* A step from code that is remembered: while its number stands it is the same. The interpreter's, which has
 * none, stays where it is. HOTSPOT_BY_POINTER: it is that, and the step is still to be made. Otherwise
 * nonzero: it is not known. */
#define HOTSPOT_BY_POINTER 2
STEP_PART hotspot_again(STEP_HANDLE h)
{
    HOTSPOT_OPEN(h);
    const struct hotspot_known *known = HOTSPOT_KNOWN(w, r->ip);
    if (!known)
        return 1;
    bpf_u64 blob = *(const volatile bpf_u64 *)&known->blob, said = *(const volatile bpf_u64 *)&known->said;
    if ((*(const volatile bpf_u64 *)&known->of ^ blob ^ said) != HOTSPOT_KNOWN_OF(w, r->ip))
        return 1;
    if (said >> 32 == HOTSPOT_INTERPRETED)
        return HOTSPOT_BY_POINTER;
    c->word = hotspot_word(r->ip - 1, 0, HOTSPOT_COMPILED);
    if (HOTSPOT_READ(w, &c->word.file, sizeof c->word.file, blob + p->nmethod_id) ||
        c->word.file != (bpf_u32)said)
        return 1;
    return hotspot_leave(h, r->sp + (said >> 32), HOTSPOT_WITH_BP);
}

STEP_PART hotspot_compiled(STEP_HANDLE h)
{
    HOTSPOT_OPEN(h);
    bpf_u64 ip;
    int did;
    c->edge = HOTSPOT_WHOLE;
    if (r->is_return ? hotspot_original(h, r->ip) : hotspot_find_edge(h))
        return -1;
    ip = r->is_return ? c->value : r->ip;
    c->end = r->sp + hotspot_to_return(p, c);
    c->word = hotspot_word(ip - (r->is_return != 0), 0, HOTSPOT_COMPILED);
    if (HOTSPOT_READ(w, &c->word.file, sizeof c->word.file, c->blob + p->nmethod_id))
        return -1;
    if (c->edge == HOTSPOT_WHOLE)
        hotspot_pushed(h, ip);
    if (r->is_return && ip == r->ip)
        hotspot_remember(h, c->end - r->sp);
    if (c->edge == HOTSPOT_RETURN)
        did = hotspot_leave(h, r->sp, 0);
    else if (c->edge == HOTSPOT_POINTER)
        did = hotspot_leave(h, r->sp + 8, HOTSPOT_WITH_BP);
    else
        did = hotspot_leave(h, c->end, c->edge == HOTSPOT_ROOM ? 0 : HOTSPOT_WITH_BP);
    return did <= 0 ? did : hotspot_scan(h, c->end, HOTSPOT_WITH_BP);
}

/* Sets c->value to what tells the class with a pool of constants from one that gets its memory. -1: there is
 * none. */
STEP_PART hotspot_class(STEP_HANDLE h, bpf_u64 constants)
{
    HOTSPOT_OPEN(h);
    bpf_u16 length = 0;
    bpf_u64 number = constants * 0x9e3779b97f4a7c15ull >> (64 - HOTSPOT_CLASS_BITS);
    struct hotspot_class *known = &c->class[number & ((1u << HOTSPOT_CLASS_BITS) - 1)];
    c->value = known->hash;
    if (known->constants == constants)
        return 0;
    c->tail = 0;
    if (HOTSPOT_READ(w, &c->holder, 8, constants + p->pool_holder) ||
        HOTSPOT_READ(w, &c->symbol, 8, c->holder + p->klass_name) ||
        HOTSPOT_READ(w, &length, 2, c->symbol + p->symbol_length))
        return -1;
    /* Generated classes are alike but for a number at the end of their names. */
    if (length >= 8 && HOTSPOT_READ(w, &c->tail, 8, c->symbol + p->symbol_body + length - 8))
        return -1;
    c->value = length * 0x9e3779b97f4a7c15ull ^ (constants ^ c->holder >> 3) * 0xd6e8feb86659fd93ull ^
               (c->symbol ^ c->tail) * 0xc2b2ae3d27d4eb4full;
    *known = (struct hotspot_class){constants, c->value};
    return 0;
}

/* Sets c->cookie to what tells a method from one that gets its memory, c->begin and c->size to where its
 * instructions are. -1: there is none. */
STEP_PART hotspot_cookie(STEP_HANDLE h, bpf_u64 method)
{
    HOTSPOT_OPEN(h);
    bpf_u64 at = 0, constants, behind, hash;
    if (!c->is_begun)
        __builtin_memset(c->class, 0, sizeof c->class);
    else if (method == c->method)
        return 0;
    c->is_begun = 1;
    c->method = 0;
    if (HOTSPOT_READ(w, &at, 8, method + p->method_const) || !at || HOTSPOT_READ(w, c->read, 64, at))
        return -1;
    constants = hotspot_field(c, p->const_constants & 56);
    if (!constants || hotspot_class(h, constants))
        return -1;
    behind = hotspot_field(c, p->const_code_size & 63); /* the numbers of its name and its signature, too */
    c->begin = at + p->const_size;
    c->size = behind & 0xffff;
    hash = at * 0x9e3779b97f4a7c15ull ^ c->value ^ behind * 0xff51afd7ed558ccdull;
    c->cookie = hash >> 32 ? hash >> 32 : 1;
    c->method = method;
    return 0;
}

/* Where the interpreter's frames have what: words from rbp on. JDK 8 to 28, x86-64 (frame_x86.hpp). */
#define HOTSPOT_SENDER_SP 1
#define HOTSPOT_METHOD_AT 3

/* 1: there is no whole frame. */
STEP_PART hotspot_interpreted(STEP_HANDLE h)
{
    HOTSPOT_OPEN(h);
    bpf_u64 bp = r->bp, method, sender, bcp = 0, at;
    if (r->bp_lost || (bp & 7) || !HOTSPOT_IN_STACK(w, r, bp))
        return 1;
    if (hotspot_load(h, bp - 8 * HOTSPOT_METHOD_AT))
        return -1;
    method = c->value;
    if (!method || (method & 7) || hotspot_load(h, bp + 8) || !hotspot_has(p, c->value) ||
        hotspot_load(h, bp - 8 * HOTSPOT_SENDER_SP))
        return 1;
    sender = c->value;
    if (sender < bp + 16 || hotspot_cookie(h, method))
        return 1;
    c->word = hotspot_word(method, c->cookie, 0);
    if (r->has_all && !r->is_return)
        bcp = r->all[13];
    at = bcp - c->begin;
    if (at >= c->size && !hotspot_load(h, bp - 8 * (bpf_u64)p->bcp))
        at = c->value - c->begin;
    if (at < c->size && at < HOTSPOT_STUB)
        c->word.extra = at;
    if (hotspot_leave(h, bp + 8, HOTSPOT_WITH_BP))
        return -1;
    r->sp = sender;
    return 0;
}

/* add $8, %rsp */
#define HOTSPOT_DROP_8 0x08c48348u

/* What goes on with an exception jumps to who catches it, and has popped before where it was thrown: then the
 * frame there is whole. 1: it is not there. */
STEP_PART hotspot_leave_popped(STEP_HANDLE h)
{
    HOTSPOT_OPEN(h);
    bpf_u32 before = HOTSPOT_BYTE(c, -1), b0 = HOTSPOT_BYTE(c, 0), b1 = HOTSPOT_BYTE(c, 1);
    /* pop %rdx, or %rcx; jmp by a register */
    bpf_u32 jumps = (b0 == 0xff && b1 >= 0xe0) || (b0 == 0x41 && b1 == 0xff);
    if ((b0 == 0x5a || b0 == 0x59) && (b1 == 0xff || b1 == 0x41))
        return hotspot_leave(h, r->sp, 0);
    if (!jumps || !r->has_all || (before != 0x5a && before != 0x59))
        return 1;
    bpf_u64 ip = before == 0x5a ? r->all[1] : r->all[2];
    if (!hotspot_has(p, ip))
        return 1;
    r->ip = ip;
    r->is_return = 1;
    r->has_all = 0;
    return 0;
}

/* Where an exception was thrown is in rdx: and on the stack yet, at once or behind the frame pointer; or it
 * is popped. */
STEP_PART hotspot_leave_by_rdx(STEP_HANDLE h)
{
    HOTSPOT_OPEN(h);
    if (hotspot_load(h, r->sp))
        return -1;
    if (c->value == r->all[1])
        return hotspot_leave(h, r->sp, 0);
    if (hotspot_load(h, r->sp + 8))
        return -1;
    if (c->value == r->all[1])
        return hotspot_leave(h, r->sp + 8, 0);
    r->ip = r->all[1];
    r->is_return = 1;
    r->has_all = 0;
    return 0;
}

UNWIND_INLINE int hotspot_keeps_handler(const struct hotspot_walk *c) /* mov %rax, %rbx */
{
    return HOTSPOT_BYTE(c, 0) == 0x48 && HOTSPOT_BYTE(c, 1) == 0x8b && HOTSPOT_BYTE(c, 2) == 0xd8;
}

/* Of a virtual thread all but the topmost frames are put aside, in the heap, and the last of those that are
 * there returns to a stub which brings the next ones back (mov …(%r15), %rsp). Its frame is that of
 * enterSpecial, below which they lie: some eight words (ContinuationEntry), none of which is an address of
 * code, then rbp and the return address to Continuation.run. rbp does not lead there: those that are put
 * aside have left anything in it. */
#define HOTSPOT_CARRIED (-2)
#define HOTSPOT_BARRIER 0xa78b49u

/* The stubs that go on with an exception ask C++ where to, and have no frame but what aligns the stack for
 * that: the distance to the return address. HOTSPOT_CARRIED; -1: it is another stub. */
STEP_PART hotspot_to_thrower(STEP_HANDLE h)
{
    HOTSPOT_OPEN(h);
    if (HOTSPOT_READ(w, c->code, sizeof c->code, r->ip - 1))
        return -1;
    if ((c->code[0] >> 8 & 0xffffff) == HOTSPOT_BARRIER)
        return HOTSPOT_CARRIED;
    if (hotspot_keeps_handler(c))
        return 0;
    /* add $8, %rsp; jmp over the same call for a stack that is aligned */
    if ((c->code[0] >> 8 & 0xffffffffff) != 0xe908c48348 ||
        HOTSPOT_READ(w, c->code, sizeof c->code, r->ip + 13))
        return -1;
    return hotspot_keeps_handler(c) ? 8 : -1;
}

/* A stub without a size that has called C++ or Java, or that a virtual thread returns to. */
STEP_PART hotspot_stub(STEP_HANDLE h)
{
    HOTSPOT_OPEN(h);
    int distance = hotspot_to_thrower(h);
    if (distance == HOTSPOT_CARRIED) {
        c->word = hotspot_word(c->blob, c->kind, HOTSPOT_STUB);
        return hotspot_scan(h, r->sp, HOTSPOT_WITH_BP);
    }
    if (distance < 0)
        return hotspot_leave_pointer(h, HOTSPOT_TO_ANY);
    int did = hotspot_leave(h, r->sp + (bpf_u32)distance, 0);
    if (did != 1)
        return did;
    /* It is what brings frames back, and takes its answer from C++ likewise: rbp is that of enterSpecial,
     * unless a method has returned there. */
    c->word = hotspot_word(c->blob, c->kind, HOTSPOT_STUB);
    return hotspot_leave_pointer(h, 0);
}

#define HOTSPOT_ENTER 0xec8b4855u /* push %rbp; mov %rsp, %rbp */

/* popq (%rsp): what goes on with an exception copies its return address, which is on top of the frame. */
UNWIND_INLINE int hotspot_is_popped(const struct hotspot_walk *c)
{
    return (c->code[0] >> 8 & 0xffffffff) == 0x24048f48;
}

/* C2's stubs, of which HotSpot does not say where their frame is complete, begin with sub n, %rsp. */
UNWIND_INLINE int hotspot_is_room(STEP_HANDLE h)
{
    HOTSPOT_OPEN(h);
    bpf_u64 begin = hotspot_code(p, c);
    c->value = 0;
    return r->ip != begin && !HOTSPOT_READ(w, &c->value, 4, begin) && (c->value & 0xfffdff) == 0xec8148;
}

/* The stack is aligned for a call: what is behind takes that back. */
UNWIND_INLINE int hotspot_is_aligned(const struct hotspot_walk *c)
{
    bpf_u64 here = c->code[0] >> 8, behind = c->code[0] >> 48 | c->code[1] << 16;
    return (bpf_u32)here == HOTSPOT_DROP_8 || ((here & 0xff) == 0xe8 && (bpf_u32)behind == HOTSPOT_DROP_8);
}

/* A stub, or the interpreter where it has no frame (yet), that the thread is in itself. */
STEP_PART hotspot_leaf_stub(STEP_HANDLE h)
{
    HOTSPOT_OPEN(h);
    bpf_u64 sp = r->has_all ? r->all[13] : 0;
    int did = 1;
    if (HOTSPOT_READ(w, c->code, sizeof c->code, r->ip - 1))
        return -1;
    bpf_u32 b0 = HOTSPOT_BYTE(c, 0), size = hotspot_field(c, p->blob_frame);
    bpf_u32 to = c->kind == HOTSPOT_UPCALL ? HOTSPOT_TO_ANY : 0;
    c->word = hotspot_word(c->blob, c->kind, HOTSPOT_STUB);
    if (c->kind == HOTSPOT_ADAPTER || c->kind == HOTSPOT_INTERPRETER) {
        /* What the caller's stack pointer was before arguments were put elsewhere is in r13. */
        did = hotspot_leave(h, r->sp, 0);
        if (did == 0 && sp >= r->sp && sp - r->sp < 4096 && !(sp & 7))
            r->sp = sp;
        return did <= 0 ? did : hotspot_scan(h, r->sp, 0);
    }
    if (c->kind == HOTSPOT_FLUSH)
        return hotspot_leave(h, r->sp, HOTSPOT_TO_ANY);
    if (b0 == 0x55 || b0 == 0xc3)
        did = hotspot_leave(h, r->sp, to);
    else if (b0 == 0x5d || (HOTSPOT_BYTE(c, -1) == 0x55 && b0 == 0x48))
        did = hotspot_leave(h, r->sp + 8, HOTSPOT_WITH_BP | to);
    else if (HOTSPOT_BYTE(c, -1) == 0x5d && (b0 == 0x5a || b0 == 0xe9 || b0 == 0x41))
        did = hotspot_leave(h, r->sp, 0); /* behind it pop %rdx, or a jump */
    else
        did = hotspot_leave_popped(h);
    if (did <= 0)
        return did;
    if ((bpf_s32)size > 0 && hotspot_keeps_bp(c))
        did = hotspot_leave(h, r->sp + hotspot_to_return(p, c), 0);
    else if ((bpf_s32)size > 0 &&
             (r->ip - hotspot_code(p, c) >= hotspot_complete(p, c) || hotspot_is_room(h)))
        did = hotspot_leave(h, r->sp + hotspot_to_return(p, c) + (hotspot_is_popped(c) ? 8 : 0),
                            HOTSPOT_WITH_BP);
    if (did <= 0)
        return did;
    /* A stub with a frame begins by making it; without, rbp may be that of a frame further up. */
    c->value = 0;
    if (c->kind != HOTSPOT_STUBS && !HOTSPOT_READ(w, &c->value, 4, hotspot_code(p, c)) &&
        c->value == HOTSPOT_ENTER && hotspot_leave_pointer(h, to) == 0)
        return 0;
    if (c->kind != HOTSPOT_STUBS && (bpf_s32)size < 0) {
        /* What keeps registers was called, else it was jumped to. */
        if (hotspot_scan(h, r->sp, HOTSPOT_CALLED) == 0 ||
            hotspot_leave(h, r->sp + (hotspot_is_aligned(c) ? 8 : 0), 0) == 0)
            return 0;
    }
    /* What works on much data keeps it on the stack, and anything in rbp. */
    if (c->kind == HOTSPOT_STUBS && hotspot_scan(h, r->sp, HOTSPOT_CALLED) == 0)
        return 0;
    if (r->has_all && hotspot_has(p, r->all[1]))
        return hotspot_leave_by_rdx(h);
    did = hotspot_scan(h, r->sp, HOTSPOT_NOT_SELF);
    if (did)
        did = hotspot_leave_pointer(h, 0);
    return did ? hotspot_leave_pointer(h, HOTSPOT_TO_ANY) : did; /* called by C++ */
}

/* A step from *r. STEP_TAKEN: *r is the caller, and c->word.kind says whether there is a word. STEP_NATIVE:
 * it is none of Java's code, or where its caller is cannot be said. */
UNWIND_INLINE int hotspot_walk_on(STEP_HANDLE h)
{
    HOTSPOT_OPEN(h);
    int did = r->is_return ? hotspot_again(h) : 1;
    if (did == 0 || (did == HOTSPOT_BY_POINTER && hotspot_interpreted(h) == 0))
        return STEP_TAKEN;
    c->word.kind = SAMPLE_FRAME_KERNEL;
    if (hotspot_find(h, r->ip - (r->is_return != 0)) ||
        HOTSPOT_READ(w, c->read, sizeof c->read, c->blob + p->blob_from) ||
        HOTSPOT_READ(w, &c->kind, sizeof c->kind, hotspot_field(c, p->blob_name & 0xfff8)))
        return STEP_NATIVE;
    if (c->kind == HOTSPOT_METHOD || c->kind == HOTSPOT_NATIVE)
        return hotspot_compiled(h) ? STEP_NATIVE : STEP_TAKEN;
    if (c->kind == HOTSPOT_INTERPRETER) {
        if (r->is_return)
            hotspot_remember(h, HOTSPOT_INTERPRETED);
        if (hotspot_interpreted(h) == 0)
            return STEP_TAKEN;
    }
    if (!r->is_return)
        did = hotspot_leaf_stub(h);
    else if ((bpf_s32)hotspot_field(c, p->blob_frame) > 0)
        did = hotspot_leave(h, r->sp + hotspot_to_return(p, c), HOTSPOT_WITH_BP | HOTSPOT_TO_ANY);
    else
        did = hotspot_stub(h);
    return did ? STEP_NATIVE : STEP_TAKEN;
}

#endif
