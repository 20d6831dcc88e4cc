/* SPDX-License-Identifier: Apache-2.0 */
/* One file's addresses through all its tables: symbols, DWARF, Go's table; what is left when work runs out.
 */
#include "tests/unit/sender/symbolize/built.h"

#include <inttypes.h>
#include <string.h>

#include "proto/base/macros.h"
#include "sender/symbolize/go/pclntab.h"
#include "sender/symbolize/resolve.h"

struct looked_up {
    struct places places;
    struct ranges ranges;
    struct source source;
    struct elf elf;
    struct resolve r;
};

static void begin(struct looked_up *l, const struct built *b, const char *file)
{
    *l = (struct looked_up){0};
    built_read(b, file, &l->source, &l->elf);
    l->r = (struct resolve){
        .source = &l->source, .elf = &l->elf, .places = &l->places, .ranges = &l->ranges, .work = 1 << 30};
}

/* Asks for n addresses, ascending, all alike. */
static void look_up(struct looked_up *l, const uint64_t *address, uint32_t n)
{
    static struct resolve_want want[65536];
    for (uint32_t i = 0; i < n; i++)
        want[i] = (struct resolve_want){address[i], 1};
    resolve_addresses(&l->r, want, n);
}

static void end(struct looked_up *l)
{
    ranges_release(&l->ranges);
    places_release(&l->places);
}

/* "function file:line < caller file:line". */
static const char *text_at(const struct looked_up *l, uint64_t address)
{
    static char text[8192];
    uint32_t n_lines;
    size_t n = 0;
    const struct range *range = ranges_find(&l->ranges, address);
    *text = 0;
    const struct place_line *line = places_get(&l->places, range ? range->place : 0, &n_lines);
    for (uint32_t i = 0; i < n_lines; i++) {
        struct place_function f = places_get_function(&l->places, line[i].function);
        struct bytes name = places_get_text(&l->places, f.name),
                     file = bytes_after_last(places_get_text(&l->places, f.file), '/');
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%.*s", i ? " < " : "", BYTES_FMT(name));
        if (file.n)
            n += (size_t)snprintf(text + n, sizeof text - n, " %.*s:%u", BYTES_FMT(file), line[i].line);
    }
    return range ? text : NULL;
}

static uint32_t whole_text(const struct elf *elf, uint64_t *address, uint32_t max)
{
    uint32_t n = 0;
    for (uint64_t a = elf->text.address; a < elf->text.address + elf->text.size && n < max; a++)
        address[n++] = a;
    return n;
}

static const char cxx[] =
    "namespace app {\n"
    "struct box { int v; int twice(int x) const; };\n"
    "inline __attribute__((always_inline)) int box::twice(int x) const\n"
    "{\n"
    "    int s = 0;\n"
    "    for (int i = 0; i < x; i++) s = s * 3 ^ v;\n"
    "    return s;\n"
    "}\n"
    "static inline __attribute__((always_inline)) int local(const box &b, int x)\n"
    "{\n"
    "    return b.twice(x) + b.twice(x + 1);\n"
    "}\n"
    "__attribute__((noinline)) int work(const box &b, int x) { return local(b, x); }\n"
    "}\n"
    "int main(int argc, char **argv) { app::box b{argc}; return app::work(b, argc); }\n";

UNIT(inlined_calls_of_cxx_with_their_readable_names)
{
    static uint64_t address[65536];
    struct looked_up l;
    built_need("g++");
    cleanup(built_free) struct built b = built_new();
    built_text(&b, "program.cc", cxx);
    ck_assert_int_eq(built_run(&b, "g++ -O2 -g program.cc -o program"), 0);
    begin(&l, &b, "program");
    uint32_t n = whole_text(&l.elf, address, 65536), found = 0;
    look_up(&l, address, n);
    ranges_settle(&l.ranges);
    for (uint32_t i = 0; i < n; i++) {
        const char *text = text_at(&l, address[i]);
        ck_assert_msg(text != NULL, "0x%lx has no answer", (unsigned long)address[i]);
        found += strcmp(text, "app::box::twice(int) const program.cc:6 < app::local program.cc:11 < "
                              "app::work(app::box const&, int) program.cc:13") == 0;
    }
    ck_assert_uint_ge(found, 2);
    end(&l);
}

