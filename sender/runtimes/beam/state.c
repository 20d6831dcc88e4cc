/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Most builds are stripped, and some export none of this; but it is all in what the emulator writes to, some
 * 300 KB, and each can be told from anything else:
 *
 * - __jit_debug_descriptor is a version and an action, and a list, of whose oldest entries (struct
 *   jit_code_entry) one is of the code that all modules share, one of the emulator (beam_jit_metadata.cpp).
 *   Among the shared code is process_main, whose first instructions say where it has the registers.
 * - struct ranges r[3] (beam_ranges.c) are the modules by address, one for each generation of code.
 * - erts_atom_table (IndexTable) has a name.
 */
#include "sender/runtimes/beam/state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/macros.h"
#include "sender/runtimes/runtime.h"

/* Modules that were loaded in all, looked through once: as many reads. */
#define ENTRIES_MAX 65536u
#define OLDEST      8u /* the two are among these */
#define DATA_MAX    (8u << 20)
#define DATA_ONCE   4096u
/* What a table is looked for in, in words, and how much is before it. */
#define WINDOW_WORDS  9u
#define WINDOW_BEFORE 4u
#define NAMES_MAX     (256u << 10)
#define MAIN_MAX      2048u

/* struct jit_code_entry. */
struct entry {
    uint64_t next, previous, file, size;
};

/* struct debug_info; behind a module's its name, and pieces: where it begins and ends, how many lines, how
 * long its name is, the name, and lines. */
struct info {
    uint32_t kind, zero;
    union {
        struct {
            uint32_t layout, zero;
            uint64_t normal_exit;
        } emulator;
        struct {
            uint64_t start;
            uint32_t n_pieces, size;
            uint16_t name_n;
            char name[6];
        } module;
    };
};
_Static_assert(sizeof(struct info) == 32, "as it is there");
#define INFO_EMULATOR 0u
#define INFO_MODULE   1u
#define PIECE_HEAD    14u /* the name follows */
#define PIECE_SIZE    16u /* … and so much and its length behind is the next one */
#define LINE_HEAD     10u
#define LINE_SIZE     12u

struct piece {
    uint32_t start, end, n_lines;
    uint16_t name_n;
} __attribute__((packed));

/* What is being looked for. */
struct search {
    const struct source *memory;
    struct beam_place *place;
    uint64_t start, end; /* of the emulator's file, in the process */
};

static bool read_info(const struct source *memory, const struct entry *entry, struct info *ret)
{
    return entry->size >= sizeof *ret && entry->size <= NAMES_MAX &&
           source_read(memory, entry->file, ret, sizeof *ret);
}

/* Takes what an entry says, if it is one of the two. */
static void take_info(struct beam_place *place, const struct entry *entry, const struct info *info)
{
    if (info->kind == INFO_EMULATOR) {
        place->exit = info->emulator.normal_exit;
        place->has_pointers = info->emulator.layout != 0;
    } else if (info->kind == INFO_MODULE && info->module.name_n == sizeof "global" &&
               memcmp(info->module.name, "global", sizeof info->module.name) == 0) {
        place->shared = info->module.start;
        place->shared_size = info->module.size;
        place->names = entry->file;
        place->names_size = (uint32_t)entry->size;
    }
}

/* __jit_debug_descriptor: version 1 and what was done last; the entry that it was done with, NULL again from
 * OTP 26 on; the first one. */
static void look_for_descriptor(const struct search *s, const uint64_t *at)
{
    struct entry last[OLDEST] = {0};
    struct info info;
    uint32_t n = 0;
    if ((at[0] & ~(3ull << 32)) != 1 || !at[2] || (at[1] && at[1] != at[2]))
        return;
    for (uint64_t next = at[2]; next; next = last[n++ % OLDEST].next)
        if (n >= ENTRIES_MAX || !source_read(s->memory, next, &last[n % OLDEST], sizeof *last))
            return;
    for (uint32_t i = 0; i < min_of(n, OLDEST); i++)
        if (read_info(s->memory, &last[i], &info))
            take_info(s->place, &last[i], &info);
}

