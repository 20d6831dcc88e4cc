/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who has nothing to do waits for the next errand: to hand one over takes a few microseconds. There are as
 * many as go at once, and those that were left. Nobody is woken by who holds the lock that he takes next: he
 * would go to sleep again for it, and an errand be four switches of threads instead of two.
 *
 * They share everything with us but the process they belong to. A server of FUSE that has taken a question
 * and keeps it holds who asked so fast that not even SIGKILL ends him (request_wait_answer() of the kernel
 * waits uninterruptibly then, and so does a page fault on behalf of another process), and a process does not
 * end before its last thread has. So a thread makes a process that runs on in its place and in its memory, as
 * vfork(2) does, and only sleeps until that ends, which SIGKILL can wake it from.
 *
 * Who sends waits for who goes, so who goes has the same priority: else a thread that has a high one waited,
 * on a machine with more to do than CPUs, behind everybody for each of its errands. It is what a thread has
 * from the one that makes it; so those that are idle are told apart by it, not given another each time.
 */
#include "sender/foreign/errand.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "proto/base/clock.h"
#include "proto/base/file.h"
#include "proto/base/hash.h"
#include "proto/base/macros.h"
#include "proto/base/thread.h"
#include "sender/foreign/payer.h"

/* A user for whom some were not back in time. The last place is root's. */
struct kept {
    uint32_t user, n_out;
    uint64_t until; /* 0: the place is free */
    uint64_t again; /* nobody goes before */
};

#define ERRAND_STACK (128u << 10)

struct runner {
    sem_t wake; /* that there may be something to do; killed who waits for it, it is as it was */
    pid_t tid;
    int nice;             /* as of who had it made */
    _Atomic bool is_away; /* goes for the errand: what it waits for is not ours, as the lock is */
    struct errand *errand;
    struct runner *next; /* of those that are idle */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t back = PTHREAD_COND_INITIALIZER;
static struct kept kept[ERRAND_USERS + 1];
static struct errand *out; /* those that were left */
static struct runner *idle;
static pid_t our_pid;
static uint32_t generation; /* of those who go */
static uint64_t spent;
static void (*first_thing)(void);

void errand_begin(void (*begin)(void))
{
    first_thing = begin;
}

uint64_t errand_spent(void)
{
    pthread_mutex_lock(&lock);
    uint64_t ns = spent;
    pthread_mutex_unlock(&lock);
    return ns;
}

void errand_renew(void)
{
    pthread_mutex_lock(&lock);
    generation++;
    for (struct runner *r = idle; r; r = r->next)
        sem_post(&r->wake);
    pthread_mutex_unlock(&lock);
}

static struct kept *kept_of(uint32_t user)
{
    for (uint32_t i = 0; i <= ERRAND_USERS; i++)
        if (kept[i].until && kept[i].user == user)
            return &kept[i];
    return NULL;
}

/* Where it is noted, or would be, that errands for this user are not back. NULL: none may go. */
static struct kept *place_for(uint32_t user, uint64_t now)
{
    for (uint32_t i = 0; i <= ERRAND_USERS; i++)
        if (!kept[i].n_out && now >= kept[i].until)
            kept[i].until = 0;
    struct kept *k = kept_of(user);
    if (k)
        return k->n_out < ERRAND_OUT_MAX && now >= k->again ? k : NULL;
    for (uint32_t i = user == 0 ? ERRAND_USERS : 0; i < ERRAND_USERS + (user == 0); i++)
        if (!kept[i].until)
            return &kept[i];
    return NULL;
}

/* Under the lock: whether somebody was left where an errand goes. */
static bool is_kept_there(const struct errand *e)
{
    const struct errand *other = e->where ? out : NULL;
    while (other && (other->user != e->user || other->where != e->where))
        other = other->next;
    return other != NULL;
}

/* Under the lock: it was left, and is back. */
static void come_back_late(struct errand *e)
{
    struct kept *k = kept_of(e->user);
    struct errand **at = &out;
    while (*at != e)
        at = &(*at)->next;
    *at = e->next;
    if (k && k->n_out)
        k->n_out--;
    e->forget(e);
}

/* Does what is handed to it, until others are to go. */
static void serve(struct runner *r)
{
    pthread_mutex_lock(&lock);
    const uint32_t born = generation;
    r->tid = gettid();
    for (;;) {
        while (!r->errand && generation == born) {
            pthread_mutex_unlock(&lock);
            (void)sem_wait(&r->wake);
            pthread_mutex_lock(&lock);
        }
        struct errand *e = r->errand;
        if (!e)
            break;
        if (!e->is_left) {
            r->is_away = true;
            pthread_mutex_unlock(&lock);
            uint64_t begun = clock_thread();
            e->go(e);
            e->cost = (int64_t)(clock_thread() - begun);
            r->is_away = false;
            pthread_mutex_lock(&lock);
            spent += (uint64_t)e->cost;
        }
        r->errand = NULL;
        r->next = idle;
        idle = r;
        if (e->is_left) {
            come_back_late(e);
        } else {
            e->is_back = true;
            pthread_mutex_unlock(&lock);
            pthread_cond_broadcast(&back);
            pthread_mutex_lock(&lock);
        }
    }
    pthread_mutex_unlock(&lock);
}

/* In the process of its own, on which everything of the thread's but its number is found as it was. */
static int serve_alone(void *argument)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* it ends with the thread, which ends with us */
    prctl(PR_SET_NAME, "profsend-errand");
    if (getppid() == our_pid)
        serve(argument);
    return 0;
}

