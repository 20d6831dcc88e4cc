/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which functions there are around a place in a file, found without reading all of them: in the table of
 * .eh_frame_hdr, in Go's table, or, of call frame information without a table (.debug_frame), in a list made
 * once.
 *
 * One thread a file.
 */
#ifndef SENDER_UNWIND_FUNCTIONS_H
#define SENDER_UNWIND_FUNCTIONS_H

#include "proto/base/vec.h"
#include "sender/unwind/go.h"
#include "sender/unwind/image.h"

/* Functions listed of one file; of more the first. */
#define FUNCTIONS_LISTED_MAX (1u << 18)

/* Of a function that several tell of the last one is believed: debuggers alone read .debug_frame. */
enum function_source {
    FUNCTION_DEBUG,    /* `entry`: where its FDE is in .debug_frame; */
    FUNCTION_FRAMES,   /* … in the other section */
    FUNCTION_GO,       /* its number in Go's table */
    FUNCTION_RESTORER, /* code that returns from a signal handler, and the byte before it: there it is looked
                          up */
};

struct function {
    uint64_t offset; /* in the file */
    uint64_t entry;
    enum function_source source;
};

/* Entries of a linker's table read at a time: what a search ends with, and the functions of a page, are near
 * to each other. */
#define FUNCTIONS_PART 128u

/* Where searches have looked: pages of code are asked for one after the other, and what one search has read
 * of the table leads the next ones past most of it. Of one source: the linker's table, or Go's. */
#define FUNCTIONS_FENCES 256u
struct function_fence {
    uint32_t i;       /* function i … */
    uint64_t address; /* … begins here (ELF address) */
};

struct functions {
    struct image image;
    uint32_t part, n_part; /* which part of the table is below, and how many entries of it; n 0: none */
    int32_t entry[FUNCTIONS_PART][2];
    VEC(struct function_fence) fences; /* ascending by both */
    struct go_frames go;               /* .n 0: no Go program */
    struct cfi_section debug;          /* .debug_frame; size 0: there is none, or Go's table tells more */
    VEC(struct function) listed;       /* of sections without a table, by offset */
};

/* Opens a file's; the source must outlive it. 0; IMAGE_NONE; -ENOMEM. */
int functions_open(struct functions *ret, const struct source *s);
void functions_close(struct functions *f);

/* The functions that begin in [from, to), file offsets of one segment, and before and behind them one of each
 * source, ascending; max (at least 8) of them at most. Returns how many. */
uint32_t functions_around(struct functions *f, const struct image_segment *segment, uint64_t from,
                          uint64_t to, struct function *ret, uint32_t max);

#endif
