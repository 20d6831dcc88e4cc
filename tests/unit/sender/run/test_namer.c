/* SPDX-License-Identifier: Apache-2.0 */
/* Windows that are named on a thread of their own while samples, notices and sweeps go on. Where the kernel
 * begins comes from a pipe: naming takes as long as a case wants. */
#include "tests/lib/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "proto/base/clock.h"
#include "proto/io/loop.h"
#include "proto/otlp/view/profiles.h"
#include "sender/run/namer.h"

#define START    (500 * UINT64_C(10000000)) /* 500 ticks of 10 ms */
#define BASE     UINT64_C(0x10000000)
#define PATIENCE (30 * (uint64_t)NSEC_PER_SEC)

static char root[UNIT_PATH_MAX], kallsyms[UNIT_PATH_MAX + 16];
static struct collector collector;
static struct namer *namer;
static struct io_loop *loop;
static struct kinds kinds;
static struct {
    uint64_t hits;
    uint32_t requests, windows;
    struct namer_result result;
    uint8_t *bytes; /* of the last request */
    size_t n;
} got;

static void put(const char *name, const char *text, size_t n)
{
    char path[256];
    snprintf(path, sizeof path, "%s/7/%s", root, name);
    autoclose int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0600);
    ck_assert_int_eq(write(fd, text, n), (ssize_t)n);
}

#define PUT(name, text) put(name, text, sizeof(text) - 1)

/* A folder that looks like /proc, with process 7, which has this very program mapped, whole. */
static void make_root(void)
{
    char self[512] = "", line[700];
    struct stat st;
    unit_new_folder(root);
    snprintf(line, sizeof line, "%s/7", root);
    mkdir(line, 0700);
    ck_assert_int_gt(readlink("/proc/self/exe", self, sizeof self - 1), 0);
    ck_assert_int_eq(stat(self, &st), 0);
    int n = snprintf(line, sizeof line, "%lx-%lx r-xp 00000000 %02x:%02x %lu %s\n", (unsigned long)BASE,
                     (unsigned long)(BASE + (uint64_t)st.st_size), major(st.st_dev), minor(st.st_dev),
                     (unsigned long)st.st_ino, self);
    put("maps", line, (size_t)n);
    PUT("stat", "7 (x) S 1 7 7 0 -1 4194304 1 0 0 0 5 6 0 0 20 0 1 0 500 1000 1\n");
    PUT("status", "Name:\tx\nNSpid:\t7\n");
    PUT("cgroup", "0::/\n");
    PUT("environ", "OTEL_SERVICE_NAME=checkout\0");
    snprintf(line, sizeof line, "%s/7/exe", root);
    ck_assert_int_eq(symlink("/usr/bin/shop", line), 0);
}

static void on_request(void *user, struct buffer *out, uint64_t hits)
{
    got.hits += hits;
    got.requests++;
    free(got.bytes);
    got.bytes = NULL;
    if (buffer_reserve(out, PROFILES_PADDING) == 0) {
        got.n = out->n;
        got.bytes = buffer_take(out, &(size_t){0});
    }
}

static void on_done(void *user, const struct namer_result *result)
{
    got.windows++;
    got.result = *result;
    collector_sweep(&collector, clock_monotonic());
}

static const char symbols[] = "ffffffff81000000 T _text\n";

static int on_symbols(void *user, const uint64_t *address, uint32_t n, struct buffer *ret)
{
    return buffer_add_str(ret, "ffffffff81001000 do_syscall+0x1/0x100\n");
}

/* `is_gated`: naming waits for open_the_gate. */
static void begin(bool is_gated)
{
    make_root();
    snprintf(kallsyms, sizeof kallsyms, "%s/kallsyms", root);
    if (is_gated)
        ck_assert_int_eq(mkfifo(kallsyms, 0600), 0);
    else
        put("../kallsyms", symbols, sizeof symbols - 1);
    kinds_init(&kinds, 19);
    loop = unit_made(io_loop_new());
    ck_assert_int_eq(collector_init(&collector, root), 0);
    ck_assert_int_eq(namer_new(&namer, &(struct namer_options){.loop = loop,
                                                               .procs = collector.procs,
                                                               .kernel = {on_symbols, NULL, root},
                                                               .vdso = collector.vdso,
                                                               .request = on_request,
                                                               .done = on_done}),
                     0);
}

static void end(void)
{
    namer_stop(namer);
    loop = io_loop_free(loop);
    namer = namer_free(namer);
    collector_release(&collector);
    free(got.bytes);
}

/* A hit in the kernel, called from the begin of this program's code. */
static void feed(uint32_t tid, uint64_t time)
{
    uint64_t address[] = {0xffffffff81001000, BASE + (tid * 4096u) % (1u << 16)};
    struct sample_head h = {.kind = SAMPLE_STACK,
                            .pid = 7,
                            .start = START,
                            .time = time,
                            .tid = tid,
                            .n_kernel = 1,
                            .n_user = 1,
                            .user_end = UNWIND_END_ROOT,
                            .flags = SAMPLE_EXACT | SAMPLE_PLAIN,
                            .comm = "worker"};
    collector_stack(&collector, &h, address, clock_monotonic());
}

