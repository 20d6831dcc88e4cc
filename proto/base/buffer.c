/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/buffer.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define FIRST_CAP 256u

bool buffer_is_short_of(const struct buffer *b, size_t more)
{
    return more > SIZE_MAX - b->n || (b->max > 0 && b->n + more > b->max);
}

int buffer_reserve(struct buffer *b, size_t more)
{
    if (buffer_is_short_of(b, more))
        return -ENOBUFS;
    size_t need = b->n + more;
    if (need <= b->cap && b->p) /* afterwards p is never NULL, so that p + n is always a pointer */
        return 0;
    size_t cap = b->cap ? b->cap : FIRST_CAP;
    while (cap < need && cap <= SIZE_MAX / 2)
        cap *= 2;
    if (cap < need)
        cap = need;
    if (b->max > 0 && cap > b->max)
        cap = b->max;
    uint8_t *p = realloc(b->p, cap);
    if (!p)
        return -ENOMEM;
    b->p = p;
    b->cap = cap;
    return 0;
}

uint8_t *buffer_cursor(struct buffer *b, size_t more)
{
    return buffer_reserve(b, more) < 0 ? NULL : b->p + b->n;
}

int buffer_add_more(struct buffer *b, const void *p, size_t n)
{
    if (n == 0)
        return 0;
    int r = buffer_reserve(b, n);
    if (r < 0)
        return r;
    memcpy(b->p + b->n, p, n);
    b->n += n;
    return 0;
}

int buffer_printf(struct buffer *b, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    int r = n < 0 ? -EINVAL : buffer_reserve(b, (size_t)n + 1); /* vsnprintf writes a NUL behind the text */
    if (r == 0) {
        vsnprintf((char *)b->p + b->n, (size_t)n + 1, format, again);
        b->n += (size_t)n;
    }
    va_end(again);
    return r;
}

int buffer_add_hex(struct buffer *b, struct bytes bytes)
{
    uint8_t *to = bytes.n > SIZE_MAX / 4 ? NULL : buffer_cursor(b, 2 * bytes.n);
    if (!to)
        return buffer_is_short_of(b, 2 * bytes.n) ? -ENOBUFS : -ENOMEM;
    bytes_to_hex(bytes, to);
    b->n += 2 * bytes.n;
    return 0;
}

int buffer_add_percent(struct buffer *b, const char *text, const char *also)
{
    const size_t before = b->n;
    int r = 0;
    for (const uint8_t *c = (const uint8_t *)text; *c && r == 0; c++) {
        const bool is_plain = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') ||
                              (*c >= '0' && *c <= '9') || strchr("-._~", *c) || strchr(also, *c);
        r = is_plain ? buffer_add(b, c, 1) : buffer_printf(b, "%%%02X", *c);
    }
    if (r < 0)
        b->n = before;
    return r;
}

int buffer_add_utf8(struct buffer *b, struct bytes text)
{
    if (bytes_is_utf8(text))
        return buffer_add_bytes(b, text);
    size_t before = b->n;
    for (size_t i = 0; i < text.n;) {
        size_t n = bytes_utf8_length(bytes_of(text.p + i, text.n - i));
        int r = n > 0 ? buffer_add(b, text.p + i, n) : buffer_add_str(b, BYTES_REPLACEMENT);
        if (r < 0) {
            b->n = before;
            return r;
        }
        i += n > 0 ? n : 1;
    }
    return 0;
}

void buffer_consume(struct buffer *b, size_t n)
{
    if (n < b->n)
        memmove(b->p, b->p + n, b->n - n);
    b->n -= n;
}

void buffer_clear(struct buffer *b, size_t keep_max)
{
    if (b->cap > keep_max)
        buffer_release(b);
    b->n = 0;
}

void buffer_release(struct buffer *b)
{
    free(b->p);
    b->p = NULL;
    b->n = b->cap = 0;
}

uint8_t *buffer_take(struct buffer *b, size_t *ret_n)
{
    uint8_t *p = b->p;
    *ret_n = b->n;
    b->p = NULL;
    b->n = b->cap = 0;
    return p;
}
