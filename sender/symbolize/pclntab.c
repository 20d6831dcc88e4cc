#include "sender/symbolize/pclntab.h"

#include <errno.h>

#include "proto/base/macros.h"

/* moduledata.text in .go.module: behind the pcHeader pointer, six slices, findfunctab, minpc and maxpc
 * (runtime/symtab.go, Go 1.26). */
#define MODULE_TEXT_AT (8 + 6 * 24 + 3 * 8)

/* Fields of _func behind the entry (runtime/runtime2.go): number of the 4-byte word. */
enum { FUNC_NAME = 1, FUNC_FILE_PCS = 5, FUNC_LINE_PCS = 6, FUNC_UNIT = 8 };

/* n bytes at an offset from the table's base; false outside it. */
static bool table_read(const struct pclntab *t, uint64_t at, void *to, size_t n)
{
    return at <= t->size && n <= t->size - at && source_read(&t->source, t->base + at, to, n);
}

/* A word of 4 or 8 bytes. */
static bool table_word(const struct pclntab *t, uint64_t at, uint32_t width, uint64_t *ret)
{
    uint32_t narrow;
    if (width == 8)
        return table_read(t, at, ret, 8);
    if (!table_read(t, at, &narrow, 4))
        return false;
    *ret = narrow;
    return true;
}

static size_t table_string(const struct pclntab *t, uint64_t base, uint64_t at, char *to, size_t room)
{
    *to = 0;
    if (base >= t->size || at >= t->size - base)
        return 0;
    room = (size_t)min_of((uint64_t)room, t->size - base - at + 1);
    return source_string(&t->source, t->base + base + at, to, room);
}

/* Where the text that entries are relative to begins. Until Go 1.25 the header says it (in a PIE, a
 * relocation does, and the file has 0); since 1.26 only moduledata; what remains is .text, which is right
 * unless C code comes first. */
static uint64_t text_start(const struct source *s, const struct elf *elf, uint64_t header)
{
    uint64_t text;
    if (header)
        return header;
    if (elf->go_module.size >= MODULE_TEXT_AT + 8 &&
        source_read(s, elf->go_module.offset + MODULE_TEXT_AT, &text, 8) && text)
        return text;
    return elf->text.address;
}

static bool open_new(struct pclntab *t, const struct source *s, const struct elf *elf)
{
    uint64_t word[8];
    uint32_t n = t->version >= 118 ? 8 : 7;
    for (uint32_t i = 0; i < n; i++)
        if (!table_word(t, 8 + (uint64_t)i * t->pointer, t->pointer, &word[i]))
            return false;
    const uint64_t *offset = t->version >= 118 ? word + 3 : word + 2;
    t->n_functions = word[0];
    t->n_files = word[1];
    t->names = offset[0];
    t->units = offset[1];
    t->files = offset[2];
    t->pcs = offset[3];
    t->functions = offset[4];
    if (t->version >= 118)
        t->text = text_start(s, elf, word[2]);
    return true;
}

/* Go 1.2 … 1.15: one block, offsets from its beginning. */
static bool open_old(struct pclntab *t)
{
    uint64_t files, count;
    if (!table_word(t, 8, t->pointer, &t->n_functions) || t->n_functions > PCLNTAB_FUNCTIONS_MAX)
        return false;
    t->functions = 8 + t->pointer;
    if (!table_word(t, t->functions + (2 * t->n_functions + 1) * t->pointer, 4, &files) ||
        !table_word(t, files, 4, &count))
        return false;
    t->files = files;
    t->n_files = count;
    return true;
}

int pclntab_open(struct pclntab *ret, const struct source *s, const struct elf *elf)
{
    static const struct {
        uint32_t magic, version;
    } known[] = {{0xfffffffb, 12}, {0xfffffffa, 116}, {0xfffffff0, 118}, {0xfffffff1, 120}};
    struct pclntab t = {.source = *s, .base = elf->go_lines.offset, .size = elf->go_lines.size};
    uint8_t h[8];
    uint32_t magic;
    if (!table_read(&t, 0, h, sizeof h))
        return -ENOENT;
    memcpy(&magic, h, 4);
    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        if (known[i].magic == magic)
            t.version = known[i].version;
    t.quantum = h[6];
    t.pointer = h[7];
    if (!t.version || h[4] || h[5] || (t.quantum != 1 && t.quantum != 2 && t.quantum != 4) || t.pointer != 8)
        return -ENOENT;
    bool ok = t.version == 12 ? open_old(&t) : open_new(&t, s, elf);
    if (!ok || t.n_functions == 0 || t.n_functions > PCLNTAB_FUNCTIONS_MAX)
        return -ENOENT;
    *ret = t;
    return 0;
}

/* Width of the two words of a functab entry: offsets from text since 1.18, pointers before. */
static uint32_t entry_width(const struct pclntab *t)
{
    return t->version >= 118 ? 4 : t->pointer;
}

static bool entry_address(const struct pclntab *t, uint64_t i, uint64_t *ret)
{
    uint32_t width = entry_width(t);
    if (!table_word(t, t->functions + 2 * i * width, width, ret))
        return false;
    *ret += t->version >= 118 ? t->text : 0;
    return true;
}

