/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One pass over the pattern, atom by atom. What both dialects write alike and mean alike is copied; the few
 * things that are spelled otherwise (\A, \z, named groups, a slash) are written in the language's spelling;
 * everything else is refused at its place: a conversion is read by a person, who rewrites such a pattern
 * better than a translator does.
 *
 * Go matches characters, the language bytes. That makes a difference only where something stands for
 * characters beyond ASCII: `.`, a negated class, and such a letter itself, which is written as its bytes. The
 * former become "one byte of ASCII, or one whole character of UTF-8" (ANY_BEYOND), unless any number of them
 * may stand there.
 */
#include "gateway/connector/go_regex.h"

#include <string.h>

#define DEPTH_MAX  32u   /* groups inside each other: the language's own bound */
#define REPEAT_MAX 1000u /* of {n,m}: Go's own bound */
#define CANNOT     " cannot be said in the rule language"

/* Any character beyond ASCII, of texts that are UTF-8, as protobuf's strings are (RFC 3629 §4). */
#define ANY_BEYOND "[\\xc2-\\xdf][\\x80-\\xbf]|[\\xe0-\\xef][\\x80-\\xbf]{2}|[\\xf0-\\xf4][\\x80-\\xbf]{3}"

/* The pattern being read. */
struct reader {
    struct bytes s;
    size_t at;
    struct buffer *out;
    struct error *e;
    uint32_t depth;
    bool nocase, newline; /* (?i), (?s) at the very beginning: said for all of it */
    bool repeatable;      /* the last thing can be repeated */
    bool wide_once;       /* `.+` may be said in bytes: no other atom can begin within a character */
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

static bool is_one_of(const char *set, uint8_t c)
{
    return c != '\0' && strchr(set, c);
}

static bool is_alnum(uint8_t c)
{
    return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
}

/* A quantifier at `at`, of the syntax alone; 0 if there is none. */
static size_t quantifier_length(struct bytes s, size_t at)
{
    if (at >= s.n)
        return 0;
    if (is_one_of("*+?", s.p[at]))
        return 1;
    if (s.p[at] != '{')
        return 0;
    size_t i = at + 1, digits = 0;
    for (; i < s.n && s.p[i] >= '0' && s.p[i] <= '9'; i++)
        digits++;
    if (digits == 0)
        return 0;
    if (i < s.n && s.p[i] == ',')
        for (i++; i < s.n && s.p[i] >= '0' && s.p[i] <= '9';)
            i++;
    return i < s.n && s.p[i] == '}' ? i + 1 - at : 0;
}

/* Whether what follows lets any number of them stand, so that bytes do as well as characters. */
static bool any_number_follows(const struct reader *r)
{
    return r->at < r->s.n && (r->s.p[r->at] == '*' || (r->s.p[r->at] == '+' && r->wide_once));
}

/* One atom at most that stands for more than ASCII, and no group repeated. A guess on the safe side, by the
 * marks. */
static bool is_wide_once(struct bytes s)
{
    uint32_t wide = 0;
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] == '\\' && i + 1 < s.n)
            wide += is_one_of("DSW", s.p[++i]);
        else
            wide += s.p[i] == ')' ? 2 * (quantifier_length(s, i + 1) > 0) : s.p[i] == '.' || s.p[i] == '[';
    }
    return wide <= 1;
}

/* ---- what is written ----------------------------------------------------------------------- */

static int put(struct reader *r, const char *text)
{
    r->repeatable = true;
    return buffer_add_str(r->out, text);
}

static int put_byte(struct reader *r, uint8_t c)
{
    r->repeatable = true;
    if (is_one_of("\\.+*?()|[]{}^$/", c))
        return buffer_printf(r->out, "\\%c", c);
    return c >= 0x20 && c < 0x7f ? buffer_printf(r->out, "%c", c) : buffer_printf(r->out, "\\x%02x", c);
}

/* A place, not a text: PCRE2 repeats it only as a group. */
static int put_anchor(struct reader *r, const char *anchor)
{
    r->repeatable = true;
    return buffer_printf(r->out, quantifier_length(r->s, r->at) > 0 ? "(?:%s)" : "%s", anchor);
}

