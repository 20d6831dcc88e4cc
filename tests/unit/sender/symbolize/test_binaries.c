/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sender/symbolize/binaries.h"
#include "sender/symbolize/cache/ranges.h"
#include "sender/symbolize/cache/stored.h"
#include "tests/unit/sender/symbolize/built.h"

__attribute__((noinline)) static int function_one(int x)
{
    __asm__ volatile("" : "+r"(x));
    return x + 1;
}

extern const char __executable_start[];

static uint64_t address_of_one(void)
{
    return (uint64_t)((const char *)function_one - __executable_start);
}

static const struct binary_key key = {.inode = 5, .major = 1};

static bool is_called(const struct binaries *b, uint32_t number, uint64_t address, const char *want)
{
    struct binary_name name = binaries_name(b, number, address);
    return name.n_lines >= 1 && bytes_is(binaries_line(b, &name, name.n_lines - 1).name, want);
}

UNIT(a_name_is_found_once_and_kept_without_the_file)
{
    struct binaries *b = unit_made(binaries_new());
    uint32_t number = built_add(b, key, "self", open("/proc/self/exe", O_RDONLY), NULL);
    ck_assert_uint_ne(number, 0);
    ck_assert_uint_eq(binaries_find(b, &binaries_get(b, number)->key), number);
    ck_assert_uint_eq(binaries_find(b, &key), 0); /* who does not say what is in it */
    uint64_t at = address_of_one();
    ck_assert(!binaries_want(b, number, at, 1)); /* still open */
    ck_assert_uint_eq(binaries_name(b, number, at).n_lines, 0);
    binaries_resolve(b);
    ck_assert(is_called(b, number, at, "function_one"));
    ck_assert(is_called(b, number, at + 1, "function_one")); /* the whole function */
    ck_assert(!binaries_want(b, number, at + 1, 1));         /* no file needed */
    ck_assert_uint_eq(binaries_counts(b).looked_up, 1);
    uint64_t other = (uint64_t)((const char *)address_of_one - __executable_start);
    ck_assert(binaries_want(b, number, other, 1)); /* closed by now */
    ck_assert(binaries_reopen(b, number, open("/proc/self/exe", O_RDONLY)));
    ck_assert(!binaries_want(b, number, other, 1));
    binaries_resolve(b);
    ck_assert(is_called(b, number, other, "address_of_one"));
    ck_assert(is_called(b, number, at, "function_one"));
    binaries_free(b);
    ck_assert_int_eq(function_one(1), 2);
}

/* Reading of words, entries and texts is dear by the call: names that are near each other cost less than a
 * call each. */
UNIT(a_file_s_names_are_read_in_a_few_calls)
{
    enum { ADDRESSES = 200, APART = 64 };
    struct allowance all = {.left = INT64_MAX};
    struct binaries *b = unit_made(binaries_new());
    uint32_t number = built_add(b, key, "self", open("/proc/self/exe", O_RDONLY), &all);
    ck_assert_uint_ne(number, 0);
    all.charged = 0;
    for (uint32_t i = 0; i < ADDRESSES; i++)
        ck_assert(!binaries_want(b, number, address_of_one() + i * APART, 1));
    binaries_resolve(b);
    ck_assert(is_called(b, number, address_of_one(), "function_one"));
    /* A sanitizer's symbols alone, which are gone through twice, are 0.8 MB; word by word it was 38. */
    ck_assert_int_lt(all.charged, 2 * ADDRESSES * (int64_t)(ALLOWANCE_CALL + 4096));
    binaries_free(b);
}

/* The names of a function of a program, in a start of its own. How many addresses had to be looked up. */
static uint64_t start(const struct built *built, const char *want)
{
    struct stored *stored = NULL;
    struct stat st;
    char path[UNIT_PATH_MAX + 16];
    ck_assert_int_eq(stored_open(&stored, built->folder, 1, 1u << 20), 0);
    unit_made(stored);
    struct binaries *b = unit_made(binaries_new());
    binaries_configure(b, &(struct binaries_options){.stored = stored});
    snprintf(path, sizeof path, "%s/program", built->folder);
    int fd = built_open(built, "program");
    ck_assert_int_eq(fstat(fd, &st), 0);
    uint32_t number = built_add(b, (struct binary_key){.inode = st.st_ino, .major = 1}, "program", fd, NULL);
    ck_assert_uint_ne(number, 0);
    uint64_t at = binaries_get(b, number)->elf.entry;
    binaries_met(b, number, 0, path);
    ck_assert(
        !binaries_want(b, number, at, 1)); /* its debug file is looked for anew: the file has to be open */
    binaries_resolve(b);
    ck_assert(is_called(b, number, at, want));
    ck_assert(!binaries_want(b, number, at, 1)); /* and not again */
    ck_assert_int_eq(binaries_store(b), 0);
    uint64_t looked_up = binaries_counts(b).looked_up;
    ck_assert_uint_eq(binaries_counts(b).recalled, looked_up == 0);
    binaries_free(b);
    stored_free(stored);
    return looked_up;
}

