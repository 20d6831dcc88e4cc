/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lanes by themselves: who comes when, what comes back, and what happens at each end.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gateway/serve/lanes/lanes.h"
#include "proto/base/clock.h"
#include "proto/base/macros.h"
#include "proto/io/loop.h"
#include "tests/lib/unit.h"

#define JOBS_MAX 1024

/* A lane's context: it writes down who came, and stops at a gate as long as that is shut. */
struct track {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool shut;
    int n_at_gate;
    int order[JOBS_MAX], n;
    int tasks;
};

struct world {
    struct io_loop *loop;
    struct lanes *lanes;
    struct lane_inbox *inbox;
    struct track track;
    int n_wanted, n_back, n_refused;
    bool adds; /* `wanted` adds a lane at once */
    int fails; /* …or gives up */
};

static struct world world;

struct work {
    struct lane_job job;
    int number;
    bool is_back;
};

static struct work works[JOBS_MAX];

static void work(struct lane_job *job, void *lane)
{
    struct track *t = lane;
    pthread_mutex_lock(&t->lock);
    t->n_at_gate++;
    pthread_cond_broadcast(&t->changed);
    while (t->shut)
        pthread_cond_wait(&t->changed, &t->lock);
    t->n_at_gate--;
    t->order[t->n++] = container_of(job, struct work, job)->number;
    pthread_mutex_unlock(&t->lock);
}

static void done(struct lane_job *job)
{
    struct work *w = container_of(job, struct work, job);
    ck_assert(!w->is_back);
    w->is_back = true;
    world.n_back++;
    world.n_refused += job->refused;
}

static void wanted(void *context)
{
    struct world *w = context;
    w->n_wanted++;
    if (w->adds)
        ck_assert_int_eq(lanes_add(w->lanes, &w->track), 0);
    else if (w->fails)
        lanes_give_up(w->lanes);
}

static void begin(uint32_t n_max, size_t waiting_bytes, bool adds)
{
    world = (struct world){.adds = adds, .track.shut = true};
    memset(works, 0, sizeof works);
    pthread_mutex_init(&world.track.lock, NULL);
    pthread_cond_init(&world.track.changed, NULL);
    struct lanes_options o = {n_max, waiting_bytes, wanted, &world};
    world.loop = unit_made(io_loop_new());
    world.lanes = unit_made(lanes_new(&o));
    world.inbox = unit_made(lane_inbox_new(world.lanes, world.loop, done));
}

static void set_gate(bool shut)
{
    pthread_mutex_lock(&world.track.lock);
    world.track.shut = shut;
    pthread_cond_broadcast(&world.track.changed);
    pthread_mutex_unlock(&world.track.lock);
}

static void await_at_gate(int n)
{
    pthread_mutex_lock(&world.track.lock);
    while (world.track.n_at_gate < n)
        pthread_cond_wait(&world.track.changed, &world.track.lock);
    pthread_mutex_unlock(&world.track.lock);
}

static int put(int number, uint64_t client, size_t bytes)
{
    struct work *w = &works[number];
    w->number = number;
    w->job = (struct lane_job){.work = work, .client = client, .bytes = bytes};
    return lane_put(world.inbox, &w->job);
}

static void await_back(int n)
{
    unit_until(world.n_back >= n, io_loop_run_once(world.loop, NSEC_PER_SEC / 10));
    ck_assert_int_eq(world.n_back, n);
}

static void end(void)
{
    set_gate(false);
    lane_inbox_close(world.inbox);
    io_loop_free(world.loop);
    lanes_free(world.lanes);
    pthread_cond_destroy(&world.track.changed);
    pthread_mutex_destroy(&world.track.lock);
}

static void order_is(const int *want, int n)
{
    ck_assert_int_eq(world.track.n, n);
    for (int i = 0; i < n; i++)
        ck_assert_msg(world.track.order[i] == want[i], "place %d: job %d, not %d", i, world.track.order[i],
                      want[i]);
}

