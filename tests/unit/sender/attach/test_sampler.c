/* SPDX-License-Identifier: Apache-2.0 */
/* The real thing, where this machine allows it. */
#include "tests/lib/unit.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/base/buffer.h"
#include "proto/base/clock.h"
#include "proto/base/macros.h"
#include "sender/attach/sampler.h"
#include "sender/unwind/key.h"

struct seen {
    uint32_t pid, child;
    unsigned wants, mapped, whole;
    struct unwind_key key; /* of this program */
    uint64_t start, end;   /* its code */
    unsigned own, others, user_frames;
    const char *program; /* that the child begins */
    unsigned forks, execs, exits;
    unsigned as_parent, as_other, untold; /* the child's samples, by what it was told to be */
    unsigned rests, cut;
    size_t mapped_before;            /* of BPF maps: without a rest */
    unsigned own_rests;              /* that ended in this program's code */
    unsigned all_rests, first_rests; /* in the first place */
    struct sampler *sampler;
};

static void on_stack(void *user, const struct sample_head *head, const uint64_t *address)
{
    struct seen *s = user;
    s->own += head->pid == s->pid;
    s->others += head->pid != s->pid;
    if (head->pid == s->pid)
        s->user_frames += head->n_user;
    if (head->pid == s->pid && head->user_end == UNWIND_END_ROOT && !(head->flags & SAMPLE_GUESSED))
        s->whole++;
    s->cut += head->user_end == UNWIND_END_MISSING;
}

static void on_exec(void *user, const struct sample_head *head, const char *path)
{
    struct seen *s = user;
    s->execs += head->pid == s->child && strcmp(path, s->program) == 0;
}

/* Whether the kernel takes the least of programs from us: then it is not BPF that is not permitted. */
static bool takes_any_program(void)
{
    const struct bpf_insn nothing[] = {{.code = BPF_ALU64 | BPF_MOV | BPF_K}, {.code = BPF_JMP | BPF_EXIT}};
    int fd = bpf_prog_load(BPF_PROG_TYPE_PERF_EVENT, "nothing", "GPL", nothing, ARRAY_LEN(nothing), NULL);
    struct perf_event_attr clock = {
        .size = sizeof clock, .type = PERF_TYPE_SOFTWARE, .config = PERF_COUNT_SW_CPU_CLOCK, .disabled = 1};
    int perf = (int)syscall(SYS_perf_event_open, &clock, -1, 0, -1, PERF_FLAG_FD_CLOEXEC);
    bool does = fd >= 0 && perf >= 0 && access("/sys/kernel/btf/vmlinux", R_OK) == 0;
    if (fd >= 0)
        close(fd);
    if (perf >= 0)
        close(perf);
    return does;
}

static struct sampler *open_or_skip(const struct sampler_options *options, struct seen *seen)
{
    struct sampler *s;
    struct error e = {0};
    struct sampler_handler h = {on_stack, on_exec, seen};
    int r = sampler_open(&s, options, &h, &e);
    if (r == SAMPLER_REFUSED && !takes_any_program())
        unit_skip(e.text);
    ck_assert_msg(r == 0, "%s", e.text);
    return s;
}

/* Bytes of BPF maps that are mapped, which the kernel counts as ours, each time. */
static size_t mapped_maps(void)
{
    char line[512];
    unsigned long from, to;
    size_t n = 0;
    FILE *maps = unit_made(fopen("/proc/self/maps", "re"));
    while (fgets(line, sizeof line, maps))
        if (strstr(line, "bpf-map") && sscanf(line, "%lx-%lx", &from, &to) == 2)
            n += to - from;
    fclose(maps);
    return n;
}

/* Uses CPU until samples came or patience ends. */
static void work_until(struct sampler *s, const unsigned *count, unsigned enough)
{
    uint64_t deadline = clock_monotonic() + unit_patience(10 * (uint64_t)NSEC_PER_SEC);
    while (*count < enough && clock_monotonic() < deadline)
        ck_assert_int_ge(sampler_drain(s), 0);
}

