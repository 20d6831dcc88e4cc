/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/symbolize/elf/symtab.h"

#include <errno.h>
#include <string.h>

#include "proto/base/macros.h"

#define CHUNK 512u /* symbols read at a time: 12 KB */

/* Lower than what plainness() says of any name; 0: it was not asked. */
#define PLAINEST 1u

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

/* Among symbols of one place: functions before the untyped, sized before unsized, others before local ones.
 */
static uint32_t rank_of(const Elf64_Sym *symbol)
{
    uint32_t type = ELF64_ST_TYPE(symbol->st_info);
    uint32_t rank = type == STT_FUNC || type == STT_GNU_IFUNC ? 4 : 0;
    return rank + (symbol->st_size ? 2 : 0) + (ELF64_ST_BIND(symbol->st_info) != STB_LOCAL);
}

/* How much a symbol is a name that programmers write, among equals of one place: without underscores in front
 * ("nanosleep", which is weak, and not "__nanosleep"; "puts" and not "_IO_puts"), then global before weak
 * ("memcmp" and not "bcmp"), then the shorter ("pread", not "pread64"). Lower is better. */
static uint32_t plainness(const struct source *s, uint64_t name_at, bool is_global)
{
    char name[64];
    size_t n = source_string(s, name_at, name, sizeof name), underscores = 0;
    while (underscores < n && underscores < 3 && name[underscores] == '_')
        underscores++;
    return (uint32_t)(underscores << 16 | (size_t)!is_global << 8 | n);
}

/* Offers a symbol to an answer it covers: the nearest start wins, then the rank, then the plainer name. */
static void offer(const struct source *s, struct symtab_answer *a, const Elf64_Sym *symbol, uint64_t name_at)
{
    uint32_t rank = rank_of(symbol);
    bool is_global = ELF64_ST_BIND(symbol->st_info) == STB_GLOBAL;
    bool is_first = a->name_at == 0 || symbol->st_value > a->symbol;
    if (!is_first && (symbol->st_value < a->symbol || rank < a->rank))
        return;
    uint32_t plain = 0;
    if (!is_first && rank == a->rank) {
        plain = plainness(s, name_at, is_global);
        if (a->plainness == 0)
            a->plainness = plainness(s, a->name_at, a->is_global);
        if (plain >= a->plainness)
            return;
    }
    a->symbol = symbol->st_value;
    a->symbol_size = symbol->st_size;
    a->rank = rank;
    a->plainness = plain;
    a->is_global = is_global;
    a->name_at = name_at;
}

static void take(const struct source *s, const Elf64_Sym *symbol, uint64_t name_at,
                 struct symtab_answer *answers, uint32_t n)
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
            offer(s, &answers[i], symbol, name_at);
        return;
    }
    uint32_t behind = i;
    for (; behind < n && answers[behind].address < end; behind++)
        offer(s, &answers[behind], symbol, name_at);
    if (behind > 0)
        answers[behind - 1].end = min_of(answers[behind - 1].end, end);
    if (behind < n)
        answers[behind].start = max_of(answers[behind].start, end);
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

/* Where symbols can still matter: between the edges found so far around each address, which soon are narrow.
 * A bit for each 16 KiB, over and over: most symbols of a large table are in none that is set, and need no
 * search. */
#define NEAR_SHIFT 14
#define NEAR_BITS  4096u
struct near {
    uint64_t bits[NEAR_BITS / 64];
};

static void near_set(struct near *near, uint64_t start, uint64_t end)
{
    uint64_t first = start >> NEAR_SHIFT, n = (end >> NEAR_SHIFT) - first + 1;
    if (n >= NEAR_BITS) {
        memset(near->bits, 0xff, sizeof near->bits);
        return;
    }
    for (uint64_t at = first; at < first + n; at++)
        near->bits[at % NEAR_BITS / 64] |= UINT64_C(1) << at % 64;
}

/* A symbol matters to the addresses on both sides of it, and to those in it. */
static void near_settle(struct near *near, const struct symtab_answer *answers, uint32_t n)
{
    memset(near, 0, sizeof *near);
    for (uint32_t i = 0; i < n; i++)
        near_set(near, i > 0 ? max_of(answers[i].start, answers[i - 1].address) : answers[i].start,
                 i + 1 < n ? min_of(answers[i].end, answers[i + 1].address) : answers[i].end);
}

static bool is_near(const struct near *near, const Elf64_Sym *symbol)
{
    uint64_t first = symbol->st_value >> NEAR_SHIFT,
             last = (symbol->st_value + symbol->st_size) >> NEAR_SHIFT;
    uint64_t bits =
        near->bits[first % NEAR_BITS / 64] >> first % 64 | near->bits[last % NEAR_BITS / 64] >> last % 64;
    return (bits & 1) | (symbol->st_size >> NEAR_SHIFT != 0);
}

/* What a search looks at. */
struct looking {
    const struct source *s;
    const struct elf_section *symbols, *names;
    struct symtab_answer *answers;
    uint32_t n;
};

static void look_at(const struct looking *l, const Elf64_Sym *symbol)
{
    if (symtab_is_code(symbol) && symbol->st_name < l->names->size)
        take(l->s, symbol, l->names->offset + symbol->st_name, l->answers, l->n);
}

