/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/base64.h"

#include <errno.h>

int base64_encode(struct bytes data, bool is_padded, struct buffer *out)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    if (data.n > SIZE_MAX / 2)
        return -ENOMEM;
    int r = buffer_reserve(out, data.n / 3 * 4 + 4);
    if (r < 0)
        return r;
    uint8_t *to = out->p + out->n;
    for (size_t i = 0; i < data.n; i += 3) {
        const size_t n = data.n - i;
        const uint32_t bits = (uint32_t)data.p[i] << 16 | (n > 1 ? (uint32_t)data.p[i + 1] << 8 : 0) |
                              (n > 2 ? (uint32_t)data.p[i + 2] : 0);
        for (size_t k = 0; k < 4 && (k <= n || is_padded); k++)
            *to++ = k <= n ? (uint8_t)digits[bits >> (18 - 6 * k) & 63] : '=';
    }
    out->n = (size_t)(to - out->p);
    return 0;
}

static int value_of(uint8_t c, bool is_any)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    if (c == '+' || (is_any && c == '-'))
        return 62;
    return c == '/' || (is_any && c == '_') ? 63 : -1;
}

int base64_decode(struct bytes text, bool is_any, struct buffer *out)
{
    if (text.n % 4 == 0)
        for (int i = 0; i < 2 && text.n > 0 && text.p[text.n - 1] == '='; i++)
            text.n--;
    if (text.n % 4 == 1)
        return BASE64_BAD;
    if (text.n == 0)
        return 0;
    int r = buffer_reserve(out, text.n - (text.n + 3) / 4);
    if (r < 0)
        return r;
    uint8_t *to = out->p + out->n;
    uint32_t bits = 0;
    for (size_t i = 0; i < text.n; i++) {
        const int v = value_of(text.p[i], is_any);
        if (v < 0)
            return BASE64_BAD;
        bits = bits << 6 | (uint32_t)v;
        if (i % 4 > 0) /* the second, third and fourth digit each complete a byte */
            *to++ = (uint8_t)(bits >> (6 - 2 * (i % 4)));
    }
    out->n = (size_t)(to - out->p);
    return 0;
}
