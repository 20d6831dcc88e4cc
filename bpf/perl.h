/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * What the step of Perl (perl_step.h) has to know of a process, and the words it sends; both sides.
 *
 * A thread's subroutines are contexts (cop.h: PERL_CONTEXT) on stacks, one of which is the other's previous
 * one (PERL_SI): sort, ties, overloading, destructors and signal handlers have a stack each. They come in
 * segments: those that one call of Perl_runops_standard runs. What a segment begins with has nowhere to
 * return to (retop), since that call ends with it.
 */
#ifndef BPF_PERL_H
#define BPF_PERL_H

#include "bpf/runtimes.h"

/* Over runtime_place.word. */
struct perl_place {
    bpf_u64 start[2], size[2]; /* where Perl_runops_standard and Perl_runops_debug are */
    bpf_u64 key;               /* address of the key of a thread's interpreter, PL_thr_key; 0: there is one */
    /* In an interpreter; with `key` 0, where they are. */
    bpf_u64 op;      /* what it does: PL_op */
    bpf_u64 cop;     /* the statement: PL_curcop */
    bpf_u64 stack;   /* PL_curstackinfo */
    bpf_u64 catches; /* PL_top_env */
    /* What kinds of operations are called. */
    bpf_u16 entersub, nextstate, require;
    bpf_u16 has_musl; /* the C library is musl, not glibc */
    /* The kernel side does not look at these. */
    bpf_u16 version[3];
};
_Static_assert(sizeof(struct perl_place) <= 8 * RUNTIME_PLACE_WORDS, "fits");

/* The same in all versions known (5.32 to 5.42), of 64-bit builds. PERL_SI, in words: */
enum { PERL_STACK_FROM = 8 }; /* … from this byte on */
enum { PERL_STACK_CONTEXTS, PERL_STACK_PREVIOUS, PERL_STACK_NEXT, PERL_STACK_TOP, PERL_STACK_WORDS };
/* PERL_CONTEXT: type, flags and more in the first word. */
#define PERL_CONTEXT_BYTES 0x68u
enum {
    PERL_CONTEXT_TYPE,
    PERL_CONTEXT_COP = 2, /* the statement that it was made by */
    PERL_CONTEXT_RETURN = 6,
    PERL_CONTEXT_CODE = 9,
    PERL_CONTEXT_WORDS
};
#define PERL_TYPE(type)    ((type)&15)
#define PERL_TYPE_SORT     0u /* a block that sort calls */
#define PERL_TYPE_SUB      9u
#define PERL_TYPE_FORMAT   10u
#define PERL_TYPE_EVAL     11u
#define PERL_TYPE_DEFER    13u
#define PERL_EVAL_BLOCK    0x40u /* of an eval: not of a text */
#define PERL_SUB_PATTERN   0x80u /* of a subroutine: code in a pattern, which is no subroutine; … */
#define PERL_SUB_CALLED    0x40u /* … one that has been compiled elsewhere, too */
#define PERL_EVAL_TRY      0x80u /* … of an eval: try, which is none */
#define PERL_EVAL_OP(type) ((bpf_u32)(type) >> 23) /* which kind of operation has made it */

/* An SV: its body; type and flags. */
enum { PERL_HEAD_BODY, PERL_HEAD_FLAGS, PERL_HEAD_WORDS };
#define PERL_SV(head)      ((bpf_u32)((head)[PERL_HEAD_FLAGS] >> 32) & 255)
#define PERL_IS_GLOB(head) (PERL_SV(head) == 9)
#define PERL_IS_CODE(head) (PERL_SV(head) == 13 || PERL_SV(head) == 14) /* … or a format */
/* What is read of its body (XPVCV), in words. */
#define PERL_CODE_FROM 0x20u
enum { PERL_CODE_PACKAGE, PERL_CODE_GLOB = 3, PERL_CODE_FLAGS = 7, PERL_CODE_WORDS };
#define PERL_CODE_IS_NAMED(code) (((code)[PERL_CODE_FLAGS] >> 32 & 0x8000) != 0)
/* (XPVGV) */
#define PERL_GLOB_FROM 0x20u
enum { PERL_GLOB_NAME, PERL_GLOB_PACKAGE, PERL_GLOB_WORDS };
/* An operation, COP. */
#define PERL_COP_FROM 0x20u
enum { PERL_COP_KIND, PERL_COP_FILE = 2, PERL_COP_WORDS };
#define PERL_OP_KIND(word) ((bpf_u32)(word)&0x1ff)
#define PERL_COP_LINE(cop) ((bpf_u32)((cop)[PERL_COP_KIND] >> 32))
/* A name (HEK): its hash and length; characters. In a file's glob "_<" is before them. */
#define PERL_NAME_TEXT   8u
#define PERL_FILE_PREFIX 2u

/* What a text that was evaluated has as its file: "(eval 1)", and so on. */
#define PERL_IS_EVAL(file) (((file)&0xffffffffffffull) == 0x206c61766528ull)

/* What a word stands for. */
enum perl_what {
    PERL_GLOB,    /* a subroutine whose name is in a glob … */
    PERL_NAMED,   /* … or in itself: `where` says where it is; … */
    PERL_UNNAMED, /* … one that has none any more */
    PERL_EVAL,
    PERL_REQUIRE,
    PERL_MAIN, /* what is in none */
    PERL_NOTHING,
    PERL_LINE = 8, /* … and instead of the statement a line is said, of a text that was evaluated */
};
#define PERL_WHAT(extra) ((extra)&7u)

/* A word: `where` is the address of that object, a multiple of 8 below 2^47, and 10 bits each that tell it,
 * and the statement, from others that get their memory; `file` and `extra` are where the statement is, 0: it
 * is not known. */
#define PERL_COOKIE_BITS  10u
#define PERL_COOKIE_MASK  ((1ull << PERL_COOKIE_BITS) - 1)
#define PERL_COOKIE(hash) ((bpf_u64)(hash) >> (64 - PERL_COOKIE_BITS))
#define PERL_WHERE(object, name, place)                                                       \
    ((bpf_u64)(object) >> 3 << 2 * PERL_COOKIE_BITS | PERL_COOKIE(name) << PERL_COOKIE_BITS | \
     PERL_COOKIE(place))
#define PERL_OBJECT(where)    ((where) >> 2 * PERL_COOKIE_BITS << 3)
#define PERL_NO_OBJECT        8ull
#define PERL_EXTRA(cop, what) ((bpf_u16)((cop) >> 35 << 4 | (what)))
#define PERL_FILE(cop)        ((bpf_u32)((cop) >> 3))
#define PERL_COP(file, extra) (((bpf_u64)(file) | (bpf_u64)((extra) >> 4) << 32) << 3)

/* Of a subroutine's name where that is in memory, what is there, and its package; of a statement's file where
 * its name is, what that begins with, and its line. */
#define PERL_HASH_NAME(at, name, package)                                          \
    ((bpf_u64)(at)*0x9e3779b97f4a7c15ull ^ (bpf_u64)(name)*0xd6e8feb86659fd93ull ^ \
     (bpf_u64)(package)*0xc2b2ae3d27d4eb4full)
#define PERL_HASH_PLACE(at, text, line)                                            \
    ((bpf_u64)(at)*0xff51afd7ed558ccdull ^ (bpf_u64)(text)*0xc4ceb9fe1a85ec53ull ^ \
     (bpf_u64)(line)*0x9e3779b97f4a7c15ull)

#endif
