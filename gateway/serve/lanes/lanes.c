/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One lock over everything, since a job is at least a quarter of a millisecond of work. A job is in one of
 * three places: in its client's queue (waits), with a lane (its inbox counts it in n_working), or on its
 * inbox's list of those that have come back, which the worker's loop empties when the inbox's post wakes it.
 * cancel takes it back from the first place alone.
 *
 * Queues with jobs take turns (rounds.h): one job of each, so that who sends much waits for himself.
 *
 * Lanes are made on demand: who puts a job and finds more waiting than lanes idle asks the owner, once until
 * the answer, which is lanes_add or lanes_give_up. Tasks are a lane's own and go before jobs.
 *
 * A lane with nothing to do sleeps on a semaphore of its own. Not on a condition variable: whoever signals
 * one again before the thread it woke has run waits for that thread (glibc, __condvar_quiesce_and_switch_g1),
 * and a worker must not wait for a lane, which is nice, to get a core.
 */
#include "gateway/serve/lanes/lanes.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/queue.h>
#include <sys/resource.h>
#include <unistd.h>

#include "proto/base/macros.h"
#include "proto/base/share.h"
#include "proto/base/thread.h"
#include "proto/io/loop.h"

/* One client's jobs in order. */
struct queue {
    struct rounds_queue jobs;
    uint32_t n;
    size_t bytes;
};

struct task {
    STAILQ_ENTRY(task) next;
    void (*fn)(void *arg, void *lane);
    void *arg;
};

struct lane {
    struct lanes *lanes;
    uint32_t index;
    pthread_t thread;
    void *context;
    STAILQ_HEAD(, task) tasks;
    sem_t wake;
    struct lane *next_asleep;
    bool is_asleep; /* and nobody has woken it yet */
};

struct lane_inbox {
    struct lanes *lanes;
    SLIST_ENTRY(lane_inbox) next; /* of all */
    struct io_loop *loop;
    void (*done)(struct lane_job *job);
    STAILQ_HEAD(lane_job_list, lane_job) back; /* that have come back */
    uint32_t n_working;
    struct io_post post;
};

struct lanes {
    struct lanes_options options;
    pthread_mutex_t lock;   /* everything below */
    pthread_cond_t settled; /* a job has come back */
    struct queue queues[LANES_CLIENTS];
    struct rounds rounds;
    size_t bytes;
    SLIST_HEAD(, lane_inbox) inboxes;
    struct lane *asleep;
    uint32_t
        n_idle; /* lanes that look for work: asleep, woken and not there yet, or giving the last one back */
    bool asked, stopping;
    atomic_uint n, waiting; /* written under the lock */
    atomic_ulong taken;
    struct lane lanes[];
};

/* ---- what waits; under the lock ---- */

static struct queue *queue_of(struct lanes *l, const struct lane_job *job)
{
    return &l->queues[job->client % LANES_CLIENTS];
}

static bool is_full(const struct lanes *l, const struct queue *q, size_t n)
{
    size_t all = l->options.waiting_bytes, one = all / 2;
    return l->waiting >= LANES_WAITING_MAX || q->n >= LANES_WAITING_CLIENT_MAX ||
           !share_allows(LANES_WAITING_MAX, l->waiting, q->n, 1) ||
           (l->waiting > 0 && (l->bytes > all || n > all - l->bytes)) ||
           (q->n > 0 && (q->bytes > one || n > one - q->bytes)) || !share_allows(all, l->bytes, q->bytes, n);
}

static struct lane_job *job_of(struct rounds_item *i)
{
    return container_of(i, struct lane_job, item);
}

static void enqueue(struct lanes *l, struct lane_job *job)
{
    struct queue *q = queue_of(l, job);
    rounds_join(&l->rounds, &q->jobs, &job->item);
    q->n++;
    q->bytes += job->bytes;
    l->bytes += job->bytes;
    l->waiting++;
}

static void dequeue(struct lanes *l, struct lane_job *job)
{
    struct queue *q = queue_of(l, job);
    rounds_leave(&l->rounds, &q->jobs, &job->item);
    q->n--;
    q->bytes -= job->bytes;
    l->bytes -= job->bytes;
    l->waiting--;
}

/* Whose turn it is has one job, then it is the next one's. */
static struct lane_job *take_next(struct lanes *l)
{
    struct rounds_queue *q = rounds_next(&l->rounds);
    if (!q)
        return NULL;
    struct lane_job *job = job_of(q->first);
    dequeue(l, job);
    job->inbox->n_working++;
    l->taken++;
    return job;
}

