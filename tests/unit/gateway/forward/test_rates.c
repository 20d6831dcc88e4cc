/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include <pthread.h>
#include <stdio.h>

#include "gateway/forward/rates.h"
#include "proto/base/clock.h"

#define SECOND ((uint64_t)NSEC_PER_SEC)

static struct keep_rate rate_of(uint32_t rule, const char *text, uint32_t count, bool per_second)
{
    return (struct keep_rate){rule, bytes_str(text), count, per_second};
}

static uint32_t taken(struct forward_rates *r, struct keep_rate rate, uint32_t tries, uint64_t now)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < tries; i++)
        n += forward_rates_take(r, &rate, now);
    return n;
}

UNIT(each_text_and_rule_has_its_own)
{
    struct forward_rates *r = unit_made(forward_rates_new());
    uint64_t now = 1000 * SECOND + 5;
    ck_assert_uint_eq(taken(r, rate_of(0, "a", 3, false), 10, now), 3);
    ck_assert_uint_eq(taken(r, rate_of(0, "b", 3, false), 2, now), 2);
    ck_assert_uint_eq(taken(r, rate_of(1, "a", 5, false), 10, now), 5);
    ck_assert_uint_eq(taken(r, rate_of(0, "b", 3, false), 10, now), 1);
    forward_rates_free(r);
}

/* Minutes and seconds of the clock, not since the first sample. */
UNIT(a_window_ends)
{
    struct forward_rates *r = unit_made(forward_rates_new());
    struct keep_rate second = rate_of(0, "a", 2, true), minute = rate_of(1, "a", 2, false);
    uint64_t start = 119 * SECOND + 999999999;
    ck_assert_uint_eq(taken(r, second, 9, start), 2);
    ck_assert_uint_eq(taken(r, minute, 9, start), 2);
    ck_assert_uint_eq(taken(r, second, 9, start + 1), 2);
    ck_assert_uint_eq(taken(r, minute, 9, start + 1), 2);
    ck_assert_uint_eq(taken(r, second, 9, start + SECOND + 1), 2);
    ck_assert_uint_eq(taken(r, minute, 9, start + SECOND + 1), 0);
    forward_rates_free(r);
}

/* More texts than it has rows: what shares a row gets less, never more. */
UNIT(never_more_than_the_count)
{
    struct forward_rates *r = unit_made(forward_rates_new());
    uint32_t all = 0;
    for (uint32_t i = 0; i < 50000; i++) {
        char text[16];
        snprintf(text, sizeof text, "%u", i);
        uint32_t n = taken(r, rate_of(0, text, 2, false), 3, SECOND);
        ck_assert_uint_le(n, 2);
        all += n;
    }
    ck_assert_uint_gt(all, 8000);
    ck_assert_uint_eq(taken(r, rate_of(0, "again", 2, false), 3, 61 * SECOND), 2);
    forward_rates_free(r);
}

static void *take_many(void *user)
{
    struct keep_rate rate = rate_of(7, "shared", 1000, false);
    return (void *)(uintptr_t)taken(user, rate, 900, SECOND);
}

UNIT(workers_share_it)
{
    struct forward_rates *r = unit_made(forward_rates_new());
    pthread_t thread[4];
    uintptr_t all = 0;
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&thread[i], NULL, take_many, r), 0);
    for (int i = 0; i < 4; i++) {
        void *n;
        pthread_join(thread[i], &n);
        all += (uintptr_t)n;
    }
    ck_assert_uint_eq(all, 1000);
    forward_rates_free(r);
}