static const char unnamed[] =
    "#include <stdio.h>\n"
    "#define INLINE __attribute__((always_inline))\n"
    "namespace app {\n"
    "namespace { struct { INLINE long spin(long n) const { long s = 0; for (long i = 0; i < n; i++) s ^= s * 31 + i; "
    "return s; } } nobody; }\n"
    "static auto global = [](long x) INLINE { long s = x; for (long i = 0; i < 99; i++) s ^= s * 33 + i; return s; "
    "};\n"
    "struct shop { long a; long sell(long n); };\n"
    "__attribute__((noinline)) long shop::sell(long n)\n"
    "{\n"
    "    auto price = [this](auto x) INLINE { long s = a; for (long i = 0; i < x; i++) s += s / (i + 1); return s; };\n"
    "    struct local { INLINE long go(long x) { long s = x; for (long i = 0; i < x; i++) s = s * s + 1; return s; } } "
    "l;\n"
    "    return price(n) + nobody.spin(n) + global(n) + l.go(n);\n"
    "}\n"
    "}\n"
    "int main(int argc, char **argv)\n"
    "{\n"
    "    app::shop s{argc};\n"
    "    auto twice = [&](int k) INLINE { long t = 0; for (long i = 0; i < k; i++) t = t * 5 ^ i; return t; };\n"
    "    printf(\"%ld\\n\", s.sell(argc) + twice(argc));\n"
    "}\n";

/* What gcc leaves without a mangled name is called by where it is: a lambda is no anonymous namespace. */
UNIT(lambdas_and_types_without_a_name)
{
    static uint64_t address[65536];
    static const char *const wanted[] = {
        "app::shop::sell(long)::{lambda}::operator()<long int> program.cc:9 < app::shop::sell(long) ",
        "app::(anonymous namespace)::{unnamed type}::spin program.cc:4 < app::shop::sell(long) ",
        "app::{lambda}::operator() program.cc:5 < app::shop::sell(long) ",
        "app::shop::sell(long)::local::go program.cc:10 < app::shop::sell(long) ",
        "main::{lambda}::operator() program.cc:17 < main program.cc:",
    };
    bool found[ARRAY_LEN(wanted)] = {false};
    struct looked_up l;
    built_need("g++");
    cleanup(built_free) struct built b = built_new();
    built_text(&b, "program.cc", unnamed);
    ck_assert_int_eq(built_run(&b, "g++ -std=c++17 -O2 -g program.cc -o program"), 0);
    begin(&l, &b, "program");
    uint32_t n = whole_text(&l.elf, address, 65536);
    look_up(&l, address, n);
    ranges_settle(&l.ranges);
    for (uint32_t i = 0; i < n; i++) {
        const char *text = text_at(&l, address[i]);
        for (size_t k = 0; text && k < ARRAY_LEN(wanted); k++)
            found[k] |= strncmp(text, wanted[k], strlen(wanted[k])) == 0;
    }
    for (size_t k = 0; k < ARRAY_LEN(wanted); k++)
        ck_assert_msg(found[k], "nothing is called %s", wanted[k]);
    end(&l);
}

UNIT(without_debug_information_a_function_has_its_symbol_and_all_its_range)
{
    static uint64_t address[65536];
    struct looked_up l;
    cleanup(built_free) struct built b = built_new();
    built_text(&b, "program.c", built_program);
    ck_assert_int_eq(built_run(&b, "gcc -O2 program.c -o program"), 0);
    begin(&l, &b, "program");
    uint32_t n = whole_text(&l.elf, address, 65536), found = 0;
    look_up(&l, address, n);
    ranges_settle(&l.ranges);
    for (uint32_t i = 0; i < n; i++)
        found += strcmp(unit_made(text_at(&l, address[i])), "work") == 0;
    ck_assert_uint_gt(found, 50);
    end(&l);
}

