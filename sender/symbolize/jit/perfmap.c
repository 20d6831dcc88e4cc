/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/symbolize/jit/perfmap.h"

#include <errno.h>
#include <stdlib.h>

#include "proto/base/macros.h"

#define CHUNK (64u * 1024)

/* A hexadecimal number and the blank behind it. */
static bool hex(struct bytes *s, uint64_t *ret)
{
    static const int8_t digit_of[256] = {
        ['0'] = 1,  ['1'] = 2,  ['2'] = 3,  ['3'] = 4,  ['4'] = 5,  ['5'] = 6,  ['6'] = 7,  ['7'] = 8,
        ['8'] = 9,  ['9'] = 10, ['a'] = 11, ['b'] = 12, ['c'] = 13, ['d'] = 14, ['e'] = 15, ['f'] = 16,
        ['A'] = 11, ['B'] = 12, ['C'] = 13, ['D'] = 14, ['E'] = 15, ['F'] = 16,
    };
    size_t i = 0;
    uint64_t value = 0;
    if (s->n > 2 && s->p[0] == '0' && (s->p[1] == 'x' || s->p[1] == 'X'))
        i = 2; /* some writers put it */
    size_t begin = i;
    for (; i < s->n && digit_of[s->p[i]]; i++)
        value = value << 4 | (uint64_t)(digit_of[s->p[i]] - 1);
    if (i == begin || i - begin > 16 || i == s->n || s->p[i] != ' ')
        return false;
    *ret = value;
    *s = bytes_of(s->p + i + 1, s->n - i - 1);
    return true;
}

static uint32_t lower_bound(const struct perfmap_answer *answers, uint32_t n, uint64_t a)
{
    return first_where(n, i, answers[i].address >= a);
}

static int take(struct bytes line, struct perfmap_answer *answers, uint32_t n, struct arena *names)
{
    uint64_t start, size;
    if (!hex(&line, &start) || !hex(&line, &size) || start + size < start)
        return 0;
    uint32_t i = lower_bound(answers, n, start);
    if (i == n || answers[i].address >= start + size)
        return 0;
    line = bytes_trim(line);
    struct bytes name = line.n ? arena_copy(names, line) : bytes_of(NULL, 0);
    if (line.n && !name.p)
        return -ENOMEM;
    for (; i < n && answers[i].address < start + size; i++)
        answers[i].name = name;
    return 0;
}

int perfmap_search(const struct source *s, struct perfmap_answer *answers, uint32_t n, struct arena *names)
{
    autofree uint8_t *text = malloc(CHUNK);
    if (!text)
        return -ENOMEM;
    uint64_t at = s->size > PERFMAP_BYTES_MAX ? s->size - PERFMAP_BYTES_MAX : 0;
    size_t filled = 0;
    bool skipping = at > 0; /* inside a line whose beginning was not, or is not to be, taken */
    for (size_t got; (got = source_read_some(s, at, text + filled, CHUNK - filled)) > 0;) {
        at += got;
        filled += got;
        size_t done = 0;
        for (uint8_t *end; (end = memchr(text + done, '\n', filled - done));
             done = (size_t)(end - text) + 1) {
            struct bytes line =
                bytes_of(text + done, min_of((size_t)(end - text) - done, (size_t)PERFMAP_LINE_MAX));
            int r = skipping ? 0 : take(line, answers, n, names);
            if (r < 0)
                return r;
            skipping = false;
        }
        memmove(text, text + done, filled - done);
        filled -= done;
        if (filled == CHUNK) { /* a line longer than that is nobody's */
            skipping = true;
            filled = 0;
        }
    }
    /* The last line may be half written: without its newline it does not count. */
    return 0;
}

const char *perfmap_frame_type(struct bytes name)
{
    static const char *const v8[] = {"JS:", "LazyCompile:", "Function:", "Script:", "Eval:", "RegExp:"};
    for (size_t i = 0; i < ARRAY_LEN(v8); i++)
        if (bytes_starts(name, v8[i]))
            return "v8js";
    if (bytes_starts(name, "py::")) /* cpython, Objects/perf_trampoline.c */
        return "cpython";
    if (bytes_starts(name, "L") &&
        memmem(name.p, name.n, ";::", 3)) /* perf-map-agent, jcmd Compiler.perfmap */
        return "jvm";
    return "native";
}