UNIT(names_of_an_earlier_start_are_not_looked_up_again)
{
    struct built built = built_new();
    built_need("gcc");
    built_text(&built, "program.c",
               "int first(int x) { return x * 7; }\nint main(void) { return first(1); }\n");
    ck_assert_int_eq(built_run(&built, "gcc -O0 -Wl,-e,first -Wl,--build-id=none program.c -o program"), 0);
    ck_assert_uint_eq(start(&built, "first"), 1);
    ck_assert_uint_eq(start(&built, "first"), 0);
    /* As large, as old, in its place, by who may set times: another file all the same. */
    ck_assert_int_eq(built_run(&built, "sed s/first/other/g program.c > other.c && gcc -O0 -Wl,-e,other "
                                       "-Wl,--build-id=none other.c -o other && touch -r program other && "
                                       "cat other > program && touch -r other program"),
                     0);
    ck_assert_uint_eq(start(&built, "other"), 1);
    ck_assert_uint_eq(start(&built, "other"), 0);
    built_free(&built);
}

/* Two programs say that they are the same build, and one of them lies. */
UNIT(a_copied_build_id_lends_no_names)
{
    static const char id[] = "-Wl,--build-id=0x0123456789abcdef0123456789abcdef01234567";
    struct built built = built_new();
    struct binaries *b = unit_made(binaries_new());
    built_need("gcc");
    built_text(&built, "honest.c",
               "int honest(int x) { return x * 7; }\nint main(int n, char **v) { return honest(n); }\n");
    built_text(&built, "lying.c",
               "int lying(int x) { return x * 7; }\nint main(int n, char **v) { return lying(n); }\n");
    ck_assert_int_eq(
        built_run(&built,
                  "gcc -O0 -Wl,-e,honest %s honest.c -o honest && gcc -O0 -Wl,-e,lying %s lying.c -o lying",
                  id, id),
        0);
    uint32_t lying =
        built_add(b, (struct binary_key){.inode = 1}, "lying", built_open(&built, "lying"), NULL);
    uint32_t honest =
        built_add(b, (struct binary_key){.inode = 2}, "honest", built_open(&built, "honest"), NULL);
    ck_assert(lying && honest);
    const struct elf *x = &binaries_get(b, lying)->elf, *y = &binaries_get(b, honest)->elf;
    ck_assert_mem_eq(x->build_id, y->build_id, sizeof x->build_id);
    ck_assert_uint_eq(x->entry, y->entry);
    uint64_t code = x->entry + 4;
    binaries_want(b, lying, code, 1);
    binaries_resolve(b);
    ck_assert(is_called(b, lying, code, "lying"));
    ck_assert(!is_called(b, honest, code, "lying"));
    ck_assert(binaries_want(b, honest, code, 1));
    ck_assert(binaries_reopen(b, honest, built_open(&built, "honest")));
    ck_assert(!binaries_want(b, honest, code, 1));
    binaries_resolve(b);
    ck_assert(is_called(b, honest, code, "honest"));
    binaries_free(b);
    built_free(&built);
}

UNIT(what_is_written_over_is_another_file)
{
    cleanup(built_free) struct built built = built_new();
    built_need("gcc");
    built_text(&built, "program.c",
               "int NAME(int x) { return x * 7; }\nint main(int n, char **v) { return NAME(n); }\n");
    ck_assert_int_eq(built_run(&built, "gcc -O0 -DNAME=once -Wl,-e,once program.c -o program && "
                                       "gcc -O0 -DNAME=late -Wl,-e,late program.c -o late"),
                     0);
    struct binaries *b = unit_made(binaries_new());
    uint32_t once = built_add(b, key, "program", built_open(&built, "program"), NULL);
    ck_assert_uint_ne(once, 0);
    uint64_t at = binaries_get(b, once)->elf.entry, other = at + 0x40; /* main, or what is behind it */
    binaries_want(b, once, at, 1);
    binaries_resolve(b);
    ck_assert(is_called(b, once, at, "once"));
    ck_assert_int_eq(built_run(&built, "chmod 700 program && ln program link"), 0); /* no writing */
    ck_assert(binaries_want(b, once, other, 1));
    ck_assert(binaries_reopen(b, once, built_open(&built, "program")));
    binaries_resolve(b);
    ck_assert_int_eq(built_run(&built, "cat late > program"), 0);
    ck_assert(!binaries_reopen(b, once, built_open(&built, "program")));
    ck_assert(is_called(b, once, at, "once"));
    uint32_t late = built_add(b, key, "program", built_open(&built, "program"), NULL);
    ck_assert(late != 0 && late != once);
    binaries_want(b, late, at, 1);
    binaries_resolve(b);
    ck_assert(is_called(b, late, at, "late"));
    ck_assert(is_called(b, once, at, "once"));
    /* a key from before: nothing of what is there now is told by it */
    struct binary_key before = binaries_get(b, once)->key;
    before.inode++;
    ck_assert_uint_eq(binaries_add(b, &before, "program", built_open(&built, "program"), NULL), 0);
    binaries_free(b);
}

