/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/otlp/json/value.h"

#include <math.h>
#include <stdlib.h>

#include "proto/base/base64.h"
#include "proto/base/macros.h"

/* ---- numbers ---------------------------------------------------------------------------------- */

static bool is_digit(uint8_t c)
{
    return (uint8_t)(c - '0') <= 9;
}

static const uint8_t *digits_end(const uint8_t *p, const uint8_t *end)
{
    while (p < end && is_digit(*p))
        p++;
    return p;
}

const uint8_t *json_number_end(const uint8_t *p, const uint8_t *end)
{
    const uint8_t *q;
    p += p < end && *p == '-';
    q = digits_end(p, end);
    if (q == p || (*p == '0' && q - p > 1))
        return NULL;
    p = q;
    if (p < end && *p == '.') {
        q = digits_end(p + 1, end);
        if (q == p + 1)
            return NULL;
        p = q;
    }
    if (p < end && (*p == 'e' || *p == 'E')) {
        p++;
        p += p < end && (*p == '+' || *p == '-');
        q = digits_end(p, end);
        if (q == p)
            return NULL;
        p = q;
    }
    return p;
}

/* Far above the number of digits of any text we read, so that sums with it do not overflow. */
#define EXPONENT_MAX ((int64_t)1 << 40)

static int64_t read_exponent(const uint8_t *p, const uint8_t *end)
{
    bool negative = p < end && *p == '-';
    int64_t v = 0;
    for (p += p < end && (*p == '-' || *p == '+'); p < end; p++)
        v = min_of(v * 10 + (*p - '0'), EXPONENT_MAX);
    return negative ? -v : v;
}

/* A number with a fraction or an exponent, or of many digits: the digits before the point, exactly. */
static int magnitude_slowly(const uint8_t *p, const uint8_t *end, uint64_t *ret)
{
    int64_t n = 0, point = -1, last = -1,
            exponent = 0; /* digits seen, those before the point, the last nonzero */
    const uint8_t *q;
    for (q = p; q < end && *q != 'e' && *q != 'E'; q++) {
        if (*q == '.') {
            point = n;
            continue;
        }
        if (*q != '0')
            last = n;
        n++;
    }
    if (q < end)
        exponent = read_exponent(q + 1, end);
    point = (point < 0 ? n : point) + exponent;
    uint64_t v = 0;
    if (last >= 0) { /* else it is 0, whatever the exponent */
        if (last >= point)
            return JSON_NOT_INTEGRAL;
        for (int64_t i = 0; i < point;
             i++) { /* a nonzero digit was seen after n steps: then it ends within 20 */
            uint64_t digit = 0;
            if (i < n) {
                p += *p == '.';
                digit = (uint64_t)(*p++ - '0');
            }
            if (__builtin_mul_overflow(v, 10u, &v) || __builtin_add_overflow(v, digit, &v))
                return JSON_OUT_OF_RANGE;
        }
    }
    *ret = v;
    return 0;
}

#define DIGITS_SAFE 19 /* decimal digits that always fit 64 bits */

static int magnitude(struct bytes text, bool *negative, uint64_t *ret)
{
    const uint8_t *p = text.p, *end = text.p + text.n;
    if (text.n == 0)
        return JSON_NOT_A_NUMBER;
    *negative = *p == '-';
    p += *negative;
    size_t n = (size_t)(end - p);
    if (likely(n - 1 < DIGITS_SAFE && (n == 1 || *p != '0'))) {
        uint64_t v = 0;
        const uint8_t *q = p;
        for (; q < end && is_digit(*q); q++)
            v = v * 10 + (uint64_t)(*q - '0');
        if (likely(q == end)) {
            *ret = v;
            return 0;
        }
    }
    if (json_number_end(text.p, end) != end)
        return JSON_NOT_A_NUMBER;
    return magnitude_slowly(p, end, ret);
}

int json_read_int64(struct bytes text, int64_t *ret)
{
    bool negative;
    uint64_t v;
    int r = magnitude(text, &negative, &v);
    if (r != 0)
        return r;
    if (v > (uint64_t)INT64_MAX + negative)
        return JSON_OUT_OF_RANGE;
    *ret = (int64_t)(negative ? 0 - v : v);
    return 0;
}

