/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/grpc/text.h"

#include <errno.h>
#include <stdio.h>

#include "proto/base/base64.h"
#include "proto/base/clock.h"
#include "proto/base/macros.h"

static const char hex_digits[] = "0123456789ABCDEF";

int grpc_percent_encode(struct bytes text, struct buffer *out)
{
    if (text.n > SIZE_MAX / 3)
        return -ENOMEM;
    int r = buffer_reserve(out, text.n * 3);
    if (r < 0)
        return r;
    uint8_t *to = out->p + out->n;
    for (size_t i = 0; i < text.n; i++) {
        uint8_t c = text.p[i];
        if (c >= 0x20 && c <= 0x7e && c != '%') {
            *to++ = c;
            continue;
        }
        *to++ = '%';
        *to++ = (uint8_t)hex_digits[c >> 4];
        *to++ = (uint8_t)hex_digits[c & 15];
    }
    out->n = (size_t)(to - out->p);
    return 0;
}

int grpc_percent_decode(struct bytes value, struct buffer *out)
{
    int r = buffer_reserve(out, value.n);
    if (r < 0)
        return r;
    uint8_t *to = out->p + out->n;
    for (size_t i = 0; i < value.n; i++) {
        int high = -1, low = -1;
        if (value.p[i] == '%' && value.n - i > 2) {
            high = bytes_hex_value(value.p[i + 1]);
            low = bytes_hex_value(value.p[i + 2]);
        }
        if (high >= 0 && low >= 0) {
            *to++ = (uint8_t)(high << 4 | low);
            i += 2;
        } else {
            *to++ = value.p[i];
        }
    }
    out->n = (size_t)(to - out->p);
    return 0;
}

int grpc_base64_decode(struct bytes value, struct buffer *out)
{
    const uint8_t *comma = value.n ? memchr(value.p, ',', value.n) : NULL;
    if (comma)
        value.n = (size_t)(comma - value.p);
    return base64_decode(bytes_trim(value), false, out);
}

static const struct {
    char unit;
    uint64_t ns;
} timeout_units[] = {
    {'n', 1},
    {'u', NSEC_PER_USEC},
    {'m', NSEC_PER_MSEC},
    {'S', NSEC_PER_SEC},
    {'M', 60 * (uint64_t)NSEC_PER_SEC},
    {'H', 3600 * (uint64_t)NSEC_PER_SEC},
};

#define TIMEOUT_DIGITS_MAX 8u

int grpc_timeout_parse(struct bytes value, uint64_t *ret_ns)
{
    if (value.n < 2 || value.n > TIMEOUT_DIGITS_MAX + 1)
        return -EINVAL;
    uint64_t number = 0;
    for (size_t i = 0; i + 1 < value.n; i++) {
        if (value.p[i] < '0' || value.p[i] > '9')
            return -EINVAL;
        number = number * 10 + (uint64_t)(value.p[i] - '0');
    }
    for (size_t u = 0; u < ARRAY_LEN(timeout_units); u++) {
        if (timeout_units[u].unit != (char)value.p[value.n - 1])
            continue;
        if (__builtin_mul_overflow(number, timeout_units[u].ns, ret_ns))
            *ret_ns = UINT64_MAX;
        return 0;
    }
    return -EINVAL;
}

void grpc_timeout_format(uint64_t ns, char to[GRPC_TIMEOUT_MAX])
{
    for (size_t u = 0; u < ARRAY_LEN(timeout_units); u++) {
        uint64_t n = ns / timeout_units[u].ns + (ns % timeout_units[u].ns != 0);
        if (n > 99999999)
            continue; /* UINT64_MAX ns is 5124096 H: the last unit always fits */
        snprintf(to, GRPC_TIMEOUT_MAX, "%u%c", (unsigned)n, timeout_units[u].unit);
        return;
    }
}