static void bring_back(struct lane_job *job)
{
    STAILQ_INSERT_TAIL(&job->inbox->back, job, next);
}

static void refuse_all(struct lanes *l, const struct lane_inbox *of)
{
    for (uint32_t i = 0; i < LANES_CLIENTS; i++)
        for (struct rounds_item *item = l->queues[i].jobs.first, *next; item; item = next) {
            struct lane_job *job = job_of(item);
            next = item->next;
            if (of && job->inbox != of)
                continue;
            dequeue(l, job);
            job->refused = true;
            bring_back(job);
            io_loop_post_in(job->inbox->loop, &job->inbox->post);
        }
}

/* ---- a lane's thread ---- */

static void begin(const struct lane *lane)
{
    /* Linux: of the thread alone (setpriority(2), "C library/kernel differences"). Where it is not allowed a
     * lane is like a worker. */
    setpriority(PRIO_PROCESS, (id_t)gettid(), getpriority(PRIO_PROCESS, 0) + LANES_NICE);
}

static struct task *take_task(struct lane *lane)
{
    struct task *t = STAILQ_FIRST(&lane->tasks);
    if (t)
        STAILQ_REMOVE_HEAD(&lane->tasks, next);
    return t;
}

/* All under the lock. */
static void fall_asleep(struct lane *lane)
{
    struct lanes *l = lane->lanes;
    lane->is_asleep = true;
    lane->next_asleep = l->asleep;
    l->asleep = lane;
}

/* Whoever calls this posts. */
static void wake_up(struct lane *lane)
{
    struct lane **at = &lane->lanes->asleep;
    while (*at != lane)
        at = &(*at)->next_asleep;
    *at = lane->next_asleep;
    lane->is_asleep = false;
}

static void rouse(struct lane *lane)
{
    if (!lane->is_asleep)
        return;
    wake_up(lane);
    sem_post(&lane->wake);
}

/* Under the lock. The worker is woken without it, or it would have the core at once and wait for who has the
 * lock and now no core. Its loop is there all the while: an inbox closes when none of its jobs is worked on.
 * Whoever puts the next job when he hears of this one must not find the only lane busy. */
static void give_back(struct lanes *l, struct lane_job *job)
{
    struct lane_inbox *in = job->inbox;
    bring_back(job);
    l->n_idle++;
    pthread_mutex_unlock(&l->lock);
    io_loop_post_in(in->loop, &in->post);
    pthread_mutex_lock(&l->lock);
    l->n_idle--;
    in->n_working--;
    pthread_cond_broadcast(&l->settled);
}

