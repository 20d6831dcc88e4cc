/* SPDX-License-Identifier: Apache-2.0 */
/* needs: sender/symbolize */
/* What dwz -m took out of several files: names and inlined calls through the alternate file. */
#include "tests/unit/sender/symbolize/built.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "proto/base/macros.h"
#include "sender/symbolize/binaries.h"
#include "sender/symbolize/elf/debugfile.h"

#define FUNCTIONS 30

/* Two programs with one header: its types and functions are what dwz finds in both. */
static void write_programs(const struct built *b)
{
    static const char *const names[] = {"one", "two"};
    char path[256];
    snprintf(path, sizeof path, "%s/shared.h", b->folder);
    FILE *f = fopen(path, "w");
    for (int i = 0; f && i < FUNCTIONS; i++)
        fprintf(f,
                "namespace outer { namespace n%d { struct pair { long a, b; long c[%d];\n"
                "inline __attribute__((always_inline)) long sum() const { return a ^ (b * %d); } };\n"
                "static inline __attribute__((always_inline)) long leaf(const pair &p, long x)\n"
                "{\n    long s = x;\n    for (long i = 0; i < p.b; i++)\n"
                "        s = s * %d ^ (s >> 7) ^ p.sum();\n    return s;\n}}}\n",
                i, i + 1, i + 3, 31 + 2 * i);
    ck_assert(f && fclose(f) == 0);
    for (int p = 0; p < 2; p++) {
        snprintf(path, sizeof path, "%s/%s.cc", b->folder, names[p]);
        f = fopen(path, "w");
        ck_assert_ptr_nonnull(f);
        fputs("#include \"shared.h\"\n", f);
        for (int i = 0; i < FUNCTIONS; i++)
            fprintf(
                f,
                "__attribute__((noinline)) long %s_work%d(long n)\n{\n"
                "    outer::n%d::pair p = {n, n + %d, {n}};\n    return outer::n%d::leaf(p, n) + p.c[0];\n}\n",
                names[p], i, i, p, i);
        fputs("int main(int argc, char **argv)\n{\n    long s = 0;\n", f);
        for (int i = 0; i < FUNCTIONS; i++)
            fprintf(f, "    s += %s_work%d(argc);\n", names[p], i);
        fputs("    return s & 1;\n}\n", f);
        fclose(f);
    }
}

/* Every answer about a program's code, as text (malloc'd). */
static char *all_answers(const struct built *b, const char *program, uint32_t *ret_named)
{
    char path[256], *text = NULL;
    size_t size;
    struct stat st;
    struct binaries *names = unit_made(binaries_new());
    snprintf(path, sizeof path, "%s/%s", b->folder, program);
    ck_assert_int_eq(stat(path, &st), 0);
    uint32_t number =
        built_add(names, (struct binary_key){.inode = st.st_ino}, program, built_open(b, program), NULL);
    ck_assert_uint_ne(number, 0);
    binaries_met(names, number, 0, path);
    struct elf_section code = binaries_get(names, number)->elf.text;
    for (uint64_t at = code.address; at < code.address + code.size; at++)
        ck_assert(!binaries_want(names, number, at, 1));
    binaries_resolve(names);
    FILE *f = open_memstream(&text, &size);
    ck_assert_ptr_nonnull(f);
    *ret_named = 0;
    for (uint64_t at = code.address; at < code.address + code.size; at++) {
        struct binary_name name = binaries_name(names, number, at);
        fprintf(f, "%lx", (unsigned long)at);
        for (uint32_t i = 0; i < name.n_lines; i++) {
            struct binary_line line = binaries_line(names, &name, i);
            fprintf(f, " < %.*s %.*s:%u from %u", BYTES_FMT(line.name), BYTES_FMT(line.file), line.line,
                    line.start_line);
            *ret_named +=
                bytes_is(line.name, "outer::n7::leaf") || bytes_is(line.name, "outer::n7::pair::sum() const");
        }
        fputc('\n', f);
    }
    fclose(f);
    binaries_free(names);
    return text;
}

