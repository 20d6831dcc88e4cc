/* SPDX-License-Identifier: Apache-2.0 */
/* Each metric of the rules has a name of its own at Prometheus. */
#include "gateway/run/series_names.h"

#include <stdio.h>
#include <string.h>

#include "proto/base/macros.h"
#include "rules/compile.h"
#include "tests/lib/unit.h"

#define MORE  " describe \"d\" on any value samples }\n"
#define TIMED " describe \"d\" on cpu }\n"

/* How many are wrong with these statements; each must say each of `words`, NULL at the end. */
static uint32_t wrong(const char *statements, enum prometheus_strategy strategy, const char *const *words)
{
    char text[1024];
    snprintf(text, sizeof text, "rules 1 pack p\n%s", statements);
    struct rules_input input = {.name = "p.rules", .text = bytes_str(text)};
    struct rules_diagnostics found, compiled;
    struct rule_set *set = unit_made(rules_compile(&input, 1, &compiled));
    rules_diagnostics_release(&compiled);
    found = (struct rules_diagnostics){0};
    if (series_names_check(set, strategy, &found) < 0) {
        rules_diagnostics_release(&found);
        rules_set_free(set);
        unit_made(NULL);
    }
    for (uint32_t i = 0; i < found.n; i++)
        for (; words && *words; words++)
            ck_assert_msg(strstr(found.items[i].text, *words), "%s: %s", *words, found.items[i].text);
    uint32_t n = found.n_errors;
    rules_diagnostics_release(&found);
    rules_set_free(set);
    return n;
}

static uint32_t usual(const char *statements)
{
    return wrong(statements, PROMETHEUS_UNDERSCORES_WITH_SUFFIXES, NULL);
}

UNIT(names_of_their_own_are_right)
{
    ck_assert_uint_eq(usual("counter a.b { unit \"1\"" MORE "counter a.c { unit \"1\"" MORE
                            "gauge a.b.ratio { unit \"{x}\"" MORE "counter profgates { unit \"1\"" MORE
                            "counter process.cpu { unit \"1\"" MORE),
                      0);
}

UNIT(names_that_become_one_are_said_with_both_places)
{
    static const char *const words[] = {
        "E137 p.rules:3:1: ", "`a_b` and `a.b` (p.rules:2) for one metric, a_b", NULL};
    const char *two = "counter a.b { unit \"1\"" MORE "counter a_b { unit \"1\"" MORE;
    ck_assert_uint_eq(wrong(two, PROMETHEUS_UNDERSCORES_WITH_SUFFIXES, words), 1);
    /* Scrapers that take no UTF-8 get underscores. */
    ck_assert_uint_eq(wrong(two, PROMETHEUS_NO_TRANSLATION, NULL), 1);
    /* A unit's words are part of the name. */
    ck_assert_uint_eq(usual("counter a { unit \"{x}\"" MORE "counter a.seconds { unit \"s\"" TIMED), 0);
    ck_assert_uint_eq(usual("counter a { unit \"s\"" TIMED "counter a.seconds { unit \"s\"" TIMED), 1);
}

UNIT(a_gauge_and_a_counter_are_one_family_in_openmetrics)
{
    ck_assert_uint_eq(usual("gauge a.b { unit \"{x}\"" MORE "counter a_b { unit \"1\"" MORE), 1);
    ck_assert_uint_eq(usual("counter a_b { unit \"1\"" MORE "gauge a.b { unit \"{x}\"" MORE), 1);
}

UNIT(names_of_our_own_are_taken)
{
    static const char *const ours[] = {"profgate.samples",
                                       "profgate.tomorrow",
                                       "target.info",
                                       "target_info",
                                       "process.resident.memory.bytes",
                                       "http.server.request.duration.seconds"};
    for (size_t i = 0; i < ARRAY_LEN(ours); i++)
        for (int gauge = 0; gauge < 2; gauge++) {
            char text[256];
            snprintf(text, sizeof text, "%s %s { unit \"{x}\"" MORE, gauge ? "gauge" : "counter", ours[i]);
            ck_assert_uint_eq(usual(text), 1);
        }
    ck_assert_uint_eq(usual("gauge http.server.request.duration.seconds.count { unit \"{x}\"" MORE), 1);
}

UNIT(what_is_disabled_has_no_name)
{
    ck_assert_uint_eq(usual("counter a.b { unit \"1\"" MORE "counter a_b { off unit \"1\"" MORE), 0);
}