static void *run(void *arg)
{
    struct lane *lane = arg;
    struct lanes *l = lane->lanes;
    begin(lane);
    pthread_mutex_lock(&l->lock);
    for (;;) {
        struct task *t = take_task(lane);
        struct lane_job *job = t ? NULL : take_next(l);
        if (!t && !job) {
            if (l->stopping)
                break;
            l->n_idle++;
            fall_asleep(lane);
            pthread_mutex_unlock(&l->lock);
            while (sem_wait(&lane->wake) < 0)
                ; /* EINTR */
            pthread_mutex_lock(&l->lock);
            l->n_idle--;
            continue;
        }
        pthread_mutex_unlock(&l->lock);
        if (t) {
            t->fn(t->arg, lane->context);
            free(t);
        } else {
            job->work(job, lane->context);
        }
        pthread_mutex_lock(&l->lock);
        if (job)
            give_back(l, job);
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

/* ---- the owner ---- */

struct lanes *lanes_new(const struct lanes_options *options)
{
    struct lanes *l = calloc(1, sizeof *l + options->n_max * sizeof *l->lanes);
    if (!l)
        return NULL;
    l->options = *options;
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->settled, NULL);
    return l;
}

struct lanes *lanes_free(struct lanes *l)
{
    if (!l)
        return NULL;
    lanes_stop(l);
    for (struct lane_inbox *in; (in = SLIST_FIRST(&l->inboxes));) {
        SLIST_REMOVE_HEAD(&l->inboxes, next);
        free(in);
    }
    pthread_cond_destroy(&l->settled);
    pthread_mutex_destroy(&l->lock);
    free(l);
    return NULL;
}

int lanes_add(struct lanes *l, void *context)
{
    autolock(&l->lock);
    int r = l->stopping || l->n >= l->options.n_max ? -ESHUTDOWN : 0;
    struct lane *lane = &l->lanes[l->n];
    if (r == 0) {
        *lane = (struct lane){.lanes = l, .index = l->n, .context = context};
        STAILQ_INIT(&lane->tasks);
        sem_init(&lane->wake, 0, 0);
        char name[16];
        snprintf(name, sizeof name, "lane%u", lane->index);
        r = thread_begin(&lane->thread, NULL, name, run, lane);
    }
    if (r == 0) {
        l->n++;
        l->asked = false;
    }
    return r;
}

void lanes_give_up(struct lanes *l)
{
    autolock(&l->lock);
    l->asked = false;
    if (l->n == 0)
        refuse_all(l, NULL);
}

uint32_t lanes_n(const struct lanes *l)
{
    return l->n;
}

int lanes_run(struct lanes *l, uint32_t index, void (*fn)(void *arg, void *lane), void *arg)
{
    autofree struct task *t = malloc(sizeof *t);
    if (!t)
        return -ENOMEM;
    *t = (struct task){.fn = fn, .arg = arg};
    autolock(&l->lock);
    int r = index < l->n && !l->stopping ? 0 : LANES_STOPPED;
    if (r == 0) {
        struct lane *lane = &l->lanes[index];
        STAILQ_INSERT_TAIL(&lane->tasks, t, next);
        take_ptr(t);
        rouse(lane);
    }
    return r;
}

void lanes_stop(struct lanes *l)
{
    pthread_mutex_lock(&l->lock);
    bool stopped = l->stopping;
    l->stopping = true;
    while (l->asleep)
        rouse(l->asleep);
    pthread_mutex_unlock(&l->lock);
    for (uint32_t i = 0; i < l->n && !stopped; i++) {
        pthread_join(l->lanes[i].thread, NULL);
        sem_destroy(&l->lanes[i].wake);
    }
}

uint64_t lanes_taken(const struct lanes *l)
{
    return l->taken;
}

uint32_t lanes_waiting(const struct lanes *l)
{
    return l->waiting;
}

/* ---- a worker ---- */

static void give(struct lane_inbox *in)
{
    struct lane_job_list back = STAILQ_HEAD_INITIALIZER(back);
    pthread_mutex_lock(&in->lanes->lock);
    STAILQ_CONCAT(&back, &in->back);
    pthread_mutex_unlock(&in->lanes->lock);
    for (struct lane_job *job; (job = STAILQ_FIRST(&back));) {
        STAILQ_REMOVE_HEAD(&back, next);
        in->done(job);
    }
}

static void on_post(void *arg)
{
    give(arg);
}

struct lane_inbox *lane_inbox_new(struct lanes *l, struct io_loop *loop, void (*done)(struct lane_job *job))
{
    struct lane_inbox *in = calloc(1, sizeof *in);
    if (!in)
        return NULL;
    *in = (struct lane_inbox){.lanes = l, .loop = loop, .done = done, .post = {.fn = on_post, .arg = in}};
    STAILQ_INIT(&in->back);
    autolock(&l->lock);
    SLIST_INSERT_HEAD(&l->inboxes, in, next);
    return in;
}

void lane_inbox_close(struct lane_inbox *in)
{
    struct lanes *l = in->lanes;
    pthread_mutex_lock(&l->lock);
    refuse_all(l, in);
    while (in->n_working > 0)
        pthread_cond_wait(&l->settled, &l->lock);
    pthread_mutex_unlock(&l->lock);
    give(in);
}

int lane_put(struct lane_inbox *in, struct lane_job *job)
{
    struct lanes *l = in->lanes;
    struct lane *woken = NULL;
    bool ask = false;
    job->inbox = in;
    job->refused = false;
    pthread_mutex_lock(&l->lock);
    int r = l->stopping || is_full(l, queue_of(l, job), job->bytes) ? LANE_FULL : 0;
    if (r == 0) {
        enqueue(l, job);
        woken = l->asleep; /* the lane that slept last; posted without the lock */
        if (woken)
            wake_up(woken);
        ask = l->waiting > l->n_idle && l->n < l->options.n_max && !l->asked;
        l->asked |= ask;
    }
    pthread_mutex_unlock(&l->lock);
    if (woken)
        sem_post(&woken->wake);
    if (ask)
        l->options.wanted(l->options.context);
    return r;
}

bool lane_cancel(struct lane_job *job)
{
    struct lanes *l = job->inbox->lanes;
    autolock(&l->lock);
    bool waits = job->item.waits;
    if (waits)
        dequeue(l, job);
    return waits;
}
