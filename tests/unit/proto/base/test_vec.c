/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/vec.h"

#include "tests/lib/sweep.h"
#include "tests/lib/unit.h"

struct point {
    uint32_t x;
    uint64_t y;
};

UNIT(what_was_added_is_there_in_order)
{
    VEC(struct point) v = {0};
    for (uint32_t i = 0; i < 10000; i++)
        ck_assert_int_eq(vec_append(&v, (struct point){i, 2 * i}), 0);
    ck_assert_uint_eq(v.n, 10000);
    for (uint32_t i = 0; i < v.n; i++)
        ck_assert(v.p[i].x == i && v.p[i].y == 2 * i);
    ck_assert_uint_eq(vec_last(&v)->x, 9999);
    ck_assert_uint_eq(vec_pop(&v).x, 9999);
    ck_assert_uint_eq(v.n, 9999);
    vec_clear(&v);
    ck_assert_uint_eq(v.n, 0);
    ck_assert_uint_ge(v.room, 10000);
    vec_release(&v);
    ck_assert(!v.p && v.n == 0 && v.room == 0);
}

/* Growing moves the array under the value that is added. */
UNIT(one_of_its_own_can_be_added)
{
    VEC(uint64_t) v = {0};
    ck_assert_int_eq(vec_append(&v, 7), 0);
    while (v.n < 4096)
        ck_assert_int_eq(vec_append(&v, v.p[0]), 0);
    for (uint32_t i = 0; i < v.n; i++)
        ck_assert_uint_eq(v.p[i], 7);
    vec_release(&v);
}

UNIT(arguments_are_evaluated_once)
{
    VEC(int) v[2] = {0};
    int i = 0, x = 5;
    ck_assert_int_eq(vec_append(&v[i++], x++), 0);
    ck_assert(i == 1 && x == 6 && v[0].n == 1 && v[0].p[0] == 5);
    vec_release(&v[0]);
}

UNIT(many_are_added_at_once)
{
    static const int some[] = {1, 2, 3};
    VEC(int) v = {0};
    for (uint32_t i = 0; i < 1000; i++)
        ck_assert_int_eq(vec_append_all(&v, some, ARRAY_LEN(some)), 0);
    ck_assert_int_eq(vec_append_all(&v, NULL, 0), 0);
    ck_assert_uint_eq(v.n, 3000);
    for (uint32_t i = 0; i < v.n; i++)
        ck_assert_int_eq(v.p[i], (int)(i % 3 + 1));
    vec_release(&v);
}

UNIT(an_array_by_number_is_zero_where_nobody_wrote)
{
    VEC(uint32_t) v = {0};
    uint32_t at = 0;
    for (uint32_t n = 1; n < 5000; n += n / 2 + 1) {
        ck_assert_int_eq(vec_extend(&v, n), 0);
        for (; at < n; at++) {
            ck_assert_uint_eq(v.p[at], 0);
            v.p[at] = ~at;
        }
        ck_assert_uint_eq(v.p[0], ~0u);
    }
    uint32_t n = v.n;
    ck_assert_int_eq(vec_extend(&v, 1), 0);
    ck_assert_uint_eq(v.n, n);
    vec_release(&v);
}

UNIT(the_budget_is_charged_for_what_it_holds)
{
    struct budget budget = BUDGET_INIT(1u << 20, NULL);
    VEC(struct point) v = {.budget = &budget};
    for (uint32_t i = 0; i < 1000; i++) {
        ck_assert_int_eq(vec_append(&v, (struct point){i, i}), 0);
        ck_assert_uint_eq(atomic_load(&budget.used), v.room * sizeof *v.p);
    }
    vec_fit(&v);
    ck_assert_uint_eq(v.room, 1000);
    ck_assert_uint_eq(v.p[999].x, 999);
    ck_assert_uint_eq(atomic_load(&budget.used), 1000 * sizeof *v.p);
    vec_clear(&v);
    vec_fit(&v);
    ck_assert(!v.p);
    ck_assert_uint_eq(atomic_load(&budget.used), 0);
    ck_assert(v.budget == &budget);
}

UNIT(a_spent_budget_refuses_and_changes_nothing)
{
    struct budget budget = BUDGET_INIT(4096, NULL);
    VEC(uint32_t) v = {.budget = &budget};
    uint32_t n = 0;
    while (vec_append(&v, n) == 0)
        ck_assert_uint_lt(++n, 2000);
    ck_assert_uint_eq(v.n, 1024);
    ck_assert_int_eq(vec_extend(&v, 1025), -ENOMEM);
    ck_assert_int_eq(vec_append_all(&v, v.p, 1), -ENOMEM);
    ck_assert_uint_eq(v.n, 1024);
    ck_assert_uint_eq(v.p[1023], 1023);
    vec_release(&v);
    ck_assert_uint_eq(atomic_load(&budget.used), 0);
}

UNIT(what_no_machine_has_is_refused)
{
    VEC(uint8_t) bytes = {0};
    ck_assert_int_eq(vec_reserve(&bytes, (uint64_t)UINT32_MAX + 1), -ENOMEM);
    ck_assert_int_eq(vec_reserve(&bytes, UINT64_MAX), -ENOMEM);
    struct huge {
        char c[1ull << 40];
    };
    VEC(struct huge) huge = {0};
    ck_assert_int_eq(vec_reserve(&huge, 1u << 24), -ENOMEM);
    ck_assert(!bytes.p && !huge.p && huge.room == 0);
}

OOM_SWEEP(a_refused_addition_changes_nothing)
{
    struct budget budget = BUDGET_INIT(1u << 20, NULL);
    VEC(uint32_t) v = {.budget = &budget};
    uint32_t n = 0;
    for (uint32_t i = 0; i < 1000; i++) {
        if (vec_append(&v, n) == 0)
            n++;
        ck_assert_uint_eq(v.n, n);
        ck_assert_uint_eq(atomic_load(&budget.used), v.room * sizeof *v.p);
    }
    for (uint32_t i = 0; i < n; i++)
        ck_assert_uint_eq(v.p[i], i);
    vec_fit(&v);
    vec_release(&v);
    ck_assert_uint_eq(atomic_load(&budget.used), 0);
}
