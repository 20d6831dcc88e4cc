/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/wire/load.h"

#include <stdbool.h>
#include <stddef.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

const uint8_t *wire_load_varint_slow(const uint8_t *p, uint64_t *ret)
{
    uint64_t w = wire_load64(p), v = 0;
    uint32_t length = wire_varint_length(w);
    if (likely(length > 0)) {
        *ret = wire_varint_value(w, length);
        return p + length;
    }
    for (uint32_t i = 0; i < WIRE_VARINT_MAX; i++) {
        uint64_t b = p[i];
        if (i == WIRE_VARINT_MAX - 1 && b > 1) /* bits beyond the 64th, or no end */
            break;
        v |= (b & 0x7f) << (7 * i);
        if (b < 0x80) {
            *ret = v;
            return p + i + 1;
        }
    }
    *ret = 0;
    return WIRE_BAD;
}

/* Any mixture of lengths, one at a time. */
static const uint8_t *packed_any(const uint8_t *p, const uint8_t *end, uint32_t *out, uint32_t *n)
{
    uint32_t k = *n;
    while (p < end) {
        uint64_t v;
        p = wire_load_varint(p, &v);
        out[k++] = wire_saturate32(v);
    }
    *n = k;
    return p == end ? end : WIRE_BAD;
}

#if defined(__x86_64__)

/* AVX2: eight bytes a step. A table indexed by their eight continuation bits says how to spread them into
 * 16-bit lanes (byte shuffle) and how many values that makes. A two-byte value may straddle the end: it is
 * left to the next step. */
static struct {
    _Alignas(16) uint8_t shuffle[256][16];
    uint8_t values[256];
} spread;

static void spread_fill(void)
{
    for (uint32_t mask = 0; mask < 256; mask++) {
        uint32_t i = 0, k = 0;
        memset(spread.shuffle[mask], 0x80, 16); /* 0x80 stores a zero */
        while (i < 8) {
            bool two = mask >> i & 1;
            if (two && i == 7)
                break;
            spread.shuffle[mask][2 * k] = (uint8_t)i;
            if (two)
                spread.shuffle[mask][2 * k + 1] = (uint8_t)(i + 1);
            i += two ? 2 : 1;
            k++;
        }
        spread.values[mask] = (uint8_t)k;
    }
}

/* One step from p on, whose continuation bits *more begins with, to out + *k. Returns the bytes taken, which
 * come from the bits and not from the table: the next step waits for nothing else. */
__attribute__((target("avx2"), always_inline)) static inline uint32_t spread_step(const uint8_t *p,
                                                                                  uint64_t *more,
                                                                                  uint32_t *out, uint32_t *k)
{
    const __m128i low_bits = _mm_set1_epi16(0x007f), high_bits = _mm_set1_epi16(0x7f00);
    uint32_t mask = (uint32_t)*more & 0xff, taken = 8 - (mask >> 7);
    __m128i x = _mm_loadl_epi64((const __m128i *)p);
    x = _mm_shuffle_epi8(x, _mm_load_si128((const __m128i *)spread.shuffle[mask]));
    x = _mm_or_si128(_mm_and_si128(x, low_bits), _mm_srli_epi16(_mm_and_si128(x, high_bits), 1));
    _mm256_storeu_si256((__m256i *)(out + *k), _mm256_cvtepu16_epi32(x));
    *k += spread.values[mask];
    *more >>= taken;
    return taken;
}