UNIT(a_busy_process_is_sampled_and_filters_hold)
{
    struct seen seen = {.pid = (uint32_t)getpid()};
    struct sampler *s =
        open_or_skip(&(struct sampler_options){.frequency = 997, .only_pid = (uint32_t)getpid()}, &seen);
    struct error e = {0};
    ck_assert_int_eq(sampler_start(s, &e), 0);
    work_until(s, &seen.own, 20);
    ck_assert_uint_ge(seen.own, 20);
    ck_assert_uint_eq(seen.others, 0);
    ck_assert_uint_gt(seen.user_frames, 0);
    ck_assert_uint_ge(sampler_counts(s).taken, 20);
    ck_assert_uint_eq(sampler_counts(s).lost, 0);
    ck_assert_uint_ge(sampler_follow_cpus(s), 1);
    sampler_close(s);
}

/* The most that the verifier has processed of one of our programs; 0: this kernel does not say (5.16). */
static unsigned most_verified(void)
{
    char path[64], line[128];
    unsigned most = 0, n;
    for (int fd = 3; fd < 256; fd++) {
        snprintf(path, sizeof path, "/proc/self/fdinfo/%d", fd);
        FILE *info = fopen(path, "re");
        while (info && fgets(line, sizeof line, info))
            if (sscanf(line, "verified_insns: %u", &n) == 1)
                most = max_of(most, n);
        if (info)
            fclose(info);
    }
    return most;
}

/* A loop inside a step that is verified with all that comes behind, or a number that is known all the way,
 * makes tens of thousands more of it, and nothing else tells. */
UNIT(the_verifier_is_not_asked_too_much)
{
    struct seen seen = {0};
    struct sampler *s = open_or_skip(&(struct sampler_options){.frequency = 19}, &seen);
    const unsigned most = most_verified();
    ck_assert_msg(most < 32000, "%u", most);
    sampler_close(s);
    if (most == 0)
        unit_skip("this kernel does not say what was verified");
}

static void on_want(void *user, const struct sample_want *want)
{
    struct seen *s = user;
    s->wants += want->head.pid == s->pid || want->head.pid == s->child;
}

/* The code whose rows are missing is this program's: its walk is at its end, and says so. */
static void on_rest(void *user, const struct sample_head *head, const uint64_t *body)
{
    struct seen *s = user;
    struct sample_head back = *head;
    const struct unwind_rest *rest = sampler_rest(s->sampler, head);
    unit_made((void *)rest);
    ck_assert_uint_le(mapped_maps() - s->mapped_before, 2 * sizeof *rest + 2 * 4096);
    s->all_rests++;
    s->first_rests += head->rest == 0;
    s->rests += head->pid == s->pid && rest->has & 1;
    s->own_rests += head->pid == s->pid && rest->at.ip >= s->start && rest->at.ip < s->end;
    back.kind = SAMPLE_STACK;
    sampler_return(s->sampler, &back, body, true);
}

static bool on_file(void *user, const struct sample_file *file)
{
    struct seen *s = user;
    uint64_t here = (uint64_t)(uintptr_t)on_file;
    if (file->pid == s->pid && file->start <= here && here < file->end) {
        s->mapped++;
        s->key = file->key;
        s->start = file->start;
        s->end = file->end;
    }
    return true;
}

/* Puts the rows of whatever this process has mapped into the kernel's tables. */
static bool on_own_file(void *user, const struct sample_file *file)
{
    struct tables *t = user;
    char path[64];
    struct source source;
    struct rows_file *f;
    static struct rows rows;
    if (file->pid != (uint32_t)getpid() || file->key.inode == 0 || tables_file(t, &file->key))
        return true;
    snprintf(path, sizeof path, "/proc/self/map_files/%lx-%lx", (unsigned long)file->start,
             (unsigned long)file->end);
    int fd = open(path, O_RDONLY);
    ck_assert_int_ge(fd, 0);
    ck_assert(source_file(&source, fd) == 0 && rows_open(&f, &source) == 0);
    ck_assert_int_eq(
        tables_add(t, &file->key, &(struct unwind_file){.n_pages = rows_pages(f)}, clock_monotonic()), 0);
    for (uint32_t page = 0; page < rows_pages(f); page++) {
        rows_page(f, page, &rows);
        ck_assert_int_eq(tables_load(t, tables_file(t, &file->key), page, &rows, 0, clock_monotonic()), 0);
    }
    rows_close(f);
    close(fd);
    return true;
}

static bool on_file_of_one(void *user, const struct sample_file *file)
{
    struct seen *seen = user;
    ck_assert_uint_eq(file->pid, seen->pid);
    return on_file(user, file);
}

