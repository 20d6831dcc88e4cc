/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/connector/go_regex_class.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#define CHARACTER_MAX 0x10ffffu
#define NO_ESCAPE     "no escape of Go"
#define BEYOND        "of letters beyond ASCII a class can name some, not a range and not all but some"

/* Any character beyond ASCII, of texts that are UTF-8, as protobuf's strings are (RFC 3629 §4). */
#define ANY_BEYOND "[\\xc2-\\xdf][\\x80-\\xbf]|[\\xe0-\\xef][\\x80-\\xbf]{2}|[\\xf0-\\xf4][\\x80-\\xbf]{3}"

bool go_class_is_alnum(uint8_t c)
{
    return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
}

int go_class_character(struct bytes s, size_t *at, uint32_t *ret)
{
    static const uint32_t least[] = {0, 0x80, 0x800, 0x10000};
    uint8_t first = s.p[*at];
    uint32_t more = first < 0x80   ? 0
                    : first < 0xc0 ? 4
                    : first < 0xe0 ? 1
                    : first < 0xf0 ? 2
                    : first < 0xf8 ? 3
                                   : 4;
    if (more == 4 || s.n - *at <= more)
        return -EILSEQ;
    uint32_t c = more == 0 ? first : first & (0x3fu >> more);
    for (uint32_t i = 1; i <= more; i++) {
        if ((s.p[*at + i] & 0xc0) != 0x80)
            return -EILSEQ;
        c = c << 6 | (s.p[*at + i] & 0x3f);
    }
    if (c < least[more] || c > CHARACTER_MAX || (c >= 0xd800 && c < 0xe000))
        return -EILSEQ;
    *at += more + 1;
    *ret = c;
    return 0;
}

