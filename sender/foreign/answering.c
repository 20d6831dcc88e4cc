/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/foreign/answering.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "proto/base/clock.h"
#include "proto/base/macros.h"
#include "proto/base/thread.h"

/* File systems remembered; the one asked longest ago makes room, unless it is still being asked. */
#define DEVICES 64u

struct device {
    uint32_t minor; /* of major 0 */
    bool is_asking; /* a thread is */
    uint64_t asked; /* when it was last; 0: never, the place is free */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t answered = PTHREAD_COND_INITIALIZER;
static struct device device[DEVICES];
static uint32_t n_asking;

struct question {
    struct device *device;
    int fd; /* the asker's own */
};

/* Has descriptors of its own: should it never come back it keeps nothing of ours open. */
static void *ask(void *argument)
{
    struct question q = *(struct question *)argument;
    char path[32], byte;
    free(argument);
    syscall(SYS_close_range, q.fd + 1, ~0u, CLOSE_RANGE_UNSHARE);
    if (q.fd > 0)
        syscall(SYS_close_range, 0, q.fd - 1, 0);
    snprintf(path, sizeof path, "/proc/self/task/%d/fd/%d", gettid(), q.fd);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    struct stat st;
    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
        (void)!pread(fd, &byte, 1, 0);
    pthread_mutex_lock(&lock); /* refused, it has answered, too */
    q.device->is_asking = false;
    n_asking--;
    pthread_cond_broadcast(&answered);
    pthread_mutex_unlock(&lock);
    if (fd >= 0)
        close(fd);
    close(q.fd);
    return NULL;
}

static struct device *device_of(uint32_t minor)
{
    struct device *oldest = NULL;
    for (uint32_t i = 0; i < DEVICES; i++) {
        if (device[i].asked && device[i].minor == minor)
            return &device[i];
        if (!device[i].is_asking && (!oldest || device[i].asked < oldest->asked))
            oldest = &device[i];
    }
    if (oldest)
        *oldest = (struct device){.minor = minor};
    return oldest;
}

/* Sends a thread; under the lock. */
static bool send_ahead(struct device *d, int fd, uint64_t now)
{
    pthread_t thread;
    pthread_attr_t attr;
    struct question *q = n_asking < ANSWERING_WAITING_MAX ? malloc(sizeof *q) : NULL;
    if (!q)
        return false;
    *q = (struct question){d, fcntl(fd, F_DUPFD_CLOEXEC, 3)};
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attr, 128 << 10);
    bool ok = q->fd >= 0 && thread_begin(&thread, &attr, ask, q) == 0;
    pthread_attr_destroy(&attr);
    if (!ok) {
        if (q->fd >= 0)
            close(q->fd);
        free(q);
        return false;
    }
    d->is_asking = true;
    d->asked = now;
    n_asking++;
    return true;
}

static bool wait_for(const struct device *d)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    uint64_t ns = (uint64_t)until.tv_nsec + ANSWERING_WAIT_NS;
    until.tv_sec += (time_t)(ns / NSEC_PER_SEC);
    until.tv_nsec = (long)(ns % NSEC_PER_SEC);
    while (d->is_asking)
        if (pthread_cond_timedwait(&answered, &lock, &until) != 0)
            break;
    return !d->is_asking;
}

bool foreign_answers(int fd)
{
    struct statx st;
    /* What is known of it already: nobody is asked for this. */
    if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &st) < 0)
        return false;
    if (st.stx_dev_major != 0)
        return true;
    pthread_mutex_lock(&lock);
    uint64_t now = clock_monotonic();
    struct device *d = device_of(st.stx_dev_minor);
    bool ok = d && !d->is_asking;
    if (ok && (!d->asked || now - d->asked >= ANSWERING_TTL_NS))
        ok = send_ahead(d, fd, now) && wait_for(d);
    pthread_mutex_unlock(&lock);
    return ok;
}
