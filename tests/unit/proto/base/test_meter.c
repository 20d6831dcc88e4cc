/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/meter.h"

#include "proto/base/macros.h"
#include "tests/lib/unit.h"

#define MIB ((size_t)1 << 20)

struct world {
    struct budget all;
    struct accounts accounts;
    struct meter one, other; /* of two threads */
};

static void begin(struct world *w)
{
    *w = (struct world){.all = BUDGET_INIT(64 * MIB, NULL), .accounts = {.limit = 8 * MIB}};
    meter_init(&w->one, &w->accounts, &w->all);
    meter_init(&w->other, &w->accounts, &w->all);
}

static size_t held(struct world *w, uint64_t client)
{
    return account_of(&w->accounts, client)->held;
}

UNIT(what_one_client_has_under_way_together_has_a_limit)
{
    struct world w;
    begin(&w);
    ck_assert(meter_begin(&w.one, 1) && meter_begin(&w.other, 1));
    ck_assert(budget_charge(&w.one.budget, 5 * MIB));
    ck_assert(!w.other.is_spent && !budget_charge(&w.other.budget, 4 * MIB));
    ck_assert(w.other.is_spent && !w.one.is_spent);
    ck_assert(budget_charge(&w.other.budget, 2 * MIB));
    ck_assert_uint_eq(held(&w, 1), 7 * MIB);
    ck_assert(meter_begin(&w.other, 2) && budget_charge(&w.other.budget, 4 * MIB)); /* another's */
    ck_assert(!w.other.is_spent);
    meter_end(&w.one);
    meter_end(&w.other);
    ck_assert_uint_eq(held(&w, 1) + held(&w, 2), 0);
    ck_assert_uint_eq(w.all.used, 11 * MIB); /* it is still there, and nobody's */
}

UNIT(who_holds_as_much_as_he_may_begins_nothing)
{
    struct world w;
    begin(&w);
    ck_assert(meter_begin(&w.one, 1) && budget_charge(&w.one.budget, 8 * MIB));
    ck_assert(!meter_begin(&w.other, 1));
    ck_assert(budget_charge(&w.other.budget, MIB)); /* nobody's */
    ck_assert_uint_eq(held(&w, 1), 8 * MIB);
    ck_assert(meter_begin(&w.other, 2));
}

/* Each of two needs more than there is for both: one is done, then the other. */
UNIT(of_two_that_are_large_the_first_is_done)
{
    struct world w;
    begin(&w);
    ck_assert(meter_begin(&w.one, 1) && meter_begin(&w.other, 1));
    ck_assert(budget_charge(&w.other.budget, 5 * MIB) && budget_charge(&w.one.budget, 2 * MIB));
    ck_assert(budget_charge(&w.one.budget, 5 * MIB) && !budget_charge(&w.other.budget, MIB));
    meter_end(&w.other); /* refused */
    meter_end(&w.one);
    ck_assert(meter_begin(&w.other, 1) && budget_charge(&w.other.budget, 20 * MIB));
}

UNIT(one_that_is_alone_is_limited_by_what_there_is)
{
    struct world w;
    begin(&w);
    ck_assert(meter_begin(&w.one, 1) && budget_charge(&w.one.budget, 40 * MIB));
    ck_assert(!meter_begin(&w.other, 1));
    ck_assert(!budget_charge(&w.one.budget, 30 * MIB) && !w.one.is_spent); /* limits.memory */
    meter_end(&w.one);
    ck_assert_uint_eq(held(&w, 1), 0);
}

/* The first may have more than its client's share, and not what others would need meanwhile. */
UNIT(the_first_leaves_room_to_others)
{
    struct world w;
    begin(&w);
    ck_assert(meter_begin(&w.one, 1) && budget_charge(&w.one.budget, 40 * MIB));
    ck_assert(!budget_charge(&w.one.budget, MIB) && !w.one.is_spent); /* it is too much by itself */
    ck_assert(meter_begin(&w.other, 2) && budget_charge(&w.other.budget, 8 * MIB));
    ck_assert(!budget_charge(&w.other.budget, MIB) && !w.other.is_spent); /* the first of the other client */
    ck_assert_uint_eq(held(&w, 1), 40 * MIB);
    ck_assert_uint_eq(held(&w, 2), 8 * MIB);
    ck_assert(meter_is_too_much(&w.one) && !meter_is_too_much(&w.other));
    ck_assert(budget_charge(&w.all, 8 * MIB)); /* it may be these others that left no room */
    ck_assert(!meter_is_too_much(&w.one));
}

/* However many there are: who holds most is told to wait, and one more finds room. */
UNIT(clients_that_are_many_leave_room_to_one_more)
{
    struct world w;
    struct meter of[20];
    begin(&w);
    w.accounts.limit = 16 * MIB;
    for (size_t i = 0; i < ARRAY_LEN(of); i++) {
        meter_init(&of[i], &w.accounts, &w.all);
        ck_assert(meter_begin(&of[i], i + 1));
    }
    for (bool is_more = true; is_more;) {
        is_more = false;
        for (size_t i = 0; i < ARRAY_LEN(of); i++)
            is_more |= budget_charge(&of[i].budget, MIB / 4);
    }
    ck_assert_uint_gt(w.all.used, 50 * MIB);
    ck_assert(!meter_begin(&w.one, 1) || !budget_charge(&w.one.budget, MIB / 4)); /* beside what it has */
    ck_assert(meter_begin(&w.other, 21) && budget_charge(&w.other.budget, MIB));
}

UNIT(memory_that_is_used_again_is_charged_to_nobody)
{
    struct world w;
    begin(&w);
    ck_assert(budget_charge(&w.one.budget, 20 * MIB)); /* from before */
    ck_assert(meter_begin(&w.one, 1));
    budget_refund(&w.one.budget, 6 * MIB);
    ck_assert(budget_charge(&w.one.budget, 6 * MIB));
    ck_assert_uint_eq(held(&w, 1), 0);
    ck_assert(budget_charge(&w.one.budget, 1));
    ck_assert_uint_gt(held(&w, 1), 0);
    ck_assert_uint_le(held(&w, 1), MIB); /* a step */
}

UNIT(nobody_and_no_limit_cost_nothing)
{
    struct world w;
    begin(&w);
    ck_assert(meter_begin(&w.one, 0) && budget_charge(&w.one.budget, 20 * MIB));
    w.accounts.limit = SIZE_MAX;
    ck_assert(meter_begin(&w.one, 1) && budget_charge(&w.one.budget, 20 * MIB));
    ck_assert_uint_eq(held(&w, 0) + held(&w, 1), 0);
}
