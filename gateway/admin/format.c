/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/admin/format.h"

#include "proto/http/query.h"

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
    struct range r = {.type = bytes_trim(query_cut(&one, ';')), .weight = 1000};
    while (one.n > 0) {
        struct bytes value = query_cut(&one, ';'), name = bytes_trim(query_cut(&value, '='));
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

const char *const format_escapings[4] = {[PROMETHEUS_ESCAPE_UNDERSCORES] = "underscores",
                                         [PROMETHEUS_ALLOW_UTF8] = "allow-utf-8",
                                         [PROMETHEUS_ESCAPE_DOTS] = "dots",
                                         [PROMETHEUS_ESCAPE_VALUES] = "values"};

static bool range_escaping(const struct range *r, enum prometheus_escaping *ret)
{
    for (size_t i = 0; i < ARRAY_LEN(format_escapings); i++) {
        if (!bytes_is_nocase(r->escaping, format_escapings[i]))
            continue;
        *ret = (enum prometheus_escaping)i;
        return true;
    }
    return false;
}

void query_metrics_format(struct bytes accept, struct admin_metrics *ret)
{
    int best = 0;
    ret->format = ADMIN_TEXT_0_0_4;
    ret->escaping = PROMETHEUS_ESCAPE_UNDERSCORES;
    ret->escaping_is_asked_for = false;
    while (accept.n > 0) {
        struct range r = range_of(query_cut(&accept, ','));
        enum admin_format format;
        if (r.weight <= best || !range_format(&r, &format))
            continue;
        best = r.weight;
        ret->format = format;
        ret->escaping = PROMETHEUS_ESCAPE_UNDERSCORES;
        ret->escaping_is_asked_for = range_escaping(&r, &ret->escaping);
    }
}
