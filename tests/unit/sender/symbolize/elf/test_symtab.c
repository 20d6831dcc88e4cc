/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "proto/base/macros.h"
#include "sender/symbolize/elf/symtab.h"

static const char names[] = "\0outer\0inner\0alias\0asm_a\0asm_b\0data";
enum { OUTER = 1, INNER = 7, ALIAS = 13, ASM_A = 19, ASM_B = 25, DATA = 31 };

struct image {
    Elf64_Sym symbol[8];
    char names[64];
};

#define SYM(name_, value, size, bind, type)                                                           \
    {                                                                                                 \
        .st_name = (name_), .st_info = ELF64_ST_INFO(bind, type), .st_shndx = 1, .st_value = (value), \
        .st_size = (size)                                                                             \
    }

static struct image make(void)
{
    struct image i = {{
        {0},
        SYM(ASM_B, 0x400, 0, STB_GLOBAL, STT_NOTYPE),
        SYM(OUTER, 0x100, 0x100, STB_LOCAL, STT_FUNC),
        SYM(INNER, 0x140, 0x20, STB_LOCAL, STT_FUNC), /* inside outer */
        SYM(ALIAS, 0x100, 0x100, STB_GLOBAL, STT_FUNC),
        SYM(DATA, 0x150, 0x10, STB_GLOBAL, STT_OBJECT), /* not code */
        SYM(ASM_A, 0x300, 0, STB_GLOBAL, STT_NOTYPE),
        {.st_name = DATA,
         .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
         .st_shndx = SHN_UNDEF,
         .st_value = 0x310},
    }};
    memcpy(i.names, names, sizeof names);
    return i;
}

static const char *name_of(const struct image *i, const struct symtab_answer *a)
{
    return a->name_at ? (const char *)i + a->name_at : "";
}

/* Searches; with an index, made now and made before, all is the same. */
static int search_in(const struct source *s, const struct elf_section *symbols,
                     const struct elf_section *strings, struct symtab_answer *answers,
                     const uint64_t *addresses, uint32_t n)
{
    cleanup(symtab_index_release) struct symtab_index index = {0};
    autofree struct symtab_answer *again = unit_made(calloc(n, sizeof *again));
    symtab_begin(answers, addresses, n);
    int r = symtab_search(s, symbols, strings, NULL, answers, n);
    for (int turn = 0; turn < 2; turn++) {
        symtab_begin(again, addresses, n);
        ck_assert_int_eq(symtab_search(s, symbols, strings, &index, again, n), r);
        for (uint32_t i = 0; i < n; i++) {
            ck_assert_uint_eq(again[i].name_at, answers[i].name_at);
            ck_assert_uint_eq(again[i].start, answers[i].start);
            ck_assert_uint_eq(again[i].end, answers[i].end);
        }
    }
    return r;
}

static void search(const struct image *i, struct symtab_answer *answers, const uint64_t *addresses,
                   uint32_t n)
{
    struct source s = source_memory(bytes_of(i, sizeof *i));
    struct elf_section symbols = {.offset = 0, .size = sizeof i->symbol};
    struct elf_section strings = {.offset = offsetof(struct image, names), .size = sizeof i->names};
    ck_assert_int_eq(search_in(&s, &symbols, &strings, answers, addresses, n), 0);
}