UNIT(clients_take_turns_and_each_ones_jobs_are_in_order)
{
    begin(1, 1 << 20, true);
    ck_assert_int_eq(put(0, 9, 1), 0);
    await_at_gate(1); /* the rest waits */
    for (int i = 1; i <= 4; i++)
        ck_assert_int_eq(put(i, 1, 1), 0);
    ck_assert_int_eq(put(5, 2, 1), 0);
    ck_assert_int_eq(put(6, 2, 1), 0);
    ck_assert_int_eq(put(7, 3, 1), 0);
    ck_assert_uint_eq(lanes_waiting(world.lanes), 7);
    set_gate(false);
    await_back(8);
    order_is((const int[]){0, 1, 5, 7, 2, 6, 3, 4}, 8);
    ck_assert_int_eq(world.n_refused, 0);
    ck_assert_uint_eq(lanes_taken(world.lanes), 8);
    end();
}

UNIT(a_client_that_comes_again_is_behind_those_who_wait)
{
    begin(1, 1 << 20, true);
    ck_assert_int_eq(put(0, 1, 1), 0);
    await_at_gate(1);
    ck_assert_int_eq(put(1, 2, 1), 0);
    ck_assert_int_eq(put(2, 3, 1), 0);
    ck_assert_int_eq(put(3, 1, 1), 0);
    ck_assert_int_eq(put(4, 2, 1), 0);
    set_gate(false);
    await_back(5);
    order_is((const int[]){0, 1, 2, 3, 4}, 5);
    end();
}

UNIT(a_lane_is_asked_for_when_none_is_idle_and_never_more_than_there_may_be)
{
    begin(2, 1 << 20, true);
    ck_assert_uint_eq(lanes_n(world.lanes), 0);
    ck_assert_int_eq(put(0, 1, 1), 0);
    ck_assert_int_eq(world.n_wanted, 1);
    await_at_gate(1);
    ck_assert_int_eq(put(1, 1, 1), 0);
    ck_assert_int_eq(world.n_wanted, 2);
    await_at_gate(2); /* at once: both cores are used */
    ck_assert_int_eq(put(2, 1, 1), 0);
    ck_assert_int_eq(world.n_wanted, 2);
    ck_assert_uint_eq(lanes_n(world.lanes), 2);
    set_gate(false);
    await_back(3);
    end();
}

UNIT(one_after_another_needs_one_lane)
{
    begin(4, 1 << 20, true);
    set_gate(false);
    for (int i = 0; i < 200; i++) {
        ck_assert_int_eq(put(i, 1, 1), 0);
        await_back(i + 1); /* when it hears of it the lane is idle again */
    }
    ck_assert_uint_eq(lanes_n(world.lanes), 1);
    ck_assert_int_eq(world.n_wanted, 1);
    ck_assert_uint_eq(lanes_taken(world.lanes), 200);
    end();
}

UNIT(without_a_lane_what_waits_comes_back_refused_and_it_is_asked_again)
{
    begin(1, 1 << 20, false);
    world.fails = 1;
    ck_assert_int_eq(put(0, 1, 1), 0);
    await_back(1);
    ck_assert_int_eq(world.n_refused, 1);
    ck_assert_int_eq(put(1, 1, 1), 0);
    await_back(2);
    ck_assert_int_eq(world.n_wanted, 2);
    ck_assert_int_eq(world.track.n, 0);
    end();
}

UNIT(giving_up_on_one_more_lane_harms_nothing_that_waits_for_the_first)
{
    begin(2, 1 << 20, true);
    ck_assert_int_eq(put(0, 1, 1), 0);
    await_at_gate(1);
    world.adds = false;
    world.fails = 1;
    ck_assert_int_eq(put(1, 1, 1), 0);
    ck_assert_int_eq(world.n_wanted, 2);
    set_gate(false);
    await_back(2);
    ck_assert_int_eq(world.n_refused, 0);
    end();
}

