/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads, and what they share.
 *
 * A thread that no signal comes to. The kernel gives a signal sent to the process to any one thread that does
 * not hold it back, also to one that waits for a disk which never answers: there it stays, and the process
 * does not hear that it should end. So signals are for the threads that listen for them, and all others begin
 * here.
 */
#ifndef PROTO_BASE_THREAD_H
#define PROTO_BASE_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "proto/base/macros.h"

/* pthread_create(3), but for that: 0 or a negative errno; the caller's own signals stay as they are. `name`
 * is what `top -H` calls it, 15 bytes at most (pthread_setname_np(3)). */
int thread_begin(pthread_t *ret, const pthread_attr_t *attributes, const char *name, void *(*run)(void *),
                 void *arg);

/* Has the lock until the end of the block, however that is left; what it returns is evaluated before. */
#define autolock(lock_)                                                                           \
    cleanup(thread_unlock) __attribute__((unused)) pthread_mutex_t *PASTE(locked_, __COUNTER__) = \
        thread_lock(lock_)

static inline pthread_mutex_t *thread_lock(pthread_mutex_t *lock)
{
    pthread_mutex_lock(lock);
    return lock;
}

static inline void thread_unlock(pthread_mutex_t **lock)
{
    pthread_mutex_unlock(*lock);
}

/* Waits for its end until a time of the monotonic clock. False: it is that time, and the thread is still the
 * caller's to join or detach. */
bool thread_join_until(pthread_t thread, void **ret, uint64_t until_ns);

/* Waits for a condition until a time of the monotonic clock (UINT64_MAX: no end). False: it is that time. */
bool condition_wait(pthread_cond_t *c, pthread_mutex_t *lock, uint64_t until_ns);

#endif
