/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * What the step of V8 (v8_step.h) has to know of a process, and the words it sends; both sides.
 *
 * All of V8's code has frame pointers: what it compiles, and the builtins that come compiled with it, in the
 * file. What a frame is its slots below the frame pointer say (v8: src/execution/frame-constants.h): a
 * context and a JSFunction, or what kind of frame of V8's own it is. Values are tagged: of a pointer bit 0 is
 * set, small integers (Smi) are in the high 32 bits.
 */
#ifndef BPF_V8_H
#define BPF_V8_H

#include "bpf/runtimes.h"

/* From the frame pointer on; the same since V8 9. */
#define V8_SLOT_CONTEXT  (-8)
#define V8_SLOT_FUNCTION (-16)
#define V8_SLOT_BYTECODE (-32) /* of code that is interpreted: the array … */
#define V8_SLOT_OFFSET   (-40) /* … and where in it, a Smi */

#define V8_TAG    1ull
#define V8_IS_SMI 32u /* the value is in the bits from this one on */

/* Over runtime_place.word. Offsets are in bytes, from the object's first one. */
struct v8_place {
    bpf_u64 builtins, builtins_size; /* code that comes with V8: where in its file */
    bpf_u16 shared;                  /* in a JSFunction: its SharedFunctionInfo, … */
    bpf_u16 map_type;                /* … in a map: its instance type, … */
    bpf_u16 type_shared;             /* … that of a SharedFunctionInfo … */
    bpf_u16 read;                    /* … of which so much is read, … */
    bpf_u16 data, name, script;      /* … with these; `data`: its code, a Smi or none for a builtin */
    bpf_u16 number;                  /* 4 bytes, its number in the isolate, or in its script, … */
    bpf_u16 script_id;               /* … which has one in the isolate at this; 0: not needed */
    bpf_u16 kind_regexp;             /* of a frame of a regular expression's code; 0: not known */
    /* For names; the kernel side does not look at these. */
    bpf_u16 version[3];         /* Node's; 0: not known */
    bpf_u16 v8_major, v8_minor; /* V8's */
    bpf_u16 type_function, type_scope, type_script, type_bytecode, type_array;
    bpf_u16 scope_module;                               /* the kind of scope that a module's is */
    bpf_u16 scope_first;                                /* in a ScopeInfo: slots before the first local */
    bpf_u16 script_name, script_source, script_lines;   /* in a Script */
    bpf_u16 string_length;                              /* in a string, and for each way it is kept: */
    bpf_u16 one_byte, two_byte, actual, parent, offset; /* `actual`, `parent`: another that has the text */
    bpf_u16 external;                                   /* a pointer to the text, outside of the heap */
    bpf_u16 array_length, array_data;                   /* in a FixedArray, a ByteArray */
    bpf_u16 bytecode, positions;                        /* in a BytecodeArray */
};
_Static_assert(sizeof(struct v8_place) <= 8 * RUNTIME_PLACE_WORDS, "fits");

/* As much of a SharedFunctionInfo is read at most, in words. */
#define V8_SHARED_WORDS 16u

/* A word: `where` is the SharedFunctionInfo, `extra` how far in its bytecode a frame is that is interpreted,
 * and `file` is made of what tells it from another one that gets its memory: such a number, and pointers
 * to its name and script. */
#define V8_NO_OFFSET 0xffffu
#define V8_REGEXP    1u /* as `where`, which is even otherwise: a regular expression's code */
#define V8_COOKIE(script_id, number, name, script)                                            \
    ((bpf_u32)(((script_id)*0x9e3779b97f4a7c15ull ^ (bpf_u64)(number)*0xd6e8feb86659fd93ull ^ \
                (name)*0xc2b2ae3d27d4eb4full ^ (script)*0xff51afd7ed558ccdull) >>             \
               32))

#endif
