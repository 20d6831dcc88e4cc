/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/source/report.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "proto/base/macros.h"
#include "rules/source/place.h"
#include "rules/tree/limits.h"

/* A diagnostic is a few lines; a source line is shown through a window of this many bytes. */
#define LINE_WINDOW    160u
#define WINDOW_LEAD    40u
#define TEXT_MAX       (16u << 10)
#define ERROR_LINE_MAX 1024u

/* What would make the diagnostic too long is left out of it. */
static void put(struct report *r, const void *p, size_t n)
{
    if (n <= r->text.max - r->text.n && buffer_add(&r->text, p, n) < 0)
        r->oom = true;
}

static void __attribute__((format(printf, 2, 0))) add_v(struct report *r, const char *format, va_list args)
{
    char *line = NULL;
    int n = vasprintf(&line, format, args);
    if (n < 0) {
        r->oom = true;
        return;
    }
    put(r, line, (size_t)n);
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
        put(r, &c, 1);
    }
}

static void add_source(struct report *r, struct rule_place place)
{
    struct bytes line = source_line(r->files[place.file].text, place.line);
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
        r->out->n_errors++; /* also of one that is dropped */
    r->out->n_untold += warning && count[place.file] > RULES_ERRORS_MAX;
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

void report_meant(struct report *r, struct bytes best)
{
    if (best.n > 0)
        report_side(r, "did you mean `%.*s`?", BYTES_FMT(best));
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
    if (rules_diagnostics_add(r->out, &r->item) < 0) {
        free(text);
        r->oom = true;
    }
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
    return order_of(x->place.file, y->place.file) ?: order_of(x->place.line, y->place.line)
               ?: order_of(x->place.column, y->place.column) ?: strcmp(x->text, y->text);
}

void report_finish(struct report *r)
{
    if (r->out->n > 1)
        qsort(r->out->items, r->out->n, sizeof *r->out->items, by_place);
    buffer_release(&r->text);
}
