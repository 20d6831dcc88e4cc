/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table is a sorted list of (entry address, where its _func is), one a function, searched in place by
 * pread(2): 17 reads for 150,000 functions, and nothing is held. A _func is a row of 4-byte words: offsets of
 * the name and of programs that map code to file, line and inlined call.
 *
 * Such a program (go12symtab, "pc-value tables") is a list of pairs of varints: the zigzag difference of the
 * value, the difference of the address; it is run from the function's entry until it passes the address, and
 * gives the run of addresses with the same value: the narrowest of those runs is what is answered at once.
 *
 * Inlined calls (since 1.18): a PCDATA program gives the index into the function's inline tree, whose nodes
 * say name, file and the address of the call in the parent; file and line of the outer one are looked up
 * there. Where the tree is is said by moduledata alone, which is found in its section or, before 1.26, by
 * searching data for the address of the table.
 */
#include "sender/symbolize/go/pclntab.h"

#include <errno.h>

#include "proto/base/macros.h"

/* moduledata.text in .go.module: behind the pcHeader pointer, six slices, findfunctab, minpc and maxpc
 * (runtime/symtab.go, Go 1.26). */
#define MODULE_TEXT_AT (8 + 6 * 24 + 3 * 8)

/* moduledata.gofunc: where go:func.* begins; 1.20 put two fields before it. */
#define MODULE_FUNCTIONS_AT_118 304
#define MODULE_FUNCTIONS_AT     320
/* Data searched for moduledata in programs that have no section for it. */
#define MODULE_SEARCH_MAX (16u << 20)
/* What in it points at where the table may be: next to nothing else does, it is data without pointers. */
#define MODULE_POINTERS_MAX 256u

/* internal/abi/symtab.go: PCDATA_InlTreeIndex and FUNCDATA_InlTree. */
#define PCDATA_INLINE   2
#define FUNCDATA_INLINE 3

/* Fields of _func behind the entry (runtime/runtime2.go): number of the 4-byte word. */
enum {
    FUNC_NAME = 1,
    FUNC_FILE_PCS = 5,
    FUNC_LINE_PCS = 6,
    FUNC_PCDATAS = 7,
    FUNC_UNIT = 8,
    FUNC_START_LINE = 9
};

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

/* What a word of the program's data is looked at for. */
struct sought {
    const struct source *source;
    const struct elf *elf;
    uint32_t tried;
    uint64_t table; /* the word's value, where it is what was sought */
};

/* The file offset of the first word of data that is sought; 0: there is none. */
static uint64_t search_data(struct sought *sought, bool (*is_it)(struct sought *sought, uint64_t word))
{
    const struct elf_section *data = &sought->elf->go_data;
    uint64_t word[512], n = min_of(data->size, (uint64_t)MODULE_SEARCH_MAX);
    for (uint64_t at = 0; at + 8 <= n; at += sizeof word) {
        size_t got =
            source_read_some(sought->source, data->offset + at, word, (size_t)min_of(n - at, 4096ul)) / 8;
        for (size_t i = 0; i < got; i++)
            if (is_it(sought, word[i]))
                return data->offset + at + 8 * i;
    }
    return 0;
}

static bool is_to_table(struct sought *sought, uint64_t word)
{
    return word == sought->elf->go_lines.address;
}

/* The file offset of moduledata: its first word points at the table. 0: not found. */
static uint64_t find_module(const struct source *s, const struct elf *elf)
{
    struct sought sought = {.source = s, .elf = elf};
    return elf->go_module.size >= MODULE_FUNCTIONS_AT + 8 ? elf->go_module.offset
                                                          : search_data(&sought, is_to_table);
}

static void find_function_data(struct pclntab *t, const struct elf *elf)
{
    uint64_t module = find_module(&t->file, elf), address, room;
    uint64_t at = module + (t->version == 118 ? MODULE_FUNCTIONS_AT_118 : MODULE_FUNCTIONS_AT);
    if (!module || !source_read(&t->file, at, &address, 8) || address == 0 ||
        !elf_file_offset(&t->file, address, &t->function_data, &room))
        t->function_data = 0;
}

