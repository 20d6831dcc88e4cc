/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/symbolize/resolve.h"

#include <stdio.h>
#include <stdlib.h>

#include "proto/base/hash.h"
#include "proto/base/macros.h"
#include "sender/symbolize/demangle.h"
#include "sender/symbolize/dwarf/dwarf.h"
#include "sender/symbolize/go/pclntab.h"
#include "sender/symbolize/elf/eh_index.h"
#include "sender/symbolize/elf/extent.h"
#include "sender/symbolize/elf/stub.h"
#include "sender/symbolize/elf/symtab.h"
#include "sender/symbolize/elf/unpack.h"

/* Addresses answered by one pass over a symbol table. */
#define BATCH 4096u

_Static_assert(PLACES_LINES_MAX > DWARF_DEPTH_MAX && PLACES_LINES_MAX >= PCLNTAB_DEPTH_MAX,
               "no line is cut off");

/* A mangled name made readable; also one that is in a mangled function ("_Z1fv::{lambda}::operator()", as
 * dwarf/name.c says it). Its length; 0: nothing of it is mangled. */
static size_t readable_name(struct bytes name, char *to, size_t room)
{
    const uint8_t *scope = name.n > 2 && name.p[0] == '_' ? memmem(name.p, name.n, "::", 2) : NULL;
    struct bytes head = scope ? bytes_of(name.p, (size_t)(scope - name.p)) : name;
    size_t n = demangle(head, to, room), rest = name.n - head.n;
    if (n == 0 || rest >= room - n)
        return 0;
    memcpy(to + n, name.p + head.n, rest);
    return n + rest;
}

/* A function by the name the file has for it, readable. */
static uint32_t native_function(struct places *p, struct bytes name, struct bytes file, uint32_t start_line)
{
    char readable[DEMANGLE_OUT_MAX];
    struct place_function f = {.file = places_text(p, file), .start_line = start_line};
    size_t n = readable_name(name, readable, sizeof readable);
    f.name = places_text(p, n ? bytes_of(readable, n) : name);
    return f.name ? places_function(p, &f) : 0;
}

/* Functions met lately, by a hash of what they are called: pieces of one function repeat them, and demangling
 * is dear. */
#define MEMO 256u
struct memo {
    uint64_t hash;
    uint32_t function; /* 0: free */
};

static uint32_t known_function(struct places *p, struct memo memo[MEMO], struct bytes name, struct bytes file,
                               uint32_t start_line)
{
    uint64_t hash = hash_mix(hash_bytes(name, hash_seed()), hash_bytes(file, hash_seed() ^ start_line));
    struct memo *m = &memo[hash % MEMO];
    if (m->function == 0 || m->hash != hash)
        *m = (struct memo){hash, native_function(p, name, file, start_line)};
    return m->function;
}

static bool in_last_range(const struct ranges *r, uint64_t address)
{
    const struct range *last = r->all.n ? vec_last(&r->all) : NULL;
    return last && r->all.n > r->n_sorted && address >= last->start && address < last->end;
}

/* For receivers that want native addresses: as opentelemetry-ebpf-profiler names Go, without what is inlined.
 */
static void without_inlined(struct pclntab_chain *chain)
{
    struct pclntab_frame *first = &chain->frame[0], *last = &chain->frame[chain->n - 1];
    if (last != first)
        memcpy(first->name, last->name, sizeof first->name);
    first->start_line = 0;
    chain->n = 1;
}

static void add_go(struct resolve *r, struct pclntab_chain *chain)
{
    struct place_line line[PCLNTAB_DEPTH_MAX];
    if (r->go_only)
        without_inlined(chain);
    for (uint32_t i = 0; i < chain->n; i++) {
        const struct pclntab_frame *frame = &chain->frame[i];
        struct place_function f = {.name = places_text(r->places, bytes_str(frame->name)),
                                   .file = places_text(r->places, bytes_str(frame->file)),
                                   .start_line = frame->start_line};
        line[i] = (struct place_line){places_function(r->places, &f), frame->line};
    }
    struct range range = {.start = chain->start, .end = chain->end, .flags = RANGE_GO};
    range.place = places_add(r->places, line, chain->n);
    (void)ranges_add(r->ranges, &range);
}

