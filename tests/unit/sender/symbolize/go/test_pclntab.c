/* SPDX-License-Identifier: Apache-2.0 */
/* The tables are tests/fuzz/corpus/pclntab: two functions, main.main at 0x401000 (lines 10 and 11) and
 * main.work at 0x401040 (line 30), in every layout. */
#include "tests/lib/unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sender/symbolize/go/pclntab.h"

struct table {
    uint8_t bytes[4096];
    size_t n;
};

static struct table load(const char *name)
{
    struct table t = {0};
    char path[512];
    snprintf(path, sizeof path, PG_SOURCE_DIR "/tests/fuzz/corpus/pclntab/%s", name);
    FILE *f = fopen(path, "rb");
    ck_assert_ptr_nonnull(f);
    t.n = fread(t.bytes, 1, sizeof t.bytes, f);
    ck_assert_uint_gt(t.n, 0);
    fclose(f);
    return t;
}

static int open_table(const struct table *t, struct pclntab *ret)
{
    struct source s = source_memory(bytes_of(t->bytes, t->n));
    struct elf elf = {.go_lines = {.size = t->n}, .text = {.address = 0x401000, .size = 0x60}};
    return pclntab_open(ret, &s, &elf);
}

static void check(const struct pclntab *t, uint64_t address, const char *name, const char *file,
                  uint32_t line, uint64_t start, uint64_t end)
{
    static struct pclntab_chain c;
    ck_assert_int_eq(pclntab_chain(t, address, &c), 0);
    ck_assert_uint_eq(c.n, 1);
    ck_assert_str_eq(c.frame[0].name, name);
    ck_assert_str_eq(c.frame[0].file, file);
    ck_assert_uint_eq(c.frame[0].line, line);
    ck_assert_uint_eq(c.start, start);
    ck_assert_uint_eq(c.end, end);
}

UNIT(every_layout_gives_name_file_line_and_range)
{
    static const char *const layout[] = {"go12", "go116", "go118", "go120"};
    for (size_t i = 0; i < sizeof layout / sizeof *layout; i++) {
        struct table bytes = load(layout[i]);
        struct pclntab t;
        static struct pclntab_chain c;
        ck_assert_int_eq(open_table(&bytes, &t), 0);
        check(&t, 0x401000, "main.main", "/src/main.go", 10, 0x401000, 0x401010);
        check(&t, 0x40100f, "main.main", "/src/main.go", 10, 0x401000, 0x401010);
        check(&t, 0x401010, "main.main", "/src/main.go", 11, 0x401010, 0x401040);
        check(&t, 0x40105f, "main.work", "/src/work.go", 30, 0x401040, 0x401060);
        ck_assert_int_eq(pclntab_chain(&t, 0x400fff, &c), -ENOENT);
        ck_assert_int_eq(pclntab_chain(&t, 0x401060, &c), -ENOENT);
        ck_assert_int_eq(pclntab_chain(&t, UINT64_MAX, &c), -ENOENT);
    }
}

UNIT(without_a_text_start_in_the_header_the_section_counts)
{
    struct table bytes = load("go120");
    struct pclntab t;
    memset(bytes.bytes + 24, 0, 8); /* as Go 1.26 writes it */
    ck_assert_int_eq(open_table(&bytes, &t), 0);
    check(&t, 0x401000, "main.main", "/src/main.go", 10, 0x401000, 0x401010);
}

/* As the system's linker leaves it in a position independent program: data, .data.rel.ro. */
UNIT(a_table_without_a_section_is_found_by_who_points_at_it)
{
    static uint8_t image[8192];
    struct table bytes = load("go120");
    const uint64_t fixed = 0x2000, at = 0x120, others[] = {1, fixed, fixed + 8, fixed + 0x10000};
    struct elf elf = {.text = {.address = 0x401000, .size = 0x60},
                      .go_build = {.size = 1},
                      .go_data = {.address = 0x9000, .size = 0x200},
                      .fixed_data = {.address = fixed, .offset = 0x1000, .size = at + bytes.n}};
    const uint64_t table = fixed + at;
    struct source s = source_memory(bytes_of(image, sizeof image));
    struct pclntab t;
    memcpy(image, others, sizeof others);
    memcpy(image + 0x1000 + at, bytes.bytes, bytes.n);
    pclntab_find(&elf, &s);
    ck_assert_uint_eq(elf.go_lines.size, 0); /* nobody points at it */
    memcpy(image + 0x180, &table, sizeof table);
    pclntab_find(&elf, &s);
    ck_assert_uint_eq(elf.go_lines.address, table);
    ck_assert_int_eq(pclntab_open(&t, &s, &elf), 0);
    check(&t, 0x401010, "main.main", "/src/main.go", 11, 0x401010, 0x401040);
    elf.go_lines.size = elf.go_build.size = 0;
    pclntab_find(&elf, &s);
    ck_assert_uint_eq(elf.go_lines.size, 0); /* no Go program's */
}

UNIT(a_cut_table_gives_nothing_false)
{
    struct table bytes = load("go120");
    for (size_t n = 0; n < bytes.n; n++) {
        struct table cut = {.n = n};
        struct pclntab t;
        static struct pclntab_chain c;
        memcpy(cut.bytes, bytes.bytes, n);
        if (open_table(&cut, &t) < 0 || pclntab_chain(&t, 0x401000, &c) < 0)
            continue;
        ck_assert_uint_gt(strlen(c.frame[0].name), 0); /* a found name is (the front of) the right one */
        ck_assert(strncmp("main.main", c.frame[0].name, strlen(c.frame[0].name)) == 0);
    }
}

UNIT(other_magics_are_refused)
{
    struct table bytes = load("go120");
    struct pclntab t;
    bytes.bytes[0] = 0xf2;
    ck_assert_int_eq(open_table(&bytes, &t), -ENOENT);
    bytes = load("go120");
    bytes.bytes[7] = 4; /* 32-bit */
    ck_assert_int_eq(open_table(&bytes, &t), -ENOENT);
}
