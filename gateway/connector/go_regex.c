/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/connector/go_regex.h"

#include <errno.h>
#include <string.h>

#include "gateway/connector/go_regex_class.h"

#define DEPTH_MAX  32u   /* groups inside each other: the language's own bound */
#define REPEAT_MAX 1000u /* of {n,m}: Go's own bound */

enum { FLAG_I = 1, FLAG_M = 2, FLAG_S = 4 };

/* The pattern being read. `wide_once`: `.+` may be said in bytes, because no other atom can begin in the
 * middle of a character. */
struct reader {
    struct bytes s;
    size_t at;
    struct buffer *out;
    struct error *e;
    uint8_t flags[DEPTH_MAX + 1];
    uint32_t depth;
    bool nocase;     /* said for all of it, by `i` behind the slashes */
    bool repeatable; /* the last thing can be repeated */
    bool wide_once;
};

static int refuse(struct reader *r, size_t at, const char *what)
{
    r->at = at;
    error_set(r->e, 0, "%s", what);
    return GO_REGEX_REFUSED;
}

static bool starts(const struct reader *r, const char *text)
{
    return bytes_starts(bytes_of(r->s.p + r->at, r->s.n - r->at), text);
}

static bool folds(const struct reader *r)
{
    return (r->flags[r->depth] & FLAG_I) != 0;
}

/* ---- what is written */

static int put(struct reader *r, const char *text)
{
    return buffer_add_str(r->out, text);
}

/* A quantifier at `at`, of the syntax alone; 0 if there is none. */
static size_t quantifier_length(struct bytes s, size_t at)
{
    if (at >= s.n)
        return 0;
    if (strchr("*+?", s.p[at]) && s.p[at] != '\0')
        return 1;
    if (s.p[at] != '{')
        return 0;
    size_t i = at + 1, digits = 0;
    while (i < s.n && s.p[i] >= '0' && s.p[i] <= '9') {
        i++;
        digits++;
    }
    if (digits == 0)
        return 0;
    if (i < s.n && s.p[i] == ',')
        for (i++; i < s.n && s.p[i] >= '0' && s.p[i] <= '9';)
            i++;
    return i < s.n && s.p[i] == '}' ? i + 1 - at : 0;
}

static int put_byte(struct reader *r, uint8_t c)
{
    if (strchr("\\.+*?()|[]{}^$/", c) && c != '\0')
        return buffer_printf(r->out, "\\%c", c);
    return c >= 0x20 && c < 0x7f ? buffer_printf(r->out, "%c", c) : buffer_printf(r->out, "\\x%02x", c);
}

static int put_character(struct reader *r, size_t from, uint32_t c)
{
    int e = 0;
    r->repeatable = true;
    if (c < 0x80) {
        uint32_t other = c ^ 0x20;
        bool letter = (c | 0x20) >= 'a' && (c | 0x20) <= 'z';
        return letter && folds(r) && !r->nocase ? buffer_printf(r->out, "[%c%c]", (char)c, (char)other)
                                                : put_byte(r, (uint8_t)c);
    }
    if (folds(r))
        return refuse(r, from, "(?i) with a letter beyond ASCII cannot be said in the rule language");
    uint8_t utf8[4];
    uint32_t n = go_class_utf8(c, utf8);
    bool repeated = quantifier_length(r->s, r->at) > 0;
    if (repeated)
        e = put(r, "(?:");
    for (uint32_t i = 0; i < n && e == 0; i++)
        e = buffer_printf(r->out, "\\x%02x", utf8[i]);
    return e == 0 && repeated ? put(r, ")") : e;
}

/* Whether what follows lets any number of them stand, so that bytes do as well as characters. */
static bool any_number_follows(const struct reader *r)
{
    if (r->at >= r->s.n)
        return false;
    return r->s.p[r->at] == '*' || (r->s.p[r->at] == '+' && r->wide_once);
}

static int put_class(struct reader *r, const struct go_class *c)
{
    r->repeatable = true;
    return go_class_write(c, any_number_follows(r), r->out);
}

/* A place, not a text: PCRE2 repeats it only as a group. */
static int put_anchor(struct reader *r, const char *anchor)
{
    r->repeatable = true;
    return quantifier_length(r->s, r->at) > 0 ? buffer_printf(r->out, "(?:%s)", anchor) : put(r, anchor);
}

