/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/arrow/column.h"

#include <endian.h>
#include <string.h>

uint32_t arrow_child(const struct arrow_stream *s, uint32_t parent, uint32_t after)
{
    const uint32_t i = after ? s->columns[after].end : parent + 1;
    return i < s->columns[parent].end ? i : 0;
}

uint32_t arrow_find(const struct arrow_stream *s, uint32_t parent, const char *name)
{
    for (uint32_t i = arrow_child(s, parent, 0); i; i = arrow_child(s, parent, i))
        if (bytes_is(s->columns[i].name, name))
            return i;
    return 0;
}

bool arrow_is_null(const struct arrow_column *c, uint64_t i)
{
    return i >= c->n || c->kind == ARROW_NOTHING ||
           (c->valid.n > 0 && (i / 8 >= c->valid.n || !(c->valid.p[i / 8] >> i % 8 & 1)));
}

/* The i-th number of `width` bytes. False: it is not there. */
static bool take(struct bytes data, uint64_t i, unsigned width, bool is_unsigned, int64_t *ret)
{
    uint64_t v = 0;
    if (width == 0 || i >= data.n / width)
        return false;
    memcpy(&v, data.p + i * width, width);
    const unsigned above = 64 - 8 * width;
    v = le64toh(v);
    *ret = is_unsigned ? (int64_t)v : (int64_t)(v << above) >> above;
    return true;
}

bool arrow_number(const struct arrow_column *c, uint64_t i, int64_t *ret)
{
    return c->kind == ARROW_INTEGER && !arrow_is_null(c, i) &&
           take(c->data, i, c->width, c->is_unsigned, ret);
}

static struct bytes part_of(struct bytes whole, int64_t from, int64_t n)
{
    if (from < 0 || n < 0 || (uint64_t)from > whole.n || (uint64_t)n > whole.n - (uint64_t)from)
        return (struct bytes){0};
    return bytes_of(whole.n ? whole.p + from : (const uint8_t *)"", (size_t)n);
}

#define VIEW_BYTES  16u
#define VIEW_INLINE 12

/* A length; up to twelve bytes as they are, or four of them, the buffer's number and where in it. */
static struct bytes view_of(const struct arrow_column *c, uint64_t i)
{
    int64_t n, buffer, at;
    if (i >= c->data.n / VIEW_BYTES)
        return (struct bytes){0};
    const struct bytes view = bytes_of(c->data.p + i * VIEW_BYTES, VIEW_BYTES);
    (void)take(view, 0, 4, false, &n);
    if (n <= VIEW_INLINE)
        return part_of(bytes_from(view, 4), 0, n);
    (void)take(view, 2, 4, false, &buffer);
    (void)take(view, 3, 4, false, &at);
    return buffer >= 0 && buffer < c->n_buffers ? part_of(c->buffers[buffer], at, n) : (struct bytes){0};
}

struct bytes arrow_bytes(const struct arrow_stream *s, uint32_t column, uint64_t i)
{
    const struct arrow_column *c = &s->columns[column];
    int64_t from, to;
    if (c->dictionary) {
        if (!arrow_number(c, i, &from) || from < 0)
            return (struct bytes){0};
        i = (uint64_t)from;
        c = &s->columns[c->dictionary];
    }
    if (arrow_is_null(c, i))
        return (struct bytes){0};
    if (c->kind == ARROW_VIEWS)
        return view_of(c, i);
    if (c->kind == ARROW_FIXED)
        return part_of(c->data, (int64_t)i * c->width, c->width);
    if (c->kind != ARROW_BYTES || !take(c->data, i, c->width, false, &from) ||
        !take(c->data, i + 1, c->width, false, &to) || from < 0 || to < from)
        return (struct bytes){0};
    return part_of(c->extra, from, to - from);
}

bool arrow_list(const struct arrow_stream *s, uint32_t column, uint64_t i, uint64_t *ret_from,
                uint64_t *ret_n)
{
    const struct arrow_column *c = &s->columns[column];
    const uint32_t child = arrow_child(s, column, 0);
    int64_t from, n;
    if (arrow_is_null(c, i) || !child || !take(c->data, i, c->width, false, &from) || from < 0)
        return false;
    if (c->kind == ARROW_LIST_VIEW) {
        if (!take(c->extra, i, c->width, false, &n))
            return false;
    } else if (c->kind != ARROW_LIST || !take(c->data, i + 1, c->width, false, &n) ||
               __builtin_sub_overflow(n, from, &n)) {
        return false;
    }
    *ret_from = n == 0 ? 0 : (uint64_t)from; /* an empty one may be said to be anywhere */
    *ret_n = (uint64_t)n;
    return n >= 0 && (n == 0 || ((uint64_t)from < s->columns[child].n &&
                                 (uint64_t)n <= s->columns[child].n - (uint64_t)from));
}

struct arrow_cursor arrow_cursor(const struct arrow_stream *s, uint32_t column)
{
    struct arrow_cursor cursor = {.column = column};
    if (column && s->columns[column].kind == ARROW_RUNS) {
        cursor.ends = arrow_child(s, column, 0);
        cursor.column = cursor.ends ? arrow_child(s, column, cursor.ends) : 0;
        int64_t end = 0;
        if (cursor.ends && arrow_number(&s->columns[cursor.ends], 0, &end) && end > 0)
            cursor.end = (uint64_t)end;
    } else {
        cursor.end = column ? 0 : UINT64_MAX;
    }
    return cursor;
}

bool arrow_seek(const struct arrow_stream *s, struct arrow_cursor *cursor, uint64_t i, uint64_t *ret)
{
    if (!cursor->ends) {
        *ret = i;
        cursor->end = cursor->column ? i + 1 : UINT64_MAX;
        return true;
    }
    while (i >= cursor->end) {
        int64_t end;
        if (!arrow_number(&s->columns[cursor->ends], cursor->run + 1, &end) || end < 0 ||
            (uint64_t)end <= cursor->end)
            return false;
        cursor->run++;
        cursor->end = (uint64_t)end;
    }
    *ret = cursor->run;
    return true;
}
