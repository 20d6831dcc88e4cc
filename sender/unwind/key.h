/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file as fstat(2) says it, beside the key that the BPF program has made of its inode (bpf/unwind.h).
 */
#ifndef SENDER_UNWIND_KEY_H
#define SENDER_UNWIND_KEY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "bpf/unwind.h"

static inline uint64_t key_time(const struct stat *st)
{
    return UNWIND_KEY_TIME(st->st_mtim.tv_sec, st->st_mtim.tv_nsec, st->st_nlink || major(st->st_dev));
}

/* Size and time alone. A file that has lost its name meanwhile is also the one it was when it had it. */
static inline bool key_is_of(const struct unwind_key *key, const struct stat *st)
{
    uint64_t named = UNWIND_KEY_TIME(st->st_mtim.tv_sec, st->st_mtim.tv_nsec, 1);
    return (uint64_t)st->st_size == key->size && (key->mtime == key_time(st) || key->mtime == named);
}

#endif
