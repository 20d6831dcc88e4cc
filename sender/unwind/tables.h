/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables the kernel side walks by, from user space's end: which files it knows, which pages of them have
 * rows there, where, and which leave when room is short.
 *
 * The memory itself belongs to a backend: BPF maps (sender/attach), or plain memory in tests. Changes are in
 * an order that a walk running meanwhile survives: a page appears when its rows are all there; its room is
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
/* What was used this recently (in units of UNWIND_USED_SHIFT) leaves only if all was: then those of the user
 * who has most of it. */
#define TABLES_RECENT 2u

struct tables_backend {
    struct unwind_bucket *page; /* UNWIND_BUCKETS; the kernel side writes there when each was used */
    struct unwind_rule *rule;   /* UNWIND_RULES */
    bpf_u32 *used;              /* UNWIND_FILES: when a file was last used, seconds or so, by its place */
    /* Makes a shard's rows writable, made if it is new; 0 or -errno. */
    int (*shard_open)(void *user, uint32_t shard, struct unwind_row **ret);
    void (*shard_close)(void *user, uint32_t shard, struct unwind_row *rows);
    void (*shard_drop)(void *user, uint32_t shard); /* no page has rows in it any more */
    int (*file_set)(void *user, const struct unwind_key *key, const struct unwind_file *file);
    void (*file_drop)(void *user, const struct unwind_key *key);
    /* Files were added; or one is gone, and walks must forget what they remember of files. */
    void (*changed)(void *user, bool is_gone);
    void *user;
};

struct tables;

struct tables_counts {
    uint32_t files, pages, blocks, shards, rules;
    uint64_t evicted; /* pages that had to leave */
    uint64_t refused; /* times a page or file found no room */
};

/* `max_shards` (1 … UNWIND_SHARDS) limits the memory of rows. NULL when memory is out. */
struct tables *tables_new(const struct tables_backend *backend, uint32_t max_shards);
struct tables *tables_free(struct tables *t); /* returns NULL; the backend's memory stays as it is */

/* Condition: there will be room TABLES_GRACE_NS later. */
#define TABLES_LATER 1

/* Makes a file known (again: without pages), as `is` says but for its serial. The file not used for longest
 * leaves where there are too many. 0; TABLES_LATER; or -errno. */
int tables_add(struct tables *t, const struct unwind_key *key, const struct unwind_file *is, uint64_t now);

/* The file's serial and so on; NULL: it is not known. Until the next call of tables_add. */
const struct unwind_file *tables_file(const struct tables *t, const struct unwind_key *key);

/* The key of the file that has a serial; NULL: it left. */
const struct unwind_key *tables_key(const struct tables *t, uint32_t serial);

/* The key of the file that has a mark (unwind_mark), which is looked for among all; NULL: it is not known. */
const struct unwind_key *tables_marked(const struct tables *t, uint32_t mark);

/* Puts a page's rows in; `user` is who is charged for it. Others leave for it: those not used for longest,
 * then those of the user who has most. 0; TABLES_LATER; or -errno. */
int tables_load(struct tables *t, const struct unwind_file *file, uint32_t page, const struct rows *rows,
                uint32_t user, uint64_t now);

/* The rule for an offset of a file, as the kernel side would find it. False: its page is not there. */
bool tables_find(struct tables *t, const struct unwind_file *file, uint64_t offset, struct unwind_rule *ret);

/* Closes what was opened of the backend: before a while in which nothing is loaded. */
void tables_rest(struct tables *t);

struct tables_counts tables_counts(const struct tables *t);

#endif
