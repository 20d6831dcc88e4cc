/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/settings/file.h"

#include <errno.h>
#include <unistd.h>

#include "proto/base/macros.h"
#include "tests/lib/sweep.h"
#include "tests/lib/unit.h"

struct thing {
    const char *name, *ca;
    uint32_t count, retries;
    struct settings_strings list;
    struct settings_pairs pairs;
};

#define AT(field) offsetof(struct thing, field)
static const struct settings_row rows[] = {
    {"name", SETTINGS_TEXT, AT(name), ""},    {"count", SETTINGS_COUNT, AT(count), "3", 1, 10},
    {"tls.ca", SETTINGS_TEXT, AT(ca), ""},    {"tls.retries", SETTINGS_COUNT, AT(retries), "0"},
    {"list", SETTINGS_STRINGS, AT(list), ""}, {"pairs", SETTINGS_PAIRS, AT(pairs), ""},
};
static const struct settings_section section = {"thing", "", rows, ARRAY_LEN(rows)};

static char *getvar(const char *name)
{
    return strcmp(name, "WHO") == 0     ? (char *)(uintptr_t) "me"
           : strcmp(name, "EMPTY") == 0 ? (char *)(uintptr_t) ""
                                        : NULL;
}

static struct arena arena;
static const struct settings_file_options options = {.arena = &arena, .getvar = getvar};

static struct settings_file *opened(const char *text, struct error *e)
{
    struct settings_file *f = NULL;
    int r = settings_file_open(&f, "t.yaml", bytes_str(text), &options, e);
    ck_assert_msg(r == 0, "%s", e->text);
    return f;
}

static int take(struct thing *t, const char *text, struct error *e)
{
    struct settings_file *f = NULL;
    int r = settings_file_open(&f, "t.yaml", bytes_str(text), &options, e);
    if (r == 0)
        r = settings_take_map(f, &section, t, settings_root(f), "thing");
    settings_file_close(f);
    return r;
}

UNIT(a_map_fills_the_struct)
{
    struct thing t = {0};
    struct error e = {""};
    int r = take(&t,
                 "name: ${env:WHO}-$$-${env:NOT:-there}$\ncount: '7'\ntls: { ca: /x, retries: 2 }\n"
                 "list: [a, ~, \"null\", \"${env:EMPTY:-x}\", \"${env:EMPTY:-}\"]\npairs: { k: v, l: }\n",
                 &e);
    ck_assert_msg(r == 0, "%s", e.text);
    ck_assert_str_eq(t.name, "me-$-there$");
    ck_assert(t.count == 7 && t.retries == 2 && t.list.n == 5 && t.pairs.n == 2);
    ck_assert_str_eq(t.ca, "/x");
    ck_assert_str_eq(t.list.items[1], "");
    ck_assert_str_eq(t.list.items[2], "null");
    ck_assert_str_eq(t.list.items[3], "x");
    ck_assert_str_eq(t.list.items[4], "");
    ck_assert_str_eq(t.pairs.items[1].value, "");
    ck_assert_int_eq(take(&t, "list: c, d\ntls:\n", &e), 0);
    ck_assert_uint_eq(t.list.n, 2);
    arena_release(&arena);
}

