/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/pattern/pattern.h"

#include <stdlib.h>
#include <string.h>

#include "proto/base/arena.h"
#include "proto/base/macros.h"
#include "proto/base/rng.h"
#include "tests/lib/unit.h"

static struct arena keep; /* of atoms and texts, for the process's life */

/* A glob taken apart as the front end does it, without escapes. */
static struct rule_atom *glob(const char *text, bool nocase)
{
    struct rule_atom *a = unit_made(arena_calloc(&keep, 1, sizeof *a));
    a->kind = RULE_GLOB;
    a->text = bytes_str(text);
    a->nocase = nocase;
    a->pieces = unit_made(arena_calloc(&keep, strlen(text) + 1, sizeof *a->pieces));
    a->star_first = text[0] == '*';
    a->star_last = text[0] && text[strlen(text) - 1] == '*';
    for (const char *p = text; *p;) {
        size_t n = strcspn(p, "*");
        if (n > 0)
            a->pieces[a->n_pieces++] = bytes_of(p, n);
        p += n;
        p += *p == '*';
    }
    return a;
}

static struct rule_atom *regex(const char *text, bool nocase)
{
    struct rule_atom *a = unit_made(arena_calloc(&keep, 1, sizeof *a));
    a->kind = RULE_REGEX;
    a->text = bytes_str(text);
    a->nocase = nocase;
    return a;
}

static struct rule_pattern *pattern(uint32_t n, struct rule_atom **atoms)
{
    struct rule_pattern *p = unit_made(arena_calloc(&keep, 1, sizeof *p));
    const struct rule_atom **copy = unit_made(arena_calloc(&keep, n + 1, sizeof *copy));
    for (uint32_t i = 0; i < n; i++)
        copy[i] = atoms[i];
    p->atoms = copy;
    p->n_atoms = n;
    return p;
}

static struct pattern_set *set_of(uint32_t n, struct rule_atom **atoms)
{
    struct pattern_build *b = unit_made(pattern_build_new());
    struct pattern_set *set = NULL;
    size_t left = 64u << 20;
    struct error e = {.text = ""};
    for (uint32_t i = 0; i < n; i++)
        ck_assert_uint_eq(pattern_build_pattern(b, pattern(1, &atoms[i])), i);
    ck_assert_msg(pattern_set_new(&set, b, &left, &e) == 0, "%s", e.text);
    pattern_build_free(b);
    return set;
}

static uint64_t row_of(const struct pattern_set *set, const char *text)
{
    cleanup(pattern_scratch_release) struct pattern_scratch scratch;
    uint64_t row = 0;
    autofree char *exact = strndup(text, strlen(text)); /* so that a sanitizer sees a read past the end */
    ck_assert_int_eq(pattern_scratch_init(&scratch, pattern_set_atoms(set)), 0);
    pattern_set_match(set, &scratch, bytes_str(exact), &row);
    return row;
}

/* A glob by its definition: the slowest and plainest way. */
static bool plainly(const char *g, const char *s, bool nocase)
{
    size_t n = strlen(s), m = strlen(g);
    bool *reach = calloc(n + 2, 1);
    reach[0] = true;
    for (size_t j = 0; j < m; j++) {
        bool *next = calloc(n + 2, 1);
        for (size_t i = 0; i <= n; i++) {
            if (!reach[i])
                continue;
            if (g[j] == '*') {
                for (size_t k = i; k <= n; k++)
                    next[k] = true;
            } else if (i < n) {
                char a = g[j], b = s[i];
                if (nocase && a >= 'A' && a <= 'Z')
                    a = (char)(a + 32);
                if (nocase && b >= 'A' && b <= 'Z')
                    b = (char)(b + 32);
                next[i + 1] = next[i + 1] || a == b;
            }
        }
        free(reach);
        reach = next;
    }
    bool matches = reach[n];
    free(reach);
    return matches;
}

