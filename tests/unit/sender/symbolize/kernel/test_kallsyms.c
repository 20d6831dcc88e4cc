/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sender/symbolize/kernel/kallsyms.h"

static int read_text(const char *text, struct kallsyms **ret)
{
    int fd = memfd_create("kallsyms", 0);
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    lseek(fd, 0, SEEK_SET);
    int r = kallsyms_read(ret, fd);
    close(fd);
    return r;
}

static void check(const struct kallsyms *k, uint64_t address, const char *name, const char *module,
                  uint64_t base)
{
    struct kallsyms_name n;
    ck_assert(kallsyms_find(k, address, &n));
    ck_assert(bytes_is(n.name, name));
    ck_assert(bytes_is(n.module, module));
    ck_assert_uint_eq(n.base, base);
}

UNIT(functions_of_kernel_and_modules)
{
    struct kallsyms *k;
    struct kallsyms_name n;
    ck_assert_int_eq(read_text("ffffffff81000000 T _stext\n"
                               "ffffffff81000000 T _text\n"
                               "ffffffff81000000 t startup\n"
                               "ffffffff81000100 T do_it\n"
                               "ffffffff81000100 W do_it_alias\n"
                               "ffffffff81000180 d some_data\n"
                               "ffffffff810001f0 t __pfx_next\n"
                               "ffffffffc0002000 t later\t[nf_tables]\n"
                               "ffffffffc0001000 t first\t[nf_tables]\n"
                               "ffffffffc0500000 t bpf_prog_12_x\t[bpf]\n",
                               &k),
                     0);
    check(k, 0xffffffff81000000, "startup", "vmlinux", 0xffffffff81000000);
    check(k, 0xffffffff81000190, "do_it", "vmlinux", 0xffffffff81000000);
    check(k, 0xffffffff810001f8, "do_it", "vmlinux", 0xffffffff81000000); /* padding is nobody's */
    check(k, 0xffffffffc0001fff, "first", "nf_tables", 0xffffffffc0001000);
    check(k, 0xffffffffc0002001, "later", "nf_tables", 0xffffffffc0001000);
    check(k, 0xffffffffc0500001, "bpf_prog_12_x", "bpf", 0xffffffffc0500000);
    ck_assert(!kallsyms_find(k, 0xffffffff80ffffff, &n));
    ck_assert(!kallsyms_find(k, 0xffffffffc0900000, &n)); /* far behind the last */
    kallsyms_free(k);
}

UNIT(hidden_addresses_are_a_condition)
{
    struct kallsyms *k;
    ck_assert_int_eq(read_text("0000000000000000 T _text\n0000000000000000 T do_it\n", &k), KALLSYMS_HIDDEN);
    ck_assert_int_eq(read_text("", &k), -ENOENT);
    ck_assert_int_eq(read_text("nonsense\n\nzz T x\nffffffff81000100\n", &k), -ENOENT);
}
