/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Method → ConstMethod (code, lines, indices of names) → ConstantPool (names, the class) → Klass → Symbol.
 * Whoever asks compares afterwards whether it is the method that is meant.
 */
#include "sender/runtimes/hotspot/method.h"

#include <string.h>

#include "proto/base/macros.h"
#include "sender/runtimes/hotspot/numbers.h"

#define CONST_READ 64u /* of a ConstMethod: hotspot_layout has seen to it that all is in that */
/* Of a symbol at once, as a call costs more: length and text of most. */
#define SYMBOL_READ 64u
#define HAS_LINES   1u /* ConstMethod::_flags, in all versions */
/* A table of lines of 65,535 bytecodes. */
#define LINES_MAX (192u << 10)

static uint16_t half(const uint8_t *at, uint16_t offset)
{
    uint16_t value;
    memcpy(&value, at + offset, sizeof value);
    return value;
}

static uint64_t word(const uint8_t *at, uint16_t offset)
{
    uint64_t value;
    memcpy(&value, at + offset, sizeof value);
    return value;
}

/* Whether a name can be one (JVMS 4.4.7): where it is none, it was freed, and is somebody else's. */
static bool is_name(const uint8_t *name, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (name[i] == 0 || name[i] >= 0xf0)
            return false;
    return true;
}

/* A symbol's text, as it is: Java's own UTF-8, in which 0 and what is beyond the basic plane are written
 * otherwise; 0 bytes: there is none. */
static size_t read_symbol(const struct source *memory, const struct hotspot_place *p, uint64_t symbol,
                          uint8_t *to)
{
    uint8_t piece[SYMBOL_READ];
    size_t got = symbol ? source_read_some(memory, symbol + p->symbol_length, piece, sizeof piece) : 0;
    if (got < sizeof(uint16_t))
        return 0;
    size_t n = min_of((size_t)half(piece, 0), (size_t)HOTSPOT_NAME_MAX),
           from = (size_t)p->symbol_body - p->symbol_length, have = from < got ? min_of(n, got - from) : 0;
    memcpy(to, piece + (have ? from : 0), have);
    return (have == n || source_read(memory, symbol + p->symbol_body + have, to + have, n - have)) &&
                   is_name(to, n)
               ? n
               : 0;
}

/* An entry of a pool that is a symbol's address. */
static size_t read_entry(const struct source *memory, const struct hotspot_place *p, uint64_t pool,
                         uint32_t index, uint8_t *to)
{
    uint64_t symbol;
    if (!index || !source_read(memory, pool + p->pool_size + 8 * (uint64_t)index, &symbol, sizeof symbol))
        return 0;
    return read_symbol(memory, p, symbol & ~(uint64_t)1, to);
}

/* "a/b/C$$Lambda$14+0x0000000800c03200" → "a.b.C$$Lambda$14": the address of a class that has no name of its
 * own is another one in each process. */
static size_t spell_class(uint8_t *name, size_t n)
{
    static const char address[] = "+0x";
    const uint8_t *end = memmem(name, n, address, sizeof address - 1);
    n = end && end > name ? (size_t)(end - name) : n;
    for (size_t i = 0; i < n; i++)
        if (name[i] == '/')
            name[i] = '.';
    return n;
}

/* What protobuf takes for text. */
static struct bytes keep(struct arena *text, uint8_t *p, size_t n)
{
    if (!bytes_is_utf8(bytes_of(p, n)))
        for (size_t i = 0; i < n; i++)
            p[i] = p[i] < 0x80 ? p[i] : '?';
    return arena_copy(text, bytes_of(p, n));
}

/* The line that a bytecode is of: of the last entry not behind it. */
static uint32_t find_line(struct numbers *s, uint32_t bci)
{
    uint32_t best = 0, line = 0;
    int64_t best_bci = -1, at = 0;
    int32_t step;
    for (int byte; (byte = cursor_next(&s->bytes)) > 0;) {
        if (byte == 0xff) {
            if (!numbers_signed(s, &step))
                break;
            at += step;
            if (!numbers_signed(s, &step))
                break;
            line += (uint32_t)step;
        } else {
            at += byte >> 3;
            line += (uint32_t)byte & 7;
        }
        if (at <= (int64_t)bci && at >= best_bci) {
            best = line;
            best_bci = at;
        }
    }
    return best;
}

static uint32_t source_of(const struct source *memory, const struct hotspot_place *p, uint64_t pool,
                          uint64_t holder)
{
    uint16_t index;
    uint64_t at = p->is_relative & HOTSPOT_SOURCE ? holder : pool;
    return source_read(memory, at + p->source_name, &index, sizeof index) ? index : 0;
}

bool hotspot_method_name(const struct source *memory, const struct hotspot_place *p, uint64_t method,
                         uint32_t bci, struct arena *text, struct runtime_name *ret)
{
    uint8_t code[CONST_READ + 8], name[2 * HOTSPOT_NAME_MAX + 1], file[HOTSPOT_NAME_MAX];
    uint64_t at, pool, holder, symbol;
    struct numbers lines;
    if (!source_read(memory, method + p->method_const, &at, sizeof at) ||
        !source_read(memory, at, code, CONST_READ))
        return false;
    pool = word(code, p->const_constants);
    if (!source_read(memory, pool + p->pool_holder, &holder, sizeof holder) ||
        !source_read(memory, holder + p->klass_name, &symbol, sizeof symbol))
        return false;
    size_t n = spell_class(name, read_symbol(memory, p, symbol, name));
    name[n] = '.';
    size_t n_method = read_entry(memory, p, pool, half(code, p->const_name), name + n + 1);
    if (n == 0 || n_method == 0)
        return false;
    size_t n_file = read_entry(memory, p, pool, source_of(memory, p, pool, holder), file);
    *ret = (struct runtime_name){.name = keep(text, name, n + 1 + n_method),
                                 .file = n_file ? keep(text, file, n_file) : BYTES_LIT("")};
    if (half(code, p->const_flags) & HAS_LINES) {
        numbers_begin(&lines, memory, at + p->const_size + half(code, p->const_code_size), LINES_MAX,
                      p->is_relative & HOTSPOT_BYTES);
        ret->line = find_line(&lines, bci);
    }
    return ret->name.p && ret->file.p;
}
