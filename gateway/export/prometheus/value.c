/* SPDX-License-Identifier: Apache-2.0 */
/* Values as text. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "gateway/export/prometheus/table.h"
#include "proto/base/clock.h"

static struct bytes hex_text(struct arena *arena, struct bytes raw)
{
    uint8_t *p = raw.n > SIZE_MAX / 4 ? NULL : arena_alloc(arena, raw.n * 2);
    if (p)
        bytes_to_hex(raw, p);
    return bytes_of(p, p ? raw.n * 2 : 0);
}

/* What was counted in nanoseconds: a decimal of at most 15 digits, which a double says as it is, and so the
 * shortest that reads back. snprintf(3) and strtod(3) instead are a tenth of a page. False: it is no such
 * number, or has an exponent. */
static bool nanoseconds(double v, char text[32])
{
    if (!(v >= 1e-4 && v < 1e6))
        return false;
    uint64_t n = (uint64_t)(v * 1e9 + 0.5), whole = n / NSEC_PER_SEC, rest = n % NSEC_PER_SEC;
    if ((double)n / NSEC_PER_SEC != v)
        return false;
    prometheus_integer((int64_t)whole, text);
    char *at = text + strlen(text);
    if (rest > 0)
        *at++ = '.';
    for (uint64_t unit = NSEC_PER_SEC / 10; rest > 0; rest %= unit, unit /= 10)
        *at++ = (char)('0' + rest / unit);
    *at = '\0';
    return true;
}

void prometheus_double(double v, char text[32])
{
    if (nanoseconds(v, text))
        return;
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
