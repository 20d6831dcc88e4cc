/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a file says to the dynamic linker (gABI, "Dynamic Linking"): symbols by their names, in constant time,
 * and bytes by their addresses. It needs no section headers, and works for executables and libraries alike.
 *
 * 64-bit, of this machine's byte order and architecture. Everything in the file is untrusted.
 */
#ifndef SENDER_SYMBOLIZE_ELF_DYNAMIC_H
#define SENDER_SYMBOLIZE_ELF_DYNAMIC_H

#include <elf.h>
#include <stdbool.h>
#include <stdint.h>

#include "sender/symbolize/elf/source.h"

/* Program headers, entries of the dynamic section, and symbols of one hash chain looked at. */
#define DYNAMIC_HEADERS_MAX 64u
#define DYNAMIC_ENTRIES_MAX 1024u
#define DYNAMIC_CHAIN_MAX   1024u
#define DYNAMIC_NAME_MAX    96u
#define DYNAMIC_NEEDED_MAX  4u

struct dynamic {
    const struct source *source; /* the caller's */
    Elf64_Ehdr header;
    Elf64_Phdr program[DYNAMIC_HEADERS_MAX]; /* read once: each address is looked for in them */
    uint32_t n_program;
    /* What the dynamic section says, as ELF addresses and sizes; 0: nothing. */
    uint64_t symbols, strings, hash, gnu_hash;
    uint64_t relocations, relocations_size, plt, plt_size;
    uint64_t n_relative;                 /* of the relocations the first so many, which name no symbol */
    uint64_t strings_size, flags;        /* DT_FLAGS_1 */
    uint64_t needed[DYNAMIC_NEEDED_MAX]; /* names of the first files that it needs, in the strings */
    uint32_t n_needed;
};

/* Reads headers and the dynamic section; the source must stay. False: it is no such file, or has no dynamic
 * symbols, as a static program; of that one the headers are read all the same. */
bool dynamic_open(struct dynamic *d, const struct source *of);

/* The first program header of a type; NULL: there is none. */
const Elf64_Phdr *dynamic_header(const struct dynamic *d, uint32_t type);

/* Exactly n bytes at an ELF address; false if the file does not have them. */
bool dynamic_read(const struct dynamic *d, uint64_t address, void *to, size_t n);

/* A symbol that is defined here, of an STT_ type, by its name, below DYNAMIC_NAME_MAX; its number in *number
 * (NULL: nobody asks). */
bool dynamic_find(const struct dynamic *d, const char *name, unsigned type, Elf64_Sym *ret, uint32_t *number);

#endif