/* Names what Go's table knows; the rest is put into `left`. How many those are. */
static uint32_t resolve_go(struct resolve *r, const struct resolve_want *want, uint32_t n,
                           struct resolve_want *left)
{
    struct pclntab table;
    uint32_t n_left = 0;
    autofree struct pclntab_chain *chain = malloc(sizeof *chain);
    bool has = chain && r->elf->go_lines.size && pclntab_open(&table, r->source, r->elf) == 0;
    for (uint32_t i = 0; i < n; i++) {
        if (!has || pclntab_chain(&table, want[i].address, chain) < 0)
            left[n_left++] = want[i];
        else if (!in_last_range(r->ranges, want[i].address))
            add_go(r, chain);
    }
    return n_left;
}

static bool has_symbols(const struct resolve *r)
{
    return r->elf->symbols.size || (r->debug_source && r->debug_elf->symbols.size);
}

/* A symbol table of one of the files. */
struct table {
    struct source source;
    struct elf_section symbols, names;
    struct symtab_index *index; /* NULL: none is kept */
};

/* In no table: the name of a stub of the linker's. */
#define IN_STUB UINT32_MAX

/* Addresses being looked up, with where their names are. */
struct batch {
    struct resolve *r;
    struct symtab_answer *answer; /* n, by address */
    uint32_t *name_table;         /* which table the name of each is in, or IN_STUB … */
    uint64_t *name_at;            /* … as it was found there */
    struct dwarf_query *query;
    uint32_t n;
    struct table table[4];
    uint32_t n_tables;
    bool is_rough; /* a table was left out for want of work */
    struct memo memo[MEMO];
    uint32_t symbol_of; /* the answer whose symbol was read last, plus one: pieces of a function follow */
    size_t symbol_n;    /* one another */
    char symbol[SYMTAB_NAME_MAX];
};

static void add_table(struct batch *b, const struct source *s, const struct elf_section *symbols,
                      const struct elf_section *names, struct symtab_index *index)
{
    if (symbols->size && names->size)
        b->table[b->n_tables++] = (struct table){*s, *symbols, *names, index};
}

/* Whether each address is in a symbol that says how long it is. */
static bool all_named(const struct batch *b)
{
    for (uint32_t i = 0; i < b->n; i++)
        if (!b->answer[i].name_at || b->answer[i].symbol_size == 0)
            return false;
    return true;
}

static void search_tables(struct batch *b)
{
    for (uint32_t t = 0; t < b->n_tables; t++) {
        const struct table *table = &b->table[t];
        if (t > 0 && has_symbols(b->r) && all_named(b))
            return; /* what is exported is in a whole table as well */
        /* Of a file that is shorter than it was some names are missing, none is wrong. */
        (void)symtab_search(&table->source, &table->symbols, &table->names, table->index, b->answer, b->n);
        for (uint32_t i = 0; i < b->n; i++)
            if (b->answer[i].name_at != b->name_at[i]) { /* a later table had a better one */
                b->name_at[i] = b->answer[i].name_at;
                b->name_table[i] = t;
            }
    }
}

/* The code at a program's entry, at most: glibc's is 38 bytes; musl's 22, and its second half, in C, ends at
 * 71. */
#define START_MAX 80u

/* Where it ends: where its code does, or, as it need not come back from its call, another function begins. */
static uint64_t start_end(const struct batch *b, uint64_t start)
{
    struct dynamic d;
    uint64_t begins, next, end = extent_end(b->r->source, start, start + START_MAX);
    dynamic_open(&d, b->r->source);
    return eh_index_bounds(&d, start, &begins, &next) ? min_of(end, next) : end;
}

/* Where no symbol says so, and in a stripped program none does, what is at the entry is "_start": it gets a
 * range of its own out of the one that has no name. */
static void mark_start(struct batch *b)
{
    uint64_t start = b->r->elf->entry, end = 0;
    for (uint32_t i = 0; start != 0 && i < b->n; i++) {
        struct symtab_answer *a = &b->answer[i];
        if (a->name_at)
            continue;
        if (end == 0)
            end = start_end(b, start);
        if (a->address < start)
            a->end = min_of(a->end, start);
        else
            a->start = max_of(a->start, a->address < end ? start : end);
        if (a->address >= start && a->address < end)
            a->end = min_of(a->end, end);
    }
}

