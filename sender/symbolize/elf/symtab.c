/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/symbolize/elf/symtab.h"

#include <elf.h>
#include <errno.h>

#include "proto/base/macros.h"

#define CHUNK 512u /* symbols read at a time: 12 KB */

void symtab_begin(struct symtab_answer *answers, const uint64_t *addresses, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        answers[i] = (struct symtab_answer){.address = addresses[i], .start = 0, .end = UINT64_MAX};
}

/* The first answer whose address is >= a; n if none. */
static uint32_t lower_bound(const struct symtab_answer *answers, uint32_t n, uint64_t a)
{
    return first_where(n, i, answers[i].address >= a);
}

/* Among symbols of one place: functions before the untyped, global before weak before local, sized before
 * unsized. */
static uint32_t rank_of(const Elf64_Sym *symbol)
{
    static const uint32_t by_binding[] = {[STB_LOCAL] = 1, [STB_GLOBAL] = 3, [STB_WEAK] = 2};
    uint32_t type = ELF64_ST_TYPE(symbol->st_info), binding = ELF64_ST_BIND(symbol->st_info);
    uint32_t rank = type == STT_FUNC || type == STT_GNU_IFUNC ? 16 : 8;
    return rank + (symbol->st_size ? 4 : 0) + (binding < ARRAY_LEN(by_binding) ? by_binding[binding] : 0);
}

/* Offers a symbol to an answer it covers: the nearest start wins, then the rank. */
static void offer(struct symtab_answer *a, const Elf64_Sym *symbol, uint64_t name_at)
{
    uint32_t rank = rank_of(symbol);
    if (a->name_at && (symbol->st_value < a->symbol || (symbol->st_value == a->symbol && rank <= a->rank)))
        return;
    a->symbol = symbol->st_value;
    a->symbol_size = symbol->st_size;
    a->rank = rank;
    a->name_at = name_at;
}

static void take(const Elf64_Sym *symbol, uint64_t name_at, struct symtab_answer *answers, uint32_t n)
{
    uint64_t start = symbol->st_value, end = start + symbol->st_size;
    if (end < start)
        return;
    uint32_t i = lower_bound(answers, n, start);
    /* The boundaries of the range: every symbol's edge narrows the one answer on each side of it; those
     * further away already have a nearer edge or get one from narrow() at the end. */
    if (i > 0 && answers[i - 1].end > start)
        answers[i - 1].end = start;
    if (i < n)
        answers[i].start = max_of(answers[i].start, start);
    if (symbol->st_size == 0) {
        /* Written in assembly, without .size: it goes on to the next symbol. Only the nearest is of interest.
         */
        if (i < n)
            offer(&answers[i], symbol, name_at);
        return;
    }
    uint32_t behind = i;
    for (; behind < n && answers[behind].address < end; behind++)
        offer(&answers[behind], symbol, name_at);
    if (behind > 0)
        answers[behind - 1].end = min_of(answers[behind - 1].end, end);
    if (behind < n)
        answers[behind].start = max_of(answers[behind].start, end);
}

static bool is_code(const Elf64_Sym *symbol)
{
    uint32_t type = ELF64_ST_TYPE(symbol->st_info);
    return symbol->st_shndx != SHN_UNDEF && symbol->st_shndx != SHN_ABS && symbol->st_name != 0 &&
           symbol->st_value != 0 &&
           (type == STT_FUNC || type == STT_GNU_IFUNC ||
            /* Global labels of assembly; local ones are marks inside code ("$x" on arm64). */
            (type == STT_NOTYPE && ELF64_ST_BIND(symbol->st_info) != STB_LOCAL));
}

/* Carries the edges on to the answers further away, and settles the symbols without a size. */
static void narrow(struct symtab_answer *answers, uint32_t n)
{
    for (uint32_t i = 1; i < n; i++)
        answers[i].start = max_of(answers[i].start, answers[i - 1].start);
    for (uint32_t i = n; i-- > 1;)
        answers[i - 1].end = min_of(answers[i - 1].end, answers[i].end);
    for (uint32_t i = 0; i < n; i++) {
        struct symtab_answer *a = &answers[i];
        if (a->name_at && a->symbol_size == 0 && a->symbol != a->start)
            a->name_at = 0; /* something else began or ended in between */
        if (!a->name_at && i > 0 && answers[i - 1].start == a->start && answers[i - 1].end == a->end) {
            uint64_t address = a->address;
            *a = answers[i - 1];
            a->address = address;
        }
    }
}

int symtab_search(const struct source *s, const struct elf_section *symbols, const struct elf_section *names,
                  struct symtab_answer *answers, uint32_t n)
{
    Elf64_Sym chunk[CHUNK];
    uint64_t n_symbols = min_of(symbols->size / sizeof *chunk, (uint64_t)SYMTAB_SYMBOLS_MAX);
    int r = 0;
    for (uint64_t at = 0; n > 0 && at < n_symbols; at += CHUNK) {
        uint32_t count = (uint32_t)min_of(n_symbols - at, (uint64_t)CHUNK);
        if (!source_read(s, symbols->offset + at * sizeof *chunk, chunk, count * sizeof *chunk)) {
            r = -EIO;
            break;
        }
        for (uint32_t i = 0; i < count; i++)
            if (is_code(&chunk[i]) && chunk[i].st_name < names->size)
                take(&chunk[i], names->offset + chunk[i].st_name, answers, n);
    }
    narrow(answers, n);
    return r;
}