UNIT(errors_name_place_key_and_what_belongs_there)
{
    static const char *const bad[][2] = {
        {"count: x", "t.yaml:1:8: thing.count: \"x\" is not a number"},
        {"name: a\ntls: { retries: -1 }", "t.yaml:2:17: thing.tls.retries: \"-1\" is not a number"},
        {"nam: a",
         "t.yaml:1:1: thing.nam: unknown key; did you mean name? Known here: name, count, tls.ca, "},
        {"tls: { retrys: 1 }", "t.yaml:1:8: thing.tls.retrys: unknown key; did you mean tls.retries?"},
        {"retries: 1", "t.yaml:1:1: thing.retries: unknown key; did you mean tls.retries?"},
        {"name: a\ntls: { ca: x }\nname: b", "t.yaml:3:1: name: this key stands in line 1 already"},
        {"name: a\ntls:\n  retries: 1\n  ca: x\n  retries: 1",
         "t.yaml:5:3: retries: this key stands in line 3 already"},
        {"tls.retries: 1\ntls: { ca: x, retries: 1 }",
         "t.yaml:2:15: thing.tls.retries: this key stands in line 1 already"},
        {"tls: { retries: 1 }\ntls.retries: 1",
         "t.yaml:2:1: thing.tls.retries: this key stands in line 1 already"},
        {"list: { a: b }", "t.yaml:1:7: thing.list: a list belongs here, not a map: [one, another]"},
        {"pairs: [a]", "t.yaml:1:8: thing.pairs: a map belongs here, not a list: { NAME: VALUE }"},
        {"tls: { c: 1 }", "t.yaml:1:8: thing.tls.c: unknown key; did you mean tls.ca?"},
        {"tls: { tls: { ca: 1 } }", "t.yaml:1:8: thing.tls.tls: unknown key"},
        {"tls: 3", "t.yaml:1:6: thing.tls: a map of keys belongs here"},
        {"- a", "t.yaml:1:1: thing: a map of keys belongs here"},
        {"count: [1]", "t.yaml:1:8: thing.count: a single value belongs here"},
        {"pairs: { a: [] }", "t.yaml:1:13: thing.pairs: a single value belongs here"},
        {"[a]: b", "t.yaml:1:1: thing: a single value belongs here"},
        {"name: \"a\\0b\"", "t.yaml:1:7: thing.name: a NUL byte cannot be part of a value"},
        {"name: ${env:NO}",
         "t.yaml:1:7: thing.name: the environment has no variable NO; write ${env:NO:-DEFAULT}"},
        {"name: ${env:EMPTY}",
         "t.yaml:1:7: thing.name: the environment has nothing in EMPTY; write ${env:EMPTY:-DEFAULT} if it may be empty"},
        {"list: [a, \"x${env:EMPTY}\"]", "t.yaml:1:11: thing.list: the environment has nothing in EMPTY"},
        {"pairs: { a: \"Bearer ${env:EMPTY}\" }",
         "t.yaml:1:13: thing.pairs: the environment has nothing in EMPTY"},
        {"name: ${NO}", "t.yaml:1:7: thing.name: \"${NO}\" is not ${env:NAME} or ${env:NAME:-default}"},
        {"name: ${env:NO", "t.yaml:1:7: thing.name: \"${env:NO\" is not"},
        {"name: ${env:}", "t.yaml:1:7: thing.name: \"${env:}\" has no variable name"},
        {"name: [", "t.yaml:2:1: "},
        /* What is written wrongly most often, where it was written, in words of what to write. */
        {"tls:\n  ca:/x",
         "t.yaml:2:3: thing.tls: a map of keys belongs here; a blank belongs behind a key's colon"},
        {"tls: { ca:/x }", "t.yaml:1:8: thing.tls.ca:/x: unknown key; a blank belongs behind a key's colon"},
        {"tls:\n  ca:/x\n  retries: 1",
         "t.yaml:3:10: a colon where no key may stand: this line is too deep, the key above has no blank behind its colon"},
        {"name: a\ncount:3\nlist: [x]", "t.yaml:2:1: no key and value: a blank belongs behind a key's colon"},
        {"name: \"a\ncount: 3\n", "t.yaml:1:7: this quote is never closed"},
        {"list: [*.rules]", "t.yaml:1:8: a value that begins with * stands in quotes"},
        {"name: &", "t.yaml:1:7: a value that begins with & stands in quotes"},
        {"name: %1", "t.yaml:1:7: a value that begins so stands in quotes"},
        {"name: a\n  count: 3", "t.yaml:2:8: a colon where no key may stand: this line is too deep, "},
        {"name: a: b", "t.yaml:1:8: a colon where no key may stand: this line is too deep, "},
        {"name: a\ntls: { ca: /x\ncount: 3\n",
         "t.yaml:3:6: did not find expected ',' or '}', while parsing a flow mapping that begins in line 2"},
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct thing t = {0};
        struct error e = {""};
        ck_assert_int_eq(take(&t, bad[i][0], &e), -EINVAL);
        ck_assert_msg(strncmp(e.text, bad[i][1], strlen(bad[i][1])) == 0, "%s", e.text);
    }
    arena_release(&arena);
}

static void note(void *user, const char *text)
{
    buffer_printf(user, "%s\n", text);
}