__attribute__((target("avx2"))) static const uint8_t *packed_avx2(const uint8_t *p, const uint8_t *end,
                                                                  uint32_t *out, uint32_t *n)
{
    uint32_t k = *n;
    while (p < end) {
        size_t left = (size_t)(end - p);
        uint64_t more = (uint32_t)_mm256_movemask_epi8(_mm256_loadu_si256((const __m256i *)p)),
                 far = (uint32_t)_mm256_movemask_epi8(_mm256_loadu_si256((const __m256i *)(p + 32)));
        more |= far << 32; /* always: whether a list is that long is as good as by chance */
        if (left < 64)
            more &= ((uint64_t)1 << left) - 1;
        if (unlikely(more & (more >> 1))) { /* three bytes or longer */
            *n = k;
            return packed_any(p, end, out, n);
        }
        if (unlikely(left < 64 && more >> (left - 1)))
            return WIRE_BAD;
        uint32_t limit = left >= 64 ? 49 : (uint32_t)left, at = 0; /* with 16 bits of mask left to look at */
        while (at < limit) { /* two steps: fewer wrong guesses of how often */
            at += spread_step(p + at, &more, out, &k);
            at += spread_step(p + at, &more, out, &k);
        }
        if (at > left) { /* bytes behind the end looked like one-byte values */
            k -= at - (uint32_t)left;
            at = (uint32_t)left;
        }
        p += at;
    }
    *n = k;
    return end;
}

/* AVX-512 with VBMI2: up to 32 bytes a step. The first bytes of all values are moved together, and so are the
 * bytes behind them, as zeros where a value has one byte. Lists of stacks: 0.9 of the time of a decode. */
__attribute__((target("avx512bw,avx512vl,avx512vbmi2,bmi2,popcnt"))) static const uint8_t *packed_vbmi2(
    const uint8_t *p, const uint8_t *end, uint32_t *out, uint32_t *n)
{
    uint32_t k = *n;
    while (p < end) {
        size_t left = (size_t)(end - p);
        uint32_t window = left < 32 ? (uint32_t)left : 32, within = _bzhi_u32(UINT32_MAX, window);
        __m256i first = _mm256_maskz_loadu_epi8(within, p);
        uint32_t more = (uint32_t)_mm256_movepi8_mask(first), starts = ~(more << 1) & within;
        if (unlikely(more & (more >> 1))) { /* three bytes or longer */
            *n = k;
            return packed_any(p, end, out, n);
        }
        uint32_t cut = more >> (window - 1); /* the last value goes on behind the window */
        if (unlikely(cut != 0 && left <= 32))
            return WIRE_BAD;
        starts = _bzhi_u32(starts, window - cut);
        __m256i second = _mm256_maskz_loadu_epi8(more, p + 1);
        first = _mm256_maskz_compress_epi8(starts, _mm256_and_si256(first, _mm256_set1_epi8(0x7f)));
        second = _mm256_maskz_compress_epi8(starts, second);
        uint32_t values = (uint32_t)_mm_popcnt_u32(starts);
        for (uint32_t i = 0;;) {
            __m256i x =
                _mm256_or_si256(_mm256_cvtepu8_epi16(_mm256_castsi256_si128(first)),
                                _mm256_slli_epi16(_mm256_cvtepu8_epi16(_mm256_castsi256_si128(second)), 7));
            _mm256_storeu_si256((__m256i *)(out + k + i), _mm256_cvtepu16_epi32(_mm256_castsi256_si128(x)));
            _mm256_storeu_si256((__m256i *)(out + k + i + 8),
                                _mm256_cvtepu16_epi32(_mm256_extracti128_si256(x, 1)));
            i += 16;
            if (likely(i >= values))
                break;
            first = _mm256_permute4x64_epi64(first, 0x0e); /* the upper half, which there is once */
            second = _mm256_permute4x64_epi64(second, 0x0e);
        }
        k += values;
        p += window - cut;
    }
    *n = k;
    return end;
}

#endif

/* Those that this processor has, the fastest last. */
static wire_packed_reader *readers[WIRE_PACKED_READERS] = {packed_any}, *packed = packed_any;

#if defined(__x86_64__)

/* Before main, so that no thread sees it change. */
__attribute__((constructor)) static void packed_choose(void)
{
    uint32_t n = 1;
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2")) {
        spread_fill();
        readers[n++] = packed_avx2;
    }
    if (__builtin_cpu_supports("avx512vbmi2") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl"))
        readers[n++] = packed_vbmi2;
    packed = readers[n - 1];
}

#endif

const uint8_t *wire_load_packed32(const uint8_t *p, const uint8_t *end, uint32_t *out, uint32_t *n)
{
    return packed(p, end, out, n);
}

wire_packed_reader *wire_packed32_reader(uint32_t i)
{
    return readers[i];
}
