/* SPDX-License-Identifier: Apache-2.0 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "rules/pattern/regex_check.h"

#include <errno.h>
#include <pcre2.h>

#include "proto/base/macros.h"
#include "rules/tree/limits.h"

#define SUFFIX " is not part of the rule language (patterns must be regular)"

/* clang-format off */
/* What may follow `(?`; the longest that fits decides. */
static const struct group {
    const char *text;
    const char *what; /* NULL: allowed */
    const char *proposal;
    bool irregular;
} groups[] = {
    {"(?:", NULL, NULL, false},
    {"(?=", "look-ahead" SUFFIX, "say it with two patterns: \"…\" and function ~ \"…\"", true},
    {"(?!", "look-ahead" SUFFIX, "say it with two patterns: \"…\" and function !~ \"…\"", true},
    {"(?<=", "look-behind" SUFFIX, "say it with two patterns: \"…\" and function ~ \"…\"", true},
    {"(?<!", "look-behind" SUFFIX, "say it with two patterns: \"…\" and function !~ \"…\"", true},
    {"(?>", "an atomic group" SUFFIX, "write (?:…)", true},
    {"(?|", "a branch reset" SUFFIX, "write (?:…)", true},
    {"(?#", "a comment inside a regex is not part of the rule language", "comments begin with # outside of it", false},
    {"(?(", "a condition" SUFFIX, NULL, true},
    {"(?C", "a callout" SUFFIX, NULL, true},
    {"(?R", "recursion" SUFFIX, NULL, true},
    {"(?&", "recursion" SUFFIX, NULL, true},
    {"(?+", "recursion" SUFFIX, NULL, true},
    {"(?P>", "recursion" SUFFIX, NULL, true},
    {"(?P=", "a back-reference" SUFFIX, NULL, true},
    {"(?P<", "a named group is not part of the rule language", "write (…): `capture` takes the first group", false},
    {"(?<", "a named group is not part of the rule language", "write (…): `capture` takes the first group", false},
    {"(?'", "a named group is not part of the rule language", "write (…): `capture` takes the first group", false},
    {"(*", "a verb" SUFFIX, NULL, true},
};
/* clang-format on */

/* Escapes by their letter: '.' allowed, anything else is a row of escape_faults. */
static const struct {
    const char *letters, *what;
    bool irregular;
} escape_faults[] = {
    {"123456789gk", "a back-reference" SUFFIX, true},
    {"KG",
     "\\K and \\G are"
     " not part of the rule language (patterns must be regular)",
     true},
    {"RXC", "\\R, \\X and \\C are not part of the rule language (patterns are about bytes)", true},
    {"pP", "a Unicode property is not part of the rule language (patterns are about bytes)", true},
    {"QE", "\\Q…\\E is not part of the rule language: escape the characters one by one", false},
    {"0o", "an octal escape is not part of the rule language: write \\xHH", false},
    {"Zz", "\\z and \\Z are not part of the rule language: $ is the very end already", false},
    {"A", "\\A is not part of the rule language: ^ is the very start already", false},
};

/* Class shorthands, boundaries and control characters. */
#define ESCAPES_ALLOWED "wWdDsSbBntrfaexhHvV"

static int fault(struct regex_fault *f, const char *what, const char *proposal, size_t at, size_t length,
                 bool irregular)
{
    f->what = what;
    f->proposal = proposal;
    f->at = (uint32_t)at;
    f->length = (uint32_t)length;
    f->irregular = irregular;
    return 1;
}

static int check_escape(struct bytes s, size_t at, struct regex_fault *f)
{
    if (at + 1 >= s.n)
        return fault(f, "a backslash at the end escapes nothing", NULL, at, 1, false);
    uint8_t c = s.p[at + 1];
    bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!letter || strchr(ESCAPES_ALLOWED, c))
        return 0;
    for (size_t i = 0; i < ARRAY_LEN(escape_faults); i++) {
        if (strchr(escape_faults[i].letters, c))
            return fault(f, escape_faults[i].what, NULL, at, 2, escape_faults[i].irregular);
    }
    return fault(f, "no such escape in the rule language", NULL, at, 2, false);
}

static int check_group(struct bytes s, size_t at, struct regex_fault *f)
{
    struct bytes rest = bytes_of(s.p + at, s.n - at);
    if (rest.n < 2 || (rest.p[1] != '?' && rest.p[1] != '*'))
        return 0;
    const struct group *found = NULL;
    size_t longest = 0;
    for (size_t i = 0; i < ARRAY_LEN(groups); i++) {
        size_t n = strlen(groups[i].text);
        if (n > longest && bytes_starts(rest, groups[i].text)) {
            found = &groups[i];
            longest = n;
        }
    }
    if (found)
        return found->what ? fault(f, found->what, found->proposal, at, longest, found->irregular) : 0;
    size_t digit = rest.n > 2 && rest.p[2] == '-' ? 3 : 2;
    if (rest.n > digit && rest.p[digit] >= '0' && rest.p[digit] <= '9')
        return fault(f, "recursion" SUFFIX, NULL, at, digit + 1, true);
    return fault(f, "inline options are not part of the rule language",
                 "the only option is i, behind the regex: /…/i", at, min_of(rest.n, (size_t)3), false);
}