UNIT(every_address_gets_its_symbol_and_range)
{
    static const struct {
        uint64_t address;
        const char *name;
        uint64_t start, end;
    } want[] = {
        {0x50, "", 0, 0x100},
        {0x100, "alias", 0x100, 0x140},
        {0x13f, "alias", 0x100, 0x140},
        {0x140, "inner", 0x140, 0x160},
        {0x15f, "inner", 0x140, 0x160},
        {0x160, "alias", 0x160, 0x200},
        {0x200, "", 0x200, 0x300},
        {0x300, "asm_a", 0x300, 0x400},
        {0x3ff, "asm_a", 0x300, 0x400},
        {0x400, "asm_b", 0x400, UINT64_MAX},
        {0x900, "asm_b", 0x400, UINT64_MAX},
    };
    enum { N = sizeof want / sizeof *want };
    struct image i = make();
    struct symtab_answer answers[N];
    uint64_t addresses[N];
    for (int k = 0; k < N; k++)
        addresses[k] = want[k].address;
    search(&i, answers, addresses, N);
    for (int k = 0; k < N; k++) {
        ck_assert_str_eq(name_of(&i, &answers[k]), want[k].name);
        ck_assert_uint_eq(answers[k].start, want[k].start);
        ck_assert_uint_eq(answers[k].end, want[k].end);
    }
    for (int k = 0; k < N; k++) { /* alone, each has the same answer */
        struct symtab_answer one;
        search(&i, &one, &addresses[k], 1);
        ck_assert_str_eq(name_of(&i, &one), want[k].name);
        ck_assert_uint_eq(one.start, want[k].start);
        ck_assert_uint_eq(one.end, want[k].end);
    }
}

/* clang's basic blocks in sections of their own, as Propeller lays them out; a mark has no size. */
UNIT(parts_of_functions_are_code_and_marks_are_none)
{
    struct image i = make();
    struct symtab_answer answers[2];
    i.symbol[3] = (Elf64_Sym)SYM(INNER, 0x500, 0x40, STB_LOCAL, STT_NOTYPE);
    i.symbol[1] = (Elf64_Sym)SYM(ASM_B, 0x520, 0, STB_LOCAL, STT_NOTYPE);
    search(&i, answers, (uint64_t[]){0x500, 0x530}, 2);
    ck_assert_str_eq(name_of(&i, &answers[0]), "inner");
    ck_assert_str_eq(name_of(&i, &answers[1]), "inner");
    ck_assert_uint_eq(answers[1].start, 0x500);
    ck_assert_uint_eq(answers[1].end, 0x540);
}

/* glibc has most of its functions by several names; the first of each row is what programs say. */
UNIT(of_aliases_the_one_that_programmers_write)
{
    static const struct {
        const char *name[3];
        uint32_t bind[3];
    } rows[] = {
        {{"nanosleep", "__nanosleep", "__GI___nanosleep"}, {STB_WEAK, STB_GLOBAL, STB_LOCAL}},
        {{"puts", "_IO_puts", "_IO_puts"}, {STB_WEAK, STB_GLOBAL, STB_GLOBAL}},
        {{"pread", "pread64", "__libc_pread"}, {STB_WEAK, STB_WEAK, STB_GLOBAL}},
        {{"memcmp", "bcmp", "__memcmp"}, {STB_GLOBAL, STB_WEAK, STB_LOCAL}},
        {{"_Exit", "_Exit_of_somebody", "local"}, {STB_WEAK, STB_WEAK, STB_LOCAL}},
    };
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
        for (int turn = 0; turn < 3; turn++) { /* in any order */
            struct image i = {{{0}}, ""};
            struct symtab_answer a;
            for (int k = 0, at = 1; k < 3; k++) {
                int from = (k + turn) % 3;
                i.symbol[1 + k] = (Elf64_Sym)SYM((uint32_t)at, 0x100, 16, rows[r].bind[from], STT_FUNC);
                at += sprintf(i.names + at, "%s", rows[r].name[from]) + 1;
            }
            search(&i, &a, (uint64_t[]){0x104}, 1);
            ck_assert_str_eq(name_of(&i, &a), rows[r].name[0]);
        }
}

UNIT(names_outside_the_string_table_and_wrapping_sizes_are_ignored)
{
    struct image i = make();
    struct symtab_answer a;
    i.symbol[2].st_name = 4000;
    i.symbol[4].st_size = UINT64_MAX;
    search(&i, &a, (uint64_t[]){0x110}, 1);
    ck_assert_uint_eq(a.name_at, 0);
}

