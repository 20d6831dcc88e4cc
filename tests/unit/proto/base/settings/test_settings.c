/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/settings/settings.h"

#include <errno.h>
#include <stdlib.h>

#include "proto/base/macros.h"
#include "proto/base/settings/flags.h"
#include "tests/lib/sweep.h"
#include "tests/lib/unit.h"

enum shade { SHADE_DARK = 7, SHADE_LIGHT = -3 };

struct thing {
    const char *name, *path;
    bool on;
    uint32_t count;
    uint64_t size, time;
    double share, factor;
    enum shade shade;
    struct settings_strings list, each;
    struct settings_pairs pairs;
    uint32_t own;
};

static int set_own(void *base, const char *value, struct arena *arena, struct error *e)
{
    struct thing *t = base;
    t->own = value ? (uint32_t)strlen(value) : 99;
    return t->own > 5 && value ? error_set(e, -EINVAL, "%s is long", value) : 0;
}

#define AT(field) offsetof(struct thing, field)
static const struct settings_word shades[] = {{"dark", SHADE_DARK}, {"light", SHADE_LIGHT}, {NULL}};
static const struct settings_row rows[] = {
    {"name", SETTINGS_TEXT, AT(name), "", .doc = "the name", .metavar = "NAME", .variable = "THING_NAME"},
    {"on", SETTINGS_BOOL, AT(on), "false", .doc = "a switch"},
    {"count", SETTINGS_COUNT, AT(count), "3", 1, 10, .doc = "how many", .live = true, .metavar = "N"},
    {"size", SETTINGS_SIZE, AT(size), "4MiB", 1024, 1u << 30, .doc = "how large", .metavar = "SIZE"},
    {"time", SETTINGS_DURATION, AT(time), "1m30s", .doc = "how long", .metavar = "TIME",
     .want = "a time as I like it"},
    {"share", SETTINGS_SHARE, AT(share), "12.5%", .doc = "which part", .metavar = "SHARE"},
    {"factor", SETTINGS_FACTOR, AT(factor), "1.5", 1, 10, .doc = "how much more", .metavar = "X"},
    {"look.shade", SETTINGS_CHOICE, AT(shade), "light", .words = shades, .doc = "which shade",
     .metavar = "WORD"},
    {"look.list", SETTINGS_STRINGS, AT(list), "a, b", .doc = "some", .metavar = "LIST"},
    {"pairs", SETTINGS_PAIRS, AT(pairs), "", .doc = "a map", .metavar = "MAP"},
    {"each", SETTINGS_REPEATED, AT(each), NULL, 0, 2, .doc = "again and again", .metavar = "TEXT"},
    {"path", SETTINGS_TEXT, AT(path), .doc = "a path", .metavar = "PATH"},
    {NULL, SETTINGS_COUNT, AT(count), .variable = "THING_COUNT"},
};
static const struct settings_section section = {"thing", "what is tried here", rows, ARRAY_LEN(rows) - 1};
static const struct settings_section with_variable = {"thing", "", rows, ARRAY_LEN(rows)};
static const struct settings_row own_row = {"own", SETTINGS_OWN, .set = set_own, .metavar = "X"};

static void fill(struct thing *t, struct arena *arena)
{
    *t = (struct thing){0};
    ck_assert_int_eq(settings_defaults(&section, t, arena), 0);
}

static int set(struct thing *t, struct arena *arena, const char *key, const char *value, struct error *e)
{
    return settings_set(unit_made(settings_find(&section, bytes_str(key))), t, value, arena, e);
}

UNIT(defaults_fill_the_struct)
{
    cleanup(arena_release) struct arena arena = {0};
    struct thing t;
    fill(&t, &arena);
    ck_assert(!t.name && !t.path && !t.on && t.count == 3 && t.size == 4u << 20);
    ck_assert(t.time == 90000000000u && t.share == 0.125 && t.factor == 1.5 && t.shade == SHADE_LIGHT);
    ck_assert(t.list.n == 2 && t.pairs.n == 0 && t.each.n == 0);
    ck_assert_str_eq(t.list.items[1], "b");
}