static void *run(void *argument)
{
    _Alignas(16) uint8_t stack[ERRAND_STACK];
    const int shared = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_VFORK | SIGCHLD;
    struct runner *r = argument;
    if (first_thing)
        first_thing();
    for (;;) {
        /* Who traces us could not stop the thread that waits for a process. */
        pid_t pid = IS_TRACED ? -1 : clone(serve_alone, stack + sizeof stack, shared, r);
        if (pid < 0)
            serve(r); /* it may not be made: the thread goes itself */
        else
            (void)waitpid(pid, NULL, 0); /* where SIGCHLD is not ignored */
    }
    return NULL;
}

/* Under the lock. One of a priority that is idle, or NULL. */
static struct runner *take_idle(int nice)
{
    for (struct runner **at = &idle; *at; at = &(*at)->next) {
        struct runner *r = *at;
        if (r->nice == nice) {
            *at = r->next;
            return r;
        }
    }
    return NULL;
}

/* Under the lock. NULL: there cannot be one more. */
static struct runner *take_runner(void)
{
    pthread_t thread;
    pthread_attr_t attr;
    const int nice = getpriority(PRIO_PROCESS, 0); /* the thread's; -1 is one, too */
    struct runner *r = take_idle(nice);
    if (r)
        return r;
    r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    r->nice = nice;
    sem_init(&r->wake, 0, 0);
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attr, 2 * ERRAND_STACK);
    our_pid = getpid();
    int failed = thread_begin(&thread, &attr, "errand", run, r);
    pthread_attr_destroy(&attr);
    if (failed) {
        sem_destroy(&r->wake);
        free(r);
        return NULL;
    }
    return r;
}

/* Whether it waits for nobody but a processor, or us. */
static bool is_running(const struct runner *r)
{
    char path[64], text[128];
    if (!r->is_away)
        return true;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)r->tid);
    file_text(path, text, sizeof text);
    const char *name_end = strrchr(text, ')'); /* proc_pid_stat(5): PID (NAME) STATE */
    return name_end && name_end[1] == ' ' && name_end[2] == 'R';
}

/* Under the lock, until it is back, or has waited for others for too long. */
static void wait_for(const struct errand *e, const struct runner *r, uint64_t patience)
{
    const uint64_t begun = clock_monotonic();
    for (uint64_t now = begun, waits = 0;
         !e->is_back && waits < patience && now - begun < ERRAND_TURNS * (uint64_t)ERRAND_WAIT_NS;) {
        while (!e->is_back && condition_wait(&back, &lock, now + ERRAND_STEP_NS))
            ;
        now = clock_monotonic();
        if (!e->is_back && !is_running(r))
            waits += ERRAND_STEP_NS;
    }
}

/* Under the lock: it is not back. */
static void leave(struct errand *e, bool was_known)
{
    const uint64_t now = clock_monotonic();
    struct kept *k = kept_of(e->user);
    e->is_left = true;
    e->next = out;
    out = e;
    /* Threads may have sent for several users at once, and taken the last place: that is not noted. */
    k = k ? k : place_for(e->user, now);
    if (k)
        *k = (struct kept){e->user, k->until ? k->n_out + 1 : 1, now + ERRAND_REST_NS,
                           was_known ? now + ERRAND_OWED_NS : now};
}