UNIT(the_files_of_one_process)
{
    struct seen seen = {.pid = (uint32_t)getpid()}, nobody = {.pid = (uint32_t)getpid()};
    struct sampler *s =
        open_or_skip(&(struct sampler_options){.frequency = 97, .only_pid = (uint32_t)getpid()}, &seen);
    ck_assert_int_eq(sampler_files_of(s, seen.pid, getuid(), on_file_of_one, &seen), 0);
    ck_assert_uint_ge(seen.mapped, 1);
    (void)sampler_files_of(s, INT_MAX, getuid(), on_file_of_one, &nobody); /* pids end at 4194304 */
    ck_assert_uint_eq(nobody.mapped, 0);
    sampler_close(s);
}

/* Where a function of the kernel begins; 0: that is hidden. */
static uint64_t kernel_function(const char *name)
{
    char line[512], is[256];
    unsigned long long address = 0;
    FILE *f = fopen("/proc/kallsyms", "re");
    ck_assert_ptr_nonnull(f);
    while (fgets(line, sizeof line, f))
        if (sscanf(line, "%llx %*c %255s", &address, is) == 2 && strcmp(is, name) == 0)
            break;
    fclose(f);
    return address;
}

UNIT(the_kernel_says_what_its_addresses_are_called)
{
    char line[64];
    struct seen seen = {.pid = (uint32_t)getpid()};
    cleanup(buffer_release) struct buffer text = {0};
    struct sampler *s =
        open_or_skip(&(struct sampler_options){.frequency = 97, .only_pid = (uint32_t)getpid()}, &seen);
    uint64_t address[2 * SAMPLE_ASKED + 1], begin = kernel_function("schedule_timeout");
    for (uint32_t i = 0; i < ARRAY_LEN(address); i++)
        address[i] = begin ? begin + i % 16 : 16 + i;
    ck_assert_int_eq(sampler_symbols(s, address, ARRAY_LEN(address), &text), 0);
    ck_assert_int_eq(buffer_add(&text, "", 1), 0);
    uint32_t n = 0;
    for (const char *at = (const char *)text.p; (at = strchr(at, '\n')); at++)
        n++;
    ck_assert_uint_eq(n, ARRAY_LEN(address));
    snprintf(line, sizeof line, begin ? "%llx schedule_timeout+0x1/0x" : "%llx 0x11\n",
             (unsigned long long)address[0]);
    ck_assert_ptr_nonnull(strstr((const char *)text.p, line));
    sampler_close(s);
}

UNIT(unknown_files_are_asked_for_and_known_ones_unwound)
{
    struct seen seen = {.pid = (uint32_t)getpid()};
    struct error e = {0};
    struct stat st;
    struct sampler *s =
        open_or_skip(&(struct sampler_options){.frequency = 997, .only_pid = (uint32_t)getpid()}, &seen);
    ck_assert_int_eq(sampler_files(s, on_file, &seen), 0);
    ck_assert_uint_ge(seen.mapped, 1);
    ck_assert_int_eq(stat("/proc/self/exe", &st), 0);
    ck_assert_uint_eq(seen.key.size, (uint64_t)st.st_size);
    ck_assert_uint_eq(seen.key.mtime, key_time(&st));
    seen.sampler = s;
    seen.mapped_before = mapped_maps();
    ck_assert_int_eq(sampler_start(s, &e), 0);
    work_until(s, &seen.own, 20);
    ck_assert_int_ge(sampler_wants(s, &(struct sampler_asked){on_want, on_rest, &seen}), 1);
    ck_assert_uint_ge(seen.rests, 1);
    work_until(s, &seen.cut, seen.rests); /* what was given back comes */
    ck_assert_uint_ge(seen.cut, seen.rests);
    ck_assert_uint_ge(sampler_counts(s).rests, seen.rests);
    /* now with rows */
    struct tables_backend backend;
    sampler_tables(s, &backend);
    struct tables *t = unit_made(tables_new(&backend, 4));
    ck_assert_int_eq(sampler_files(s, on_own_file, t), 0);
    seen.own = seen.whole = 0;
    work_until(s, &seen.whole, 50);
    ck_assert_uint_ge(seen.whole, 50);
    ck_assert_uint_ge(sampler_counts(s).end[UNWIND_END_ROOT], 50);
    sampler_stop(s);
    tables_free(t);
    sampler_close(s);
}