/* The function an address is in: its number, begin and end. */
static bool find_function(const struct pclntab *t, uint64_t address, uint64_t *ret, uint64_t *start,
                          uint64_t *end)
{
    uint64_t from = 0, n = t->n_functions, entry;
    while (n > 0) { /* the first entry above the address */
        uint64_t half = n / 2;
        if (!entry_address(t, from + half, &entry))
            return false;
        if (entry <= address) {
            from += half + 1;
            n -= half + 1;
        } else {
            n = half;
        }
    }
    if (from == 0)
        return false;
    *ret = from - 1;
    return entry_address(t, from - 1, start) && entry_address(t, from, end) && *start <= address &&
           address < *end;
}

/* A pc-value program being read: bytes through a small window. */
struct program {
    const struct pclntab *t;
    uint64_t at;
    uint8_t window[256];
    size_t have, used;
};

static bool program_varint(struct program *p, uint32_t *ret)
{
    uint32_t value = 0;
    for (unsigned shift = 0; shift < 35; shift += 7) {
        if (p->used == p->have) {
            uint64_t left = p->at < p->t->size ? p->t->size - p->at : 0;
            size_t n = (size_t)min_of(left, (uint64_t)sizeof p->window);
            p->have = source_read_some(&p->t->source, p->t->base + p->at, p->window, n);
            p->used = 0;
            p->at += p->have;
            if (p->have == 0)
                return false;
        }
        uint8_t byte = p->window[p->used++];
        value |= (uint32_t)(byte & 0x7f) << (shift & 31);
        if (!(byte & 0x80)) {
            *ret = value;
            return true;
        }
    }
    return false;
}

/* Runs the program at `offset` to the value at `address`; narrows [*start, *end) to where it holds. */
static bool pc_value(const struct pclntab *t, uint32_t offset, uint64_t entry, uint64_t address, int32_t *ret,
                     uint64_t *start, uint64_t *end)
{
    struct program p = {.t = t, .at = t->pcs + offset};
    uint32_t value = UINT32_MAX; /* -1; wraps as Go's int32 does */
    uint64_t pc = entry;
    for (uint32_t step = 0; step < PCLNTAB_STEPS_MAX; step++) {
        uint32_t delta, pcs;
        if (!program_varint(&p, &delta) || (delta == 0 && step > 0) || !program_varint(&p, &pcs))
            return false;
        value += delta & 1 ? ~(delta >> 1) : delta >> 1;
        uint64_t next = pc + (uint64_t)pcs * t->quantum;
        if (address < next) {
            *start = max_of(*start, pc);
            *end = min_of(*end, next);
            *ret = (int32_t)value;
            return true;
        }
        pc = next;
    }
    return false;
}

static bool function_field(const struct pclntab *t, uint64_t function, uint32_t field, uint64_t *ret)
{
    uint32_t entry = t->version >= 118 ? 4 : t->pointer;
    return function <= t->size && table_word(t, function + entry + 4 * (uint64_t)(field - 1), 4, ret);
}

static void find_file(const struct pclntab *t, uint64_t function, uint64_t entry, uint64_t address,
                      struct pclntab_line *line)
{
    uint64_t pcs, unit, at;
    int32_t number;
    if (!function_field(t, function, FUNC_FILE_PCS, &pcs) || pcs == 0 ||
        !pc_value(t, (uint32_t)pcs, entry, address, &number, &line->start, &line->end) || number < 0)
        return;
    if (t->version == 12) {
        if (number == 0 || (uint64_t)number >= t->n_files ||
            !table_word(t, t->files + 4 * (uint64_t)number, 4, &at))
            return;
        table_string(t, 0, at, line->file, sizeof line->file);
        return;
    }
    if (!function_field(t, function, FUNC_UNIT, &unit) || unit == UINT32_MAX || t->units > t->size ||
        !table_word(t, t->units + 4 * (unit + (uint64_t)number), 4, &at) || at == UINT32_MAX)
        return;
    table_string(t, t->files, at, line->file, sizeof line->file);
}

int pclntab_find(const struct pclntab *t, uint64_t address, struct pclntab_line *ret)
{
    struct pclntab_line line = {0};
    uint64_t i, function, name, pcs, entry;
    if (!find_function(t, address, &i, &line.start, &line.end))
        return -ENOENT;
    entry = line.start;
    uint32_t width = entry_width(t);
    if (!table_word(t, t->functions + (2 * i + 1) * width, width, &function) || function > t->size)
        return -ENOENT;
    function += t->version == 12 ? 0 : t->functions;
    if (!function_field(t, function, FUNC_NAME, &name) ||
        table_string(t, t->names, name & UINT32_MAX, line.name, sizeof line.name) == 0)
        return -ENOENT;
    find_file(t, function, entry, address, &line);
    int32_t number;
    if (function_field(t, function, FUNC_LINE_PCS, &pcs) && pcs != 0 &&
        pc_value(t, (uint32_t)pcs, entry, address, &number, &line.start, &line.end) && number > 0)
        line.line = (uint32_t)number;
    *ret = line;
    return 0;
}
