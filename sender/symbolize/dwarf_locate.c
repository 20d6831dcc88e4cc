/* Which unit an address is in: by .debug_aranges, which is quick, else by what each unit says of itself. */
#include <errno.h>

#include "proto/base/macros.h"
#include "sender/symbolize/dwarf_parts.h"

uint32_t dwarf_lower_bound(const struct dwarf_query *q, uint32_t n, uint64_t address)
{
    uint32_t from = 0;
    while (n > 0) {
        uint32_t half = n / 2;
        if (q[from + half].address < address) {
            from += half + 1;
            n -= half + 1;
        } else {
            n = half;
        }
    }
    return from;
}

struct search {
    struct dwarf_query *q;
    uint32_t n, left; /* queries without a unit */
    uint64_t unit;
};

static bool take_range(void *user, uint64_t start, uint64_t end)
{
    struct search *s = user;
    for (uint32_t i = dwarf_lower_bound(s->q, s->n, start); i < s->n && s->q[i].address < end; i++) {
        if (s->q[i].unit != UINT64_MAX)
            continue;
        s->q[i].unit = s->unit;
        s->left--;
    }
    return s->left > 0;
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
    while (s->left > 0 && !cursor_at_end(&c) && f->work >= 0) {
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
    for (uint32_t i = 0; i < f->n_units && s->left > 0 && f->work >= 0; i++) {
        struct dwarf_cu cu;
        if (f->units[i].version == 0 || dwarf_cu_open(f, &f->units[i], false, &cu) < 0)
            continue;
        s->unit = f->units[i].at;
        dwarf_ranges(f, &cu, &cu.root, take_range, s);
        dwarf_cu_close(&cu);
    }
}

int dwarf_locate(struct dwarf_file *f, struct dwarf_query *q, uint32_t n)
{
    struct search s = {.q = q, .n = n, .left = n};
    for (uint32_t i = 0; i < n; i++)
        q[i].unit = UINT64_MAX;
    by_table(f, &s);
    if (s.left == 0)
        return 0;
    int r = dwarf_file_units(f);
    if (r < 0)
        return r;
    by_units(f, &s);
    return 0;
}
