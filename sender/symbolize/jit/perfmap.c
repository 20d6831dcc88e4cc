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

/* Takes a line that begins at `at` of the file. */
static void take(struct bytes line, uint64_t at, struct perfmap_answer *answers, uint32_t n)
{
    const uint8_t *begin = line.p;
    uint64_t start, size;
    if (!hex(&line, &start) || !hex(&line, &size) || start + size < start)
        return;
    uint32_t i = lower_bound(answers, n, start);
    if (i == n || answers[i].address >= start + size)
        return;
    line = bytes_trim(line);
    for (; i < n && answers[i].address < start + size; i++) {
        answers[i].name_at = at + (uint64_t)(line.p - begin);
        answers[i].name_n = (uint32_t)line.n;
    }
}

/* Reads the names: of each only the one that counts, however many lines were before it. */
static int read_names(const struct source *s, struct perfmap_answer *answers, uint32_t n, struct arena *names)
{
    for (uint32_t i = 0; i < n; i++) {
        struct perfmap_answer *a = &answers[i];
        if (a->name_n == 0)
            continue;
        if (i > 0 && a[-1].name_n && a[-1].name_at == a->name_at) {
            a->name = a[-1].name;
            continue;
        }
        uint8_t *text = arena_alloc(names, a->name_n);
        if (!text)
            return -ENOMEM;
        if (source_read(s, a->name_at, text, a->name_n))
            a->name = bytes_of(text, a->name_n);
    }
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
    for (uint32_t i = 0; i < n; i++)
        answers[i] = (struct perfmap_answer){.address = answers[i].address};
    for (size_t got; (got = source_read_some(s, at, text + filled, CHUNK - filled)) > 0;) {
        uint64_t begin = at - filled; /* of the text, in the file */
        at += got;
        filled += got;
        size_t done = 0;
        allowance_charge(s->allowance, PERFMAP_WORK * (int64_t)got);
        for (uint8_t *end; (end = memchr(text + done, '\n', filled - done));
             done = (size_t)(end - text) + 1) {
            struct bytes line =
                bytes_of(text + done, min_of((size_t)(end - text) - done, (size_t)PERFMAP_LINE_MAX));
            if (!skipping)
                take(line, begin + done, answers, n);
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
    int r = read_names(s, answers, n, names);
    if (!allowance_is_spent(s->allowance))
        return r;
    for (uint32_t i = 0; i < n; i++) /* what stands behind where it ended may say something else */
        answers[i].name = bytes_of(NULL, 0);
    return -EDQUOT;
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
