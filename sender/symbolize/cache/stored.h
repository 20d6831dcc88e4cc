/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names on disk between starts: what was found of a file, as of its last change, is not looked up again after
 * a restart. One file, "names", in a folder of its own that is nobody else's; written anew whole, beside the
 * old one, and put into its place (rename(2)). What it has of a file is read when that file is met.
 *
 * Nothing in it is trusted but who owns it: it may have been cut short, or be another version's. What does
 * not have its check sum or makes no sense is as if it were not there.
 *
 * One thread at a time; of several processes the first has the folder (flock(2)).
 */
#ifndef SENDER_SYMBOLIZE_CACHE_STORED_H
#define SENDER_SYMBOLIZE_CACHE_STORED_H

#include "sender/symbolize/cache/names.h"

/* Files it has names of. */
#define STORED_MAX NAMES_SETS_MAX
/* Names of one file, in bytes: more is left out. */
#define STORED_ONE_MAX (8u << 20)

struct stored;

/* Opens the folder "names" in `parent`, made if it is not there. `kind` is whatever names depend on beside
 * the files: what was written under another one is not read. 0, one of these, or -errno. The caller frees. */
#define STORED_REFUSED 1 /* parent may be written by others, or the folder or its file is not ours alone */
#define STORED_TAKEN   2 /* another process has it */
int stored_open(struct stored **ret, const char *parent, uint64_t kind, uint64_t bytes_max);
struct stored *stored_free(struct stored *s); /* returns NULL; NULL is fine */

/* Fills a set of n that has no ranges yet with what is there of its key. Whether there was any: it is
 * unchecked then. */
bool stored_load(struct stored *s, struct names *n, struct names_set *set);

/* Writes the sets that may be, and of what was there what has room: what was used last. 0 or -errno; the old
 * file stays then. */
int stored_save(struct stored *s, struct names *n);

/* The folder, for whoever wants to know whether its disk answers. */
int stored_folder(const struct stored *s);

/* What stands for one file in the file, and back: for the fuzzer and the two above. Both 0, -EBADMSG or
 * -ENOMEM. */
struct buffer;
int stored_encode(const struct names *n, const struct names_set *set, struct buffer *out);
int stored_decode(struct bytes b, struct places *places, struct ranges *ranges);

#endif
