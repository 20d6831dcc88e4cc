/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regular expressions of Go as the rule language's. That they find the same is tried with Go as the judge
 * (tests/e2e/test_connector_model.py); here is how they are written, and what is refused where.
 */
#include <string.h>

#include "gateway/connector/go_regex.h"
#include "rules/pattern/regex_check.h"
#include "tests/lib/unit.h"

#define BEYOND "[\\xc2-\\xdf][\\x80-\\xbf]|[\\xe0-\\xef][\\x80-\\xbf]{2}|[\\xf0-\\xf4][\\x80-\\xbf]{3}"

static void says(const char *go, const char *want, bool nocase)
{
    cleanup(buffer_release) struct buffer out = {0};
    struct error e = {""};
    struct regex_fault fault;
    bool i;
    size_t at;
    ck_assert_msg(regex_from_go(bytes_str(go), &out, &i, &at, &e) == 0, "%s: %s", go, e.text);
    ck_assert_msg(bytes_is(buffer_bytes(&out), want) && i == nocase, "%s: %.*s", go,
                  BYTES_FMT(buffer_bytes(&out)));
    ck_assert_msg(regex_check(buffer_bytes(&out), i, &fault) == 0, "%s: %s", go, want);
}

static void refused(const char *go, size_t where, const char *why)
{
    cleanup(buffer_release) struct buffer out = {0};
    struct error e = {""};
    bool i;
    size_t at;
    ck_assert_msg(regex_from_go(bytes_str(go), &out, &i, &at, &e) == GO_REGEX_REFUSED, "%s: %.*s", go,
                  BYTES_FMT(buffer_bytes(&out)));
    ck_assert_msg(at == where && strstr(e.text, why), "%s: %zu: %s", go, at, e.text);
}

UNIT(what_people_write_stays_as_it_is)
{
    says("^runtime\\.", "^runtime\\.", false);
    says("^com\\.example\\.payments\\.", "^com\\.example\\.payments\\.", false);
    says("(?i)lock|futex|mutex", "lock|futex|mutex", true);
    says("^(tcp|sock|ip|__sock|inet)_", "^(?:tcp|sock|ip|__sock|inet)_", false);
    says("json.*Marshal$", "json.*Marshal$", false);
    says("[A-Z][a-z0-9_]{2,}", "[A-Z][a-z0-9_]{2,}", false);
    says("net/http", "net\\/http", false);
    says("[[:alpha:]\\d]", "[[:alpha:]\\d]", false);
}

UNIT(characters_are_written_out_where_bytes_differ)
{
    says("^.$", "^(?:[^\\n\\x80-\\xff]|" BEYOND ")$", false);
    says("^a.+b", "^a.+b", false);
    says(".+.*", "(?:[^\\n\\x80-\\xff]|" BEYOND ")+.*", false);
    says("[^a]*", "[^a]*", false);
    says("\\W", "(?:[^\\w\\x80-\\xff]|" BEYOND ")", false);
    says("(?s)a.b", "a(?:[\\x00-\\x7f]|" BEYOND ")b", false);
    says("\xc3\xa9", "\\xc3\\xa9", false);
    says("\xc3\xa9+", "(?:\\xc3\\xa9)+", false);
}

UNIT(what_is_said_otherwise_in_go)
{
    says("\\Aa\\z", "^a$", false);
    says("(?P<name>a)(?<x>b)", "(?:a)(?:b)", false);
    says("a+?b??", "a+b?", false);
    says("(?s)a.*b", "a[\\x00-\\xff]*b", false);
    says("\\s\\v\\x61{,2}", "[\\t\\n\\f\\r\\x20]\\x0ba\\{,2\\}", false);
    says("[]a/-]", "[\\x5da\\x2f\\x2d]", false);
    says("^*", "(?:^)*", false);
    says("(?s)", "^", false);
}

UNIT(what_is_no_regex_of_go_or_cannot_be_said_is_refused_at_its_place)
{
    refused("a(b", 3, "not closed");
    refused("a)", 1, "closes no group");
    refused("a**", 2, "cannot be repeated");
    refused("|+", 1, "nothing stands before");
    refused("a{1001}", 1, "count");
    refused("a{3,2}", 1, "count");
    refused("[b-a]", 1, "ends before it begins");
    refused("[a", 0, "not closed");
    refused("[[:alfa:]]", 1, "no class");
    refused("\\1", 0, "no escape");
    refused("\\y", 0, "no escape");
    refused("a\\", 1, "backslash");
    refused("\\x{110000}", 0, "no escape");
    refused("\\Qa\\E", 0, "cannot be said");
    refused("(?=a)", 0, "cannot be said");
    refused("(?P<>a)", 0, "no group of Go");
    refused("\\pL", 0, "Unicode");
    refused("(?m)^", 0, "cannot be said");
    refused("(?i)\xc3\xa9", 4, "ASCII");
    refused("a(?i)b", 1, "a part");
    refused("(?i:a)b", 0, "cannot be said");
    refused("[\xc3\xa0-\xc3\xa9]", 1, "beyond ASCII");
    refused("[a\\W]", 2, "inside a class");
    refused("a\\B", 1, "bytes here");
    refused("a\xff", 1, "UTF-8");
    refused("((((((((((((((((((((((((((((((((((a))))))))))))))))))))))))))))))))))", 32, "32 groups");
}
