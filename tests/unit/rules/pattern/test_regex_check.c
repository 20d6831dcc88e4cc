/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/pattern/regex_check.h"

#include "rules/tree/limits.h"
#include "tests/lib/unit.h"

UNIT(regular_regexes_are_taken)
{
    static const char *const good[] = {
        "^(?:__x64_sys|ksys)_(\\w+)",
        "a{2,3}?b*?",
        "[]a]+[^]]",
        "[[:alpha:]_]\\d",
        "\\(\\*Reader\\)",
        "a|b|",
        "\\x41\\/",
        "^(?:[^(]* )?([^( ]*)\\.[^(. ]+\\.[^(. ]*\\s*(?:\\(|$)",
        "x{",
        "\\bdecoder?\\b",
        "a\\+\\+",
        "[a++]",
        "(?:a?)+",
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        struct regex_fault fault;
        int r = regex_check(bytes_str(good[i]), false, &fault);
        ck_assert_msg(r == 0, "%s: %s", good[i], fault.what ? fault.what : fault.error.text);
    }
}

UNIT(irregular_ones_are_named_at_their_place)
{
    static const struct {
        const char *text, *word;
        uint32_t at;
    } bad[] = {
        {"ab(?=c)", "look-ahead", 2},
        {"ab(?!c)", "look-ahead", 2},
        {"(?<=a)b", "look-behind", 0},
        {"(?<!a)b", "look-behind", 0},
        {"(a)\\1", "back-ref", 3},
        {"(a)\\g{1}", "back-ref", 3},
        {"a(?R)?", "recursion", 1},
        {"(a(?1)?)", "recursion", 2},
        {"(?-1)", "recursion", 0},
        {"(?>a)", "atomic", 0},
        {"a*+", "possessive", 1},
        {"a{2}+", "possessive", 1},
        {"a(?C1)", "callout", 1},
        {"a\\Kb", "\\K", 1},
        {"\\R", "\\R", 0},
        {"[\\X]", "\\R", 1},
        {"\\pL", "Unicode", 0},
        {"(*UTF)a", "verb", 0},
        {"(?|a|b)", "branch reset", 0},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct regex_fault fault;
        ck_assert_msg(regex_check(bytes_str(bad[i].text), false, &fault) == 1, "%s passed", bad[i].text);
        ck_assert_msg(fault.what && strstr(fault.what, bad[i].word), "%s: %s", bad[i].text, fault.what);
        ck_assert_uint_eq(fault.at, bad[i].at);
    }
}

UNIT(length_and_depth_are_bounded)
{
    char text[RULES_REGEX_MAX + 2];
    struct regex_fault fault;
    memset(text, 'a', sizeof text);
    ck_assert_int_eq(regex_check(bytes_of(text, RULES_REGEX_MAX), false, &fault), 0);
    ck_assert_int_eq(regex_check(bytes_of(text, RULES_REGEX_MAX + 1), false, &fault), 1);
    memset(text, '(', 33);
    memset(text + 33, ')', 33);
    ck_assert_int_eq(regex_check(bytes_of(text, 66), false, &fault), 1);
    ck_assert_ptr_nonnull(strstr(fault.what, "32 groups"));
}
