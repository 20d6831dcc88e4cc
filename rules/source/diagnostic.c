/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/source/diagnostic.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "proto/base/macros.h"

/* A diagnostic is a few lines; a source line is shown through a window of this many bytes. */
#define LINE_WINDOW 160u
#define WINDOW_LEAD 40u
#define DISTANCE_MAX \
    64u /* names longer than this are not compared: nobody's typing is being corrected there */
#define TEXT_MAX       (16u << 10)
#define ERROR_LINE_MAX 1024u

static void __attribute__((format(printf, 2, 0))) add_v(struct report *r, const char *format, va_list args)
{
    char *line = NULL;
    int n = vasprintf(&line, format, args);
    if (n < 0 || buffer_add(&r->text, line, (size_t)n) == -ENOMEM)
        r->oom = true;
    if (n >= 0)
        free(line);
}

static void __attribute__((format(printf, 2, 3))) add(struct report *r, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    add_v(r, format, args);
    va_end(args);
}

/* Control bytes would move the reader's cursor; a tab stays, so that the caret line can have the same one. */
static void add_visible(struct report *r, struct bytes s)
{
    for (size_t i = 0; i < s.n; i++) {
        uint8_t c = s.p[i];
        if ((c < 0x20 && c != '\t') || c == 0x7f)
            c = '?';
        if (buffer_add(&r->text, &c, 1) == -ENOMEM)
            r->oom = true;
    }
}

static struct bytes line_of(struct bytes text, uint32_t line)
{
    const uint8_t *p = text.p, *end = text.p + text.n;
    for (uint32_t i = 1; i < line && p < end; i++) {
        const uint8_t *nl = memchr(p, '\n', (size_t)(end - p));
        p = nl ? nl + 1 : end;
    }
    const uint8_t *nl = p < end ? memchr(p, '\n', (size_t)(end - p)) : NULL;
    if (!nl)
        nl = end;
    if (nl > p && nl[-1] == '\r')
        nl--;
    return bytes_of(p, (size_t)(nl - p));
}

static void add_source(struct report *r, struct rule_place place)
{
    struct bytes line = line_of(r->files[place.file].text, place.line);
    size_t column = min_of((size_t)(place.column - 1), line.n), from = 0;
    size_t length = min_of((size_t)place.length, line.n - column);
    if (length == 0)
        length = 1;
    if (line.n > LINE_WINDOW && column > WINDOW_LEAD)
        from = column - WINDOW_LEAD;
    /* Not through the middle of a UTF-8 character. */
    while (from > 0 && from < column && (line.p[from] & 0xc0) == 0x80)
        from++;
    size_t shown = min_of(line.n - from, (size_t)LINE_WINDOW);
    while (from + shown < line.n && (line.p[from + shown] & 0xc0) == 0x80)
        shown++;
    const char *left = from > 0 ? "…" : "", *right = from + shown < line.n ? "…" : "";
    add(r, "%4u | %s", place.line, left);
    add_visible(r, bytes_of(line.p + from, shown));
    add(r, "%s\n     | %s", right, from > 0 ? " " : "");
    for (size_t i = from; i < column; i++)
        add(r, "%s", line.p[i] == '\t' ? "\t" : (line.p[i] & 0xc0) == 0x80 ? "" : " ");
    size_t room = from + shown > column ? from + shown - column : 1;
    length = min_of(length, room);
    for (size_t i = 0; i < length; i++) {
        if (column + i >= line.n || (line.p[column + i] & 0xc0) != 0x80)
            add(r, "^");
    }
}

void report_at(struct report *r, const char *code, struct rule_place place, const char *format, ...)
{
    bool warning = code[0] == 'W';
    uint32_t *count = warning ? r->warnings : r->errors;
    r->open = count[place.file]++ < RULES_ERRORS_MAX && !r->oom;
    if (!warning)
        r->out->n_errors++;
    if (!r->open)
        return;
    r->item = (struct rules_diagnostic){.warning = warning, .place = place};
    snprintf(r->item.code, sizeof r->item.code, "%s", code);
    buffer_clear(&r->text, TEXT_MAX);
    r->text.max = TEXT_MAX;
    struct bytes name = r->files[place.file].name;
    add(r, "%s %.*s:%u:%u: ", code, BYTES_FMT(name), place.line, place.column);
    va_list args;
    va_start(args, format);
    add_v(r, format, args);
    va_end(args);
    add(r, "\n");
    add_source(r, place);
}

void report_side(struct report *r, const char *format, ...)
{
    if (!r->open)
        return;
    add(r, "  ");
    va_list args;
    va_start(args, format);
    add_v(r, format, args);
    va_end(args);
}

void report_propose(struct report *r, const char *format, ...)
{
    if (!r->open)
        return;
    add(r, "\n     = ");
    va_list args;
    va_start(args, format);
    add_v(r, format, args);
    va_end(args);
}