/* Of stubs no symbol says anything, but one before them may have no size ("_init"): each is called by what it
 * calls. */
static void mark_stubs(struct batch *b)
{
    uint64_t start, end;
    for (uint32_t i = 0; i < b->n; i++) {
        struct symtab_answer *a = &b->answer[i];
        if (!stub_bounds(b->r->source, b->r->elf, a->address, &start, &end))
            continue;
        a->start = start;
        a->end = end;
        b->name_table[i] = IN_STUB;
    }
}

/* What is exported says nothing of the functions between, of which a stripped file has no symbols, nor does
 * any symbol of those that a compiler gave none (GHC's): one that does not say how long it is ends where its
 * code does. (musl's memset was what every thread began in, and frame_dummy most of a Haskell program.) */
static void mark_ends(struct batch *b)
{
    uint64_t start = 0, may = 0, end = 0; /* of the one before */
    for (uint32_t i = 0; i < b->n; i++) {
        struct symtab_answer *a = &b->answer[i];
        if (!a->name_at || a->symbol_size || b->name_table[i] == IN_STUB)
            continue;
        if (start != a->start || may != a->end) {
            start = a->start;
            may = a->end;
            end = extent_end(b->r->source, start, may);
        }
        if (a->address < end) {
            a->end = end;
        } else {
            a->start = end;
            a->name_at = 0;
        }
    }
}

/* Of C libraries without symbols: what calls `main` is in no table of exported ones, but stands before the
 * function that calls it (glibc's __libc_start_call_main, musl's second stage), and without it the stack of
 * each C program has a root nobody knows. It is called as that function is. */
#define BEFORE_START_MAX 1024u
static const char c_library_start[] = "__libc_start_main";

static void name_c_library_start(struct batch *b)
{
    struct symtab_answer behind;
    char name[sizeof c_library_start + 1];
    uint64_t tried = 0;
    if (b->n_tables == 0)
        return;
    const struct table *table = &b->table[b->n_tables - 1];
    if (table->symbols.offset != b->r->elf->dynamic.offset)
        return;
    for (uint32_t i = 0; i < b->n; i++) {
        struct symtab_answer *a = &b->answer[i];
        if (a->name_at || b->name_table[i] == IN_STUB || a->end - a->start > BEFORE_START_MAX ||
            a->end == tried)
            continue;
        tried = a->end;
        symtab_begin(&behind, &tried, 1);
        if (symtab_search(&table->source, &table->symbols, &table->names, table->index, &behind, 1) < 0 ||
            !behind.name_at)
            continue;
        size_t n = source_string(&table->source, behind.name_at, name, sizeof name);
        if (n < sizeof c_library_start - 1 ||
            memcmp(name, c_library_start, sizeof c_library_start - 1) != 0 ||
            (n > sizeof c_library_start - 1 && name[n - 1] != '@'))
            continue;
        a->start = max_of(a->start, a->end - min_of(a->end, (uint64_t)BEFORE_START_MAX));
        a->name_at = b->name_at[i] = behind.name_at;
        b->name_table[i] = b->n_tables - 1;
    }
}

/* The symbol of an answer; its length, 0 if there is none. A version ("memcpy@@GLIBC_2.14") is not its name.
 */
static size_t symbol_of(const struct batch *b, uint32_t i, char *to, size_t room)
{
    if (b->name_table[i] == IN_STUB)
        return stub_name(b->r->source, b->answer[i].start, to, room);
    if (!b->answer[i].name_at) {
        bool is_start = b->r->elf->entry && b->answer[i].start == b->r->elf->entry;
        return is_start ? (size_t)snprintf(to, room, "_start") : 0;
    }
    size_t n = source_string(&b->table[b->name_table[i]].source, b->answer[i].name_at, to, room);
    const char *at = n > 1 ? memchr(to + 1, '@', n - 1) : NULL;
    return at ? (size_t)(at - to) : n;
}

/* The answer whose range an address is in. */
static uint32_t answer_of(const struct batch *b, uint64_t address)
{
    uint32_t at = first_where(b->n, i, b->answer[i].end > address);
    return at < b->n && b->answer[at].start <= address ? at : UINT32_MAX;
}

