/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/intern.h"

#include <stdio.h>

#include "tests/lib/unit.h"

UNIT(equal_bytes_get_equal_numbers)
{
    cleanup(intern_release) struct intern t = INTERN_INIT(NULL);
    char text[32];
    for (uint32_t round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < 10000; i++) {
            snprintf(text, sizeof text, "string %u", i);
            ck_assert_uint_eq(intern_add(&t, bytes_str(text)), i);
        }
    }
    ck_assert(bytes_is(intern_get(&t, 77), "string 77"));
    ck_assert_uint_eq(intern_find(&t, BYTES_LIT("never")), INTERN_NONE);
    intern_clear(&t);
    ck_assert_uint_eq(intern_find(&t, BYTES_LIT("string 77")), INTERN_NONE);
    ck_assert_uint_eq(intern_add(&t, BYTES_LIT("")), 0);
}

UNIT(a_spent_budget_gives_none)
{
    struct budget budget = BUDGET_INIT(32 << 10, NULL);
    struct intern t = INTERN_INIT(&budget);
    char big[4096] = {0};
    uint32_t n = 0;
    for (; n < 100; n++) {
        big[0] = (char)n;
        if (intern_add(&t, bytes_of(big, sizeof big)) == INTERN_NONE)
            break;
    }
    ck_assert_uint_gt(n, 0);
    ck_assert_uint_lt(n, 100);
    intern_release(&t);
    ck_assert_uint_eq(atomic_load(&budget.used), 0);
}
