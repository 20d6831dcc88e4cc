/* SPDX-License-Identifier: Apache-2.0 */
/* needs: rules */
/* The tests that rule files carry: all shipped packs pass theirs, and a failing test says what happened and
 * why. */
#include "rules/prove/run_tests.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/buffer.h"
#include "tests/unit/rules/rules_helper.h"

UNIT(shipped_packs_pass_their_tests)
{
    struct compiled shipped = compile_texts(NULL, 0);
    ck_assert_uint_ge(pass_tests(unit_made(shipped.set)), 18);
    compiled_free(&shipped);
}

/* The failures of a file, as text. */
static char *failures(const char *text, uint32_t expect_n)
{
    struct rule_set *set = compile_text(bytes_str(text));
    struct rules_diagnostics d;
    uint32_t run;
    struct buffer all = BUFFER_INIT(0);
    ck_assert_int_eq(rules_run_tests(set, &d, &run), 0);
    ck_assert_uint_eq(run, set->n_tests);
    for (uint32_t i = 0; i < d.n; i++)
        buffer_add_str(&all, d.items[i].text);
    ck_assert_int_eq(buffer_add(&all, "", 1), 0);
    if (d.n != expect_n)
        fprintf(stderr, "%s", (char *)all.p);
    ck_assert_uint_eq(d.n, expect_n);
    rules_diagnostics_release(&d);
    rules_set_free(set);
    size_t n;
    return (char *)buffer_take(&all, &n);
}

#define COMPRESSION                                       \
    "rules 1\npack t\n"                                   \
    "table direction (name) over frames nearest leaf {\n" \
    "    \"*decompress*\" => \"decompress\"\n"            \
    "    \"*compress*\" => \"compress\"\n"                \
    "}\n"                                                 \
    "counter work.time { describe \"d\" unit \"s\" on cpu label direction = direction.name }\n"

UNIT(a_failure_says_expected_counted_because)
{
    autofree char *text = failures(COMPRESSION "test \"reader\" {\n"
                                               "    stack go \"decompressor\" < go \"main\"\n"
                                               "    expect work.time 10ms { direction = \"compress\" }\n"
                                               "}\n",
                                   1);
    ck_assert_str_eq(text, "E110 t.rules:8:1: test \"reader\" failed\n"
                           "     expected work.time 10ms { direction=\"compress\" }\n"
                           "     counted  work.time 10ms { direction=\"decompress\" }\n"
                           "     because  table direction, row 1 (line 4), by frame 0: go decompressor\n");
}

UNIT(a_series_nobody_expects_fails_the_test)
{
    free(failures(COMPRESSION "test \"silence\" { stack go \"main\"  expect nothing }\n", 1));
}

UNIT(amounts_are_exact)
{
    free(failures(COMPRESSION "test \"three\" { stack go \"compress\" events 3\n"
                              "    expect work.time 30ms { direction = \"compress\" } }\n",
                  0));
    free(failures(COMPRESSION "test \"three\" { stack go \"compress\" events 3\n"
                              "    expect work.time 31ms { direction = \"compress\" } }\n",
                  1));
}

UNIT(predicates_are_asked_of_the_latest_stack)
{
    free(failures(
        "rules 1\npack t\nframe f = \"a\"\n"
        "test \"t\" { stack go \"a\" expect that leaf is f  stack go \"b\" expect that not leaf is f }\n",
        0));
    autofree char *text = failures("rules 1\npack t\nframe f = \"a\"\n"
                                   "test \"t\" { stack go \"a\"  stack go \"b\" expect that leaf is f }\n",
                                   1);
    ck_assert_ptr_nonnull(strstr(text, "expected that"));
}