static void on_piece(void *user, const struct dwarf_piece *piece)
{
    struct batch *b = user;
    struct places *p = b->r->places;
    struct place_line line[PLACES_LINES_MAX];
    uint32_t i = answer_of(b, piece->start), n = 0;
    if (i != UINT32_MAX && b->symbol_of != i + 1) {
        b->symbol_n = symbol_of(b, i, b->symbol, sizeof b->symbol);
        b->symbol_of = i + 1;
    }
    for (uint32_t k = 0; k < piece->n_frames && n < PLACES_LINES_MAX; k++) {
        const struct dwarf_frame *frame = &piece->frame[k];
        struct bytes name = frame->linkage.n ? frame->linkage : frame->name;
        if (k + 1 == piece->n_frames && i != UINT32_MAX && b->symbol_n)
            name = bytes_of(b->symbol, b->symbol_n);
        uint32_t function = name.n ? known_function(p, b->memo, name, frame->file, frame->start_line) : 0;
        if (function)
            line[n++] = (struct place_line){function, frame->line};
    }
    struct range range = {.start = piece->start, .end = piece->end, .place = places_add(p, line, n)};
    (void)ranges_add(b->r->ranges, &range);
}

/* What is kept of a file; NULL: nothing. */
static struct keep *keep_of(const struct resolve *r, const struct source *s)
{
    return r->kept && s->fd >= 0 ? kept_of(r->kept, s->fd) : NULL;
}

static int open_dwarf(struct resolve *r, const struct source *s, const struct elf *elf,
                      struct dwarf_file *ret)
{
    struct keep *keep = keep_of(r, s);
    return dwarf_file_open(ret, s, elf, keep ? &keep->dwarf : NULL, r->work, RESOLVE_UNIT_WORK);
}

/* Asks DWARF. 0; DWARF_LEFT: not for all of them; -ENOMEM. */
static int search_dwarf(struct batch *b)
{
    struct resolve *r = b->r;
    bool is_own = r->elf->debug[ELF_DEBUG_INFO].size;
    const struct source *source = is_own ? r->source : r->debug_source;
    const struct elf *elf = is_own ? r->elf : r->debug_elf;
    struct dwarf_file file, alt;
    if (!source || elf->debug[ELF_DEBUG_INFO].size == 0)
        return 0;
    if (r->work <= 0)
        return DWARF_LEFT;
    if (open_dwarf(r, source, elf, &file) < 0)
        return 0;
    if (r->alt_source && open_dwarf(r, r->alt_source, r->alt_elf, &alt) == 0) {
        file.work -= r->work + RESOLVE_UNIT_WORK - alt.work; /* they share it */
        file.alt = &alt;
    }
    int result = dwarf_find(&file, b->query, b->n, on_piece, b);
    r->work = file.work - RESOLVE_UNIT_WORK;
    if (file.alt)
        dwarf_file_close(&alt);
    dwarf_file_close(&file);
    return result;
}

static int by_address(const void *a, const void *b)
{
    const struct dwarf_query *x = a, *y = b;
    return order_of(x->address, y->address);
}

/* Gives what DWARF did not answer its symbol's name: all of the range, unless DWARF answered a part of it. */
static void add_symbols(struct batch *b, bool is_rough)
{
    char symbol[SYMTAB_NAME_MAX];
    qsort(b->query, b->n, sizeof *b->query, by_address);
    for (uint32_t from = 0, to; from < b->n; from = to) {
        bool shared = false;
        for (to = from; to < b->n && b->answer[to].start == b->answer[from].start; to++)
            shared |= b->query[to].is_answered;
        size_t n = symbol_of(b, from, symbol, sizeof symbol);
        struct range range = {.start = b->answer[from].start, .end = b->answer[from].end};
        if (n) {
            struct place_line line = {
                native_function(b->r->places, bytes_of(symbol, n), bytes_of(NULL, 0), 0), 0};
            range.place = line.function ? places_add(b->r->places, &line, 1) : 0;
        }
        range.flags = is_rough ? RANGE_ROUGH : 0;
        for (uint32_t i = from; i < to; i++) {
            struct range one = range;
            if (shared)
                one.start = b->answer[i].address, one.end = one.start + 1;
            ranges_clip(b->r->ranges, b->answer[i].address, &one);
            if (!b->query[i].is_answered)
                (void)ranges_add(b->r->ranges, &one);
        }
    }
}