UNIT(every_kind_of_atom)
{
    struct rule_atom *atoms[] = {glob("tcp_sendmsg", false),
                                 glob("tcp_*", false),
                                 glob("*futex*", false),
                                 glob("*.so", false),
                                 glob("a*b*c", false),
                                 glob("*", false),
                                 glob("", false),
                                 glob("*SipHash*", true),
                                 regex("^ksys_(\\w+)", false),
                                 regex("\\bdecoder?\\b", true),
                                 glob("MAIN", true)};
    struct pattern_set *s = set_of(11, atoms);
    ck_assert_uint_eq(row_of(s, "tcp_sendmsg"), 1 << 0 | 1 << 1 | 1 << 5);
    ck_assert_uint_eq(row_of(s, "tcp_sendmsg2"), 1 << 1 | 1 << 5);
    ck_assert_uint_eq(row_of(s, "xtcp_sendmsg"), 1 << 5);
    ck_assert_uint_eq(row_of(s, "__x64_sys_futex"), 1 << 2 | 1 << 5);
    ck_assert_uint_eq(row_of(s, "libc.so"), 1 << 3 | 1 << 5);
    ck_assert_uint_eq(row_of(s, "libc.so.6"), 1 << 5);
    ck_assert_uint_eq(row_of(s, "axxbyyc"), 1 << 4 | 1 << 5);
    ck_assert_uint_eq(row_of(s, "acb"), 1 << 5);
    ck_assert_uint_eq(row_of(s, ""), 1 << 5 | 1 << 6);
    ck_assert_uint_eq(row_of(s, "my_SIPHASH13"), 1 << 5 | 1 << 7);
    ck_assert_uint_eq(row_of(s, "ksys_write"), 1 << 5 | 1 << 8);
    ck_assert_uint_eq(row_of(s, "xksys_write"), 1 << 5);
    ck_assert_uint_eq(row_of(s, "The Decoder runs"), 1 << 5 | 1 << 9);
    ck_assert_uint_eq(row_of(s, "main"), 1 << 5 | 1 << 10);
    ck_assert_uint_eq(row_of(s, "TCP_x"), 1 << 5);
    pattern_set_free(s);
}

UNIT(equal_patterns_are_one_predicate_and_none_holds_for_nothing)
{
    struct pattern_build *b = unit_made(pattern_build_new());
    struct rule_atom *x = glob("x*", false), *again = glob("x*", false), *other = glob("x*", true);
    ck_assert_uint_eq(pattern_build_pattern(b, pattern(1, &x)), 0);
    ck_assert_uint_eq(pattern_build_pattern(b, pattern(1, &again)), 0);
    ck_assert_uint_eq(pattern_build_pattern(b, pattern(1, &other)), 1);
    ck_assert_uint_eq(pattern_build_pattern(b, pattern(0, NULL)), 2);
    ck_assert_uint_eq(pattern_build_literal(b, BYTES_LIT("x")), 3);
    ck_assert_uint_eq(pattern_build_literal(b, BYTES_LIT("x")), 3);
    struct pattern_set *s;
    size_t left = 1 << 20;
    ck_assert_int_eq(pattern_set_new(&s, b, &left, NULL), 0);
    ck_assert_uint_lt(left, 1 << 20);
    ck_assert_uint_eq(row_of(s, "x"), 1 << 0 | 1 << 1 | 1 << 3);
    ck_assert_uint_eq(row_of(s, "Xy"), 1 << 1);
    pattern_set_free(s);
    size_t tiny = 8;
    ck_assert_int_lt(pattern_set_new(&s, b, &tiny, NULL), 0);
    pattern_build_free(b);
}

/* Random globs over a small alphabet, so that everything overlaps, against the definition. */
UNIT(random_globs_mean_what_they_say)
{
    struct rng rng;
    rng_seed(&rng, 7);
    for (int round = 0; round < 300; round++) {
        struct rule_atom *atoms[24];
        char *texts[24];
        for (int i = 0; i < 24; i++) {
            size_t n = rng_next(&rng) % 7;
            texts[i] = unit_made(arena_calloc(&keep, n + 1, 1));
            for (size_t j = 0; j < n; j++)
                texts[i][j] = "abA*"[rng_next(&rng) % 4];
            atoms[i] = glob(texts[i], i % 3 == 0);
        }
        struct pattern_build *b = unit_made(pattern_build_new());
        uint32_t bit[24];
        for (int i = 0; i < 24; i++) {
            bit[i] = pattern_build_pattern(b, pattern(1, &atoms[i]));
            ck_assert_uint_ne(bit[i], UINT32_MAX);
        }
        struct pattern_set *s;
        size_t left = 1 << 24;
        ck_assert_int_eq(pattern_set_new(&s, b, &left, NULL), 0);
        for (int k = 0; k < 20; k++) {
            char text[12] = "";
            size_t n = rng_next(&rng) % 11;
            for (size_t j = 0; j < n; j++)
                text[j] = "abAB"[rng_next(&rng) % 4];
            uint64_t row = row_of(s, text);
            for (int i = 0; i < 24; i++) {
                bool want = plainly(texts[i], text, atoms[i]->nocase);
                ck_assert_msg((row >> bit[i] & 1) == want, "\"%s\"%s on \"%s\": expected %d", texts[i],
                              atoms[i]->nocase ? "i" : "", text, want);
                ck_assert_int_eq(pattern_glob(atoms[i], bytes_str(text)), want);
            }
        }
        pattern_set_free(s);
        pattern_build_free(b);
    }
}

