/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/convert/ids.h"

bool id_is(struct bytes text, size_t digits)
{
    bool any = false;
    for (size_t i = 0; i < text.n; i++) {
        if (!memchr("0123456789abcdef", text.p[i], 16))
            return false;
        any |= text.p[i] != '0';
    }
    return text.n == digits && any;
}

void id_bytes(struct bytes text, uint8_t *ret)
{
    for (size_t i = 0; i < text.n; i += 2)
        ret[i / 2] = (uint8_t)(bytes_hex_value(text.p[i]) << 4 | bytes_hex_value(text.p[i + 1]));
}
