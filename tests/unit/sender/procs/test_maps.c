/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sender/procs/maps.h"

static int text_fd(const char *text, size_t n)
{
    int fd = memfd_create("maps", 0);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, n), (ssize_t)n);
    lseek(fd, 0, SEEK_SET);
    return fd;
}

static const char sample[] = "55d0c0000000-55d0c0001000 r--p 00000000 fe:01 1234   /usr/bin/x\n"
                             "55d0c0001000-55d0c0005000 r-xp 00001000 fe:01 1234   /usr/bin/x\n"
                             "7f0000000000-7f0000010000 rwxp 00000000 00:00 0 \n"
                             "7f0000010000-7f0000020000 r-xp 0000a000 08:12 99    /tmp/with space (deleted)\n"
                             "7ffd00000000-7ffd00001000 r-xp 00000000 00:00 0     [vdso]\n"
                             "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0  [vsyscall]\n";

UNIT(executable_regions_are_kept)
{
    cleanup(maps_release) struct maps m = {0};
    autoclose int fd = text_fd(sample, sizeof sample - 1);
    ck_assert_int_eq(maps_read(&m, fd, MAPS_BYTES_MAX), 0);
    ck_assert_uint_eq(m.regions.n, 5);
    struct region *r = maps_find(&m, 0x55d0c0004fff);
    ck_assert_ptr_nonnull(r);
    ck_assert_uint_eq(r->offset, 0x1000);
    ck_assert_uint_eq(r->inode, 1234);
    ck_assert_uint_eq(r->major, 0xfe);
    ck_assert_uint_eq(r->minor, 1);
    ck_assert(bytes_is(r->path, "/usr/bin/x"));
    ck_assert_ptr_null(maps_find(&m, 0x55d0c0005000));
    ck_assert_ptr_null(maps_find(&m, 0x55d0c0000000)); /* readable only */
    ck_assert(bytes_is(maps_find(&m, 0x7f0000000000)->path, ""));
    ck_assert(bytes_is(maps_find(&m, 0x7f0000010000)->path, "/tmp/with space (deleted)"));
    ck_assert(bytes_is(maps_find(&m, 0x7ffd00000fff)->path, "[vdso]"));
    ck_assert_ptr_nonnull(maps_find(&m, 0xffffffffff600000));
}

UNIT(hostile_lines_are_skipped)
{
    static const char *const bad[] = {"",
                                      "-",
                                      "1-",
                                      "1000-2000",
                                      "1000-2000 r-xp",
                                      "2000-1000 r-xp 0 0:0 0 ",
                                      "1000-1000 r-xp 0 0:0 0 ",
                                      "11111111111111111-22222222222222222 r-xp 0 0:0 0 ",
                                      "1000-2000 r-xp zz 0:0 0 ",
                                      "1000-2000 r-xp 0 0-0 0 ",
                                      "1000-2000 r-xp 0 ffffffffff:0 0 ",
                                      "1000-2000 r-xp 0 0:0 99999999999999999999 ",
                                      "1000-2000 r--p 0 0:0 0 "};
    cleanup(maps_release) struct maps m = {0};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert_msg(maps_line(&m, bytes_str(bad[i])) == 0, "%s", bad[i]);
    ck_assert_int_eq(maps_line(&m, BYTES_LIT("1000-3000 r-xp 0 0:0 0 ")), 1);
    ck_assert_int_eq(maps_line(&m, BYTES_LIT("2000-4000 r-xp 0 0:0 0 ")), 0); /* overlaps */
    ck_assert_uint_eq(m.regions.n, 1);
}

UNIT(the_number_of_regions_is_limited)
{
    cleanup(maps_release) struct maps m = {0};
    char line[64];
    for (uint64_t i = 0; i < MAPS_REGIONS_MAX + 10; i++) {
        int n =
            snprintf(line, sizeof line, "%lx-%lx r-xp 0 0:0 0 ", (i + 1) * 0x2000, (i + 1) * 0x2000 + 0x1000);
        ck_assert_int_eq(maps_line(&m, bytes_of(line, (size_t)n)), i < MAPS_REGIONS_MAX);
    }
    ck_assert_uint_eq(m.regions.n, MAPS_REGIONS_MAX);
}

