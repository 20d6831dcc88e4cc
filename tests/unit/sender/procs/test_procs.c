/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include <errno.h>
#include <stdio.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "proto/base/clock.h"
#include "sender/procs/procs.h"

/* A folder that looks like /proc, with process 7, begun 500 ticks (of 10 ms) after boot. */
static char root[UNIT_PATH_MAX];

static void put(const char *name, const char *text, size_t n)
{
    char path[256];
    snprintf(path, sizeof path, "%s/7/%s", root, name);
    autoclose int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0600);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, n), (ssize_t)n);
}

#define PUT(name, text) put(name, text, sizeof(text) - 1)
#define STAT(ticks)     "7 (x) S 1 7 7 0 -1 4194304 1 0 0 0 5 6 0 0 20 0 1 0 " ticks " 1000 1\n"
#define START           (500 * UINT64_C(10000000))

static void make_root(void)
{
    char path[256];
    unit_new_folder(root);
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
    struct procs *p = unit_made(procs_new(root));
    struct process *x = unit_made(procs_get(p, 7, 7, START, "thread", false, 1));
    ck_assert(bytes_is(x->path, "/usr/bin/shop"));
    ck_assert(bytes_is(x->name, "shop"));
    ck_assert(bytes_is(x->service_name, "checkout"));
    ck_assert_uint_eq(x->container_id.n, 64);
    ck_assert_uint_eq(x->namespace_pid, 1);
    ck_assert(!x->is_gone);
    ck_assert_uint_eq(unit_made(procs_region(p, x, 0x1800, true, 2))->inode, 5);
    ck_assert_ptr_eq(procs_get(p, 7, 7, START, "thread", false, 3), x);
    ck_assert_uint_eq(procs_count(p), 1);
    procs_free(p);
    remove_root();
}

UNIT(what_is_told_is_not_read)
{
    static const struct process_told told = {5, 6, BYTES_LIT("A=b\0OTEL_SERVICE_NAME=told\0")},
                                     part = {5, 6, {0}};
    make_root();
    PUT("environ", "OTEL_SERVICE_NAME=read\0");
    PUT("status", "Name:\tx\nPPid:\t1\nUid:\t0\t0\t0\t0\nNSpid:\t7\t1\n");
    struct procs *p = unit_made(procs_new(root));
    procs_told(p, 7, 9, START, "thread", &told, 1);
    struct process *x = unit_made(procs_get(p, 7, 9, START, "thread", false, 2));
    ck_assert(!x->is_gone && x->user == 5 && x->parent == 6 && x->namespace_pid == 7 && x->thread == 9);
    ck_assert(bytes_is(x->service_name, "told"));
    ck_assert(bytes_is(x->path, "/usr/bin/shop"));
    ck_assert_uint_eq(x->container_id.n, 64);
    (void)procs_get(p, 7, 7, START, "thread", false, 1 + PROCS_IDENTIFY_NS); /* it may be another's by now */
    ck_assert_uint_eq(x->user, 0);
    procs_exec(p, 8, START + 5, "/bin/short", 3); /* /proc knows it no more */
    procs_told(p, 8, 8, START + 5, "short", &told, 4);
    x = unit_made(procs_get(p, 8, 8, START + 5, "short", false, 5));
    ck_assert(x->is_gone && x->user == 5 && x->parent == 6 && bytes_is(x->service_name, "told"));
    /* in exit it has no environment any more; who has a large one keeps it */
    procs_exec(p, 9, START + 5, "/bin/shorter", 6);
    procs_told(p, 9, 9, START + 5, "shorter", &part, 7);
    x = unit_made(procs_get(p, 9, 9, START + 5, "shorter", false, 8));
    ck_assert(x->is_gone && x->user == 5 && x->parent == 6 && x->service_name.n == 0);
    procs_free(p);
    p = unit_made(procs_new(root));
    procs_told(p, 7, 9, START, "thread", &part, 1);
    x = unit_made(procs_get(p, 7, 9, START, "thread", false, 2));
    ck_assert(x->user == 5 && x->parent == 6 && bytes_is(x->service_name, "read"));
    procs_free(p);
    remove_root();
}

