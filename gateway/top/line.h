/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One line of a terminal: text of ours and of strangers by columns, never wider than the terminal. Names may
 * be anybody's (process names, functions): no control character of theirs reaches the terminal.
 */
#ifndef GATEWAY_TOP_LINE_H
#define GATEWAY_TOP_LINE_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/buffer.h"

/* What the terminal can show. */
struct line_style {
    uint32_t width; /* columns */
    bool color;     /* it may be sent escape codes */
    bool ascii;     /* its characters are not UTF-8 */
};

struct line {
    const struct line_style *style;
    struct buffer *out; /* where finished lines go */
    struct buffer text; /* of this one */
    uint32_t columns;   /* it takes so far */
    int r;              /* 0, or -ENOMEM: nothing more is written */
};

/* How many columns somebody's text takes, once it is fit to be shown. */
uint32_t line_columns(const struct line_style *style, struct bytes text);

/* Adds somebody's text, cut to `most` columns; where that takes something away the end says so. */
void line_add(struct line *l, struct bytes text, uint32_t most);

/* Adds words of ours, ASCII. */
void line_printf(struct line *l, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Blanks up to a column; at least none. */
void line_pad(struct line *l, uint32_t column);

/* A bar of so many columns, filled by a share of it. */
void line_bar(struct line *l, uint32_t columns, double share);

/* What follows looks so (SGR parameters, "1" is bold), until line_plain or the end of the line. */
void line_look(struct line *l, const char *sgr);
void line_plain(struct line *l);

/* Ends the line, and begins the next. */
void line_end(struct line *l);

void line_release(struct line *l);

#endif
