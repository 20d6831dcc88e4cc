/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/thread.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

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
