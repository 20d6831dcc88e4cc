/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/access/gcra.h"
#include "proto/base/clock.h"
#include "tests/lib/unit.h"

#define S ((uint64_t)NSEC_PER_SEC)

UNIT(a_second_costs_what_a_second_allows)
{
    ck_assert_uint_eq(gcra_cost(1000, 1000), S);
    ck_assert_uint_eq(gcra_cost(0, 1000), 0);
    ck_assert_uint_eq(gcra_cost(1, 3), 333333334); /* rounded up: never more than the rate */
    ck_assert_uint_gt(gcra_cost(UINT64_MAX, 1), 99ull * 366 * 86400 * S);
}

UNIT(a_burst_passes_and_then_the_rate)
{
    struct gcra g = {0};
    uint64_t wait = 0, now = 1000 * S, cost = gcra_cost(100, 1000), burst = S;
    for (int i = 0; i < 10; i++)
        ck_assert(gcra_take(&g, now, cost, burst, &wait));
    ck_assert(!gcra_take(&g, now, cost, burst, &wait));
    ck_assert_uint_eq(wait, S / 10);
    ck_assert(!gcra_take(&g, now + wait - 1, cost, burst, &wait));
    ck_assert(gcra_take(&g, now + S / 10, cost, burst, &wait));
    unsigned taken = 0; /* ten seconds at ten thousand tries: ten a second, and what the burst gave back */
    for (int i = 0; i < 10000; i++)
        taken += gcra_take(&g, now + S + i * S / 1000, cost, burst, &wait);
    ck_assert_uint_ge(taken, 107);
    ck_assert_uint_le(taken, 109);
}

UNIT(a_bucket_holds_no_more_than_its_burst_however_long_it_rested)
{
    struct gcra g = {0};
    uint64_t wait;
    ck_assert(gcra_take(&g, 5 * S, S, S, &wait));
    ck_assert(gcra_take(&g, 5000 * S, S, S, &wait));
    ck_assert(!gcra_take(&g, 5000 * S, 1, S, &wait));
    ck_assert(!gcra_take(&g, 9000 * S, S + 1, S, &wait)); /* never fits */
}

UNIT(what_is_owed_is_paid_before_anything_else)
{
    struct gcra g = {0};
    uint64_t wait, now = 10 * S;
    ck_assert_uint_eq(gcra_owe(&g, now, S, S), 0);
    ck_assert_uint_eq(gcra_owe(&g, now, 2 * S, S), 2 * S);
    ck_assert(!gcra_take(&g, now, 0, S, &wait));
    ck_assert_uint_eq(wait, 2 * S);
    ck_assert(gcra_take(&g, now + 2 * S, 0, S, &wait));
    for (int i = 0; i < 1000; i++) /* saturates */
        gcra_owe(&g, now, UINT64_MAX / 8, S);
    ck_assert(!gcra_take(&g, now + 1000000 * S, 0, S, &wait));
}

UNIT(what_is_returned_can_be_taken_again)
{
    struct gcra g = {0};
    uint64_t wait, now = 10 * S;
    ck_assert(gcra_take(&g, now, S, S, &wait));
    gcra_return(&g, S);
    ck_assert(gcra_take(&g, now, S, S, &wait));
}