static uint32_t version_of(const uint8_t head[8])
{
    static const struct {
        uint32_t magic, version;
    } known[] = {{0xfffffffb, 12}, {0xfffffffa, 116}, {0xfffffff0, 118}, {0xfffffff1, 120}};
    uint32_t magic;
    memcpy(&magic, head, 4);
    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        if (known[i].magic == magic)
            return known[i].version;
    return 0;
}

/* Magic, two zeros, quantum (1, 2, 4), size of a pointer. */
static bool is_head(const uint8_t head[8])
{
    uint8_t quantum = head[6];
    return version_of(head) && !head[4] && !head[5] && (quantum == 1 || quantum == 2 || quantum == 4) &&
           head[7] == 8;
}

static bool is_to_head(struct sought *sought, uint64_t word)
{
    const struct elf_section *in = &sought->elf->fixed_data;
    uint8_t head[8];
    if (word < in->address || word - in->address >= in->size || sought->tried++ >= MODULE_POINTERS_MAX ||
        !source_read(sought->source, in->offset + (word - in->address), head, sizeof head) || !is_head(head))
        return false;
    sought->table = word - in->address;
    return true;
}

void pclntab_find(struct elf *elf, const struct source *s)
{
    struct sought sought = {.source = s, .elf = elf};
    const struct elf_section *in = &elf->fixed_data;
    if (elf->go_lines.size || !elf->go_build.size || !search_data(&sought, is_to_head))
        return;
    elf->go_lines = (struct elf_section){.address = in->address + sought.table,
                                         .offset = in->offset + sought.table,
                                         .size = in->size - sought.table};
}

