/* SPDX-License-Identifier: Apache-2.0 */
/* `profgate rules` from outside: exit codes, and what it prints, as text and as JSON. */
#include "gateway/commands/command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/base/macros.h"
#include "tests/lib/unit.h"

#define CAPTURE PG_SOURCE_DIR "/tests/data/connector/ebpf-c_nofp-0002.pb"

struct ran {
    int code;
    char *out; /* malloc'd */
};

/* Runs the command with these arguments, NULL-terminated; what it writes to stdout is caught. */
static struct ran run(const char *const *args)
{
    char *argv[16] = {(char *)"rules"};
    int argc = 1;
    for (; args[argc - 1]; argc++)
        argv[argc] = (char *)args[argc - 1];
    struct ran ran;
    size_t n;
    FILE *was = stdout;
    stdout = unit_made(open_memstream(&ran.out, &n));
    ran.code = settings_command_run(&rules_command, argc, argv);
    fclose(stdout);
    stdout = was;
    return ran;
}
#define RUN(...) run((const char *const[]){__VA_ARGS__, NULL})

/* A rule file in a place of its own, until the next one. */
static const char *rule_file(const char *text)
{
    static char path[UNIT_PATH_MAX];
    autoclose int fd = unit_new_file(path, ".rules");
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    return path;
}

static void expect(struct ran ran, int code, const char *what)
{
    ck_assert_msg(ran.code == code && strstr(ran.out, what), "code %d, and not `%s` in:\n%s", ran.code, what,
                  ran.out);
    free(ran.out);
}

UNIT(check_says_ok_or_what_is_wrong)
{
    const char *good =
        rule_file("rules 1\npack a\ncounter a.b { on cpu }\ntest \"t\" { stack go \"x\" expect a.b }\n");
    expect(RUN("check", good), 0, "1 file, 1 metric, ok");
    expect(
        RUN("check", "--json", good), 0,
        "{\"diagnostics\": [], \"ok\": true, \"files\": 1, \"metrics\": 1, \"errors\": 0, \"warnings\": 0}");
    const char *bad = rule_file("rules 1\npack a\ncounter a.b { }\n");
    expect(RUN("check", bad), 1, "E108");
    expect(RUN("check", "--json", bad), 1, "\"code\": \"E108\", \"severity\": \"error\"");
    expect(RUN("list", bad), 1, "E108");
    expect(RUN("list", "--json", bad), 1, "{\"diagnostics\": [{\"code\": \"E108\"");
    expect(RUN("test", "--json", bad), 1, "\"ok\": false}");
}

UNIT(strict_makes_errors_of_warnings)
{
    const char *path =
        rule_file("rules 1\npack a\ntable t (n) over frames { \"x\" => \"y\"  \"z\" => \"w\" }\n"
                  "pattern never = \"never\"\ncounter a.b { on cpu label n = t.n }\n"
                  "counter a.c { on cpu off where any frame is never }\n"
                  "test \"t\" { stack go \"x\" expect a.b { n = \"y\" } expect that not leaf is never }\n"
                  "test \"u\" { stack go \"z\" expect a.b { n = \"w\" } }\n");
    expect(RUN("check", path), 0, "W209");
    expect(RUN("check", "--strict", path), 1, "no test expects a.c");
    expect(RUN("check", path), 0, "1 file, 2 metrics, ok");
}

UNIT(warnings_beyond_the_first_twenty_are_counted)
{
    char text[2048] = "rules 1\npack a\n";
    size_t n = strlen(text);
    for (int i = 0; i < 23; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "counter a.m%d { on cpu }\n", i);
    const char *path = rule_file(text);
    expect(RUN("check", path), 0, "1 file, 23 metrics, ok\n23 warnings, 3 of them not shown\n");
    expect(RUN("check", "--json", path), 0, "\"errors\": 0, \"warnings\": 23}");
    expect(RUN("check", "--strict", path), 1, "1 file, 23 errors\n");
}

UNIT(rows_and_patterns_that_no_test_tries_are_named)
{
    const char *path =
        rule_file("rules 1\npack a\n"
                  "table t (n) over frames { \"x\" => \"y\"\n\"z\" => \"w\"\nelse => \"other\" }\n"
                  "table f (n) { \"x\" => \"y\"\n\"z\" => \"w\" }\n"
                  "pattern never = \"never\"\npattern here = \"x\"\n"
                  "counter a.b { on cpu label n = t.n label m = f.n of leaf }\n"
                  "counter a.c { on cpu where any frame is never or any frame is here }\n"
                  "test \"t\" { stack go \"x\" expect a.b { n = \"y\", m = \"y\" } expect a.c }\n");
    struct ran ran = RUN("check", path);
    ck_assert_int_eq(ran.code, 0);
    const char *at = ran.out;
    static const char *const found[] = {":4:1: no test has a stack that this row takes",
                                        ":5:1: no test has a stack that this row takes",
                                        ":7:1: no test has a stack that this row takes",
                                        "no test has a frame that `never` takes"};
    for (size_t i = 0; i < ARRAY_LEN(found); i++) {
        at = strstr(at, found[i]);
        ck_assert_msg(at != NULL, "not `%s` in:\n%s", found[i], ran.out);
    }
    ck_assert_ptr_null(strstr(ran.out, "`here`"));
    ck_assert_ptr_null(strstr(ran.out, ":3:"));
    free(ran.out);
    expect(RUN("check", "--strict", path), 1, "4 errors");
}

