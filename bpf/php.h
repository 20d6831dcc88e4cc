/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * What the step of PHP (php_step.h) has to know of a process, and the words it sends; both sides.
 *
 * A thread's frames (zend_execute_data) are a list, which begins in executor_globals. One call of execute_ex,
 * the interpreter's loop, runs a function and those it calls, up to one that says that it is the first of the
 * call (ZEND_CALL_TOP). Functions that are written in C have frames as well, and those are above, at the
 * leaf's end, since who calls them is in the next call of execute_ex. What opcache compiles is jumped to from
 * there and runs on its frame of the machine.
 */
#ifndef BPF_PHP_H
#define BPF_PHP_H

#include "bpf/runtimes.h"

/* Over runtime_place.word. */
struct php_place {
    bpf_u64 start[2], size[2]; /* where execute_ex is, and what of it is kept apart, being cold */
    bpf_u64 text, text_size;   /* all code of its file: what else is PHP's, opcache has compiled */
    bpf_u64 body;              /* in execute_ex, where its frame is complete */
    bpf_u64 current;           /* where the first frame is said: executor_globals.current_execute_data */
    bpf_u64 generator_class;   /* where the class Generator is said: zend_ce_generator; 0: it is not known */
    bpf_u64 fiber, fiber_size; /* make_fcontext, which fibers return to when they are done: their root */
    bpf_u16 generator_frame, generator_parent; /* in a zend_generator: execute_data, node.parent */
    bpf_u16 handler;                           /* in a function written in C: its address; 0: not known */
    bpf_u16 file; /* in a function (zend_op_array): filename, then line_start and line_end */
    /* The kernel side does not look at these. */
    bpf_u16 version[3];
};
_Static_assert(sizeof(struct php_place) <= 8 * RUNTIME_PLACE_WORDS, "fits");

/* The same in all versions known (7.4 to 8.4), of 64-bit builds without threads. In bytes, and in words. */
#define PHP_FRAME_WORDS      7u /* zend_execute_data, as far as it is read: */
#define PHP_FRAME_OPLINE     0u
#define PHP_FRAME_FUNCTION   3u
#define PHP_FRAME_THIS       4u
#define PHP_FRAME_TYPE       5u /* This.u1.type_info, the low half: bits of the call */
#define PHP_FRAME_PREVIOUS   6u
#define PHP_FUNCTION_WORDS   3u /* zend_function: type in the lowest byte, then … */
#define PHP_FUNCTION_NAME    1u
#define PHP_FUNCTION_SCOPE   2u
#define PHP_SOURCE_WORDS     2u /* filename; line_start and line_end */
#define PHP_CLASS_NAME_AT    8u
#define PHP_OPLINE_LINE_AT   24u
#define PHP_STRING_HASH_AT   8u
#define PHP_STRING_LENGTH_AT 16u
#define PHP_STRING_TEXT_AT   24u

/* zend_function.type: a function of PHP's own, or an extension's; one written in PHP, or a file; eval's. */
#define PHP_IS_INTERNAL(function) (((function)[0] & 1) != 0)
#define PHP_IS_EVAL(function)     (((function)[0] & 4) != 0)

/* Bits of a call. */
#define PHP_CALL_CODE      (1u << 16) /* of what is in no function */
#define PHP_CALL_TOP       (1u << 17)
#define PHP_CALL_CLOSURE   (1u << 22)
#define PHP_CALL_GENERATOR (1u << 24)
#define PHP_CALL_FAKE      (1u << 23) /* … which is a reference to a function */

/* A function written in C, and what it begins with jumping to, which is in its source file: the code is this
 * near its address. */
#define PHP_HANDLER_NEAR 32768u
#define PHP_IS_OF(handler, called) \
    ((bpf_u32)((bpf_u32)(called) - (bpf_u32)(handler) + PHP_HANDLER_NEAR) < 2 * PHP_HANDLER_NEAR)

/* Generators that wait for another one ("yield from") are in no list: a frame without a function has the one
 * that was asked (This, an object of class Generator), and each knows the one that it waits for. */
#define PHP_OBJECT        8u /* the lowest byte of This.u1.type_info */
#define PHP_OBJECT_CLASS  16u
#define PHP_DELEGATES_MAX 16u /* that are looked through for one, and that are told of a stack */

/* What a word stands for, in the low bits of `where`. */
enum php_where {
    PHP_WHERE_FUNCTION,
    PHP_WHERE_MAIN, /* code in no function: of the file that the process was asked for, … */
    PHP_WHERE_FILE, /* … of another one, … */
    PHP_WHERE_EVAL, /* … of eval() */
    PHP_WHERE_CLOSURE,
};
#define PHP_WHERE(where) ((where)&7)

/* A word: `extra` is the line; `where` the function, and `file` is made of what tells it from another one
 * that gets its memory: a pointer to its class, the hashes of its name and of its file's, and its lines. What
 * is not a function that somebody has defined is gone as soon as it is not run any more: there `where` is the
 * name of its file, which stays for longer, and `file` made of that one's hash alone. */
#define PHP_NO_LINE 0u /* or one that is too large */
#define PHP_COOKIE(function, name_hash, file_hash, lines)                                                    \
    ((bpf_u32)(((name_hash)*0x9e3779b97f4a7c15ull ^ (function)[PHP_FUNCTION_SCOPE] * 0xd6e8feb86659fd93ull ^ \
                (file_hash)*0xc2b2ae3d27d4eb4full ^ (lines)*0xff51afd7ed558ccdull) >>                        \
               32))
#define PHP_FILE_COOKIE(hash) ((bpf_u32)((hash)*0xc2b2ae3d27d4eb4full >> 32))
/* What opcache keeps it shares, and a worker has no page of that before it looks at it itself, which who
 * calls a function need not. The kernel side cannot wait for a page; who names the word can, and then it is
 * there. Until then what is unread counts as 0. */
#define PHP_COOKIE_UNREAD(function) PHP_COOKIE(function, 0, 0, 0)
#define PHP_FILE_COOKIE_UNREAD      0u

#endif
