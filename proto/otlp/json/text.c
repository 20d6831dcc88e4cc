/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/otlp/json/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int json_write_string(struct buffer *out, struct bytes s)
{
    const bool clean = bytes_is_utf8(s);
    size_t from = 0, i = 0;
    int r = buffer_add_str(out, "\"");
    while (i < s.n && r == 0) {
        uint8_t c = s.p[i];
        char escape[8] = "";
        size_t n = 1;
        if (c == '"' || c == '\\')
            snprintf(escape, sizeof escape, "\\%c", c);
        else if (c < 0x20)
            snprintf(escape, sizeof escape, "\\u%04x", c);
        else if (!clean && (n = bytes_utf8_length(bytes_of(s.p + i, s.n - i))) == 0) {
            strcpy(escape, "\xef\xbf\xbd");
            n = 1;
        }
        if (escape[0]) {
            r = buffer_add(out, s.p + from, i - from);
            if (r == 0)
                r = buffer_add_str(out, escape);
            from = i + n;
        }
        i += n;
    }
    if (r == 0)
        r = buffer_add(out, s.p + from, s.n - from);
    return r < 0 ? r : buffer_add_str(out, "\"");
}

int json_write_double(struct buffer *out, double v)
{
    char text[40];
    if (isnan(v))
        return buffer_add_str(out, "\"NaN\"");
    if (isinf(v))
        return buffer_add_str(out, v > 0 ? "\"Infinity\"" : "\"-Infinity\"");
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, v);
        if (strtod(text, NULL) == v)
            break;
    }
    return buffer_add_str(out, text);
}

int json_write_base64(struct buffer *out, struct bytes b)
{
    static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    int r = buffer_add_str(out, "\"");
    for (size_t i = 0; i < b.n && r == 0; i += 3) {
        size_t left = b.n - i;
        uint32_t v =
            (uint32_t)b.p[i] << 16 | (left > 1 ? (uint32_t)b.p[i + 1] << 8 : 0) | (left > 2 ? b.p[i + 2] : 0);
        char four[4] = {digit[v >> 18], digit[v >> 12 & 63], left > 1 ? digit[v >> 6 & 63] : '=',
                        left > 2 ? digit[v & 63] : '='};
        r = buffer_add(out, four, 4);
    }
    return r < 0 ? r : buffer_add_str(out, "\"");
}

int json_write_hex(struct buffer *out, struct bytes b)
{
    static const char digit[] = "0123456789abcdef";
    int r = buffer_add_str(out, "\"");
    for (size_t i = 0; i < b.n && r == 0; i++)
        r = buffer_add(out, (char[]){digit[b.p[i] >> 4], digit[b.p[i] & 15]}, 2);
    return r < 0 ? r : buffer_add_str(out, "\"");
}
