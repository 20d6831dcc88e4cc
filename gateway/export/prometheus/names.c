/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Metric and label names by "Prometheus and OpenMetrics Compatibility" of the OpenTelemetry specification.
 */
#include "gateway/export/prometheus/names.h"

#include "proto/base/macros.h"

/* clang-format off */
static const struct {
    const char *unit, *word, *per;
} unit_words[] = {
    /* "Metric Metadata" of the specification: UCUM to words. */
    {"d", "days", "day"},         {"h", "hours", "hour"},       {"min", "minutes", "minute"},
    {"s", "seconds", "second"},   {"ms", "milliseconds", "millisecond"}, {"us", "microseconds", "microsecond"},
    {"ns", "nanoseconds", "nanosecond"}, {"wk", "weeks", "week"}, {"mo", "months", "month"},
    {"a", "years", "year"},       {"By", "bytes", "byte"},      {"KiBy", "kibibytes", "kibibyte"},
    {"MiBy", "mebibytes", "mebibyte"}, {"GiBy", "gibibytes", "gibibyte"}, {"TiBy", "tebibytes", "tebibyte"},
    {"kBy", "kilobytes", "kilobyte"}, {"KBy", "kilobytes", "kilobyte"}, {"MBy", "megabytes", "megabyte"},
    {"GBy", "gigabytes", "gigabyte"}, {"TBy", "terabytes", "terabyte"}, {"m", "meters", "meter"},
    {"V", "volts", "volt"},       {"A", "amperes", "ampere"},   {"J", "joules", "joule"},
    {"W", "watts", "watt"},       {"g", "grams", "gram"},       {"Cel", "celsius", "celsius"},
    {"Hz", "hertz", "hertz"},     {"%", "percent", "percent"},
};
/* clang-format on */