uint32_t go_class_utf8(uint32_t c, uint8_t out[4])
{
    uint32_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const uint8_t mark[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (uint32_t i = n; i-- > 1; c >>= 6)
        out[i] = (uint8_t)(0x80 | (c & 0x3f));
    out[0] = (uint8_t)(mark[n] | c);
    return n;
}

static int hex(uint8_t c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* \xHH and \x{…}, at the letter x. */
static const char *hexadecimal(struct bytes s, size_t *at, uint32_t *ret)
{
    bool braces = *at + 1 < s.n && s.p[*at + 1] == '{';
    size_t i = *at + 1 + braces, most = braces ? s.n : i + 2, digits = 0;
    uint32_t c = 0;
    for (; i < s.n && i < most && hex(s.p[i]) >= 0; i++, digits++) {
        c = c * 16 + (uint32_t)hex(s.p[i]);
        if (c > CHARACTER_MAX)
            return NO_ESCAPE;
    }
    if (braces ? digits == 0 || i >= s.n || s.p[i] != '}' : digits != 2)
        return NO_ESCAPE;
    if (c >= 0xd800 && c < 0xe000)
        return NO_ESCAPE;
    *at = i + braces;
    *ret = c;
    return NULL;
}

const char *go_class_escape(struct bytes s, size_t *at, uint32_t *ret)
{
    static const char letters[] = "aftnrv", controls[] = "\a\f\t\n\r\v";
    size_t i = *at + 1;
    if (i >= s.n)
        return "a backslash at the end escapes nothing";
    uint8_t c = s.p[i];
    if (c == 'p' || c == 'P')
        return "Unicode's classes cannot be said in the rule language";
    if (c == 'x') {
        *at = i;
        return hexadecimal(s, at, ret);
    }
    if (c >= '0' && c <= '7') {
        bool octal = c == '0' || (i + 1 < s.n && s.p[i + 1] >= '0' && s.p[i + 1] <= '7');
        if (!octal)
            return "Go has no back-references";
        uint32_t value = 0;
        for (size_t end = i + 3; i < end && i < s.n && s.p[i] >= '0' && s.p[i] <= '7'; i++)
            value = value * 8 + (uint32_t)(s.p[i] - '0');
        *at = i;
        *ret = value;
        return NULL;
    }
    const char *letter = strchr(letters, c);
    if (letter && c != '\0') {
        *ret = (uint32_t)controls[letter - letters];
    } else if (c < 0x80 && !go_class_is_alnum(c)) {
        *ret = c;
    } else {
        return NO_ESCAPE;
    }
    *at = i + 1;
    return NULL;
}

/* ---- sets */

static void add_range(struct go_class *c, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i <= to && i < 0x80; i++)
        c->ascii[i / 64] |= 1ull << (i % 64);
}

static bool has(const struct go_class *c, uint32_t i)
{
    return (c->ascii[i / 64] >> (i % 64) & 1) != 0;
}

static void invert_ascii(struct go_class *c)
{
    c->ascii[0] = ~c->ascii[0];
    c->ascii[1] = ~c->ascii[1];
}

static void add_class(struct go_class *c, struct go_class part, bool negated)
{
    if (negated)
        invert_ascii(&part);
    c->ascii[0] |= part.ascii[0];
    c->ascii[1] |= part.ascii[1];
    c->rest |= negated;
}

static void add_characters(struct go_class *c, const char *text)
{
    for (; *text; text++)
        add_range(c, (uint8_t)*text, (uint8_t)*text);
}

void go_class_perl(struct go_class *c, char letter)
{
    struct go_class part = {{0}};
    char kind = (char)(letter | 0x20);
    if (kind == 's') {
        add_characters(&part, "\t\n\f\r ");
    } else {
        add_range(&part, '0', '9');
        if (kind == 'w') {
            add_range(&part, 'a', 'z');
            add_range(&part, 'A', 'Z');
            add_characters(&part, "_");
        }
    }
    add_class(c, part, letter != kind);
}

void go_class_any(struct go_class *c, bool newline)
{
    add_range(c, 0, 0x7f);
    if (!newline)
        c->ascii[0] &= ~(1ull << '\n');
    c->rest = true;
}

/* [:name:] and [:^name:] inside a class; false if there is none of that name. */
static bool add_posix(struct bytes name, struct go_class *c)
{
    static const struct {
        const char *name, *ranges;
    } classes[] = {{"alnum", "09AZaz"},  {"alpha", "AZaz"},     {"ascii", NULL},     {"blank", "\t\t  "},
                   {"cntrl", NULL},      {"digit", "09"},       {"graph", "!~"},     {"lower", "az"},
                   {"print", " ~"},      {"punct", "!/:@[`{~"}, {"space", "\t\r  "}, {"upper", "AZ"},
                   {"word", "09AZaz__"}, {"xdigit", "09AFaf"}};
    bool negated = name.n > 0 && name.p[0] == '^';
    name = bytes_of(name.p + negated, name.n - negated);
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
        if (!bytes_is(name, classes[i].name))
            continue;
        struct go_class part = {{0}};
        if (classes[i].ranges) {
            for (const char *p = classes[i].ranges; *p; p += 2)
                add_range(&part, (uint8_t)p[0], (uint8_t)p[1]);
        } else {
            add_range(&part, 0, strcmp(classes[i].name, "ascii") == 0 ? 0x7f : 0x1f);
            add_range(&part, 0x7f, 0x7f);
        }
        add_class(c, part, negated);
        return true;
    }
    return false;
}

static void fold(struct go_class *c)
{
    for (uint32_t i = 'a'; i <= 'z'; i++) {
        if (has(c, i) || has(c, i - 0x20)) {
            add_range(c, i, i);
            add_range(c, i - 0x20, i - 0x20);
        }
    }
}

/* One end of a range. */
static const char *read_end(struct bytes s, size_t *at, uint32_t *ret)
{
    if (*at >= s.n)
        return "a class is not closed";
    if (s.p[*at] == '\\')
        return go_class_escape(s, at, ret);
    return go_class_character(s, at, ret) == 0 ? NULL : "not UTF-8";
}

/* A character or a range. */
static const char *read_range(struct bytes s, size_t *at, struct go_class *c)
{
    uint32_t from, to;
    const char *wrong = read_end(s, at, &from);
    if (wrong)
        return wrong;
    to = from;
    if (*at + 1 < s.n && s.p[*at] == '-' && s.p[*at + 1] != ']') {
        ++*at;
        wrong = read_end(s, at, &to);
        if (wrong)
            return wrong;
        if (to < from)
            return "a range that ends before it begins";
    }
    add_range(c, from, to);
    if (to < 0x80 || c->rest)
        return NULL;
    if (from <= 0x80 && to == CHARACTER_MAX) {
        c->rest = true;
        return NULL;
    }
    if (from != to || c->n == GO_CLASS_CHARACTERS)
        return BEYOND;
    c->character[c->n++] = from;
    return NULL;
}

