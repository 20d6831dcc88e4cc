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

void condition_init(pthread_cond_t *c)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(c, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

bool condition_wait(pthread_cond_t *c, pthread_mutex_t *lock, uint64_t until_ns)
{
    const struct timespec t = {(time_t)(until_ns / NSEC_PER_SEC), (long)(until_ns % NSEC_PER_SEC)};
    if (until_ns == UINT64_MAX)
        return pthread_cond_wait(c, lock) == 0;
    return pthread_cond_timedwait(c, lock, &t) == 0;
}
