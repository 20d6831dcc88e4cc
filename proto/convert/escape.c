/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/convert/escape.h"

#define MARK_BYTES (sizeof BYTES_REPLACEMENT - 1)

int escape_bytes(struct bytes text, struct buffer *out)
{
    int r = 0;
    for (size_t i = 0, n; i < text.n && r == 0; i += n) {
        struct bytes rest = bytes_of(text.p + i, text.n - i);
        size_t is_text = bytes_utf8_length(rest);
        bool is_mark = is_text == MARK_BYTES && bytes_starts(rest, BYTES_REPLACEMENT);
        n = is_text ? is_text : 1;
        if (is_text && !is_mark)
            r = buffer_add(out, rest.p, n);
        for (size_t k = 0; (!is_text || is_mark) && r == 0 && k < n; k++)
            r = buffer_printf(out, BYTES_REPLACEMENT "%02x", rest.p[k]);
    }
    return r;
}

/* escape_bytes writes small letters alone. */
static int digit_value(uint8_t c)
{
    return c >= 'A' && c <= 'F' ? -1 : bytes_hex_value(c);
}

int unescape_bytes(struct bytes text, struct buffer *out)
{
    int r = 0;
    for (size_t i = 0, n; i < text.n && r == 0; i += n) {
        struct bytes rest = bytes_of(text.p + i, text.n - i);
        bool is_marked = rest.n >= MARK_BYTES + 2 && bytes_starts(rest, BYTES_REPLACEMENT);
        int high = is_marked ? digit_value(rest.p[MARK_BYTES]) : -1,
            low = high < 0 ? -1 : digit_value(rest.p[MARK_BYTES + 1]);
        uint8_t byte = low < 0 ? *rest.p : (uint8_t)(high << 4 | low);
        r = buffer_add(out, &byte, 1);
        n = low < 0 ? 1 : MARK_BYTES + 2;
    }
    return r;
}
