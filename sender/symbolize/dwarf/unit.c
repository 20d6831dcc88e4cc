/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/symbolize/dwarf/unit.h"

#include <dwarf.h>
#include <errno.h>
#include <stdlib.h>

#include "proto/base/macros.h"

/* An entry is a dozen numbers: the first look. */
#define DIE_USUAL 256u

void dwarf_cu_close(struct dwarf_cu *cu)
{
    dwarf_abbrevs_release(&cu->abbrevs);
    free(cu->memory);
    *cu = (struct dwarf_cu){0};
}

/* The unit's bytes, in place if they are in memory anyway. */
static int load(struct dwarf_file *f, struct dwarf_cu *cu)
{
    const struct extent *info = &f->section[ELF_DEBUG_INFO];
    uint64_t n = cu->unit.end - cu->unit.at;
    if (n > DWARF_UNIT_MAX)
        return DWARF_DAMAGED;
    f->work -= (int64_t)n;
    if (source_is_memory(&info->source)) {
        cu->bytes = bytes_of(info->source.memory.p + info->at + cu->unit.at, (size_t)n);
        return 0;
    }
    cu->memory = malloc((size_t)n);
    if (!cu->memory)
        return -ENOMEM;
    if (!extent_read(info, cu->unit.at, cu->memory, (size_t)n))
        return DWARF_DAMAGED;
    cu->bytes = bytes_of(cu->memory, (size_t)n);
    return 0;
}

/* The code of the first entry, before there is any table. */
static uint64_t first_code(struct dwarf_file *f, const struct dwarf_unit *u)
{
    struct cursor c;
    uint8_t code[10] = {0};
    uint64_t at = u->at + u->header_size;
    if (at >= u->end ||
        !extent_read(&f->section[ELF_DEBUG_INFO], at, code, (size_t)min_of(u->end - at, 10ul)))
        return 0;
    cursor_memory(&c, bytes_of(code, sizeof code));
    return cursor_uleb(&c);
}

static uint64_t base_of(const struct dwarf_value *v, uint64_t usual)
{
    return v->form ? v->number : usual;
}

/* Texts of the first entry are in the caller's scratch: of those only the folder is asked for later. */
static int keep_folder(struct dwarf_cu *cu)
{
    struct dwarf_value *folder = &cu->root.comp_dir;
    cu->root.name.form = 0;
    if (folder->form != DW_FORM_string || folder->text.n == 0)
        return 0;
    cu->memory = malloc(folder->text.n);
    if (!cu->memory)
        return -ENOMEM;
    memcpy(cu->memory, folder->text.p, folder->text.n);
    folder->text.p = cu->memory;
    return 0;
}

int dwarf_cu_open(struct dwarf_file *f, const struct dwarf_unit *unit, enum dwarf_part part,
                  struct dwarf_cu *ret)
{
    uint8_t scratch[DWARF_DIE_MAX];
    cleanup(dwarf_cu_close) struct dwarf_cu cu = {.unit = *unit};
    uint64_t code = part == DWARF_FIRST ? first_code(f, unit) : 0;
    if (f->work < 0 || unit->version == 0 || (part == DWARF_FIRST && code == 0))
        return DWARF_DAMAGED;
    int r = part == DWARF_WHOLE ? load(f, &cu) : 0;
    r = r ? r : dwarf_abbrevs_read(f, unit, code, &cu.abbrevs);
    if (r != 0)
        return r;
    if (!dwarf_cu_die(f, &cu, unit->at + unit->header_size, scratch, &cu.root) || cu.root.tag == 0)
        return DWARF_DAMAGED;
    if (part != DWARF_WHOLE && (r = keep_folder(&cu)) < 0)
        return r;
    /* Where bases are not said: behind the header of the section's only contribution (5), or at its begin
     * (the GNU extension of 4). */
    uint64_t header = unit->version >= 5 ? (unit->offset_size == 8 ? 16 : 8) : 0;
    cu.str_offsets_base = base_of(&cu.root.str_offsets_base, header);
    cu.addr_base = base_of(&cu.root.addr_base, header);
    cu.rnglists_base = base_of(&cu.root.rnglists_base, header ? header + 4 : 0);
    (void)dwarf_address(f, &cu, &cu.root.low, &cu.low);
    *ret = cu;
    cu = (struct dwarf_cu){0};
    return 0;
}

