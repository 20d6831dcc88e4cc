/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/symbolize/dwarf/line.h"

#include <dwarf.h>
#include <errno.h>
#include <stdlib.h>

#include "proto/base/macros.h"

void dwarf_lines_close(struct dwarf_lines *l)
{
    free(l->memory);
    vec_release(&l->folders);
    vec_release(&l->files);
    *l = (struct dwarf_lines){0};
}

static bool add(struct dwarf_line_files *to, struct dwarf_line_file file)
{
    return to->n < DWARF_LINE_FILES_MAX && vec_append(to, file) == 0;
}

/* Versions 2 to 4: texts up to an empty one. Folder 0 is the unit's own; files are counted from 1. */
static bool read_old_tables(struct cursor *c, struct dwarf_lines *l)
{
    struct dwarf_line_file e = {.name.form = DW_FORM_string};
    bool ok = add(&l->folders, e) && add(&l->files, e);
    while (ok && !c->is_bad && (e.name.text = cursor_string(c)).n > 0)
        ok = add(&l->folders, e);
    while (ok && !c->is_bad && (e.name.text = cursor_string(c)).n > 0) {
        e.folder = cursor_uleb(c);
        cursor_uleb(c); /* time */
        cursor_uleb(c); /* size */
        ok = add(&l->files, e);
    }
    return ok && !c->is_bad;
}

static bool read_new_table(struct cursor *c, const struct dwarf_lines *l, struct dwarf_line_files *to)
{
    const struct dwarf_unit as = {
        .version = l->version, .address_size = l->address_size, .offset_size = l->offset_size};
    uint64_t type[DWARF_LINE_FORMATS_MAX], form[DWARF_LINE_FORMATS_MAX];
    uint32_t n_formats = cursor_u8(c);
    if (n_formats > DWARF_LINE_FORMATS_MAX)
        return false;
    for (uint32_t i = 0; i < n_formats; i++) {
        type[i] = cursor_uleb(c);
        form[i] = cursor_uleb(c);
    }
    uint64_t count = cursor_uleb(c);
    if (count > DWARF_LINE_FILES_MAX || (count > 0 && n_formats == 0))
        return false;
    for (uint64_t i = 0; i < count && !c->is_bad; i++) {
        struct dwarf_line_file e = {0};
        for (uint32_t j = 0; j < n_formats; j++) {
            struct dwarf_value v = {0};
            if (!dwarf_value_read(c, &as, form[j], 0, &v))
                return false;
            if (type[j] == DW_LNCT_path)
                e.name = v;
            else if (type[j] == DW_LNCT_directory_index)
                e.folder = v.number;
        }
        if (!add(to, e))
            return false;
    }
    return !c->is_bad;
}

/* What stands before the tables. */
static bool read_header(struct cursor *c, struct dwarf_lines *l, uint64_t *ret_header_length)
{
    l->version = (uint8_t)min_of(cursor_fixed(c, 2), 255ul);
    if (l->version < 2 || l->version > 5)
        return false;
    if (l->version >= 5) {
        l->address_size = cursor_u8(c);
        cursor_u8(c); /* segment selectors */
    }
    *ret_header_length = cursor_fixed(c, l->offset_size);
    return l->address_size == 8 || l->address_size == 4;
}

static bool read_numbers(struct cursor *c, struct dwarf_lines *l)
{
    l->minimum_length = cursor_u8(c);
    l->operations_max = l->version >= 4 ? cursor_u8(c) : 1;
    cursor_u8(c); /* default_is_stmt */
    l->line_base = (int8_t)cursor_u8(c);
    l->line_range = cursor_u8(c);
    l->opcode_base = cursor_u8(c);
    for (uint32_t i = 1; i < l->opcode_base; i++)
        l->lengths[i] = cursor_u8(c);
    /* More than one operation an instruction is VLIW, which nothing that runs Linux today is. */
    return !c->is_bad && l->line_range != 0 && l->opcode_base != 0 && l->operations_max <= 1;
}

/* How long a program is up to the end of its tables, from behind its length on. */
static uint64_t tables_end(const struct dwarf_lines *l, struct cursor *c)
{
    bool is_new = cursor_fixed(c, 2) >= 5;
    if (is_new)
        cursor_fixed(c, 2);
    uint64_t before = (is_new ? 4u : 2u) + (unsigned)l->offset_size;
    uint64_t n = cursor_fixed(c, l->offset_size);
    return n > UINT32_MAX ? UINT64_MAX : before + n;
}

