/* SPDX-License-Identifier: Apache-2.0 */
/*
 * .debug_info is a list of units, one a source file. A unit is a header (version, where its abbreviations
 * are) and a tree of entries written in preorder: each begins with a number, an abbreviation's code, which
 * says what kind of entry it is, whether children follow, and which attributes in which forms; code 0 ends a
 * list of children. So an entry's length is known only by reading it, and units can be hopped over by their
 * headers, but entries cannot.
 *
 * Therefore: unit headers are listed once and kept (dwarf_file_units), in order, for binary search. A unit's
 * abbreviations are read into one array of attributes with a slice for each code; codes count upwards, so
 * code - 1 is the first guess at the index. Of attributes that nobody looks at, and of entries that are
 * neither functions nor calls nor what names are in, the table only has how many bytes they take together.
 * Reading an entry passes over those, and over every other attribute (dwarf_value_read), and keeps the few
 * that names and lines need. Whatever is read is taken off the file's work, so that what a hostile file can
 * cost is known beforehand.
 */
#include "sender/symbolize/dwarf/file.h"

#include <dwarf.h>
#include <errno.h>
#include <stdlib.h>

#include "proto/base/macros.h"
#include "sender/symbolize/elf/packed.h"

void dwarf_keep_release(struct dwarf_keep *k)
{
    for (int i = 0; i < ELF_DEBUG_N; i++)
        packed_free(k->packed[i]);
    dwarf_map_release(&k->map);
    dwarf_indexes_release(&k->indexes);
    vec_release(&k->units);
    *k = (struct dwarf_keep){0};
}

size_t dwarf_keep_memory(const struct dwarf_keep *k)
{
    size_t bytes =
        dwarf_map_memory(&k->map) + dwarf_indexes_memory(&k->indexes) + k->units.n * sizeof *k->units.p;
    for (int i = 0; i < ELF_DEBUG_N; i++)
        bytes += k->packed[i] ? packed_memory(k->packed[i]) : 0;
    return bytes;
}

int dwarf_file_open(struct dwarf_file *ret, const struct source *s, const struct elf *elf,
                    struct dwarf_keep *keep, int64_t work, int64_t reserved)
{
    struct dwarf_file f = {.work = work + reserved, .reserved = reserved, .keep = keep};
    uint64_t left = unpack_allowed(s, UNPACK_MAX);
    bool has_units = elf->debug[ELF_DEBUG_INFO].size && elf->debug[ELF_DEBUG_ABBREV].size;
    if (!has_units && elf->debug[ELF_DEBUG_STR].size == 0) /* an alternate file may have texts only */
        return -ENOENT;
    struct packed **packed = keep ? keep->packed : f.own.packed;
    for (int i = 0; i < ELF_DEBUG_N; i++) {
        uint64_t before = left;
        int r = unpack_section(s, &elf->debug[i], &left, &f.section[i], &f.memory[i], &packed[i]);
        if (r < 0) {
            dwarf_file_close(&f);
            return r;
        }
        f.work -= (int64_t)(before - left);
    }
    *ret = f;
    ret->keep = keep ? keep : &ret->own;
    for (int i = 0; i < ELF_DEBUG_N; i++)
        if (packed[i])
            packed_use(ret->keep->packed[i], s, &ret->work);
    return 0;
}

void dwarf_file_close(struct dwarf_file *f)
{
    for (int i = 0; i < ELF_DEBUG_N; i++)
        free(f->memory[i]);
    for (int i = 0; f->keep && i < ELF_DEBUG_N; i++)
        if (f->keep->packed[i])
            packed_rest(f->keep->packed[i]);
    if (f->keep && f->work < 0) { /* half-made */
        dwarf_map_release(&f->keep->map);
        dwarf_indexes_release(&f->keep->indexes);
        vec_release(&f->keep->units);
    }
    dwarf_keep_release(&f->own);
    *f = (struct dwarf_file){0};
}