UNIT(lines_of_what_was_sampled_most_come_first)
{
    static const char *const text =
        "__attribute__((noinline)) int NAME(int x) { while (x % 7) x = x * 3 + 1; return x; }\n";
    struct looked_up l;
    struct built b = built_new();
    built_text(&b, "a.c", text);
    built_text(&b, "main.c", "int a(int), b(int);\nint main(int n, char **v) { return a(n) + b(n); }\n");
    ck_assert_int_eq(
        built_run(&b, "gcc -g -O1 -c -DNAME=a a.c -o a.o && gcc -g -O1 -c -DNAME=b a.c -o b.o && "
                      "gcc -g main.c a.o b.o -o program && nm program | grep -E ' T [ab]$' | sort > symbols"),
        0);
    uint64_t address[2] = {0};
    char line[256];
    snprintf(line, sizeof line, "%s/symbols", b.folder);
    FILE *f = fopen(line, "r");
    for (int i = 0; i < 2; i++)
        address[i] = strtoull(unit_made(fgets(line, sizeof line, f)), NULL, 16) + 1;
    fclose(f);
    ck_assert_uint_lt(address[0], address[1]);
    for (uint32_t most = 0; most < 2; most++) {
        struct resolve_want want[2] = {{address[0], 3}, {address[1], 3}};
        bool has_lines[2] = {false};
        want[most].hits = 5;
        for (int64_t work = 16; !has_lines[0] && !has_lines[1]; work += 16) { /* until it is enough for one */
            begin(&l, &b, "program");
            l.r.work = work;
            resolve_addresses(&l.r, want, 2);
            ranges_settle(&l.ranges);
            for (uint32_t i = 0; i < 2; i++)
                has_lines[i] = strstr(unit_made(text_at(&l, address[i])), "a.c:") != NULL;
            end(&l);
        }
        ck_assert(has_lines[most] && !has_lines[!most]);
    }
    built_free(&b);
}

/* Each as objdump calls it, at its first byte as at its last. */
static void stubs_are_named(const struct built *b, const char *flags)
{
    static uint64_t address[128];
    static char name[128][64];
    char path[UNIT_PATH_MAX + 16];
    struct looked_up l;
    uint32_t n = 0;
    ck_assert_int_eq(
        built_run(b,
                  "gcc -O1 -fno-builtin %s program.c -o program && objdump -d program | "
                  "sed -n 's/^0*\\([0-9a-f]*\\) <\\(.*@plt\\)>:$/\\1 \\2/p' | sort >stubs && test -s stubs",
                  flags),
        0);
    snprintf(path, sizeof path, "%s/stubs", b->folder);
    FILE *f = unit_made(fopen(path, "r"));
    while (n < 128 && fscanf(f, "%lx %63s", &address[n], name[n]) == 2) {
        address[n + 1] = address[n] + 7;
        memcpy(name[n + 1], name[n], sizeof name[n]);
        n += 2;
    }
    fclose(f);
    ck_assert_uint_ge(n, 6);
    begin(&l, b, "program");
    look_up(&l, address, n);
    ranges_settle(&l.ranges);
    for (uint32_t i = 0; i < n; i++)
        ck_assert_str_eq(unit_made(text_at(&l, address[i])), name[i]);
    end(&l);
}

UNIT(stubs_are_called_by_whom_they_call)
{
    static const char *const linkers[] = {"bfd", "gold", "lld"};
    struct built b = built_new();
    built_text(&b, "program.c",
               "#include <stdlib.h>\n#include <string.h>\n#include <stdio.h>\n"
               "int main(int n, char **v) { puts(getenv(*v)); return (int)strlen(v[0]) + abs(n); }\n");
    stubs_are_named(&b, "-Wl,-z,now");
    stubs_are_named(&b, "-no-pie -fcf-protection -Wl,-z,ibtplt,-z,lazy");
    for (size_t i = 0; i < ARRAY_LEN(linkers); i++) {
        char flags[64];
        snprintf(flags, sizeof flags, "command -v ld.%s >/dev/null", linkers[i]);
        if (system(flags) != 0)
            continue; /* not on this machine */
        snprintf(flags, sizeof flags, "-fuse-ld=%s -Wl,-z,lazy", linkers[i]);
        stubs_are_named(&b, flags);
    }
    built_free(&b);
}

/* Code that no compiler made is in no unit, and none is read for it; compilers' code is found as ever, also
 * by units that the table leaves out. */
