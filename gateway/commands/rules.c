/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/commands/command.h"
#include "gateway/connector/convert.h"
#include "gateway/commands/rules_parts.h"
#include "gateway/run/rule_files.h"
#include "gateway/run/series_names.h"
#include "proto/base/quantity.h"
#include "rules/prove/coverage.h"
#include "rules/program/program.h"
#include "rules/prove/run_tests.h"

#define FILES_MAX COMMAND_RULES_FILES_MAX

static int set_stack(void *target, const char *value, struct arena *unused, struct error *e)
{
    uint64_t n;
    if (quantity_u64(bytes_str(value), &n) < 0 || n >= UINT32_MAX)
        return error_set(e, -EINVAL, "%s is no number of a stack", value);
    ((struct rules_command *)target)->stack = (uint32_t)n;
    return 0;
}

#define AT(field)     offsetof(struct rules_command, field)
#define SECTION(name) ((const struct settings_section){.rows = name, .n_rows = ARRAY_LEN(name)})
#define JSON                                                 \
    {                                                        \
        "json", SETTINGS_BOOL, AT(json), .doc = "print JSON" \
    }

/* clang-format off */
static const struct settings_row
    check_rows[] = {{"strict", SETTINGS_BOOL, AT(strict), .doc = "warnings count as errors"}, JSON},
    test_rows[] = {JSON},
    list_rows[] = {{"levels", SETTINGS_BOOL, AT(levels), .doc = "the level of every rule and label"}, JSON},
    explain_rows[] = {
        {"stack", SETTINGS_OWN, .set = set_stack, .metavar = "N",
         .doc = "only this entry of the request's stack table, with its frames"},
        {"metric", SETTINGS_TEXT, AT(metric), .metavar = "NAME", .doc = "only what this metric takes"},
        {"why-not", SETTINGS_TEXT, AT(why_not), .metavar = "NAME",
         .doc = "what this metric does not take, and which of its conditions failed"},
        JSON,
    };
/* clang-format on */

/* ---- files ---- */

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* A file named like a shipped pack is that pack's next version. */
static bool is_replaced(const char *builtin, char **files, int n)
{
    for (int i = 0; i < n; i++) {
        if (strcmp(base_name(files[i]), builtin) == 0)
            return true;
    }
    return false;
}

static int read_file(struct rules_command *c, const char *path)
{
    struct error e = {""};
    size_t n;
    char *text = rule_file_read(path, &n, &e);
    if (!text) {
        fprintf(stderr, "profgate rules: %s\n", e.text);
        return EXIT_USAGE;
    }
    c->texts[c->n_texts++] = text;
    c->inputs[c->n_inputs++] = (struct rules_input){path, bytes_of(text, n), false};
    return EXIT_DONE;
}

static bool is_rule_file(const char *path)
{
    size_t n = strlen(path), end = sizeof ".rules" - 1;
    return n > end && strcmp(path + n - end, ".rules") == 0;
}

/* Captures come out from between the rule files; returns how many of those are left. */
static int take_captures(struct rules_command *c, char **files, int n)
{
    int kept = 0;
    for (int i = 0; i < n; i++) {
        if (is_rule_file(files[i]))
            files[kept++] = files[i];
        else
            c->captures[c->n_captures++] = files[i];
    }
    return kept;
}

static int load(struct rules_command *c, char **files, int n, bool captures)
{
    if ((uint32_t)n > FILES_MAX) {
        fprintf(stderr, "profgate rules: more than %u files\n", FILES_MAX);
        return EXIT_USAGE;
    }
    if (captures)
        n = take_captures(c, files, n);
    for (const struct embedded_file *f = rules_builtin; f->name && c->n_inputs < FILES_MAX; f++) {
        if (!is_replaced(f->name, files, n))
            c->inputs[c->n_inputs++] = (struct rules_input){f->name, bytes_of(f->data, f->size), true};
    }
    c->n_builtin = c->n_inputs;
    for (int i = 0; i < n; i++) {
        int r = read_file(c, files[i]);
        if (r != EXIT_DONE)
            return r;
    }
    c->set = rules_compile(c->inputs, c->n_inputs, &c->found);
    if (!c->set && c->found.n_errors == 0) {
        fprintf(stderr, "profgate rules: out of memory\n");
        return EXIT_ENVIRONMENT;
    }
    return EXIT_DONE;
}

bool command_rules_is_meant(const struct rules_command *c, uint32_t file)
{
    return c->n_inputs == c->n_builtin || file >= c->n_builtin;
}

/* ---- diagnostics ---- */

static void put_diagnostic(struct json *j, const struct rules_diagnostic *d)
{
    json_open(j, '{');
    json_key(j, "code"), json_string(j, bytes_str(d->code));
    json_key(j, "severity"), json_string(j, bytes_str(d->warning ? "warning" : "error"));
    json_key(j, "file"), json_string(j, bytes_str(d->file));
    json_key(j, "line"), json_u64(j, d->place.line);
    json_key(j, "column"), json_u64(j, d->place.column);
    json_key(j, "length"), json_u64(j, d->place.length);
    json_key(j, "text"), json_string(j, bytes_str(d->text));
    json_close(j, '}');
}