UNIT(a_table_longer_than_the_file_gives_what_is_there)
{
    struct image i = make();
    struct source s = source_memory(bytes_of(&i, sizeof i));
    struct elf_section symbols = {.offset = 0, .size = 1u << 30}, strings = {.size = 100};
    struct symtab_answer a;
    ck_assert_int_lt(search_in(&s, &symbols, &strings, &a, (uint64_t[]){0x110}, 1), 0);
}

/* The test's own executable, its own function. */
__attribute__((noinline)) static int a_function_to_be_found(int x)
{
    __asm__ volatile("" : "+r"(x));
    return x + 1;
}

extern const char __executable_start[];

UNIT(this_program_names_its_own_function)
{
    struct elf elf;
    struct source s;
    autoclose int fd = open("/proc/self/exe", O_RDONLY);
    ck_assert_int_eq(source_file(&s, fd), 0);
    ck_assert_int_eq(elf_read(&elf, &s), 0);
    ck_assert_uint_gt(elf.symbols.size, 0);
    uint64_t address =
        (uint64_t)((const char *)a_function_to_be_found - __executable_start) + 1; /* PIE: base 0 */
    struct symtab_answer a;
    char name[64];
    ck_assert_int_eq(search_in(&s, &elf.symbols, &elf.symbol_names, &a, &address, 1), 0);
    ck_assert_uint_gt(source_string(&s, a.name_at, name, sizeof name), 0);
    ck_assert_str_eq(name, "a_function_to_be_found");
    ck_assert_int_eq(a_function_to_be_found(1), 2);
}

/* All over this program's own code, and beside it: every address, and few that are far apart. */
UNIT(an_index_of_a_real_table_changes_no_answer)
{
    struct elf elf;
    struct source s;
    struct symtab_answer answers[64];
    uint64_t addresses[64];
    autoclose int fd = open("/proc/self/exe", O_RDONLY);
    ck_assert_int_eq(source_file(&s, fd), 0);
    ck_assert_int_eq(elf_read(&elf, &s), 0);
    uint64_t end = elf.text.address + elf.text.size + 0x3000;
    for (uint64_t step = 7; step <= 0x10000; step *= 17)
        for (uint64_t at = elf.text.address - 0x2000; at < end; at += 64 * step) {
            for (uint32_t i = 0; i < 64; i++)
                addresses[i] = at + i * step;
            ck_assert_int_eq(search_in(&s, &elf.symbols, &elf.symbol_names, answers, addresses, 64), 0);
        }
}

/* What lies: a symbol over all memory, a table that shrinks, one of more entries than there may be. */
UNIT(an_index_is_not_made_of_what_is_too_much)
{
    struct image i = make();
    struct source s = source_memory(bytes_of(&i, sizeof i));
    struct elf_section symbols = {.offset = 0, .size = sizeof i.symbol};
    struct symtab_index index = {0};
    i.symbol[2].st_size = UINT64_MAX / 2;
    ck_assert(!symtab_index_make(&index, &s, &symbols) && index.is_tried);
    ck_assert_uint_eq(symtab_index_memory(&index), 0);
    ck_assert(!symtab_index_make(&index, &s, &symbols));
    symtab_index_release(&index);
    i = make();
    ck_assert(symtab_index_make(&index, &s, &symbols));
    ck_assert_uint_gt(symtab_index_memory(&index), 0);
    struct symtab_answer a;
    symtab_begin(&a, (uint64_t[]){0x110}, 1);
    symbols.size = 3 * sizeof *i.symbol;
    struct elf_section strings = {.offset = offsetof(struct image, names), .size = sizeof i.names};
    ck_assert_int_eq(symtab_search(&s, &symbols, &strings, &index, &a, 1), 0);
    ck_assert_str_eq(name_of(&i, &a), "outer");
    symtab_index_release(&index);
}

/* A table of many parts, in no order, over more memory than what is looked at closely is told apart in. Of
 * seven functions one is longer than the others are apart, one is assembly. */
#define MANY 3500u
#define STEP 40000u

