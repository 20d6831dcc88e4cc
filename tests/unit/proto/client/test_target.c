/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/client/target.h"

#include "proto/base/clock.h"
#include "proto/base/macros.h"
#include "tests/lib/unit.h"

#define S ((uint64_t)NSEC_PER_SEC)

/* Who is picked n times at that time, as letters. */
static const char *picks(struct targets *t, uint64_t now_ns, unsigned n)
{
    static char text[64];
    for (unsigned i = 0; i < n; i++)
        text[i] = (char)('a' + target_pick(t, now_ns));
    text[n] = 0;
    return text;
}

static struct targets three(uint32_t a, uint32_t b, uint32_t c)
{
    return (struct targets){.at = {{.weight = a}, {.weight = b}, {.weight = c}}, .n = 3};
}

UNIT(turns_are_by_weight_and_mixed)
{
    struct targets t = three(5, 1, 1);
    ck_assert_str_eq(picks(&t, 1, 14), "aabacaaaabacaa");
    t = three(1, 1, 1);
    ck_assert_str_eq(picks(&t, 1, 6), "abcabc");
    t.n = 1;
    ck_assert_str_eq(picks(&t, 1, 3), "aaa");
}

UNIT(who_failed_is_left_alone_and_owed_nothing)
{
    struct targets t = three(1, 1, 1);
    target_failed(&t.at[1], 10 * S, 0);
    ck_assert_str_eq(picks(&t, 10 * S, 6), "acacac");
    ck_assert_str_eq(picks(&t, 11 * S, 6), "abcabc"); /* and none of those that it missed */
    target_failed(&t.at[1], 20 * S, 0);
    target_succeeded(&t.at[1]);
    ck_assert_str_eq(picks(&t, 20 * S, 3), "abc");
}

UNIT(a_pause_doubles_up_to_its_maximum_and_is_no_shorter_than_asked_for)
{
    struct target t = {.weight = 1};
    static const uint64_t want[] = {1, 2, 4, 8, 16, 30, 30};
    for (size_t i = 0; i < ARRAY_LEN(want); i++) {
        target_failed(&t, 1000 * S, 0);
        ck_assert_uint_eq(t.down_until_ns, (1000 + want[i]) * S);
    }
    target_failed(&t, 1000 * S, 60 * S);
    ck_assert_uint_eq(t.down_until_ns, 1060 * S);
    target_succeeded(&t);
    target_failed(&t, 2000 * S, S / 2);
    ck_assert_uint_eq(t.down_until_ns, 2001 * S);
}

UNIT(failover_takes_the_first_that_is_well)
{
    struct targets t = three(1, 9, 9);
    t.failover = true;
    ck_assert_str_eq(picks(&t, S, 3), "aaa");
    target_failed(&t.at[0], S, 0);
    ck_assert_str_eq(picks(&t, S, 3), "bbb");
    target_failed(&t.at[1], S, 0);
    ck_assert_str_eq(picks(&t, S, 3), "ccc");
    ck_assert_str_eq(picks(&t, 2 * S, 3), "aaa");
}

UNIT(where_none_is_well_it_is_who_will_be_first)
{
    for (int failover = 0; failover < 2; failover++) {
        struct targets t = three(1, 1, 1);
        t.failover = failover;
        ck_assert(target_is_any_well(&t, S));
        target_failed(&t.at[0], S, 9 * S);
        target_failed(&t.at[1], S, 5 * S);
        ck_assert(target_is_any_well(&t, S));
        target_failed(&t.at[2], S, 7 * S);
        ck_assert(!target_is_any_well(&t, S));
        ck_assert_str_eq(picks(&t, S, 3), "bbb");
        ck_assert(target_is_any_well(&t, 6 * S));
    }
}