UNIT(idle_files_are_forgotten)
{
    struct binaries *b = unit_made(binaries_new());
    uint32_t number = built_add(b, key, "self", open("/proc/self/exe", O_RDONLY), NULL);
    ck_assert_uint_ne(number, 0);
    for (uint32_t i = 0; i < BINARIES_IDLE_WINDOWS; i++)
        binaries_sweep(b);
    const struct binary_key self = unit_made(binaries_get(b, number))->key;
    binaries_sweep(b);
    ck_assert_ptr_null(binaries_get(b, number));
    ck_assert_ptr_null(binaries_get(b, 0));
    ck_assert_uint_eq(binaries_find(b, &self), 0);
    binaries_free(b);
}

UNIT(who_is_idle_for_longest_makes_room)
{
    struct binaries *b = unit_made(binaries_new());
    const struct bytes image = bytes_of("x", 1);
    for (uint32_t i = 1; i <= BINARIES_MAX; i++)
        ck_assert_uint_eq(binaries_add_memory(b, &(struct binary_key){.inode = i}, "x", image), i);
    const struct binary_key one_more = {.inode = BINARIES_MAX + 1};
    ck_assert_uint_eq(binaries_add_memory(b, &one_more, "x", image), 0); /* all are of this window */
    binaries_sweep(b);
    binaries_charge(b, 1, NULL);
    ck_assert_uint_eq(binaries_add_memory(b, &one_more, "x", image), 2);
    ck_assert_uint_eq(binaries_find(b, &one_more), 2);
    ck_assert_uint_eq(binaries_find(b, &(struct binary_key){.inode = 1}), 1);
    ck_assert_uint_eq(binaries_find(b, &(struct binary_key){.inode = 2}), 0);
    ck_assert_uint_eq(binaries_counts(b).files, BINARIES_MAX);
    binaries_free(b);
}

UNIT(no_more_files_are_open_than_allowed)
{
    struct binaries *b = unit_made(binaries_new());
    for (uint32_t i = 0; i < BINARIES_OPEN_MAX; i++)
        ck_assert_uint_ne(
            built_add(b, (struct binary_key){.inode = i + 1}, "x", open("/bin/true", O_RDONLY), NULL), 0);
    ck_assert_uint_eq(built_add(b, key, "x", open("/bin/true", O_RDONLY), NULL), 0);
    binaries_resolve(b);
    ck_assert_uint_ne(
        built_add(b, (struct binary_key){.inode = 9999}, "x", open("/bin/true", O_RDONLY), NULL), 0);
    binaries_free(b);
}

/* One of many processes has a small share of what its user's may read; a file's tables may be more. */
UNIT(what_a_process_cannot_pay_its_user_does)
{
    struct allowance all = {.left = 1 << 30}, user = {.left = 1 << 30, .from = &all},
                     share = {.left = 1 << 20, .from = &user};
    struct binaries *b = unit_made(binaries_new());
    uint32_t number = built_add(b, key, "self", open("/proc/self/exe", O_RDONLY), &share);
    ck_assert_uint_ne(number, 0);
    user.left = share.left = 1; /* enough to begin with */
    binaries_want(b, number, address_of_one(), 1);
    binaries_resolve(b);
    ck_assert_uint_eq(binaries_name(b, number, address_of_one()).n_lines, 0);
    user.left = 1 << 30; /* the share has come to nothing */
    binaries_charge(b, number, &share);
    ck_assert(binaries_want(b, number, address_of_one(), 1));
    ck_assert(binaries_reopen(b, number, open("/proc/self/exe", O_RDONLY)));
    ck_assert(!binaries_want(b, number, address_of_one(), 1));
    binaries_resolve(b);
    ck_assert(is_called(b, number, address_of_one(), "function_one"));
    ck_assert_int_gt(user.left, 1 << 29); /* and no more than half */
    binaries_free(b);
}