void report_done(struct report *r)
{
    if (!r->open)
        return;
    r->open = false;
    add(r, "\n");
    struct rules_diagnostics *out = r->out;
    if (out->n == r->cap) {
        uint32_t cap = r->cap ? r->cap * 2 : 16;
        struct rules_diagnostic *items = realloc(out->items, cap * sizeof *items);
        if (!items) {
            r->oom = true;
            return;
        }
        out->items = items;
        r->cap = cap;
    }
    /* One block: the text, its NUL, the file's name, its NUL. */
    struct bytes file = r->files[r->item.place.file].name;
    char *text = malloc(r->text.n + file.n + 2);
    if (!text) {
        r->oom = true;
        return;
    }
    memcpy(text, r->text.p, r->text.n);
    text[r->text.n] = '\0';
    char *name = text + r->text.n + 1;
    memcpy(name, file.p, file.n);
    name[file.n] = '\0';
    r->item.text = text;
    r->item.file = name;
    out->items[out->n++] = r->item;
}

void report_plain(struct report *r, const char *code, struct rule_place place, const char *proposal,
                  const char *format, ...)
{
    char message[ERROR_LINE_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    report_at(r, code, place, "%s", message);
    if (proposal)
        report_propose(r, "%s", proposal);
    report_done(r);
}

static int by_place(const void *a, const void *b)
{
    const struct rules_diagnostic *x = a, *y = b;
    if (x->place.file != y->place.file)
        return x->place.file < y->place.file ? -1 : 1;
    if (x->place.line != y->place.line)
        return x->place.line < y->place.line ? -1 : 1;
    if (x->place.column != y->place.column)
        return x->place.column < y->place.column ? -1 : 1;
    return strcmp(x->text, y->text);
}

void report_finish(struct report *r)
{
    if (r->out->n > 1)
        qsort(r->out->items, r->out->n, sizeof *r->out->items, by_place);
    buffer_release(&r->text);
}

void rules_diagnostics_release(struct rules_diagnostics *d)
{
    for (uint32_t i = 0; i < d->n; i++)
        free(d->items[i].text);
    free(d->items);
    *d = (struct rules_diagnostics){0};
}

struct rule_place place_join(const struct rule_file *file, struct rule_place a, struct rule_place b)
{
    struct rule_place place = a;
    if (b.line == a.line && b.column + b.length > a.column) {
        place.length = b.column + b.length - a.column;
    } else {
        struct bytes line = line_of(file->text, a.line);
        place.length = line.n >= a.column ? (uint32_t)(line.n - a.column + 1) : 1;
    }
    return place;
}

struct bytes place_source(const struct rule_file *file, struct rule_place place)
{
    struct bytes line = line_of(file->text, place.line);
    size_t from = min_of((size_t)(place.column - 1), line.n);
    return bytes_of(line.p + from, min_of((size_t)place.length, line.n - from));
}

void source_fold(struct bytes source, struct buffer *out, size_t max)
{
    bool blank = false, comment = false;
    uint8_t quote = 0;
    size_t start = out->n;
    for (size_t i = 0; i < source.n && out->n - start < max; i++) {
        uint8_t c = source.p[i];
        if (comment) {
            comment = c != '\n';
            continue;
        }
        if (!quote && (c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '#')) {
            comment = c == '#';
            blank = true;
            continue;
        }
        if (quote && c == '\\' && i + 1 < source.n) {
            buffer_add(out, &source.p[i++], 1);
            c = source.p[i];
        } else if (quote ? c == quote : c == '"' || c == '/') {
            quote = quote ? 0 : c;
        }
        if (blank && out->n > start)
            buffer_add(out, " ", 1);
        blank = false;
        buffer_add(out, &c, 1);
    }
}

uint32_t edit_distance(struct bytes a, struct bytes b, uint32_t max)
{
    uint32_t row[3][DISTANCE_MAX + 1];
    if (a.n > DISTANCE_MAX || b.n > DISTANCE_MAX)
        return bytes_eq(a, b) ? 0 : max + 1;
    for (uint32_t j = 0; j <= b.n; j++)
        row[0][j] = j;
    for (uint32_t i = 1; i <= a.n; i++) {
        uint32_t *now = row[i % 3], *before = row[(i + 2) % 3], *two_before = row[(i + 1) % 3];
        now[0] = i;
        for (uint32_t j = 1; j <= b.n; j++) {
            uint32_t same = a.p[i - 1] == b.p[j - 1] ? 0 : 1;
            uint32_t one_more = min_of(now[j - 1], before[j]) + 1;
            now[j] = min_of(one_more, before[j - 1] + same);
            if (i > 1 && j > 1 && a.p[i - 1] == b.p[j - 2] && a.p[i - 2] == b.p[j - 1])
                now[j] = min_of(now[j], two_before[j - 2] + 1);
        }
    }
    return min_of(row[a.n % 3][b.n], max + 1);
}

void nearest_start(struct nearest *n, struct bytes written)
{
    /* A third of the letters may be wrong; a one-letter name is never somebody's misspelling. */
    *n = (struct nearest){.written = written, .max = written.n < 2 ? 0 : max_of((uint32_t)written.n / 3, 1u)};
    n->distance = n->max + 1;
}

bool nearest_offer(struct nearest *n, struct bytes candidate)
{
    uint32_t d = edit_distance(n->written, candidate, n->max);
    if (d >= n->distance)
        return false;
    n->distance = d;
    n->best = candidate;
    return true;
}