UNIT(what_is_wished_for_is_said_besides)
{
    static const char *const variables[] = {"STAGE", "MISSING", "PATH"};
    make_root();
    PUT("cmdline", "shop\0--token\0hunter2\0");
    PUT("environ", "PATH=/bin\0STAGE=canary\0OTEL_RESOURCE_ATTRIBUTES=process.command_line=evil\0");
    PUT("status", "Name:\tx\nUid:\t0\t0\t0\t0\nNSpid:\t7\t1\n");
    struct procs *p = unit_made(procs_new(root));
    unit_made(procs_wish(p, &(struct procs_wishes){true, true, variables, 3}) == 0 ? p : NULL);
    struct process *x = unit_made(procs_get(p, 7, 7, START, "thread", false, 1));
    const struct identity *said = unit_made(x->identity);
    ck_assert(bytes_is(identity_text(said, "process.command_line"), "shop --token ***"));
    ck_assert(bytes_is(identity_text(said, "process.owner"), "root"));
    ck_assert(bytes_is(identity_text(said, "process.environment_variable.STAGE"), "canary"));
    ck_assert(bytes_is(identity_text(said, "process.environment_variable.PATH"), "/bin"));
    ck_assert(bytes_is(identity_text(said, "process.environment_variable.MISSING"), ""));
    procs_free(p);
    p = unit_made(procs_new(root)); /* nobody asked */
    x = unit_made(procs_get(p, 7, 7, START, "thread", false, 1));
    ck_assert_ptr_null(x->identity);
    procs_free(p);
    remove_root();
}

/* Programs with large environments can be started by anybody, as many as they like. */
UNIT(whose_user_has_spent_his_allowance_has_the_beginning_of_his_environment_read)
{
    static char text[20000];
    for (int is_far = 0; is_far < 2; is_far++) {
        make_root();
        memset(text, 'a', sizeof text);
        static const char variable[] = "\0OTEL_SERVICE_NAME=checkout";
        memcpy(text + (is_far ? sizeof text - sizeof variable : 100), variable, sizeof variable);
        put("environ", text, sizeof text);
        struct procs *p = unit_made(procs_new(root));
        struct process who = {.user = UINT32_MAX}; /* what its status says: nothing */
        allowance_charge(procs_allowance(p, &who, 1), INT64_MAX / 4);
        struct process *x = unit_made(procs_get(p, 7, 7, START, "thread", false, 1));
        ck_assert(bytes_is(x->service_name, is_far ? "" : "checkout"));
        procs_free(p);
        remove_root();
    }
}

UNIT(a_program_begun_by_its_linker_has_its_own_name)
{
    char path[256];
    make_root();
    snprintf(path, sizeof path, "%s/7/exe", root);
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(symlink("/lib64/ld-linux-x86-64.so.2", path), 0);
    PUT("cmdline", "/lib64/ld-linux-x86-64.so.2\0--library-path\0/opt\0./shop\0");
    struct procs *p = unit_made(procs_new(root));
    struct process *x = unit_made(procs_get(p, 7, 7, START, "thread", false, 1));
    ck_assert(bytes_is(x->path, "/usr/bin/shop"));
    ck_assert(bytes_is(x->name, "shop"));
    procs_free(p);
    PUT("cmdline", "/lib64/ld-linux-x86-64.so.2\0/bin/sudo\0"); /* it is not there: somebody made it up */
    p = unit_made(procs_new(root));
    x = unit_made(procs_get(p, 7, 7, START, "thread", false, 1));
    ck_assert(bytes_is(x->name, "ld-linux-x86-64.so.2"));
    procs_free(p);
    remove_root();
}

UNIT(a_reused_pid_is_not_mistaken)
{
    make_root();
    struct procs *p = unit_made(procs_new(root));
    struct process *old =
        unit_made(procs_get(p, 7, 7, START - 50000000, "old", false, 1)); /* /proc shows a later one */
    ck_assert(old->is_gone);
    ck_assert(bytes_is(old->name, "old"));
    ck_assert_uint_eq(old->maps.regions.n, 0);
    ck_assert(procs_get(p, 7, 7, START, "new", false, 1) != old);
    procs_free(p);
    remove_root();
}

