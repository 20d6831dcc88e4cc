/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/json.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "proto/base/macros.h"

static void put(struct json *j, const void *p, size_t n)
{
    if (likely(j->r == 0))
        j->r = buffer_add(j->out, p, n);
}

/* A comma, unless this is the first of its kind. What stands before says so, and no value ends in one of
 * these: texts end in a quote. */
static void separate(struct json *j)
{
    if (j->out->n <= j->from)
        return;
    switch (j->out->p[j->out->n - 1]) {
    case '{':
    case '[':
    case ':':
    case ' ': return; /* behind the colon, if spaced */
    default: put(j, ", ", j->spaced ? 2 : 1);
    }
}

void json_open(struct json *j, char bracket)
{
    separate(j);
    put(j, &bracket, 1);
}

void json_close(struct json *j, char bracket)
{
    put(j, &bracket, 1);
}

static void colon(struct json *j)
{
    put(j, ": ", j->spaced ? 2 : 1);
}

void json_key(struct json *j, const char *name)
{
    separate(j);
    put(j, "\"", 1);
    put(j, name, strlen(name));
    put(j, "\"", 1);
    colon(j);
}

/* U+0080 to U+009F, which terminals obey, in UTF-8. */
static bool is_control(struct bytes text, size_t at)
{
    return text.n - at >= 2 && text.p[at] == 0xc2 && text.p[at + 1] >= 0x80 && text.p[at + 1] < 0xa0;
}

/* Bytes from `at` on that stand in a string as they are. */
static size_t plain(const struct json *j, struct bytes text, size_t at)
{
    size_t i = at;
    while (i < text.n) {
        uint8_t c = text.p[i];
        if (c == '"' || c == '\\' || c < 0x20 || (c == 0x7f && j->spaced))
            break;
        size_t n = c < 0x80 ? 1 : bytes_utf8_length(bytes_of(text.p + i, text.n - i));
        if (n == 0 || (j->spaced && is_control(text, i)))
            break;
        i += n;
    }
    return i - at;
}

static void put_code(struct json *j, uint8_t c)
{
    char escape[8];
    put(j, escape, (size_t)snprintf(escape, sizeof escape, "\\u%04x", c));
}

static void put_escaped(struct json *j, uint8_t c)
{
    if (c == '"' || c == '\\')
        put(j, (char[]){'\\', (char)c}, 2);
    else if (j->spaced && (c == '\n' || c == '\t'))
        put(j, c == '\n' ? "\\n" : "\\t", 2);
    else if (c < 0x80)
        put_code(j, c);
    else if (j->spaced)
        put(j, "\\ufffd", 6);
    else
        put(j, BYTES_REPLACEMENT, 3);
}

void json_string(struct json *j, struct bytes text)
{
    separate(j);
    put(j, "\"", 1);
    for (size_t i = 0; i < text.n && j->r == 0;) {
        size_t n = plain(j, text, i);
        put(j, text.p + i, n);
        i += n;
        if (i < text.n && is_control(text, i)) {
            put_code(j, text.p[i + 1]);
            i += 2;
        } else if (i < text.n) {
            put_escaped(j, text.p[i++]);
        }
    }
    put(j, "\"", 1);
}

void json_string_key(struct json *j, struct bytes text)
{
    json_string(j, text);
    colon(j);
}

void json_raw(struct json *j, struct bytes value)
{
    separate(j);
    put(j, value.p, value.n);
}

static void word(struct json *j, const char *text)
{
    json_raw(j, bytes_str(text));
}

void json_bool(struct json *j, bool v)
{
    word(j, v ? "true" : "false");
}

void json_null(struct json *j)
{
    word(j, "null");
}

void json_u64(struct json *j, uint64_t v)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, v);
    word(j, text);
}

void json_i64(struct json *j, int64_t v)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRId64, v);
    word(j, text);
}

void json_quoted_u64(struct json *j, uint64_t v)
{
    char text[24];
    snprintf(text, sizeof text, "\"%" PRIu64 "\"", v);
    word(j, text);
}

void json_quoted_i64(struct json *j, int64_t v)
{
    char text[24];
    snprintf(text, sizeof text, "\"%" PRId64 "\"", v);
    word(j, text);
}

/* 15 digits of a decimal survive a double (DBL_DIG), so that where fewer do, printing 15 gives those and
 * zeros, which %g leaves out. Not so below DBL_MIN, where a double has fewer digits itself. */
size_t json_double_text(char ret[JSON_DOUBLE_MAX], double v)
{
    int n = 0;
    for (int digits = fabs(v) < DBL_MIN ? 1 : DBL_DIG; digits <= DBL_DECIMAL_DIG; digits++) {
        n = snprintf(ret, JSON_DOUBLE_MAX, "%.*g", digits, v);
        if (strtod(ret, NULL) == v)
            break;
    }
    return (size_t)n;
}

void json_double(struct json *j, double v)
{
    char text[JSON_DOUBLE_MAX];
    if (isnan(v))
        word(j, "\"NaN\"");
    else if (isinf(v))
        word(j, v > 0 ? "\"Infinity\"" : "\"-Infinity\"");
    else
        json_raw(j, bytes_of(text, json_double_text(text, v)));
}
