/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/source/lex.h"

#include <errno.h>
#include <stdio.h>

#include "proto/base/macros.h"
#include "rules/source/report.h"

struct lexer {
    const uint8_t *p, *end, *line_start;
    uint32_t line;
    uint16_t file;
    struct report *report;
    struct tokens *out;
};

static struct rule_place place_at(const struct lexer *l, const uint8_t *from, const uint8_t *to)
{
    return (struct rule_place){
        .file = l->file,
        .line = l->line,
        .column = (uint32_t)(from - l->line_start) + 1,
        .length = (uint32_t)(to - from),
    };
}

static struct token *push(struct lexer *l, enum token_kind kind, const uint8_t *from, const uint8_t *to)
{
    struct token token = {
        .kind = (uint8_t)kind, .text = bytes_of(from, (size_t)(to - from)), .place = place_at(l, from, to)};
    return vec_append(&l->out->all, token) < 0 ? NULL : vec_last(&l->out->all);
}

static bool is_name_start(uint8_t c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
}

static bool is_digit(uint8_t c)
{
    return c >= '0' && c <= '9';
}

static bool is_name(uint8_t c)
{
    return is_name_start(c) || is_digit(c);
}

/* Letters, digits and single dots between parts; a dot that no part follows is not of the name (`table.*`).
 */
static int lex_name(struct lexer *l)
{
    const uint8_t *p = l->p;
    for (;;) {
        while (p < l->end && is_name(*p))
            p++;
        if (l->end - p < 2 || p[0] != '.' || !is_name_start(p[1]))
            break;
        p++;
    }
    struct token *t = push(l, TOKEN_NAME, l->p, p);
    if (!t)
        return -ENOMEM;
    t->word = (uint8_t)lex_word(t->text);
    l->p = p;
    return 0;
}

static int lex_quantity(struct lexer *l)
{
    const uint8_t *p = l->p;
    while (p < l->end && (is_digit(*p) || (*p == '.' && l->end - p > 1 && is_digit(p[1]))))
        p++;
    while (p < l->end && (is_name(*p) || *p == '%'))
        p++;
    if (!push(l, TOKEN_QUANTITY, l->p, p))
        return -ENOMEM;
    l->p = p;
    return 0;
}

/* A backslash in a string: how many bytes the escape has, reporting what is none. */
static size_t check_escape(struct lexer *l, const uint8_t *p)
{
    if (l->end - p < 2 || p[1] == '\n')
        return 1;
    if (p[1] == 'x') {
        if (l->end - p >= 4 && bytes_hex_value(p[2]) >= 0 && bytes_hex_value(p[3]) >= 0)
            return 4;
    } else if (memchr("\"\\nt*", p[1], 5)) {
        return 2;
    }
    report_plain(l->report, "E112", place_at(l, p, p + 2), "escapes are \\\" \\\\ \\n \\t \\xHH \\*",
                 "no such escape in a string");
    return 0;
}

/* The `i` of "…"i and /…/i: only when it stands there alone. */
static bool take_nocase(struct lexer *l)
{
    if (l->p >= l->end || *l->p != 'i' || (l->end - l->p > 1 && (is_name(l->p[1]) || l->p[1] == '.')))
        return false;
    l->p++;
    return true;
}

static const char *end_of_quoted(const uint8_t *start, const uint8_t *end, enum token_kind kind)
{
    if (kind == TOKEN_STRING)
        return "add the closing \"";
    return end - start > 1 && (start[1] == '/' || start[1] == '*') ? "a comment begins with #"
                                                                   : "add the closing /";
}

/* "…" or /…/: to the closing quote on the same line. */
static int lex_quoted(struct lexer *l, enum token_kind kind)
{
    const uint8_t *start = l->p, *p = start + 1;
    uint8_t quote = *start;
    bool wrong = false;
    while (p < l->end && *p != quote && *p != '\n') {
        size_t n = 1;
        if (*p == '\\' && kind == TOKEN_STRING) {
            n = check_escape(l, p);
            if (n == 0) {
                wrong = true;
                n = 2;
            }
        } else if (*p == '\\' && l->end - p > 1 && p[1] != '\n') {
            n = 2;
        }
        p += n;
    }
    if (p >= l->end || *p != quote) {
        p = p > l->end ? l->end : p;
        report_plain(l->report, "E112", place_at(l, start, p), end_of_quoted(start, p, kind),
                     "this %s does not end on its line", kind == TOKEN_STRING ? "string" : "regex");
        l->p = p;
        return push(l, TOKEN_WRONG, start, p) ? 0 : -ENOMEM;
    }
    l->p = p + 1;
    bool nocase = take_nocase(l);
    struct token *t = push(l, wrong ? TOKEN_WRONG : kind, start + 1, p);
    if (!t)
        return -ENOMEM;
    t->nocase = nocase;
    t->place = place_at(l, start, l->p);
    return 0;
}