/* A generation's: where they are, how many, and for how many there is room. */
static bool may_be_ranges(const uint64_t *at)
{
    return at[0] > 4096 && !(at[0] & 7) && at[1] && at[1] <= at[2] && at[2] < 1u << 20;
}

static bool is_atom(uint64_t term)
{
    return (term & 0x3f) == 0x0b;
}

/* Where functions are told in the header of a module's code, which begins with how many there are: the first
 * of three addresses in it, ascending, behind what is the same in all versions. Each is of an ErtsCodeInfo,
 * which has a module, a function and an arity. 0: it is none. */
static uint16_t find_functions(const struct search *s, uint64_t start, uint64_t end)
{
    uint64_t header[24], mfa[3];
    if (!source_read(s->memory, start, header, sizeof header))
        return 0;
    for (uint16_t i = 11; i + 2u < sizeof header / 8; i++)
        if (header[i] > start && header[i] < header[i + 1] && header[i + 1] < header[i + 2] &&
            header[i + 2] < end)
            return header[0] < 1u << 20 && header[i] >= start + 8 * (i + header[0]) &&
                           source_read(s->memory, header[i] + 16, mfa, sizeof mfa) && is_atom(mfa[0]) &&
                           is_atom(mfa[1]) && mfa[2] <= 255
                       ? 8 * i
                       : 0;
    return 0;
}

static bool is_ranges(const struct search *s, const uint64_t *at)
{
    uint64_t range[2];
    if (!may_be_ranges(at) || may_be_ranges(at - 4) || at[3] < at[0] || at[3] - at[0] >= 16 * at[1] ||
        (at[3] - at[0]) % 16 || !source_read(s->memory, at[0], range, sizeof range))
        return false;
    s->place->functions = range[0] < range[1] ? find_functions(s, range[0], range[1]) : 0;
    return s->place->functions != 0;
}

/* struct index_table: the name of its hash, five words of it, type and size, limit and entries, where they
 * are, of which each has its number. */
static bool is_atoms(const struct search *s, const uint64_t *at)
{
    char name[sizeof "atom_tab"];
    uint64_t size = at[5] >> 32, limit = (uint32_t)at[6], n = at[6] >> 32, page, second[2];
    uint32_t number;
    return at[0] > s->start && at[0] < s->end && n > 1 && n <= size && size <= limit &&
           source_read(s->memory, at[0], name, sizeof name) && memcmp(name, "atom_tab", sizeof name) == 0 &&
           source_read(s->memory, at[7], &page, sizeof page) &&
           source_read(s->memory, page, second, sizeof second) &&
           source_read(s->memory, second[1] + 16, &number, sizeof number) && number == 1;
}

/* Looks at each word of a piece of what is written to. */
static void look_at(struct search *s, const uint64_t *words, size_t n, uint64_t address)
{
    struct beam_place *place = s->place;
    for (size_t i = WINDOW_BEFORE; i + WINDOW_WORDS <= n; i++) {
        if (!place->shared || !place->exit)
            look_for_descriptor(s, &words[i]);
        if (!place->ranges && is_ranges(s, &words[i]))
            place->ranges = address + 8 * i;
        if (!place->atoms && is_atoms(s, &words[i]))
            place->atoms = words[i + 7];
    }
}

static void look_through(struct search *s, uint64_t start, uint64_t size)
{
    uint64_t words[DATA_ONCE / 8], left = 8 * (WINDOW_BEFORE + WINDOW_WORDS);
    for (uint64_t at = 0; at + left < size; at += sizeof words - left) {
        size_t n =
            source_read_some(s->memory, start + at, words, (size_t)min_of(size - at, (uint64_t)sizeof words));
        if (n <= left)
            return;
        look_at(s, words, n / 8, start + at);
    }
}

