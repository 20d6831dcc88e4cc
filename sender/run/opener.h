/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens the files of code that processes have mapped, or had: by the process while it is there, else by the
 * name the file had when it was opened last. One thread.
 */
#ifndef SENDER_RUN_OPENER_H
#define SENDER_RUN_OPENER_H

#include <stdbool.h>

#include "bpf/sample.h"
#include "proto/base/bytes.h"
#include "sender/procs/maps.h"

struct opener;

struct opener *opener_new(void);              /* NULL when memory is out */
struct opener *opener_free(struct opener *o); /* returns NULL; NULL is fine */

/* Where a file is to be had: mapped at [start, end) of a process; `end` 0: it is the process's executable,
 * begun by the name `path`. */
struct whereabouts {
    struct opener *opener;
    const struct unwind_key *key;
    uint32_t pid;
    uint64_t start, end;
    const char *path;
};

/* A loader_file's `open`; `of` is a struct whereabouts. A descriptor, the caller's; or -errno. */
int opener_open(void *of);

/* The file a process has mapped at [start, end), whichever it is. A descriptor, the caller's; or -errno. */
int opener_mapped(const struct opener *o, uint32_t pid, uint64_t start, uint64_t end);

/* The key's file by an absolute name to which a user's process led, if it is yet that one, unchanged. A
 * descriptor, the caller's; or -errno. Any thread. */
int opener_named(const char *path, const struct unwind_key *key, uint32_t user);

/* The mappings of a process with code in them, from its /proc: as sampler_files_of hands them on, for kernels
 * where that cannot. The files of those that are among the n of `before` are not looked at again. 0 or
 * -errno. */
int opener_mappings(const struct opener *o, uint32_t pid, const struct sample_file *before, uint32_t n,
                    bool (*file)(void *user, const struct sample_file *file), void *user);

/* What the kernel side would say of one such mapping; false if its file cannot be looked at, or is of a file
 * system that has another number for it there (overlayfs): then only the kernel side can say. */
bool opener_describe(const struct opener *o, uint32_t pid, const struct region *region,
                     struct sample_file *ret);

/* Whether the file of a mapping is the one that a mark stands for (unwind_mark), which may have lost its last
 * name since then. */
bool opener_is_marked(const struct opener *o, const struct sample_file *mapping, uint32_t mark);

/* Whether that is what was said of it. */
bool opener_is_described(const struct region *region, const struct sample_file *file);

/* Whose process it is: its effective user, or root where it may not be looked into; UINT32_MAX: it is gone.
 */
uint32_t opener_user(uint32_t pid);

/* All mappings of a process, which is `user`'s (maps_get). */
int opener_maps(uint32_t pid, uint32_t user, struct maps *ret);

/* The name of a descriptor's file, in `path` of PATH_MAX. */
struct bytes opener_name(int fd, char *path);

#endif
