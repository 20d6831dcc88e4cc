/* SPDX-License-Identifier: Apache-2.0 */
/* What is kept of files between windows, and what a second look at one costs and says. */
#include "tests/unit/sender/symbolize/built.h"

#include <string.h>
#include <sys/stat.h>

#include "proto/base/bytes.h"
#include "sender/symbolize/dwarf/dwarf.h"
#include "sender/symbolize/cache/kept.h"

#define WORK          (1ll << 30)
#define ADDRESSES_MAX 40000u

/* Texts by address, from the begin of .text on. */
static char *said[2][ADDRESSES_MAX];

struct asking {
    uint64_t text;
    char **said;
};

static void on_piece(void *user, const struct dwarf_piece *p)
{
    const struct asking *a = user;
    char text[4096];
    size_t n = 0;
    for (uint32_t i = 0; i < p->n_frames; i++) {
        const struct dwarf_frame *x = &p->frame[i];
        struct bytes name = x->linkage.n ? x->linkage : x->name;
        n += (size_t)snprintf(text + n, sizeof text - n, "%.*s %.*s:%u from %u\n", BYTES_FMT(name),
                              BYTES_FMT(x->file), x->line, x->start_line);
        ck_assert_uint_lt(n, sizeof text);
    }
    for (uint64_t at = p->start; at < p->end && at - a->text < ADDRESSES_MAX; at++) {
        free(a->said[at - a->text]);
        a->said[at - a->text] = unit_made(strdup(text));
    }
}

/* Asks for every `step`th address, `at_once` of them at a time. The work it took. */
static int64_t ask(const struct source *s, const struct elf *elf, struct dwarf_keep *keep, uint32_t step,
                   uint32_t at_once, char **to)
{
    struct asking a = {elf->text.address, to};
    struct dwarf_query query[512];
    int64_t all = 0;
    for (uint64_t from = 0; from < elf->text.size && from < ADDRESSES_MAX;) {
        cleanup(dwarf_file_close) struct dwarf_file f;
        uint32_t n = 0;
        for (; n < at_once && from < elf->text.size && from < ADDRESSES_MAX; n++, from += step)
            query[n] = (struct dwarf_query){.address = a.text + from, .end = UINT64_MAX};
        ck_assert_int_eq(dwarf_file_open(&f, s, elf, keep, WORK, 0), 0);
        ck_assert_int_eq(dwarf_find(&f, query, n, on_piece, &a), 0);
        all += WORK - f.work;
    }
    return all;
}

static void forget_texts(void)
{
    for (uint32_t i = 0; i < ADDRESSES_MAX; i++)
        for (int k = 0; k < 2; k++) {
            free(said[k][i]);
            said[k][i] = NULL;
        }
}

/* A unit with some hundred functions: in namespaces, static ones without mangled names, inlined into each
 * other.
 */
static void write_program(const struct built *b)
{
    char path[256];
    snprintf(path, sizeof path, "%s/program.cc", b->folder);
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    for (int i = 0; i < 110; i++)
        fprintf(
            f,
            "namespace outer { namespace n%d { struct pair { long a, b; long sum() const { return a ^ b; } };\n"
            "static inline __attribute__((always_inline)) long leaf(long x)\n"
            "{\n    return x * %d ^ (x >> 7);\n}\n"
            "__attribute__((noinline)) static long apart(const pair &p)\n"
            "{\n    long s = 0;\n    for (long i = 0; i < p.b; i++)\n        s ^= leaf(i + s);\n"
            "    return s + p.sum();\n}\n"
            "__attribute__((noinline)) long work(long n)\n"
            "{\n    pair p = {n, n + 1};\n    return leaf(n) + apart(p);\n}\n}}\n",
            i, 31 + 2 * i);
    fputs("int main(int argc, char **argv)\n{\n    long s = 0;\n", f);
    for (int i = 0; i < 110; i++)
        fprintf(f, "    s += outer::n%d::work(argc);\n", i);
    fputs("    return s & 1;\n}\n", f);
    fclose(f);
}

