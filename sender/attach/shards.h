/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The unwind tables' memory in BPF maps: what sender/unwind/tables.h calls a backend.
 */
#ifndef SENDER_ATTACH_SHARDS_H
#define SENDER_ATTACH_SHARDS_H

#include "sender/unwind/tables.h"

struct shards {
    int near_fd, outer_fd, files_fd;          /* the maps unwind_near, unwind_shards and unwind_files */
    volatile bpf_u64 *generation, *additions; /* unwind_generation and the like, in the mapped .bss */
    int fd[UNWIND_SHARDS];                    /* of each shard made in unwind_shards; 0: none */
};

/* Fills the functions of a backend that keeps its shards in *s, which is all zero but for the descriptors and
 * `generation`, and must stay. */
void shards_backend(struct shards *s, struct tables_backend *ret);

/* Closes the shards' descriptors. */
void shards_close(struct shards *s);

#endif
