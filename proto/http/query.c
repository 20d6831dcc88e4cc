/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Everything here cuts a slice at a mark and looks at the parts (query_cut): "a=b&c=d" at '&' and '=', an
 * Accept at
 * ',' into ranges and at ';' into parameters. Nothing is copied but what query_decode writes.
 */
#include "proto/http/query.h"

#include <errno.h>

struct bytes query_cut(struct bytes *rest, char mark)
{
    const uint8_t *at = rest->n ? memchr(rest->p, mark, rest->n) : NULL;
    struct bytes part = bytes_of(rest->p, at ? (size_t)(at - rest->p) : rest->n);
    *rest = bytes_from(*rest, at ? part.n + 1 : rest->n);
    return part;
}

bool query_next(struct bytes *query, struct bytes *ret_name, struct bytes *ret_value)
{
    while (query->n > 0) {
        *ret_value = query_cut(query, '&');
        if (ret_value->n == 0)
            continue;
        *ret_name = query_cut(ret_value, '=');
        return true;
    }
    return false;
}

static int decode(struct bytes encoded, bool is_form, uint8_t *out, size_t max, struct bytes *ret)
{
    size_t n = 0;
    for (size_t i = 0; i < encoded.n; n++) {
        uint8_t c = encoded.p[i++];
        if (n == max)
            return -E2BIG;
        if (c == '%') {
            int high = encoded.n - i >= 2 ? bytes_hex_value(encoded.p[i]) : -1;
            int low = high >= 0 ? bytes_hex_value(encoded.p[i + 1]) : -1;
            if (low < 0)
                return -EINVAL;
            c = (uint8_t)(high << 4 | low);
            i += 2;
        } else if (c == '+' && is_form) {
            c = ' ';
        }
        out[n] = c;
    }
    *ret = bytes_of(out, n);
    return 0;
}

int query_decode(struct bytes encoded, uint8_t *out, size_t max, struct bytes *ret)
{
    return decode(encoded, false, out, max, ret);
}

int query_decode_form(struct bytes encoded, uint8_t *out, size_t max, struct bytes *ret)
{
    return decode(encoded, true, out, max, ret);
}

bool query_is(struct bytes encoded, const char *plain)
{
    size_t i = 0;
    for (; *plain && i < encoded.n; plain++) {
        uint8_t c = encoded.p[i++];
        if (c == '%' && encoded.n - i >= 2 && bytes_hex_value(encoded.p[i]) >= 0 &&
            bytes_hex_value(encoded.p[i + 1]) >= 0) {
            c = (uint8_t)(bytes_hex_value(encoded.p[i]) << 4 | bytes_hex_value(encoded.p[i + 1]));
            i += 2;
        }
        if (c != (uint8_t)*plain)
            return false;
    }
    return !*plain && i == encoded.n;
}

/* The weight among the parameters behind a coding or a type; one that is nonsense is the usual one. */
static unsigned weight_of(struct bytes parameters)
{
    while (parameters.n > 0) {
        struct bytes one = bytes_trim(query_cut(&parameters, ';'));
        if (one.n < 3 || (one.p[0] | 0x20) != 'q' || one.p[1] != '=')
            continue;
        unsigned weight = one.p[2] == '0' ? 0 : QUERY_WEIGHT_MAX;
        for (unsigned i = 4, unit = QUERY_WEIGHT_MAX / 10; i < one.n && weight < QUERY_WEIGHT_MAX; i++) {
            const bool is_digit = one.p[i] >= '0' && one.p[i] <= '9';
            weight = is_digit ? weight + unit * (unsigned)(one.p[i] - '0') : QUERY_WEIGHT_MAX;
            unit /= 10;
        }
        return weight;
    }
    return QUERY_WEIGHT_MAX;
}

bool query_accepts_gzip(struct bytes accept_encoding)
{
    bool any = false;
    while (accept_encoding.n > 0) {
        struct bytes rest = query_cut(&accept_encoding, ',');
        struct bytes name = bytes_trim(query_cut(&rest, ';'));
        if (bytes_is_nocase(name, "gzip") || bytes_is_nocase(name, "x-gzip"))
            return weight_of(rest) > 0;
        if (bytes_is(name, "*"))
            any = weight_of(rest) > 0;
    }
    return any;
}

unsigned query_accepts(struct bytes accept, const char *media_type)
{
    while (accept.n > 0) {
        struct bytes rest = query_cut(&accept, ',');
        struct bytes name = bytes_trim(query_cut(&rest, ';'));
        if (bytes_is_nocase(name, media_type))
            return weight_of(rest);
    }
    return 0;
}