/* ---- what is read */

static int read_escape(struct reader *r)
{
    size_t from = r->at;
    if (starts(r, "\\Q")) {
        const uint8_t *end = memmem(r->s.p + from, r->s.n - from, "\\E", 2);
        size_t to = end ? (size_t)(end - r->s.p) : r->s.n;
        for (r->at += 2; r->at < to;) {
            uint32_t c;
            size_t place = r->at;
            if (go_class_character(r->s, &r->at, &c) != 0)
                return refuse(r, place, "not UTF-8");
            size_t next = r->at;
            r->at = next == to && end ? next + 2 : next; /* a quantifier behind \E is the last one's */
            int e = put_character(r, place, c);
            if (e != 0)
                return e;
            r->at = next;
        }
        r->at = end ? to + 2 : to;
        if (to == from + 2 && quantifier_length(r->s, r->at) > 0)
            return refuse(r, r->at, "a repetition behind \\Q\\E cannot be said in the rule language");
        return 0;
    }
    char next = from + 1 < r->s.n ? (char)r->s.p[from + 1] : '\0';
    if (next == 'B')
        return refuse(r, from,
                      "\\B, between characters there and bytes here, cannot be said in the rule language");
    if (next != '\0' && strchr("Azb", next)) {
        r->at += 2;
        return put_anchor(r, next == 'A' ? "^" : next == 'z' ? "$" : "\\b");
    }
    if (next != '\0' && strchr("dDsSwW", next)) {
        struct go_class c = {{0}};
        r->at += 2;
        go_class_perl(&c, next);
        return put_class(r, &c);
    }
    uint32_t c;
    const char *wrong = go_class_escape(r->s, &r->at, &c);
    return wrong ? refuse(r, from, wrong) : put_character(r, from, c);
}

static int read_class(struct reader *r)
{
    struct go_class c = {{0}};
    size_t from = r->at;
    const char *wrong = go_class_read(r->s, &r->at, folds(r), &c);
    return wrong ? refuse(r, from, wrong) : put_class(r, &c);
}

static int read_quantifier(struct reader *r)
{
    size_t from = r->at, n = quantifier_length(r->s, from);
    if (!r->repeatable)
        return refuse(r, from, "nothing stands before this to be repeated");
    r->at += n;
    if (n > 1) {
        unsigned long low = 0, high = 0, *number = &low;
        for (size_t i = from + 1; i + 1 < r->at; i++) {
            if (r->s.p[i] == ',')
                number = &high;
            else if (*number <= REPEAT_MAX)
                *number = *number * 10 + (unsigned long)(r->s.p[i] - '0');
        }
        bool open = number == &high && r->s.p[r->at - 2] == ',';
        if (low > REPEAT_MAX || high > REPEAT_MAX || (number == &high && !open && high < low))
            return refuse(r, from, "not a count that Go takes");
    }
    int e = buffer_add(r->out, r->s.p + from, n);
    if (r->at < r->s.n && r->s.p[r->at] == '?') /* lazy: the same texts are found */
        r->at++;
    if (quantifier_length(r->s, r->at) > 0)
        return refuse(r, r->at, "a repetition cannot be repeated");
    return e;
}

static uint8_t flag_of(char c)
{
    return c == 'i' ? FLAG_I : c == 'm' ? FLAG_M : c == 's' ? FLAG_S : 0;
}

/* (?flags) and (?flags:, at the letter behind the question mark. */
static int read_flags(struct reader *r, size_t from)
{
    uint8_t flags = r->flags[r->depth], one;
    bool off = false, any = false;
    for (; r->at < r->s.n; r->at++) {
        char c = (char)r->s.p[r->at];
        if (c == '-' && !off) {
            off = true;
            any = false;
        } else if ((one = flag_of(c)) != 0 || c == 'U') { /* U turns greed around: the same texts are found */
            flags = off ? (uint8_t)(flags & ~one) : flags | one;
            any = true;
        } else {
            break;
        }
    }
    char end = r->at < r->s.n ? (char)r->s.p[r->at] : '\0';
    if ((end != ')' && end != ':') || (off && !any))
        return refuse(r, from, "no group of Go begins like this");
    r->at++;
    if (end == ')') {
        if (from == 0 && (flags & FLAG_I))
            r->nocase = true;
        else if (r->nocase && !(flags & FLAG_I))
            return refuse(r, from,
                          "(?i) for a part of what (?i) was said for cannot be said in the rule language");
        r->flags[r->depth] = flags;
        if (quantifier_length(r->s, r->at) > 0) /* Go repeats what stands before the flags */
            return refuse(r, r->at, "a repetition behind flags cannot be said in the rule language");
        return 0;
    }
    if (r->nocase && !(flags & FLAG_I))
        return refuse(r, from,
                      "(?i) for a part of what (?i) was said for cannot be said in the rule language");
    if (r->depth == DEPTH_MAX)
        return refuse(r, from, "more than 32 groups inside each other");
    r->flags[++r->depth] = flags;
    r->repeatable = false;
    return put(r, "(?:");
}

