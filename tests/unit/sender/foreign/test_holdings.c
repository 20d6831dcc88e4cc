/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include "sender/foreign/holdings.h"

UNIT(who_holds_most_is_known_as_things_come_and_go)
{
    struct holdings h = {0};
    for (uint8_t i = 0; i < HOLDERS; i++) {
        holdings_add(&h, i, i + 1);
        ck_assert_uint_eq(h.most, i);
    }
    for (uint8_t i = HOLDERS - 1; i > 0; i--) {
        holdings_take(&h, 0, 1); /* who does not hold most: nothing changes */
        ck_assert_uint_eq(h.most, i);
        holdings_add(&h, 0, 1);
        holdings_take(&h, i, i); /* as little is left as the least has */
        if (i > 1)
            ck_assert_uint_eq(h.most, i - 1);
    }
    for (uint8_t i = 0; i < HOLDERS; i++)
        ck_assert_uint_eq(h.of[i], 1);
}

UNIT(of_many_users_each_counts_as_one_of_a_few)
{
    uint32_t n[HOLDERS] = {0};
    for (uint32_t user = 100000; user < 100000 + 65536 * 64u; user += 65536) /* the roots of containers */
        n[holder_of(user)]++;
    for (uint32_t i = 0; i < HOLDERS; i++)
        ck_assert_uint_le(n[i], 8);
}