/* All of ASCII but what `not` says, and every character beyond it. */
static int put_wide(struct reader *r, const char * not )
{
    r->repeatable = true;
    return any_number_follows(r) ? buffer_printf(r->out, "[^%s]", not )
                                 : buffer_printf(r->out, "(?:[^%s\\x80-\\xff]|" ANY_BEYOND ")", not );
}

/* ---- what is read -------------------------------------------------------------------------- */

/* Bytes of the UTF-8 character at the reader's place; 0: it is none. */
static size_t character_length(const struct reader *r)
{
    return bytes_utf8_length(bytes_from(r->s, r->at));
}

static int read_character(struct reader *r)
{
    size_t from = r->at;
    size_t n = character_length(r);
    if (n == 0)
        return refuse(r, from, "not UTF-8");
    r->at += n;
    if (n == 1)
        return put_byte(r, r->s.p[from]);
    if (r->nocase)
        return refuse(r, from, "(?i) with a letter beyond ASCII" CANNOT);
    bool repeated = quantifier_length(r->s, r->at) > 0;
    int e = put(r, repeated ? "(?:" : "");
    for (size_t i = 0; i < n && e == 0; i++)
        e = buffer_printf(r->out, "\\x%02x", r->s.p[from + i]);
    return e == 0 && repeated ? put(r, ")") : e;
}

/* An escape that stands for one character of ASCII, at the backslash. 0 and the character, or refused. */
static int read_escaped(struct reader *r, uint8_t *ret)
{
    static const char letters[] = "afnrtv", means[] = "\a\f\n\r\t\v";
    size_t from = r->at;
    if (from + 1 >= r->s.n)
        return refuse(r, from, "a backslash at the end escapes nothing");
    uint8_t c = r->s.p[from + 1];
    r->at += 2;
    *ret = c;
    if (is_one_of("pP", c))
        return refuse(r, from, "Unicode's classes of letters: that" CANNOT);
    if (c >= 0x80 || (c >= '0' && c <= '9') || c == 'Q')
        return refuse(r, from, "no escape of Go, or one that" CANNOT);
    if (is_one_of(letters, c)) {
        *ret = (uint8_t)means[strchr(letters, c) - letters];
    } else if (c == 'x') {
        int high = r->at < r->s.n ? bytes_hex_value(r->s.p[r->at]) : -1;
        int low = r->at + 1 < r->s.n ? bytes_hex_value(r->s.p[r->at + 1]) : -1;
        if (high < 0 || low < 0 || high > 7)
            return refuse(r, from, "no escape of Go, or one that" CANNOT);
        *ret = (uint8_t)(high << 4 | low);
        r->at += 2;
    } else if (is_alnum(c)) {
        return refuse(r, from, "no escape of Go");
    }
    return 0;
}

/* \s of Go has no vertical tab. */
#define SPACE "\\t\\n\\f\\r\\x20"

static int read_escape(struct reader *r)
{
    size_t from = r->at;
    uint8_t c = from + 1 < r->s.n ? r->s.p[from + 1] : '\0';
    if (c == 'B')
        return refuse(r, from, "\\B, between characters there and bytes here," CANNOT);
    if (!is_one_of("AzbdwsDWS", c)) {
        int e = read_escaped(r, &c);
        return e == 0 ? put_byte(r, c) : e;
    }
    r->at += 2;
    switch (c) {
    case 'A': return put_anchor(r, "^");
    case 'z': return put_anchor(r, "$");
    case 'b': return put_anchor(r, "\\b");
    case 'd': return put(r, "\\d");
    case 'w': return put(r, "\\w");
    case 's': return put(r, "[" SPACE "]");
    case 'D': return put_wide(r, "\\d");
    case 'W': return put_wide(r, "\\w");
    default: return put_wide(r, SPACE);
    }
}

/* ---- classes */

