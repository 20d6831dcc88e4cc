/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/sender/symbolize/built.h"

#include <errno.h>
#include <string.h>

#include "sender/symbolize/dwarf/dwarf.h"

#define ADDRESSES_MAX 20000u
#define PIECES_MAX    20000u
#define WORK          (1ll << 30)

/* Pieces as text: "function\nfile:line\n" for each level, as addr2line prints them. */
struct piece {
    uint64_t start, end;
    char *text;
};

static struct piece piece[PIECES_MAX];
static uint32_t n_pieces;
static struct dwarf_query query[ADDRESSES_MAX];

static void on_piece(void *user, const struct dwarf_piece *p)
{
    size_t size;
    struct piece *to = &piece[n_pieces++];
    ck_assert_uint_lt(n_pieces, PIECES_MAX);
    ck_assert_uint_lt(p->start, p->end);
    *to = (struct piece){.start = p->start, .end = p->end};
    FILE *f = open_memstream(&to->text, &size);
    for (uint32_t i = 0; i < p->n_frames; i++) {
        const struct dwarf_frame *x = &p->frame[i];
        struct bytes name = x->linkage.n ? x->linkage : x->name;
        name = name.n ? name : BYTES_LIT("??");
        fprintf(f, "%.*s\n%.*s:%u\n", BYTES_FMT(name), BYTES_FMT(x->file.n ? x->file : BYTES_LIT("??")),
                x->line);
    }
    fclose(f);
}

static const char *piece_of(uint64_t address)
{
    const char *found = NULL;
    for (uint32_t i = 0; i < n_pieces; i++) {
        if (address < piece[i].start || address >= piece[i].end)
            continue;
        ck_assert_msg(!found, "two answers for 0x%lx", (unsigned long)address);
        found = piece[i].text;
    }
    return found;
}

/* Asks for every `step`th address of the program's text. */
static uint32_t ask(const struct source *s, const struct elf *elf, uint32_t step, int64_t work, int *ret)
{
    cleanup(dwarf_file_close) struct dwarf_file file;
    uint32_t n = 0;
    n_pieces = 0;
    ck_assert_int_eq(dwarf_file_open(&file, s, elf, NULL, work, 0), 0);
    for (uint64_t a = elf->text.address; a < elf->text.address + elf->text.size && n < ADDRESSES_MAX;
         a += step)
        query[n++] = (struct dwarf_query){.address = a, .start = 0, .end = UINT64_MAX};
    *ret = dwarf_find(&file, query, n, on_piece, NULL);
    return n;
}

/* Reads what a symbolizer says of one address, up to the next; false at the end. */
static bool next_expected(FILE *f, char *text, size_t room)
{
    static char line[4096];
    size_t n = 0;
    *text = 0;
    if (!*line && !fgets(line, sizeof line, f)) /* the first address line */
        return false;
    *line = 0;
    while (fgets(line, sizeof line, f) && strncmp(line, "0x", 2) != 0) {
        /* Symbolizers call the outermost function as its symbol is: of a clone or a part, DWARF says of what.
         */
        line[strcspn(line, "\n")] = 0;
        char *note = strchr(line, '/') ? strstr(line, " (discriminator") : strchr(line, '.');
        n += (size_t)snprintf(text + n, room - n, "%.*s\n", note ? (int)(note - line) : (int)strlen(line),
                              line);
        ck_assert_uint_lt(n, room);
    }
    return n > 0;
}

/* Compares every answer with that of a symbolizer. Addresses outside of the program's own source (start
 * files) are left out. At least a third must be inside. */
