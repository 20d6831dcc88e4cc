/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/thread.h"

#include <errno.h>
#include <signal.h>

#include "proto/base/clock.h"
#include "proto/base/macros.h"
#include "tests/lib/unit.h"

static void *note_held(void *held)
{
    pthread_sigmask(SIG_SETMASK, NULL, held);
    return NULL;
}

UNIT(no_signal_comes_to_it)
{
    static const int what_people_send[] = {SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGCHLD};
    sigset_t before, after, held;
    pthread_t thread;
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    ck_assert_int_eq(thread_begin(&thread, NULL, "held", note_held, &held), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    for (size_t i = 0; i < ARRAY_LEN(what_people_send); i++) {
        ck_assert_int_eq(sigismember(&held, what_people_send[i]), 1);
        ck_assert_int_eq(sigismember(&after, what_people_send[i]), sigismember(&before, what_people_send[i]));
    }
}

static void *note_name(void *name)
{
    ck_assert_int_eq(pthread_getname_np(pthread_self(), name, 16), 0);
    return NULL;
}

UNIT(it_has_a_name_from_the_beginning)
{
    static const char *const given[] = {"unwinder", "one of more than 15 bytes"}, *const got[] = {
                                                                                      "unwinder",
                                                                                      "one of more tha"};
    for (size_t i = 0; i < ARRAY_LEN(given); i++) {
        char name[16];
        pthread_t thread;
        ck_assert_int_eq(thread_begin(&thread, NULL, given[i], note_name, name), 0);
        ck_assert_int_eq(pthread_join(thread, NULL), 0);
        ck_assert_str_eq(name, got[i]);
    }
}

UNIT(one_that_cannot_be_had_is_an_error)
{
    pthread_attr_t attributes;
    pthread_t thread;
    ck_assert_int_eq(pthread_attr_init(&attributes), 0);
    ck_assert_int_eq(pthread_attr_setstacksize(&attributes, (size_t)1 << 46), 0);
    ck_assert_int_lt(thread_begin(&thread, &attributes, "none", note_held, NULL), 0);
    pthread_attr_destroy(&attributes);
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* 0: nobody has it. */
static int has_somebody(void)
{
    const int r = pthread_mutex_trylock(&lock);
    if (r == 0)
        pthread_mutex_unlock(&lock);
    return r;
}

static int leave_early(bool early)
{
    autolock(&lock);
    if (early)
        return has_somebody();
    return -has_somebody();
}

UNIT(a_lock_is_held_to_the_end_of_the_block_however_it_is_left)
{
    ck_assert_int_eq(leave_early(true), EBUSY);
    ck_assert_int_eq(has_somebody(), 0);
    ck_assert_int_eq(leave_early(false), -EBUSY);
    ck_assert_int_eq(has_somebody(), 0);
}

UNIT(a_condition_is_waited_for_until_a_time)
{
    pthread_cond_t never;
    pthread_cond_init(&never, NULL);
    autolock(&lock);
    const uint64_t until = clock_monotonic() + 20 * NSEC_PER_MSEC;
    while (condition_wait(&never, &lock, until))
        ; /* it may wake for nothing */
    ck_assert_uint_ge(clock_monotonic(), until);
    ck_assert(!condition_wait(&never, &lock, 0));
    pthread_cond_destroy(&never);
}

static void *wait_to_be_let_go(void *unused)
{
    autolock(&lock);
    return &lock;
}

UNIT(its_end_is_waited_for_until_a_time)
{
#ifdef __SANITIZE_THREAD__
    unit_skip("ThreadSanitizer does not know pthread_clockjoin_np(3): what it joins leaks to it");
#endif
    pthread_t thread;
    void *ret = NULL;
    ck_assert_int_eq(pthread_mutex_lock(&lock), 0);
    ck_assert_int_eq(thread_begin(&thread, NULL, "held up", wait_to_be_let_go, NULL), 0);
    const uint64_t until = clock_monotonic() + 20 * NSEC_PER_MSEC;
    ck_assert(!thread_join_until(thread, &ret, until));
    ck_assert_uint_ge(clock_monotonic(), until);
    ck_assert_int_eq(pthread_mutex_unlock(&lock), 0);
    ck_assert(
        thread_join_until(thread, &ret, clock_monotonic() + unit_patience(60 * (uint64_t)NSEC_PER_SEC)));
    ck_assert_ptr_eq(ret, &lock);
}
