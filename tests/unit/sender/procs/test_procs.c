#include "tests/lib/unit.h"

#include <errno.h>
#include <stdio.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/base/clock.h"
#include "sender/procs/procs.h"

/* A folder that looks like /proc, with process 7, begun 500 ticks (of 10 ms) after boot. */
static char root[64];

static void put(const char *name, const char *text, size_t n)
{
    char path[256];
    snprintf(path, sizeof path, "%s/7/%s", root, name);
    int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0600);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, n), (ssize_t)n);
    close(fd);
}

#define PUT(name, text) put(name, text, sizeof(text) - 1)
#define STAT(ticks)     "7 (x) S 1 7 7 0 -1 4194304 1 0 0 0 5 6 0 0 20 0 1 0 " ticks " 1000 1\n"
#define START           (500 * UINT64_C(10000000))

static void make_root(void)
{
    char path[256];
    snprintf(root, sizeof root, "/tmp/pg-procs-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(root));
    snprintf(path, sizeof path, "%s/7", root);
    mkdir(path, 0700);
    PUT("stat", STAT("500"));
    PUT("maps", "1000-2000 r-xp 00000000 08:01 5 /usr/bin/shop\n");
    PUT("cgroup", "0::/docker/0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\n");
    PUT("status", "Name:\tx\nNSpid:\t7\t1\n");
    PUT("environ", "PATH=/bin\0OTEL_SERVICE_NAME=checkout\0");
    snprintf(path, sizeof path, "%s/7/exe", root);
    ck_assert_int_eq(symlink("/usr/bin/shop (deleted)", path), 0);
}

static void remove_root(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", root);
    ck_assert_int_eq(system(command), 0);
}

UNIT(a_process_is_read_once)
{
    make_root();
    struct procs *p = procs_new(root);
    struct process *x = procs_get(p, 7, START, "thread", false, 1);
    ck_assert_ptr_nonnull(x);
    ck_assert(bytes_is(x->path, "/usr/bin/shop"));
    ck_assert(bytes_is(x->name, "shop"));
    ck_assert(bytes_is(x->service_name, "checkout"));
    ck_assert_uint_eq(x->container_id.n, 64);
    ck_assert_uint_eq(x->namespace_pid, 1);
    ck_assert(!x->is_gone);
    ck_assert_uint_eq(procs_region(p, x, 0x1800, true, 2)->inode, 5);
    ck_assert_ptr_eq(procs_get(p, 7, START, "thread", false, 3), x);
    ck_assert_uint_eq(procs_count(p), 1);
    procs_free(p);
    remove_root();
}

UNIT(a_reused_pid_is_not_mistaken)
{
    make_root();
    struct procs *p = procs_new(root);
    struct process *old = procs_get(p, 7, START - 50000000, "old", false, 1); /* /proc shows a later one */
    ck_assert(old->is_gone);
    ck_assert(bytes_is(old->name, "old"));
    ck_assert_uint_eq(old->maps.n, 0);
    ck_assert(procs_get(p, 7, START, "new", false, 1) != old);
    procs_free(p);
    remove_root();
}

UNIT(an_execve_makes_another_process)
{
    make_root();
    struct procs *p = procs_new(root);
    struct process *before = procs_get(p, 7, START, "x", false, 1);
    uint64_t serial = before->serial;
    procs_exec(p, 7, START, "/bin/other", 2);
    ck_assert(bytes_is(before->name, "shop")); /* still there for the samples that point at it */
    PUT("stat", STAT("900"));                  /* and it has ended since: what execve said is all we know */
    struct process *after = procs_get(p, 7, START, "x", false, 3);
    ck_assert_uint_ne(after->serial, serial);
    ck_assert(after->is_gone);
    ck_assert(bytes_is(after->path, "/bin/other"));
    ck_assert(bytes_is(after->name, "other"));
    procs_sweep(p, 4);
    ck_assert_uint_eq(procs_count(p), 1);
    procs_sweep(p, 5 + PROCS_IDLE_NS);
    ck_assert_uint_eq(procs_count(p), 0);
    procs_free(p);
    remove_root();
}

UNIT(maps_are_read_again_but_not_at_any_rate)
{
    make_root();
    struct procs *p = procs_new(root);
    struct process *x = procs_get(p, 7, START, "x", false, 1);
    PUT("maps", "1000-2000 r-xp 00000000 08:01 5 /usr/bin/shop\n5000-6000 r-xp 0 08:01 6 /lib/plugin.so\n");
    ck_assert_ptr_null(procs_region(p, x, 0x5500, true, 2));
    ck_assert_ptr_null(procs_region(p, x, 0x5500, false, 1 + 2 * PROCS_REFRESH_NS));
    ck_assert_uint_eq(procs_region(p, x, 0x5500, true, 1 + 2 * PROCS_REFRESH_NS)->inode, 6);
    procs_free(p);
    remove_root();
}

UNIT(a_region_is_opened_only_if_it_is_the_same_file)
{
    char path[256];
    struct stat st;
    make_root();
    struct procs *p = procs_new(root);
    struct process *x = procs_get(p, 7, START, "x", false, 1);
    snprintf(path, sizeof path, "%s/7/maps", root); /* any file will do */
    ck_assert_int_eq(stat(path, &st), 0);
    struct region region = {.start = 1, .end = 2, .inode = st.st_ino, .path = bytes_str(path)};
    int fd = procs_open_region(p, x, &region);
    ck_assert_int_ge(fd, 0);
    close(fd);
    region.inode++;
    ck_assert_int_eq(procs_open_region(p, x, &region), -ESTALE);
    region.inode = 0;
    ck_assert_int_eq(procs_open_region(p, x, &region), -ENOENT);
    procs_free(p);
    remove_root();
}

UNIT(a_perf_map_is_found_by_the_inner_pid_and_is_no_link)
{
    char path[256];
    make_root();
    snprintf(path, sizeof path, "%s/7/root", root);
    mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/7/root/tmp", root);
    mkdir(path, 0700);
    struct procs *p = procs_new(root);
    struct process *x = procs_get(p, 7, START, "x", false, 1);
    PUT("root/tmp/perf-1.map", "1000 10 f\n");
    int fd = procs_open_perf_map(p, x);
    ck_assert_int_ge(fd, 0);
    close(fd);
    snprintf(path, sizeof path, "%s/7/root/tmp/perf-1.map", root);
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(symlink("/etc/passwd", path), 0);
    ck_assert_int_lt(procs_open_perf_map(p, x), 0);
    procs_free(p);
    remove_root();
}

UNIT(there_is_a_limit)
{
    struct procs *p = procs_new("/nonexistent");
    for (uint32_t i = 0; i < PROCS_MAX; i++)
        ck_assert_ptr_nonnull(procs_get(p, i + 1, 1, "x", true, 1));
    ck_assert_ptr_null(procs_get(p, PROCS_MAX + 1, 1, "x", true, 1));
    procs_free(p);
}
