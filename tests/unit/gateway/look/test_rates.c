/* SPDX-License-Identifier: Apache-2.0 */
/* Who is thinned: nobody while it is little, then those that send most, to the same number of each. */
#include "gateway/look/rates.h"

#include "tests/lib/unit.h"

static struct look_rates rates;

static double p_of(uint32_t place)
{
    return (double)rates.p[place] / LOOK_RATES_ONE;
}

/* What is saved up is spent: then N is what there is. */
static void spend(void)
{
    while (look_rates_take(&rates, 255, 1000) > 0)
        ;
}

UNIT(little_is_kept_whole)
{
    uint64_t came[LOOK_RATES] = {3000, 1000};
    look_rates_init(&rates, 5000);
    for (int i = 0; i < 100; i++) {
        ck_assert_uint_eq(look_rates_take(&rates, 0, 3000), LOOK_RATES_ONE);
        ck_assert_uint_eq(look_rates_take(&rates, 1, 1000), LOOK_RATES_ONE);
        look_rates_set(&rates, came, 1);
    }
}

UNIT(those_that_send_most_are_thinned_to_one_level)
{
    uint64_t came[LOOK_RATES] = {100000, 50000, 1000, 10};
    look_rates_init(&rates, 5000);
    spend();
    look_rates_set(&rates, came, 1);
    ck_assert_uint_eq(rates.p[2], LOOK_RATES_ONE);
    ck_assert_uint_eq(rates.p[3], LOOK_RATES_ONE);
    ck_assert_double_eq_tol(p_of(0) * 100000, 1995, 3); /* half of what the small ones leave */
    ck_assert_double_eq_tol(p_of(1) * 50000, 1995, 3);
}

UNIT(a_rest_is_worth_ten_seconds_and_then_nothing_is_left)
{
    look_rates_init(&rates, 100);
    uint64_t kept = 0;
    for (int i = 0; i < 100; i++) {
        const uint32_t p = look_rates_take(&rates, 7, 50);
        kept += 50ull * p / LOOK_RATES_ONE;
    }
    ck_assert_uint_eq(kept, 1000);
    ck_assert_uint_eq(look_rates_take(&rates, 7, 50), 0);
    uint64_t nothing[LOOK_RATES] = {0};
    look_rates_set(&rates, nothing, 1);
    ck_assert_uint_eq(look_rates_take(&rates, 7, 50), LOOK_RATES_ONE);
}
