/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/http/http1_chunks.h"

#include <errno.h>

enum state {
    SIZE,      /* hexadecimal digits */
    EXTENSION, /* after ';' or blanks, up to CR */
    SIZE_LF,
    DATA,
    DATA_CR,
    DATA_LF,
    TRAILER,    /* at the start of a trailer line */
    TRAILER_IN, /* in one */
    TRAILER_LF,
    LAST_LF,
};

#define SIZE_DIGITS_MAX 15 /* so that a size fits in 60 bits and cannot wrap */

static int size_byte(struct http1_chunks *c, uint8_t b)
{
    int digit = bytes_hex_value(b);
    if (digit >= 0) {
        if (++c->digits > SIZE_DIGITS_MAX)
            return -EPROTO;
        c->left = c->left << 4 | (unsigned)digit;
        return 0;
    }
    if (c->digits == 0)
        return -EPROTO;
    c->state = b == '\r' ? SIZE_LF : EXTENSION;
    return b == '\r' || b == ';' || b == ' ' || b == '\t' ? 0 : -EPROTO;
}

/* One byte of what is not data. 0 or -EPROTO. */
static int frame_byte(struct http1_chunks *c, uint8_t b)
{
    switch (c->state) {
    case SIZE: return ++c->line > CHUNK_LINE_MAX ? -EPROTO : size_byte(c, b);
    case EXTENSION:
        if (b == '\r')
            c->state = SIZE_LF;
        else if ((b < 0x20 && b != '\t') || b == 0x7f || ++c->line > CHUNK_LINE_MAX ||
                 ++c->overhead > CHUNK_OVERHEAD)
            return -EPROTO;
        return 0;
    case SIZE_LF:
        c->state = c->left > 0 ? DATA : TRAILER;
        c->line = 0;
        return b == '\n' ? 0 : -EPROTO;
    case DATA_CR: c->state = DATA_LF; return b == '\r' ? 0 : -EPROTO;
    case DATA_LF:
        c->state = SIZE;
        c->digits = 0;
        return b == '\n' ? 0 : -EPROTO;
    case TRAILER:
        if (b == '\r') {
            c->state = LAST_LF;
            return 0;
        }
        c->state = TRAILER_IN;
        if (b == ' ' || b == '\t') /* no folding */
            return -EPROTO;
        __attribute__((fallthrough));
    case TRAILER_IN:
        if (b == '\r')
            c->state = TRAILER_LF;
        else if ((b < 0x20 && b != '\t') || b == 0x7f || ++c->line > CHUNK_TRAILER_MAX)
            return -EPROTO;
        return 0;
    case TRAILER_LF: c->state = TRAILER; return b == '\n' ? 0 : -EPROTO;
    default: return b == '\n' ? 0 : -EPROTO; /* LAST_LF */
    }
}

int http1_chunks_next(struct http1_chunks *c, struct bytes *in, struct bytes *ret)
{
    while (in->n > 0) {
        if (c->state == DATA) {
            size_t n = in->n < c->left ? in->n : (size_t)c->left;
            *ret = bytes_of(in->p, n);
            in->p += n;
            in->n -= n;
            c->left -= n;
            if (c->left == 0)
                c->state = DATA_CR;
            return CHUNKS_DATA;
        }
        bool last = c->state == LAST_LF;
        int r = frame_byte(c, *in->p);
        if (r < 0)
            return r;
        in->p++;
        in->n--;
        if (last)
            return CHUNKS_END;
    }
    return CHUNKS_MORE;
}