bool dwarf_cu_die(struct dwarf_file *f, const struct dwarf_cu *cu, uint64_t at,
                  uint8_t scratch[DWARF_DIE_MAX], struct dwarf_die *ret)
{
    struct cursor c;
    if (at < cu->unit.at + cu->unit.header_size || at >= cu->unit.end)
        return false;
    uint64_t left = cu->unit.end - at;
    if (cu->bytes.n) {
        cursor_memory(&c, bytes_of(cu->bytes.p + (at - cu->unit.at), (size_t)left));
        return dwarf_die_read(&c, at, &cu->unit, &cu->abbrevs, ret);
    }
    for (uint64_t n = DIE_USUAL; n <= DWARF_DIE_MAX; n *= DWARF_DIE_MAX / DIE_USUAL) {
        size_t part = (size_t)min_of(left, n);
        f->work -= DIE_USUAL / 4;
        if (!extent_read(&f->section[ELF_DEBUG_INFO], at, scratch, part))
            return false;
        cursor_memory(&c, bytes_of(scratch, part));
        if (dwarf_die_read(&c, at, &cu->unit, &cu->abbrevs, ret))
            return true;
    }
    return false;
}

static size_t copy(struct bytes b, char *to, size_t room)
{
    size_t n = min_of(b.n, room - 1);
    memcpy(to, b.p, n);
    to[n] = 0;
    return n;
}

bool dwarf_text_at(struct dwarf_file *f, const struct dwarf_cu *cu, const struct dwarf_value *v,
                   struct dwarf_text *ret)
{
    const struct extent *offsets = &f->section[ELF_DEBUG_STR_OFFSETS];
    uint64_t at = 0;
    switch (v->form) {
    case DW_FORM_strp: *ret = (struct dwarf_text){f, ELF_DEBUG_STR, v->number}; return true;
    case DW_FORM_line_strp: *ret = (struct dwarf_text){f, ELF_DEBUG_LINE_STR, v->number}; return true;
    case DW_FORM_GNU_strp_alt:
    case DW_FORM_strp_sup: *ret = (struct dwarf_text){f->alt, ELF_DEBUG_STR, v->number}; return f->alt;
    case DW_FORM_strx:
    case DW_FORM_strx1:
    case DW_FORM_strx2:
    case DW_FORM_strx3:
    case DW_FORM_strx4:
    case DW_FORM_GNU_str_index:
        f->work -= 16;
        if (v->number > UINT32_MAX || cu->str_offsets_base > offsets->size ||
            !extent_read(offsets, cu->str_offsets_base + v->number * cu->unit.offset_size, &at,
                         cu->unit.offset_size))
            return false;
        *ret = (struct dwarf_text){f, ELF_DEBUG_STR, at};
        return true;
    default: return false;
    }
}

size_t dwarf_text_read(struct dwarf_file *f, const struct dwarf_text *text, char *to, size_t room)
{
    struct dwarf_file *in = text->file;
    f->work -= 64;
    in->work = f->work; /* they share it */
    size_t n = extent_string(&in->section[text->section], text->at, to, room);
    f->work = in->work;
    return n;
}

size_t dwarf_text(struct dwarf_file *f, const struct dwarf_cu *cu, const struct dwarf_value *v, char *to,
                  size_t room)
{
    struct dwarf_text text;
    *to = 0;
    if (v->form == DW_FORM_string)
        return v->text.n ? copy(v->text, to, room) : 0;
    return dwarf_text_at(f, cu, v, &text) ? dwarf_text_read(f, &text, to, room) : 0;
}

static bool indexed_address(struct dwarf_file *f, const struct dwarf_cu *cu, uint64_t index, uint64_t *ret)
{
    const struct extent *addresses = &f->section[ELF_DEBUG_ADDR];
    uint64_t a = 0;
    f->work -= 16;
    if (index > UINT32_MAX || cu->addr_base > addresses->size ||
        !extent_read(addresses, cu->addr_base + index * cu->unit.address_size, &a, cu->unit.address_size))
        return false;
    *ret = a;
    return true;
}

bool dwarf_address(struct dwarf_file *f, const struct dwarf_cu *cu, const struct dwarf_value *v,
                   uint64_t *ret)
{
    switch (v->form) {
    case DW_FORM_addr: *ret = v->number; return true;
    case DW_FORM_addrx:
    case DW_FORM_addrx1:
    case DW_FORM_addrx2:
    case DW_FORM_addrx3:
    case DW_FORM_addrx4:
    case DW_FORM_GNU_addr_index: return indexed_address(f, cu, v->number, ret);
    default: return false;
    }
}

bool dwarf_reference(struct dwarf_file **file, const struct dwarf_cu *cu, const struct dwarf_value *v,
                     uint64_t *ret)
{
    switch (v->form) {
    case DW_FORM_ref1:
    case DW_FORM_ref2:
    case DW_FORM_ref4:
    case DW_FORM_ref8:
    case DW_FORM_ref_udata:
        if (v->number >= cu->unit.end - cu->unit.at)
            return false;
        *ret = cu->unit.at + v->number;
        return true;
    case DW_FORM_ref_addr: *ret = v->number; return true;
    case DW_FORM_GNU_ref_alt:
    case DW_FORM_ref_sup4:
    case DW_FORM_ref_sup8:
        *ret = v->number;
        *file = (*file)->alt;
        return *file;
    default: return false; /* in a type unit */
    }
}

