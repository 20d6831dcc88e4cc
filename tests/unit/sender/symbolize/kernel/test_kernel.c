/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sender/symbolize/kernel/kernel.h"

/* What the kernel would say, whoever asks; and what it was asked. */
struct asked {
    const char *answer;
    int result;
    uint32_t times, n;
    uint64_t first;
};

static int on_ask(void *user, const uint64_t *address, uint32_t n, struct buffer *ret)
{
    struct asked *a = user;
    a->times++;
    a->n = n;
    a->first = address[0];
    return a->result ? a->result : buffer_add_str(ret, a->answer);
}

static char root[UNIT_PATH_MAX];

static void put(const char *name, const char *text)
{
    char path[sizeof root + 32];
    snprintf(path, sizeof path, "%s/%s", root, name);
    FILE *f = fopen(path, "we");
    ck_assert_ptr_nonnull(f);
    ck_assert_int_ge(fputs(text, f), 0);
    ck_assert_int_eq(fclose(f), 0);
}

static struct kernel *begin(struct asked *a, const char *symbols, const char *modules)
{
    unit_new_folder(root);
    put("kallsyms", symbols);
    put("modules", modules);
    return unit_made(kernel_new(&(struct kernel_options){on_ask, a, root}));
}

static void check(const struct kernel *k, uint64_t address, const char *name, const char *module,
                  uint64_t relative)
{
    struct kernel_name n;
    ck_assert(kernel_find(k, address, &n));
    ck_assert(bytes_is(n.name, name));
    ck_assert(bytes_is(n.module, module));
    ck_assert_uint_eq(n.address, relative);
}

#define SYMBOLS "0000000000000000 A fixed_percpu_data\nffffffff81000000 T _stext\nffffffff81000000 T _text\n"
#define MODULES                                             \
    "dm_mod 200704 0 - Live 0xffffffffc0200000\n"           \
    "nf_tables 315392 2 a,b, Live 0xffffffffc0001000 (E)\n" \
    "secret 4096 0 - Live 0x0000000000000000\n"

UNIT(functions_of_kernel_modules_and_programs)
{
    struct asked a = {.answer = "ffffffff81000190 do_it+0x91/0x100\n"
                                "ffffffff81000150 do_it+0x51/0x100\n"
                                "ffffffff81000200 rust::thing.llvm.12+0x1/0x10\n"
                                "ffffffffc0002001 later+0x2/0x80 [nf_tables]\n"
                                "ffffffffc0900002 inner+0x3/0x80 [secret]\n"
                                "ffffffffc0500001 bpf_prog_6deef7357e7b4530_x+0x2/0x40\n"
                                "ffffffffc0600001 bpf_trampoline_6442491999+0x2/0x40\n"
                                "ffffffff81000500 bpf_prog_add+0x1/0x40\n"
                                "ffffffff90000000 0xffffffff90000000\n"};
    struct kernel *k = begin(&a, SYMBOLS, MODULES);
    struct kernel_name n;
    ck_assert_int_eq(kernel_resolve(k), 0);
    ck_assert_uint_eq(a.times, 0); /* nothing was wanted */
    kernel_want(k, 0xffffffff81000190);
    kernel_want(k, 0xffffffff90000000);
    ck_assert(!kernel_find(k, 0xffffffff81000190, &n));
    ck_assert_int_eq(kernel_resolve(k), 0);
    ck_assert_uint_eq(a.n, 2);
    ck_assert_uint_eq(a.first, 0xffffffff81000190);
    check(k, 0xffffffff81000190, "do_it", "vmlinux", 0x190);
    check(k, 0xffffffff81000100, "do_it", "vmlinux", 0x100);
    check(k, 0xffffffff810001ff, "do_it", "vmlinux", 0x1ff);
    check(k, 0xffffffff81000205, "rust::thing.llvm.12", "vmlinux", 0x205);
    check(k, 0xffffffffc0002001, "later", "nf_tables", 0x1001);
    check(k, 0xffffffffc0900002, "inner", "secret", 0); /* where it begins is */
    check(k, 0xffffffffc0500001, "bpf_prog_6deef7357e7b4530_x", "bpf", 1);
    check(k, 0xffffffffc0600001, "bpf_trampoline_6442491999", "bpf", 1);
    check(k, 0xffffffff81000500, "bpf_prog_add", "vmlinux", 0x500);
    ck_assert(!kernel_find(k, 0xffffffff810000ff, &n));
    ck_assert(!kernel_find(k, 0xffffffff81000210, &n));
    ck_assert(!kernel_find(k, 0xffffffff90000000, &n));
    ck_assert_uint_gt(kernel_memory(k), 0);
    kernel_free(k);
}

UNIT(what_is_known_is_not_asked_for_until_it_is_forgotten)
{
    struct asked a = {.answer = "ffffffff81000190 do_it+0x91/0x100\n"};
    struct kernel *k = begin(&a, "0000000000000000 T _text\n", "");
    for (uint32_t i = 0; i < KERNEL_NEXT_MAX; i++) {
        kernel_want(k, 0xffffffff81000100 + i);
        ck_assert_int_eq(kernel_resolve(k), 0);
        check(k, 0xffffffff81000100, "do_it", "vmlinux", 0); /* where the kernel begins is hidden */
        ck_assert_uint_eq(a.times, 1);
        kernel_next(k);
    }
    kernel_want(k, 0xffffffff81000100);
    ck_assert_int_eq(kernel_resolve(k), 0);
    ck_assert_uint_eq(a.times, 2);
    kernel_free(k);
}

UNIT(a_kernel_that_says_nothing_or_nonsense)
{
    struct kernel_name n;
    struct asked a = {.answer = "ffffffff81000190 do_it+0x91/0x\nffffffff81000190 do_it+0x0/0x10\n"
                                "ffffffff81000190 do_it+0x91/0x90\nz do_it+0x1/0x10\n\n \n+\n"
                                "10 do_it+0x91/0x100\nfffffffffffffff0 do_it+0x1/0x100\n"
                                "ffffffff81000190 do_it+0x1/0x10 [a\nffffffff810001"};
    struct kernel *k = begin(&a, "_text\n\n", "");
    kernel_want(k, 0xffffffff81000190);
    ck_assert_int_eq(kernel_resolve(k), 0);
    ck_assert(!kernel_find(k, 0x10, &n) && !kernel_find(k, 0xfffffffffffffff0, &n));
    a.result = -EPERM;
    kernel_want(k, 0xffffffff82000190);
    ck_assert_int_eq(kernel_resolve(k), -EPERM);
    ck_assert(!kernel_find(k, 0xffffffff82000190, &n));
    kernel_free(k);
}