static int load(struct dwarf_file *f, uint64_t at, bool whole, struct dwarf_lines *l, struct bytes *ret)
{
    const struct extent *lines = &f->section[ELF_DEBUG_LINE];
    uint8_t head[24] = {0};
    struct cursor c;
    if (at >= lines->size ||
        !extent_read(lines, at, head, (size_t)min_of(lines->size - at, (uint64_t)sizeof head)))
        return -EBADMSG;
    cursor_memory(&c, bytes_of(head, sizeof head));
    uint64_t n = cursor_fixed(&c, 4);
    l->offset_size = n == UINT32_MAX ? 8 : 4;
    if (l->offset_size == 8)
        n = cursor_fixed(&c, 8);
    at += (uint64_t)(c.p - head);
    if (at > lines->size || n > lines->size - at)
        return -EBADMSG;
    l->program_at = at; /* of its header, until that is read */
    l->program_end = at + n;
    if (!whole)
        n = min_of(n, tables_end(l, &c));
    if (n > DWARF_LINE_MAX)
        return -EFBIG;
    f->work -= (int64_t)n;
    if (source_is_memory(&lines->source)) {
        *ret = bytes_of(lines->source.memory.p + lines->at + at, (size_t)n);
        return 0;
    }
    l->memory = malloc((size_t)n + 1);
    if (!l->memory)
        return -ENOMEM;
    *ret = bytes_of(l->memory, (size_t)n);
    return extent_read(lines, at, l->memory, (size_t)n) ? 0 : -EBADMSG;
}

int dwarf_lines_open(struct dwarf_file *f, const struct dwarf_cu *cu, bool whole, struct dwarf_lines *ret)
{
    cleanup(dwarf_lines_close) struct dwarf_lines l = {.address_size = cu->unit.address_size};
    struct bytes all;
    struct cursor c;
    uint64_t header_length;
    if (!cu->root.lines.form)
        return -ENOENT;
    int r = load(f, cu->root.lines.number, whole, &l, &all);
    if (r < 0)
        return r;
    cursor_memory(&c, all);
    if (!read_header(&c, &l, &header_length) || c.is_bad || header_length > (uint64_t)(c.end - c.p))
        return -EBADMSG;
    const uint8_t *program = c.p + header_length;
    bool ok = read_numbers(&c, &l);
    if (l.version < 5)
        ok = ok && read_old_tables(&c, &l);
    else
        ok = ok && read_new_table(&c, &l, &l.folders) && read_new_table(&c, &l, &l.files);
    if (!ok)
        return -EBADMSG;
    l.program = bytes_of(program, (size_t)(all.p + all.n - program));
    l.program_at += (uint64_t)(program - all.p);
    *ret = l;
    l = (struct dwarf_lines){0};
    return 0;
}

/* The registers of the machine the program is for. */
struct machine {
    const struct dwarf_lines *l;
    dwarf_line_fn fn;
    void *user;
    uint64_t address, file, line;
    struct {
        uint64_t address, file, line;
        bool is_set;
    } last;                 /* the row before: it holds up to this one */
    bool stopped, is_ended; /* is_ended: a sequence was, just now */
    struct {
        uint64_t start, at; /* its first address; where in the program it begins */
        struct dwarf_pointer registers;
        bool has_start;
    } part; /* that is to be noted */
};

static void reset(struct machine *m)
{
    m->address = 0;
    m->file = 1;
    m->line = 1;
    m->last.is_set = false;
    m->is_ended = false;
}

static void row(struct machine *m)
{
    if (m->last.is_set && m->address > m->last.address &&
        !m->fn(m->user, m->last.address, m->address, m->last.file, m->last.line))
        m->stopped = true;
    if (!m->part.has_start)
        m->part.start = m->address;
    m->part.has_start = true;
    m->last.address = m->address;
    m->last.file = m->file;
    m->last.line = m->line;
    m->last.is_set = true;
}

/* An extended operation that is looked at: it has an address at most. */
#define OPERATION_MAX 16u

static void extended(struct machine *m, struct cursor *c)
{
    struct cursor sub;
    uint64_t n = cursor_uleb(c);
    if (n <= OPERATION_MAX)
        (void)cursor_piece(c, (unsigned)n);
    struct bytes body = cursor_skip(c, n);
    if (body.n == 0)
        return;
    cursor_memory(&sub, body);
    switch (cursor_u8(&sub)) {
    case DW_LNE_end_sequence:
        row(m);
        m->is_ended = true;
        break;
    case DW_LNE_set_address: m->address = cursor_fixed(&sub, m->l->address_size); break;
    }
}