int errand_run(struct errand *e, uint32_t user)
{
    e->user = user = payer_of(user);
    e->is_back = e->is_left = false;
    pthread_mutex_lock(&lock);
    const struct kept *place = is_kept_there(e) ? NULL : place_for(user, clock_monotonic());
    const bool is_known = place && place->until;
    struct runner *r = place ? take_runner() : NULL;
    if (!r) {
        pthread_mutex_unlock(&lock);
        e->forget(e);
        return place ? -ENOMEM : -ETIMEDOUT;
    }
    r->errand = e;
    pthread_mutex_unlock(&lock);
    sem_post(&r->wake); /* a runner stays where it is for ever */
    pthread_mutex_lock(&lock);
    wait_for(e, r, is_known ? ERRAND_STEP_NS : ERRAND_WAIT_NS);
    bool is_back = e->is_back;
    if (!is_back)
        leave(e, is_known);
    pthread_mutex_unlock(&lock);
    return is_back ? 0 : -ETIMEDOUT;
}

uint64_t errand_where(const char *path)
{
    unsigned pid;
    return sscanf(path, "/proc/%u", &pid) == 1 ? pid : 0;
}

uint64_t errand_where_open(int fd)
{
    struct statx st;
    if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_INO, &st) < 0)
        return 0;
    return hash_mix((uint64_t)st.stx_dev_major << 32 | st.stx_dev_minor,
                    errand_is_place(fd) ? 0 : st.stx_ino) |
           UINT64_C(1) << 63; /* no process's */
}

/* Reading, opening or both. */
struct reading {
    struct errand errand;
    int fd;    /* its own; -1: it opens what is at a place, */
    int place; /* or, -1, at `path` */
    int flags, error;
    bool is_to_open; /* and no more: fd is what comes of it */
    off_t at;
    size_t n, done;
    uint8_t *bytes;
    char path[];
};

static void forget_reading(struct errand *e)
{
    struct reading *r = (struct reading *)e;
    cleanup_close(&r->fd);
    cleanup_close(&r->place);
    free(r->bytes);
    free(r);
}

static void read_it(struct errand *e)
{
    struct reading *r = (struct reading *)e;
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", r->place);
    if (r->fd < 0)
        r->fd = open(r->place >= 0 ? path : r->path, r->flags | O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (r->fd < 0)
        r->error = errno;
    ssize_t got = r->fd >= 0 && !r->is_to_open ? 1 : 0;
    while (got > 0 && r->done < r->n) {
        got = r->at < 0 ? read(r->fd, r->bytes, r->n)
                        : pread(r->fd, r->bytes + r->done, r->n - r->done, r->at + (off_t)r->done);
        if (got > 0)
            r->done += (size_t)got;
        if (r->at < 0)
            break;
    }
    if (got < 0 && r->done == 0)
        r->error = errno;
    if (r->place >= 0)
        close(take_fd(&r->fd)); /* it is told, and may keep who tells it */
}

static struct reading *reading_new(const char *path, size_t n)
{
    size_t length = strlen(path) + 1;
    struct reading *r = calloc(1, sizeof *r + length);
    if (!r)
        return NULL;
    *r = (struct reading){.errand = {.go = read_it, .forget = forget_reading, .where = errand_where(path)},
                          .fd = -1,
                          .place = -1,
                          .n = n};
    memcpy(r->path, path, length);
    if (n && !(r->bytes = malloc(n))) {
        free(r);
        return NULL;
    }
    return r;
}

/* Sends it, and takes what it brings. */
static ssize_t bring(struct reading *r, void *to, uint32_t user)
{
    int failed = errand_run(&r->errand, user);
    if (failed < 0)
        return failed;
    ssize_t result = r->error ? -r->error : (ssize_t)r->done;
    if (r->done)
        memcpy(to, r->bytes, r->done);
    if (r->is_to_open && !r->error) {
        result = r->fd;
        r->fd = -1;
    }
    forget_reading(&r->errand);
    return result;
}

int errand_open(const char *path, int flags, uint32_t user)
{
    struct reading *r = reading_new(path, 0);
    if (!r)
        return -ENOMEM;
    r->is_to_open = true;
    r->flags = flags;
    return (int)bring(r, NULL, user);
}

ssize_t errand_read_path(const char *path, void *to, size_t n, uint32_t user)
{
    struct reading *r = reading_new(path, n);
    return r ? bring(r, to, user) : -ENOMEM;
}

bool errand_is_place(int fd)
{
    int flags = fcntl(fd, F_GETFL);
    return flags >= 0 && (flags & O_PATH);
}

ssize_t errand_pread(int fd, void *to, size_t n, off_t at, uint32_t user)
{
    struct reading *r = reading_new("", n);
    if (!r)
        return -ENOMEM;
    r->at = at;
    r->errand.where = at < 0 ? 0 : errand_where_open(fd); /* what is read in turn is the kernel's */
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);             /* the caller may close his meanwhile */
    *(errand_is_place(fd) ? &r->place : &r->fd) = copy;
    if (copy < 0) {
        forget_reading(&r->errand);
        return -errno;
    }
    return bring(r, to, user);
}