UNIT(values_of_each_type_are_read)
{
    cleanup(arena_release) struct arena arena = {0};
    struct thing t;
    fill(&t, &arena);
    static const char *const good[][2] = {{"name", "x"},          {"on", "true"},     {"count", "10"},
                                          {"size", "1KiB"},       {"time", "250ms"},  {"share", "100%"},
                                          {"look.shade", "dark"}, {"look.list", "c"}, {"pairs", "a=1, b=2=3"},
                                          {"each", "1,2"},        {"each", ""},       {"path", ""}};
    for (size_t i = 0; i < ARRAY_LEN(good); i++)
        ck_assert_int_eq(set(&t, &arena, good[i][0], good[i][1], NULL), 0);
    ck_assert_str_eq(t.name, "x");
    ck_assert(t.on && t.count == 10 && t.size == 1024 && t.time == 250000000 && t.share == 1);
    ck_assert(t.shade == SHADE_DARK && t.list.n == 1 && t.pairs.n == 2 && t.each.n == 2);
    ck_assert_str_eq(t.pairs.items[1].value, "2=3");
    ck_assert_str_eq(t.each.items[0], "1,2");
    ck_assert_str_eq(t.each.items[1], "");
    ck_assert_str_eq(t.path, "");
    ck_assert_int_eq(set(&t, &arena, "name", "", NULL), 0);
    ck_assert_ptr_null(t.name);
    ck_assert_int_eq(set(&t, &arena, "on", NULL, NULL), 0);
    ck_assert(t.on);
    ck_assert_int_eq(settings_set(&own_row, &t, "abc", &arena, NULL), 0);
    ck_assert_uint_eq(t.own, 3);
}

UNIT(errors_say_what_it_may_be)
{
    static const char *const bad[][3] = {
        {"on", "yes", "\"yes\" is neither true nor false"},
        {"count", "x", "\"x\" is not a number"},
        {"count", "11", "11 is out of range: 1 to 10"},
        {"size", "1", "1 is out of range: 1KiB to 1GiB"},
        {"size", "5q", "\"5q\" is not a size (64MiB)"},
        {"time", "soon", "\"soon\" is not a time as I like it"},
        {"factor", "0.5", "0.5 is out of range: 1 to 10"},
        {"factor", "2x", "\"2x\" is not a number (1.5)"},
        {"share", "2", "\"2\" is not a share between 0% and 100%"},
        {"share", "1", "\"1\" could be all or a hundredth: write 100% or 1%"},
        {"look.shade", "da", "\"da\" is not one of dark|light"},
        {"pairs", "a", "\"a\" is not NAME=VALUE"},
    };
    cleanup(arena_release) struct arena arena = {0};
    struct thing t;
    fill(&t, &arena);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct error e = {""};
        ck_assert_int_eq(set(&t, &arena, bad[i][0], bad[i][1], &e), -EINVAL);
        ck_assert_str_eq(e.text, bad[i][2]);
    }
    struct error e = {""};
    ck_assert_int_eq(set(&t, &arena, "each", "1", &e) | set(&t, &arena, "each", "2", &e), 0);
    ck_assert_int_eq(set(&t, &arena, "each", "3", &e), -EINVAL);
    ck_assert_str_eq(e.text, "given more than 2 times");
}

UNIT(what_is_printed_is_yaml)
{
    cleanup(arena_release) struct arena arena = {0};
    cleanup(buffer_release) struct buffer out = {0};
    struct thing t;
    fill(&t, &arena);
    ck_assert_int_eq(set(&t, &arena, "name", "a\"b$c", NULL), 0);
    ck_assert_int_eq(set(&t, &arena, "pairs", "k=v", NULL), 0);
    ck_assert_int_eq(settings_print(&section, &t, 4, true, false, &out), 0);
    ck_assert_int_eq(buffer_add(&out, "", 1), 0);
    ck_assert_str_eq((char *)out.p, "  - name: \"a\\\"b$$c\"\n"
                                    "    on: false\n"
                                    "    count: 3\n"
                                    "    size: 4MiB\n"
                                    "    time: 90s\n"
                                    "    share: 12.5%\n"
                                    "    factor: 1.5\n"
                                    "    look:\n"
                                    "      shade: \"light\"\n"
                                    "      list: [\"a\", \"b\"]\n"
                                    "    pairs: {\"k\": \"v\"}\n"
                                    "    each: []\n"
                                    "    path: \"\"\n");
}

UNIT(the_reference_has_every_key)
{
    cleanup(buffer_release) struct buffer out = {0};
    ck_assert_int_eq(settings_reference(&section, &out), 0);
    ck_assert_int_eq(buffer_add(&out, "", 1), 0);
    ck_assert_ptr_nonnull(strstr((char *)out.p, "\nthing: what is tried here\n"));
    ck_assert_ptr_nonnull(strstr(
        (char *)out.p, "  count                              number, default 3, live\n      how many\n"));
    ck_assert_ptr_nonnull(
        strstr((char *)out.p, "  look.shade                         dark|light, default light\n"));
}

static char *getvar(const char *name)
{
    return strcmp(name, "THING_NAME") == 0    ? (char *)(uintptr_t) ""
           : strcmp(name, "THING_COUNT") == 0 ? (char *)(uintptr_t) "8"
                                              : NULL;
}

static char *get_nonsense(const char *name)
{
    return (char *)(uintptr_t) "nonsense";
}

