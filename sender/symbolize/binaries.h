/*
 * The executable files that samples were in, and the names found in them so far.
 *
 * No symbol table is held. An address that has no name yet is noted (binaries_want); between windows one pass
 * over each file's table names all of them (binaries_resolve) and leaves the whole function's range behind,
 * so that a function is looked up once. Files are open only from the first unnamed address of a window to its
 * end.
 *
 * One thread.
 */
#ifndef SENDER_SYMBOLIZE_BINARIES_H
#define SENDER_SYMBOLIZE_BINARIES_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/bytes.h"
#include "sender/symbolize/elf.h"

struct binaries;

/* Files held; beyond it the addresses of a new one stay as they are. */
#define BINARIES_MAX 2048u
/* Files open at once: far below the usual limit of 1024 descriptors. */
#define BINARIES_OPEN_MAX 256u
/* Unnamed addresses noted for one file in one window. */
#define BINARIES_WANT_MAX 65536u
/* What all names and ranges may take; when they pass it they are forgotten, and found again as they are met.
 */
#define BINARIES_MEMORY_MAX (8u << 20)
/* A file that was in no sample for this many windows is forgotten. */
#define BINARIES_IDLE_WINDOWS 24u

struct binary_key {
    uint64_t inode;
    uint32_t major, minor;
};

struct binary {
    struct binary_key key;
    char name[256]; /* its base name */
    struct elf elf;
    char htlhash[33];
    bool is_elf; /* false: a file we cannot read as ELF; there are no segments */
};

struct binary_name {
    struct bytes name; /* .n 0: no symbol covers the address */
    struct bytes file; /* "" if not known */
    uint32_t line;     /* 0 if not known */
    bool is_go;
};

struct binaries *binaries_new(void);
struct binaries *binaries_free(struct binaries *b); /* returns NULL */

/* The number of a file met before, from 1; 0: unknown. Numbers hold until binaries_sweep. */
uint32_t binaries_find(const struct binaries *b, const struct binary_key *key);

/* Adds a file: reads its headers and keeps the descriptor, which is taken over in any case, until
 * binaries_resolve. Its number, or 0 when memory, BINARIES_MAX or BINARIES_OPEN_MAX is out. */
uint32_t binaries_add(struct binaries *b, const struct binary_key *key, const char *name, int fd);

/* The same for an ELF image in memory (the vDSO), which must stay. */
uint32_t binaries_add_memory(struct binaries *b, const struct binary_key *key, const char *name,
                             struct bytes image);

/* NULL: there is none of this number (any more). */
const struct binary *binaries_get(const struct binaries *b, uint32_t number);

/* Notes that an ELF address will be named. True: the file is not open and must be for that: open it and call
 * binaries_reopen, which notes the address as well. */
bool binaries_want(struct binaries *b, uint32_t number, uint64_t address);

/* Takes over a descriptor of the same file. If the file has changed meanwhile, what was known of it is
 * replaced. */
void binaries_reopen(struct binaries *b, uint32_t number, uint64_t address, int fd);

/* Looks all noted addresses up, and closes the files. */
void binaries_resolve(struct binaries *b);

/* The name of an address; valid until the next binaries_resolve or binaries_sweep. */
struct binary_name binaries_name(const struct binaries *b, uint32_t number, uint64_t address);

/* Ends a window: forgets files long unused, and all names when they take too much. */
void binaries_sweep(struct binaries *b);

struct binaries_counts {
    uint32_t files;
    uint64_t looked_up; /* addresses, since the start */
    uint64_t dropped;   /* addresses or files left out because of a limit */
    size_t memory;      /* of names and ranges */
};
struct binaries_counts binaries_counts(const struct binaries *b);

#endif
