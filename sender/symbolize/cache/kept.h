/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is kept of files' debug information and symbols between windows, under one limit: to look one more
 * address up should not cost what the first one did. What was not used for longest leaves first.
 */
#ifndef SENDER_SYMBOLIZE_CACHE_KEPT_H
#define SENDER_SYMBOLIZE_CACHE_KEPT_H

#include "sender/symbolize/dwarf/file.h"
#include "sender/symbolize/elf/symtab_index.h"

/* All of it together: a program of 20 MB has some 1.5 MB, 100,000 symbols have 0.8. Three compilers at work
 * (clang, cc1plus, rustc) have 5; with 4, making their symbols' index anew each window was 9 % of our CPU. */
#define KEPT_MEMORY_MAX (6u << 20)
#define KEPT_FILES_MAX  64u

/* Of one file; all {0} to begin with. */
struct keep {
    struct dwarf_keep dwarf;
    struct symtab_index symbols, dynamic;
};

struct kept_file;

struct kept {
    struct kept_file *file[KEPT_FILES_MAX]; /* the first n */
    uint32_t n;
    uint64_t turn;
};

/* Of the file that is open at fd, as it is now; begun if it is new, with the longest unused one leaving.
 * NULL: memory is out. Valid for the next calls for a few other files, until kept_sweep. */
struct keep *kept_of(struct kept *k, int fd);

/* Forgets what is kept of it: its bytes could not all be had while that was made. A negative fd is fine. */
void kept_forget(struct kept *k, int fd);

size_t kept_memory(const struct kept *k);

/* While all take more than `max` bytes, what was not used for longest leaves; the last one at twice that: to
 * make it anew each window is what it is kept against. */
void kept_sweep(struct kept *k, size_t max);

void kept_release(struct kept *k);

#endif
