/* The real thing, where this machine allows it. */
#include "tests/lib/unit.h"

#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/base/clock.h"
#include "sender/attach/sampler.h"

struct seen {
    uint32_t pid, child;
    unsigned own, others, user_frames, execs;
};

static void on_stack(void *user, const struct sample_head *head, const uint64_t *address)
{
    struct seen *s = user;
    s->own += head->pid == s->pid;
    s->others += head->pid != s->pid;
    if (head->pid == s->pid)
        s->user_frames += head->n_user;
}

static void on_exec(void *user, const struct sample_head *head, const char *path)
{
    struct seen *s = user;
    s->execs += head->pid == s->child && strcmp(path, "/bin/true") == 0;
}

static struct sampler *open_or_skip(const struct sampler_options *options, struct seen *seen)
{
    struct sampler *s;
    struct error e = {0};
    struct sampler_handler h = {on_stack, on_exec, seen};
    int r = sampler_open(&s, options, &h, &e);
    if (r == SAMPLER_REFUSED)
        unit_skip(e.text);
    ck_assert_msg(r == 0, "%s", e.text);
    return s;
}

/* Uses CPU until samples came or ten seconds passed. */
static void work_until(struct sampler *s, const unsigned *count, unsigned enough)
{
    uint64_t deadline = clock_monotonic() + 10 * (uint64_t)NSEC_PER_SEC;
    while (*count < enough && clock_monotonic() < deadline)
        ck_assert_int_ge(sampler_drain(s), 0);
}

UNIT(a_busy_process_is_sampled_and_filters_hold)
{
    struct seen seen = {.pid = (uint32_t)getpid()};
    struct sampler *s =
        open_or_skip(&(struct sampler_options){.frequency = 997, .only_pid = (uint32_t)getpid()}, &seen);
    work_until(s, &seen.own, 20);
    ck_assert_uint_ge(seen.own, 20);
    ck_assert_uint_eq(seen.others, 0);
    ck_assert_uint_gt(seen.user_frames, 0);
    ck_assert_uint_ge(sampler_counts(s).taken, 20);
    ck_assert_uint_eq(sampler_counts(s).lost, 0);
    ck_assert_uint_ge(sampler_follow_cpus(s), 1);
    sampler_close(s);
}

UNIT(an_execve_is_told)
{
    struct seen seen = {0};
    struct sampler *s = open_or_skip(&(struct sampler_options){.frequency = 1}, &seen);
    pid_t child = fork();
    if (child == 0) {
        execl("/bin/true", "true", (char *)NULL);
        _exit(127);
    }
    seen.child = (uint32_t)child;
    ck_assert_int_eq(waitpid(child, NULL, 0), child);
    work_until(s, &seen.execs, 1);
    ck_assert_uint_eq(seen.execs, 1);
    sampler_close(s);
}
