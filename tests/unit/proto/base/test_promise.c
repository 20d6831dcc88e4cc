/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/promise.h"

#include <errno.h>
#include <pthread.h>

#include "tests/lib/unit.h"

static void on_kept(void *arg, int r)
{
    *(int *)arg = 1 + -r;
}

UNIT(it_is_kept_when_the_last_party_is_done)
{
    int kept = 0;
    struct promise *p = unit_made(promise_new());
    ck_assert(!p->is_owed);
    promise_owe(p);
    promise_owe(p);
    promise_keep(p, 0);
    promise_await(p, on_kept, &kept);
    ck_assert_int_eq(kept, 0);
    promise_keep(p, 0);
    ck_assert_int_eq(kept, 1);
}

UNIT(it_is_kept_at_once_where_all_are_done_and_one_that_could_not_tells)
{
    int kept = 0;
    struct promise *p = unit_made(promise_new());
    promise_owe(p);
    promise_owe(p);
    promise_keep(p, -EIO);
    promise_keep(p, 0);
    promise_await(p, on_kept, &kept);
    ck_assert_int_eq(kept, 1 + EIO);
}

static void *keep(void *arg)
{
    promise_keep(arg, 0);
    return NULL;
}

UNIT(parties_are_threads)
{
    for (int i = 0; i < 200; i++) {
        int kept = 0;
        pthread_t a, b;
        struct promise *p = unit_made(promise_new());
        promise_owe(p);
        promise_owe(p);
        ck_assert_int_eq(pthread_create(&a, NULL, keep, p), 0);
        ck_assert_int_eq(pthread_create(&b, NULL, keep, p), 0);
        promise_await(p, on_kept, &kept);
        pthread_join(a, NULL);
        pthread_join(b, NULL);
        ck_assert_int_eq(kept, 1);
    }
}