static bool look_at_number(const struct looking *l, uint32_t number)
{
    Elf64_Sym symbol;
    if (number >= l->symbols->size / sizeof symbol ||
        !source_read(l->s, l->symbols->offset + (uint64_t)number * sizeof symbol, &symbol, sizeof symbol))
        return false;
    look_at(l, &symbol);
    return true;
}

/* Looks at the symbols of a page that begin in [from, to]. */
static bool look_between(const struct looking *l, const struct symtab_page *p, uint64_t from, uint64_t to)
{
    for (uint32_t i = 0; i < p->n; i++) {
        uint64_t start = symtab_page_start(p, i);
        if (start >= from && start <= to && !look_at_number(l, p->symbol[i].number))
            return false;
    }
    return true;
}

/* Whether what begins before its symbol is of no interest any more. */
static bool is_covered(const struct symtab_answer *a)
{
    return a->name_at && a->symbol_size > 0;
}

/* Symbols that are looked at one after the other; of more that do not help, all at once. */
#define NEAREST_MAX 8

/* Looks at the symbols of an address's page that begin before it, the nearest first, until one has it. */
static bool look_before(const struct looking *l, const struct symtab_page *p, const struct symtab_answer *a)
{
    uint64_t to = a->address;
    for (int tries = 0; tries < NEAREST_MAX; tries++) {
        uint64_t nearest = 0;
        for (uint32_t i = 0; i < p->n; i++)
            if (symtab_page_start(p, i) <= to)
                nearest = max_of(nearest, symtab_page_start(p, i));
        if (nearest == 0)
            return true;
        if (!look_between(l, p, nearest, nearest))
            return false;
        if (is_covered(a) && nearest <= a->symbol)
            return true;
        to = nearest - 1;
    }
    return look_between(l, p, 0, to);
}

/* And at those of a page that begin behind it, until there is an edge. */
static bool look_behind(const struct looking *l, const struct symtab_page *p, const struct symtab_answer *a)
{
    uint64_t from = a->address;
    for (int tries = 0; tries < NEAREST_MAX; tries++) {
        uint64_t nearest = a->end;
        for (uint32_t i = 0; i < p->n; i++)
            if (symtab_page_start(p, i) > from)
                nearest = min_of(nearest, symtab_page_start(p, i));
        for (uint32_t i = 0; i < p->n && a->end > nearest; i++)
            if (symtab_page_start(p, i) == nearest && !look_at_number(l, p->symbol[i].number))
                return false;
        if (a->end <= nearest)
            return true;
        from = nearest;
    }
    return look_between(l, p, from, a->end);
}

/* Pages without a symbol that are gone through for the edges around an address. */
#define REACH 64u

/* Looks at the page of each address, and at those before and behind it until there is an edge: what is on the
 * other side of another address is found with that. False: that is too far, or they cannot be read. */
static bool look_by_index(const struct looking *l, const struct symtab_index *x)
{
    for (uint32_t i = 0; i < l->n; i++) {
        const struct symtab_answer *a = &l->answers[i];
        const uint64_t page = a->address >> SYMTAB_PAGE_BITS;
        struct symtab_page p = symtab_index_page(x, page);
        if (!look_before(l, &p, a) || !look_behind(l, &p, a))
            return false;
        for (uint64_t at = page; at > 0; at--) {
            uint64_t begin = at << SYMTAB_PAGE_BITS;
            if (a->start >= begin || (i > 0 && a[-1].address >= begin))
                break;
            p = symtab_index_page(x, at - 1);
            if (page - at == REACH || !look_between(l, &p, is_covered(a) ? a->symbol + 1 : 0, p.last))
                return false;
        }
        for (uint64_t at = page;; at++) {
            uint64_t last = symtab_index_page(x, at).last;
            if (a->end <= last || (i + 1 < l->n && a[1].address <= last))
                break;
            p = symtab_index_page(x, at + 1);
            if (at - page == REACH || !look_behind(l, &p, a))
                return false;
        }
    }
    return true;
}

static int look_at_all(const struct looking *l)
{
    Elf64_Sym chunk[CHUNK];
    struct near near;
    bool is_settled = false;
    uint64_t n_symbols = min_of(l->symbols->size / sizeof *chunk, (uint64_t)SYMTAB_SYMBOLS_MAX);
    for (uint64_t at = 0; l->n > 0 && at < n_symbols; at += CHUNK) {
        uint32_t count = (uint32_t)min_of(n_symbols - at, (uint64_t)CHUNK);
        if (!source_read(l->s, l->symbols->offset + at * sizeof *chunk, chunk, count * sizeof *chunk))
            return -EIO;
        if (!is_settled)
            near_settle(&near, l->answers, l->n);
        is_settled = true;
        for (uint32_t i = 0; i < count; i++) {
            if (!is_near(&near, &chunk[i]))
                continue;
            look_at(l, &chunk[i]);
            is_settled = false;
        }
    }
    return 0;
}

int symtab_search(const struct source *s, const struct elf_section *symbols, const struct elf_section *names,
                  struct symtab_index *index, struct symtab_answer *answers, uint32_t n)
{
    const struct looking l = {s, symbols, names, answers, n};
    for (uint32_t i = 0; i < n; i++)
        answers[i].plainness = PLAINEST; /* of an earlier table, whose name stays among equals */
    bool is_found = index && symtab_index_make(index, s, symbols) && look_by_index(&l, index);
    int r = is_found ? 0 : look_at_all(&l);
    narrow(answers, n);
    return r;
}
