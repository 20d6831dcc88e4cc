/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread that no signal comes to. The kernel gives a signal sent to the process to any one thread that does
 * not hold it back, also to one that waits for a disk which never answers: there it stays, and the process
 * does not hear that it should end. So signals are for the threads that listen for them, and all others begin
 * here.
 */
#ifndef PROTO_BASE_THREAD_H
#define PROTO_BASE_THREAD_H

#include <pthread.h>

/* pthread_create(3), but for that: 0 or a negative errno; the caller's own signals stay as they are. `name`
 * is what `top -H` calls it, 15 bytes at most (pthread_setname_np(3)). */
int thread_begin(pthread_t *ret, const pthread_attr_t *attributes, const char *name, void *(*run)(void *),
                 void *arg);

#endif
