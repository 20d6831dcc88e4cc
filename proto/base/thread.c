/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/thread.h"

#include <signal.h>

int thread_begin(pthread_t *ret, const pthread_attr_t *attributes, void *(*run)(void *), void *arg)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int r = pthread_create(ret, attributes, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return -r;
}