UNIT(an_execve_makes_another_process)
{
    make_root();
    struct procs *p = unit_made(procs_new(root));
    struct process *before = unit_made(procs_get(p, 7, 7, START, "x", false, 1));
    uint64_t serial = before->serial;
    process_hold(before);
    procs_exec(p, 7, START, "/bin/other", 2);
    procs_sweep(p, 2);
    ck_assert(bytes_is(before->name, "shop")); /* still there for who holds it */
    process_let_go(before);
    PUT("stat", STAT("900")); /* and it has ended since: what execve said is all we know */
    struct process *after = unit_made(procs_get(p, 7, 7, START, "x", false, 3));
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
    struct procs *p = unit_made(procs_new(root));
    struct process *x = unit_made(procs_get(p, 7, 7, START, "x", false, 1));
    PUT("maps", "1000-2000 r-xp 00000000 08:01 5 /usr/bin/shop\n5000-6000 r-xp 0 08:01 6 /lib/plugin.so\n");
    ck_assert_ptr_null(procs_region(p, x, 0x5500, true, 2));
    ck_assert_ptr_null(procs_region(p, x, 0x5500, false, 1 + 2 * PROCS_REFRESH_NS));
    ck_assert_uint_eq(unit_made(procs_region(p, x, 0x5500, true, 1 + 2 * PROCS_REFRESH_NS))->inode, 6);
    procs_free(p);
    remove_root();
}

/* A megabyte of mappings: 256 regions of a file with as long a path as there may be. */
static void put_long_maps(void)
{
    char *text = unit_made(malloc(2 << 20)), *to = text;
    for (uint32_t i = 0; i < 256; i++)
        to += sprintf(to, "%x000-%x000 r-xp 0 08:01 5 /%04040d\n", 2 * i + 1, 2 * i + 2, 0);
    put("maps", text, (size_t)(to - text));
    free(text);
}

UNIT(each_user_has_a_share_of_what_mappings_take)
{
    make_root();
    put_long_maps();
    struct procs *p = unit_made(procs_new(root));
    uint32_t kept[3] = {0};
    for (uint32_t i = 0; i < 90; i++) {
        char path[256];
        const struct process_told told = {1000 + i / 30, 1, BYTES_LIT("")};
        const uint32_t pid = 100 + i;
        snprintf(path, sizeof path, "%s/%u", root, pid);
        ck_assert_int_eq(symlink("7", path), 0);
        procs_told(p, pid, pid, START, "x", &told, 1);
        kept[i / 30] += unit_made(procs_get(p, pid, pid, START, "x", false, 1))->maps.regions.n > 0;
    }
    ck_assert_uint_eq(kept[0], 15);
    ck_assert_uint_ge(kept[1], 7);
    ck_assert_uint_ge(kept[2], 3);
    for (uint32_t i = 0; i < 15; i++)
        procs_exit(p, 100 + i, START, 1);
    procs_sweep(p, 1 + PROCS_ENDED_NS);
    struct process *x = unit_made(procs_get(p, 129, 129, START, "x", false, 1));
    ck_assert_ptr_nonnull(procs_region(p, x, 0x1500, true, 1 + PROCS_ENDED_NS)); /* there is room now */
    procs_free(p);
    remove_root();
}

/* Its mappings are dear to read, and most that are so young end before anybody needs them. */
UNIT(mappings_of_who_has_just_begun_are_read_when_a_frame_is_in_them)
{
    struct timespec t;
    char stat[160];
    make_root();
    clock_gettime(CLOCK_BOOTTIME, &t);
    t.tv_sec += 3600; /* however slow this machine is */
    uint64_t start = (uint64_t)t.tv_sec * NSEC_PER_SEC;
    int n = snprintf(stat, sizeof stat, STAT("%llu"), (unsigned long long)t.tv_sec * 100);
    put("stat", stat, (size_t)n);
    struct procs *p = unit_made(procs_new(root));
    struct process *x = unit_made(procs_get(p, 7, 7, start, "x", false, 1));
    ck_assert(!x->is_gone && bytes_is(x->name, "shop"));
    ck_assert_uint_eq(x->maps.regions.n, 0);
    procs_follow(p, x, 10, true, 1);
    ck_assert_uint_eq(x->maps.regions.n, 0);
    ck_assert_uint_eq(unit_made(procs_region(p, x, 0x1800, true, 2))->inode, 5);
    procs_free(p);
    remove_root();
}