static int read_group(struct reader *r)
{
    size_t from = r->at++;
    uint8_t flags = r->flags[r->depth];
    if (starts(r, "?P<") || starts(r, "?<")) {
        r->at += starts(r, "?P<") ? 3 : 2;
        size_t name = r->at;
        while (r->at < r->s.n && (r->s.p[r->at] == '_' || go_class_is_alnum(r->s.p[r->at])))
            r->at++;
        if (r->at == name || r->at >= r->s.n || r->s.p[r->at] != '>')
            return refuse(r, from, "no group of Go begins like this");
        r->at++;
    } else if (starts(r, "?")) {
        r->at++;
        return read_flags(r, from);
    }
    if (r->depth == DEPTH_MAX)
        return refuse(r, from, "more than 32 groups inside each other");
    r->flags[++r->depth] = flags;
    r->repeatable = false;
    return put(r, "(?:");
}

static int read_anchor(struct reader *r)
{
    if (r->flags[r->depth] & FLAG_M)
        return refuse(r, r->at, "(?m): beginnings and ends of lines cannot be said in the rule language");
    return put_anchor(r, r->s.p[r->at++] == '^' ? "^" : "$");
}

static int read_dot(struct reader *r)
{
    struct go_class c = {{0}};
    go_class_any(&c, (r->flags[r->depth] & FLAG_S) != 0);
    r->at++;
    return put_class(r, &c);
}

static int read_one(struct reader *r)
{
    uint32_t c;
    size_t from = r->at;
    switch (r->s.p[r->at]) {
    case '\\': return read_escape(r);
    case '[': return read_class(r);
    case '(': return read_group(r);
    case '.': return read_dot(r);
    case '^':
    case '$': return read_anchor(r);
    case '|':
        r->at++;
        r->repeatable = false;
        return put(r, "|");
    case ')':
        if (r->depth == 0)
            return refuse(r, r->at, "this closes no group");
        r->depth--;
        r->at++;
        r->repeatable = true;
        return put(r, ")");
    default: break;
    }
    if (quantifier_length(r->s, r->at) > 0)
        return read_quantifier(r);
    if (go_class_character(r->s, &r->at, &c) != 0)
        return refuse(r, from, "not UTF-8");
    return put_character(r, from, c);
}

/* One atom at most that stands for more than ASCII, and no group repeated. A guess on the safe side, by the
 * marks. */
static bool is_wide_once(struct bytes s)
{
    uint32_t wide = 0;
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] == '\\' && i + 1 < s.n)
            wide += strchr("DSW", s.p[++i]) != NULL;
        else
            wide += s.p[i] == ')' ? 2 * (quantifier_length(s, i + 1) > 0) : s.p[i] == '.' || s.p[i] == '[';
    }
    return wide <= 1;
}

int regex_from_go(struct bytes pattern, struct buffer *out, bool *ret_nocase, size_t *ret_at, struct error *e)
{
    struct reader r = {.s = pattern, .out = out, .e = e, .wide_once = is_wide_once(pattern)};
    int result = 0;
    while (result == 0 && r.at < r.s.n)
        result = read_one(&r);
    if (result == 0 && r.depth > 0)
        result = refuse(&r, r.s.n, "a group is not closed");
    if (result == 0 && out->n == 0) /* (?s) and nothing else: found everywhere */
        result = put(&r, "^");
    *ret_nocase = r.nocase;
    *ret_at = r.at;
    return result;
}
