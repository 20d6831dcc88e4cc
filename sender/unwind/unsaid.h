/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Code that nothing is said of: how deep its stack is at each instruction, by what the instructions before do
 * to it.
 *
 * Assembly written by hand is mostly such code, and in some programs what takes most of the time (zstd, GMP,
 * nettle, dav1d, x265, OpenBLAS), and so is all of musl, which is the C library of Alpine.
 */
#ifndef SENDER_UNWIND_UNSAID_H
#define SENDER_UNWIND_UNSAID_H

#include "proto/base/bytes.h"
#include "sender/unwind/cfi.h"

/* Code looked at for a page, and how much of it may be before the page: longer functions are rare, a video
 * codec's that transform large blocks. */
#define UNSAID_MAX    (5u * UNWIND_PAGE_SIZE)
#define UNSAID_BEFORE (2u * UNWIND_PAGE_SIZE)

/* Kinds of frames in it: functions have five to twenty. */
#define UNSAID_FRAMES 256u

/* Where the caller's frame is. What is 0 throughout is not known. No bytes are between: they are compared. */
struct unsaid_frame {
    bool is_known, has_rsp, has_slot;
    bool is_by_rbp;     /* … of the slot */
    uint32_t base;      /* a register (as instructions have it); REGISTER_NONE */
    int32_t depth;      /* has_rsp: the CFA is rsp + depth */
    int32_t base_depth; /* it is base + base_depth … */
    int32_t slot;       /* … and, has_slot, that base is stored at rsp + slot, or at rbp + slot */
    int32_t rbp;        /* the caller's rbp is at CFA - rbp; 0: in place; -1: nowhere, nobody returns */
};

/* Memory to work in, 68 KiB. */
struct unsaid {
    uint8_t code[UNSAID_MAX];       /* for who has to read it first */
    uint8_t called[UNSAID_MAX / 8]; /* a bit a place: a direct call leads there */
    uint16_t at[UNSAID_MAX];        /* of each instruction its frame's number, from 1; 0: none begins there */
    struct unsaid_frame frame[UNSAID_FRAMES];
    uint32_t n_frames;
};

/* Looks through code, UNSAID_MAX bytes at most; a function begins at the first if that is so, the program at
 * `entry` and its main at `main`, if that is in it. on_row is called where the rule changes, `address` being
 * from there on. */
void unsaid_run(struct unsaid *u, struct bytes code, bool is_begin, uint64_t entry, uint64_t main,
                cfi_row_fn on_row, void *user);

/* Where main is, of the code that a program begins with (as C libraries have it), by its distance from that;
 * 0: it is not said. */
int64_t unsaid_main(struct bytes begin);

#endif
