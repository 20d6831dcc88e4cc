/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include "proto/base/clock.h"
#include "proto/base/macros.h"
#include "sender/foreign/allowance.h"

UNIT(a_reading_is_charged_to_all_that_it_is_a_part_of)
{
    struct allowance all = {.left = 100000}, user = {.left = 50000, .from = &all};
    struct allowance file = {.left = 5000, .from = &user};
    ck_assert(allowance_take(&file, 4000));
    ck_assert_int_eq(file.left, 1000 - ALLOWANCE_CALL);
    ck_assert_int_eq(user.left, 46000 - ALLOWANCE_CALL);
    ck_assert_int_eq(all.left, 96000 - ALLOWANCE_CALL);
    ck_assert(!allowance_take(&file, 1)); /* overdrawn */
    ck_assert(allowance_take(&user, 1));
    all.left = 0;
    ck_assert(!allowance_take(&user, 1));
    ck_assert(allowance_take(NULL, 1));
}

UNIT(beside_a_share_is_half_of_what_the_user_has)
{
    struct allowance all = {.left = 1000}, user = {.left = 600, .from = &all, .user = 7},
                     share = {.left = 0, .from = &user, .user = 7}, beside = allowance_beside(&share);
    ck_assert_int_eq(beside.left, 300);
    ck_assert_uint_eq(allowance_user(&beside), 7);
    allowance_charge(&beside, 100);
    ck_assert_int_eq(user.left, 500);
    all.left = 100; /* others have taken it */
    ck_assert_int_eq(allowance_beside(&share).left, 50);
    ck_assert_int_eq(allowance_beside(&user).left, 0);
    ck_assert_int_eq(allowance_beside(NULL).left, 0);
}

UNIT(one_user_cannot_take_what_others_have)
{
    struct ledger l;
    uint64_t now = 5 * NSEC_PER_SEC;
    ledger_init(&l, LEDGER_SAVED);
    struct allowance *bad = ledger_of(&l, 65534, now), *good = ledger_of(&l, 1000, now);
    ck_assert(bad != good);
    while (allowance_take(bad, 1 << 20))
        ;
    ck_assert(!allowance_is_spent(good));
    for (int i = 0; i < 600; i++) { /* ten minutes of taking what there is */
        now += NSEC_PER_SEC;
        (void)ledger_of(&l, 65534, now);
        while (allowance_take(bad, 4096))
            ;
        ck_assert(allowance_take(ledger_of(&l, 1000, now), LEDGER_SECOND / 2));
    }
}

/* Nor can any number of them who take all they can: containers of many users, or one with many accounts. */
UNIT(many_users_cannot_take_what_another_one_has)
{
    static const uint32_t liars[] = {3, 4, 5, 12, 30};
    for (size_t i = 0; i < ARRAY_LEN(liars); i++) {
        struct ledger l;
        uint64_t now = 5 * NSEC_PER_SEC;
        ledger_init(&l, LEDGER_SAVED);
        const struct allowance *good = ledger_of(&l, 1000, now);
        for (int second = 0; second < 100; second++, now += NSEC_PER_SEC) {
            int64_t taken = 0;
            for (uint32_t user = 1, n = 0; n < liars[i]; user++) {
                struct allowance *liar = ledger_of(&l, user, now);
                if (liar == good)
                    continue;
                int64_t charged = liar->charged;
                while (allowance_take(liar, 16384))
                    ;
                taken += liar->charged - charged;
                n++;
            }
            struct allowance *other = ledger_of(&l, 1000, now);
            if (second > 2)
                ck_assert_msg(allowance_take(other, (size_t)(LEDGER_SECOND * LEDGER_SHARES / 2 /
                                                             ((int64_t)liars[i] + 5))),
                              "%u liars, second %d: %lld", liars[i], second,
                              (long long)allowance_left(other));
            if (second > 30)
                ck_assert_int_le(taken, LEDGER_SHARES * LEDGER_SECOND + (int64_t)liars[i] * 32768);
        }
    }
}

/* However many of a user's processes take what they can: another one of his has enough for its names. */
UNIT(a_process_cannot_take_what_its_neighbours_have)
{
    static const uint64_t liars[] = {1, 3, 20};
    for (size_t i = 0; i < ARRAY_LEN(liars); i++) {
        struct ledger l;
        uint64_t now = 5 * NSEC_PER_SEC;
        ledger_init(&l, LEDGER_SAVED);
        for (int second = 0; second < 100; second++, now += NSEC_PER_SEC) {
            for (uint64_t liar = 1; liar <= liars[i]; liar++)
                while (allowance_take(ledger_share(&l, 1000, liar, now), 16384))
                    ;
            struct allowance *good = ledger_share(&l, 1000, 100, now);
            if (second > 2)
                ck_assert_msg(allowance_take(good, (size_t)(LEDGER_SECOND / 2 / ((int64_t)liars[i] + 2))),
                              "%d", second);
        }
        ck_assert(!allowance_is_spent(ledger_share(&l, 1001, 1, now)));
    }
}

UNIT(a_process_that_is_alone_has_all_of_its_user_s)
{
    struct ledger l;
    ledger_init(&l, LEDGER_SAVED);
    allowance_charge(ledger_share(&l, 7, 1, 1), LEDGER_SAVED - 1);
    ck_assert(!allowance_is_spent(ledger_share(&l, 7, 1, 1)));
    allowance_charge(ledger_share(&l, 7, 1, 1), 1);
    ck_assert(allowance_is_spent(ledger_share(&l, 7, 1, 1)));
    ck_assert_int_ge(ledger_share(&l, 7, 1, 1 + NSEC_PER_SEC)->left, LEDGER_SECOND * 9 / 10);
}

UNIT(what_is_spent_comes_back_with_time)
{
    struct ledger l;
    uint64_t now = 1;
    ledger_init(&l, LEDGER_SAVED);
    struct allowance *a = ledger_of(&l, 7, now);
    ck_assert_int_eq(a->left, LEDGER_SAVED);
    allowance_charge(a, LEDGER_SAVED);
    ck_assert(allowance_is_spent(a));
    for (int i = 0; i < 1000; i++) /* looked at ever so often */
        a = ledger_of(&l, 7, now += NSEC_PER_SEC / 1000);
    ck_assert_int_ge(a->left, LEDGER_SECOND * 9 / 10);
    ck_assert_int_le(a->left, LEDGER_SECOND);
    a = ledger_of(&l, 7, now + 100000 * (uint64_t)NSEC_PER_SEC);
    ck_assert_int_eq(a->left, LEDGER_SAVED);
}

UNIT(what_is_there_first_does_not_come_back)
{
    struct ledger l;
    uint64_t now = 1;
    ledger_init(&l, 2 * LEDGER_SAVED);
    allowance_charge(ledger_of(&l, 7, now), 1000);
    ck_assert_int_eq(ledger_of(&l, 7, now += NSEC_PER_SEC)->left, 2 * LEDGER_SAVED - 1000);
}

UNIT(what_was_paid_by_the_byte_is_not_paid_again_by_time)
{
    struct allowance all = {.left = 100000}, user = {.left = 50000, .from = &all};
    allowance_charge(&user, 7000); /* before */
    int64_t charged = user.charged;
    allowance_charge(&user, 1000);
    allowance_settle(&user, charged, 3000);
    ck_assert_int_eq(user.left, 40000);
    ck_assert_int_eq(all.left, 90000);
    allowance_settle(&user, charged, 2000);
    ck_assert_int_eq(user.left, 40000);
}