/* What may stand in a class: [:name:], \d and its like, a character or a range. */
static const char *read_item(struct bytes s, size_t *at, struct go_class *c)
{
    struct bytes rest = bytes_of(s.p + *at, s.n - *at);
    if (bytes_starts(rest, "[:")) {
        const uint8_t *end = memmem(rest.p + 2, rest.n - 2, ":]", 2);
        if (end && !add_posix(bytes_of(rest.p + 2, (size_t)(end - rest.p) - 2), c))
            return "no class of Go has this name";
        if (end) {
            *at += (size_t)(end - rest.p) + 2;
            return NULL;
        }
    }
    if (rest.n > 1 && rest.p[0] == '\\' && rest.p[1] != '\0' && strchr("dDsSwW", rest.p[1])) {
        go_class_perl(c, (char)rest.p[1]);
        *at += 2;
        return NULL;
    }
    return read_range(s, at, c);
}

const char *go_class_read(struct bytes s, size_t *at, bool folds, struct go_class *c)
{
    size_t i = *at + 1;
    bool negated = i < s.n && s.p[i] == '^';
    i += negated;
    for (bool first = true; first || i >= s.n || s.p[i] != ']'; first = false) {
        if (i >= s.n)
            return "a class is not closed";
        const char *wrong = read_item(s, &i, c);
        if (wrong)
            return wrong;
    }
    *at = i + 1;
    if (c->n > 0 && !c->rest && (negated || folds))
        return folds ? "(?i) with a letter beyond ASCII cannot be said in the rule language" : BEYOND;
    if (folds)
        fold(c);
    if (negated) {
        invert_ascii(c);
        c->rest = !c->rest;
    }
    return NULL;
}

static int write_byte(uint32_t i, struct buffer *out)
{
    if (i == '\\' || i == ']' || i == '[' || i == '^' || i == '-' || i == '/')
        return buffer_printf(out, "\\%c", (char)i);
    return i > 0x20 && i < 0x7f ? buffer_printf(out, "%c", (char)i) : buffer_printf(out, "\\x%02x", i);
}

/* The ASCII members as ranges. */
static int write_ranges(const struct go_class *c, struct buffer *out)
{
    int r = 0;
    for (uint32_t i = 0, end; i < 0x80 && r == 0; i = end + 1) {
        end = i;
        if (!has(c, i))
            continue;
        while (end + 1 < 0x80 && has(c, end + 1))
            end++;
        r = write_byte(i, out);
        if (r == 0 && end > i + 1)
            r = buffer_add_str(out, "-");
        if (r == 0 && end > i)
            r = write_byte(end, out);
    }
    return r;
}

static uint32_t members(const struct go_class *c)
{
    return (uint32_t)(__builtin_popcountll(c->ascii[0]) + __builtin_popcountll(c->ascii[1]));
}

/* The set of bytes, [ … ] or [^ … ] or a dot, whichever is shorter to read. */
static int write_bytes(const struct go_class *c, bool beyond, struct buffer *out)
{
    struct go_class others = *c;
    invert_ascii(&others);
    if (beyond && members(&others) == 1 && has(&others, '\n'))
        return buffer_add_str(out, ".");
    bool turned = beyond && members(&others) > 0;
    int r = buffer_add_str(out, turned ? "[^" : "[");
    if (r == 0)
        r = write_ranges(turned ? &others : c, out);
    if (r == 0 && beyond && !turned)
        r = buffer_add_str(out, "\\x80-\\xff");
    return r == 0 ? buffer_add_str(out, "]") : r;
}

int go_class_write(const struct go_class *c, bool any_number, struct buffer *out)
{
    if (c->rest && any_number)
        return write_bytes(c, true, out);
    if (!c->rest && c->n == 0)
        return members(c) > 0 ? write_bytes(c, false, out) : buffer_add_str(out, "[^\\x00-\\xff]");
    int r = buffer_add_str(out, "(?:");
    const char *between = "";
    if (r == 0 && members(c) > 0) {
        r = write_bytes(c, false, out);
        between = "|";
    }
    if (c->rest)
        return r == 0 ? buffer_printf(out, "%s%s)", between, ANY_BEYOND) : r;
    for (uint32_t i = 0; i < c->n && r == 0; i++, between = "|") {
        uint8_t utf8[4];
        uint32_t n = go_class_utf8(c->character[i], utf8);
        r = buffer_add_str(out, between);
        for (uint32_t k = 0; k < n && r == 0; k++)
            r = buffer_printf(out, "\\x%02x", utf8[k]);
    }
    return r == 0 ? buffer_add_str(out, ")") : r;
}
