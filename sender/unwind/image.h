/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of an ELF file that unwinding needs: where its code is, and its call frame information in memory
 * (elf(5)). 64-bit x86-64 files only; everything in one is untrusted.
 */
#ifndef SENDER_UNWIND_IMAGE_H
#define SENDER_UNWIND_IMAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "sender/symbolize/elf/source.h"
#include "sender/unwind/cfi.h"

/* Executable PT_LOAD segments; linkers make one, Go and BOLT two or three. */
#define IMAGE_SEGMENTS_MAX 16u
/* Program and section headers looked at. */
#define IMAGE_HEADERS_MAX 1024u
/* Call frame information read of one file: librustc_driver (154 MB) has 9 MB, Chromium about 20. */
#define IMAGE_FRAMES_MAX (64u << 20)

/* Signal restorers looked for; a C library has one. */
#define IMAGE_RESTORERS_MAX 4u
/* Code searched for them. */
#define IMAGE_SEARCH_MAX (32u << 20)

struct image_segment {
    uint64_t address, offset, size; /* size in the file */
};

struct image {
    struct image_segment segment[IMAGE_SEGMENTS_MAX]; /* by file offset, apart from each other */
    uint32_t n_segments;
    struct cfi_section frames;              /* bytes.n 0: there is none */
    uint8_t *memory;                        /* what frames.bytes is in */
    uint64_t restorer[IMAGE_RESTORERS_MAX]; /* file offsets of code that returns from a signal handler */
    uint32_t n_restorers;
};

/* Reads it. Where nothing else can have it (the file needs no library), code is searched for what a signal
 * handler returns to: musl and Go do not say that it is that. 0; IMAGE_NONE for what is no such file, or
 * damaged; -ENOMEM. The caller releases. */
#define IMAGE_NONE 1
int image_read(struct image *ret, const struct source *s);
void image_release(struct image *image);

/* The file offset of an address of code, with the bytes of code from there to its segment's end in *room.
 * False: it is in no executable segment. */
bool image_offset(const struct image *image, uint64_t address, uint64_t *ret, uint64_t *room);

#endif