UNIT(every_error_is_told_to_who_asks)
{
    struct buffer told = BUFFER_INIT(0);
    struct settings_file_options all = options;
    struct settings_file *f = NULL;
    struct thing t = {0};
    struct error e = {""};
    all.tell = note;
    all.user = &told;
    const char *text = "count: x\nname: a\ntls: { ca: /x, retries: y, ca: /y }\nlist: {}\n";
    ck_assert_int_eq(settings_file_open(&f, "t.yaml", bytes_str(text), &all, &e), 0);
    ck_assert_int_eq(settings_take_map(f, &section, &t, settings_root(f), "thing"), 0);
    ck_assert_int_eq(settings_failure(f), -EINVAL);
    ck_assert_int_eq(buffer_add(&told, "", 1), 0);
    ck_assert_str_eq((char *)told.p,
                     "t.yaml:3:28: ca: this key stands in line 3 already\n"
                     "t.yaml:1:8: thing.count: \"x\" is not a number\n"
                     "t.yaml:3:25: thing.tls.retries: \"y\" is not a number\n"
                     "t.yaml:4:7: thing.list: a list belongs here, not a map: [one, another]\n");
    ck_assert_str_eq(t.name, "a");
    buffer_release(&told);
    settings_file_close(f);
    arena_release(&arena);
}

UNIT(maps_are_as_deep_as_keys_have_dots)
{
    static const struct settings_row deep_rows[] = {{"auth.sasl.name", SETTINGS_TEXT, AT(name), ""},
                                                    {"auth.sasl.count", SETTINGS_COUNT, AT(count), "3"}};
    static const struct settings_section deep = {"deep", "", deep_rows, ARRAY_LEN(deep_rows)};
    static const struct {
        const char *text, *error;
    } cases[] = {
        {"auth: { sasl: { name: n, count: 7 } }", NULL},
        {"auth: { sasl.name: n, sasl.count: 7 }", NULL},
        {"auth.sasl.name: n\nauth: { sasl: { count: 7 } }", NULL},
        {"auth.sasl: { name: n, count: 7 }", NULL},
        {"auth.sasl.name: n\nauth: { sasl: { name: m } }",
         "t.yaml:2:17: deep.auth.sasl.name: this key stands in line 1 already"},
        {"auth: { sasl: { name: { n: 1 } } }",
         "t.yaml:1:23: deep.auth.sasl.name: a single value belongs here, not a map"},
        {"auth: { sasl: { mechanism: n } }",
         "t.yaml:1:17: deep.auth.sasl.mechanism: unknown key; known here: auth.sasl.name, auth.sasl.count"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct thing t = {0};
        struct error e = {""};
        struct settings_file *f = opened(cases[i].text, &e);
        int r = settings_take_map(f, &deep, &t, settings_root(f), "deep");
        settings_file_close(f);
        ck_assert_str_eq(e.text, cases[i].error ? cases[i].error : "");
        ck_assert_int_eq(r, cases[i].error ? -EINVAL : 0);
        if (!cases[i].error) {
            ck_assert_str_eq(t.name, "n");
            ck_assert_uint_eq(t.count, 7);
        }
    }
    arena_release(&arena);
}

UNIT(a_path_leads_to_its_place)
{
    static const struct {
        const char *path;
        size_t line, column;
    } cases[] = {
        {"", 1, 1},     {"a", 2, 3},          {"a.b.c", 2, 8},   {"a.b.c.d", 2, 8}, {"list[1]", 5, 5},
        {"list", 4, 3}, {"list[1].x", 5, 10}, {"list[7]", 4, 3}, {"nobody", 1, 1},  {"list[", 4, 5},
    };
    struct error e = {""};
    struct settings_file *f = opened("a:\n  b.c: 1\nlist:\n  - { x: 1 }\n  - { x: 2 }\n", &e);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct settings_place at = settings_place(settings_seek(f, cases[i].path));
        ck_assert_msg(at.line == cases[i].line && at.column == cases[i].column, "%s: %zu:%zu", cases[i].path,
                      at.line, at.column);
    }
    settings_file_close(f);
}

