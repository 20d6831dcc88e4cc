/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which symbols of a table begin, end or go on in which page of code, and where each begins: eight bytes a
 * symbol, for files that are asked again and again, so that one more address needs two or three symbols of
 * the table, not all of it.
 */
#ifndef SENDER_SYMBOLIZE_ELF_SYMTAB_INDEX_H
#define SENDER_SYMBOLIZE_ELF_SYMTAB_INDEX_H

#include <elf.h>
#include <stdbool.h>
#include <stdint.h>

#include "sender/symbolize/elf/elf.h"

/* A page of code: ten functions or so. */
#define SYMTAB_PAGE_BITS 12
/* Of a table that has more it is not made: two megabytes. */
#define SYMTAB_INDEX_MAX (1u << 18)

struct symtab_entry {
    uint32_t number; /* in the table */
    uint32_t start;  /* the lower half of st_value */
};

/* Zeroed: not made yet. */
struct symtab_index {
    bool is_tried;
    uint32_t
        n; /* buckets, a power of two; a page is in the one of its number modulo that. 0: there are none */
    uint32_t *begin;             /* of each in `symbol`, and of one more */
    struct symtab_entry *symbol; /* by number */
};

/* A page's symbols, and others of its bucket. */
struct symtab_page {
    uint64_t last; /* address of the page */
    const struct symtab_entry *symbol;
    uint32_t n;
};

/* Makes it, unless it was tried before. Whether it is there: not of a table that is too large or cannot be
 * read. */
bool symtab_index_make(struct symtab_index *x, const struct source *s, const struct elf_section *symbols);

struct symtab_page symtab_index_page(const struct symtab_index *x, uint64_t page);

/* Where symbol i of a page begins. One that begins behind the page, and so is another's, seems to be far
 * before it. */
static inline uint64_t symtab_page_start(const struct symtab_page *p, uint32_t i)
{
    return p->last - (uint32_t)((uint32_t)p->last - p->symbol[i].start);
}

void symtab_index_release(struct symtab_index *x);
size_t symtab_index_memory(const struct symtab_index *x);

/* Whether a symbol is of code, with a name. */
bool symtab_is_code(const Elf64_Sym *symbol);

#endif