UNIT(the_environment_says_some)
{
    cleanup(arena_release) struct arena arena = {0};
    struct error e = {""};
    struct thing t;
    fill(&t, &arena);
    t.name = "kept";
    ck_assert_int_eq(settings_environment(&with_variable, &t, getvar, &arena, &e), 0);
    ck_assert_str_eq(t.name, "kept"); /* an empty variable is an unset one */
    ck_assert_uint_eq(t.count, 8);
    ck_assert_int_eq(settings_environment(&with_variable, &t, get_nonsense, &arena, &e), -EINVAL);
    ck_assert_str_eq(e.text, "THING_COUNT: \"nonsense\" is not a number");
}

static char *argv[12];
static int argc;

static int flags(struct thing *t, struct arena *arena, int *rest, struct error *e,
                 const char *const *arguments)
{
    argv[0] = (char *)(uintptr_t) "program";
    argc = 1;
    for (; arguments[argc - 1]; argc++)
        argv[argc] = (char *)(uintptr_t)arguments[argc - 1];
    return settings_flags(&section, argc, argv, t, arena, rest, e);
}
#define FLAGS(...) flags(&t, &arena, &rest, &e, (const char *const[]){__VA_ARGS__, NULL})

UNIT(help_is_asked_for_anywhere_before_what_are_no_flags)
{
    const char *words[] = {"x", "one", "--nothing", "-h", "--", "--help"};
    ck_assert(settings_asks_help(4, (char **)words));
    ck_assert(!settings_asks_help(3, (char **)words));
    words[3] = "one";
    ck_assert(!settings_asks_help(ARRAY_LEN(words), (char **)words));
    words[4] = "-";
    ck_assert(settings_asks_help(ARRAY_LEN(words), (char **)words));
}

UNIT(flags_stand_before_between_and_behind_arguments)
{
    cleanup(arena_release) struct arena arena = {0};
    struct error e = {""};
    struct thing t;
    int rest = 0;
    fill(&t, &arena);
    ck_assert_int_eq(FLAGS("--count=4", "one", "-", "--name", "n", "two", "--on", "--", "--count=5"), 0);
    ck_assert(t.count == 4 && t.on && rest == 6 && argc == 10);
    ck_assert_str_eq(t.name, "n");
    static const char *const left[] = {"one", "-", "two", "--count=5"};
    for (int i = 0; i < 4; i++)
        ck_assert_str_eq(argv[rest + i], left[i]);
    ck_assert_int_eq(FLAGS("one", "--count", "7"), 0);
    ck_assert(t.count == 7 && rest == 3);
    ck_assert_int_eq(FLAGS("one", "--count"), -EINVAL);
    ck_assert_int_eq(FLAGS("--each", "-x", "--", "--on"), 0);
    ck_assert_int_eq(rest, 4);
    ck_assert_str_eq(t.each.items[0], "-x");
    ck_assert_int_eq(FLAGS("-"), 0);
    ck_assert_int_eq(rest, 1);
    ck_assert_int_eq(FLAGS("--nothing=1"), -EINVAL);
    ck_assert_str_eq(e.text, "there is no flag --nothing=1 (--help lists them)");
    ck_assert_int_eq(FLAGS("--coutn=1"), -EINVAL);
    ck_assert_str_eq(e.text, "there is no flag --coutn=1; did you mean --count? (--help lists them)");
    ck_assert_int_eq(FLAGS("-count"), -EINVAL);
    ck_assert_str_eq(e.text, "there is no flag -count; did you mean --count? (--help lists them)");
    ck_assert_int_eq(FLAGS("--count"), -EINVAL);
    ck_assert_str_eq(e.text, "--count wants a value: N");
    ck_assert_int_eq(FLAGS("--on=true"), -EINVAL);
    ck_assert_str_eq(e.text, "--on takes no value");
    ck_assert_int_eq(FLAGS("--count", "0"), -EINVAL);
    ck_assert_str_eq(e.text, "--count: 0 is out of range: 1 to 10");
}

UNIT(help_has_a_line_a_flag)
{
    char text[2048] = "";
    FILE *to = unit_made(fmemopen(text, sizeof text, "w"));
    settings_flags_help(&with_variable, to);
    fclose(to);
    const char *count = strstr(text, "  --count N "), *on = strstr(text, "  --on ");
    ck_assert(count && on);
    ck_assert_int_eq(strstr(count, "  how many\n") - count, strstr(on, "  a switch\n") - on);
}

OOM_SWEEP(a_value_is_set_or_refused)
{
    static const char *const values[][2] = {
        {"name", "n"}, {"look.list", "a,b"}, {"pairs", "a=b"}, {"each", "e"}, {"count", "77"}};
    cleanup(arena_release) struct arena arena = {0};
    struct thing t = {0};
    for (size_t i = 0; i < ARRAY_LEN(values); i++) {
        int r = set(&t, &arena, values[i][0], values[i][1], &(struct error){""});
        ck_assert(r == 0 || (r == -ENOMEM && sweep_has_failed()) || (r == -EINVAL && i == 4));
    }
}