static void standard(struct machine *m, struct cursor *c, uint8_t op)
{
    const struct dwarf_lines *l = m->l;
    switch (op) {
    case DW_LNS_copy: row(m); break;
    case DW_LNS_advance_pc: m->address += cursor_uleb(c) * l->minimum_length; break;
    case DW_LNS_advance_line: m->line += (uint64_t)cursor_sleb(c); break;
    case DW_LNS_set_file: m->file = cursor_uleb(c); break;
    case DW_LNS_const_add_pc:
        m->address += (uint64_t)((255 - l->opcode_base) / l->line_range) * l->minimum_length;
        break;
    case DW_LNS_fixed_advance_pc: m->address += cursor_fixed(c, 2); break;
    default:
        for (uint32_t i = 0; i < l->lengths[op]; i++)
            cursor_uleb(c);
    }
}

/* One operation. */
static void step(struct machine *m, struct cursor *c)
{
    const struct dwarf_lines *l = m->l;
    uint8_t op = cursor_u8(c);
    if (op >= l->opcode_base) {
        uint32_t special = op - l->opcode_base;
        m->address += (uint64_t)(special / l->line_range) * l->minimum_length;
        m->line += (uint64_t)(int64_t)(l->line_base + (int32_t)(special % l->line_range));
        row(m);
    } else if (op == 0) {
        extended(m, c);
    } else {
        standard(m, c, op);
    }
}

/* Notes what has been run as a part, at a sequence's end or when it is long enough and the last row is a new
 * address; the next part begins at `at`. */
static void note_part(struct machine *m, struct dwarf_index *index, uint64_t at)
{
    bool is_long = at - m->part.at >= DWARF_LINE_PART && m->part.has_start && m->last.is_set &&
                   m->last.address == m->address && m->address > m->part.start && m->line <= UINT32_MAX &&
                   m->file <= INT32_MAX && m->last.line == m->line && m->last.file == m->file;
    if (!m->is_ended && !is_long)
        return;
    dwarf_index_add(index, &index->sequences, m->part.start, m->address, m->part.at, m->part.registers);
    m->part.at = at;
    m->part.has_start = !m->is_ended;
    m->part.start = m->address;
    m->part.registers = (struct dwarf_pointer){0};
    if (m->is_ended)
        return;
    m->part.registers.line = (uint32_t)m->line;
    m->part.registers.file = (uint32_t)m->file & INT32_MAX;
    m->part.registers.is_inside = true;
}

void dwarf_lines_run(struct dwarf_file *f, const struct dwarf_lines *l, struct dwarf_index *index,
                     dwarf_line_fn fn, void *user)
{
    struct cursor c;
    struct machine m = {.l = l, .fn = fn, .user = user};
    cursor_memory(&c, l->program);
    reset(&m);
    while (!cursor_at_end(&c) && !m.stopped) {
        step(&m, &c);
        if (index)
            note_part(&m, index, (uint64_t)(c.p - l->program.p));
        if (m.is_ended)
            reset(&m);
    }
    f->work -= (int64_t)l->program.n;
}

void dwarf_lines_run_part(struct dwarf_file *f, const struct dwarf_lines *l, const struct dwarf_pointer *part,
                          dwarf_line_fn fn, void *user)
{
    struct cursor c;
    struct machine m = {.l = l, .fn = fn, .user = user};
    struct extent program = f->section[ELF_DEBUG_LINE];
    program.size = l->program_end;
    cursor_extent(&c, &program, l->program_at + part->at);
    reset(&m);
    if (part->is_inside) {
        m.address = part->start;
        m.file = part->file;
        m.line = part->line;
        row(&m);
    }
    while (!cursor_at_end(&c) && !m.stopped && !m.is_ended && !(m.last.is_set && m.last.address >= part->end))
        step(&m, &c);
    f->work -= (int64_t)c.taken;
}

/* Appends a path to what is there already, unless it is absolute: then it is all. */
static size_t join(char *to, size_t n, const char *part, size_t part_n, size_t room)
{
    if (part_n == 0)
        return n;
    if (*part == '/')
        n = 0;
    if (n > 0 && to[n - 1] != '/' && n + 1 < room)
        to[n++] = '/';
    part_n = min_of(part_n, room - 1 - n);
    memcpy(to + n, part, part_n);
    to[n + part_n] = 0;
    return n + part_n;
}

size_t dwarf_lines_path(struct dwarf_file *f, const struct dwarf_cu *cu, const struct dwarf_lines *l,
                        uint64_t number, char *to, size_t room)
{
    char part[1024];
    if (number >= l->files.n)
        return 0;
    const struct dwarf_line_file *file = &l->files.p[number];
    if (!file->name.form)
        return 0;
    size_t n = dwarf_text(f, cu, &cu->root.comp_dir, to, room);
    if (file->folder < l->folders.n)
        n = join(to, n, part, dwarf_text(f, cu, &l->folders.p[file->folder].name, part, sizeof part), room);
    size_t part_n = dwarf_text(f, cu, &file->name, part, sizeof part);
    n = join(to, n, part, part_n, room);
    return part_n ? n : 0;
}