static void compare(const struct built *b, const char *symbolizer)
{
    struct source s;
    struct elf elf;
    char expected[16384];
    int r;
    built_read(b, "program", &s, &elf);
    uint32_t n = ask(&s, &elf, 1, WORK, &r), compared = 0;
    ck_assert_int_eq(r, 0);
    char path[256];
    snprintf(path, sizeof path, "%s/addresses", b->folder);
    FILE *f = fopen(path, "w");
    for (uint64_t a = elf.text.address; a < elf.text.address + n; a++)
        fprintf(f, "0x%lx\n", (unsigned long)a);
    fclose(f);
    ck_assert_int_eq(built_run(b, "%s < addresses > expected", symbolizer), 0);
    snprintf(path, sizeof path, "%s/expected", b->folder);
    f = fopen(path, "r");
    for (uint64_t a = elf.text.address; a < elf.text.address + n; a++) {
        ck_assert(next_expected(f, expected, sizeof expected));
        const char *ours = piece_of(a);
        if (!strstr(expected, "program.c")) {
            ck_assert_msg(!ours || strstr(ours, "??:0"), "0x%lx: ours %s theirs %s", (unsigned long)a, ours,
                          expected);
            continue;
        }
        ck_assert_msg(ours != NULL, "0x%lx: none; theirs %s", (unsigned long)a, expected);
        /* Padding behind a function is no part of it, but addr2line counts it to the symbol before. */
        const char *rest = strchr(expected, '\n');
        bool same =
            strcmp(ours, expected) == 0 || (strncmp(ours, "??\n", 3) == 0 && strcmp(ours + 2, rest) == 0);
        ck_assert_msg(same, "0x%lx: ours\n%stheirs\n%s", (unsigned long)a, ours, expected);
        compared++;
    }
    fclose(f);
    ck_assert_uint_gt(compared, n / 3);
    for (uint32_t i = 0; i < n_pieces; i++)
        free(piece[i].text);
}

#define LLVM "llvm-symbolizer --obj=program --output-style=GNU --no-demangle -a -i -f"

/* The same program by every producer; "program.c" is named by its whole path, so that no folder is guessed.
 */
static void compare_built(const char *compiler, const char *flags, const char *symbolizer, const char *tool)
{
    built_need(tool);
    built_need(compiler);
    cleanup(built_free) struct built b = built_new();
    built_text(&b, "program.c", built_program);
    ck_assert_int_eq(built_run(&b, "%s %s $PWD/program.c -o program", compiler, flags), 0);
    compare(&b, symbolizer);
}

UNIT(gcc_dwarf_4_is_read_as_addr2line_does)
{
    compare_built("gcc", "-O2 -gdwarf-4", "addr2line -a -i -f -e program", "addr2line");
}

UNIT(gcc_dwarf_5_is_read_as_llvm_does)
{
    compare_built("gcc", "-O2 -gdwarf-5", LLVM, "llvm-symbolizer");
}

UNIT(gcc_without_optimisation)
{
    compare_built("gcc", "-O0 -gdwarf-5", LLVM, "llvm-symbolizer");
}

UNIT(gcc_dwarf_3)
{
    compare_built("gcc", "-O3 -gdwarf-3 -gstrict-dwarf", LLVM, "llvm-symbolizer");
}

UNIT(a_section_for_each_function)
{
    compare_built("gcc", "-O2 -gdwarf-5 -ffunction-sections", LLVM, "llvm-symbolizer");
}

UNIT(compressed_sections)
{
    compare_built("gcc", "-O2 -gdwarf-5 -gz=zlib", LLVM, "llvm-symbolizer");
}

UNIT(link_time_optimisation)
{
    compare_built("gcc", "-O2 -g -flto", LLVM, "llvm-symbolizer");
}

UNIT(clang_dwarf_5_with_its_address_tables)
{
    compare_built("clang", "-O2 -gdwarf-5", LLVM, "llvm-symbolizer");
}

UNIT(clang_dwarf_4_without_aranges)
{
    compare_built("clang", "-O2 -gdwarf-4", LLVM, "llvm-symbolizer");
}

UNIT(clang_sixty_four_bit_dwarf)
{
    compare_built("clang", "-O2 -gdwarf-5 -gdwarf64", LLVM, "llvm-symbolizer");
}

