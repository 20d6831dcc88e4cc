/* SPDX-License-Identifier: Apache-2.0 */
/* Values as text. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "gateway/export/prometheus/table.h"

static struct bytes hex_text(struct arena *arena, struct bytes raw)
{
    static const char digits[] = "0123456789abcdef";
    uint8_t *p = raw.n > SIZE_MAX / 4 ? NULL : arena_alloc(arena, raw.n * 2);
    for (size_t i = 0; p && i < raw.n; i++) {
        p[2 * i] = (uint8_t)digits[raw.p[i] >> 4];
        p[2 * i + 1] = (uint8_t)digits[raw.p[i] & 15];
    }
    return bytes_of(p, p ? raw.n * 2 : 0);
}

void prometheus_double(double v, char text[32])
{
    if (isnan(v)) {
        strcpy(text, "NaN");
        return;
    }
    if (isinf(v)) {
        strcpy(text, v > 0 ? "+Inf" : "-Inf");
        return;
    }
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, 32, "%.*g", digits, v);
        if (strtod(text, NULL) == v)
            return;
    }
}

/* Once a series: snprintf(3) would be an eighth of a page. */
void prometheus_integer(int64_t v, char text[32])
{
    char digits[20], *at = digits + sizeof digits;
    uint64_t left = v < 0 ? -(uint64_t)v : (uint64_t)v;
    do
        *--at = (char)('0' + left % 10);
    while (left /= 10);
    if (v < 0)
        *text++ = '-';
    size_t n = (size_t)(digits + sizeof digits - at);
    memcpy(text, at, n);
    text[n] = '\0';
}

struct bytes prometheus_value_text(struct arena *arena, const struct attr_value *v)
{
    char text[32] = "";
    switch (v->kind) {
    case ATTR_STRING: return v->text.p ? v->text : BYTES_LIT("");
    case ATTR_BYTES:
    case ATTR_ARRAY:
    case ATTR_KVLIST: return hex_text(arena, v->text);
    case ATTR_BOOL: return v->boolean ? BYTES_LIT("true") : BYTES_LIT("false");
    case ATTR_INT: prometheus_integer(v->integer, text); break;
    case ATTR_DOUBLE: prometheus_double(v->real, text); break;
    case ATTR_EMPTY: break;
    }
    return arena_copy(arena, bytes_str(text));
}