/* Prints the diagnostics of what is meant, and every error; as JSON they are an array. Returns how many stand
 * in the way. */
static uint32_t put_diagnostics(struct rules_command *c)
{
    uint32_t warnings = 0, shown = 0;
    if (c->json)
        json_open(&c->put, '[');
    for (uint32_t i = 0; i < c->found.n; i++) {
        const struct rules_diagnostic *d = &c->found.items[i];
        if (d->warning && !command_rules_is_meant(c, d->place.file))
            continue;
        warnings += d->warning;
        if (c->json)
            put_diagnostic(&c->put, d);
        else
            printf("%s%s", shown++ > 0 ? "\n" : "", d->text);
    }
    if (c->json)
        json_close(&c->put, ']');
    c->n_warnings = warnings + c->found.n_untold;
    return c->found.n_errors + (c->strict ? c->n_warnings : 0);
}

void command_rules_no_set(struct rules_command *c)
{
    if (c->json)
        json_open(&c->put, '{'), json_key(&c->put, "diagnostics");
    put_diagnostics(c);
    if (c->json)
        json_key(&c->put, "ok"), json_bool(&c->put, false), json_close(&c->put, '}');
}

void command_rules_print(struct rules_command *c)
{
    fwrite(c->out.p, 1, c->out.n, stdout);
    c->out.n = 0;
}

static const char *plural(uint32_t n)
{
    return n == 1 ? "" : "s";
}

/* ---- check, test ---- */

/* What only the whole can tell: that it lowers, and what its tests leave untried. 0; 1: it does not lower, *e
 * says why; -ENOMEM. */
static int look_closer(struct rules_command *c, struct error *e)
{
    if (!c->set)
        return 0;
    struct rules_program *program = rules_program_new(c->set, e);
    if (!program)
        return e->text[0] ? 1 : -ENOMEM;
    rules_program_free(program);
    int r = rules_warn_untested(c->set, &c->found);
    return r < 0 ? r : series_names_check(c->set, PROMETHEUS_UNDERSCORES_WITH_SUFFIXES, &c->found);
}

static int check(struct rules_command *c)
{
    struct error e = {""};
    uint32_t files = 0, metrics = 0;
    int r = look_closer(c, &e);
    if (r < 0) {
        fprintf(stderr, "profgate rules: out of memory\n");
        return EXIT_ENVIRONMENT;
    }
    struct json *j = &c->put;
    if (c->json)
        json_open(j, '{'), json_key(j, "diagnostics");
    uint32_t wrong = put_diagnostics(c) + (r > 0);
    if (r > 0)
        fprintf(stderr, "profgate rules: %s\n", e.text);
    for (uint32_t i = 0; i < c->n_inputs; i++)
        files += command_rules_is_meant(c, i);
    for (uint32_t i = 0; c->set && i < c->set->n_metrics; i++)
        metrics += command_rules_is_meant(c, c->set->metrics[i].place.file);
    if (c->json) {
        json_key(j, "ok"), json_bool(j, wrong == 0);
        json_key(j, "files"), json_u64(j, files);
        json_key(j, "metrics"), json_u64(j, metrics);
        json_key(j, "errors"), json_u64(j, wrong);
        json_key(j, "warnings"), json_u64(j, c->n_warnings);
        json_close(j, '}');
    } else if (wrong > 0)
        printf("%s%u file%s, %u error%s\n", c->found.n > 0 ? "\n" : "", files, plural(files), wrong,
               plural(wrong));
    else
        printf("%u file%s, %u metric%s, ok\n", files, plural(files), metrics, plural(metrics));
    if (!c->json && c->found.n_untold > 0)
        printf("%u warnings, %u of them not shown\n", c->n_warnings, c->found.n_untold);
    return wrong > 0 ? EXIT_NO : EXIT_DONE;
}

static void print_failures(struct rules_command *c, const struct rules_diagnostics *failures, bool ok,
                           uint32_t run)
{
    if (c->json) {
        struct json *j = &c->put;
        json_open(j, '{');
        json_key(j, "failures"), json_open(j, '[');
        for (uint32_t i = 0; i < failures->n; i++)
            put_diagnostic(j, &failures->items[i]);
        json_close(j, ']');
        json_key(j, "ok"), json_bool(j, ok);
        json_key(j, "tests"), json_u64(j, run);
        json_key(j, "failed"), json_u64(j, failures->n);
        json_close(j, '}');
        return;
    }
    for (uint32_t i = 0; i < failures->n; i++)
        printf("%s\n", failures->items[i].text);
    if (ok)
        printf("%u test%s, ok\n", run, plural(run));
    else
        printf("%u test%s, %u failed\n", run, plural(run), failures->n);
}