UNIT(test_counts_and_tells)
{
    const char *path =
        rule_file("rules 1\npack a\ncounter a.b { on cpu }\ntest \"t\" { stack go \"x\" expect a.b 20ms }\n"
                  "test \"u\" { stack go \"x\" expect a.b 10ms }\n");
    expect(RUN("test", path), 1, "2 tests, 1 failed");
    expect(RUN("test", "--json", path), 1, "\"ok\": false, \"tests\": 2, \"failed\": 1}");
    expect(RUN("test", "--json"), 0, "{\"failures\": [], \"ok\": true, \"tests\": ");
}

UNIT(list_has_levels)
{
    const char *path =
        rule_file("rules 1\npack a\nkeep 1% where linked\ncounter a.b { on cpu where leaf is go\n"
                  "label r = resource[\"x\"] label s = sample[\"y\"] label c = \"z\" limit 7 largest }\n"
                  "trigger t { when rate of a.b over 1m above 1 do keep all lasting 1m cooldown 1m }\n"
                  "test \"t\" { stack go \"x\" expect a.b { c = \"z\" } }\n");
    expect(RUN("list", path), 0, "keep 1% where linked  on a ");
    expect(RUN("list", "--levels", path), 0, "    label r                  stack + resource\n");
    expect(RUN("list", "--levels", path), 0, "    label c                  always\n");
    expect(RUN("list", "--json", path), 0, "\"limit\": 7, \"largest\": true");
    expect(RUN("list", "--json", path), 0,
           "{\"r\": \"stack + resource\", \"s\": \"sample\", \"c\": \"always\"}");
    expect(RUN("list", "--json", path), 0, "\"triggers\": [{\"name\": \"t\"");
}

UNIT(explain_says_which_rule_by_which_frame_with_which_labels)
{
    expect(RUN("explain", "--stack", "5", CAPTURE), 0, "       9  go compress/gzip.(*Writer).Write\n");
    expect(RUN("explain", "--stack", "5", CAPTURE), 0,
           "    profile.cpu.time { runtime=\"go\", mode=\"user\" }\n        table mode, row 2 (cpu.rules:");
    const char *path =
        rule_file("rules 1\npack a\nkeep 25% where any frame is \"*gzip*\"\n"
                  "frame gz = \"compress/*\"\nregion above = frames after gz\n"
                  "counter a.b { on cpu where gz calls \"runtime.mallocgc\" and last go in above is go\n"
                  "and not leaf is kernel }\n"
                  "test \"t\" { stack go \"x\" expect nothing }\n");
    struct ran ran = RUN("explain", "--stack", "5", "--metric", "a.b", path, CAPTURE);
    expect(ran, 0, ", by frame 7: go runtime.mallocgc\n");
    expect(RUN("explain", "--stack", "5", "--metric", "a.b", path, CAPTURE), 0,
           "where last go in above is go (");
    expect(RUN("explain", "--stack", "5", "--metric", "a.b", path, CAPTURE), 0,
           ", by frame 14: go runtime.goexit\n");
    expect(RUN("explain", "--stack", "5", path, CAPTURE), 0, "    kept 25%\n        rule keep 25% where");
    expect(RUN("explain", "--stack", "5", "--json", path, CAPTURE), 0,
           "\"kept\": {\"percent\": 25, \"rates\": 0");
    expect(RUN("explain", "--metric", "a.c", path, CAPTURE), 2, "");
}

UNIT(explain_says_why_not)
{
    const char *path =
        rule_file("rules 1\npack a\n"
                  "counter a.b { on cpu where any frame is \"*gzip*\" and leaf is kernel\n"
                  "    and (linked or sample[\"x\"] == \"y\") and no frame is \"runtime.goexit\" }\n"
                  "counter a.mem { on alloc where any frame is go value sum unit \"By\" }\n"
                  "counter a.off { off on cpu where linked }\n"
                  "test \"t\" { stack go \"x\" expect nothing }\n");
    const char *const failed[] = {"    not a.b\n",
                                  "        fails leaf is kernel (",
                                  "        fails linked (",
                                  "        fails sample[\"x\"] == \"y\" (",
                                  "        fails no frame is \"runtime.goexit\" (",
                                  ", by frame 14: go runtime.goexit\n"};
    for (size_t i = 0; i < ARRAY_LEN(failed); i++)
        expect(RUN("explain", "--stack", "5", "--why-not", "a.b", path, CAPTURE), 0, failed[i]);
    struct ran ran = RUN("explain", "--stack", "5", "--why-not", "a.b", path, CAPTURE);
    ck_assert_ptr_null(strstr(ran.out, "gzip*\" (")); /* it holds */
    free(ran.out);
    expect(RUN("explain", "--stack", "5", "--why-not", "a.mem", path, CAPTURE), 0,
           "        on does not take ");
    expect(RUN("explain", "--stack", "5", "--why-not", "a.b", "--json", path, CAPTURE), 0,
           "\"not\": [{\"fails\": \"leaf is kernel\"");
    expect(RUN("explain", "--why-not", "a.off", path, CAPTURE), 2, "");
    expect(RUN("explain", "--why-not", "profile.cpu.time", "--stack", "5", CAPTURE), 1,
           "no stack that this metric does not take\n");
}

UNIT(wrong_usage_is_two)
{
    expect(RUN("explain"), 2, "");
    expect(RUN("explain", "--stack", "many", CAPTURE), 2, "");
    expect(RUN("explain", "/nonexistent.pb"), 2, "");
    expect(RUN("check", "/nonexistent.rules"), 2, "");
    expect(RUN("no-such-verb"), 2, "");
    expect(RUN("check", "--no-such-flag"), 2, "");
    expect(RUN("--help"), 0, "\n  explain  ");
}
