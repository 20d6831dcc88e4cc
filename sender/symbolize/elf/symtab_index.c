/* SPDX-License-Identifier: Apache-2.0 */
/* Sorted by counting: the table is read twice. */
#include "sender/symbolize/elf/symtab_index.h"

#include <stdlib.h>

#include "proto/base/macros.h"

#define CHUNK 512u /* symbols read at a time: 12 KB */
/* Symbols a bucket, about; and buckets, of which a gigabyte of code needs no more. */
#define EACH        8u
#define BUCKETS_MIN 16u
#define BUCKETS_MAX (1u << 14)

bool symtab_is_code(const Elf64_Sym *symbol)
{
    uint32_t type = ELF64_ST_TYPE(symbol->st_info);
    return symbol->st_shndx != SHN_UNDEF && symbol->st_shndx != SHN_ABS && symbol->st_name != 0 &&
           symbol->st_value != 0 &&
           (type == STT_FUNC || type == STT_GNU_IFUNC ||
            /* Global labels of assembly, and clang's parts of functions, which have a size
             * (-fbasic-block-sections); other local ones are marks inside code ("$x" on arm64). */
            (type == STT_NOTYPE && (ELF64_ST_BIND(symbol->st_info) != STB_LOCAL || symbol->st_size != 0)));
}

/* Counts a symbol in its pages, or, where there is room made for them, puts it there; `room` entries in all.
 * False: there is none. */
static bool put(struct symtab_index *x, const Elf64_Sym *symbol, uint32_t number, uint32_t room,
                uint32_t *used)
{
    uint64_t first = symbol->st_value >> SYMTAB_PAGE_BITS,
             last = (symbol->st_value + symbol->st_size) >> SYMTAB_PAGE_BITS;
    for (uint64_t page = first; page <= last; page++) {
        uint32_t *end = &x->begin[page % x->n + 1];
        if (*used == room || *end == room)
            return false;
        if (x->symbol)
            x->symbol[*end] = (struct symtab_entry){number, (uint32_t)symbol->st_value};
        ++*end;
        ++*used;
    }
    return true;
}

/* Passes over the table. How many entries there were, or UINT32_MAX: more than there is room for, or it
 * cannot be read. */
static uint32_t pass(struct symtab_index *x, const struct source *s, const struct elf_section *symbols,
                     uint32_t room)
{
    Elf64_Sym chunk[CHUNK];
    uint32_t n = (uint32_t)(symbols->size / sizeof *chunk), used = 0;
    for (uint32_t at = 0, count; at < n; at += count) {
        count = min_of(n - at, CHUNK);
        if (!source_read(s, symbols->offset + at * sizeof *chunk, chunk, count * sizeof *chunk))
            return UINT32_MAX;
        for (uint32_t i = 0; i < count; i++)
            if (symtab_is_code(&chunk[i]) && chunk[i].st_value + chunk[i].st_size >= chunk[i].st_value &&
                !put(x, &chunk[i], at + i, room, &used))
                return UINT32_MAX;
    }
    return used;
}

/* Where each bucket begins, by how many are in it; put() moves that to where it ends, and the next one
 * begins. */
static void begin_buckets(struct symtab_index *x)
{
    for (uint32_t i = 0, sum = 0, count; i <= x->n; i++, sum += count) {
        count = x->begin[i + 1];
        x->begin[i + 1] = sum;
    }
}

static bool make(struct symtab_index *x, const struct source *s, const struct elf_section *symbols)
{
    x->n = BUCKETS_MIN;
    while (x->n < BUCKETS_MAX && x->n < symbols->size / sizeof(Elf64_Sym) / EACH)
        x->n *= 2;
    x->begin = calloc(x->n + 2, sizeof *x->begin);
    uint32_t n = x->begin ? pass(x, s, symbols, SYMTAB_INDEX_MAX) : UINT32_MAX;
    if (n == UINT32_MAX || !(x->symbol = malloc((n + 1) * sizeof *x->symbol)))
        return false;
    begin_buckets(x);
    return pass(x, s, symbols, n) == n; /* else it has changed meanwhile */
}

bool symtab_index_make(struct symtab_index *x, const struct source *s, const struct elf_section *symbols)
{
    if (!x->is_tried && (symbols->size / sizeof(Elf64_Sym) > SYMTAB_INDEX_MAX || !make(x, s, symbols)))
        symtab_index_release(x);
    x->is_tried = true;
    return x->n;
}

struct symtab_page symtab_index_page(const struct symtab_index *x, uint64_t page)
{
    const uint32_t *begin = &x->begin[page % x->n];
    return (struct symtab_page){.last = page << SYMTAB_PAGE_BITS | ((1u << SYMTAB_PAGE_BITS) - 1),
                                .symbol = x->symbol + begin[0],
                                .n = begin[1] - begin[0]};
}

void symtab_index_release(struct symtab_index *x)
{
    free(x->begin);
    free(x->symbol);
    *x = (struct symtab_index){0};
}

size_t symtab_index_memory(const struct symtab_index *x)
{
    return x->n ? (x->n + 2) * sizeof *x->begin + x->begin[x->n] * sizeof *x->symbol : 0;
}
