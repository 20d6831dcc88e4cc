/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/room.h"

#include <malloc.h>

#include "tests/lib/unit.h"

UNIT(memory_that_is_taken_out_is_off_the_budget)
{
    struct budget budget = BUDGET_INIT(64 << 10, NULL);
    struct buffer b = {0};
    size_t n;
    ck_assert_ptr_null(room_take(&b, &budget, &n));
    ck_assert_int_eq(room_make(&b, 4, &budget), 0);
    buffer_add(&b, "body", 4);
    autofree uint8_t *p = room_take(&b, &budget, &n);
    ck_assert(bytes_is(bytes_of(p, n), "body"));
    ck_assert_uint_eq(atomic_load(&budget.used), 0);
    ck_assert_uint_eq(b.cap, 0);
    ck_assert_uint_lt(malloc_usable_size(p), ROOM_MIN);
}