UNIT(mappings_that_have_not_changed_are_not_read_to_see_who_it_is)
{
    make_root();
    struct procs *p = unit_made(procs_new(root));
    uint64_t now = 1;
    struct process *x = unit_made(procs_get(p, 7, 7, START, "x", false, now));
    procs_follow(p, x, 10, false, now);
    for (uint32_t changes = 10; changes <= 12; changes += 2) {
        procs_follow(p, x, changes, false, now);
        now += 2 * PROCS_IDENTIFY_MAX_NS;
        (void)procs_get(p, 7, 7, START, "x", false, now); /* it was read before there was a count */
        ck_assert_uint_eq(x->maps_tried, now);
        now += 2 * PROCS_IDENTIFY_MAX_NS;
        (void)procs_get(p, 7, 7, START, "x", false, now);
        ck_assert_uint_lt(x->maps_tried, now);
        ck_assert_uint_gt(x->identify_at, now);
    }
    procs_free(p);
    remove_root();
}

UNIT(changes_that_the_kernel_counts_are_followed_less_and_less_often_where_they_are_of_no_code)
{
    make_root();
    struct procs *p = unit_made(procs_new(root));
    uint64_t now = 1;
    struct process *x = unit_made(procs_get(p, 7, 7, START, "x", false, now));
    procs_follow(p, x, 10, true, now);
    PUT("maps", "1000-2000 r-xp 00000000 08:01 50 /lib/other.so\n"); /* where another one was */
    now += 2 * PROCS_REFRESH_NS;
    procs_follow(p, x, 10, true, now);
    ck_assert_uint_eq(unit_made(procs_region(p, x, 0x1800, true, now))->inode, 5);
    procs_follow(p, x, 12, true, now);
    ck_assert_uint_eq(unit_made(procs_region(p, x, 0x1800, true, now))->inode, 50);
    /* Each change is of no code: 100 ms, 200 ms, … from one reading to the next. */
    unsigned readings = 0;
    for (uint32_t changes = 14; changes < 2014; changes += 2) {
        now += 30000000;
        procs_follow(p, x, changes, true, now);
        readings += x->maps_tried == now;
    }
    ck_assert_uint_ge(readings, 7);
    ck_assert_uint_le(readings, 12); /* of 30 seconds */
    PUT("maps", "1000-2000 r-xp 00000000 08:01 51 /lib/third.so\n");
    now += PROCS_FOLLOW_MAX_NS;
    procs_follow(p, x, 3000, true, now);
    ck_assert_uint_eq(unit_made(procs_region(p, x, 0x1800, true, now))->inode, 51);
    PUT("maps", "1000-2000 r-xp 00000000 08:01 52 /lib/fourth.so\n");
    now += 2 * PROCS_REFRESH_NS; /* code changes: looked at soon again */
    procs_follow(p, x, 3002, true, now);
    ck_assert_uint_eq(unit_made(procs_region(p, x, 0x1800, true, now))->inode, 52);
    procs_free(p);
    remove_root();
}

UNIT(a_region_is_opened_only_if_it_is_the_same_file)
{
    char path[256];
    struct stat st;
    make_root();
    struct procs *p = unit_made(procs_new(root));
    struct process *x = unit_made(procs_get(p, 7, 7, START, "x", false, 1));
    snprintf(path, sizeof path, "%s/7/maps", root); /* any file will do */
    ck_assert_int_eq(stat(path, &st), 0);
    struct region region = {.start = 1,
                            .end = 2,
                            .inode = st.st_ino,
                            .major = major(st.st_dev),
                            .minor = minor(st.st_dev),
                            .path = bytes_str(path)};
    int fd = procs_open_region(p, x, &region);
    ck_assert_int_ge(fd, 0);
    close(fd);
    region.inode++;
    ck_assert_int_eq(procs_open_region(p, x, &region), -ESTALE);
    region.inode--;
    region.minor++; /* the same number on another device */
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
    struct procs *p = unit_made(procs_new(root));
    struct process *x = unit_made(procs_get(p, 7, 7, START, "x", false, 1));
    PUT("root/tmp/perf-1.map", "1000 10 f\n");
    int fd = procs_open_perf_map(p, x);
    ck_assert_int_ge(fd, 0);
    close(fd);
    snprintf(path, sizeof path, "%s/7/root/tmp/perf-1.map", root);
    if (getuid() == 0) { /* /tmp is everybody's: who is neither the process's user nor root says nothing */
        ck_assert_int_eq(chown(path, 65534, 65534), 0);
        ck_assert_int_eq(procs_open_perf_map(p, x), -EPERM);
    }
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_lt(procs_open_perf_map(p, x), 0); /* and ours is not asked instead */
    ck_assert_int_eq(symlink("/etc/passwd", path), 0);
    ck_assert_int_lt(procs_open_perf_map(p, x), 0);
    procs_free(p);
    remove_root();
}