UNIT(a_client_has_its_part_of_the_places_and_all_together_theirs)
{
    begin(1, 1 << 20, true);
    int n = 0;
    ck_assert_int_eq(put(n++, 0, 1), 0);
    await_at_gate(1);
    for (uint32_t i = 0; i < LANES_WAITING_CLIENT_MAX; i++)
        ck_assert_int_eq(put(n++, 1, 1), 0);
    ck_assert_int_eq(put(n, 1, 1), LANE_FULL);
    for (bool is_more = true; is_more;) { /* 20 others, each as much as it gets */
        is_more = false;
        for (uint64_t client = 2; client <= 21; client++)
            if (put(n, client, 1) == 0) {
                is_more = true;
                n++;
            }
    }
    ck_assert_uint_ge(lanes_waiting(world.lanes), LANES_WAITING_MAX * 9 / 10);
    ck_assert_int_eq(put(n, 1, 1), LANE_FULL);
    for (int i = 0; i < 8; i++)
        ck_assert_int_eq(put(n++, 200, 1), 0); /* and there is room for one who comes then */
    for (uint64_t client = 201; put(n, client, 1) == 0; client++)
        n++;
    ck_assert_uint_le(lanes_waiting(world.lanes), LANES_WAITING_MAX);
    set_gate(false);
    await_back(n);
    ck_assert_int_eq(world.n_refused, 0);
    end();
}

UNIT(bytes_are_bounded_too_but_what_is_alone_waits_however_large_it_is)
{
    begin(1, 1000, true);
    ck_assert_int_eq(put(0, 0, 5000), 0); /* taken up: it waits no more */
    await_at_gate(1);
    ck_assert_int_eq(put(1, 1, 400), 0);
    ck_assert_int_eq(put(2, 1, 101), LANE_FULL); /* half of it is one client's */
    ck_assert_int_eq(put(2, 1, 100), 0);
    ck_assert_int_eq(put(3, 2, 251), LANE_FULL); /* another has as much as it leaves */
    ck_assert_int_eq(put(3, 2, 250), 0);
    ck_assert_int_eq(put(4, 1, 1), LANE_FULL); /* who would have more than is left gives way to … */
    ck_assert_int_eq(put(4, 3, 100), 0);       /* …who has less */
    set_gate(false);
    await_back(5);
    set_gate(true);
    ck_assert_int_eq(put(5, 0, 1), 0);
    await_at_gate(1);
    ck_assert_int_eq(put(6, 1, 5000), 0);
    ck_assert_int_eq(put(7, 2, 1), LANE_FULL);
    set_gate(false);
    await_back(7);
    end();
}

UNIT(what_waits_can_be_taken_back_and_what_is_worked_on_cannot)
{
    begin(1, 1000, true);
    ck_assert_int_eq(put(0, 0, 1), 0);
    await_at_gate(1);
    for (int i = 1; i <= 5; i++)
        ck_assert_int_eq(put(i, 1 + i % 2, 10), 0);
    ck_assert(!lane_cancel(&works[0].job));
    ck_assert(lane_cancel(&works[3].job)); /* in the middle … */
    ck_assert(lane_cancel(&works[2].job)); /* … the first … */
    ck_assert(lane_cancel(&works[4].job)); /* … and with it its queue */
    ck_assert_uint_eq(lanes_waiting(world.lanes), 2);
    set_gate(false);
    await_back(3);
    order_is((const int[]){0, 1, 5}, 3);
    ck_assert(!lane_cancel(&works[1].job)); /* it has come back */
    end();
}

UNIT(closing_waits_for_what_is_worked_on_and_refuses_the_rest)
{
    begin(1, 1 << 20, true);
    struct lane_inbox *other = unit_made(lane_inbox_new(world.lanes, world.loop, done));
    ck_assert_int_eq(put(0, 1, 1), 0);
    await_at_gate(1);
    for (int i = 1; i < 4; i++)
        ck_assert_int_eq(put(i, 1, 1), 0);
    works[4].number = 4;
    works[4].job = (struct lane_job){.work = work, .client = 1, .bytes = 1};
    ck_assert_int_eq(lane_put(other, &works[4].job), 0);
    set_gate(false); /* it may come back now, but only by the loop or by closing */
    lane_inbox_close(world.inbox);
    ck_assert_int_ge(world.n_back, 4);
    ck_assert(works[0].is_back && !works[0].job.refused);
    for (int i = 1; i < 4; i++)
        ck_assert(works[i].is_back);
    await_back(5); /* the other inbox's was not harmed, and came by the loop */
    ck_assert(!works[4].job.refused);
    lane_inbox_close(other);
    end();
}