static int test(struct rules_command *c)
{
    if (!c->set) {
        command_rules_no_set(c);
        return EXIT_NO;
    }
    struct rule_test *tests = calloc(c->set->n_tests + 1, sizeof *tests);
    struct rules_diagnostics failures = {0};
    uint32_t n = 0, run = 0;
    if (!tests) {
        fprintf(stderr, "profgate rules: out of memory\n");
        return EXIT_ENVIRONMENT;
    }
    for (uint32_t i = 0; i < c->set->n_tests; i++) {
        if (command_rules_is_meant(c, c->set->tests[i].place.file))
            tests[n++] = c->set->tests[i];
    }
    /* The set as it is, with the tests that were asked for; it shares the arena and is not freed. */
    struct rule_set meant = *c->set;
    meant.tests = tests;
    meant.n_tests = n;
    int r = rules_run_tests(&meant, &failures, &run);
    bool failed = r != 0 || failures.n > 0;
    if (r < 0)
        fprintf(stderr, "profgate rules: %s\n", strerror(-r));
    else
        print_failures(c, &failures, !failed, run);
    rules_diagnostics_release(&failures);
    free(tests);
    return r < 0 ? EXIT_ENVIRONMENT : failed ? EXIT_NO : EXIT_DONE;
}

/* ---- the command ---- */

static int run(int argc, char **argv);

#define NO_FILE \
    "With no FILE the shipped packs are meant. A FILE named like a shipped pack stands in its place.\n"

static const struct settings_command
    check_command =
        {
            .name = "profgate rules check",
            .usage = "[--strict] [--json] [FILE]...",
            .doc = "say what is wrong or doubtful in rule files",
            .text =
                "Compiles the files together with the shipped packs and prints what is wrong or doubtful.\n" NO_FILE,
            .flags = &SECTION(check_rows),
            .run = run,
},
    test_command =
        {
            .name = "profgate rules test",
            .usage = "[--json] [FILE]...",
            .doc = "run the tests that are written in rule files",
            .text = "Runs the tests that are written in the files.\n" NO_FILE,
            .flags = &SECTION(test_rows),
            .run = run,
},
    list_command =
        {
            .name = "profgate rules list",
            .usage = "[--levels] [--json] [FILE]...",
            .doc = "list what rule files count, keep and trigger",
            .text = "Lists every metric, keep rule and trigger the files define.\n" NO_FILE,
            .flags = &SECTION(list_rows),
            .run = run,
},
    explain_command = {
        .name = "profgate rules explain",
        .usage = "[--stack N] [--metric NAME] [--why-not NAME] [--json] [FILE.rules]... CAPTURE...",
        .doc = "say which rules took each stack of captured requests, and why not",
        .text =
            "Says of every stack of captured requests which rules took it, by which frames, with which labels.\n" NO_FILE,
        .flags = &SECTION(explain_rows),
        .run = run,
};

static const struct {
    const struct settings_command *command;
    int (*run)(struct rules_command *c);
    bool captures; /* files that are no rules are captured requests */
} verbs[] = {
    {&check_command, check, false},
    {&test_command, test, false},
    {&list_command, command_rules_list, false},
    {&explain_command, command_rules_explain, true},
};

/* Of all verbs: which one is argv[0]. */
static int run(int argc, char **argv)
{
    size_t verb = 0;
    while (strcmp(settings_command_word(verbs[verb].command), argv[0]) != 0)
        verb++;
    struct rules_command *c = calloc(1, sizeof *c);
    struct error e = {""};
    int rest = 1;
    if (!c) {
        fprintf(stderr, "profgate rules: out of memory\n");
        return EXIT_ENVIRONMENT;
    }
    c->stack = UINT32_MAX;
    c->put = (struct json)JSON_INIT(&c->out);
    c->put.spaced = true;
    int r = settings_flags(verbs[verb].command->flags, argc, argv, c, NULL, &rest, &e);
    if (r < 0) {
        fprintf(stderr, "%s: %s\n", verbs[verb].command->name, e.text);
        r = EXIT_USAGE;
    } else {
        r = load(c, argv + rest, argc - rest, verbs[verb].captures);
        if (r == EXIT_DONE)
            r = verbs[verb].run(c);
        if (c->put.r < 0) {
            fprintf(stderr, "profgate rules: out of memory\n");
            r = EXIT_ENVIRONMENT;
        } else if (c->out.n > 0) {
            command_rules_print(c);
            putchar('\n');
        }
    }
    buffer_release(&c->out);
    rules_diagnostics_release(&c->found);
    rules_set_free(c->set);
    for (uint32_t i = 0; i < c->n_texts; i++)
        free(c->texts[i]);
    free(c);
    return r;
}

static const struct settings_command *const commands[] = {
    &check_command, &test_command, &list_command, &explain_command, &from_connector_command, NULL};

const struct settings_command rules_command = {
    .name = "profgate rules",
    .usage = "COMMAND [ARGUMENT]...",
    .doc = "check and test rule files, list what they count, say which rule takes a stack",
    .commands = commands,
};
