/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The executable files that samples were in, as far as finding a frame's place in them needs: file offsets
 * become ELF addresses. What those are called is known elsewhere (naming.h), on another thread.
 *
 * One thread.
 */
#ifndef SENDER_COLLECT_FILES_H
#define SENDER_COLLECT_FILES_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/bytes.h"
#include "sender/symbolize/binaries.h"

struct files;

/* Files held, as many as have names; and those of one user's processes at most. For a new one there leaves
 * who was in no sample for longest. If all were in this window's, its addresses stay those of the process. */
#define FILES_MAX      BINARIES_MAX
#define FILES_USER_MAX (FILES_MAX / 2)
/* A file that was in no sample for this many windows is forgotten: before its names are, so that what is
 * known here is known there. */
#define FILES_IDLE_WINDOWS (BINARIES_IDLE_WINDOWS / 2)

struct file {
    struct binary_key key;
    bool is_elf;        /* false: nothing we read as ELF; it has no addresses */
    uint32_t in_window; /* for window_file */
};

struct files *files_new(void);
struct files *files_free(struct files *f); /* returns NULL */

/* The number of a file met before, from 1, as it was found last, whatever its key says of its content; 0:
 * unknown. Numbers of files that were in a sample since files_sweep hold until the next; those of others,
 * until a file is added. */
uint32_t files_find(const struct files *f, const struct binary_key *key);

/* The number of the file that frames mean by a serial (struct sample_frame), as files_remember was told; 0:
 * unknown. */
uint32_t files_of_serial(const struct files *f, uint32_t serial);
void files_remember(struct files *f, uint32_t serial, uint32_t number);

/* What a file's headers may cost of the user's allowance who had it read: a real one takes a fortieth. And
 * what it is worth to open one. */
#define FILES_COST_MAX (8ll << 20)
#define FILES_OPENING  8192u

/* Adds a file by its headers, which are read here at that user's cost (NULL: nobody's); the descriptor stays
 * the caller's, and tells the content of the key. Its number; 0 when memory, room or the allowance is out. */
uint32_t files_add(struct files *f, const struct binary_key *key, int fd, struct allowance *user);

/* The same for an ELF image in memory. */
uint32_t files_add_memory(struct files *f, const struct binary_key *key, struct bytes image);

/* The number of a file that is open now: the one it has, or, if something else has been written in it since,
 * a new one, as files_add. What was met of it before stays what it was, under the old one. */
uint32_t files_check(struct files *f, uint32_t number, int fd, struct allowance *user);

/* NULL: there is none of this number (any more). */
struct file *files_get(struct files *f, uint32_t number);

/* The ELF virtual address of a file offset, and notes that the file is in use. False: it is in no segment of
 * code. */
bool files_address(struct files *f, uint32_t number, uint64_t offset, uint64_t *ret);

/* The same where of the offset only the low SAMPLE_OFFSET_BITS are known. False also where there is more than
 * one such place. */
bool files_address_of_page(struct files *f, uint32_t number, uint32_t offset, uint64_t *ret);

/* Ends a window: forgets files long unused. */
void files_sweep(struct files *f);

#endif