static int open_alt(const struct built *b, const char *program)
{
    struct source s;
    struct elf elf;
    autoclose int fd = built_open(b, program);
    ck_assert_int_eq(source_file(&s, fd), 0);
    ck_assert_int_eq(elf_read(&elf, &s), 0);
    ck_assert(elf.debug_alt.size || elf.debug_sup.size);
    return debugfile_open_alt("/", fd, &s, &elf);
}

/* Builds both, runs dwz and compares all answers with those before; `name` is what dwz writes as the path. */
static void check_dwz(const char *flags, const char *dwz, const char *name)
{
    uint32_t before_n, after_n, lost_n;
    built_need("dwz");
    built_need("g++");
    cleanup(built_free) struct built b = built_new();
    write_programs(&b);
    for (int p = 0; p < 2; p++)
        ck_assert_int_eq(built_run(&b, "g++ -O2 -g %s -ffile-prefix-map=$PWD=/src %s.cc -o %s", flags,
                                   p ? "two" : "one", p ? "two" : "one"),
                         0);
    autofree char *before = all_answers(&b, "one", &before_n);
    ck_assert_uint_gt(before_n, 10);
    ck_assert_int_eq(built_run(&b, "dwz %s -m common.debug -M %s one two", dwz, name), 0);
    int alt = open_alt(&b, "one");
    ck_assert_int_ge(alt, 0);
    close(alt);
    autofree char *after = all_answers(&b, "one", &after_n);
    ck_assert_uint_eq(after_n, before_n);
    ck_assert_str_eq(after, before);
    /* Another file in its place is not taken: what was in it is missing, and nothing is wrong. */
    ck_assert_int_eq(built_run(&b, "cp two common.debug"), 0);
    ck_assert_int_eq(open_alt(&b, "one"), -ENOENT);
    autofree char *lost = all_answers(&b, "one", &lost_n);
    ck_assert_uint_eq(lost_n, 0);
    ck_assert_ptr_nonnull(strstr(lost, "< one_work7(long) "));
}

UNIT(the_alternate_file_of_dwarf_4)
{
    check_dwz("-gdwarf-4", "", "$PWD/common.debug");
}

UNIT(the_alternate_file_of_dwarf_5)
{
    check_dwz("-gdwarf-5", "", "$PWD/common.debug");
}

UNIT(a_supplementary_file_as_dwarf_5_has_it)
{
    check_dwz("-gdwarf-5", "-5", "$PWD/common.debug");
}

UNIT(beside_the_file_that_names_it)
{
    check_dwz("-gdwarf-5", "", "common.debug");
}

/* Links that are not what they should be. */
UNIT(damaged_links_lead_nowhere)
{
    static const struct {
        const char *bytes;
        size_t n;
        bool is_sup;
    } bad[] = {
        {"", 0, false},
        {"/x", 2, false},               /* no NUL */
        {"/x\0", 3, false},             /* no build id */
        {"/x\0a", 4, false},            /* one byte of it */
        {"\0abcdefgh", 9, false},       /* no name */
        {"\5\0", 2, true},              /* cut */
        {"\5\0\0/x\0", 6, true},        /* no length */
        {"\5\0\0/x\0\4abc", 10, true},  /* too long a one */
        {"\4\0\0/x\0\4abcd", 11, true}, /* another version */
        {"\5\0\1/x\0\4abcd", 11, true}, /* it is one itself */
        {"\5\0\0/x\0\xff"
         "abcdefgh",
         15, true},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct elf elf = {.n_segments = 0};
        struct source s = source_memory(bytes_of(bad[i].bytes, bad[i].n));
        struct elf_section all = {.size = bad[i].n};
        *(bad[i].is_sup ? &elf.debug_sup : &elf.debug_alt) = all;
        ck_assert_msg(debugfile_open_alt("/", -1, &s, &elf) == -ENOENT, "link %zu", i);
    }
}
