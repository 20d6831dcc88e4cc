/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Go's line table (.gopclntab): function name, source file and line of an address, read where it lies by
 * binary search.
 *
 * The layouts are those of Go 1.2, 1.16, 1.18 and 1.20 (and later), as Go's debug/gosym/pclntab.go reads them
 * and https://go.dev/s/go12symtab describes them. It survives `go build -ldflags="-s -w"`.
 */
#ifndef SENDER_SYMBOLIZE_GO_PCLNTAB_H
#define SENDER_SYMBOLIZE_GO_PCLNTAB_H

#include <stdint.h>

#include "sender/symbolize/elf/elf.h"

/* Functions of one table: Kubernetes-sized programs have 150 thousand. */
#define PCLNTAB_FUNCTIONS_MAX 4000000u
/* Steps of one pc-value program: it has one or two a source line of the function. */
#define PCLNTAB_STEPS_MAX 65536u

struct pclntab {
    struct source source;
    uint64_t base, size; /* of the table in the source */
    uint32_t version;    /* 12, 116, 118, 120 */
    uint32_t quantum, pointer;
    uint64_t n_functions, n_files;
    uint64_t text; /* ELF virtual address that entries are relative to (118 and later) */
    uint64_t names, units, files, pcs, functions; /* offsets from base */
    struct source file;                           /* all of the file */
    uint64_t function_data;                       /* where go:func.* is in it: inline trees; 0: not known */
};

/* Functions inlined into each other; the compiler stops long before. */
#define PCLNTAB_DEPTH_MAX 32u

struct pclntab_frame {
    char name[512], file[512]; /* cut to fit; file "" if not known */
    uint32_t line, start_line; /* 0: not known */
};

/* The functions at an address, the innermost inlined one first; the last is the one that has code. */
struct pclntab_chain {
    uint64_t start, end; /* addresses with this answer */
    uint32_t n;
    struct pclntab_frame frame[PCLNTAB_DEPTH_MAX];
};

/* Before 1.26 a position independent program or library that the system's linker has made (all with C in
 * them, and those of distributions) has no section of that name: its table is in .data.rel.ro, among much
 * else, where the program's own data point at it. Sets elf->go_lines to what is from there on, if that is
 * so. */
void pclntab_find(struct elf *elf, const struct source *s);

/* Finds and checks the table of a Go program. 0, or -ENOENT: there is none that we read. */
int pclntab_open(struct pclntab *ret, const struct source *s, const struct elf *elf);

/* The answer for an ELF virtual address. 0, or -ENOENT: not Go code, or the table is damaged there. What is
 * inlined there is in it as far as the file says where its inline trees are: Go 1.18 and later; in position
 * independent programs only the linker's relocations know. */
int pclntab_chain(const struct pclntab *t, uint64_t address, struct pclntab_chain *ret);

#endif