static void hand_on(void)
{
    struct request_facts facts = {
        .host_name = BYTES_LIT("box"), .kinds = &kinds, .start = 1, .end = 2, .max_bytes = REQUEST_BYTES_MAX};
    namer_begin(namer, &collector, &facts);
}

static void wait_until_idle(void)
{
    unit_until(!namer_is_busy(namer), io_loop_run_once(loop, NSEC_PER_SEC / 10));
}

/* Waits until where the kernel begins is asked for, and says it. */
static void open_the_gate(void)
{
    uint64_t patience = clock_monotonic() + unit_patience(PATIENCE);
    autoclose int fd = -1;
    while (fd < 0 && namer_is_busy(namer) && clock_monotonic() < patience) {
        fd = open(kallsyms, O_WRONLY | O_CLOEXEC | O_NONBLOCK); /* ENXIO: nobody reads yet */
        if (fd < 0)
            io_loop_run_once(loop, NSEC_PER_MSEC);
    }
    ck_assert_int_eq(write(fd, symbols, sizeof symbols - 1), (ssize_t)sizeof symbols - 1);
}

static bool request_says(const char *what)
{
    return got.bytes && memmem(got.bytes, got.n, what, strlen(what));
}

/* What happens to the process of the first window while that is being named: a program of another name, more
 * it says of itself, its end; and sweeps. */
static void go_on(uint32_t from, uint32_t to)
{
    struct sample_head h = {.kind = SAMPLE_EXEC, .pid = 7, .start = START};
    collector_exec(&collector, &h, "/usr/bin/other", clock_monotonic());
    PUT("environ", "OTEL_SERVICE_NAME=other\0");
    for (uint32_t i = from; i < to; i++) {
        feed(i, i);
        if (i % 64 == 0)
            collector_sweep(&collector, clock_monotonic() + PROCS_IDLE_NS);
    }
    h.kind = SAMPLE_EXIT;
    collector_notice(&collector, &h, clock_monotonic() - PROCS_ENDED_NS);
    collector_sweep(&collector, clock_monotonic());
}

UNIT(a_window_is_named_while_the_next_one_fills)
{
    begin(true);
    feed(1, 1);
    ck_assert_uint_eq(collector.window.process.n, 1);
    struct process *first = collector.window.process.p[0].process;
    feed(2, 2);
    hand_on();
    identity_free(first->identity); /* as procs does when there is a new one */
    first->identity = NULL;
    go_on(100, 600);
    io_loop_run_once(loop, 0);
    ck_assert(namer_is_busy(namer)); /* it has no kernel names yet */
    ck_assert_uint_eq(got.requests, 0);
    open_the_gate();
    go_on(600, 1100);
    wait_until_idle();
    ck_assert_uint_eq(got.windows, 1);
    ck_assert_int_eq(got.result.result, 0);
    ck_assert_uint_eq(got.result.lost, 0);
    ck_assert_uint_eq(got.hits, 2);
    ck_assert(request_says("do_syscall") && request_says("checkout") && request_says("shop"));
    ck_assert(!request_says("other")); /* it is as it was */
    ck_assert_uint_eq(collector.window.dropped + collector.refused, 0);
    hand_on();
    wait_until_idle();
    ck_assert_uint_eq(got.hits, 2 + 1000);
    ck_assert(request_says("do_syscall") && request_says("/usr/bin/shop"));
    ck_assert_uint_gt(namer_counts(namer)->binaries.files, 0);
    ck_assert_int_eq(namer_counts(namer)->kernel_state, 0);
    end();
}

UNIT(of_many_windows_no_sample_is_lost)
{
    uint64_t fed = 0;
    begin(false);
    for (uint32_t i = 0; i < 40; i++) {
        for (uint32_t j = 0; j < 50; j++, fed++)
            feed(j, fed);
        if (!namer_is_busy(namer))
            hand_on();
        if (i % 8 == 7)
            go_on(0, 0); /* another process from now on */
        io_loop_run_once(loop, 0);
    }
    wait_until_idle();
    if (window_samples(&collector.window)) {
        hand_on();
        wait_until_idle();
    }
    ck_assert_uint_eq(got.hits, fed);
    ck_assert_uint_ge(got.windows, 2);
    end();
}

UNIT(large_windows_come_as_several_requests)
{
    begin(false);
    for (uint32_t i = 0; i < 2000; i++)
        feed(i, i);
    struct request_facts facts = {.kinds = &kinds, .start = 1, .end = 2, .max_bytes = 16384};
    namer_begin(namer, &collector, &facts);
    wait_until_idle();
    ck_assert_uint_gt(got.requests, 1);
    ck_assert_uint_eq(got.windows, 1);
    ck_assert_uint_eq(got.hits, 2000);
    end();
}
