/* SPDX-License-Identifier: Apache-2.0 */
/* Which unit an address is in. */
#include "tests/lib/unit.h"

#include "sender/symbolize/dwarf/map.h"

struct area {
    uint64_t start, end, unit;
};

static struct dwarf_map made(const struct area *area, uint32_t n)
{
    struct dwarf_map m = {0};
    struct dwarf_draft d;
    dwarf_draft_begin(&d, &m);
    for (uint32_t i = 0; i < n; i++)
        dwarf_draft_add(&d, area[i].start, area[i].end, area[i].unit);
    dwarf_draft_settle(&d, &m);
    ck_assert(!m.is_full);
    for (uint32_t i = 1; i < m.edges.n; i++)
        ck_assert_uint_lt(m.edges.p[i - 1].address, m.edges.p[i].address);
    return m;
}

UNIT(padding_belongs_to_what_is_around_it)
{
    static const struct area area[] = {
        {0x100, 0x10a, 1}, {0x110, 0x120, 1}, {0x140, 0x150, 1}, {0x150, 0x160, 2}};
    cleanup(dwarf_map_release) struct dwarf_map m = made(area, 4);
    ck_assert_uint_eq(dwarf_map_unit(&m, 0xff), DWARF_NO_UNIT);
    ck_assert_uint_eq(dwarf_map_unit(&m, 0x100), 1);
    ck_assert_uint_eq(dwarf_map_unit(&m, 0x10c), 1);
    ck_assert_uint_eq(dwarf_map_unit(&m, 0x11f), 1);
    ck_assert_uint_eq(dwarf_map_unit(&m, 0x120), DWARF_NO_UNIT); /* 32 bytes are no padding */
    ck_assert_uint_eq(dwarf_map_unit(&m, 0x14f), 1);
    ck_assert_uint_eq(dwarf_map_unit(&m, 0x150), 2);
    ck_assert_uint_eq(dwarf_map_unit(&m, 0x160), DWARF_NO_UNIT);
    ck_assert_uint_eq(dwarf_map_unit(&m, UINT64_MAX), DWARF_NO_UNIT);
    ck_assert_uint_eq(m.edges.n, 5);
}

UNIT(the_narrower_of_two_has_the_address)
{
    static const struct area area[] = {{0, 0x1000, 9},     {0x100, 0x200, 1}, {0x110, 0x120, 2},
                                       {0x118, 0x130, 3},  {0x800, 0x900, 4}, {0x800, 0x900, 5},
                                       {0x880, 0x2000, 6}, {0x900, 0x910, 7}};
    cleanup(dwarf_map_release) struct dwarf_map m = made(area, 8);
    static const struct {
        uint64_t address, unit;
    } want[] = {{0, 9},
                {0xff, 9},
                {0x100, 1},
                {0x110, 2},
                {0x117, 2},
                {0x118, 3},
                {0x12f, 3},
                {0x130, 1},
                {0x1ff, 1},
                {0x200, 9},
                {0x800, 4},
                {0x87f, 4},
                {0x880, 6},
                {0x900, 7},
                {0x90f, 7},
                {0x910, 6},
                {0xfff, 6},
                {0x1fff, 6},
                {0x2000, DWARF_NO_UNIT}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++)
        ck_assert_msg(dwarf_map_unit(&m, want[i].address) == want[i].unit, "0x%lx: %lu", want[i].address,
                      dwarf_map_unit(&m, want[i].address));
}

UNIT(a_map_goes_on_growing)
{
    static const struct area area[] = {{0x300, 0x400, 3}, {0x100, 0x200, 1}};
    struct dwarf_map m = made(area, 2);
    struct dwarf_draft d;
    dwarf_draft_begin(&d, &m);
    dwarf_draft_add(&d, 0x200, 0x300, 2);
    dwarf_draft_add(&d, 0x200, 0x200, 7); /* nothing */
    dwarf_draft_add(&d, 0x300, 0x400, 3); /* said again */
    dwarf_draft_settle(&d, &m);
    ck_assert_uint_eq(m.edges.n, 4);
    ck_assert_uint_eq(dwarf_map_unit(&m, 0x1ff), 1);
    ck_assert_uint_eq(dwarf_map_unit(&m, 0x2ff), 2);
    ck_assert_uint_eq(dwarf_map_unit(&m, 0x300), 3);
    dwarf_map_release(&m);
    ck_assert_uint_eq(dwarf_map_unit(&m, 0x300), DWARF_NO_UNIT);
}

UNIT(too_many_are_no_map)
{
    cleanup(dwarf_map_release) struct dwarf_map m = {0};
    struct dwarf_draft d;
    dwarf_draft_begin(&d, &m);
    for (uint64_t i = 0; i <= DWARF_MAP_MAX; i++)
        dwarf_draft_add(&d, i * 64, i * 64 + 8, i % 2);
    dwarf_draft_settle(&d, &m);
    ck_assert(m.is_full);
    ck_assert_uint_eq(m.edges.n, 0);
    ck_assert_uint_eq(dwarf_map_unit(&m, 64), DWARF_NO_UNIT);
}