int dwarf_unit_header(struct dwarf_file *f, uint64_t at, struct dwarf_unit *ret)
{
    struct cursor c;
    struct dwarf_unit u = {.at = at, .offset_size = 4};
    const struct extent *info = &f->section[ELF_DEBUG_INFO];
    uint8_t header[32] = {0};
    size_t got = at < info->size ? (size_t)min_of(info->size - at, (uint64_t)sizeof header) : 0;
    f->work -= sizeof header;
    if (f->work < 0 || got == 0 || !extent_read(info, at, header, got))
        return DWARF_DAMAGED;
    cursor_memory(&c, bytes_of(header, got));
    uint64_t length = cursor_fixed(&c, 4);
    if (length == 0xffffffff) {
        length = cursor_fixed(&c, 8);
        u.offset_size = 8;
    } else if (length >= 0xfffffff0) {
        return DWARF_DAMAGED;
    }
    uint64_t body = at + (uint64_t)(c.p - header);
    if (length > info->size - at || body + length > info->size || length < 7)
        return DWARF_DAMAGED;
    u.end = body + length;
    uint64_t version = cursor_fixed(&c, 2), type = DW_UT_compile;
    if (version >= 5) {
        type = cursor_u8(&c);
        u.address_size = cursor_u8(&c);
        u.abbrevs_at = cursor_fixed(&c, u.offset_size);
        if (type == DW_UT_skeleton) /* what -gsplit-dwarf leaves in the program: its lines */
            cursor_skip(&c, 8);
    } else {
        u.abbrevs_at = cursor_fixed(&c, u.offset_size);
        u.address_size = cursor_u8(&c);
    }
    u.header_size = (uint32_t)(c.p - header);
    bool is_ours = version >= 2 && version <= 5 &&
                   (type == DW_UT_compile || type == DW_UT_partial || type == DW_UT_skeleton) &&
                   (u.address_size == 8 || u.address_size == 4) && !c.is_bad;
    u.version = is_ours ? (uint8_t)version : 0;
    *ret = u;
    return 0;
}

int dwarf_file_units(struct dwarf_file *f)
{
    struct dwarf_unit u;
    if (f->keep->units.n > 0)
        return 0;
    for (uint64_t at = 0; f->keep->units.n < DWARF_UNITS_MAX && dwarf_unit_header(f, at, &u) == 0; at = u.end)
        if (vec_append(&f->keep->units, u) < 0) {
            vec_release(&f->keep->units);
            return -ENOMEM;
        }
    vec_fit(&f->keep->units); /* it stays */
    return 0;
}

const struct dwarf_unit *dwarf_file_unit(const struct dwarf_file *f, uint64_t at)
{
    const struct dwarf_unit *units = f->keep->units.p;
    uint32_t n = f->keep->units.n, found = first_where(n, i, units[i].end > at);
    return found < n && units[found].at <= at ? &units[found] : NULL;
}

void dwarf_abbrevs_release(struct dwarf_abbrevs *a)
{
    vec_release(&a->list);
    vec_release(&a->attributes);
    *a = (struct dwarf_abbrevs){0};
}

/* Entries that are looked at. */
static bool is_of_interest(uint32_t tag)
{
    switch (tag) {
    case DW_TAG_compile_unit:
    case DW_TAG_partial_unit:
    case DW_TAG_skeleton_unit:
    case DW_TAG_subprogram:
    case DW_TAG_inlined_subroutine:
    case DW_TAG_namespace:
    case DW_TAG_structure_type:
    case DW_TAG_class_type:
    case DW_TAG_union_type: return true;
    default: return false;
    }
}

/* Entries in which there is none of those: their children are passed over. */
static bool is_without(uint32_t tag)
{
    return tag == DW_TAG_call_site || tag == DW_TAG_GNU_call_site || tag == DW_TAG_enumeration_type ||
           tag == DW_TAG_subroutine_type || tag == DW_TAG_array_type;
}

/* What is looked at of an entry, and where it is put: a value, or the number of one. */
#define VALUE(name, member)                                     \
    {                                                           \
        DW_AT_##name, offsetof(struct dwarf_die, member), false \
    }
#define NUMBER(name, member)                                   \
    {                                                          \
        DW_AT_##name, offsetof(struct dwarf_die, member), true \
    }
static const struct wanted {
    uint16_t name, at;
    bool is_number;
} wanted[] = {
    {0, 0, false}, /* nothing */
    NUMBER(sibling, sibling),
    VALUE(name, name),
    VALUE(linkage_name, linkage_name),
    VALUE(MIPS_linkage_name, linkage_name),
    VALUE(low_pc, low),
    VALUE(high_pc, high),
    VALUE(ranges, ranges),
    VALUE(comp_dir, comp_dir),
    VALUE(stmt_list, lines),
    VALUE(str_offsets_base, str_offsets_base),
    VALUE(addr_base, addr_base),
    VALUE(GNU_addr_base, addr_base),
    VALUE(rnglists_base, rnglists_base),
    VALUE(abstract_origin, origin),
    VALUE(specification, origin),
    NUMBER(call_file, call_file),
    NUMBER(call_line, call_line),
    NUMBER(decl_line, decl_line),
};

/* Its place in `wanted`; 0: it is not looked at. */
static uint16_t wanted_as(const struct dwarf_abbrev *abbrev, uint64_t name, uint64_t form)
{
    if (name == DW_AT_sibling)
        return is_without(abbrev->tag) && abbrev->has_children &&
               (form == DW_FORM_ref1 || form == DW_FORM_ref2 || form == DW_FORM_ref4 ||
                form == DW_FORM_ref8 || form == DW_FORM_ref_udata);
    uint16_t i = is_of_interest(abbrev->tag) ? ARRAY_LEN(wanted) - 1 : 0;
    while (i > 0 && wanted[i].name != name)
        i--;
    return i;
}