UNIT(for_the_start_and_for_stubs_no_unit_is_read)
{
    struct looked_up l;
    struct built b = built_new();
    built_text(&b, "main.c",
               "int left_out(int);\nint puts(const char *);\n"
               "int main(int n, char **v) { puts(*v); return left_out(n); }\n");
    built_text(&b, "left_out.c", "int left_out(int x) { return x * 7; }\n");
    ck_assert_int_eq(
        built_run(&b, "gcc -g -O1 -c main.c && gcc -g -O1 -c left_out.c && objcopy "
                      "--remove-section=.debug_aranges --remove-section=.rela.debug_aranges left_out.o && "
                      "gcc -Wl,-z,lazy main.o left_out.o -o program && "
                      "nm program | sed -n 's/ T left_out//p' > address"),
        0);
    begin(&l, &b, "program");
    const struct elf_section *plt = l.elf.plt[2].size ? &l.elf.plt[2] : &l.elf.plt[0];
    uint64_t info = l.elf.debug[ELF_DEBUG_INFO].size;
    ck_assert(plt->size > 0 && l.elf.entry != 0);
    uint64_t address[2] = {min_of(plt->address, l.elf.entry), max_of(plt->address, l.elf.entry)};
    look_up(&l, address, 2);
    ranges_settle(&l.ranges);
    ck_assert_str_eq(unit_made(text_at(&l, l.elf.entry)), "_start");
    ck_assert_int_lt((1 << 30) - l.r.work, (int64_t)l.elf.debug[ELF_DEBUG_ARANGES].size + 64);
    ck_assert_uint_gt(info, 64);
    char line[64], path[UNIT_PATH_MAX + 16];
    snprintf(path, sizeof path, "%s/address", b.folder);
    FILE *f = unit_made(fopen(path, "r"));
    uint64_t left_out = strtoull(unit_made(fgets(line, sizeof line, f)), NULL, 16);
    fclose(f);
    look_up(&l, &left_out, 1);
    ranges_settle(&l.ranges);
    ck_assert_str_eq(unit_made(text_at(&l, left_out)), "left_out left_out.c:1");
    end(&l);
    built_free(&b);
}

/* Split units (-gsplit-dwarf) are not read: what is left in the program is its symbols, and the lines. */
UNIT(with_split_units_names_are_those_of_symbols)
{
    static uint64_t address[65536];
    struct looked_up l;
    cleanup(built_free) struct built b = built_new();
    built_text(&b, "program.c", built_program);
    for (int version = 4; version <= 5; version++) {
        ck_assert_int_eq(built_run(&b, "gcc -O2 -gdwarf-%d -gsplit-dwarf program.c -o program", version), 0);
        begin(&l, &b, "program");
        uint32_t n = whole_text(&l.elf, address, 65536), found = 0, lines = 0;
        look_up(&l, address, n);
        ranges_settle(&l.ranges);
        for (uint32_t i = 0; i < n; i++) {
            const char *text = unit_made(text_at(&l, address[i]));
            found += strncmp(text, "work", 4) == 0;
            lines += strncmp(text, "work program.c:", 15) == 0;
        }
        ck_assert_uint_gt(found, 50);
        ck_assert_uint_eq(lines, found);
        end(&l);
    }
}

UNIT(what_calls_main_is_named_where_the_c_library_has_no_symbols)
{
    struct looked_up l;
    uint64_t address[1] = {0};
    struct built b = built_new();
    built_text(&b, "c.c",
               "__attribute__((noinline)) int other(int x) { return x * 5; }\n"
               "__attribute__((noinline)) static int hidden(int x) { return other(x) + 3; }\n"
               "int more(int x) { return hidden(x) + 2; }\n"
               "__attribute__((noinline)) static int second(int (*f)(int), int x) { return f(x) + 1; }\n"
               "int __libc_start_main(int (*f)(int), int x) { return second(f, x) + 2; }\n");
    for (int is_start = 0; is_start < 2; is_start++) {
        ck_assert_int_eq(built_run(&b,
                                   "gcc -O1 -fno-toplevel-reorder -shared -fPIC c.c -o c.so && "
                                   "nm c.so | grep ' t %s$' > symbol && strip c.so",
                                   is_start ? "second" : "hidden"),
                         0);
        char line[256];
        snprintf(line, sizeof line, "%s/symbol", b.folder);
        FILE *f = fopen(line, "r");
        address[0] = strtoull(unit_made(fgets(line, sizeof line, f)), NULL, 16) + 1;
        fclose(f);
        begin(&l, &b, "c.so");
        look_up(&l, address, 1);
        ranges_settle(&l.ranges);
        ck_assert_str_eq(unit_made(text_at(&l, address[0])), is_start ? "__libc_start_main" : "");
        end(&l);
    }
    built_free(&b);
}

