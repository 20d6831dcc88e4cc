/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names in the escaping a scraper asked for: Prometheus documentation, "UTF-8 metric and label name escaping
 * schemes".
 */
#include "gateway/export/prometheus/names.h"

static bool is_valid(uint8_t c, bool first, bool is_label)
{
    return (uint8_t)((c | 0x20) - 'a') < 26 || c == '_' || (c == ':' && !is_label) ||
           ((uint8_t)(c - '0') < 10 && !first);
}

bool prometheus_is_plain(struct bytes name, bool is_label)
{
    for (size_t i = 0; i < name.n; i++)
        if (!is_valid(name.p[i], i == 0, is_label))
            return false;
    return name.n > 0;
}

/* The code point at the front and its bytes; U+FFFD and one byte for what is no UTF-8. */
static size_t rune_at(struct bytes s, uint32_t *ret)
{
    uint8_t c = s.p[0];
    size_t n = bytes_utf8_length(s);
    *ret = 0xfffd;
    if (n == 0)
        return 1;
    *ret = n == 1 ? c : c & (0x7fu >> n);
    for (size_t i = 1; i < n; i++)
        *ret = *ret << 6 | (s.p[i] & 0x3f);
    return n;
}

static int add_rune(struct buffer *out, struct bytes raw, uint32_t rune, bool first,
                    enum prometheus_escaping escaping, bool is_label)
{
    bool valid = raw.n == 1 && is_valid(raw.p[0], first, is_label), dot = raw.n == 1 && raw.p[0] == '.';
    bool low = raw.n == 1 && raw.p[0] == '_';
    switch (escaping) {
    case PROMETHEUS_ESCAPE_DOTS:
        if (low || dot)
            return buffer_add_str(out, low ? "__" : "_dot_");
        return valid ? buffer_add_bytes(out, raw) : buffer_add_str(out, "__");
    case PROMETHEUS_ESCAPE_VALUES:
        if (low)
            return buffer_add_str(out, "__");
        return valid ? buffer_add_bytes(out, raw) : buffer_printf(out, "_%x_", rune);
    case PROMETHEUS_ESCAPE_UNDERSCORES:
    case PROMETHEUS_ALLOW_UTF8: break;
    }
    return valid ? buffer_add_bytes(out, raw) : buffer_add_str(out, "_");
}

int prometheus_escape(struct bytes name, enum prometheus_escaping escaping, bool is_label, struct buffer *out)
{
    bool plain = prometheus_is_plain(name, is_label);
    if (escaping == PROMETHEUS_ALLOW_UTF8 || (plain && escaping != PROMETHEUS_ESCAPE_DOTS))
        return buffer_add_bytes(out, name);
    int r = escaping == PROMETHEUS_ESCAPE_VALUES ? buffer_add_str(out, "U__") : 0;
    for (size_t i = 0, n; r == 0 && i < name.n; i += n) {
        uint32_t rune;
        n = rune_at(bytes_of(name.p + i, name.n - i), &rune);
        r = add_rune(out, bytes_of(name.p + i, n), rune, i == 0, escaping, is_label);
    }
    return r;
}