static uint32_t literals(const char *source, struct bytes *ret)
{
    static uint8_t store[256];
    return regex_literals(bytes_str(source), store, ret, NULL, NULL);
}

UNIT(literals_a_regex_needs)
{
    struct bytes l[REGEX_LITERALS_MAX];
    ck_assert_uint_eq(literals("^runtime\\.gc", l), 1);
    ck_assert(bytes_is(l[0], "runtime.gc"));
    ck_assert_uint_eq(literals("lock|futex|mutex", l), 3);
    ck_assert(bytes_is(l[2], "mutex"));
    ck_assert_uint_eq(literals("colou?r", l), 1);
    ck_assert(bytes_is(l[0], "colo"));
    ck_assert_uint_eq(literals("ab{0,3}cde", l), 1);
    ck_assert(bytes_is(l[0], "cde"));
    ck_assert_uint_eq(literals("(?i)Lock", l), 1);
    ck_assert_uint_eq(literals("(foo|bar)+", l), 2);
    ck_assert(bytes_is(l[0], "foo") && bytes_is(l[1], "bar"));
    ck_assert_uint_eq(literals("(foo|bar)?", l), 0);
    ck_assert_uint_eq(literals("^a(?:b|cc(dd|ee))$", l), 0);      /* one byte is no literal */
    ck_assert_uint_eq(literals("^a(?:bb|cc(dddd|eeee))$", l), 3); /* the longer ones */
    ck_assert_uint_eq(literals("^a(?:bb|ccccc(dddd|eeee))$", l), 2);
    ck_assert(bytes_is(l[0], "bb") && bytes_is(l[1], "ccccc"));
    ck_assert_uint_eq(literals("^a(?:bb|[cd](dddd|eeee))$", l), 3);
    ck_assert_uint_eq(literals("(?:get|set|is)Handler", l), 1);
    ck_assert(bytes_is(l[0], "Handler"));
    ck_assert_uint_eq(literals("aa|bb|cc|dd|ee|ff|gg|hh|ii|jj|kk|ll|mm|nn|oo|pp|qq", l), 0);
    ck_assert_uint_eq(literals("abc|x", l), 0);
    ck_assert_uint_eq(literals("[abc]{3}\\w+", l), 0);
    ck_assert_uint_eq(literals("\\x41bcd", l), 0);
    ck_assert_uint_eq(literals("a+b+", l), 0);
    ck_assert_uint_eq(literals("", l), 0);
}

/* Random regexes of groups, classes and repetitions: found through their literals they must say what the
 * engine says without them. */