static bool is_digit(uint8_t c)
{
    return c >= '0' && c <= '9';
}
static bool is_alpha(uint8_t c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Appends with other characters than letters, digits (and ':') as '_', runs of '_' as one. */
static int add_words(struct buffer *out, struct bytes text, bool colon)
{
    for (size_t i = 0; i < text.n; i++) {
        uint8_t c = text.p[i];
        char ch = is_alpha(c) || is_digit(c) || (colon && c == ':') ? (char)c : '_';
        if (ch == '_' && out->n > 0 && out->p[out->n - 1] == '_')
            continue;
        int r = buffer_add(out, &ch, 1);
        if (r < 0)
            return r;
    }
    return 0;
}

/* Whether `word` (with single '_' inside) stands in the name between '_' or '.' or ends. */
static bool has_word(struct bytes name, struct bytes word)
{
    for (size_t i = 0; word.n > 0 && i + word.n <= name.n; i++) {
        bool begins = i == 0 || name.p[i - 1] == '_' || name.p[i - 1] == '.';
        bool ends = i + word.n == name.n || name.p[i + word.n] == '_' || name.p[i + word.n] == '.';
        if (begins && ends && !memcmp(name.p + i, word.p, word.n))
            return true;
    }
    return false;
}

static void trim_end(struct buffer *out, char c)
{
    while (out->n > 0 && out->p[out->n - 1] == (uint8_t)c)
        out->n--;
}

/* One side of a unit in words: annotations {…} dropped, known units spelled out. */
static int add_unit_word(struct buffer *out, struct bytes unit, bool per)
{
    struct buffer plain = BUFFER_INIT(0);
    int r = 0;
    bool inside = false;
    for (size_t i = 0; r == 0 && i < unit.n; i++) {
        inside |= unit.p[i] == '{';
        if (!inside)
            r = buffer_add(&plain, unit.p + i, 1);
        inside &= unit.p[i] != '}';
    }
    struct bytes word = bytes_trim(buffer_bytes(&plain));
    for (size_t i = 0; i < ARRAY_LEN(unit_words); i++)
        if (bytes_is(word, unit_words[i].unit)) {
            word = bytes_str(per ? unit_words[i].per : unit_words[i].word);
            break;
        }
    if (r == 0)
        r = add_words(out, word, false);
    buffer_release(&plain);
    return r;
}

/* The unit's words: "m/s" is meters_per_second, "{request}/s" per_second, "1" nothing. */
static int unit_suffix(struct bytes unit, struct buffer *out)
{
    const uint8_t *slash = unit.n ? memchr(unit.p, '/', unit.n) : NULL;
    size_t n = slash ? (size_t)(slash - unit.p) : unit.n;
    int r = unit.n == 0 || bytes_is(unit, "1") ? 0 : add_unit_word(out, bytes_of(unit.p, n), false);
    if (r < 0 || !slash)
        return r;
    struct buffer per = BUFFER_INIT(0);
    r = add_unit_word(&per, bytes_of(slash + 1, unit.n - n - 1), true);
    if (r == 0 && per.n > 0)
        r = buffer_printf(out, "%sper_%.*s", out->n ? "_" : "", BYTES_FMT(buffer_bytes(&per)));
    buffer_release(&per);
    return r;
}

static int add_suffix(struct buffer *name, struct bytes suffix)
{
    if (suffix.n == 0 || has_word(buffer_bytes(name), suffix))
        return 0;
    int r = name->n > 0 && name->p[name->n - 1] != '_' ? buffer_add_str(name, "_") : 0;
    return r < 0 ? r : buffer_add_bytes(name, suffix);
}

int prometheus_unit(struct bytes unit, struct buffer *out)
{
    int r = unit_suffix(unit, out);
    trim_end(out, '_');
    return r;
}

static bool escapes(enum prometheus_strategy strategy)
{
    return strategy == PROMETHEUS_UNDERSCORES_WITH_SUFFIXES ||
           strategy == PROMETHEUS_UNDERSCORES_WITHOUT_SUFFIXES;
}

/* The name without suffixes of ours: as it is, or in [a-zA-Z0-9_:]. */
static int add_base(struct buffer *text, struct bytes name, enum prometheus_strategy strategy)
{
    if (!escapes(strategy))
        return buffer_add_bytes(text, name);
    int r = add_words(text, name, true);
    trim_end(text, '_');
    return r;
}

/* `_total` comes behind the unit, wherever the name had it. */
static void cut_total(struct buffer *text)
{
    static const char total[] = "total";
    size_t n = sizeof total - 1;
    if (text->n > n + 1 && !memcmp(text->p + text->n - n, total, n) &&
        (text->p[text->n - n - 1] == '_' || text->p[text->n - n - 1] == '.'))
        text->n -= n + 1;
}

static int add_suffixes(struct buffer *text, struct bytes unit, enum metric_kind kind)
{
    struct buffer words = BUFFER_INIT(0);
    int r = prometheus_unit(unit, &words);
    if (kind == METRIC_SUM)
        cut_total(text);
    if (r == 0)
        r = add_suffix(text, buffer_bytes(&words));
    if (r == 0 && kind == METRIC_GAUGE && bytes_is(unit, "1"))
        r = add_suffix(text, BYTES_LIT("ratio"));
    if (r == 0 && kind == METRIC_SUM)
        r = buffer_add_str(text, "_total");
    buffer_release(&words);
    return r;
}

int prometheus_name(struct bytes name, struct bytes unit, enum metric_kind kind,
                    enum prometheus_strategy strategy, struct buffer *out)
{
    struct buffer text = BUFFER_INIT(0);
    int r = add_base(&text, name, strategy);
    if (r == 0 &&
        (strategy == PROMETHEUS_UNDERSCORES_WITH_SUFFIXES || strategy == PROMETHEUS_UTF8_WITH_SUFFIXES))
        r = add_suffixes(&text, unit, kind);
    /* A name may begin with a digit, and one that was no more than '_' is its unit now: "1/cy" is 1_per_cy.
     */
    if (r == 0 && escapes(strategy) && text.n > 0 && is_digit(text.p[0]))
        r = buffer_add_str(out, "_");
    if (r == 0)
        r = buffer_add_bytes(out, buffer_bytes(&text));
    buffer_release(&text);
    return r;
}

int prometheus_label_name(struct bytes key, enum prometheus_strategy strategy, struct buffer *out)
{
    if (!escapes(strategy) && key.n > 0)
        return buffer_add_bytes(out, key);
    /* Names that begin with "__" are Prometheus' own: a run in front is one. */
    bool underscore = false;
    int r = key.n == 0 || is_digit(key.p[0]) ? buffer_add_str(out, "key_") : 0;
    for (size_t i = 0; r == 0 && i < key.n; i++) {
        char ch = is_alpha(key.p[i]) || is_digit(key.p[i]) ? (char)key.p[i] : '_';
        bool leading = underscore || i == 0;
        if (ch == '_' && leading && underscore)
            continue;
        underscore = leading && ch == '_';
        r = buffer_add(out, &ch, 1);
    }
    return r;
}
