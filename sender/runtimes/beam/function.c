/* SPDX-License-Identifier: Apache-2.0 */
/*
 * As beam_ranges.c finds them: of three generations of code each has the modules by address, sorted but while
 * one is being made; which of them is the present one does not matter, for what does not fit is in another.
 * A module's code begins with a header that has its functions (ErtsCodeInfo), ascending, and its lines.
 *
 * Names are those of stack traces and of the emulator's perf support: module:function/arity, quoted where
 * Erlang has to be.
 */
#include "sender/runtimes/beam/function.h"

#include <string.h>

#include "proto/base/hash.h"
#include "proto/base/macros.h"
#include "sender/runtimes/beam/state.h"

#define GENERATIONS 3u
/* Steps of a search by halves. */
#define HALVES_MAX 24u
/* Bytes of an atom (255 characters, each of 4 bytes), and of a file's name that are read. */
#define ATOM_MAX 1020u
#define FILE_MAX 256u

/* Terms. */
#define ATOM_TAG(term)   ((term)&0x3f)
#define ATOM_IS          0x0bu
#define ATOM_NUMBER(t)   ((t) >> 6)
#define LIST_TAG(term)   ((term)&3)
#define LIST_IS          1u
#define SMALL_TAG(term)  ((term)&0xf)
#define SMALL_IS         0xfu
#define SMALL_VALUE(t)   ((t) >> 4)
#define INDEX_PAGE_SHIFT 10u
#define INDEX_PAGE_MASK  ((1u << INDEX_PAGE_SHIFT) - 1)

/* Atom: in a hash, under a number. From OTP 28 (ERTS 16) on its name is a term, boxed: a header, its size in
 * bits, and the bytes. */
#define BOXED_SINCE 16u
#define BOXED_IS    2u
#define BOXED_BYTES 16u
struct atom {
    uint64_t bucket[2];
    uint32_t number, zero;
    int16_t length, characters;
    int32_t order;
    uint64_t name;
};

/* BeamCodeHeader.line_table, and that; which file and line is in 2 or 4 bytes each. */
#define HEADER_LINES 0x48u
struct lines {
    uint64_t files;
    uint32_t size, zero;
    uint64_t places;
    uint64_t first; /* of the functions, the lines' addresses */
};

/* ErtsCodeInfo.mfa, from here on. */
#define INFO_MFA 16u
struct mfa {
    uint64_t module, function, arity;
};

/* What says that an address is in a function, on a line: where it begins and ends, its name, and the line's
 * lowest bits. Other modules get the place of code that was purged, and may have the same instructions there:
 * so this is compared from time to time. */
struct said {
    uint64_t code[2];
    struct mfa mfa;
    uint64_t line;
};

/* A function: its module's header, and which one in there. */
struct found {
    uint64_t header, number;
    struct said said;
};

/* runtime_mark.at: where what was said is. */
enum { MARK_CODE, MARK_MFA, MARK_LINE };

/* Of n pairs of addresses, `step` bytes one after the other, the one that an address is in between. */
static bool search(const struct source *memory, uint64_t from, uint64_t n, uint64_t step, uint64_t address,
                   uint64_t *number, uint64_t pair[2])
{
    uint64_t low = 0, high = n;
    for (uint32_t i = 0; i < HALVES_MAX && low < high; i++) {
        *number = low + (high - low) / 2;
        if (!source_read(memory, from + *number * step, pair, 2 * sizeof *pair))
            return false;
        if (address < pair[0])
            high = *number;
        else if (address >= pair[1])
            low = *number + 1;
        else
            return true;
    }
    return false;
}

static bool find(const struct source *memory, const struct beam_place *place, uint64_t address,
                 struct found *ret)
{
    for (uint32_t i = 0; i < GENERATIONS; i++) {
        uint64_t modules[2], number, range[2], n;
        if (source_read(memory, place->ranges + 32 * (uint64_t)i, modules, sizeof modules) &&
            search(memory, modules[0], modules[1], 16, address, &number, range) &&
            runtime_load(memory, range[0], &n) &&
            search(memory, range[0] + place->functions, n, 8, address, &ret->number, ret->said.code) &&
            ret->said.code[0] > range[0] &&
            source_read(memory, ret->said.code[0] + INFO_MFA, &ret->said.mfa, sizeof ret->said.mfa) &&
            ATOM_TAG(ret->said.mfa.module) == ATOM_IS && ATOM_TAG(ret->said.mfa.function) == ATOM_IS &&
            ret->said.mfa.arity <= 255) {
            ret->header = range[0];
            return true;
        }
    }
    return false;
}

/* Whether a letter of an atom's is one that needs no quotes. */
static bool is_plain(uint8_t c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '@';
}

/* The bytes of an atom's name; 0: it cannot be read. */
static size_t read_atom(const struct source *memory, const struct beam_place *place, uint64_t term,
                        uint8_t name[ATOM_MAX])
{
    struct atom atom;
    uint64_t number = ATOM_NUMBER(term), page, at, n;
    if (!runtime_load(memory, place->atoms + 8 * (number >> INDEX_PAGE_SHIFT), &page) ||
        !runtime_load(memory, page + 8 * (number & INDEX_PAGE_MASK), &at) ||
        !source_read(memory, at, &atom, sizeof atom) || atom.number != number)
        return 0;
    at = atom.name;
    n = (uint64_t)atom.length;
    if (place->version[0] >= BOXED_SINCE) {
        at += BOXED_BYTES - BOXED_IS;
        if (!runtime_load(memory, at - 8, &n))
            return 0;
        n /= 8;
    }
    return n <= ATOM_MAX && source_read(memory, at, name, (size_t)n) &&
                   bytes_is_utf8(bytes_of(name, (size_t)n))
               ? (size_t)n
               : 0;
}

