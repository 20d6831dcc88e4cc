/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which symbols of a table begin, end or go on in which page of code: four bytes a symbol, for files that are
 * asked again and again, so that one more address does not need all of the table.
 */
#ifndef SENDER_SYMBOLIZE_ELF_SYMTAB_INDEX_H
#define SENDER_SYMBOLIZE_ELF_SYMTAB_INDEX_H

#include <elf.h>
#include <stdbool.h>
#include <stdint.h>

#include "sender/symbolize/elf/elf.h"

/* A page of code: ten functions or so. */
#define SYMTAB_PAGE_BITS 12
/* Of a table that has more it is not made: a megabyte. */
#define SYMTAB_INDEX_MAX (1u << 18)

/* Zeroed: not made yet. */
struct symtab_index {
    bool is_tried;
    uint32_t
        n; /* buckets, a power of two; a page is in the one of its number modulo that. 0: there are none */
    uint32_t *begin;  /* of each in `symbol`, and of one more */
    uint32_t *symbol; /* numbers in the table, ascending */
};

/* Makes it, unless it was tried before. Whether it is there: not of a table that is too large or cannot be
 * read. */
bool symtab_index_make(struct symtab_index *x, const struct source *s, const struct elf_section *symbols);

/* How many symbols a page has; *ret: their numbers, below what the table had. Others' may be among them. */
uint32_t symtab_index_page(const struct symtab_index *x, uint64_t page, const uint32_t **ret);

void symtab_index_release(struct symtab_index *x);
size_t symtab_index_memory(const struct symtab_index *x);

/* Whether a symbol is of code, with a name. */
bool symtab_is_code(const Elf64_Sym *symbol);

#endif
