/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Everything here cuts a slice at a mark and looks at the parts (cut): "a=b&c=d" at '&' and '=', an Accept at
 * ',' into ranges and at ';' into parameters. Nothing is copied but what query_decode writes.
 */
#include "gateway/admin/query.h"

#include <errno.h>

/* Cuts *rest at the first `mark`; the part before it is returned. */
static struct bytes cut(struct bytes *rest, char mark)
{
    const uint8_t *at = rest->n ? memchr(rest->p, mark, rest->n) : NULL;
    struct bytes part = bytes_of(rest->p, at ? (size_t)(at - rest->p) : rest->n);
    *rest = at ? bytes_of(at + 1, rest->n - part.n - 1) : bytes_of(rest->p + rest->n, 0);
    return part;
}

bool query_next(struct bytes *query, struct bytes *ret_name, struct bytes *ret_value)
{
    while (query->n > 0) {
        *ret_value = cut(query, '&');
        if (ret_value->n == 0)
            continue;
        *ret_name = cut(ret_value, '=');
        return true;
    }
    return false;
}

int query_decode(struct bytes encoded, uint8_t *out, size_t max, struct bytes *ret)
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
        }
        out[n] = c;
    }
    *ret = bytes_of(out, n);
    return 0;
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

/* Whether the parameters behind a coding or a type have a weight of zero: q=0, 0., 0.0, 0.00, 0.000. */
static bool is_refused(struct bytes parameters)
{
    while (parameters.n > 0) {
        struct bytes one = bytes_trim(cut(&parameters, ';'));
        if (one.n < 3 || (one.p[0] | 0x20) != 'q' || one.p[1] != '=')
            continue;
        for (size_t i = 2; i < one.n; i++)
            if (one.p[i] != '0' && one.p[i] != '.')
                return false;
        return true;
    }
    return false;
}

bool query_accepts_gzip(struct bytes accept_encoding)
{
    bool any = false;
    while (accept_encoding.n > 0) {
        struct bytes rest = cut(&accept_encoding, ',');
        struct bytes name = bytes_trim(cut(&rest, ';'));
        if (bytes_is_nocase(name, "gzip") || bytes_is_nocase(name, "x-gzip"))
            return !is_refused(rest);
        if (bytes_is(name, "*"))
            any = !is_refused(rest);
    }
    return any;
}

bool query_accepts(struct bytes accept, const char *media_type)
{
    while (accept.n > 0) {
        struct bytes rest = cut(&accept, ',');
        struct bytes name = bytes_trim(cut(&rest, ';'));
        if (bytes_is_nocase(name, media_type))
            return !is_refused(rest);
    }
    return false;
}

/* ---- formats of metrics -------------------------------------------------------------------- */

/* A weight in thousandths (RFC 9110 §12.4.2); what is no weight counts as the highest, as if it were not
 * there.
 */
static int weight_of(struct bytes text)
{
    int weight = 0, scale = 1000;
    size_t i = 0;
    if (text.n == 0 || text.n > 5 || (text.p[0] != '0' && text.p[0] != '1') ||
        (text.n > 1 && text.p[1] != '.'))
        return 1000;
    for (; i < text.n; i++) {
        if (i == 1)
            continue;
        if (text.p[i] < '0' || text.p[i] > '9')
            return 1000;
        weight += (text.p[i] - '0') * scale;
        scale /= 10;
    }
    return weight > 1000 ? 1000 : weight;
}

/* One media range of an Accept value. */
struct range {
    struct bytes type, version, escaping;
    int weight;
};

static struct bytes unquoted(struct bytes v)
{
    return v.n >= 2 && v.p[0] == '"' && v.p[v.n - 1] == '"' ? bytes_of(v.p + 1, v.n - 2) : v;
}

static struct range range_of(struct bytes one)
{
    struct range r = {.type = bytes_trim(cut(&one, ';')), .weight = 1000};
    while (one.n > 0) {
        struct bytes value = cut(&one, ';'), name = bytes_trim(cut(&value, '='));
        value = unquoted(bytes_trim(value));
        if (bytes_is_nocase(name, "q"))
            r.weight = weight_of(value);
        else if (bytes_is_nocase(name, "version"))
            r.version = value;
        else if (bytes_is_nocase(name, "escaping"))
            r.escaping = value;
    }
    return r;
}

/* Whether the range asks for something of ours, and for what. */
static bool range_format(const struct range *r, enum admin_format *ret)
{
    static const struct {
        const char *type, *version; /* "": none given */
        enum admin_format format;
    } known[] = {
        {"application/openmetrics-text", "1.0.0", ADMIN_OPENMETRICS_1_0_0},
        {"application/openmetrics-text", "", ADMIN_OPENMETRICS_1_0_0},
        {"application/openmetrics-text", "0.0.1", ADMIN_OPENMETRICS_0_0_1},
        {"text/plain", "0.0.4", ADMIN_TEXT_0_0_4},
        {"text/plain", "", ADMIN_TEXT_0_0_4},
        {"text/plain", "1.0.0", ADMIN_TEXT_1_0_0},
        {"text/*", "", ADMIN_TEXT_0_0_4},
        {"*/*", "", ADMIN_TEXT_0_0_4},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (!bytes_is_nocase(r->type, known[i].type) || !bytes_is(r->version, known[i].version))
            continue;
        *ret = known[i].format;
        return true;
    }
    return false;
}

static bool range_escaping(const struct range *r, enum admin_escaping *ret)
{
    static const char *const names[] = {[ADMIN_UNDERSCORES] = "underscores",
                                        [ADMIN_ALLOW_UTF8] = "allow-utf-8",
                                        [ADMIN_DOTS] = "dots",
                                        [ADMIN_VALUES] = "values"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!bytes_is_nocase(r->escaping, names[i]))
            continue;
        *ret = (enum admin_escaping)i;
        return true;
    }
    return false;
}

void query_metrics_format(struct bytes accept, struct admin_metrics *ret)
{
    int best = 0;
    ret->format = ADMIN_TEXT_0_0_4;
    ret->escaping = ADMIN_UNDERSCORES;
    ret->escaping_is_asked_for = false;
    while (accept.n > 0) {
        struct range r = range_of(cut(&accept, ','));
        enum admin_format format;
        if (r.weight <= best || !range_format(&r, &format))
            continue;
        best = r.weight;
        ret->format = format;
        ret->escaping = ADMIN_UNDERSCORES;
        ret->escaping_is_asked_for = range_escaping(&r, &ret->escaping);
    }
}
