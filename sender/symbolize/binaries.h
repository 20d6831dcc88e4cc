/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The executable files that samples were in, and the names found in them so far.
 *
 * No symbol table is held. An address that has no name yet is noted (binaries_want); between windows one pass
 * over each file's tables names all of them (binaries_resolve) and leaves the whole function behind, so that
 * a function is looked up once. Files are open only from the first unnamed address of a window to its end.
 * Names belong to a file as it was written (device, inode, size, time of its last writing) and outlive its
 * processes: one that is written anew in its place is another. What the file says that it is, its build id,
 * is the user's word: who copies a program's into his own would else choose its names.
 *
 * One thread.
 */
#ifndef SENDER_SYMBOLIZE_BINARIES_H
#define SENDER_SYMBOLIZE_BINARIES_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/bytes.h"
#include "sender/foreign/open.h"
#include "sender/symbolize/elf/elf.h"

struct binaries;

/* Files held; for a new one there leaves who was in no sample for longest. If all were in this window's, its
 * addresses stay as they are. */
#define BINARIES_MAX 2048u
/* Files open at once: far below the usual limit of 1024 descriptors. */
#define BINARIES_OPEN_MAX 256u
/* Unnamed addresses noted for one file in one window. */
#define BINARIES_WANT_MAX 65536u
/* What all names and ranges may take; when they pass it, those not used for longest go. */
#define BINARIES_MEMORY_MAX (8u << 20)
/* Work on debug information, in bytes looked at or unpacked (3 to 10 ns each): so many at the start, and each
 * window, up to what there was at the start, so many more and some for each address looked up: a host that
 * does little pays 0.15 % of a core at 5 s, a busy one is named as quickly as it is busy. It is shared among
 * files by how often they were sampled, and goes to what was sampled most first; what is left out waits, with
 * the names of symbols only. A host that begins to run five large C++ programs wants 40 MiB in its first
 * window, 20 and 10 in the next two. */
#define BINARIES_WORK_MAX        (64ll << 20)
#define BINARIES_WORK_WINDOW     (2ll << 20)
#define BINARIES_WORK_WINDOW_MAX (12ll << 20)
#define BINARIES_WORK_ADDRESS    (16ll << 10)
/* A file that was in no sample for this many windows is forgotten. */
#define BINARIES_IDLE_WINDOWS 24u

struct binary_key {
    uint64_t inode;
    uint32_t major, minor;
    struct foreign_content content;
};

struct binary {
    struct binary_key key;
    char name[256]; /* its base name */
    struct elf elf;
    char htlhash[33];
    bool is_elf; /* false: a file we cannot read as ELF; there are no segments */
};

/* What an address is called. */
struct binary_name {
    uint32_t n_lines; /* 0: no symbol covers it; more than 1: calls inlined there */
    uint32_t place;   /* for binaries_line */
    bool is_go;
};

struct binary_line {
    struct bytes name;         /* readable */
    struct bytes file;         /* "" if not known */
    uint32_t line, start_line; /* 0 if not known; start_line: where the function begins */
};

struct fetch;
struct stored;

struct binaries_options {
    bool addresses_only;   /* native code is left to the receiver to name; Go and the kernel are named */
    struct fetch *fetch;   /* where debug files can be had from; stays the caller's; may be NULL */
    struct stored *stored; /* names of earlier starts, and for later ones; likewise */
};

struct binaries *binaries_new(void);
void binaries_configure(struct binaries *b,
                        const struct binaries_options *options); /* before the first file */
struct binaries *binaries_free(struct binaries *b);              /* returns NULL */

bool binary_key_is(const struct binary_key *a, const struct binary_key *b);

/* Whether an open file has what it had when it got its key. */
bool binary_is_as_written(const struct binary_key *key, int fd);

/* The number of a file met before, from 1; 0: unknown. It holds until one is added, or from binaries_charge
 * on until binaries_sweep; that of one that was added likewise. */
uint32_t binaries_find(const struct binaries *b, const struct binary_key *key);

/* Adds a file: reads its headers, at that user's cost (NULL: nobody's), and keeps the descriptor, which is
 * taken over in any case, until binaries_resolve. Its number, or 0 when something else has been written in
 * it since, or memory, room, BINARIES_OPEN_MAX or the allowance is out. */
uint32_t binaries_add(struct binaries *b, const struct binary_key *key, const char *name, int fd,
                      struct allowance *user);

/* The same for an ELF image in memory (the vDSO), which must stay. */
uint32_t binaries_add_memory(struct binaries *b, const struct binary_key *key, const char *name,
                             struct bytes image);

/* NULL: there is none of this number (any more). */
const struct binary *binaries_get(const struct binaries *b, uint32_t number);

/* Tells where a file was met: its path as the process `pid` sees it, absolute. Its debug file is looked for
 * near it, also in the process's own root; without this only by build id in the host's. */
void binaries_met(struct binaries *b, uint32_t number, uint32_t pid, const char *path);

/* Says who pays for reading a file from now on, until binaries_resolve: whose process led to it. What the
 * allowance does not reach is named when there is some again. The file is one of this window's now: its
 * number holds until binaries_sweep. */
void binaries_charge(struct binaries *b, uint32_t number, struct allowance *user);

/* Takes over a descriptor of the same file; true: it is open now. What has been written in it since is not
 * looked at. */
bool binaries_reopen(struct binaries *b, uint32_t number, int fd);

/* Notes that an ELF address will be named; it was in so many samples more. True: the file is not open and
 * must be for that: reopen it and want the address again. */
bool binaries_want(struct binaries *b, uint32_t number, uint64_t address, uint64_t hits);

/* Looks all noted addresses up, and closes the files. */
void binaries_resolve(struct binaries *b);

/* The name of an address. */
struct binary_name binaries_name(const struct binaries *b, uint32_t number, uint64_t address);

/* Line i of a name, the innermost function first; valid until the next binaries_resolve or binaries_sweep. */
struct binary_line binaries_line(const struct binaries *b, const struct binary_name *name, uint32_t i);

/* Ends a window: forgets files long unused, and names not used for longest when all take too much. */
void binaries_sweep(struct binaries *b);

/* Writes what was found since it was written last (stored.h). 0; -ETIMEDOUT: the disk does not answer; or
 * -errno. */
int binaries_store(struct binaries *b);

struct binaries_counts {
    uint32_t files;
    uint64_t looked_up; /* addresses, since the start */
    uint64_t evicted;   /* files whose names had to leave */
    uint64_t recalled;  /* files whose names were found on disk */
    uint32_t debug;     /* files with debug information of their own, or found for them */
    size_t memory;      /* of names and ranges, and of what is kept of debug information */
};
struct binaries_counts binaries_counts(const struct binaries *b);

#endif