/* [:name:] at the reader's place, both dialects' names. */
static size_t posix_length(const struct reader *r)
{
    static const char *const names[] = {"alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph",
                                        "lower", "print", "punct", "space", "upper", "word",  "xdigit"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t n = strlen(names[i]);
        if (r->s.n - r->at >= n + 4 && memcmp(r->s.p + r->at + 2, names[i], n) == 0 &&
            memcmp(r->s.p + r->at + 2 + n, ":]", 2) == 0)
            return n + 4;
    }
    return 0;
}

/* One end of a range, or a character by itself. */
static int read_member(struct reader *r, uint8_t *ret)
{
    size_t from = r->at;
    if (r->s.p[from] == '\\')
        return read_escaped(r, ret);
    size_t n = character_length(r);
    if (n != 1)
        return refuse(r, from, n == 0 ? "not UTF-8" : "a class with letters beyond ASCII" CANNOT);
    *ret = r->s.p[r->at++];
    return 0;
}

static int put_member(struct buffer *out, uint8_t c)
{
    return is_alnum(c) || c == '_' ? buffer_printf(out, "%c", c) : buffer_printf(out, "\\x%02x", c);
}

/* A character or a range; a - at the end of a class is one. */
static int read_range(struct reader *r, struct buffer *set)
{
    size_t from = r->at;
    uint8_t low, high;
    int e = read_member(r, &low);
    if (e != 0)
        return e;
    high = low;
    if (r->at + 1 < r->s.n && r->s.p[r->at] == '-' && r->s.p[r->at + 1] != ']') {
        r->at++;
        e = read_member(r, &high);
        if (e == 0 && high < low)
            e = refuse(r, from, "a range that ends before it begins");
        if (e != 0)
            return e;
    }
    e = put_member(set, low);
    if (e == 0 && high != low)
        e = buffer_add_str(set, "-");
    return e == 0 && high != low ? put_member(set, high) : e;
}

static int read_item(struct reader *r, struct buffer *set)
{
    uint8_t next = r->at + 1 < r->s.n ? r->s.p[r->at + 1] : '\0';
    if (r->s.p[r->at] == '\\' && is_one_of("dDsSwW", next)) {
        if (is_one_of("DSW", next))
            return refuse(r, r->at, "a negation inside a class" CANNOT);
        r->at += 2;
        return buffer_add_str(set, next == 'd' ? "\\d" : next == 'w' ? "\\w" : SPACE);
    }
    if (starts(r, "[:")) {
        size_t n = posix_length(r), from = r->at;
        r->at += n;
        return n ? buffer_add(set, r->s.p + from, n) : refuse(r, from, "no class of Go, or one that" CANNOT);
    }
    return read_range(r, set);
}

static int read_class(struct reader *r)
{
    size_t from = r->at++, items = 0;
    bool negated = starts(r, "^");
    cleanup(buffer_release) struct buffer set = {0};
    int e = 0;
    r->at += negated;
    for (; e == 0 && r->at < r->s.n && (items == 0 || r->s.p[r->at] != ']'); items++)
        e = read_item(r, &set);
    if (e == 0 && r->at >= r->s.n)
        e = refuse(r, from, "a class is not closed");
    r->at += e == 0;
    if (e == 0)
        e = buffer_add(&set, "", 1); /* as a string */
    if (e == 0)
        e = negated ? put_wide(r, (const char *)set.p) : buffer_printf(r->out, "[%s]", (const char *)set.p);
    r->repeatable = true;
    return e;
}

/* ---- groups and repetition */

static int read_quantifier(struct reader *r)
{
    size_t from = r->at, n = quantifier_length(r->s, from);
    if (!r->repeatable)
        return refuse(r, from, "nothing stands before this to be repeated");
    r->at += n;
    unsigned long number[2] = {0, 0}, numbers = 0;
    for (size_t i = from + 1; n > 1 && i + 1 < r->at; i++) {
        if (r->s.p[i] == ',')
            numbers = 1;
        else if (number[numbers] <= REPEAT_MAX)
            number[numbers] = number[numbers] * 10 + (unsigned long)(r->s.p[i] - '0');
    }
    bool bounded = numbers == 1 && r->s.p[r->at - 2] != ',';
    if (number[0] > REPEAT_MAX || number[1] > REPEAT_MAX || (bounded && number[1] < number[0]))
        return refuse(r, from, "not a count that Go takes");
    int e = buffer_add(r->out, r->s.p + from, n);
    if (r->at < r->s.n && r->s.p[r->at] == '?') /* lazy: the same texts are found */
        r->at++;
    return quantifier_length(r->s, r->at) > 0 ? refuse(r, r->at, "a repetition cannot be repeated") : e;
}

