/* SPDX-License-Identifier: Apache-2.0 */
/* Whose turn it is: by addresses, not connections, and nobody waits who used little. */
#include "gateway/listen/turns.h"

#include <time.h>

#include "proto/base/macros.h"
#include "tests/lib/unit.h"

#define MS ((uint64_t)NSEC_PER_MSEC)

static struct turns *turns_made(void)
{
    struct turns *t = unit_made(calloc(1, sizeof *t));
    turns_init(t);
    return t;
}

static uint32_t place(const char *address)
{
    return turns_address(turns_host(address));
}

UNIT(a_port_is_not_an_address)
{
    ck_assert_uint_eq(place("127.0.0.1:40312"), place("127.0.0.1:9"));
    ck_assert_uint_eq(place("[2001:db8:1:2:3::1]:80"), place("[2001:db8:1:2:ffff::]:81"));
    ck_assert_uint_eq(place("[fe80::1%eth0]:80"), place("[fe80::2]:80"));
    ck_assert_uint_eq(place("unix:uid=1000"), place("unix:uid=1000"));
    uint32_t first = place("10.0.0.1:1"), others = 0, here[3] = {place("10.0.0.2:1")};
    here[1] = place("[2001:db8:1:3::1]:80");
    here[2] = place("unix:uid=1");
    for (size_t i = 0; i < ARRAY_LEN(here); i++)
        others += here[i] != first; /* by chance one may be the same: the seed is random */
    ck_assert_uint_ge(others, 2);
    ck_assert_uint_lt(place(""), TURNS_ADDRESSES);
    ck_assert_uint_lt(place("["), TURNS_ADDRESSES);
}

UNIT(who_uses_little_never_waits)
{
    autofree struct turns *t = turns_made();
    struct turn other = {0};
    turns_wait(t, &other);
    uint64_t now = 1000 * MS;
    for (uint32_t i = 0; i < 1000; i++, now += 10 * MS) { /* its share of the time, for long */
        ck_assert(!turns_must_wait(t, 7, now));
        turns_charge(t, 7, now, 10 * MS / TURNS_SHARE);
    }
}

UNIT(who_uses_much_waits_when_a_turn_is_used_up)
{
    autofree struct turns *t = turns_made();
    uint64_t now = 1000 * MS;
    turns_charge(t, 7, now, TURNS_BUSY_NS + 5 * MS);
    ck_assert(!turns_must_wait(t, 7, now)); /* nobody else is here */
    ck_assert(!turns_must_wait(t, 8, now));
    ck_assert(turns_must_wait(t, 7, now)); /* it took all of this turn */
    ck_assert(turns_must_wait(t, 7, now) && !turns_must_wait(t, 7, now + TURNS_ALONE_NS));
    turns_charge(t, 7, now, 200 * MS);
    ck_assert(!turns_must_wait(t, 7, now + MS)); /* a turn of the loop later nobody is in its way */
    turns_charge(t, 7, now + MS, TURNS_ROUND_NS);
    ck_assert(!turns_must_wait(t, 8, now + MS));
    ck_assert(turns_must_wait(t, 7, now + MS));
    struct turn other = {0};
    turns_wait(t, &other); /* and behind others it waits at any time */
    ck_assert(turns_must_wait(t, 7, now + 2 * MS));
    turns_leave(t, &other);
    ck_assert(!turns_must_wait(t, 7, now + 2 * MS));
}

static void nap(struct turns *t, uint32_t address, uint64_t now)
{
    const struct timespec time = {.tv_nsec = (long)(2 * TURNS_BUSY_NS)};
    const struct turns_spell spell = turns_spell_begin(t, address, now);
    nanosleep(&time, NULL);
    turns_spell_charge(t, address, now, spell, clock_monotonic());
}

/* A thread that waits for a core does nothing, either. */
UNIT(who_may_be_busy_soon_is_not_charged_what_others_take_of_the_machine)
{
    autofree struct turns *t = turns_made();
    struct turn other = {0};
    const uint64_t now = 1000 * MS;
    turns_wait(t, &other);
    turns_must_wait(t, 7, now);
    turns_charge(t, 7, now, TURNS_BUSY_NS / 2);
    turns_must_wait(t, 8, now);
    for (int i = 0; i < 3; i++)
        nap(t, 7, now);
    ck_assert(!turns_must_wait(t, 7, now));
    nap(t, 9, now); /* who did nothing yet: by the clock, which costs less */
    ck_assert(turns_must_wait(t, 9, now));
    turns_leave(t, &other);
}

UNIT(what_was_used_is_forgotten)
{
    autofree struct turns *t = turns_made();
    uint64_t now = 1000 * MS, forgotten = (TURNS_DEBT_MAX - TURNS_BUSY_NS) * (uint64_t)TURNS_SHARE;
    struct turn other = {0};
    turns_wait(t, &other);
    turns_charge(t, 7, now, 3600 * 1000 * MS);
    ck_assert(!turns_must_wait(t, 8, now + forgotten - MS));
    ck_assert(turns_must_wait(t, 7, now + forgotten - MS));
    ck_assert(!turns_must_wait(t, 7, now + forgotten));
    ck_assert_uint_le(forgotten, 4 * (uint64_t)NSEC_PER_SEC); /* as the header says */
}