/* `times`: how much less than the first look. Packed sections as small as these have no marks. */
static void check_second_look(const char *compiler, const char *flags, double times)
{
    struct source s;
    struct elf elf;
    cleanup(kept_release) struct kept kept = {0};
    built_need(compiler);
    cleanup(built_free) struct built b = built_new();
    write_program(&b);
    ck_assert_int_eq(built_run(&b, "%s %s $PWD/program.cc -o program", compiler, flags), 0);
    built_read(&b, "program", &s, &elf);
    struct dwarf_keep *keep = &unit_made(kept_of(&kept, s.fd))->dwarf;
    int64_t first = ask(&s, &elf, NULL, 997, 1, said[0]);
    (void)ask(&s, &elf, keep, 4096, 1, said[1]); /* a few: what it learns on the way is kept */
    ck_assert_uint_gt(keep->indexes.n, 0);
    size_t memory = kept_memory(&kept);
    int64_t second = ask(&s, &elf, keep, 997, 1, said[1]);
    forget_texts();
    uint32_t at_once = 512 / unit_rounds(8); /* each time from the beginning of its unit */
    (void)ask(&s, &elf, NULL, 1, at_once, said[0]);
    (void)ask(&s, &elf, &kept_of(&kept, s.fd)->dwarf, 1, at_once, said[1]);
    uint32_t known = 0, inlined = 0, spaced = 0;
    for (uint32_t i = 0; i < elf.text.size && i < ADDRESSES_MAX; i++) {
        const char *one = said[0][i] ? said[0][i] : "", *other = said[1][i] ? said[1][i] : "";
        ck_assert_msg(strcmp(one, other) == 0, "+0x%x: first %s then %s", i, one, other);
        known += *one != 0;
        inlined += strchr(one, '\n') != strrchr(one, '\n');
        spaced += strstr(one, "outer::n7::leaf ") != NULL || strstr(one, "_ZN5outer2n7L4leafEl ") != NULL;
    }
    ck_assert_uint_gt(known, 3000);
    ck_assert_uint_gt(inlined, 500);
    ck_assert_uint_gt(spaced, 10);
    ck_assert_double_lt((double)second * times, (double)first);
    ck_assert_uint_lt(memory, 200000);
    forget_texts();
}

UNIT(a_second_look_costs_less_and_says_the_same)
{
    check_second_look("g++", "-O2 -g", 3);
}

UNIT(and_in_packed_sections)
{
    check_second_look("g++", "-O2 -g -gz=zlib", 1.4);
}

UNIT(and_with_a_section_for_each_function)
{
    check_second_look("g++", "-O2 -g -ffunction-sections", 3);
}

UNIT(and_as_clang_writes_it)
{
    check_second_look("clang++", "-O2 -g -gz=zlib -ffunction-sections", 1.2);
}

UNIT(and_as_clang_wrote_it_before)
{
    check_second_look("clang++", "-O2 -gdwarf-4", 3);
}

UNIT(what_was_not_used_for_longest_leaves)
{
    cleanup(kept_release) struct kept kept = {0};
    cleanup(built_free) struct built b = built_new();
    built_text(&b, "one", "1");
    built_text(&b, "two", "2");
    autoclose int one = built_open(&b, "one"), two = built_open(&b, "two");
    struct keep *first = unit_made(kept_of(&kept, one));
    first->dwarf.units.n = 7; /* to know it again */
    ck_assert_uint_eq(unit_made(kept_of(&kept, two))->dwarf.units.n, 0);
    ck_assert_ptr_eq(kept_of(&kept, one), first);
    ck_assert_uint_eq(kept.n, 2);
    kept_sweep(&kept, kept_memory(&kept));
    ck_assert_uint_eq(kept.n, 2);
    kept_sweep(&kept, kept_memory(&kept) - 1);
    ck_assert_uint_eq(kept.n, 1);
    ck_assert_ptr_eq(kept_of(&kept, one), first);
    built_text(&b, "one", "another"); /* it has changed: what was known of it is worth nothing */
    ck_assert_uint_eq(unit_made(kept_of(&kept, one))->dwarf.units.n, 0);
    char name[16];
    for (uint32_t i = 0; i < KEPT_FILES_MAX; i++) {
        snprintf(name, sizeof name, "f%u", i);
        built_text(&b, name, name);
        autoclose int fd = built_open(&b, name);
        (void)kept_of(&kept, fd);
    }
    ck_assert_uint_eq(kept.n, KEPT_FILES_MAX);
    kept_sweep(&kept, 0);
    ck_assert_uint_eq(kept.n, 0);
}