UNIT(a_line_without_end_does_not_hide_the_next)
{
    cleanup(maps_release) struct maps m = {0};
    size_t n = 3 * MAPS_LINE_MAX;
    autofree char *text = malloc(n + 64);
    memset(text, 'a', n);
    size_t more = (size_t)sprintf(text + n, "\n1000-3000 r-xp 0 0:0 7 /x\n");
    autoclose int fd = text_fd(text, n + more);
    ck_assert_int_eq(maps_read(&m, fd, MAPS_BYTES_MAX), 0);
    ck_assert_uint_eq(m.regions.n, 1);
    ck_assert_uint_eq(m.regions.p[0].inode, 7);
}

UNIT(our_own_maps_hold_this_function)
{
    cleanup(maps_release) struct maps m = {0};
    autoclose int fd = open("/proc/self/maps", O_RDONLY);
    ck_assert_int_eq(maps_read(&m, fd, MAPS_BYTES_MAX), 0);
    struct region *r = maps_find(&m, (uint64_t)(uintptr_t)text_fd);
    ck_assert_ptr_nonnull(r);
    ck_assert(bytes_is(bytes_after_last(r->path, '/'), "unit_sender_procs_test_maps"));
}

UNIT(packed_maps_say_the_same)
{
    static const char text[] = "1000-2000 r-xp 0 08:01 7 /usr/bin/x\n3000-4000 r-xp 0 0:0 0 [vdso]\n"
                               "5000-6000 r-xp 0 0:0 0 \n7000-8000 rw-p 00000000 00:01 9 [anon:OTEL_CTX]\n";
    cleanup(maps_release) struct maps m = {0};
    maps_pack(&m); /* nothing is nothing */
    ck_assert_uint_eq(m.regions.n, 0);
    autoclose int fd = text_fd(text, sizeof text - 1);
    for (int again = 0; again < 2; again++) { /* packed ones can be read anew */
        ck_assert_int_eq((int)lseek(fd, 0, SEEK_SET), 0);
        ck_assert_int_eq(maps_read(&m, fd, MAPS_BYTES_MAX), 0);
        maps_pack(&m);
        ck_assert_uint_eq(m.regions.n, 3);
        ck_assert_uint_eq(m.context, 0x7000);
        ck_assert(bytes_is(unit_made(maps_find(&m, 0x1fff))->path, "/usr/bin/x"));
        ck_assert_uint_eq(unit_made(maps_find(&m, 0x1000))->inode, 7);
        ck_assert(bytes_is(unit_made(maps_find(&m, 0x3000))->path, "[vdso]"));
        ck_assert_uint_eq(unit_made(maps_find(&m, 0x5000))->path.n, 0);
        ck_assert_int_eq(*unit_made(maps_find(&m, 0x5000))->path.p, 0);
    }
}

UNIT(a_file_is_no_process_context_whatever_its_name)
{
    cleanup(maps_release) struct maps m = {0};
    ck_assert_int_eq(maps_line(&m, BYTES_LIT("1000-2000 rw-p 00000000 00:52 9 /memfd:OTEL_CTX")), 0);
    ck_assert_int_eq(maps_line(&m, BYTES_LIT("2000-3000 rw-p 00000000 08:01 9 /tmp/a [anon:OTEL_CTX]")), 0);
    ck_assert_int_eq(maps_line(&m, BYTES_LIT("3000-4000 rw-p 00000000 00:00 0 /x [anon:OTEL_CTX]")), 0);
    ck_assert_uint_eq(m.context, 0);
    ck_assert_int_eq(maps_line(&m, BYTES_LIT("4000-5000 rw-p 00000000 00:00 0           [anon:OTEL_CTX]")),
                     0);
    ck_assert_uint_eq(m.context, 0x4000);
}

static void check_asked(int fd, const struct maps *m, uint64_t address)
{
    struct region got;
    const struct region *want = unit_made(maps_find(m, address));
    ck_assert_int_eq(maps_query(fd, address, &got), 0);
    ck_assert_uint_eq(got.start, want->start);
    ck_assert_uint_eq(got.end, want->end);
    ck_assert_uint_eq(got.offset, want->offset);
    ck_assert_uint_eq(got.inode, want->inode);
    ck_assert_uint_eq(got.major, want->major);
    ck_assert_uint_eq(got.minor, want->minor);
    ck_assert(bytes_is(got.path, bytes_is(want->path, "[vdso]") ? "[vdso]" : ""));
}