/* musl's memset, behind which its threads begin; and what assemblers write that is long. */
UNIT(where_no_size_is_said_a_function_ends_with_its_code)
{
    static const struct {
        const char *symbol, *name;
    } want[] = {
        {"first", "first"},    {"at_last", "first"}, {"in_loop", "first"}, {"hidden", ""},
        {"in_hidden", ""},     {"table", "table"},   {"a_case", "table"},  {"whole", "whole"},
        {"at_whole", "whole"}, {"far", "far"},       {"in_far", "far"},    {"sized", "sized"},
        {"behind", ""},
    };
    struct looked_up l;
    uint64_t address[ARRAY_LEN(want)];
    cleanup(built_free) struct built b = built_new();
    built_text(
        &b, "a.s",
        ".globl first, table, whole, far, sized\n"
        ".type first,@function\n.type table,@function\n.type whole,@function\n.type far,@function\n"
        ".type sized,@function\n.size sized,1\n"
        "first: test %edi,%edi\n jne at_last\n ret\nat_last: inc %eax\nin_loop: dec %edi\n jmp in_loop\n"
        "hidden: call *%r9\nin_hidden: hlt\n ret\n"
        "table: jmp *%rax\na_case: inc %eax\n ret\n"
        "whole: lea at_whole(%rip),%rax\n push %rax\n ret\nat_whole: ret\n"
        "far: jz in_far\n .fill 2000,1,0x90\n ret\nin_far: ret\n"
        "sized: ret\nbehind: nop\n ret\n");
    ck_assert_int_eq(built_run(&b, "gcc -shared -nostdlib a.s -o a.so && nm -n a.so > symbols && strip a.so"),
                     0);
    for (size_t i = 0; i < ARRAY_LEN(want); i++) {
        char text[256], name[64] = "";
        snprintf(text, sizeof text, "%s/symbols", b.folder);
        FILE *f = unit_made(fopen(text, "r"));
        while (strcmp(name, want[i].symbol) != 0) {
            ck_assert_ptr_nonnull(fgets(text, sizeof text, f));
            ck_assert_int_eq(sscanf(text, "%" SCNx64 " %*c %63s", &address[i], name), 2);
        }
        fclose(f);
    }
    begin(&l, &b, "a.so");
    for (int is_alone = 0; is_alone < 2; is_alone++) {
        for (uint32_t i = 0; i < ARRAY_LEN(want); i += is_alone ? 1 : ARRAY_LEN(want))
            look_up(&l, &address[i], is_alone ? 1 : ARRAY_LEN(want));
        ranges_settle(&l.ranges);
        for (size_t i = 0; i < ARRAY_LEN(want); i++)
            ck_assert_str_eq(unit_made(text_at(&l, address[i])), want[i].name);
        end(&l);
        begin(&l, &b, "a.so");
    }
    end(&l);
}

/* As in GHC's programs, whose first code is behind the start files' frame_dummy. */
UNIT(code_without_a_symbol_is_not_called_as_what_is_before_it)
{
    struct looked_up l;
    uint64_t address[2] = {0, 0};
    cleanup(built_free) struct built b = built_new();
    built_text(&b, "a.s", ".globl first\n.type first,@function\nfirst: nop\n ret\n.Lhidden: nop\n ret\n");
    ck_assert_int_eq(built_run(&b, "gcc -shared -nostdlib a.s -o a.so && nm a.so | grep first > symbols"), 0);
    char text[256];
    snprintf(text, sizeof text, "%s/symbols", b.folder);
    FILE *f = unit_made(fopen(text, "r"));
    address[0] = strtoull(unit_made(fgets(text, sizeof text, f)), NULL, 16) + 1;
    address[1] = address[0] + 1;
    fclose(f);
    begin(&l, &b, "a.so");
    look_up(&l, address, ARRAY_LEN(address));
    ranges_settle(&l.ranges);
    ck_assert_str_eq(unit_made(text_at(&l, address[0])), "first");
    ck_assert_str_eq(unit_made(text_at(&l, address[1])), "");
    end(&l);
}