/* How many processes of a user's are taken that are told of from `first` on, of `most`. */
static uint32_t tell_of(struct procs *p, uint32_t user, uint32_t first, uint32_t most)
{
    const struct process_told told = {user, 1, BYTES_LIT("")};
    uint32_t n = procs_count(p);
    for (uint32_t i = 0; i < most; i++) {
        procs_exec(p, first + i, 1, "/bin/x", 1); /* whose is told then */
        procs_told(p, first + i, first + i, 1, "x", &told, 1);
    }
    return procs_count(p) - n;
}

UNIT(each_user_has_a_share_of_the_processes)
{
    struct procs *p = unit_made(procs_new("/nonexistent"));
    uint32_t first = 1;
    for (uint32_t user = 1000, share = PROCS_MAX / 2; user < 1004; user++, share /= 2, first += PROCS_MAX)
        ck_assert_uint_eq(tell_of(p, user, first, PROCS_MAX), share);
    ck_assert_ptr_nonnull(procs_get(p, 1, 1, 1, "x", false, 1));
    ck_assert_uint_eq(tell_of(p, 1000, first, 1), 0);
    for (uint32_t i = 0; i < PROCS_MAX / 2; i++)
        procs_exit(p, 1 + i, 1, 1);
    procs_sweep(p, 1 + PROCS_ENDED_NS);
    ck_assert_uint_eq(procs_count(p), PROCS_MAX / 2 - PROCS_MAX / 16);
    ck_assert_uint_eq(tell_of(p, 1000, first, 1), 1);
    procs_free(p);
}

UNIT(there_is_a_limit)
{
    struct procs *p = unit_made(procs_new("/nonexistent"));
    for (uint32_t i = 0; i < PROCS_MAX / 2; i++)
        ck_assert_ptr_nonnull(procs_get(p, i + 1, i + 1, 1, "x", true, 1));
    ck_assert_ptr_null(procs_get(p, PROCS_MAX + 1, PROCS_MAX + 1, 1, "x", true, 1)); /* whose is not known */
    procs_free(p);
}

UNIT(a_child_is_its_parent_s_program_until_it_says_otherwise)
{
    make_root();
    struct procs *p = unit_made(procs_new(root));
    (void)procs_get(p, 7, 7, START, "x", false, 1);
    procs_fork(p, 8, START + 5, 7, START, 2);
    struct process *child =
        unit_made(procs_get(p, 8, 8, START + 5, "x", false, 3)); /* /proc knows it no more */
    ck_assert(child->is_gone);
    ck_assert(bytes_is(child->path, "/usr/bin/shop"));
    ck_assert(bytes_is(child->service_name, "checkout"));
    ck_assert_uint_eq(child->container_id.n, 64);
    procs_fork(p, 9, START + 6, 1234, START, 2); /* of a parent nobody knows */
    ck_assert_uint_eq(procs_count(p), 2);
    procs_exec(p, 8, START + 5, "/bin/other", 4);
    ck_assert(bytes_is(unit_made(procs_get(p, 8, 8, START + 5, "x", false, 5))->name, "other"));
    procs_free(p);
    remove_root();
}

UNIT(one_that_ended_is_forgotten_soon_and_one_only_told_of_is_kept)
{
    make_root();
    struct procs *p = unit_made(procs_new(root));
    ck_assert_int_eq(procs_scan(p, 1), 0);
    ck_assert_uint_eq(procs_count(p), 1);
    procs_sweep(p, 1 + 10 * PROCS_IDLE_NS);
    ck_assert_uint_eq(procs_count(p), 1); /* alive, though never sampled */
    PUT("stat", STAT("900"));             /* ended, and its number is another's */
    struct process *x = unit_made(procs_get(p, 7, 7, START + 1234567, "thread", false, 2));
    ck_assert_uint_eq(procs_count(p), 1); /* the same: /proc knows ticks only */
    ck_assert(x->is_gone && bytes_is(x->name, "shop"));
    procs_exit(p, 7, START + 1234567, 5);
    procs_exit(p, 99, 1, 5);
    procs_sweep(p, 5 + PROCS_ENDED_NS / 2);
    ck_assert_uint_eq(procs_count(p), 1);
    procs_sweep(p, 5 + PROCS_ENDED_NS);
    ck_assert_uint_eq(procs_count(p), 0);
    procs_free(p);
    remove_root();
}