/* How many bytes a value of a form takes; negative: only reading it says so. */
static int size_of(const struct dwarf_unit *u, uint32_t form)
{
    switch (form) {
    case DW_FORM_flag_present:
    case DW_FORM_implicit_const: return 0;
    case DW_FORM_data1:
    case DW_FORM_ref1:
    case DW_FORM_flag:
    case DW_FORM_strx1:
    case DW_FORM_addrx1: return 1;
    case DW_FORM_data2:
    case DW_FORM_ref2:
    case DW_FORM_strx2:
    case DW_FORM_addrx2: return 2;
    case DW_FORM_data4:
    case DW_FORM_ref4: return 4;
    case DW_FORM_data8:
    case DW_FORM_ref8: return 8;
    case DW_FORM_addr: return u->address_size;
    case DW_FORM_strp:
    case DW_FORM_line_strp:
    case DW_FORM_sec_offset:
    case DW_FORM_GNU_ref_alt:
    case DW_FORM_GNU_strp_alt: return u->offset_size;
    default: return -1;
    }
}

static int add_attribute(struct dwarf_abbrevs *a, struct dwarf_abbrev *abbrev,
                         const struct dwarf_attribute *x)
{
    struct dwarf_attribute *last = abbrev->n ? vec_last(&a->attributes) : NULL;
    if (x->form == DWARF_PASSED && last && last->form == DWARF_PASSED) {
        last->implicit += x->implicit;
        return 0;
    }
    if (x->form == DWARF_PASSED && x->implicit == 0)
        return 0;
    if (a->attributes.n == DWARF_ATTRIBUTES_MAX || vec_append(&a->attributes, *x) < 0)
        return -ENOMEM;
    abbrev->n++;
    return 0;
}

static int read_abbrev(struct cursor *c, const struct dwarf_unit *u, struct dwarf_abbrevs *a,
                       struct dwarf_abbrev *abbrev)
{
    abbrev->tag = (uint16_t)cursor_uleb(c);
    abbrev->has_children = cursor_u8(c);
    abbrev->first = a->attributes.n;
    abbrev->n = 0;
    for (uint32_t i = 0; i < DWARF_ATTRIBUTES_MAX && !c->is_bad; i++) {
        uint64_t name = (uint16_t)cursor_uleb(c), form = cursor_uleb(c);
        struct dwarf_attribute x = {.form = form < DWARF_PASSED ? (uint16_t)form : 0};
        if (x.form == DW_FORM_implicit_const)
            x.implicit = cursor_sleb(c);
        if (name == 0 && form == 0)
            return c->is_bad ? DWARF_DAMAGED : 0;
        x.wanted = wanted_as(abbrev, name, x.form);
        int size = x.wanted ? -1 : size_of(u, x.form);
        if (size >= 0)
            x = (struct dwarf_attribute){.form = DWARF_PASSED, .implicit = size};
        int r = add_attribute(a, abbrev, &x);
        if (r < 0)
            return r;
    }
    return DWARF_DAMAGED;
}

int dwarf_abbrevs_read(struct dwarf_file *f, const struct dwarf_unit *u, uint64_t only,
                       struct dwarf_abbrevs *ret)
{
    struct cursor c;
    cleanup(dwarf_abbrevs_release) struct dwarf_abbrevs a = {0};
    struct dwarf_abbrev abbrev = {0};
    cursor_extent(&c, &f->section[ELF_DEBUG_ABBREV], u->abbrevs_at);
    for (uint64_t last = 0; (abbrev.code = cursor_uleb(&c)) != 0; last = abbrev.code) {
        int r = read_abbrev(&c, u, &a, &abbrev);
        if (r != 0)
            return r;
        if (only && abbrev.code != only) {
            vec_clear(&a.attributes);
            continue;
        }
        /* Every producer numbers them upwards; so they need no table to be found in. */
        if (abbrev.code <= last && a.list.n)
            return DWARF_DAMAGED;
        if (a.list.n == DWARF_ABBREVS_MAX || vec_append(&a.list, abbrev) < 0)
            return -ENOMEM;
        if (only)
            break;
    }
    f->work -= (int64_t)c.taken;
    if (c.is_bad || a.list.n == 0)
        return DWARF_DAMAGED;
    *ret = a;
    a = (struct dwarf_abbrevs){0};
    return 0;
}

