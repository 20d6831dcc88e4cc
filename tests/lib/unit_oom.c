/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sanitizer/lsan_interface.h>

#include "proto/base/clock.h"
#include "tests/lib/library_oom.h"
#include "tests/lib/oom.h"
#include "tests/lib/unit.h"

#define CASE_SECONDS \
    120 /* of one run with a failure, on top of its waits and three ordinary runs; longer is a hang */
#define WAITS        8  /* in one run that end for want of what a failed allocation kept from coming */
#define SLOW_SECONDS 10 /* of CPU time, of its ordinary run: a case that takes longer is left out */
#define SLOW_BRIEFLY 3  /* the same, where all cases together have PROGRAM_MSEC */
#define PROGRAM_MSEC \
    1000 /* on all its cases, each having a like share of what is left: then places are left out */
#define WAIT_MSEC 250 /* and two ordinary runs' time is the most that a case may wait (unit_patience) */
#define ASAN_CODE 99
#define LEAK_CODE 98

/* Exit codes that cannot be mistaken for a case's own. */
const char *__asan_default_options(void);
const char *__ubsan_default_options(void);
const char *__asan_default_options(void)
{
    return "exitcode=99:allocator_may_return_null=1";
}
const char *__ubsan_default_options(void)
{
    return "exitcode=99:print_stacktrace=1";
}

/* A run that lets one of the case's places fail. */
struct run {
    uint64_t place;
    bool for_good;
    uint64_t patience; /* see unit_patience */
    unsigned seconds;  /* longer is a hang */
};

/* What is the same for all cases, and what has come together. */
static struct {
    struct oom_places *all, *mine; /* of all cases before, of this one */
    bool libraries;                /* their places, not ours */
    unsigned slow;                 /* seconds of CPU time */
    uint32_t left;                 /* cases */
    uint64_t end, until;           /* when all time is over, and this case's */
    uint64_t began, cpu;           /* at the start of this case */
    uint32_t left_out;
    uint32_t of_library[LIBRARY_OOM_N]; /* how many of `all` are theirs */
    uint32_t wrong;
} t;

static _Noreturn void in_child(struct unit_case *c, const struct run *run)
{
    /* check answers SIGALRM by killing the process group. */
    if (setpgid(0, 0) || !freopen("/dev/null", "w", stdout))
        _exit(1);
    Suite *suite = suite_create(c->test.name);
    TCase *tcase = tcase_create(c->test.name);
    tcase_set_timeout(tcase, 0);
    tcase_add_test(tcase, &c->test);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_set_fork_status(runner, CK_NOFORK);
    unit_patience_max = run->patience;
    alarm(run->seconds);
    oom_look_at_libraries(t.libraries);
    oom_fail(run->place, run->for_good);
    srunner_run_all(runner, CK_SILENT);
    oom_stop();
    /* A case that was cut short by an expectation leaves its things behind; one that ran through must not. */
    if (srunner_ntests_failed(runner) == 0 && __lsan_do_recoverable_leak_check())
        _exit(LEAK_CODE);
    _exit(0);
}

/* A hang, a crash or a sanitizer's report are wrong answers to a failed allocation; that the case's
 * expectations are not met is not. What went wrong, or NULL. */
static const char *run_in_child(struct unit_case *c, const struct run *run)
{
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0)
        in_child(c, run);
    int status = 0;
    while (waitpid(pid, &status, 0) < 0)
        ;
    if (WIFSIGNALED(status))
        return WTERMSIG(status) == SIGKILL ? "hangs" : strsignal(WTERMSIG(status));
    switch (WEXITSTATUS(status)) {
    case ASAN_CODE: return "is reported by a sanitizer";
    case LEAK_CODE: return "leaks";
    default: return NULL;
    }
}

/* A step that visits every one of n places once, far from the last: what a case that is cut short by the
 * clock has tried lies all over it. */
static uint32_t stride_of(uint32_t n)
{
    for (uint32_t step = (uint32_t)(0.618 * n); step > 1; step--) {
        uint32_t a = n, b = step;
        while (b != 0) {
            uint32_t rest = a % b;
            a = b;
            b = rest;
        }
        if (a == 1)
            return step;
    }
    return 1;
}