static void task(void *arg, void *lane)
{
    struct track *t = lane;
    ck_assert_ptr_eq(arg, &world);
    pthread_mutex_lock(&t->lock);
    t->tasks = t->n; /* how many jobs were done before it */
    t->order[JOBS_MAX - 1]++;
    pthread_mutex_unlock(&t->lock);
}

UNIT(a_task_comes_before_the_next_job_and_at_the_end_none_is_lost)
{
    begin(2, 1 << 20, true);
    ck_assert_int_eq(lanes_run(world.lanes, 0, task, &world), LANES_STOPPED); /* there is none yet */
    ck_assert_int_eq(put(0, 1, 1), 0);
    await_at_gate(1);
    world.adds = false;
    ck_assert_int_eq(put(1, 1, 1), 0);
    ck_assert_int_eq(put(2, 1, 1), 0);
    ck_assert_int_eq(lanes_run(world.lanes, 0, task, &world), 0);
    ck_assert_int_eq(lanes_run(world.lanes, 1, task, &world), LANES_STOPPED);
    set_gate(false);
    await_back(3);
    ck_assert_int_eq(world.track.tasks, 1);
    ck_assert_int_eq(lanes_run(world.lanes, 0, task, &world), 0);
    lane_inbox_close(world.inbox);
    lanes_stop(world.lanes);
    ck_assert_int_eq(world.track.order[JOBS_MAX - 1], 2);
    ck_assert_int_eq(lanes_run(world.lanes, 0, task, &world), LANES_STOPPED);
    ck_assert_int_eq(put(3, 1, 1), LANE_FULL);
    end();
}

/* Several workers and an owner at once, all in each other's way. */
struct sender {
    pthread_t thread;
    struct io_loop *loop;
    struct lane_inbox *inbox;
    struct lanes *lanes;
    int sent, cancelled;
    atomic_int back;
};

struct sent {
    struct lane_job job;
    struct sender *from;
};

static void count_work(struct lane_job *job, void *lane)
{
    atomic_fetch_add((atomic_int *)lane, 1);
}

static void count_back(struct lane_job *job)
{
    autofree struct sent *s = container_of(job, struct sent, job);
    s->from->back++;
}

static atomic_int counted, asked;

/* Or all may have been sent, and taken back at the end, before the first lane is there. */
static void await_lanes(struct sender *s)
{
    uint64_t end = clock_monotonic() + unit_patience(NSEC_PER_SEC);
    while (counted == 0 && clock_monotonic() < end)
        io_loop_run_once(s->loop, NSEC_PER_MSEC);
}

static void *send(void *arg)
{
    struct sender *s = arg;
    for (int i = 0; i < 2000; i++) {
        if (i == 1000)
            await_lanes(s);
        struct sent *job = unit_made(calloc(1, sizeof *job));
        *job = (struct sent){{.work = count_work, .client = (uint64_t)i % 7, .bytes = 10}, s};
        s->sent++;
        if (lane_put(s->inbox, &job->job) != 0 || (i % 5 == 0 && lane_cancel(&job->job))) {
            s->cancelled++;
            free(job);
        }
        if (i % 16 == 0)
            io_loop_run_once(s->loop, 0);
    }
    lane_inbox_close(s->inbox);
    s->loop = io_loop_free(s->loop);
    return NULL;
}

static void ask(void *context)
{
    asked++;
}

