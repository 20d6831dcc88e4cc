/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include "sender/symbolize/cache/ranges.h"

static void add(struct ranges *r, uint64_t start, uint64_t end, uint32_t place, uint32_t flags)
{
    struct range range = {.start = start, .end = end, .place = place, .flags = flags};
    ck_assert_int_eq(ranges_add(r, &range), 0);
}

static void check(const struct ranges *r, uint64_t address, uint32_t place)
{
    const struct range *found = ranges_find(r, address);
    if (place == 0) {
        ck_assert_ptr_null(found);
        return;
    }
    ck_assert_ptr_nonnull(found);
    ck_assert_uint_eq(found->place, place);
}

UNIT(what_is_added_later_goes_where_it_belongs)
{
    static const uint64_t order[][4] = {{7, 1, 4, 9}, {0, 8, 3, 11}, {10, 2, 6, 5}};
    cleanup(ranges_release) struct ranges r = {0};
    for (uint32_t round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < 4; i++)
            add(&r, 100 * order[round][i], 100 * order[round][i] + 50, (uint32_t)order[round][i] + 1, 0);
        ranges_settle(&r);
        ck_assert_uint_eq(r.n_sorted, 4 * (round + 1));
    }
    for (uint32_t i = 0; i < 12; i++) {
        check(&r, 100 * i, i + 1);
        check(&r, 100 * i + 49, i + 1);
        check(&r, 100 * i + 50, 0);
    }
    ranges_settle(&r); /* nothing new */
    ck_assert_uint_eq(r.n_sorted, 12);
}

/* What DWARF answers depends on what it was asked beside: a piece of a window may begin where a shorter one
 * of an earlier window does. */
UNIT(of_two_that_overlap_the_other_begins_behind)
{
    cleanup(ranges_release) struct ranges r = {0};
    add(&r, 100, 200, 1, 0);
    add(&r, 400, 500, 2, 0);
    ranges_settle(&r);
    add(&r, 150, 250, 3, 0); /* begins later than one that is known */
    add(&r, 390, 450, 4, 0); /* and earlier */
    add(&r, 100, 120, 5, 0); /* at the same place the shorter one comes first */
    ranges_settle(&r);
    check(&r, 110, 5);
    check(&r, 160, 1);
    check(&r, 210, 3);
    check(&r, 395, 4);
    check(&r, 460, 2);
    add(&r, 300, 600, 6, 0);
    ranges_settle(&r);
    check(&r, 395, 6);
    check(&r, 550, 6);
}

UNIT(one_is_clipped_to_what_is_not_known)
{
    cleanup(ranges_release) struct ranges r = {0};
    struct range range = {.start = 0, .end = 1000};
    ranges_clip(&r, 5, &range); /* nothing is known */
    ck_assert_uint_eq(range.end, 1000);
    add(&r, 100, 200, 1, 0);
    add(&r, 400, 500, 2, 0);
    ranges_settle(&r);
    for (uint32_t i = 0; i < 3; i++) {
        static const uint64_t around[3][3] = {{50, 0, 100}, {200, 200, 400}, {999, 500, 1000}};
        range = (struct range){.start = 0, .end = 1000};
        ranges_clip(&r, around[i][0], &range);
        ck_assert_uint_eq(range.start, around[i][1]);
        ck_assert_uint_eq(range.end, around[i][2]);
    }
}

UNIT(a_rough_one_gives_way_to_what_is_known_better)
{
    cleanup(ranges_release) struct ranges r = {0};
    add(&r, 100, 200, 1, RANGE_ROUGH);
    add(&r, 300, 400, 2, 0);
    ranges_settle(&r);
    ranges_drop_rough(&r, 150);
    ranges_drop_rough(&r, 350); /* is none */
    ranges_settle(&r);
    check(&r, 150, 0);
    check(&r, 350, 2);
    add(&r, 140, 160, 3, 0);
    ranges_settle(&r);
    check(&r, 150, 3);
}