UNIT(a_document_can_be_walked)
{
    struct error e = {""};
    struct settings_file *f = opened("", &e);
    ck_assert_ptr_null(settings_root(f));
    settings_file_close(f);
    f = opened("a: true\n\"b\": 'true'\nc: [1, 2, 3]\n", &e);
    const struct settings_node *root = unit_made(settings_root(f)), *list = settings_value(f, root, 2);
    ck_assert(settings_is(root, SETTINGS_MAP) && settings_count(root) == 3);
    ck_assert(settings_is_word(settings_value(f, root, 0), "true"));
    ck_assert(settings_is(settings_value(f, root, 1), SETTINGS_SCALAR) &&
              !settings_is_word(settings_value(f, root, 1), "true"));
    ck_assert(settings_is(list, SETTINGS_LIST) && settings_count(list) == 3);
    ck_assert_str_eq(unit_made(settings_text(f, settings_item(f, list, 2), "c")), "3");
    ck_assert_uint_eq(settings_place(settings_item(f, list, 2)).line, 3);
    ck_assert_uint_eq(settings_place(settings_item(f, list, 2)).column, 11);
    ck_assert_int_eq(settings_fail(f, list, "", "is wrong"), -EINVAL);
    ck_assert_str_eq(e.text, "t.yaml:3:4: is wrong");
    settings_file_close(f);
    arena_release(&arena);
}

UNIT(without_variables_they_are_an_error)
{
    struct settings_file_options other = {.arena = &arena, .no_variables = "not here", .lines_only = true};
    struct settings_file *f = NULL;
    struct error e = {""};
    ck_assert_int_eq(settings_file_open(&f, "t.yaml", BYTES_LIT("a: $$x\nb: ${env:WHO}"), &other, &e), 0);
    const struct settings_node *root = unit_made(settings_root(f));
    ck_assert_str_eq(unit_made(settings_text(f, settings_value(f, root, 0), "a")), "$x");
    ck_assert_ptr_null(settings_text(f, settings_value(f, root, 1), "b"));
    ck_assert_int_eq(settings_failure(f), -EINVAL);
    ck_assert_str_eq(e.text, "t.yaml:2: b: not here");
    settings_file_close(f);
    arena_release(&arena);
}

UNIT(what_is_too_long_is_refused)
{
    cleanup(buffer_release) struct buffer text = BUFFER_INIT(0);
    struct error e = {""};
    struct settings_file *f = NULL;
    ck_assert_int_eq(buffer_reserve(&text, SETTINGS_FILE_MAX + 1), 0);
    memset(text.p, 0, text.n = SETTINGS_FILE_MAX + 1);
    ck_assert_int_eq(settings_file_open(&f, "zero", buffer_bytes(&text), &options, &e), -EINVAL);
    ck_assert_str_eq(e.text, "zero: longer than 1 MiB");
}

OOM_SWEEP(a_map_is_taken_or_refused_for_that_reason)
{
    struct thing t = {0};
    struct error e = {""};
    uint32_t before = sweep_failures();
    int r = take(&t, "name: ${env:WHO}\nlist: [a, b]\npairs: { a: b }\ntls: { ca: c }\n", &e);
    ck_assert_msg(r == 0 || (r == -ENOMEM && sweep_failures() > before && strstr(e.text, "memory")), "%d %s",
                  r, e.text);
    ck_assert(r < 0 || (t.name && t.ca && t.list.n == 2 && t.pairs.n == 1));
    arena_release(&arena);
}

UNIT(what_is_nested_without_end_ends_at_once)
{
    static const char *const ways[] = {"[", "{a: ", "- ", "? "};
    for (size_t w = 0; w < ARRAY_LEN(ways); w++) {
        cleanup(buffer_release) struct buffer text = BUFFER_INIT(0);
        struct settings_file *f = NULL;
        struct error e = {""};
        while (text.n < 200000)
            ck_assert_int_eq(buffer_add_str(&text, ways[w]), 0);
        ck_assert_int_eq(settings_file_open(&f, "t.yaml", buffer_bytes(&text), &options, &e), -EINVAL);
        ck_assert_msg(strstr(e.text, "nested too deep") != NULL, "%s", e.text);
    }
    struct error e;
    settings_file_close(opened("a: [[[[[[{b: [c]}]]]]]]", &e));
}

UNIT(a_second_document_is_not_passed_over)
{
    static const char *const good[] = {"---\nname: a\n", "name: a\n...\n", "%YAML 1.1\n---\nname: a\n...\n"};
    struct thing t = {0};
    struct error e = {""};
    for (size_t i = 0; i < ARRAY_LEN(good); i++)
        ck_assert_msg(take(&t, good[i], &e) == 0, "%s", e.text);
    ck_assert_int_eq(take(&t, "name: a\n---\ncount: 2\n", &e), -EINVAL);
    ck_assert_str_eq(e.text, "t.yaml:2:1: a second document begins; one is read");
    arena_release(&arena);
}