/* Builds a program, takes its symbols away, and asks for each address: of `start_size` from the entry on it
 * is the start. */
static void start_is_named(const char *compiler, const char *program, uint64_t start_size)
{
    static uint64_t address[65536];
    struct looked_up l;
    built_need(compiler);
    cleanup(built_free) struct built b = built_new();
    built_text(&b, "program.c", program);
    ck_assert_int_eq(built_run(&b, "%s -O2 program.c -o program && strip program", compiler), 0);
    begin(&l, &b, "program");
    uint32_t n = whole_text(&l.elf, address, 65536), found = 0;
    look_up(&l, address, n);
    ranges_settle(&l.ranges);
    ck_assert_uint_ne(l.elf.entry, 0);
    for (uint32_t i = 0; i < n; i++) {
        bool is_start = strcmp(unit_made(text_at(&l, address[i])), "_start") == 0;
        ck_assert(!is_start || (address[i] >= l.elf.entry && address[i] < l.elf.entry + start_size));
        found += is_start;
    }
    ck_assert_uint_eq(found, start_size);
    end(&l);
}

/* It is the root of each stack of its program. */
UNIT(the_start_of_a_stripped_program_has_its_name)
{
    start_is_named("gcc", built_program, 34);
}

UNIT(the_start_of_musl_has_its_name)
{
    start_is_named("musl-gcc", built_program, 63);
}

/* Without a C library, as Zig's programs: what stands right behind is another function. */
#define OWN_START(rest)                                                                                       \
    "__asm__(\".text; .globl _start; _start: .cfi_startproc; xor %ebp, %ebp; and $-16, %rsp; call first" rest \
    "; .cfi_endproc; .p2align 4\");\n"                                                                        \
    "static volatile int x;\n"                                                                                \
    "__attribute__((noinline)) void second(void) { x++; }\n"                                                  \
    "void first(void) { for (;;) second(); }\n"

UNIT(what_is_behind_a_short_start_is_not_called_like_it)
{
    start_is_named("gcc -static -nostdlib -fno-toplevel-reorder -Wl,--eh-frame-hdr", OWN_START(""),
                   16); /* filled up */
    start_is_named("gcc -static -nostdlib -fno-toplevel-reorder", OWN_START("; hlt"), 12);
}

UNIT(without_work_names_are_rough_and_later_better)
{
    static uint64_t address[65536];
    struct looked_up l;
    cleanup(built_free) struct built b = built_new();
    uint32_t rough = 0, found = 0;
    built_text(&b, "program.c", built_program);
    ck_assert_int_eq(built_run(&b, "gcc -O2 -g program.c -o program"), 0);
    begin(&l, &b, "program");
    uint32_t n = whole_text(&l.elf, address, 65536);
    l.r.work = 0;
    look_up(&l, address, n);
    ranges_settle(&l.ranges);
    for (uint32_t i = 0; i < l.ranges.all.n; i++)
        rough += l.ranges.all.p[i].flags & RANGE_ROUGH ? 1 : 0;
    ck_assert_uint_eq(rough, l.ranges.all.n);
    for (uint32_t i = 0; i < n; i++) {
        ck_assert(strcmp(unit_made(text_at(&l, address[i])), "leaf") != 0);
        ranges_drop_rough(&l.ranges, address[i]);
    }
    ranges_settle(&l.ranges);
    ck_assert_uint_eq(l.ranges.all.n, 0);
    l.r.work = 1 << 30;
    look_up(&l, address, n);
    ranges_settle(&l.ranges);
    for (uint32_t i = 0; i < n; i++)
        found += strncmp(unit_made(text_at(&l, address[i])), "leaf program.c:6 < ", 19) == 0;
    ck_assert_uint_gt(found, 10);
    ck_assert_int_lt(l.r.work, 1 << 30);
    end(&l);
}