UNIT(random_regexes_are_not_lost_by_their_literals)
{
    static const char *const parts[] = {"abc", "(ab|cd)", "(?:abc|b)?",     "[ab]",
                                        "c+",  "d*",      "bb{2}",          "(a(bc|cd)|dd)",
                                        ".",   "cab",     "(?:ab|(cd|da))", "x?bcd"};
    struct rng rng;
    cleanup(regex_scratch_release) struct regex_scratch scratch;
    rng_seed(&rng, 11);
    ck_assert_int_eq(regex_scratch_init(&scratch), 0);
    for (int round = 0; round < 200; round++) {
        struct rule_atom *atoms[24];
        struct pattern_build *b = unit_made(pattern_build_new());
        uint32_t bit[24];
        for (int i = 0; i < 24; i++) {
            char *source = unit_made(arena_calloc(&keep, 1, 64));
            strcpy(source, rng_next(&rng) % 4 == 0 ? "^" : "");
            for (uint64_t n = 1 + rng_next(&rng) % 3; n > 0; n--)
                strcat(source, parts[rng_next(&rng) % (sizeof parts / sizeof *parts)]);
            if (rng_next(&rng) % 3 == 0)
                strcat(source, rng_next(&rng) % 2 ? "|dab" : "$");
            atoms[i] = regex(source, i % 4 == 0);
            bit[i] = pattern_build_pattern(b, pattern(1, &atoms[i]));
            ck_assert_uint_ne(bit[i], UINT32_MAX);
        }
        struct pattern_set *s;
        size_t left = 1 << 24;
        ck_assert_int_eq(pattern_set_new(&s, b, &left, NULL), 0);
        for (int k = 0; k < 20; k++) {
            char text[16] = "";
            for (size_t j = 0, n = rng_next(&rng) % 12; j < n; j++)
                text[j] = "abcdC"[rng_next(&rng) % 5];
            uint64_t row = row_of(s, text);
            for (int i = 0; i < 24; i++) {
                struct regex *alone;
                ck_assert_int_eq(regex_new(&alone, atoms[i]->text, atoms[i]->nocase, NULL), 0);
                bool want = regex_search(alone, &scratch, bytes_str(text));
                ck_assert_msg((row >> bit[i] & 1) == want, "/%.*s/%s on \"%s\": expected %d",
                              BYTES_FMT(atoms[i]->text), atoms[i]->nocase ? "i" : "", text, want);
                regex_free(alone);
            }
        }
        pattern_set_free(s);
        pattern_build_free(b);
    }
}

UNIT(regex_captures_the_first_group_and_gives_up_after_its_steps)
{
    struct regex *r;
    cleanup(regex_scratch_release) struct regex_scratch s;
    struct bytes got;
    ck_assert_int_eq(regex_scratch_init(&s), 0);
    ck_assert_int_eq(regex_new(&r, BYTES_LIT("(?:.*\\/)?(.+)\\.so"), false, NULL), 0);
    ck_assert(regex_capture(r, &s, BYTES_LIT("/usr/lib/libstdc++.so.6"), &got));
    ck_assert(bytes_is(got, "libstdc++"));
    ck_assert(!regex_capture(r, &s, BYTES_LIT("/usr/bin/bash"), &got));
    regex_free(r);
    ck_assert_int_eq(regex_new(&r, BYTES_LIT("b$"), false, NULL), 0);
    ck_assert(regex_search(r, &s, BYTES_LIT("ab")));
    ck_assert(!regex_search(r, &s, BYTES_LIT("ab\n")));
    regex_free(r);
    ck_assert_int_eq(regex_new(&r, BYTES_LIT("(a|aa)+$"), false, NULL), 0);
    ck_assert_uint_eq(s.gave_up, 0);
    ck_assert(!regex_search(r, &s, BYTES_LIT("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab")));
    ck_assert_uint_eq(s.gave_up, 1);
    regex_free(r);
    struct error e;
    ck_assert_int_lt(regex_new(&r, BYTES_LIT("("), false, &e), 0);
}

UNIT(steps_are_those_of_the_whole_match_and_bytes_count)
{
    /* Few steps from each place, or none but many bytes; and the end of the name is what lets them begin. */
    static const char *const sources[] = {"\\w+foo!", "\\w+\\sfoo\\d", "(\\w+)\\.(\\w+)foo!",
                                          "[a-z]{2,}x?y?foo!"};
    char name[REGEX_TEXT_MAX];
    memset(name, 'a', sizeof name);
    memcpy(name + sizeof name - 5, " foo!", 5);
    cleanup(regex_scratch_release) struct regex_scratch s;
    ck_assert_int_eq(regex_scratch_init(&s), 0);
    for (size_t i = 0; i < ARRAY_LEN(sources); i++) {
        struct regex *r;
        ck_assert_int_eq(regex_new(&r, bytes_str(sources[i]), false, NULL), 0);
        ck_assert(!regex_search(r, &s, bytes_of(name, 40)));
        ck_assert_uint_eq(s.gave_up, i);
        ck_assert(!regex_search(r, &s, bytes_of(name, sizeof name)));
        ck_assert_msg(s.gave_up == i + 1, "%s went on for more steps than there are", sources[i]);
        regex_free(r);
    }
}