UNIT(workers_lanes_and_their_owner_in_each_others_way)
{
    struct lanes_options o = {3, 1 << 20, ask, NULL};
    struct lanes *l = unit_made(lanes_new(&o));
    struct sender senders[3] = {0};
    counted = asked = 0;
    for (int i = 0; i < 3; i++) {
        senders[i].lanes = l;
        senders[i].loop = unit_made(io_loop_new());
        senders[i].inbox = unit_made(lane_inbox_new(l, senders[i].loop, count_back));
        ck_assert_int_eq(pthread_create(&senders[i].thread, NULL, send, &senders[i]), 0);
    }
    while (asked == 0)
        sched_yield();
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(lanes_add(l, &counted), 0);
    ck_assert_int_eq(lanes_add(l, &counted), -ESHUTDOWN);
    int sent = 0, back = 0, cancelled = 0;
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(pthread_join(senders[i].thread, NULL), 0);
        sent += senders[i].sent;
        back += senders[i].back;
        cancelled += senders[i].cancelled;
    }
    lanes_free(l);
    ck_assert_int_eq(sent, back + cancelled);
    ck_assert_int_gt(counted, 0);
    ck_assert_int_le(counted, back);
}

/* ---- a lane that gets no core ---- */

static void note_thread(void *arg, void *lane)
{
    (void)lane;
    atomic_store((atomic_int *)arg, gettid());
}

static bool is_asleep(int thread)
{
    char path[64], line[256], state = 0;
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", thread);
    FILE *f = unit_made(fopen(path, "r"));
    ck_assert_ptr_nonnull(fgets(line, sizeof line, f));
    fclose(f);
    ck_assert_int_eq(sscanf(strrchr(line, ')') + 1, " %c", &state), 1);
    return state == 'S';
}

/* The lane with that number, once it sleeps. */
static int thread_asleep(uint32_t lane)
{
    atomic_int thread = 0;
    ck_assert_int_eq(lanes_run(world.lanes, lane, note_thread, &thread), 0);
    while (atomic_load(&thread) == 0 || !is_asleep(thread))
        sched_yield();
    return thread;
}

static void tell(int fd)
{
    ck_assert_int_eq(write(fd, "", 1), 1);
}

/* Whether somebody told us something before their end was closed. */
static bool is_told(int fd)
{
    char byte;
    return read(fd, &byte, 1) == 1;
}

struct freezer {
    pid_t pid;
    int holds, until; /* it says that it holds the thread; it lets go when this is closed */
};

/* Another process holds the thread as a debugger does, until it is told or we are gone. */
static void freeze(struct freezer *f, int thread)
{
    int up[2], down[2];
    ck_assert_int_eq(pipe(up), 0);
    ck_assert_int_eq(pipe(down), 0);
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    f->pid = fork();
    ck_assert_int_ge(f->pid, 0);
    if (f->pid == 0) {
        close(down[1]);
        if (ptrace(PTRACE_SEIZE, thread, 0, 0) < 0 || ptrace(PTRACE_INTERRUPT, thread, 0, 0) < 0 ||
            waitpid(thread, NULL, __WALL) < 0)
            _exit(1);
        tell(up[1]);
        is_told(down[0]);
        _exit(0);
    }
    close(up[1]);
    close(down[0]);
    f->holds = up[0];
    f->until = down[1];
    if (!is_told(f->holds))
        unit_skip("a thread cannot be held by ptrace(2) here");
}

static void thaw(struct freezer *f)
{
    close(f->until);
    ck_assert_int_eq(waitpid(f->pid, NULL, 0), f->pid);
    close(f->holds);
}

UNIT(who_puts_a_job_waits_for_no_lane)
{
    struct freezer held;
    begin(2, 1 << 20, false);
    set_gate(false);
    ck_assert_int_eq(lanes_add(world.lanes, &world.track), 0);
    freeze(&held, thread_asleep(0));
    /* The frozen one is woken for a job, which the other then does; it falls asleep after the first. */
    ck_assert_int_eq(put(0, 1, 1), 0);
    ck_assert_int_eq(lanes_add(world.lanes, &world.track), 0);
    await_back(1);
    thread_asleep(1);
    for (int i = 1; i < 4; i++)
        ck_assert_int_eq(put(i, 1, 1), 0);
    await_back(4);
    thaw(&held);
    end();
}
