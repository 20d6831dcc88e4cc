/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Varints and packed lists from a body that is known to have readable bytes behind its end
 * (PROFILES_PADDING): no comparison with the end inside a varint, one after it. That is worth several percent
 * of a decode (45 µs a 91 KB request), and nothing else should use it: reader.h needs no padding.
 *
 * Every function takes a position inside the body and returns the position behind what it read, or WIRE_BAD,
 * which lies above every end; so the caller's one test `p > end` covers both "too long" and "malformed".
 */
#ifndef PROTO_WIRE_LOAD_H
#define PROTO_WIRE_LOAD_H

#include <stdint.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "proto/base/macros.h"
#include "proto/wire/reader.h"
#include "proto/wire/wire.h"

#define WIRE_BAD ((const uint8_t *)UINTPTR_MAX)

/* Most bytes read behind the position given, as long as it is inside the body. */
#define WIRE_LOAD_PADDING 64u

/* Elements the packed readers may write behind the last one: they store whole vectors. */
#define WIRE_PACKED_SLACK 16u

/* Any length; *ret is 0 when malformed. */
const uint8_t *wire_load_varint_slow(const uint8_t *p, uint64_t *ret);

/* One and two bytes inline: nearly all indices, lengths and line numbers. */
static inline __attribute__((always_inline)) const uint8_t *wire_load_varint(const uint8_t *p, uint64_t *ret)
{
    uint64_t a = p[0];
    if (likely(a < 0x80)) {
        *ret = a;
        return p + 1;
    }
    uint64_t b = p[1];
    if (likely(b < 0x80)) {
        *ret = (a & 0x7f) | b << 7;
        return p + 2;
    }
    return wire_load_varint_slow(p, ret);
}

/* Of the varint that the eight bytes of w begin with: its length, 0 when that is more than eight, and its
 * value. */
static inline __attribute__((always_inline)) uint32_t wire_varint_length(uint64_t w)
{
    uint64_t stop = ~w & 0x8080808080808080u;
    return unlikely(stop == 0) ? 0 : ((uint32_t)__builtin_ctzll(stop) + 1) >> 3;
}
static inline __attribute__((always_inline)) uint64_t wire_varint_value(uint64_t w, uint32_t length)
{
    w &= 0x7f7f7f7f7f7f7f7fu >> (64 - 8 * length);
    if (likely(length <= 4)) { /* constants that fit into instructions */
        uint32_t v = (uint32_t)w;
        v = (v & 0x7f007f00) >> 1 | (v & 0x007f007f);
        return (v & 0x3fff0000) >> 2 | (v & 0x00003fff);
    }
    w = (w & 0x7f007f007f007f00u) >> 1 | (w & 0x007f007f007f007fu);
    w = (w & 0x3fff00003fff0000u) >> 2 | (w & 0x00003fff00003fffu);
    return (w & 0x0fffffff00000000u) >> 4 | (w & 0x000000000fffffffu);
}

/* For values of any size, such as addresses: up to eight bytes with one load and no loop. */
static inline __attribute__((always_inline)) const uint8_t *wire_load_varint_long(const uint8_t *p,
                                                                                  uint64_t *ret)
{
    uint64_t w = wire_load64(p);
    uint32_t length = wire_varint_length(w);
    if (unlikely(length == 0))
        return wire_load_varint_slow(p, ret);
    *ret = wire_varint_value(w, length);
    return p + length;
}

/* An index: what does not fit 32 bits (also every negative number) becomes UINT32_MAX, which no table
 * reaches. */
static inline uint32_t wire_saturate32(uint64_t v)
{
    return v > UINT32_MAX ? UINT32_MAX : (uint32_t)v;
}

/* wire_next (reader.h) for a padded body: the same answers, faster. */
static inline __attribute__((always_inline)) int wire_load_next(struct wire_reader *r, struct wire_field *ret)
{
    const uint8_t *p = r->p;
    uint64_t tag, v;
    if (p == r->end)
        return WIRE_END;
    ret->from = p;
    p = wire_load_varint(p, &tag);
    ret->number = (uint32_t)(tag >> 3);
    ret->type = (enum wire_type)(tag & 7);
    if (unlikely(p > r->end || tag >> 3 == 0 || tag >> 3 > WIRE_FIELD_MAX))
        return WIRE_MALFORMED;
    switch (ret->type) {
    case WIRE_VARINT: p = wire_load_varint(p, &ret->value); break;
    case WIRE_I64:
        ret->value = wire_load64(p);
        p += 8;
        break;
    case WIRE_LEN:
        p = wire_load_varint(p, &v);
        if (unlikely(p > r->end || v > (uint64_t)(r->end - p)))
            return WIRE_MALFORMED;
        ret->bytes = bytes_of(p, v);
        p += v;
        break;
    case WIRE_I32:
        ret->value = wire_load64(p) & UINT32_MAX;
        p += 4;
        break;
    case WIRE_SGROUP: {
        const uint8_t *at = p; /* so that p itself stays in a register */
        if (!wire_skip_group(&at, r->end, ret->number, &ret->bytes))
            return WIRE_MALFORMED;
        p = at;
        break;
    }
    default: return WIRE_MALFORMED;
    }
    if (unlikely(p > r->end))
        return WIRE_MALFORMED;
    r->p = p;
    return 0;
}

/* The packed varints of [p, end) as saturated 32-bit numbers to out, which has room for end - p +
 * WIRE_PACKED_SLACK; *n grows by their count. p must be preceded by a readable byte (its length is). Returns
 * end or WIRE_BAD. */
const uint8_t *wire_load_packed32(const uint8_t *p, const uint8_t *end, uint32_t *out, uint32_t *n);

/* Eight bytes as eight numbers. */
static inline __attribute__((always_inline)) void wire_widen8(const uint8_t *p, uint32_t *out)
{
#if defined(__SSE2__)
    __m128i zero = _mm_setzero_si128();
    __m128i x = _mm_unpacklo_epi8(_mm_loadl_epi64((const __m128i *)p), zero);
    _mm_storeu_si128((__m128i *)out, _mm_unpacklo_epi16(x, zero));
    _mm_storeu_si128((__m128i *)(out + 4), _mm_unpackhi_epi16(x, zero));
#else
    for (uint32_t i = 0; i < 8; i++)
        out[i] = p[i];
#endif
}

/* Lists of up to eight one-byte values inline: the attributes of a sample or a location. */
static inline __attribute__((always_inline)) const uint8_t *wire_load_packed32_short(const uint8_t *p,
                                                                                     const uint8_t *end,
                                                                                     uint32_t *out,
                                                                                     uint32_t *n)
{
    size_t len = (size_t)(end - p);
    if (len > 8 || (len > 0 && wire_load64(p) & 0x8080808080808080u >> (64 - 8 * len)))
        return wire_load_packed32(p, end, out, n);
    wire_widen8(p, out + *n); /* always eight: no branch on the length */
    *n += (uint32_t)len;
    return end;
}

/* What wire_load_packed32 chooses from, for the test that compares them: those that this processor has, then
 * NULL. The first is the portable one. */
#define WIRE_PACKED_READERS 4u
typedef const uint8_t *wire_packed_reader(const uint8_t *p, const uint8_t *end, uint32_t *out, uint32_t *n);
wire_packed_reader *wire_packed32_reader(uint32_t i);

#endif