/* On one CPU, for each remembers for itself; and nothing is added, which would be a reason to look again. */
UNIT(a_file_that_was_refused_is_asked_for_again)
{
    struct seen seen = {.pid = (uint32_t)getpid()};
    struct error e = {0};
    cpu_set_t here;
    CPU_ZERO(&here);
    CPU_SET(sched_getcpu(), &here);
    ck_assert_int_eq(sched_setaffinity(0, sizeof here, &here), 0);
    struct sampler *s =
        open_or_skip(&(struct sampler_options){.frequency = 997, .only_pid = (uint32_t)getpid()}, &seen);
    seen.sampler = s;
    seen.mapped_before = mapped_maps();
    ck_assert_int_eq(sampler_files_of(s, seen.pid, getuid(), on_file, &seen), 0);
    ck_assert_int_eq(sampler_start(s, &e), 0);
    uint64_t deadline = clock_monotonic() + unit_patience(30 * (uint64_t)NSEC_PER_SEC);
    while (seen.own_rests < 3 && clock_monotonic() < deadline) {
        ck_assert_int_ge(sampler_drain(s), 0);
        ck_assert_int_ge(sampler_wants(s, &(struct sampler_asked){on_want, on_rest, &seen}), 0);
        for (volatile int i = 0; i < 1000000; i++) /* in this program's code, not in libraries' */
            ;
    }
    ck_assert_uint_ge(seen.own_rests, 3);
    ck_assert_uint_ge(seen.first_rests, 2); /* the first place serves again when none is under way */
    sampler_close(s);
}

/* A file that takes all the shards that are there from the start. */
static void fill_near(struct tables *t)
{
    static struct rows rows = {.n = UNWIND_PAGE_ROWS_MAX, .n_rules = 1};
    struct unwind_key key = {.inode = 1, .size = 1};
    ck_assert_int_eq(
        tables_add(t, &key, &(struct unwind_file){.n_pages = UNWIND_FILE_PAGES}, clock_monotonic()), 0);
    for (uint32_t i = 0; i < rows.n; i++)
        rows.row[i].low = (uint16_t)(i * 4);
    for (uint32_t i = 0; tables_counts(t).shards <= UNWIND_NEAR_SHARDS; i++)
        ck_assert_int_eq(tables_load(t, tables_file(t, &key), i, &rows, 0, clock_monotonic()), 0);
}

UNIT(rows_in_shards_made_later_serve_as_well_and_their_use_is_told)
{
    struct seen seen = {.pid = (uint32_t)getpid()};
    struct error e = {0};
    struct tables_backend backend;
    struct sampler *s =
        open_or_skip(&(struct sampler_options){.frequency = 997, .only_pid = (uint32_t)getpid()}, &seen);
    sampler_tables(s, &backend);
    struct tables *t = unit_made(tables_new(&backend, UNWIND_NEAR_SHARDS + 4));
    fill_near(t);
    ck_assert_int_eq(sampler_files(s, on_own_file, t), 0);
    ck_assert_int_eq(sampler_start(s, &e), 0);
    work_until(s, &seen.whole, 50);
    ck_assert_uint_ge(seen.whole, 50);
    /* The kernel side says so again in each second that they are used in. */
    memset(backend.used, 0, UNWIND_FILES * sizeof *backend.used);
    unsigned used = 0;
    for (int tries = 0; tries < 100 && !used; tries++) {
        seen.whole = 0;
        work_until(s, &seen.whole, 50);
        for (uint32_t i = 2; i < UNWIND_FILES; i++) /* 1 is the file above */
            used += ((volatile bpf_u32 *)backend.used)[i] != 0;
    }
    ck_assert_uint_ge(used, 1);
    ck_assert_uint_eq(backend.used[1], 0);
    sampler_stop(s);
    tables_free(t);
    sampler_close(s);
}

static void on_notice(void *user, const struct sample_head *head)
{
    struct seen *s = user;
    if (head->pid != s->child)
        return;
    s->forks += head->kind == SAMPLE_FORK && head->value == s->pid;
    s->exits += head->kind == SAMPLE_EXIT;
}