/* Puts an atom as Erlang writes it into `to`, which has room for each of ATOM_MAX bytes twice, and two
 * quotes. 0: it cannot be read. */
static size_t put_atom(const struct source *memory, const struct beam_place *place, uint64_t term, char *to)
{
    uint8_t name[ATOM_MAX];
    size_t length = read_atom(memory, place, term, name), n = 0;
    if (length == 0)
        return 0;
    bool is_quoted = name[0] < 'a' || name[0] > 'z';
    for (size_t i = 0; i < length; i++)
        is_quoted |= !is_plain(name[i]);
    if (is_quoted)
        to[n++] = '\'';
    for (size_t i = 0; i < length; i++) {
        if (name[i] == '\'' || name[i] == '\\')
            to[n++] = '\\';
        to[n++] = (char)name[i];
    }
    if (is_quoted)
        to[n++] = '\'';
    return n;
}

/* A text that is a list of characters. */
static struct bytes read_list(const struct source *memory, uint64_t list, struct arena *text)
{
    uint8_t name[FILE_MAX + 4];
    uint64_t cell[2];
    size_t n = 0;
    while (n < FILE_MAX && LIST_TAG(list) == LIST_IS &&
           source_read(memory, list - LIST_IS, cell, sizeof cell) && SMALL_TAG(cell[0]) == SMALL_IS) {
        if (SMALL_VALUE(cell[0]) > 0x10ffff)
            return BYTES_LIT("");
        n += bytes_put_utf8(name + n, (uint32_t)SMALL_VALUE(cell[0]));
        list = cell[1];
    }
    return arena_copy(text, bytes_of(name, n));
}

/* The line of an address in a function, and its file. */
static void read_line(const struct source *memory, struct found *f, uint64_t address, struct arena *text,
                      struct runtime_name *ret)
{
    struct lines lines;
    uint64_t at, of[2], number, pair[2], file;
    uint32_t place = 0;
    if (!runtime_load(memory, f->header + HEADER_LINES, &at) || !at ||
        !source_read(memory, at, &lines, sizeof lines) || (lines.size != 2 && lines.size != 4) ||
        !source_read(memory, at + offsetof(struct lines, first) + 8 * f->number, of, sizeof of) ||
        of[1] < of[0] || of[0] < lines.first ||
        !search(memory, of[0], (of[1] - of[0]) / 8, 8, address, &number, pair))
        return;
    number += (of[0] - lines.first) / 8;
    if (!source_read(memory, lines.places + number * lines.size, &place, lines.size) || !place)
        return;
    ret->mark.at[MARK_LINE] = lines.places + number * lines.size;
    f->said.line = place & 0xffff;
    ret->line = place & 0xffffff;
    if (runtime_load(memory, lines.files + 8 * (uint64_t)(place >> 24), &file))
        ret->file = read_list(memory, file, text);
}

static bool is_there(const struct source *memory, const struct sample_frame *word)
{
    uint64_t code;
    return runtime_load(memory, word->where & ~7ull, &code) && BEAM_COOKIE(code) == word->file;
}

static uint64_t digest(const struct said *said)
{
    return hash_bytes(bytes_of(said, sizeof *said), 0);
}

bool beam_function_has_changed(const struct source *memory, const struct runtime_mark *mark)
{
    struct said said = {0};
    return mark->said && source_read(memory, mark->at[MARK_CODE], said.code, sizeof said.code) &&
           source_read(memory, mark->at[MARK_MFA], &said.mfa, sizeof said.mfa) &&
           (!mark->at[MARK_LINE] || source_read(memory, mark->at[MARK_LINE], &said.line, 2)) &&
           digest(&said) != mark->said;
}

bool beam_function_name(const struct source *memory, const struct beam_place *place,
                        const struct sample_frame *word, struct arena *text, struct runtime_name *ret)
{
    struct beam_piece piece;
    struct found f = {0};
    char module[2 * ATOM_MAX + 2], function[2 * ATOM_MAX + 2];
    *ret = (struct runtime_name){.file = BYTES_LIT("")};
    if (!is_there(memory, word))
        return false;
    if (word->where - place->shared < place->shared_size) {
        if (!beam_piece(memory, place, NULL, word->where, &piece) || !bytes_is_utf8(bytes_str(piece.name)))
            return false;
        ret->name = arena_copy(text, bytes_str(piece.name));
        return ret->name.p;
    }
    if (!find(memory, place, word->where, &f))
        return false;
    size_t module_n = put_atom(memory, place, f.said.mfa.module, module);
    size_t function_n = put_atom(memory, place, f.said.mfa.function, function);
    if (!module_n || !function_n)
        return false;
    read_line(memory, &f, word->where, text, ret);
    ret->mark.at[MARK_CODE] = f.header + place->functions + 8 * f.number;
    ret->mark.at[MARK_MFA] = f.said.code[0] + INFO_MFA;
    ret->mark.said = digest(&f.said);
    const char *name = arena_printf(text, "%.*s:%.*s/%u", (int)module_n, module, (int)function_n, function,
                                    (unsigned)f.said.mfa.arity);
    if (!name || !is_there(memory, word))
        return false;
    ret->name = bytes_str(name);
    return true;
}
