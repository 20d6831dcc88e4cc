/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables the kernel side walks by, from user space's end: which files have rows in them, where, and which
 * leave when room is short.
 *
 * The memory itself belongs to a backend: BPF maps (sender/attach), or plain memory in tests. Changes are in
 * an order that a walk running meanwhile survives: a file appears when its rows are all there; its room is
 * used anew only TABLES_GRACE_NS after it disappeared, when no walk is in it any more. One thread.
 */
#ifndef SENDER_UNWIND_TABLES_H
#define SENDER_UNWIND_TABLES_H

#include <stdbool.h>
#include <stdint.h>

#include "bpf/unwind.h"
#include "sender/unwind/rows.h"

/* A walk lasts some microseconds; on a virtual machine's stolen CPU, some milliseconds. */
#define TABLES_GRACE_NS 20000000u
/* What was used this recently stays, unless it is large and the newcomer small: when more is in use than
 * there is room for, the newcomer is refused, and not each one compiled again and again. In units of
 * tables_backend.used. */
#define TABLES_RECENT 3u

struct tables_backend {
    bpf_u32 *page;            /* UNWIND_PAGES */
    struct unwind_rule *rule; /* UNWIND_RULES */
    bpf_u32 *used;            /* UNWIND_FILES: when tables were last used, at their serial's place */
    /* Makes a shard's rows writable, made if it is new; 0 or -errno. */
    int (*shard_open)(void *user, uint32_t shard, struct unwind_row **ret);
    void (*shard_close)(void *user, uint32_t shard, struct unwind_row *rows);
    void (*shard_drop)(void *user, uint32_t shard); /* no file has rows in it any more */
    int (*file_set)(void *user, const struct unwind_key *key, const struct unwind_file *file);
    void (*file_drop)(void *user, const struct unwind_key *key);
    /* Files were added; or one is gone, and walks must forget what they remember of files. */
    void (*changed)(void *user, bool is_gone);
    void *user;
};

struct tables;

struct tables_counts {
    uint32_t files, chunks, shards, pages, rules;
    uint64_t evicted; /* files that had to leave */
    uint64_t refused; /* times a file found no room */
};

/* `max_shards` (1 … UNWIND_SHARDS) limits the memory of rows. NULL when memory is out. */
struct tables *tables_new(const struct tables_backend *backend, uint32_t max_shards);
struct tables *tables_free(struct tables *t); /* returns NULL; the backend's memory stays as it is */

/* Adds a file's rows, or replaces them; rows without pages say that a file has none. Others leave for it, the
 * one not used for longest first. 0; TABLES_LATER: there will be room TABLES_GRACE_NS later; -ENOSPC: there
 * is none; or another -errno. */
#define TABLES_LATER 1
int tables_add(struct tables *t, const struct unwind_key *key, const struct rows *rows, uint64_t now);

bool tables_has(const struct tables *t, const struct unwind_key *key);

struct tables_counts tables_counts(const struct tables *t);

#endif