/* clang-format off */
#define NUMBERS "caller calls callee   (in a test: callee < caller); numbers are compared only by a trigger (above 40%)"
static const struct mark {
    const char *text;
    enum token_kind kind;
    const char *instead; /* not an operator: what to write */
} marks[] = {
    /* Longer ones first. */
    {"=~", TOKEN_MATCH, ""},
    {"->", TOKEN_WRONG, "<   (a stack is written from its leaf: callee < caller)"},
    {">=", TOKEN_WRONG, NUMBERS}, {">", TOKEN_WRONG, NUMBERS},
    {"--", TOKEN_WRONG, "#   for a comment"},
    {"&&", TOKEN_WRONG, "and"}, {"||", TOKEN_WRONG, "or   (between patterns: | ; where a text may be missing: ?? )"},
    {"??", TOKEN_ELSE, NULL}, {"=>", TOKEN_ARROW, NULL}, {"==", TOKEN_EQUAL, NULL}, {"!=", TOKEN_UNEQUAL, NULL},
    {"!~", TOKEN_UNMATCH, NULL}, {".*", TOKEN_ALL_OF, NULL},
    {"(", TOKEN_PAREN, NULL}, {")", TOKEN_UNPAREN, NULL}, {"{", TOKEN_BRACE, NULL}, {"}", TOKEN_UNBRACE, NULL},
    {"[", TOKEN_BRACKET, NULL}, {"]", TOKEN_UNBRACKET, NULL}, {",", TOKEN_COMMA, NULL}, {"=", TOKEN_ASSIGN, NULL},
    {"~", TOKEN_MATCH, NULL}, {"|", TOKEN_BAR, NULL}, {"+", TOKEN_PLUS, NULL}, {"-", TOKEN_DASH, NULL},
    {"<", TOKEN_BELOW, NULL}, {"!", TOKEN_WRONG, "not"},
};
/* clang-format on */

/* Quotes that editors and pages make of straight ones: U+2018 to U+201F. */
static bool is_curly_quote(const struct lexer *l, const uint8_t *p)
{
    return l->end - p >= 3 && p[0] == 0xe2 && p[1] == 0x80 && p[2] >= 0x98 && p[2] <= 0x9f;
}

/* To behind the quote that ends what begins at l->p on this line, or by `width` if none does. */
static void skip_quoted(struct lexer *l, size_t width)
{
    const uint8_t *start = l->p, *p = start + width;
    bool curly = width > 1;
    while (p < l->end && *p != '\n' && (curly ? !is_curly_quote(l, p) : *p != *start))
        p++;
    l->p = p < l->end && *p != '\n' ? p + width : start + width;
}

/* What begins no token. */
static int lex_stray(struct lexer *l)
{
    static const struct {
        char c;
        const char *proposal;
    } strays[] = {
        {':', "leave it out, or write = where a name is given: label NAME = …, pattern NAME = …"},
        {';', "leave it out: statements and clauses just follow each other; a comment begins with #"},
        {'?', "where a text may be missing another stands behind ?? : resource[\"KEY\"] ?? \"unknown\""},
        {'%', "a share has no blank before it: 1%"},
        {'*', "a glob stands in double quotes: \"json*\""},
        {'^', "a glob or a regex stands in quotes or slashes: \"json*\", /^json/"},
        {'$', "parameters are named without it"},
        {'@', "parameters are named without it"},
    };
    const uint8_t *start = l->p;
    const char *proposal = NULL;
    if (*start == '\'' || *start == '`' || is_curly_quote(l, start)) {
        skip_quoted(l, *start < 0x80 ? 1 : 3);
        proposal = "strings and globs stand in double quotes";
    } else if (l->end - start >= 2 && start[0] == 0xc2 && start[1] == 0xa0) {
        l->p += 2;
        report_plain(l->report, "E112", place_at(l, start, l->p), "write a plain blank",
                     "a no-break space has no meaning here");
        return push(l, TOKEN_WRONG, start, l->p) ? 0 : -ENOMEM;
    } else {
        l->p++;
        l->p += *start == '?' && l->p < l->end && *l->p == ':'; /* ?: of other languages */
        while (l->p < l->end && *l->p >= 0x80 && *start >= 0x80)
            l->p++;
        for (size_t i = 0; i < ARRAY_LEN(strays); i++)
            if (*start == (uint8_t)strays[i].c)
                proposal = strays[i].proposal;
    }
    struct rule_place place = place_at(l, start, l->p);
    if (*start >= 0x20 && *start < 0x7f)
        report_plain(l->report, "E112", place, proposal, "`%c` has no meaning here", *start);
    else if (proposal)
        report_plain(l->report, "E112", place, proposal, "a curly quote has no meaning here");
    else
        report_plain(l->report, "E112", place, proposal, "a byte 0x%02x has no meaning here", *start);
    return push(l, TOKEN_WRONG, start, l->p) ? 0 : -ENOMEM;
}