/* What is said of a function that comes behind an enumeration with these children, of which is said that they
 * end there. */
static void ask_behind(const char *children, const char *sibling)
{
    static const char text[] =
        ".text\nbehind: .fill 16, 1, 0x90\n"
        ".section .debug_abbrev,\"\",@progbits\n"
        ".byte 1, 0x11, 1, 0x11, 1, 0x12, 7, 0, 0\n"      /* unit: low_pc, high_pc */
        ".byte 2, 0x04, 1, 0x0b, 0xb, 1, 0x13, 0, 0\n"    /* enumeration_type: byte_size, sibling */
        ".byte 3, 0x28, 0, 0x1c, 0xb, 0x49, 0x13, 0, 0\n" /* enumerator: const_value, type */
        ".byte 4, 0x2e, 0, 3, 8, 0x11, 1, 0x12, 7, 0, 0\n.byte 0\n"
        ".section .debug_info,\"\",@progbits\n"
        "0: .long 9f - 1f\n1: .value 4\n.long 0\n.byte 8\n.byte 1\n.quad behind, 16\n"
        ".byte 2, 4\n.long %s\n%s\n"
        "8: .byte 4\n.asciz \"behind\"\n.quad behind, 16\n.byte 0\n9:\n";
    char program[sizeof text + 100];
    struct source s;
    struct elf elf;
    int r;
    built_need("gcc");
    cleanup(built_free) struct built b = built_new();
    snprintf(program, sizeof program, text, sibling, children);
    built_text(&b, "program.s", program);
    ck_assert_int_eq(built_run(&b, "gcc -nostdlib -shared program.s -o program"), 0);
    built_read(&b, "program", &s, &elf);
    (void)ask(&s, &elf, 1, WORK, &r);
    ck_assert_int_eq(r, 0);
    ck_assert_uint_eq(n_pieces, 1);
    ck_assert_str_eq(piece[0].text, "behind\n??:0\n");
    ck_assert_uint_eq(piece[0].end - piece[0].start, 16);
    free(piece[0].text);
}

UNIT(what_no_function_is_in_is_passed_over)
{
    ask_behind(".byte 77, 77, 77", "8f - 0b"); /* no such entry: nobody looks */
}

UNIT(a_way_past_children_that_leads_nowhere_is_not_taken)
{
    static const char children[] = ".byte 3, 5\n.long 0\n.byte 0";
    ask_behind(children, "0");
    ask_behind(children, "1");
    ask_behind(children, "9f - 0b");
    ask_behind(children, "0xffffffff");
}

UNIT(what_runs_out_of_work_says_so)
{
    struct source s;
    struct elf elf;
    cleanup(built_free) struct built b = built_new();
    int r;
    built_text(&b, "program.c", built_program);
    ck_assert_int_eq(built_run(&b, "gcc -O2 -g program.c -o program"), 0);
    built_read(&b, "program", &s, &elf);
    ask(&s, &elf, 1, 0, &r);
    ck_assert_uint_eq(n_pieces, 0);
    (void)ask(&s, &elf, 1, 200, &r); /* enough to find the unit, not to read it */
    ck_assert_uint_eq(n_pieces, 0);
    (void)ask(&s, &elf, 1, WORK, &r);
    ck_assert_int_eq(r, 0);
    ck_assert_uint_gt(n_pieces, 10);
    for (uint32_t i = 0; i < n_pieces; i++)
        free(piece[i].text);
}

UNIT(a_file_without_dwarf_has_none)
{
    struct source s;
    struct elf elf;
    struct dwarf_file file;
    cleanup(built_free) struct built b = built_new();
    built_text(&b, "program.c", built_program);
    ck_assert_int_eq(built_run(&b, "gcc -O2 program.c -o program"), 0);
    built_read(&b, "program", &s, &elf);
    ck_assert_int_eq(dwarf_file_open(&file, &s, &elf, NULL, WORK, 0), -ENOENT);
}