/* What linkers make, and what they take from the C library's crt1.o: no unit has it, and to look for it in
 * each is to unpack all of a packed file's for a stub. */
static bool is_glue(const struct elf *elf, const struct symtab_answer *a)
{
    bool is_glue = elf->entry && elf->entry >= a->start && elf->entry < a->end;
    for (size_t i = 0; i < ARRAY_LEN(elf->plt); i++)
        is_glue |= a->address - elf->plt[i].address < elf->plt[i].size;
    return is_glue;
}

static void resolve_batch(struct batch *b, const struct resolve_want *want)
{
    autofree struct symtab_answer *answer = malloc(b->n * sizeof *answer);
    autofree uint32_t *name_table = calloc(b->n, sizeof *name_table);
    autofree uint64_t *name_at = calloc(b->n, sizeof *name_at);
    autofree struct dwarf_query *query = calloc(b->n, sizeof *query);
    autofree uint64_t *address = malloc(b->n * sizeof *address);
    if (!answer || !name_table || !name_at || !query || !address)
        return;
    b->answer = answer;
    b->symbol_of = 0;
    b->name_table = name_table;
    b->name_at = name_at;
    b->query = query;
    for (uint32_t i = 0; i < b->n; i++)
        address[i] = want[i].address;
    symtab_begin(answer, address, b->n);
    search_tables(b);
    mark_start(b);
    mark_stubs(b);
    mark_ends(b);
    if (!has_symbols(b->r))
        name_c_library_start(b);
    for (uint32_t i = 0; i < b->n; i++)
        query[i] = (struct dwarf_query){.address = want[i].address,
                                        .start = answer[i].start,
                                        .end = answer[i].end,
                                        .weight = want[i].hits,
                                        .is_glue = is_glue(b->r->elf, &answer[i])};
    int r = search_dwarf(b);
    add_symbols(b, r == DWARF_LEFT || b->is_rough);
}

/* The symbol tables there are. `mini` is of .gnu_debugdata, read only if nothing better is there. */
static void open_tables(struct batch *b, struct bytes mini)
{
    const struct resolve *r = b->r;
    struct elf elf;
    struct source source = source_memory(mini);
    struct keep *own = keep_of(r, r->source), *debug = r->debug_source ? keep_of(r, r->debug_source) : NULL;
    add_table(b, r->source, &r->elf->symbols, &r->elf->symbol_names, own ? &own->symbols : NULL);
    if (b->n_tables == 0 && r->debug_source)
        add_table(b, r->debug_source, &r->debug_elf->symbols, &r->debug_elf->symbol_names,
                  debug ? &debug->symbols : NULL);
    if (mini.n && elf_read(&elf, &source) == 0)
        add_table(b, &source, &elf.symbols, &elf.symbol_names, NULL);
    add_table(b, r->source, &r->elf->dynamic, &r->elf->dynamic_names, own ? &own->dynamic : NULL);
}

void resolve_addresses(struct resolve *r, const struct resolve_want *want, uint32_t n)
{
    struct batch b = {.r = r};
    autofree struct resolve_want *left = malloc(n * sizeof *left + 1);
    autofree uint8_t *mini = NULL;
    size_t mini_n = 0;
    uint32_t n_left = left ? resolve_go(r, want, n, left) : 0;
    if (n_left == 0)
        return;
    if (r->go_only) {
        for (uint32_t i = 0; i < n_left; i++)
            (void)ranges_add(r->ranges,
                             &(struct range){.start = left[i].address, .end = left[i].address + 1});
        return;
    }
    bool wants_mini = !has_symbols(r) && r->elf->mini_debug.size;
    b.is_rough = r->is_rough || (wants_mini && r->work <= 0);
    if (wants_mini && r->work > 0 && unpack_xz(r->source, &r->elf->mini_debug, &mini, &mini_n) == 0)
        r->work -= (int64_t)mini_n;
    open_tables(&b, bytes_of(mini, mini ? mini_n : 0));
    for (uint32_t at = 0; at < n_left; at += BATCH) {
        b.n = min_of(n_left - at, BATCH);
        resolve_batch(&b, left + at);
    }
}