bool beam_piece(const struct source *memory, const struct beam_place *place, const char *name,
                uint64_t address, struct beam_piece *ret)
{
    struct info info;
    uint32_t size = place->names_size;
    if (size < sizeof info || size > NAMES_MAX)
        return false;
    autofree uint8_t *table = malloc(size);
    if (!table || !source_read(memory, place->names, table, size))
        return false;
    memcpy(&info, table, sizeof info);
    uint64_t at = sizeof info + info.module.name_n;
    for (uint32_t i = 0; i < info.module.n_pieces; i++) {
        struct piece piece;
        if (at + PIECE_SIZE > size)
            return false;
        memcpy(&piece, table + at, sizeof piece);
        if (at + PIECE_SIZE + piece.name_n > size || piece.name_n == 0)
            return false;
        size_t n = min_of((size_t)piece.name_n - 1, sizeof ret->name - 1);
        ret->start = place->shared + piece.start;
        ret->size = (uint64_t)piece.end - piece.start;
        memcpy(ret->name, table + at + PIECE_HEAD, n);
        ret->name[n] = 0;
        if (piece.end > piece.start &&
            (name ? strcmp(ret->name, name) == 0 : address - ret->start < ret->size))
            return true;
        at += PIECE_SIZE + piece.name_n;
        for (uint32_t j = 0; j < piece.n_lines; j++) {
            uint16_t file_n;
            if (at + LINE_SIZE > size)
                return false;
            memcpy(&file_n, table + at + LINE_HEAD - 2, sizeof file_n);
            at += LINE_SIZE + (uint64_t)file_n;
        }
    }
    return false;
}

/* What process_main begins with: sub $frame, %rsp; and $-64, %rsp; mov %rsp, (%rdi); lea …(%rsp), %rbx; and
 * what it goes to a process's stack with: mov …(%r13), %rsp. */
static bool read_main(struct beam_place *place, const uint8_t *code, size_t n)
{
    static const uint8_t rest[] = {0x48, 0x83, 0xe4, 0xc0, 0x48, 0x89, 0x27, 0x48, 0x8d};
    static const uint8_t stop[] = {0x49, 0x8b, 0x65};
    uint32_t registers = 0;
    if (n < 32 || code[0] != 0x48 || code[1] != 0x81 || code[2] != 0xec ||
        memcmp(code + 7, rest, sizeof rest) != 0 || code[17] != 0x24)
        return false;
    memcpy(&place->frame, code + 3, sizeof place->frame);
    if (code[16] == 0x5c)
        registers = code[18];
    else if (code[16] == 0x9c)
        memcpy(&registers, code + 18, sizeof registers);
    const uint8_t *found = memmem(code, n - 1, stop, sizeof stop);
    if (!found || registers == 0 || registers > UINT16_MAX || place->frame > 1u << 20 || place->frame % 16)
        return false;
    place->registers = (uint16_t)registers;
    place->stop = found[sizeof stop];
    return true;
}

int beam_state(struct beam_place *ret, const struct beam_binary *binary, const struct source *memory,
               uint64_t bias)
{
    struct beam_piece main;
    uint8_t code[MAIN_MAX];
    *ret = (struct beam_place){.text = bias + binary->text,
                               .text_size = binary->text_size,
                               .call = binary->main ? bias + binary->main : 0};
    memcpy(ret->version, binary->version, sizeof ret->version);
    struct search s = {memory, ret, bias + binary->start, bias + binary->end};
    for (uint32_t i = 0; i < binary->n_data; i++)
        look_through(&s, bias + binary->data[i].start, min_of(binary->data[i].size, (uint64_t)DATA_MAX));
    if (!ret->shared || !ret->exit || !ret->ranges || !ret->atoms)
        return -EAGAIN;
    if (!beam_piece(memory, ret, "global::process_main", 0, &main) || main.size > sizeof code ||
        !source_read(memory, main.start, code, (size_t)main.size) || !read_main(ret, code, (size_t)main.size))
        return RUNTIME_NOT_KNOWN;
    ret->main = main.start;
    ret->main_size = main.size;
    return 0;
}