UNIT(what_it_says_of_itself_is_kept_apart_from_what_we_know)
{
    make_root();
    PUT("environ", "OTEL_RESOURCE_ATTRIBUTES=service.name=cart,host.name=evil,team=blue\0");
    PUT("status", "Name:\tx\nPPid:\t12\nUid:\t1000\t0\t0\t0\nNSpid:\t7\t1\n");
    struct procs *p = unit_made(procs_new(root));
    struct process *x = unit_made(procs_get(p, 7, 7, START, "thread", false, 1));
    ck_assert(bytes_is(x->service_name, "cart"));
    ck_assert_uint_eq(x->parent, 12);
    ck_assert_uint_eq(x->user, 1000);
    ck_assert_uint_eq(x->identity->n, 2);
    ck_assert(bytes_is(identity_text(x->identity, "team"), "blue"));
    procs_free(p);
    remove_root();
}

UNIT(one_that_is_held_outlives_its_end_but_for_its_maps)
{
    make_root();
    struct procs *p = unit_made(procs_new(root));
    struct process *x = unit_made(procs_get(p, 7, 7, START, "thread", false, 1));
    process_hold(x);
    struct identity *said = identity_hold(x->identity);
    ck_assert_uint_eq(unit_made(said)->n, 1);
    ck_assert_ptr_nonnull(procs_region(p, x, 0x1800, false, 1));
    procs_exit(p, 7, START, 5);
    procs_sweep(p, 5 + PROCS_ENDED_NS);
    ck_assert_uint_eq(procs_count(p), 1);
    ck_assert(bytes_is(x->path, "/usr/bin/shop") && x->container_id.n == 64);
    ck_assert_ptr_null(procs_region(p, x, 0x1800, false, 6));
    process_let_go(x);
    procs_sweep(p, 5 + PROCS_ENDED_NS);
    ck_assert_uint_eq(procs_count(p), 0);
    ck_assert(bytes_is(identity_text(said, "service.name"), "checkout"));
    identity_free(said);
    procs_free(p);
    remove_root();
}

/* A process context appears some time after the process was first seen. */
UNIT(a_process_context_is_found_later)
{
    struct {
        char signature[8];
        uint32_t version, size;
        uint64_t published, payload;
        uint8_t bytes[31];
    } memory = {{'O', 'T', 'E', 'L', '_', 'C', 'T', 'X'}, 2, 23, 5, 32, {0x0a, 0x15, 0x0a, 0x13, 0x0a, 0x0c}};
    memcpy(memory.bytes + 6, "service.name\x12\x03\x0a\x01z", 17);
    make_root();
    PUT("environ", "PATH=/bin\0");
    struct procs *p = unit_made(procs_new(root));
    struct process *x = unit_made(procs_get(p, 7, 7, START, "thread", false, 1));
    ck_assert_uint_eq(x->service_name.n, 0);
    put("mem", (const char *)&memory, sizeof memory); /* at address 0 of what stands for its memory */
    PUT("maps", "0-1000 rw-p 00000000 00:01 9 /memfd:OTEL_CTX (deleted)\n"
                "1000-2000 r-xp 00000000 08:01 5 /usr/bin/shop\n");
    (void)procs_get(p, 7, 7, START, "thread", false, 2);
    ck_assert_uint_eq(x->service_name.n, 0); /* not yet looked */
    (void)procs_get(p, 7, 7, START, "thread", false, 2 + PROCS_IDENTIFY_NS);
    ck_assert_uint_eq(x->published, 0); /* address 0 stands for none: nothing is mapped there */
    PUT("maps", "1000-2000 r-xp 00000000 08:01 5 /usr/bin/shop\n"
                "2000-3000 rw-p 00000000 00:01 9 [anon:OTEL_CTX]\n");
    char padded[0x2000 + sizeof memory] = {0};
    memory.payload = 0x2000 + 32;
    memcpy(padded + 0x2000, &memory, sizeof memory);
    put("mem", padded, sizeof padded);
    (void)procs_get(p, 7, 7, START, "thread", false, 3 + 4 * PROCS_IDENTIFY_NS);
    ck_assert_uint_eq(x->published, 5);
    ck_assert(bytes_is(x->service_name, "z"));
    procs_free(p);
    remove_root();
}