/* The samples and notices of a child, in the order of the ring. */
static void on_child_s(void *user, const struct sample_head *head, const uint64_t *address)
{
    struct seen *s = user;
    on_stack(user, head, address);
    if (head->pid != s->child)
        return;
    s->as_parent += s->forks && !s->execs;
    s->as_other += s->execs;
    s->untold += !s->forks;
}

static struct sampler *open_noticed(const struct sampler_options *options, struct seen *seen)
{
    struct error e = {0};
    sampler_close(open_or_skip(options, seen));
    struct sampler *s;
    struct sampler_handler h = {.stack = on_child_s, .exec = on_exec, .user = seen, .notice = on_notice};
    ck_assert_msg(sampler_open(&s, options, &h, &e) == 0, "%s", e.text);
    ck_assert_msg(sampler_start(s, &e) == 0, "%s", e.text);
    (void)sampler_follow_cpus(s);
    return s;
}

UNIT(who_is_sampled_is_told_of_before)
{
    struct seen seen = {.pid = (uint32_t)getpid(), .program = "/bin/dash"};
    struct sampler *s = open_noticed(&(struct sampler_options){.frequency = 997}, &seen);
    int go[2];
    ck_assert_int_eq(pipe2(go, O_NONBLOCK | O_CLOEXEC), 0);
    pid_t child = fork();
    if (child == 0) {
        char byte;
        while (read(go[0], &byte, 1) != 1)
            ;
        execl("/bin/dash", "dash", "-c", "while :; do :; done", (char *)NULL);
        _exit(127);
    }
    seen.child = (uint32_t)child;
    work_until(s, &seen.as_parent, 1);
    ck_assert_int_eq(write(go[1], "", 1), 1);
    work_until(s, &seen.as_other, 1);
    kill(child, SIGKILL);
    ck_assert_int_eq(waitpid(child, NULL, 0), child);
    work_until(s, &seen.exits, 1);
    close(go[0]);
    close(go[1]);
    sampler_close(s);
    ck_assert_uint_eq(seen.untold, 0);
    ck_assert_uint_eq(seen.forks, 1);
    ck_assert_uint_ge(seen.as_parent, 1);
    ck_assert_uint_eq(seen.execs, 1);
    ck_assert_uint_ge(seen.as_other, 1);
    ck_assert_uint_eq(seen.exits, 1);
}

/* Hundreds of processes a second that end before any clock hits them cost no notice. */
UNIT(who_is_not_sampled_is_not_told_of)
{
    struct seen seen = {.pid = (uint32_t)getpid(), .program = "/bin/true"};
    struct filter_rule own = {{.what = FILTER_PID, .id = seen.pid}, FILTER_INCLUDE};
    struct sampler *s =
        open_noticed(&(struct sampler_options){.frequency = 997, .rule = &own, .n_rules = 1}, &seen);
    work_until(s, &seen.own, 1);
    for (int i = 0; i < 20; i++) {
        pid_t child = fork();
        seen.child = (uint32_t)child;
        if (child == 0) {
            execl("/bin/true", "true", (char *)NULL);
            _exit(127);
        }
        ck_assert_int_eq(waitpid(child, NULL, 0), child);
        ck_assert_int_ge(sampler_drain(s), 0);
    }
    sampler_close(s);
    ck_assert_uint_eq(seen.forks + seen.execs + seen.exits, 0);
}

UNIT(who_finds_no_room_is_counted)
{
    struct seen seen = {0};
    struct sampler *s = open_or_skip(&(struct sampler_options){.frequency = 1}, &seen);
    const struct context_place place = {0};
    uint64_t refused = 0;
    for (uint32_t pid = 1; pid <= CONTEXT_PLACES + 3; pid++)
        refused += sampler_place(s, 0x40000000 + pid, &place) < 0;
    for (uint32_t pid = 1; pid <= CONTEXT_PLACES + 3; pid++)
        (void)sampler_place(s, 0x40000000 + pid, NULL);
    ck_assert_uint_eq(refused, 3);
    ck_assert_uint_eq(sampler_counts(s).places_refused, 3);
    ck_assert_int_eq(sampler_place(s, 0x40000001, &place), 0);
    sampler_close(s);
}