static const struct dwarf_abbrev *abbrev_of(const struct dwarf_abbrevs *a, uint64_t code)
{
    const struct dwarf_abbrev *list = a->list.p;
    if (code - 1 < a->list.n && list[code - 1].code == code)
        return &list[code - 1];
    uint32_t at = first_where(a->list.n, i, list[i].code >= code);
    return at < a->list.n && list[at].code == code ? &list[at] : NULL;
}

bool dwarf_value_read(struct cursor *c, const struct dwarf_unit *u, uint64_t form, int64_t implicit,
                      struct dwarf_value *ret)
{
    ret->form = (uint16_t)form;
    switch (form) {
    case DW_FORM_addr: ret->number = cursor_fixed(c, u->address_size); return true;
    case DW_FORM_data1:
    case DW_FORM_ref1:
    case DW_FORM_flag:
    case DW_FORM_strx1:
    case DW_FORM_addrx1: ret->number = cursor_u8(c); return true;
    case DW_FORM_data2:
    case DW_FORM_ref2:
    case DW_FORM_strx2:
    case DW_FORM_addrx2: ret->number = cursor_fixed(c, 2); return true;
    case DW_FORM_strx3:
    case DW_FORM_addrx3: ret->number = cursor_fixed(c, 3); return true;
    case DW_FORM_data4:
    case DW_FORM_ref4:
    case DW_FORM_ref_sup4:
    case DW_FORM_strx4:
    case DW_FORM_addrx4: ret->number = cursor_fixed(c, 4); return true;
    case DW_FORM_data8:
    case DW_FORM_ref8:
    case DW_FORM_ref_sup8:
    case DW_FORM_ref_sig8: ret->number = cursor_fixed(c, 8); return true;
    case DW_FORM_data16: cursor_skip(c, 16); return true;
    case DW_FORM_sdata: ret->number = (uint64_t)cursor_sleb(c); return true;
    case DW_FORM_udata:
    case DW_FORM_ref_udata:
    case DW_FORM_strx:
    case DW_FORM_addrx:
    case DW_FORM_loclistx:
    case DW_FORM_rnglistx:
    case DW_FORM_GNU_addr_index:
    case DW_FORM_GNU_str_index: ret->number = cursor_uleb(c); return true;
    case DW_FORM_strp:
    case DW_FORM_line_strp:
    case DW_FORM_sec_offset:
    case DW_FORM_strp_sup:
    case DW_FORM_GNU_ref_alt:
    case DW_FORM_GNU_strp_alt: ret->number = cursor_fixed(c, u->offset_size); return true;
    case DW_FORM_ref_addr:
        ret->number = cursor_fixed(c, u->version == 2 ? u->address_size : u->offset_size);
        return true;
    case DW_FORM_string: ret->text = cursor_string(c); return true;
    case DW_FORM_flag_present: ret->number = 1; return true;
    case DW_FORM_implicit_const: ret->number = (uint64_t)implicit; return true;
    case DW_FORM_block1: cursor_skip(c, cursor_u8(c)); return true;
    case DW_FORM_block2: cursor_skip(c, cursor_fixed(c, 2)); return true;
    case DW_FORM_block4: cursor_skip(c, cursor_fixed(c, 4)); return true;
    case DW_FORM_block:
    case DW_FORM_exprloc: cursor_skip(c, cursor_uleb(c)); return true;
    default: return false;
    }
}

static void keep(struct dwarf_die *d, const struct wanted *as, const struct dwarf_value *v)
{
    char *to = (char *)d + as->at;
    d->has_values = true;
    if (as->is_number)
        memcpy(to, &v->number, sizeof v->number);
    else
        memcpy(to, v, sizeof *v);
}

bool dwarf_die_read(struct cursor *c, uint64_t at, const struct dwarf_unit *u, const struct dwarf_abbrevs *a,
                    struct dwarf_die *ret)
{
    if (ret->has_values) /* most have none */
        *ret = (struct dwarf_die){.at = 0};
    ret->at = at;
    ret->tag = 0;
    ret->has_children = false;
    uint64_t code = cursor_uleb(c);
    if (code == 0)
        return !c->is_bad;
    const struct dwarf_abbrev *abbrev = abbrev_of(a, code);
    if (!abbrev)
        return false;
    ret->tag = abbrev->tag;
    ret->has_children = abbrev->has_children;
    for (uint32_t i = 0; i < abbrev->n; i++) {
        const struct dwarf_attribute *x = &a->attributes.p[abbrev->first + i];
        if (x->form == DWARF_PASSED) {
            cursor_skip(c, (uint64_t)x->implicit);
            continue;
        }
        struct dwarf_value v = {0};
        uint64_t form = x->form;
        if (form == DW_FORM_indirect)
            form = cursor_uleb(c);
        if (!dwarf_value_read(c, u, form, x->implicit, &v))
            return false;
        if (x->wanted)
            keep(ret, &wanted[x->wanted], &v);
    }
    return !c->is_bad;
}
