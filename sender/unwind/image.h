/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of an ELF file that unwinding needs: where its code is, and where its call frame information
 * (elf(5)). 64-bit x86-64 files only; everything in one is untrusted.
 */
#ifndef SENDER_UNWIND_IMAGE_H
#define SENDER_UNWIND_IMAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "sender/symbolize/elf/elf.h"
#include "sender/unwind/cfi.h"

/* Executable PT_LOAD segments; linkers make one, Go and BOLT two or three. */
#define IMAGE_SEGMENTS_MAX ELF_SEGMENTS_MAX
/* Call frame information looked at of one file: librustc_driver (154 MB) has 9 MB, Chromium about 20. */
#define IMAGE_FRAMES_MAX (64u << 20)

struct image_segment {
    uint64_t address, offset, size; /* size in the file */
};

struct image {
    const struct source *source;
    struct image_segment segment[IMAGE_SEGMENTS_MAX]; /* by file offset, apart from each other */
    uint32_t n_segments;
    struct cfi_section frames; /* size 0: there is none; else its source is the one given */
    /* The table of .eh_frame_hdr: (start, FDE) of each function, ascending (LSB Core 5.0, 10.6.2). */
    uint64_t table;         /* file offset */
    uint32_t n_table;       /* entries; 0: there is none */
    uint64_t table_address; /* what its numbers are relative to */
    uint64_t entry;         /* where the program begins, file offset; 0: it is not said */
    bool is_alone;          /* it needs no library: what a signal handler returns to is in it … */
    bool has_c_library;     /* … and this, or it needs nothing but the dynamic linker: makecontext(3) is */
};

/* Reads what elf_read has not; the source must outlive it. 0; IMAGE_NONE for what is no such file, or
 * damaged. The caller releases with cfi_release(&ret->frames). */
#define IMAGE_NONE 1
int image_read(struct image *ret, const struct source *of, const struct elf *elf);

/* Looks for the code that a signal handler returns to in [from, to) of the file: musl and Go do not say that
 * it is that. False: it is not there. */
#define IMAGE_RESTORER_SIZE 9u
bool image_restorer(const struct source *s, uint64_t from, uint64_t to, uint64_t *ret);

/* The file offset of an address of code, with the bytes of code from there to its segment's end in *room.
 * False: it is in no executable segment. */
bool image_offset(const struct image *image, uint64_t address, uint64_t *ret, uint64_t *room);

#endif
