/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A growing byte buffer with a hard maximum.
 */
#ifndef PROTO_BASE_BUFFER_H
#define PROTO_BASE_BUFFER_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "proto/base/bytes.h"
#include "proto/base/macros.h"

struct buffer {
    uint8_t *p;
    size_t n;   /* bytes filled */
    size_t cap; /* bytes allocated */
    size_t max; /* never grows past this; 0 means no maximum of its own */
};

#define BUFFER_INIT(max_) \
    {                     \
        .max = (max_)     \
    }

/* Whether `more` bytes behind the n filled ones would pass the maximum. */
bool buffer_is_short_of(const struct buffer *b, size_t more);

/* Makes room for `more` bytes behind the n filled ones. 0, -ENOMEM, or -ENOBUFS when that would pass the
 * maximum. */
int buffer_reserve(struct buffer *b, size_t more);

/* The same, and the write position: fill at most `more` bytes there, then say b->n += written. NULL when
 * refused. */
uint8_t *buffer_cursor(struct buffer *b, size_t more);

/* Appends. 0, -ENOMEM or -ENOBUFS; on failure nothing is added. Inline, because texts are made of many small
 * parts for which there mostly is room. */
int buffer_add_more(struct buffer *b, const void *p, size_t n);
static inline int buffer_add(struct buffer *b, const void *p, size_t n)
{
    if (unlikely(n == 0 || n > b->cap - b->n || (b->max > 0 && n > b->max - b->n)))
        return buffer_add_more(b, p, n);
    memcpy(b->p + b->n, p, n);
    b->n += n;
    return 0;
}
static inline int buffer_add_bytes(struct buffer *b, struct bytes s)
{
    return buffer_add(b, s.p, s.n);
}
static inline int buffer_add_str(struct buffer *b, const char *s)
{
    return buffer_add(b, s, strlen(s));
}
int buffer_printf(struct buffer *b, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Appends bytes as text: two lower-case hexadecimal digits each. Otherwise as buffer_add. */
int buffer_add_hex(struct buffer *b, struct bytes bytes);

/* Appends text for a URI or a form (RFC 3986 section 2): what is no letter, no digit, none of -._~ and none
 * of `also` is %XX. Otherwise as buffer_add. */
int buffer_add_percent(struct buffer *b, const char *text, const char *also);

/* Appends text as UTF-8: each byte that is none becomes U+FFFD. Otherwise as buffer_add. */
int buffer_add_utf8(struct buffer *b, struct bytes text);

/* Removes n bytes from the front (n <= b->n). */
void buffer_consume(struct buffer *b, size_t n);

/* Empties it and keeps the memory, unless more than keep_max is held. */
void buffer_clear(struct buffer *b, size_t keep_max);

/* Frees the memory; the buffer may be used again. */
void buffer_release(struct buffer *b);

/* Takes the memory out, the caller's to free; NULL when there is none. */
uint8_t *buffer_take(struct buffer *b, size_t *ret_n);

static inline struct bytes buffer_bytes(const struct buffer *b)
{
    return bytes_of(b->p, b->n);
}

#endif
