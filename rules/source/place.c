/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/source/place.h"

#include <string.h>

#include "proto/base/macros.h"

struct bytes source_line(struct bytes text, uint32_t line)
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

struct rule_place place_join(const struct rule_file *file, struct rule_place a, struct rule_place b)
{
    struct rule_place place = a;
    if (b.line == a.line && b.column + b.length > a.column) {
        place.length = b.column + b.length - a.column;
    } else {
        struct bytes line = source_line(file->text, a.line);
        place.length = line.n >= a.column ? (uint32_t)(line.n - a.column + 1) : 1;
    }
    return place;
}

struct bytes place_source(const struct rule_file *file, struct rule_place place)
{
    struct bytes line = source_line(file->text, place.line);
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
