/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/ingest/habit.h"

#include "tests/lib/unit.h"

static struct habits habits;

/* A request whose resource and scope have these bytes (as attributes; what they are does not matter). */
static uint64_t producer_of(uint64_t client, uint8_t resource, uint8_t scope)
{
    const uint8_t body[] = {0x12, 0, 0x0a, 10, 0x0a, 2, 0x10, resource, 0x12, 4, 0x0a, 2, 0x20, scope};
    return habits_producer(&habits, client, bytes_of(body, sizeof body));
}

static uint64_t producer(uint8_t resource, uint8_t scope)
{
    return producer_of(7, resource, scope);
}

static bool learn(uint64_t who, enum profiles_layout layout, bool told, bool contradicts)
{
    const struct profiles view = {.layout = layout, .told = told, .contradicts = contradicts};
    return habits_learn(&habits, who, &view);
}

UNIT(a_producer_is_its_resource_and_scope)
{
    habits_init(&habits);
    ck_assert_uint_eq(producer(1, 1), producer(1, 1));
    ck_assert_uint_ne(producer(1, 1), producer(2, 1));
    ck_assert_uint_ne(producer(1, 1), producer(1, 2));
    ck_assert_uint_ne(producer(1, 2), producer(2, 1));
    ck_assert_uint_eq(habits_producer(&habits, 7, BYTES_LIT("")), 0);
    ck_assert_uint_eq(habits_producer(&habits, 7, BYTES_LIT("\x0a\x02\x12\x00")), 0);
    ck_assert_uint_eq(habits_producer(&habits, 7, BYTES_LIT("\x0a\xff\xff\xff")), 0);
}

UNIT(nobody_teaches_what_anothers_requests_mean)
{
    habits_init(&habits);
    for (int i = 0; i < 100; i++)
        learn(producer_of(8, 1, 1), PROFILES_LAYOUT_1_9, true, false);
    ck_assert_int_eq(habits_of(&habits, producer(1, 1)).layout, PROFILES_LAYOUT_UNKNOWN);
}

UNIT(only_what_is_told_is_learnt)
{
    habits_init(&habits);
    const uint64_t who = producer(1, 1);
    ck_assert(!learn(who, PROFILES_LAYOUT_1_10, false, false));
    ck_assert_int_eq(habits_of(&habits, who).layout, PROFILES_LAYOUT_UNKNOWN);
    ck_assert(!learn(who, PROFILES_LAYOUT_1_9, true, false));
    ck_assert_int_eq(habits_of(&habits, who).layout, PROFILES_LAYOUT_1_9);
    ck_assert(!learn(0, PROFILES_LAYOUT_1_9, true, false));
    ck_assert_int_eq(habits_of(&habits, 0).layout, PROFILES_LAYOUT_UNKNOWN);
    for (int i = 0; i < 100; i++)
        learn(who, PROFILES_LAYOUT_1_9, true, false);
    ck_assert_uint_eq(habits_of(&habits, who).weight, HABIT_WEIGHT_MAX);
}

UNIT(contradictions_are_said_once_and_believed_in_the_end)
{
    habits_init(&habits);
    const uint64_t who = producer(1, 1);
    for (int i = 0; i < 100; i++)
        learn(who, PROFILES_LAYOUT_1_9, true, false);
    ck_assert(learn(who, PROFILES_LAYOUT_1_9, true, true)); /* small: read as the others */
    ck_assert(!learn(who, PROFILES_LAYOUT_1_9, true, true));
    ck_assert_int_eq(habits_of(&habits, who).layout, PROFILES_LAYOUT_1_9);
    ck_assert_uint_eq(habits_of(&habits, who).weight, HABIT_WEIGHT_MAX / 4);
    ck_assert(!learn(who, PROFILES_LAYOUT_1_10, true, true)); /* more than is known: read as it is */
    ck_assert_int_eq(habits_of(&habits, who).layout, PROFILES_LAYOUT_1_10);
    ck_assert_uint_lt(habits_of(&habits, who).weight, HABIT_WEIGHT_MAX);
}

/* Names made up by somebody push each other out, not who sends for long. */
UNIT(newcomers_do_not_make_others_forgotten)
{
    habits_init(&habits);
    uint64_t known = producer(1, 1);
    for (int i = 0; i < 4; i++)
        learn(known, PROFILES_LAYOUT_1_9, true, false);
    for (uint64_t other = 1; other < 100000; other += 2)
        learn(other * 0x9e3779b97f4a7c15u | 1, PROFILES_LAYOUT_1_10, true, false);
    ck_assert_int_eq(habits_of(&habits, known).layout, PROFILES_LAYOUT_1_9);
}
