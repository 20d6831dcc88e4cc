/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A code object is freed with its function, and another one may get its memory: so what tells it from others
 * is compared with the word before anything is read by it, and again when all was.
 */
#include "sender/runtimes/cpython/code.h"

#include <string.h>

#include "proto/base/macros.h"
#include "sender/runtimes/cpython/lines.h"

/* PyASCIIObject, the same in all versions: length, hash, state; and PyVarObject's ob_size, PyBytesObject's
 * ob_sval. */
#define STRING_LENGTH_AT 16u
#define STRING_STATE_AT  32u
#define BYTES_SIZE_AT    16u
#define BYTES_AT         32u
/* Bits of `state`. */
#define STATE_KIND(state) ((state) >> 2 & 7)
#define STATE_COMPACT     0x20u
#define STATE_ASCII       0x40u

/* A string, as UTF-8; .p NULL: there is none. Python's may have lone surrogates (names of files that are not
 * UTF-8, by PEP 383), which no UTF-8 has, and memory may hold anything. */
static struct bytes read_string(const struct source *memory, const struct cpython_place *place, uint64_t at,
                                struct arena *text)
{
    uint64_t head[3]; /* length, hash, state */
    uint8_t raw[4 * CPYTHON_NAME_MAX], utf8[4 * CPYTHON_NAME_MAX];
    if (!source_read(memory, at + STRING_LENGTH_AT, head, sizeof head))
        return bytes_of(NULL, 0);
    _Static_assert(STRING_STATE_AT == STRING_LENGTH_AT + 2 * sizeof *head, "one behind the other");
    uint32_t state = (uint32_t)head[2], kind = STATE_KIND(state);
    size_t n = (size_t)min_of(head[0], (uint64_t)CPYTHON_NAME_MAX), n_utf8 = 0;
    if (!(state & STATE_COMPACT) || (kind != 1 && kind != 2 && kind != 4) ||
        !source_read(memory, at + (state & STATE_ASCII ? place->ascii : place->wide), raw, n * kind))
        return bytes_of(NULL, 0);
    for (size_t i = 0; i < n; i++) {
        uint32_t c = 0;
        memcpy(&c, raw + i * kind, kind);
        n_utf8 += bytes_put_utf8(utf8 + n_utf8, c);
    }
    return arena_copy(text, bytes_of(utf8, n_utf8));
}

/* An object's head: how many refer to it, and its type. Of one that is freed the first is 0, or a pointer of
 * who manages memory, or the second is. What is above 32 bits is not used, but for flags from 3.14 on. */
#define HEAD_WORDS       2u
#define REFERENCES(head) ((uint32_t)(head)[0])
#define IS_POINTER(head) (((head)[0] >> 32 & 0xffff) != 0)

/* Whether it is the word's code object that is there: of one that has a number for itself that number, and
 * that it is alive. */
static bool is_it(const struct source *memory, const struct cpython_place *place,
                  const struct sample_frame *word)
{
    uint64_t cookie[CPYTHON_COOKIE_WORDS], head[HEAD_WORDS], name_hash = 0;
    uint32_t version = 0;
    if (place->version &&
        (!source_read(memory, word->where + place->version, &version, sizeof version) || version))
        return version == word->file && source_read(memory, word->where, head, sizeof head) &&
               head[1] == place->code_type && REFERENCES(head) && !IS_POINTER(head);
    return source_read(memory, word->where + place->cookie, cookie, sizeof cookie) &&
           source_read(memory, cookie[place->hashed & 1] + CPYTHON_STRING_HASH, &name_hash,
                       sizeof name_hash) &&
           CPYTHON_COOKIE(cookie, name_hash) == word->file;
}

bool cpython_code_name(const struct source *memory, const struct cpython_place *place,
                       const struct sample_frame *word, struct arena *text, struct runtime_name *ret)
{
    uint64_t name, file, lines, n_lines;
    uint32_t first;
    if (!is_it(memory, place, word) || !runtime_load(memory, word->where + place->name, &name) ||
        !runtime_load(memory, word->where + place->file_name, &file) ||
        !runtime_load(memory, word->where + place->lines, &lines) ||
        !source_read(memory, word->where + place->first, &first, sizeof first))
        return false;
    struct runtime_name is = {.name = read_string(memory, place, name, text),
                              .file = read_string(memory, place, file, text),
                              .line = first};
    if (!is.name.n)
        return false;
    if (!is.file.p)
        is.file = BYTES_LIT("");
    if (word->extra != CPYTHON_NO_INSTRUCTION && runtime_load(memory, lines + BYTES_SIZE_AT, &n_lines))
        is.line = cpython_line(memory, lines + BYTES_AT, n_lines, place->minor, first, word->extra);
    if (!is_it(memory, place, word))
        return false;
    *ret = is;
    return true;
}