static const char go_program[] = "package main\n"
                                 "\n"
                                 "func leaf(x uint32) uint32 {\n"
                                 "\tr := x\n"
                                 "\tfor i := 0; i < 100; i++ { r = r*31 ^ (r >> 7) }\n"
                                 "\treturn r\n"
                                 "}\n"
                                 "func middle(n uint32) uint32 { return leaf(n) + 1 }\n"
                                 "//go:noinline\n"
                                 "func work(n uint32) uint32 { return middle(n) + middle(n+1) }\n"
                                 "func main() { println(work(7)) }\n";

/* What `go tool addr2line` says: the function, and the innermost place. */
static void check_addr2line(const struct built *b, const struct looked_up *l, const uint64_t *address,
                            uint32_t n)
{
    char path[128], function[1024], place[1024];
    snprintf(path, sizeof path, "%s/addresses", b->folder);
    FILE *f = fopen(path, "w");
    for (uint32_t i = 0; i < n; i++)
        fprintf(f, "0x%lx\n", (unsigned long)address[i]);
    fclose(f);
    ck_assert_int_eq(
        built_run(b, "PATH=$PATH:/usr/local/go/bin go tool addr2line program < addresses > expected"), 0);
    snprintf(path, sizeof path, "%s/expected", b->folder);
    f = fopen(path, "r");
    for (uint32_t i = 0; i < n; i++) {
        uint32_t n_lines;
        ck_assert(fgets(function, sizeof function, f) && fgets(place, sizeof place, f));
        const struct range *range = unit_made(ranges_find(&l->ranges, address[i]));
        const struct place_line *line = unit_made(places_get(&l->places, range->place, &n_lines));
        struct place_function inner = places_get_function(&l->places, line[0].function),
                              outer = places_get_function(&l->places, line[n_lines - 1].function);
        char ours[2048];
        snprintf(ours, sizeof ours, "%.*s\n%.*s:%u\n", BYTES_FMT(places_get_text(&l->places, outer.name)),
                 BYTES_FMT(places_get_text(&l->places, inner.file)), line[0].line);
        ck_assert_msg(strncmp(ours, function, strlen(function)) == 0 &&
                          strcmp(ours + strlen(function), place) == 0,
                      "0x%lx: ours %s theirs %s%s", (unsigned long)address[i], ours, function, place);
    }
    fclose(f);
}

UNIT(go_with_inlined_calls_as_addr2line_says)
{
    static uint64_t address[400];
    struct looked_up l;
    cleanup(built_free) struct built b = built_new();
    uint32_t n = 0, found = 0;
    if (built_run(&b, "PATH=$PATH:/usr/local/go/bin; command -v go >/dev/null") != 0)
        unit_skip("go");
    built_text(&b, "program.go", go_program);
    ck_assert_int_eq(built_run(&b, "PATH=$PATH:/usr/local/go/bin go build -o program program.go"), 0);
    begin(&l, &b, "program");
    char line[256];
    ck_assert_int_eq(built_run(&b, "nm program | grep ' main.work$' > symbol"), 0);
    snprintf(line, sizeof line, "%s/symbol", b.folder);
    FILE *f = fopen(line, "r");
    ck_assert_ptr_nonnull(fgets(line, sizeof line, f));
    fclose(f);
    for (uint64_t a = strtoull(line, NULL, 16); n < 120; a++)
        address[n++] = a;
    look_up(&l, address, n);
    ranges_settle(&l.ranges);
    for (uint32_t i = 0; i < n; i++) {
        const char *text = text_at(&l, address[i]);
        ck_assert_msg(text != NULL, "0x%lx has no answer", (unsigned long)address[i]);
        found +=
            strcmp(text, "main.leaf program.go:5 < main.middle program.go:8 < main.work program.go:10") == 0;
    }
    ck_assert_uint_ge(found, 2);
    check_addr2line(&b, &l, address, 60);
    end(&l);
}