int json_read_uint64(struct bytes text, uint64_t *ret)
{
    bool negative;
    uint64_t v;
    int r = magnitude(text, &negative, &v);
    if (r == 0 && negative && v != 0)
        r = JSON_OUT_OF_RANGE;
    if (r == 0)
        *ret = v;
    return r;
}

/* strtod reads the C locale's point here: neither program calls setlocale(3). */
int json_read_double(struct bytes text, double *ret)
{
    char copy[JSON_READ_DOUBLE_MAX + 1];
    if (text.n == 0 || json_number_end(text.p, text.p + text.n) != text.p + text.n)
        return JSON_NOT_A_NUMBER;
    if (text.n > JSON_READ_DOUBLE_MAX)
        return JSON_OUT_OF_RANGE;
    memcpy(copy, text.p, text.n);
    copy[text.n] = '\0';
    double v = strtod(copy, NULL);
    if (isinf(v))
        return JSON_OUT_OF_RANGE;
    *ret = v;
    return 0;
}

/* ---- strings ---------------------------------------------------------------------------------- */

/* The four digits at p, or -1. */
static int32_t hex4(const uint8_t *p)
{
    int32_t v = 0;
    for (int i = 0; i < 4; i++) {
        int d = bytes_hex_value(p[i]);
        if (d < 0)
            return -1;
        v = v << 4 | d;
    }
    return v;
}

size_t json_escape_length(const uint8_t *p, const uint8_t *end)
{
    if (end - p < 2)
        return 0;
    if (p[1] != 'u')
        return p[1] != '\0' && strchr("\"\\/bfnrt", p[1]) ? 2 : 0;
    int32_t v = end - p < 6 ? -1 : hex4(p + 2);
    if (v < 0 || (v >= 0xdc00 && v < 0xe000))
        return 0;
    if (v < 0xd800 || v >= 0xe000)
        return 6;
    if (end - p < 12 || p[6] != '\\' || p[7] != 'u')
        return 0;
    v = hex4(p + 8);
    return v >= 0xdc00 && v < 0xe000 ? 12 : 0;
}

static uint8_t simple_escape(uint8_t c)
{
    switch (c) {
    case 'b': return '\b';
    case 'f': return '\f';
    case 'n': return '\n';
    case 'r': return '\r';
    case 't': return '\t';
    default: return c; /* quote, backslash, slash */
    }
}

size_t json_unescape(struct bytes text, uint8_t *out)
{
    const uint8_t *p = text.p, *end = text.p + text.n;
    uint8_t *at = out;
    while (p < end) {
        const uint8_t *next = memchr(p, '\\', (size_t)(end - p));
        size_t plain = (size_t)((next ? next : end) - p);
        memcpy(at, p, plain);
        at += plain;
        p += plain;
        if (!next)
            break;
        size_t n = json_escape_length(p, end);
        if (n == 2) {
            *at++ = simple_escape(p[1]);
        } else {
            uint32_t c = (uint32_t)hex4(p + 2);
            if (n == 12)
                c = 0x10000 + ((c - 0xd800) << 10) + ((uint32_t)hex4(p + 8) - 0xdc00);
            at += bytes_put_utf8(at, c);
        }
        p += n;
    }
    return (size_t)(at - out);
}

/* ---- bytes ------------------------------------------------------------------------------------ */

bool json_hex(uint8_t *p, size_t *n)
{
    if (*n % 2 != 0)
        return false;
    for (size_t i = 0; i < *n; i += 2) {
        int high = bytes_hex_value(p[i]), low = bytes_hex_value(p[i + 1]);
        if (high < 0 || low < 0)
            return false;
        p[i / 2] = (uint8_t)(high << 4 | low);
    }
    *n /= 2;
    return true;
}

bool json_base64(uint8_t *p, size_t *n)
{
    struct buffer out = {.p = p, .cap = *n, .max = *n};
    if (base64_decode(bytes_of(p, *n), true, &out) != 0)
        return false;
    *n = out.n;
    return true;
}