struct list {
    struct dwarf_file *f;
    const struct dwarf_cu *cu;
    struct cursor c;
    uint64_t base;
    dwarf_range_fn fn;
    void *user;
};

static bool give(struct list *l, uint64_t start, uint64_t end)
{
    l->f->work -= 16;
    return l->f->work >= 0 && !l->c.is_bad && (start >= end || l->fn(l->user, start, end));
}

/* .debug_ranges: pairs of addresses, (-1, base) for another base, (0, 0) at the end. */
static void old_ranges(struct list *l)
{
    unsigned size = l->cu->unit.address_size;
    uint64_t mark = size == 8 ? UINT64_MAX : UINT32_MAX;
    for (uint32_t i = 0; i < DWARF_RANGES_MAX; i++) {
        uint64_t start = cursor_fixed(&l->c, size), end = cursor_fixed(&l->c, size);
        if (start == 0 && end == 0)
            return;
        if (start == mark)
            l->base = end;
        else if (!give(l, l->base + start, l->base + end))
            return;
    }
}

static void new_ranges(struct list *l)
{
    unsigned size = l->cu->unit.address_size;
    for (uint32_t i = 0; i < DWARF_RANGES_MAX; i++) {
        uint64_t start = 0, end = 0;
        switch (cursor_u8(&l->c)) {
        case DW_RLE_base_addressx:
            if (!indexed_address(l->f, l->cu, cursor_uleb(&l->c), &l->base))
                return;
            continue;
        case DW_RLE_startx_endx:
            if (!indexed_address(l->f, l->cu, cursor_uleb(&l->c), &start) ||
                !indexed_address(l->f, l->cu, cursor_uleb(&l->c), &end))
                return;
            break;
        case DW_RLE_startx_length:
            if (!indexed_address(l->f, l->cu, cursor_uleb(&l->c), &start))
                return;
            end = start + cursor_uleb(&l->c);
            break;
        case DW_RLE_offset_pair:
            start = l->base + cursor_uleb(&l->c);
            end = l->base + cursor_uleb(&l->c);
            break;
        case DW_RLE_base_address: l->base = cursor_fixed(&l->c, size); continue;
        case DW_RLE_start_end:
            start = cursor_fixed(&l->c, size);
            end = cursor_fixed(&l->c, size);
            break;
        case DW_RLE_start_length:
            start = cursor_fixed(&l->c, size);
            end = start + cursor_uleb(&l->c);
            break;
        default: return; /* DW_RLE_end_of_list, or what we do not know */
        }
        if (!give(l, start, end))
            return;
    }
}

/* The offset of a version 5 list from its number. */
static bool list_offset(struct dwarf_file *f, const struct dwarf_cu *cu, const struct dwarf_value *v,
                        uint64_t *ret)
{
    const struct extent *lists = &f->section[ELF_DEBUG_RNGLISTS];
    *ret = v->number;
    if (v->form != DW_FORM_rnglistx)
        return true;
    uint64_t offset = 0;
    if (v->number > UINT32_MAX || cu->rnglists_base > lists->size ||
        !extent_read(lists, cu->rnglists_base + v->number * cu->unit.offset_size, &offset,
                     cu->unit.offset_size))
        return false;
    *ret = cu->rnglists_base + offset;
    return true;
}

void dwarf_ranges(struct dwarf_file *f, const struct dwarf_cu *cu, const struct dwarf_die *die,
                  dwarf_range_fn fn, void *user)
{
    uint64_t low, high, at;
    struct list l = {.f = f, .cu = cu, .base = cu->low, .fn = fn, .user = user};
    if (die->ranges.form) {
        bool is_new = cu->unit.version >= 5;
        if (!list_offset(f, cu, &die->ranges, &at))
            return;
        cursor_extent(&l.c, &f->section[is_new ? ELF_DEBUG_RNGLISTS : ELF_DEBUG_RANGES], at);
        if (is_new)
            new_ranges(&l);
        else
            old_ranges(&l);
        return;
    }
    if (!die->high.form || !dwarf_address(f, cu, &die->low, &low))
        return;
    /* Since version 4 high_pc is usually the length. */
    if (!dwarf_address(f, cu, &die->high, &high))
        high = low + die->high.number;
    f->work -= 16;
    if (low < high)
        fn(user, low, high);
}
