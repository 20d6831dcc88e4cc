/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/top/line.h"

#include <stdarg.h>
#include <stdio.h>
#include <wchar.h>

#include "proto/base/macros.h"

#define FOREIGN '?' /* instead of what may not be shown */

struct glyph {
    struct bytes text; /* as it is sent */
    uint32_t columns;
};

/* The next character of somebody's text, off its front. */
static struct glyph next_glyph(const struct line_style *style, struct bytes *rest)
{
    static const uint8_t foreign[] = {FOREIGN};
    uint32_t c;
    size_t n = bytes_shown(*rest, &c);
    struct glyph g = {bytes_of(rest->p, n), 1};
    int columns = c < 0x80 ? 1 : wcwidth((wchar_t)c);
    if (n == 0 || (style->ascii && c >= 0x80) || columns < 0)
        g.text = bytes_of(foreign, 1);
    else
        g.columns = (uint32_t)columns;
    size_t taken = max_of(n ? n : bytes_utf8_length(*rest), (size_t)1);
    *rest = bytes_of(rest->p + taken, rest->n - taken);
    return g;
}

uint32_t line_columns(const struct line_style *style, struct bytes text)
{
    uint32_t columns = 0;
    while (text.n > 0)
        columns += next_glyph(style, &text).columns;
    return columns;
}

static void put(struct line *l, struct bytes text, uint32_t columns)
{
    if (l->r == 0)
        l->r = buffer_add_bytes(&l->text, text);
    l->columns += columns;
}

static uint32_t room(const struct line *l)
{
    return l->style->width > l->columns ? l->style->width - l->columns : 0;
}

void line_add(struct line *l, struct bytes text, uint32_t most)
{
    most = min_of(most, room(l));
    const char *more = l->style->ascii ? "~" : "…";
    bool fits = line_columns(l->style, text) <= most;
    uint32_t left = fits || most == 0 ? most : most - 1;
    while (text.n > 0) {
        struct glyph g = next_glyph(l->style, &text);
        if (g.columns > left)
            break;
        put(l, g.text, g.columns);
        left -= g.columns;
    }
    if (!fits && most > 0)
        put(l, bytes_str(more), 1);
}

void line_printf(struct line *l, const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    struct bytes words = bytes_str(text);
    words.n = min_of(words.n, (size_t)room(l));
    put(l, words, (uint32_t)words.n);
}

void line_pad(struct line *l, uint32_t column)
{
    while (l->columns < min_of(column, l->style->width))
        put(l, BYTES_LIT(" "), 1);
}

void line_bar(struct line *l, uint32_t columns, double share)
{
    static const char *const eighth[] = {" ", "▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"};
    share = share > 0 ? min_of(share, 1.0) : 0;
    uint32_t left = (uint32_t)(share * columns * 8 + 0.5);
    for (uint32_t i = 0; i < columns && room(l) > 0; i++) {
        uint32_t part = min_of(left, 8u);
        left -= part;
        put(l, bytes_str(l->style->ascii ? (part >= 4 ? "#" : " ") : eighth[part]), 1);
    }
}

void line_look(struct line *l, const char *sgr)
{
    if (l->style->color && l->r == 0)
        l->r = buffer_printf(&l->text, "\x1b[%sm", sgr);
}

void line_plain(struct line *l)
{
    line_look(l, "0");
}

void line_end(struct line *l)
{
    while (l->text.n > 0 && l->text.p[l->text.n - 1] == ' ')
        l->text.n--;
    line_plain(l);
    put(l, BYTES_LIT("\n"), 0);
    if (l->r == 0)
        l->r = buffer_add_bytes(l->out, buffer_bytes(&l->text));
    l->text.n = 0;
    l->columns = 0;
}

void line_release(struct line *l)
{
    buffer_release(&l->text);
}
