/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the numbers of DWARF and of call frame information off some bytes. Past the end everything is 0 and
 * `is_bad`: the caller looks once, behind what belongs together. (cursor.h is the same over more than
 * memory.)
 *
 * The byte order is this machine's: other ELF files are not read.
 */
#ifndef SENDER_SYMBOLIZE_ELF_READER_H
#define SENDER_SYMBOLIZE_ELF_READER_H

#include <stdbool.h>
#include <string.h>

#include "proto/base/bytes.h"

struct reader {
    const uint8_t *p, *end;
    bool is_bad;
};

static inline struct reader reader_of(struct bytes b)
{
    static const uint8_t nothing[1]; /* no arithmetic on the null of empty bytes */
    const uint8_t *p = b.p ? b.p : nothing;
    return (struct reader){.p = p, .end = p + b.n};
}

static inline size_t reader_left(const struct reader *r)
{
    return (size_t)(r->end - r->p);
}

/* The next n bytes, .n 0 if there are fewer. */
static inline struct bytes reader_take(struct reader *r, uint64_t n)
{
    if (n > reader_left(r)) {
        r->is_bad = true;
        r->p = r->end;
        return bytes_of(r->p, 0);
    }
    struct bytes b = bytes_of(r->p, (size_t)n);
    r->p += n;
    return b;
}

/* A number of n bytes, 8 at most. */
static inline uint64_t reader_fixed(struct reader *r, unsigned n)
{
    uint64_t value = 0;
    struct bytes b = reader_take(r, n);
    memcpy(&value, b.p, b.n);
    return value;
}

static inline uint8_t reader_u8(struct reader *r)
{
    if (r->p == r->end) {
        r->is_bad = true;
        return 0;
    }
    return *r->p++;
}

/* LEB128 (DWARF 5, section 7.6); bits above 64 are dropped. */
static inline uint64_t reader_uleb(struct reader *r)
{
    uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
        uint8_t byte = reader_u8(r);
        if (shift < 64)
            value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return value;
    }
}

static inline int64_t reader_sleb(struct reader *r)
{
    uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
        uint8_t byte = reader_u8(r);
        if (shift < 64)
            value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte & 0x80)
            continue;
        if (shift + 7 < 64 && (byte & 0x40))
            value |= UINT64_MAX << (shift + 7);
        return (int64_t)value;
    }
}

#endif
