/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names from a symbol table (.symtab or .dynsym), without holding it: one pass over the table answers all
 * addresses asked for, in constant memory; or an index says where to look, whose owner keeps it from one
 * search to the next. What comes back is a whole range that has the answer, so that a function is asked for
 * once.
 */
#ifndef SENDER_SYMBOLIZE_ELF_SYMTAB_H
#define SENDER_SYMBOLIZE_ELF_SYMTAB_H

#include <stdint.h>

#include "sender/symbolize/elf/symtab_index.h"

/* Symbols looked at in one table: a debug build of a browser has ~2 million. */
#define SYMTAB_SYMBOLS_MAX 8000000u
/* The longest name taken; C++ templates produce longer ones, which are cut. */
#define SYMTAB_NAME_MAX 1024u

struct symtab_answer {
    uint64_t address;     /* asked for; ELF virtual address */
    uint64_t start, end;  /* every address in [start, end) has this answer */
    uint64_t name_at;     /* of the name in the file; 0: no symbol covers it */
    uint64_t symbol_size; /* of the symbol; 0: it does not say */
    /* private: the best symbol so far */
    uint64_t symbol;
    uint32_t rank, plainness;
    bool is_global;
};

/* Prepares answers for n addresses, sorted ascending, none twice. */
void symtab_begin(struct symtab_answer *answers, const uint64_t *addresses, uint32_t n);

/* Looks through one table. May be called for .symtab, then .dynsym: the first answer stays unless a better
 * one comes. `index`: this table's, made if it is new; NULL: there is none. 0, or -EIO when the table could
 * not be read to its end: the answers so far are good. */
int symtab_search(const struct source *s, const struct elf_section *symbols, const struct elf_section *names,
                  struct symtab_index *index, struct symtab_answer *answers, uint32_t n);

#endif
