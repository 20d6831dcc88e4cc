/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include <stdio.h>

#include "sender/symbolize/cache/names.h"

static void fill(struct names *n, struct names_set *set, uint32_t ranges, const char *prefix)
{
    ck_assert_ptr_nonnull(set);
    for (uint32_t i = 0; i < ranges; i++) {
        char text[64];
        snprintf(text, sizeof text, "%s_function_%u", prefix, i);
        struct place_function f = {.name = places_text(&n->places, bytes_str(text)),
                                   .file = places_text(&n->places, BYTES_LIT("/src/a.c"))};
        struct place_line line[2] = {{places_function(&n->places, &f), i},
                                     {places_function(&n->places, &f), 7}};
        struct range range = {.start = 16 * i, .end = 16 * i + 16, .place = places_add(&n->places, line, 2)};
        ck_assert_int_eq(ranges_add(&set->ranges, &range), 0);
    }
    ranges_settle(&set->ranges);
}

static void check(const struct names *n, const struct names_set *set, uint32_t i, const char *want)
{
    uint32_t lines;
    const struct range *range = ranges_find(&set->ranges, 16 * i + 3);
    ck_assert_ptr_nonnull(range);
    const struct place_line *line = places_get(&n->places, range->place, &lines);
    ck_assert_uint_eq(lines, 2);
    ck_assert_uint_eq(line[0].line, i);
    ck_assert_uint_eq(line[1].line, 7);
    struct place_function f = places_get_function(&n->places, line[0].function);
    ck_assert(bytes_is(places_get_text(&n->places, f.name), want));
    ck_assert(bytes_is(places_get_text(&n->places, f.file), "/src/a.c"));
}

UNIT(files_with_one_build_id_share_their_names)
{
    cleanup(names_release) struct names n = {0};
    struct names_set *a = unit_made(names_open(&n, BYTES_LIT("id-a"))),
                     *again = unit_made(names_open(&n, BYTES_LIT("id-a")));
    ck_assert_ptr_eq(a, again);
    ck_assert_ptr_ne(a, names_open(&n, BYTES_LIT("id-b")));
    ck_assert_ptr_ne(names_open(&n, BYTES_LIT("")),
                     names_open(&n, BYTES_LIT(""))); /* no id: nothing in common */
}

UNIT(names_outlive_the_files_but_empty_sets_do_not)
{
    cleanup(names_release) struct names n = {0};
    struct names_set *a = unit_made(names_open(&n, BYTES_LIT("id-a"))),
                     *empty = unit_made(names_open(&n, BYTES_LIT("id-b")));
    fill(&n, a, 10, "a");
    names_close(a);
    names_close(empty);
    for (int i = 0; i < 10; i++)
        names_sweep(&n, 1 << 20);
    ck_assert_uint_eq(n.n, 1);
    ck_assert_ptr_eq(names_open(&n, BYTES_LIT("id-a")), a);
    check(&n, a, 3, "a_function_3");
}

UNIT(what_was_not_used_for_longest_leaves_first)
{
    cleanup(names_release) struct names n = {0};
    struct names_set *old = unit_made(names_open(&n, BYTES_LIT("old"))),
                     *fresh = unit_made(names_open(&n, BYTES_LIT("fresh")));
    fill(&n, old, 500, "old");
    fill(&n, fresh, 400, "fresh");
    size_t all = names_memory(&n);
    for (int i = 0; i < 3; i++) {
        names_sweep(&n, all);
        fresh->used = n.window;
    }
    ck_assert_uint_eq(n.evicted, 0);
    names_sweep(&n, all - 1);
    ck_assert_uint_eq(n.evicted, 1);
    ck_assert_ptr_null(ranges_find(&old->ranges, 3));
    for (uint32_t i = 0; i < 400; i += 7) {
        char want[64];
        snprintf(want, sizeof want, "fresh_function_%u", i);
        check(&n, fresh, i, want); /* moved to other tables, the same as before */
    }
    ck_assert_uint_lt(names_memory(&n), all * 2 / 3);
}

UNIT(even_one_set_alone_keeps_to_the_limit)
{
    cleanup(names_release) struct names n = {0};
    fill(&n, names_open(&n, BYTES_LIT("only")), 2000, "x");
    names_sweep(&n, 20000);
    ck_assert_uint_le(names_memory(&n), 20000);
}

UNIT(no_more_sets_than_allowed_and_unused_ones_make_room)
{
    cleanup(names_release) struct names n = {0};
    for (uint32_t i = 0; i < NAMES_SETS_MAX; i++)
        ck_assert_ptr_nonnull(names_open(&n, bytes_of(&i, sizeof i)));
    ck_assert_ptr_null(names_open(&n, BYTES_LIT("one more")));
    names_close(n.set[17]);
    ck_assert_ptr_nonnull(names_open(&n, BYTES_LIT("one more")));
    ck_assert_ptr_null(names_open(&n, BYTES_LIT("two more")));
}