UNIT(who_abused_a_connection_is_heard_warily_for_a_while)
{
    autofree struct turns *t = turns_made();
    const uint64_t now = 1000 * MS;
    ck_assert(!turns_are_wary(t, 7, now));
    turns_abused(t, 7, now);
    ck_assert(turns_are_wary(t, 7, now) && !turns_are_wary(t, 8, now));
    turns_abused(t, 7, now + MS);
    ck_assert(turns_are_wary(t, 7, now + TURNS_WARY_NS));
    ck_assert(!turns_are_wary(t, 7, now + MS + TURNS_WARY_NS));
}

UNIT(a_round_of_the_queue_ends_with_its_time)
{
    autofree struct turns *t = turns_made();
    struct turn a = {0}, b = {0}, c = {0};
    uint64_t now = 1000 * MS;
    turns_charge(t, 7, now, TURNS_DEBT_MAX);
    turns_wait(t, &a);
    turns_wait(t, &b);
    turns_wait(t, &c);
    turns_wait(t, &a); /* it keeps its place */
    turns_begin(t, now);
    ck_assert_ptr_eq(turns_next(t), &a);
    turns_charge(t, 7, now, TURNS_ROUND_NS / 2);
    turns_wait(t, &a);
    ck_assert_ptr_eq(turns_next(t), &b);
    turns_charge(t, 7, now, TURNS_ROUND_NS / 2);
    ck_assert_ptr_null(turns_next(t));
    turns_begin(t, now);
    turns_leave(t, &c);
    turns_leave(t, &c);
    ck_assert_ptr_eq(turns_next(t), &a);
    ck_assert_ptr_null(turns_next(t));
    ck_assert(turns_is_empty(t));
}

/* Who is beside a flood waits for no more than a millisecond of it in a turn of the loop. */
UNIT(a_flood_has_a_millisecond_of_a_turn)
{
    autofree struct turns *t = turns_made();
    struct turn of_flood[20] = {0};
    uint64_t now = 1000 * MS;
    turns_charge(t, 0, now, TURNS_DEBT_MAX);
    for (size_t i = 0; i < ARRAY_LEN(of_flood); i++)
        turns_wait(t, &of_flood[i]);
    for (int turn = 0; turn < 10; turn++) {
        uint64_t spent = 0;
        turns_begin(t, now += MS);
        for (struct turn *next; (next = turns_next(t)); spent += TURNS_ONE_NS) {
            turns_charge(t, 0, now, TURNS_ONE_NS);
            turns_wait(t, next);
        }
        ck_assert(spent > 0 && spent <= MS);
    }
}

UNIT(addresses_take_turns_however_much_of_one_waits)
{
    autofree struct turns *t = turns_made();
    struct turn many[20], few[2] = {{.address = 2}, {.address = 2}}, one = {.address = 3};
    for (size_t i = 0; i < ARRAY_LEN(many); i++) {
        many[i] = (struct turn){.address = 1};
        turns_wait(t, &many[i]);
    }
    turns_wait(t, &few[0]);
    turns_wait(t, &few[1]);
    turns_wait(t, &one);
    turns_begin(t, 1000 * MS);
    struct turn *const order[] = {&many[0], &few[0], &one, &many[1], &few[1], &many[2]};
    for (size_t i = 0; i < ARRAY_LEN(order); i++)
        ck_assert_ptr_eq(turns_next(t), order[i]);
    turns_wait(t, &few[0]); /* it comes again: behind whose turn it is */
    ck_assert_ptr_eq(turns_next(t), &many[3]);
    ck_assert_ptr_eq(turns_next(t), &few[0]);
    ck_assert_ptr_eq(turns_next(t), &many[4]);
    turns_leave(t, &many[10]); /* out of the middle */
    for (size_t i = 0; i < ARRAY_LEN(many); i++)
        turns_leave(t, &many[i]);
    ck_assert(turns_is_empty(t));
    ck_assert_ptr_null(turns_next(t));
}

UNIT(two_who_are_both_busy_are_not_alone)
{
    autofree struct turns *t = turns_made();
    uint64_t now = 1000 * MS;
    turns_charge(t, 7, now, TURNS_DEBT_MAX);
    turns_charge(t, 8, now, TURNS_DEBT_MAX);
    ck_assert(!turns_must_wait(t, 7, now));
    ck_assert(turns_must_wait(t, 8, now)); /* the turn is used up, and by both of them */
    ck_assert(turns_must_wait(t, 7, now));
    ck_assert(!turns_must_wait(t, 7, now + TURNS_ALONE_NS)); /* the other went away */
}
