/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/thread.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "proto/base/clock.h"

struct beginning {
    void *(*run)(void *);
    void *arg;
    char name[16];
};

static void *begin(void *arg)
{
    const struct beginning b = *(struct beginning *)arg;
    free(arg);
    pthread_setname_np(pthread_self(), b.name);
    return b.run(b.arg);
}

int thread_begin(pthread_t *ret, const pthread_attr_t *attributes, const char *name, void *(*run)(void *),
                 void *arg)
{
    sigset_t all, before;
    struct beginning *b = malloc(sizeof *b);
    if (!b)
        return -ENOMEM;
    *b = (struct beginning){.run = run, .arg = arg};
    snprintf(b->name, sizeof b->name, "%s", name);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int r = pthread_create(ret, attributes, begin, b);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (r)
        free(b);
    return -r;
}

static struct timespec timespec_of(uint64_t ns)
{
    return (struct timespec){(time_t)(ns / NSEC_PER_SEC), (long)(ns % NSEC_PER_SEC)};
}

bool thread_join_until(pthread_t thread, void **ret, uint64_t until_ns)
{
    const struct timespec t = timespec_of(until_ns);
    return pthread_clockjoin_np(thread, ret, CLOCK_MONOTONIC, &t) == 0;
}

bool condition_wait(pthread_cond_t *c, pthread_mutex_t *lock, uint64_t until_ns)
{
    const struct timespec t = timespec_of(until_ns);
    if (until_ns == UINT64_MAX)
        return pthread_cond_wait(c, lock) == 0;
    return pthread_cond_clockwait(c, lock, CLOCK_MONOTONIC, &t) == 0;
}