static uint64_t many_start(uint32_t i)
{
    return 0x10000 + (uint64_t)i * STEP;
}

static uint64_t many_size(uint32_t i)
{
    return i % 7 == 3 ? 0 : i % 7 == 5 ? STEP - 1000 : 100 + i % 50;
}

static uint64_t many_end(uint32_t i)
{
    return many_size(i) ? many_start(i) + many_size(i) : many_start(i + 1);
}

UNIT(of_a_large_table_without_order_each_address_has_the_nearest_edges)
{
    static Elf64_Sym symbol[MANY];
    static char text[MANY + 1];
    static struct symtab_answer answer[90];
    uint64_t address[90];
    for (uint32_t i = 0; i < MANY; i++) {
        uint32_t type = many_size(i) ? STT_FUNC : STT_NOTYPE;
        symbol[i * 1231u % MANY] = (Elf64_Sym)SYM(i + 1, many_start(i), many_size(i), STB_GLOBAL, type);
    }
    static uint8_t all[sizeof symbol + sizeof text];
    memcpy(all, symbol, sizeof symbol);
    struct source s = source_memory(bytes_of(all, sizeof all));
    struct elf_section symbols = {.offset = 0, .size = sizeof symbol},
                       strings = {.offset = sizeof symbol, .size = sizeof text};
    static const uint32_t in_step[] = {50, STEP / 2, STEP - 500};
    for (uint32_t n = 1; n <= 90; n += 89 / 2) {
        uint32_t of[90];
        for (uint32_t i = 0; i < n; i++) { /* inside, and in the gap behind */
            of[i] = 11 + i * 37 + n;
            address[i] = many_start(of[i]) + in_step[i % 3];
        }
        ck_assert_int_eq(search_in(&s, &symbols, &strings, answer, address, n), 0);
        for (uint32_t i = 0; i < n; i++) {
            bool is_in = address[i] < many_end(of[i]);
            ck_assert_uint_eq(answer[i].name_at, is_in ? sizeof symbol + of[i] + 1 : 0);
            ck_assert_uint_eq(answer[i].start, is_in ? many_start(of[i]) : many_end(of[i]));
            ck_assert_uint_eq(answer[i].end, is_in ? many_end(of[i]) : many_start(of[i] + 1));
        }
    }
}

UNIT(a_long_function_that_others_are_in_is_found_behind_them)
{
    static Elf64_Sym symbol[1200]; /* more than are read at a time */
    static uint8_t all[sizeof symbol + 64];
    const uint32_t last = ARRAY_LEN(symbol) - 1;
    for (uint32_t i = 0; i < last; i++) /* elsewhere */
        symbol[i] = (Elf64_Sym)SYM(ALIAS, 0x10000000 + 64 * i, 64, STB_LOCAL, STT_FUNC);
    symbol[0] = (Elf64_Sym)SYM(INNER, 0x540000, 0x100, STB_LOCAL, STT_FUNC);
    symbol[1] = (Elf64_Sym)SYM(INNER, 0x540200, 0x100, STB_LOCAL, STT_FUNC);
    symbol[last] = (Elf64_Sym)SYM(OUTER, 0x500000, 0x80000, STB_LOCAL, STT_FUNC);
    memcpy(all, symbol, sizeof symbol);
    memcpy(all + sizeof symbol, names, sizeof names);
    struct source s = source_memory(bytes_of(all, sizeof all));
    struct elf_section symbols = {.offset = 0, .size = sizeof symbol},
                       strings = {.offset = sizeof symbol, .size = 64};
    struct symtab_answer answer;
    uint64_t address = 0x540180;
    ck_assert_int_eq(search_in(&s, &symbols, &strings, &answer, &address, 1), 0);
    ck_assert_uint_eq(answer.name_at, sizeof symbol + OUTER);
    ck_assert_uint_eq(answer.start, 0x540100);
    ck_assert_uint_eq(answer.end, 0x540200);
}