/* (?flags) at the very beginning, where they are for all of it. */
static int read_flags(struct reader *r)
{
    size_t from = r->at;
    for (r->at += 2; r->at < r->s.n && is_one_of("isU", r->s.p[r->at]); r->at++) {
        r->nocase |= r->s.p[r->at] == 'i';
        r->newline |= r->s.p[r->at] == 's'; /* U turns greed around: the same texts are found */
    }
    if (r->at == from + 2 || !starts(r, ")"))
        return refuse(r, from, "no group of Go, or one that" CANNOT);
    r->at++;
    return quantifier_length(r->s, r->at) > 0 ? refuse(r, r->at, "a repetition behind flags" CANNOT) : 0;
}

static int read_group(struct reader *r)
{
    size_t from = r->at++;
    if (starts(r, "?P<") || starts(r, "?<")) {
        r->at += starts(r, "?P<") ? 3 : 2;
        size_t name = r->at;
        while (r->at < r->s.n && (r->s.p[r->at] == '_' || is_alnum(r->s.p[r->at])))
            r->at++;
        if (r->at == name || !starts(r, ">"))
            return refuse(r, from, "no group of Go, or one that" CANNOT);
        r->at++;
    } else if (starts(r, "?:")) {
        r->at += 2;
    } else if (starts(r, "?")) {
        return refuse(r, from, "flags for a part, or (?m)," CANNOT);
    }
    if (r->depth++ == DEPTH_MAX)
        return refuse(r, from, "more than 32 groups inside each other");
    int e = put(r, "(?:");
    r->repeatable = false;
    return e;
}

static int read_dot(struct reader *r)
{
    if (!any_number_follows(r))
        return r->newline ? put(r, "(?:[\\x00-\\x7f]|" ANY_BEYOND ")") : put_wide(r, "\\n");
    return put(r, r->newline ? "[\\x00-\\xff]" : ".");
}

static int read_one(struct reader *r)
{
    int e;
    switch (r->s.p[r->at]) {
    case '\\': return read_escape(r);
    case '[': return read_class(r);
    case '(': return read_group(r);
    case '.': r->at++; return read_dot(r);
    case '^':
    case '$': r->at++; return put_anchor(r, r->s.p[r->at - 1] == '^' ? "^" : "$");
    case '|':
        r->at++;
        e = put(r, "|");
        r->repeatable = false;
        return e;
    case ')':
        if (r->depth == 0)
            return refuse(r, r->at, "this closes no group");
        r->depth--;
        r->at++;
        return put(r, ")");
    default: return quantifier_length(r->s, r->at) > 0 ? read_quantifier(r) : read_character(r);
    }
}

int regex_from_go(struct bytes pattern, struct buffer *out, bool *ret_nocase, size_t *ret_at, struct error *e)
{
    struct reader r = {.s = pattern, .out = out, .e = e, .wide_once = is_wide_once(pattern)};
    int result = 0;
    while (result == 0 && starts(&r, "(?") && r.at + 2 < r.s.n && is_one_of("isU", r.s.p[r.at + 2]))
        result = read_flags(&r);
    while (result == 0 && r.at < r.s.n)
        result = read_one(&r);
    if (result == 0 && r.depth > 0)
        result = refuse(&r, r.s.n, "a group is not closed");
    if (result == 0 && out->n == 0) /* flags and nothing else: found everywhere */
        result = put(&r, "^");
    *ret_nocase = r.nocase;
    *ret_at = r.at;
    return result;
}