/* Fails once at this place, and then for good. */
static void try_place(struct unit_case *c, struct run *run, uint32_t at)
{
    int library = t.mine->library[at];
    run->place = t.mine->place[at];
    for (int for_good = 0; for_good < 2; for_good++) {
        run->for_good = for_good;
        const char *what = run_in_child(c, run);
        if (!what)
            continue;
        t.wrong++;
        printf("%s: out of memory at its place %u of %u%s%s: %s\n", c->test.name, at, t.mine->n,
               library < 0 ? "" : " (a library's)", for_good ? " and after" : "", what);
    }
}

/* ns of CPU time that cases have taken: those of processes that are over. */
static uint64_t cpu_of_cases(void)
{
    struct rusage cases;
    getrusage(RUSAGE_CHILDREN, &cases);
    return ((uint64_t)cases.ru_utime.tv_sec + (uint64_t)cases.ru_stime.tv_sec) * NSEC_PER_SEC +
           ((uint64_t)cases.ru_utime.tv_usec + (uint64_t)cases.ru_stime.tv_usec) * 1000;
}

bool unit_oom_begin(const struct unit_case *first, const char *filter)
{
    t.all = oom_places_new();
    t.mine = oom_places_new();
    if (!t.all || !t.mine)
        return false;
    library_oom_begin();
    const char *seconds = getenv("PG_OOM_SECONDS");
    t.libraries = getenv("PG_OOM_LIBRARIES") != NULL;
    t.slow = seconds ? SLOW_SECONDS : SLOW_BRIEFLY;
    t.end = clock_monotonic() +
            (seconds ? strtoull(seconds, NULL, 10) * NSEC_PER_SEC : PROGRAM_MSEC * (uint64_t)NSEC_PER_MSEC);
    for (const struct unit_case *c = first; c; c = c->next)
        t.left += !c->sweeps && (!filter || strstr(c->test.name, filter));
    return true;
}

void unit_oom_next(void)
{
    memset(t.mine, 0, sizeof *t.mine);
    t.began = clock_monotonic();
    t.cpu = cpu_of_cases();
    t.until = t.began + (t.began < t.end ? (t.end - t.began) / t.left : 0);
    t.left--;
}

void unit_oom_note(void)
{
    oom_look_at_libraries(t.libraries);
    oom_record(t.mine);
}

void unit_oom_noted(void)
{
    oom_stop();
}

/* Each place where the case takes memory, if no case before it had it: our own, or those of libraries. A
 * place is the first case's that has it, even if there is no time for it: which case meets which place does
 * not hang on the machine, only how many of them are tried. */
void unit_oom_try(struct unit_case *c)
{
    /* Not by the clock on the wall: which cases take part is not for the machine's load to say. */
    if (cpu_of_cases() - t.cpu > t.slow * (uint64_t)NSEC_PER_SEC) {
        printf("%s: left out%s: is slow with all the memory it wants\n", c->test.name,
               t.libraries ? " for libraries" : "");
        return;
    }
    uint64_t ordinary = clock_monotonic() - t.began;
    struct run run = {.patience = (uint64_t)WAIT_MSEC * NSEC_PER_MSEC + 2 * ordinary};
    run.seconds = CASE_SECONDS + (unsigned)((3 * ordinary + WAITS * run.patience) / NSEC_PER_SEC);
    uint32_t n = t.mine->n, step = stride_of(n), tried = 0;
    for (uint32_t i = 0, at = 0; i < n; i++, at = (at + step) % n) {
        if ((t.mine->library[at] >= 0) != t.libraries || oom_places_has(t.all, t.mine->place[at]))
            continue;
        int library = t.mine->library[at];
        if (oom_places_add(t.all, t.mine->place[at], library) && library >= 0)
            t.of_library[library]++;
        if (tried++ > 0 && clock_monotonic() >= t.until)
            t.left_out++;
        else
            try_place(c, &run, at);
    }
}

static void print_libraries(void)
{
    static const char *const names[] = LIBRARY_OOM_NAMES;
    const char *before = " (of libraries:";
    for (uint32_t i = 0; i < LIBRARY_OOM_N; i++)
        if (t.of_library[i] > 0) {
            printf("%s %s %u", before, names[i], t.of_library[i]);
            before = ",";
        }
    printf("%s", *before == ',' ? ")" : "");
}

uint32_t unit_oom_end(const char *program)
{
    printf("%s: %u places without memory", program, t.all->n - t.left_out);
    print_libraries();
    printf(", %u of their runs went wrong, %u places left out for time\n", t.wrong, t.left_out);
    return t.wrong;
}
