/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Go's own frame information: pclntab says, for each instruction, how far the stack pointer is below the
 * frame (runtime/symtab.go: pcsp). It is exact where frame pointers are not: in leaf functions and prologues.
 *
 * Go 1.18 and later; older programs are walked by frame pointer. One thread.
 */
#ifndef SENDER_UNWIND_GO_H
#define SENDER_UNWIND_GO_H

#include "sender/symbolize/go/pclntab.h"
#include "sender/unwind/cfi.h"

/* A part of the table in memory: it is read from front to back. */
struct go_window {
    uint8_t *bytes;
    uint64_t at, n;
};

struct go_frames {
    struct pclntab table;
    struct go_window functions, details, programs;
    uint32_t n;
};

/* Condition: it is no Go program, or not one we read. */
#define GO_NONE 1

/* Opens the table of a Go program, whose place is put into *elf. 0, GO_NONE or -ENOMEM. */
int go_open(struct go_frames *ret, const struct source *s, struct elf *elf);
void go_close(struct go_frames *g);

/* Where function i (of g->n) is, in ELF addresses. False: the table is damaged there. */
bool go_function(struct go_frames *g, uint32_t i, uint64_t *ret_start, uint64_t *ret_size);

/* As cfi_run. */
int go_run(struct go_frames *g, uint32_t i, cfi_row_fn row, void *user);

#endif