/* The end of a [class] that starts at `at`: the byte behind its ], or the end of the source. */
static size_t skip_class(struct bytes s, size_t at)
{
    size_t i = at + 1;
    if (i < s.n && s.p[i] == '^')
        i++;
    if (i < s.n && s.p[i] == ']')
        i++;
    while (i < s.n && s.p[i] != ']') {
        if (s.p[i] == '\\') {
            i += 2;
        } else if (s.p[i] == '[' && i + 1 < s.n && s.p[i + 1] == ':') {
            const uint8_t *end = memmem(s.p + i + 2, s.n - i - 2, ":]", 2);
            i = end ? (size_t)(end - s.p) + 2 : i + 1;
        } else {
            i++;
        }
    }
    return min_of(i + 1, s.n);
}

/* The length of a quantifier at `at`, 0 if there is none: * + ? {n} {n,} {n,m}. */
static size_t quantifier(struct bytes s, size_t at)
{
    if (at >= s.n)
        return 0;
    if (s.p[at] == '*' || s.p[at] == '+' || s.p[at] == '?')
        return 1;
    if (s.p[at] != '{')
        return 0;
    size_t i = at + 1, digits = 0;
    for (; i < s.n && ((s.p[i] >= '0' && s.p[i] <= '9') || (s.p[i] == ',' && digits > 0)); i++)
        digits++;
    return digits > 0 && i < s.n && s.p[i] == '}' ? i + 1 - at : 0;
}

static int check_class_escapes(struct bytes s, size_t from, size_t to, struct regex_fault *f)
{
    for (size_t i = from; i < to; i++) {
        if (s.p[i] != '\\')
            continue;
        int r = check_escape(s, i, f);
        if (r != 0)
            return r;
        i++;
    }
    return 0;
}

static int check_syntax(struct bytes s, struct regex_fault *f)
{
    size_t depth = 0;
    for (size_t i = 0; i < s.n;) {
        int r = 0;
        size_t n = 1;
        if (s.p[i] == '\\') {
            r = check_escape(s, i, f);
            n = 2;
        } else if (s.p[i] == '[') {
            n = skip_class(s, i) - i;
            r = check_class_escapes(s, i, i + n, f);
        } else if (s.p[i] == '(') {
            r = check_group(s, i, f);
            if (r == 0 && ++depth > RULES_NESTING_MAX)
                return fault(f, "more than 32 groups inside each other", NULL, i, 1, false);
            /* `(?:`: its ? is no quantifier. */
            n = i + 1 < s.n && s.p[i + 1] == '?' ? 3 : 1;
        } else if (s.p[i] == ')' && depth > 0) {
            depth--;
        } else if ((n = quantifier(s, i)) > 0) {
            if (i + n < s.n && s.p[i + n] == '+')
                return fault(f, "a possessive quantifier" SUFFIX, "leave the second + out", i, n + 1, true);
            if (i + n < s.n && s.p[i + n] == '?')
                n++;
        } else {
            n = 1;
        }
        if (r != 0)
            return r;
        i += n;
    }
    return 0;
}

int regex_check(struct bytes text, bool nocase, struct regex_fault *ret_fault)
{
    *ret_fault = (struct regex_fault){0};
    if (text.n == 0)
        return fault(ret_fault, "an empty regex finds itself everywhere", "to match every text: \"*\"", 0, 1,
                     false);
    if (text.n > RULES_REGEX_MAX)
        return fault(ret_fault, "a regex has at most 1024 bytes", NULL, 0, text.n, false);
    int r = check_syntax(text, ret_fault);
    if (r != 0)
        return r;
    int code;
    PCRE2_SIZE offset;
    uint32_t options = PCRE2_DOLLAR_ENDONLY | PCRE2_NEVER_UTF | PCRE2_NEVER_BACKSLASH_C | PCRE2_AUTO_CALLOUT;
    pcre2_code *compiled =
        pcre2_compile(text.p, text.n, options | (nocase ? PCRE2_CASELESS : 0), &code, &offset, NULL);
    if (compiled) {
        pcre2_code_free(compiled);
        return 0;
    }
    if (code == PCRE2_ERROR_NOMEMORY || code == 121) /* 121: out of memory while compiling, pcre2api(3) */
        return -ENOMEM;
    PCRE2_UCHAR words[128];
    pcre2_get_error_message(code, words, sizeof words);
    fault(ret_fault, NULL, NULL, offset < text.n ? offset : text.n - 1, 1, false);
    error_set(&ret_fault->error, -EINVAL, "%s", (const char *)words);
    return 1;
}