int pclntab_open(struct pclntab *ret, const struct source *s, const struct elf *elf)
{
    struct pclntab t = {.source = *s, .file = *s, .base = elf->go_lines.offset, .size = elf->go_lines.size};
    uint8_t head[8];
    if (!table_read(&t, 0, head, sizeof head) || !is_head(head))
        return -ENOENT;
    t.version = version_of(head);
    t.quantum = head[6];
    t.pointer = head[7];
    bool ok = t.version == 12 ? open_old(&t) : open_new(&t, s, elf);
    if (!ok || t.n_functions == 0 || t.n_functions > PCLNTAB_FUNCTIONS_MAX)
        return -ENOENT;
    if (t.version >= 118)
        find_function_data(&t, elf);
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

/* The source file at an address of a function. */
static void find_file(const struct pclntab *t, uint64_t function, uint64_t entry, uint64_t address,
                      struct pclntab_frame *ret, uint64_t *start, uint64_t *end)
{
    uint64_t pcs, unit, at;
    int32_t number;
    if (!function_field(t, function, FUNC_FILE_PCS, &pcs) || pcs == 0 ||
        !pc_value(t, (uint32_t)pcs, entry, address, &number, start, end) || number < 0)
        return;
    if (t->version == 12) {
        if (number == 0 || (uint64_t)number >= t->n_files ||
            !table_word(t, t->files + 4 * (uint64_t)number, 4, &at))
            return;
        table_string(t, 0, at, ret->file, sizeof ret->file);
        return;
    }
    if (!function_field(t, function, FUNC_UNIT, &unit) || unit == UINT32_MAX || t->units > t->size ||
        !table_word(t, t->units + 4 * (unit + (uint64_t)number), 4, &at) || at == UINT32_MAX)
        return;
    table_string(t, t->files, at, ret->file, sizeof ret->file);
}

/* Source file and line at an address of a function; narrows [*start, *end) to where they hold. */
static void find_place(const struct pclntab *t, uint64_t function, uint64_t entry, uint64_t address,
                       struct pclntab_frame *ret, uint64_t *start, uint64_t *end)
{
    uint64_t pcs;
    int32_t number;
    find_file(t, function, entry, address, ret, start, end);
    if (function_field(t, function, FUNC_LINE_PCS, &pcs) && pcs != 0 &&
        pc_value(t, (uint32_t)pcs, entry, address, &number, start, end) && number > 0)
        ret->line = (uint32_t)number;
}

/* The tree of what is inlined into a function: where its index over addresses, and it itself are. */
struct inline_tree {
    uint32_t pcs;
    uint64_t at; /* in the file */
};

static bool find_tree(const struct pclntab *t, uint64_t function, struct inline_tree *ret)
{
    uint64_t n_pcdata, pcs, offset;
    uint32_t header = t->version >= 120 ? 44 : 40;
    uint8_t n_funcdata;
    if (!t->function_data || !function_field(t, function, FUNC_PCDATAS, &n_pcdata) ||
        n_pcdata <= PCDATA_INLINE || n_pcdata > 64 || !table_read(t, function + header - 1, &n_funcdata, 1) ||
        n_funcdata <= FUNCDATA_INLINE || !table_word(t, function + header + 4 * PCDATA_INLINE, 4, &pcs) ||
        pcs == 0 || !table_word(t, function + header + 4 * (n_pcdata + FUNCDATA_INLINE), 4, &offset) ||
        offset == UINT32_MAX)
        return false;
    *ret = (struct inline_tree){(uint32_t)pcs, t->function_data + offset};
    return true;
}

/* One inlined call (runtime/symtabinl.go: inlinedCall; before 1.20 with parent, file and line in it). */
static bool read_call(const struct pclntab *t, const struct inline_tree *tree, int32_t i,
                      struct pclntab_frame *ret, int32_t *ret_parent)
{
    int32_t word[5];
    uint32_t size = t->version >= 120 ? 16 : 20;
    if (!source_read(&t->file, tree->at + (uint64_t)i * size, word, size))
        return false;
    int32_t name = t->version >= 120 ? word[1] : word[3];
    *ret_parent = t->version >= 120 ? word[2] : word[4];
    if (t->version >= 120 && word[3] > 0)
        ret->start_line = (uint32_t)word[3];
    return name > 0 && *ret_parent >= 0 &&
           table_string(t, t->names, (uint32_t)name, ret->name, sizeof ret->name) > 0;
}

static bool function_name(const struct pclntab *t, uint64_t function, struct pclntab_frame *ret)
{
    uint64_t name, line;
    if (t->version >= 120 && function_field(t, function, FUNC_START_LINE, &line) && line <= INT32_MAX)
        ret->start_line = (uint32_t)line;
    return function_field(t, function, FUNC_NAME, &name) &&
           table_string(t, t->names, name & UINT32_MAX, ret->name, sizeof ret->name) > 0;
}

/* The _func of an address, its entry, and its addresses. */
static bool open_function(const struct pclntab *t, uint64_t address, uint64_t *ret, uint64_t *start,
                          uint64_t *end)
{
    uint64_t i, function;
    uint32_t width = entry_width(t);
    if (!find_function(t, address, &i, start, end) ||
        !table_word(t, t->functions + (2 * i + 1) * width, width, &function) || function > t->size)
        return false;
    *ret = function + (t->version == 12 ? 0 : t->functions);
    return true;
}

int pclntab_chain(const struct pclntab *t, uint64_t address, struct pclntab_chain *ret)
{
    uint64_t function, entry, any_start, any_end;
    struct inline_tree tree;
    if (!open_function(t, address, &function, &ret->start, &ret->end))
        return -ENOENT;
    entry = ret->start;
    bool has_tree = find_tree(t, function, &tree);
    uint64_t *start = &ret->start, *end = &ret->end;
    for (ret->n = 0; ret->n < PCLNTAB_DEPTH_MAX;) {
        struct pclntab_frame *frame = &ret->frame[ret->n];
        int32_t call = -1, parent;
        *frame = (struct pclntab_frame){0};
        find_place(t, function, entry, address, frame, start, end);
        if (has_tree && (!pc_value(t, tree.pcs, entry, address, &call, start, end) || call < 0))
            call = -1;
        if (ret->n == 0 && frame->line == 0) { /* padding: the lines end before the function does */
            ret->start = address;
            ret->end = address + 1;
        }
        /* Only the address asked for says how far the answer goes: those of the callers are others. */
        any_start = 0;
        any_end = UINT64_MAX;
        start = &any_start;
        end = &any_end;
        ret->n++;
        if (call < 0 || !read_call(t, &tree, call, frame, &parent))
            return function_name(t, function, frame) ? 0 : -ENOENT;
        address = entry + (uint64_t)parent;
    }
    return 0;
}
