/* SPDX-License-Identifier: Apache-2.0 */
/* Which unit an address is in: by .debug_aranges, which is quick, else by what each unit says of itself. Both
 * are passed over once; what they say is kept as a map. */
#include <errno.h>

#include "proto/base/macros.h"
#include "sender/symbolize/dwarf/parts.h"

uint32_t dwarf_lower_bound(const struct dwarf_query *q, uint32_t n, uint64_t address)
{
    return first_where(n, i, q[i].address >= address);
}

struct search {
    struct dwarf_query *q;
    uint32_t n, left; /* queries without a unit */
    uint64_t unit;
    struct dwarf_draft draft;
};

static bool take_range(void *user, uint64_t start, uint64_t end)
{
    struct search *s = user;
    dwarf_draft_add(&s->draft, start, end, s->unit);
    for (uint32_t i = dwarf_lower_bound(s->q, s->n, start); i < s->n && s->q[i].address < end; i++) {
        if (s->q[i].unit != DWARF_NO_UNIT)
            continue;
        s->q[i].unit = s->unit;
        s->left--;
    }
    return true;
}

/* One set of .debug_aranges (DWARF 5, section 6.1.2): the length is before the cursor. */
static void read_set(struct dwarf_file *f, struct cursor *c, unsigned offset_size, uint64_t length,
                     struct search *s)
{
    uint64_t version = cursor_fixed(c, 2);
    s->unit = cursor_fixed(c, offset_size);
    unsigned size = cursor_u8(c), segment = cursor_u8(c);
    uint64_t header = 2 + offset_size + 2, used = header;
    if (version != 2 || (size != 8 && size != 4) || segment != 0 || length < header) {
        cursor_skip(c, length > header ? length - header : 0);
        return;
    }
    /* Tuples begin at a multiple of their size from the set's begin. */
    uint64_t before = header + (offset_size == 8 ? 12 : 4),
             pad = (2 * size - before % (2 * size)) % (2 * size);
    cursor_skip(c, pad);
    used += pad;
    while (used + 2 * size <= length && !c->is_bad && f->work >= 0) {
        uint64_t start = cursor_fixed(c, size), n = cursor_fixed(c, size);
        used += 2 * size;
        f->work -= 16;
        if (n > 0 && start + n > start)
            (void)take_range(s, start, start + n);
    }
    if (used < length)
        cursor_skip(c, length - used);
}

static void by_table(struct dwarf_file *f, struct search *s)
{
    struct cursor c;
    cursor_extent(&c, &f->section[ELF_DEBUG_ARANGES], 0);
    while (!cursor_at_end(&c) && f->work >= 0) {
        uint64_t length = cursor_fixed(&c, 4);
        unsigned offset_size = length == UINT32_MAX ? 8 : 4;
        if (offset_size == 8)
            length = cursor_fixed(&c, 8);
        if (length > f->section[ELF_DEBUG_ARANGES].size)
            return;
        f->work -= 16;
        read_set(f, &c, offset_size, length, s);
    }
}

static void by_units(struct dwarf_file *f, struct search *s)
{
    const struct dwarf_keep *k = f->keep;
    for (uint32_t i = 0; i < k->units.n && f->work >= 0; i++) {
        struct dwarf_cu cu;
        if (k->units.p[i].version == 0 || dwarf_cu_open(f, &k->units.p[i], DWARF_FIRST, &cu) != 0)
            continue;
        s->unit = k->units.p[i].at;
        dwarf_ranges(f, &cu, &cu.root, take_range, s);
        dwarf_cu_close(&cu);
    }
}

/* What the map says. How many queries that leaves without a unit, which may be in one. Only where
 * there is no table are units asked for the linker's own code, too. */
static uint32_t look_up(const struct dwarf_map *m, struct dwarf_query *q, uint32_t n)
{
    uint32_t left = 0;
    for (uint32_t i = 0; i < n; i++) {
        q[i].unit = dwarf_map_unit(m, q[i].address);
        left += q[i].unit == DWARF_NO_UNIT && !(q[i].is_glue && m->edges.n > 0);
    }
    return left;
}

int dwarf_locate(struct dwarf_file *f, struct dwarf_query *q, uint32_t n)
{
    struct dwarf_map *map = &f->keep->map;
    struct search s = {.q = q, .n = n, .left = look_up(map, q, n)};
    f->work -= 16 * (int64_t)n;
    if (s.left && (!map->has_table || map->is_full)) {
        bool had_units = map->has_units;
        by_table(f, &s);
        dwarf_draft_settle(&s.draft, map);
        map->has_table = true;
        map->has_units = had_units;
        s.left = map->is_full ? s.left : look_up(map, q, n);
    }
    if (s.left && (!map->has_units || map->is_full)) {
        int r = dwarf_file_units(f);
        if (r < 0)
            return r;
        dwarf_draft_begin(&s.draft, map);
        s.draft.is_full = map->is_full;
        by_units(f, &s);
        dwarf_draft_settle(&s.draft, map);
        map->has_table = map->has_units = true;
        (void)(map->is_full || look_up(map, q, n));
    }
    return 0;
}
