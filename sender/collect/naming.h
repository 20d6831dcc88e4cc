/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the frames of a closed window are called: the kernel's symbols, those of files, and of generated code.
 * All that is slow is here; the window is only read, but for its files, which are used up.
 *
 *     naming_settle(n, window, procs, now);
 *     … naming_describe(n, window, …)
 *     naming_next(n);
 *
 * One thread, which need not be the collector's.
 */
#ifndef SENDER_COLLECT_NAMING_H
#define SENDER_COLLECT_NAMING_H

#include <stdint.h>

#include "proto/base/vec.h"
#include "sender/collect/generated.h"
#include "sender/collect/window.h"
#include "sender/foreign/allowance.h"
#include "sender/symbolize/binaries.h"
#include "sender/symbolize/kernel/kernel.h"

struct naming {
    struct binaries *binaries;
    struct kernel *kernel;
    int kernel_state; /* what kernel_resolve last said */
    struct generated generated;
    struct ledger ledger; /* what looking for names in others' files may cost whom */
    VEC(uint32_t) number; /* of binaries, by file of the window; 0: it could not be had */
    struct words *words;  /* of the collector's; the owner's; NULL: none */
    struct bytes vdso;    /* the image of collector_vdso; .n 0: there is none */
};

/* What a frame is called. Slices are valid until naming_next, and as long as the window. */
struct description {
    const char *type;            /* profile.frame.type: a value of the semantic conventions */
    struct bytes name;           /* .n 0: not known */
    struct bytes file;           /* source file, "" if not known */
    uint32_t line;               /* 0 if not known */
    struct binary_name inlined;  /* .n_lines above 1: name, file and line are the innermost of several */
    const struct call *calls;    /* likewise of a runtime's frame; NULL: of others */
    uint64_t address;            /* relative to the mapping; 0 of a kernel frame without a name */
    const struct binary *binary; /* the mapping: a file … */
    const struct elf_segment *segment;
    struct bytes module; /* … or the kernel ("vmlinux"), a module of it, or a file that could not be read a
                            second time; .p NULL: none of these */
};

/* 0 or -ENOMEM. `vdso` must stay. */
int naming_init(struct naming *n, const struct kernel_options *kernel, struct bytes vdso);
void naming_release(struct naming *n);

/* Finds the names of everything in the window. */
void naming_settle(struct naming *n, struct window *w, const struct procs *procs, uint64_t now);

/* Describes a frame of a process (its index in the window); after naming_settle. */
void naming_describe(const struct naming *n, const struct window *w, uint32_t process,
                     const struct frame *frame, struct description *ret);

/* Ends the window: forgets what was not used for long. */
void naming_next(struct naming *n);

struct naming_counts {
    struct binaries_counts binaries;
    size_t kernel_memory;
    int kernel_state; /* as kernel_resolve says */
};
struct naming_counts naming_counts(const struct naming *n);

#endif