UNIT(the_kernel_is_asked_for_one_region_of_code)
{
    struct maps m = {0};
    struct region unused;
    int data = 0, fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC), other = text_fd("x", 1);
    ck_assert_int_eq(maps_query(other, 0, &unused), MAPS_CANNOT);
    close(other);
    if (maps_query(fd, 0, &unused) == MAPS_CANNOT) { /* before Linux 6.11 */
        close(fd);
        return;
    }
    void *generated = mmap(NULL, 8192, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_int_eq(maps_read(&m, fd, MAPS_BYTES_MAX), 0);
    check_asked(fd, &m, (uintptr_t)&check_asked);
    check_asked(fd, &m, (uintptr_t)generated + 4096);
    check_asked(fd, &m, getauxval(AT_SYSINFO_EHDR));
    ck_assert_int_eq(maps_query(fd, (uintptr_t)&data, &unused), MAPS_NONE);
    munmap(generated, 8192); /* and it says so at once */
    ck_assert_int_eq(maps_query(fd, (uintptr_t)generated + 4096, &unused), MAPS_NONE);
    close(fd);
    maps_release(&m);
}

UNIT(the_kernel_tells_of_all_code_what_the_text_says)
{
    cleanup(maps_release) struct maps text = {0}, told = {0};
    int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC), other = text_fd("x", 1);
    ck_assert_int_eq(maps_read_code(&told, other, 1), MAPS_CANNOT);
    close(other);
    int r = maps_read_code(&told, fd, MAPS_REGIONS_MAX);
    ck_assert_int_eq(maps_read(&text, fd, MAPS_BYTES_MAX), 0);
    uint32_t n = text.regions.n - bytes_is(vec_last(&text.regions)->path, "[vsyscall]");
    ck_assert(r == MAPS_CANNOT || (r == 0 && told.regions.n == n));
    for (uint32_t i = 0; i < told.regions.n; i++) {
        const struct region *a = &told.regions.p[i], *b = &text.regions.p[i];
        ck_assert(a->start == b->start && a->end == b->end && a->offset == b->offset);
        ck_assert(a->inode == b->inode && a->major == b->major && a->minor == b->minor);
        ck_assert(bytes_eq(a->path, b->path));
    }
    if (r == 0) {
        ck_assert_int_eq(maps_read_code(&told, fd, 2), 0);
        ck_assert_uint_eq(told.regions.n, 2);
    }
    close(fd);
}

UNIT(several_regions_are_asked_for_at_once)
{
    int data = 0, fd = -1, own = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    struct region want;
    int is = maps_query(own, (uintptr_t)&check_asked, &want);
    for (int turn = 0; turn < 2; turn++) { /* opened, and open already */
        struct maps_asked asked[] = {{.address = (uintptr_t)&check_asked}, {.address = (uintptr_t)&data}};
        ck_assert_int_eq(maps_ask(&fd, (uint32_t)getpid(), 0, asked, 2), 0);
        ck_assert_int_ge(fd, 0);
        ck_assert_int_eq(asked[0].found, is);
        ck_assert_int_eq(asked[1].found, is == MAPS_CANNOT ? MAPS_CANNOT : MAPS_NONE);
        ck_assert(is != 0 || (asked[0].region.start == want.start && asked[0].region.end == want.end));
    }
    close(fd);
    close(own);
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    waitpid(child, NULL, 0);
    struct maps_asked asked = {.address = 4096};
    fd = -1;
    ck_assert_int_lt(maps_ask(&fd, (uint32_t)child, 0, &asked, 1), 0);
    ck_assert_int_lt(fd, 0);
}

UNIT(of_who_has_ended_the_kernel_tells_no_region)
{
    char path[64];
    struct region unused;
    pid_t child = fork();
    if (child == 0) {
        pause();
        _exit(0);
    }
    snprintf(path, sizeof path, "/proc/%d/maps", (int)child);
    autoclose int fd = open(path, O_RDONLY | O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    int r = maps_query(fd, (uintptr_t)&check_asked, &unused);
    ck_assert(r == MAPS_GONE || r == MAPS_CANNOT);
}