/* As glibc's dynamic linker begins: by hand, without a symbol or lines, in a unit. */
UNIT(two_addresses_where_a_program_begins_are_named)
{
    struct built built = built_new();
    built_need("gcc");
    built_text(&built, "program.c",
               "__asm__(\".text\\n.globl here\\nhere: .skip 64, 0x90\\n\");\nint main(void) { return 0; }\n");
    ck_assert_int_eq(
        built_run(&built, "gcc -O1 -g -nostdlib -fno-toplevel-reorder -Wl,-e,here program.c -o program && "
                          "objcopy -N here program"),
        0);
    struct source s;
    struct elf elf;
    built_read(&built, "program", &s, &elf);
    struct binaries *b = unit_made(binaries_new());
    uint32_t number = built_add(b, key, "program", built_open(&built, "program"), NULL);
    (void)binaries_want(b, number, elf.entry + 7, 1);
    (void)binaries_want(b, number, elf.entry + 31, 1);
    binaries_resolve(b);
    ck_assert(is_called(b, number, elf.entry + 7, "_start"));
    ck_assert(is_called(b, number, elf.entry + 31, "_start"));
    binaries_free(b);
    built_free(&built);
}

/* Static and without a build id: where it begins is all that is known of it. */
UNIT(a_program_that_says_nothing_of_itself_begins_all_the_same)
{
    struct built built = built_new();
    built_need("gcc");
    built_text(&built, "program.c", "void _start(void) { for (;;) ; }\n");
    ck_assert_int_eq(
        built_run(&built, "gcc -O1 -s -static -nostdlib -Wl,--build-id=none program.c -o program"), 0);
    struct source s;
    struct elf elf;
    built_read(&built, "program", &s, &elf);
    struct binaries *b = unit_made(binaries_new());
    uint32_t number = built_add(b, key, "program", built_open(&built, "program"), NULL);
    ck_assert_uint_ne(number, 0);
    (void)binaries_want(b, number, elf.entry, 1);
    binaries_resolve(b);
    ck_assert(is_called(b, number, elf.entry, "_start"));
    binaries_free(b);
    built_free(&built);
}

/* What is learned of a function at one address begins and ends somewhere else than what is at the next,
 * window by window, and none of it is in the way of another's. */
UNIT(each_address_of_a_large_function_is_named_whatever_was_asked_before)
{
    struct built built = built_new();
    char program[200];
    built_need("gcc");
    built_text(&built, "program.c",
               "#define ONE(k) x = inlined(x, k); if (x & 1024 + k) { x ^= k; more(); }\n"
               "#define TEN(k) \\\nONE(k)\\\nONE(k + 1)\\\nONE(k + 2)\\\nONE(k + 3)\\\nONE(k + 4)\n"
               "static inline __attribute__((always_inline)) long inlined(long x, long k)\n"
               "{\n    x = x * 31 + k;\n    if (x & 4096)\n        x -= k;\n    return x ^ x >> 7;\n}\n"
               "__attribute__((noinline)) void more(void)\n{\n    __asm__ volatile(\"\");\n}\n"
               "__attribute__((noinline)) long work(long x)\n{\n");
    snprintf(program, sizeof program,
             "for i in $(seq 60); do echo \"TEN($i)\"; done >> program.c; "
             "echo 'return x; } int main(int n, char **v) { return work(n); }' >> program.c; "
             "gcc -O1 -g -Wl,-e,work program.c -o program");
    ck_assert_int_eq(built_run(&built, "%s", program), 0);
    struct source s;
    struct elf elf;
    built_read(&built, "program", &s, &elf);
    struct binaries *b = unit_made(binaries_new());
    uint32_t number = built_add(b, key, "program", built_open(&built, "program"), NULL);
    for (uint32_t at = 0, windows = 0; at < 8192; windows++) {
        int fd = built_open(&built, "program");
        if (!binaries_want(b, number, elf.entry + at, 1))
            close(fd);
        else if (binaries_reopen(b, number, fd))
            binaries_want(b, number, elf.entry + at, 1);
        binaries_resolve(b);
        ck_assert_msg(is_called(b, number, elf.entry + at, "work"), "window %u, %u bytes in", windows, at);
        while (is_called(b, number, elf.entry + at, "work")) /* to where nothing is known yet */
            at++;
    }
    binaries_free(b);
    built_free(&built);
}