static int lex_mark(struct lexer *l)
{
    size_t left = (size_t)(l->end - l->p);
    for (size_t i = 0; i < ARRAY_LEN(marks); i++) {
        size_t n = strlen(marks[i].text);
        if (n > left || memcmp(l->p, marks[i].text, n) != 0)
            continue;
        struct token *t = push(l, marks[i].kind, l->p, l->p + n);
        if (!t)
            return -ENOMEM;
        if (marks[i].instead && marks[i].kind == TOKEN_WRONG) {
            char proposal[128];
            snprintf(proposal, sizeof proposal, "write: %s", marks[i].instead);
            report_plain(l->report, "E106", t->place, proposal, "`%s` is not an operator here",
                         marks[i].text);
        }
        l->p += n;
        return 0;
    }
    return lex_stray(l);
}

/* `=~` is read as `~`; the proposal shows what stands behind it as a glob and as an anchored regex. */
static void report_equal_match(struct report *report, const struct token *t, const struct token *next)
{
    cleanup(buffer_release) struct buffer glob = BUFFER_INIT(256);
    report_at(report, "E106", t->place, "`=~` is not an operator here");
    if (next->kind == TOKEN_STRING && next->text.n < 100) {
        for (size_t i = 0; i < next->text.n; i++) {
            bool any = next->text.p[i] == '.' && i + 1 < next->text.n && next->text.p[i + 1] == '*';
            if (!any)
                buffer_add(&glob, &next->text.p[i], 1);
        }
        report_propose(report, "globs and regexes both use ~ :  ~ \"%.*s\"   or   ~ /^%.*s$/", (int)glob.n,
                       glob.p ? (const char *)glob.p : "", BYTES_FMT(next->text));
    } else {
        report_propose(report, "globs and regexes both use ~");
    }
    report_done(report);
}

int lex(const struct rule_file *file, uint16_t number, struct report *report, struct tokens *ret)
{
    struct lexer l = {
        .p = file->text.p,
        .end = file->text.p + file->text.n,
        .line_start = file->text.p,
        .line = 1,
        .file = number,
        .report = report,
        .out = ret,
    };
    int r = 0;
    if (bytes_starts(file->text, "\xef\xbb\xbf")) /* a byte order mark, as some editors write it */
        l.line_start = l.p += 3;
    while (r == 0 && l.p < l.end) {
        uint8_t c = *l.p;
        if (c == '\n') {
            l.line_start = ++l.p;
            l.line++;
        } else if (c == ' ' || c == '\t' || c == '\r') {
            l.p++;
        } else if (c == '#') {
            const uint8_t *nl = memchr(l.p, '\n', (size_t)(l.end - l.p));
            l.p = nl ? nl : l.end;
        } else if (is_name_start(c)) {
            r = lex_name(&l);
        } else if (is_digit(c)) {
            r = lex_quantity(&l);
        } else if (c == '"') {
            r = lex_quoted(&l, TOKEN_STRING);
        } else if (c == '/') {
            r = lex_quoted(&l, TOKEN_REGEX);
        } else {
            r = lex_mark(&l);
        }
    }
    if (r == 0 && !push(&l, TOKEN_END, l.end, l.end))
        r = -ENOMEM;
    for (uint32_t i = 0; r == 0 && i + 1 < ret->all.n; i++) {
        const struct token *t = &ret->all.p[i];
        if (t->kind == TOKEN_MATCH && t->text.n == 2)
            report_equal_match(report, t, t + 1);
    }
    return r;
}

void tokens_release(struct tokens *t)
{
    vec_release(&t->all);
}
