/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * What the step of HotSpot (hotspot_step.h) has to know of a process, and the words it sends; both sides.
 *
 * Java's frames lie on the thread's stack, between the machine's. Their code is in the code cache: heaps of
 * blobs (compiled methods, the interpreter, stubs), each with a header that says how large its frames are; a
 * map of segments leads from any address to its blob's header. Nothing but this is needed, and it cannot go
 * stale.
 */
#ifndef BPF_HOTSPOT_H
#define BPF_HOTSPOT_H

#include "bpf/runtimes.h"
#include "bpf/sample.h"

/* A part of the code cache: `size` bytes from `low` on. `segments`: a byte for each segment, which says how
 * many segments further down its block may begin; 0: there. */
struct hotspot_heap {
    bpf_u64 low, size, segments;
};

#define HOTSPOT_HEAPS 4u

/* Over runtime_place.word. All but the heaps are offsets in bytes, in the structure that the comment names.
 */
struct hotspot_place {
    struct hotspot_heap heap[HOTSPOT_HEAPS];
    bpf_u8 segment_shift; /* log2 of a segment's bytes */
    bpf_u8 block_header;  /* bytes before the blob in its block */
    bpf_u8 bcp; /* words from the frame pointer down to where the interpreter saves its bytecode pointer */
    bpf_u8 is_relative; /* enum hotspot_relative, a bit each */
    bpf_u16 blob_from;  /* CodeBlob: what is read of it begins here; the next four are in that */
    bpf_u16 blob_name, blob_frame, blob_complete, blob_code;
    bpf_u16 nmethod_deopt[2]; /* nmethod; the second 0: there is only one */
    bpf_u16 nmethod_original_pc, nmethod_id;
    bpf_u16 method_const;                                 /* Method */
    bpf_u16 const_size, const_code_size, const_constants; /* ConstMethod; its size is where bytecode begins */
    bpf_u16 pool_holder, klass_name;                      /* ConstantPool, Klass */
    /* For names; the kernel side does not look at these. */
    bpf_u8 block_used; /* bytes into a block's header: 0 there says that it was freed; 0: not known */
    bpf_u16 const_flags, const_name;
    bpf_u16 pool_size;   /* ConstantPool; where its entries begin */
    bpf_u16 source_name; /* ConstantPool, or InstanceKlass */
    bpf_u16 symbol_length, symbol_body;
    bpf_u16 nmethod_method, nmethod_pcs, nmethod_pcs_end, nmethod_scopes,
        nmethod_metadata;                      /* 0: not known … */
    bpf_u16 nmethod_apart, nmethod_relocation; /* … and with HOTSPOT_APART what these are in */
    bpf_u16 major, minor, micro;               /* the version: 17.0.15; of JDK 8 8.0.402 */
};
_Static_assert(sizeof(struct hotspot_place) <= 8 * RUNTIME_PLACE_WORDS, "fits");

/* What is not said by its address, but by its distance from somewhere; and how. */
enum hotspot_relative {
    HOTSPOT_CODE = 1,    /* blob_code: from the blob */
    HOTSPOT_DEOPT = 2,   /* nmethod_deopt: likewise */
    HOTSPOT_SCOPES = 4,  /* nmethod_scopes: likewise; nmethod_pcs and _metadata always are */
    HOTSPOT_APART = 8,   /* all three: from what nmethod_apart points at; metadata from what nmethod_metadata
                            points   at, and behind as many bytes as nmethod_relocation says */
    HOTSPOT_SHORT = 16,  /* blob_complete has 16 bits */
    HOTSPOT_SOURCE = 32, /* source_name is in InstanceKlass */
    HOTSPOT_BYTES = 64,  /* compressed numbers have no byte that is 0 (from 20 on) */
};

/* As much of a blob's header is read, in words. */
#define HOTSPOT_BLOB_WORDS 16u

/* Code that has called from an address, compiled or the interpreter's, as it was found before: `said` is its
 * number, and above it the distance from the stack pointer to the return address. `of` names the process and
 * the address, XORed with both, so that an entry half written when an interrupt's walk comes in between is
 * nobody's. */
struct hotspot_known {
    bpf_u64 of, blob, said;
};

/* Classes of a stack, whose methods follow each other in the interpreter's frames. */
#define HOTSPOT_CLASS_BITS 3u
struct hotspot_class {
    bpf_u64 constants, hash; /* its pool of these; 0: none; and what tells it from another in its memory */
};

/* What a step works in; what is kept for the next one is of methods in the interpreter's frames before, which
 * cannot go while the thread is here. */
struct hotspot_walk {
    bpf_u64 is_begun;             /* 0: nothing is kept */
    bpf_u64 nothing;              /* to come: see RUNTIME_NEXT_WORD */
    bpf_u64 method, cookie;       /* the last one; 0: none; what tells it from another … */
    bpf_u64 begin, size;          /* … where its bytecode begins, and how much that is */
    bpf_u64 holder, symbol, tail; /* of a class, read for its hash */
    struct hotspot_class class[1 << HOTSPOT_CLASS_BITS];
    bpf_u64 blob;                     /* where the code's header is */
    bpf_u64 value, end;               /* end: of the frame, where its return address is */
    bpf_u32 kind, edge;               /* enum hotspot_kind, hotspot_edge */
    bpf_u64 read[HOTSPOT_BLOB_WORDS]; /* of the header; of a ConstMethod */
    bpf_u64 code[2];                  /* the byte before the instruction, and those from it on */
    struct sample_frame word;         /* what there is to tell; of another kind: nothing */
};

/* A word. Of a frame of the interpreter `where` is the Method, `extra` the bytecode's index, and `file` is
 * made of what tells the method from another one that gets its memory. Of compiled code `where` is the
 * address in it, and `file` the number of its compilation, which is used once. Of a stub `where` is its blob.
 */
#define HOTSPOT_COMPILED 0xffffu
#define HOTSPOT_STUB     0xfffeu

#endif