UNIT(one_user_s_contexts_leave_others_room)
{
    struct seen seen = {0};
    struct sampler *s = open_or_skip(&(struct sampler_options){.frequency = 1}, &seen);
    const struct context_place his = {.user = 1000}, another = {.user = 1001};
    const uint32_t first = 0x40000000;
    for (uint32_t i = 0; i < CONTEXT_PLACES; i++)
        ck_assert_int_eq(sampler_place(s, first + i, &his), 0);
    ck_assert_int_eq(sampler_place(s, first + CONTEXT_PLACES, &his), -E2BIG);
    for (uint32_t i = 1; i < CONTEXT_PLACES / 2; i++)
        ck_assert_int_eq(sampler_place(s, first + CONTEXT_PLACES + i, &another), 0);
    sampler_close(s);
}

static int put_runtime(struct sampler *s, uint32_t pid, uint32_t user)
{
    const struct runtime_place place = {.start = 1, .runtime = RUNTIME_CPYTHON, .user = user};
    return sampler_runtime(s, pid, &place);
}

static bool has_runtime(const struct sampler *s, uint32_t pid)
{
    struct runtime_place place;
    return sampler_runtime_of(s, pid, RUNTIME_CPYTHON, &place);
}

/* Whoever forks has his children known; they do not keep others' runtimes out. */
UNIT(one_user_s_runtimes_leave_others_room)
{
    struct seen seen = {0};
    struct sampler *s = open_or_skip(&(struct sampler_options){.frequency = 1}, &seen);
    const uint32_t own = (uint32_t)getpid(), first = 0x40000000, n = RUNTIME_PLACES / 2 - 2;
    ck_assert_int_eq(put_runtime(s, own, 1000), 0);
    pid_t child = fork();
    if (child == 0) {
        pause();
        _exit(0);
    }
    bool is_inherited = has_runtime(s, (uint32_t)child);
    for (uint32_t i = 0; i < n; i++)
        ck_assert_int_eq(put_runtime(s, first + i, 1000), 0);
    ck_assert_int_eq(put_runtime(s, first + n, 1000), 0); /* instead of who was never met */
    bool is_there = has_runtime(s, (uint32_t)child);
    kill(child, SIGKILL);
    ck_assert_int_eq(waitpid(child, NULL, 0), child);
    ck_assert(is_inherited && !is_there && has_runtime(s, own) && has_runtime(s, first));
    ck_assert_int_eq(put_runtime(s, first + n + 1, 1000), -E2BIG); /* he has most himself */
    ck_assert_uint_eq(sampler_counts(s).places_refused, 1);
    ck_assert_int_eq(put_runtime(s, first + n + 1, 0), 0);
    ck_assert(has_runtime(s, first + n + 1));
    sampler_close(s);
}

/* Nobody takes what is in the ring, until it has no room; then it is emptied, and samples come again. */
UNIT(a_ring_that_overflows_is_counted_and_goes_on)
{
    struct seen seen = {.pid = (uint32_t)getpid()};
    struct error e = {0};
    struct sampler *s = open_or_skip(&(struct sampler_options){.frequency = SAMPLER_FREQUENCY_MAX}, &seen);
    ck_assert_msg(sampler_start(s, &e) == 0, "%s", e.text);
    (void)sampler_follow_cpus(s);
    uint64_t deadline = clock_monotonic() + unit_patience(60 * (uint64_t)NSEC_PER_SEC);
    while (sampler_counts(s).lost < 100 && clock_monotonic() < deadline)
        ;
    ck_assert_uint_ge(sampler_counts(s).lost, 100);
    while (sampler_counts(s).notices_lost < 200 && clock_monotonic() < deadline) {
        pid_t child = fork();
        if (child == 0)
            _exit(0);
        ck_assert_int_eq(waitpid(child, NULL, 0), child);
    }
    ck_assert_uint_ge(sampler_counts(s).notices_lost, 200);
    ck_assert_int_gt(sampler_drain(s), 0);
    unsigned before = seen.own;
    work_until(s, &seen.own, before + 20);
    ck_assert_uint_ge(seen.own, before + 20);
    sampler_stop(s);
    ck_assert_int_ge(sampler_drain(s), 0);
    struct sampler_counts counts = sampler_counts(s);
    uint64_t told = seen.own + seen.others;
    ck_assert_uint_le(told + counts.lost, counts.taken);
    /* nobody here ends the walks that met rows which were not there */
    ck_assert_uint_ge(told + counts.lost + UNWIND_RESTS_MAX, counts.taken);
    sampler_close(s);
}
