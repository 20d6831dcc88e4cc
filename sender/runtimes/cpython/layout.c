/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/runtimes/cpython/layout.h"
#include "sender/runtimes/runtime.h"

#include <string.h>

/* Up to 3.10 there is a frame (PyFrameObject) a call; f_lasti counts bytes up to 3.9. */
#define FRAME_OBJECTS                                                                                     \
    .thread_id = 176, .segment = CPYTHON_ONE, .thread_frame = 24, .from = 24, .previous = 24, .code = 32, \
    .first = 40, .file_name = 104, .name = 112, .lines = 120, .ascii = 48, .wide = 72

/* Offsets in structures of 64-bit builds, as the headers of each version have them. */
static const struct cpython_place tables[] = {
    {FRAME_OBJECTS, .minor = 8, .key = 1392, .current = 1368, .at = 104, .at_shift = 1},
    {FRAME_OBJECTS, .minor = 9, .key = 584, .current = 568, .at = 104, .at_shift = 1},
    {FRAME_OBJECTS, .minor = 10, .key = 584, .current = 568, .interpreters = 32, .states = 8, .on_stack = 48,
     .at = 96},
    /* _PyInterpreterFrame; `name` is co_qualname from here on, which lies behind co_name. `owner` is
       is_entry. */
    {.minor = 11,
     .key = 592,
     .current = 576,
     .interpreters = 40,
     .states = 16,
     .on_stack = 56,
     .segment = CPYTHON_MARKED,
     .thread_frame = 56,
     .has_cframe = 1,
     .cframe = 8,
     .code = 32,
     .previous = 48,
     .at = 56,
     .owner = 68,
     .code_start = 184,
     .first = 72,
     .file_name = 112,
     .name = 128,
     .lines = 136,
     .ascii = 48,
     .wide = 72},
    {.minor = 12,
     .key = 1544,
     .segment = CPYTHON_SHIM,
     .thread_frame = 56,
     .has_cframe = 1,
     .cframe = 0,
     .code = 0,
     .previous = 8,
     .at = 56,
     .owner = 70,
     .code_start = 192,
     .first = 68,
     .file_name = 112,
     .name = 128,
     .lines = 136,
     .ascii = 40,
     .wide = 56},
};

/* Which words of _Py_DebugOffsets say what, and what it does not say. */
static const struct described {
    uint32_t minor, words;
    uint16_t key;
    uint16_t thread_frame, previous, code, at, owner;
    uint16_t file_name, name, lines, first, code_start, ascii;
} described[] = {
    {13, 73, 2160, 23, 29, 30, 31, 33, 35, 37, 38, 39, 43, 70},
    {14, 83, 2336, 26, 32, 33, 34, 36, 40, 42, 43, 44, 48, 80},
};
#define WORDS_MAX     83u
#define FREE_THREADED 2u
#define OFFSET_MAX    4096u
#define WIDE_BEHIND   16u /* PyCompactUnicodeObject: utf8_length, utf8 */
/* PyCodeObject: co_firstlineno, numbers of locals and of cells, the frame's size, co_version. */
#define VERSION_BEHIND 24u

static int by_description(struct cpython_place *ret, const struct described *d, const struct source *memory,
                          uint64_t runtime)
{
    uint64_t word[WORDS_MAX];
    if (!source_read(memory, runtime, word, d->words * sizeof *word) || memcmp(word, "xdebugpy", 8) != 0 ||
        word[FREE_THREADED] != 0)
        return RUNTIME_NOT_KNOWN;
    *ret = (struct cpython_place){.minor = (uint16_t)d->minor, .key = d->key, .segment = CPYTHON_SHIM};
    const struct {
        uint16_t *to, from;
    } fields[] = {
        {&ret->thread_frame, d->thread_frame},
        {&ret->previous, d->previous},
        {&ret->code, d->code},
        {&ret->at, d->at},
        {&ret->owner, d->owner},
        {&ret->file_name, d->file_name},
        {&ret->name, d->name},
        {&ret->lines, d->lines},
        {&ret->first, d->first},
        {&ret->code_start, d->code_start},
        {&ret->ascii, d->ascii},
    };
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        if (word[fields[i].from] >= OFFSET_MAX)
            return RUNTIME_NOT_KNOWN;
        *fields[i].to = (uint16_t)word[fields[i].from];
    }
    ret->wide = ret->ascii + WIDE_BEHIND;
    return 0;
}

int cpython_layout(struct cpython_place *ret, uint32_t minor, const struct source *memory, uint64_t runtime)
{
    int r = RUNTIME_NOT_KNOWN;
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        if (tables[i].minor == minor) {
            *ret = tables[i];
            r = 0;
        }
    for (size_t i = 0; i < sizeof described / sizeof *described; i++)
        if (described[i].minor == minor)
            r = by_description(ret, &described[i], memory, runtime);
    if (r != 0)
        return r;
    /* Relative to what is read of a frame, all of which must be in that. */
    uint16_t *const in_frame[] = {&ret->code, &ret->previous, &ret->at, &ret->owner};
    for (size_t i = 0; i < sizeof in_frame / sizeof *in_frame; i++) {
        if (*in_frame[i] < ret->from)
            *in_frame[i] = ret->from; /* there is none: `owner` of one that has no mark */
        *in_frame[i] -= ret->from;
        if (*in_frame[i] >= 8 * CPYTHON_FRAME_WORDS)
            return RUNTIME_NOT_KNOWN;
    }
    ret->cookie = (uint16_t)(ret->lines - 8 * (CPYTHON_COOKIE_WORDS - 1));
    ret->hashed = minor <= 10; /* from 3.11 on `name` is behind co_name */
    if (minor >= 12)
        ret->version = ret->first + VERSION_BEHIND;
    return 0;
}
