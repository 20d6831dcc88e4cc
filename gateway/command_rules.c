#include "gateway/command_rules.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/command.h"
#include "gateway/flags.h"
#include "gateway/rule_files.h"
#include "proto/base/macros.h"
#include "rules/compile.h"
#include "rules/run_tests.h"

#define FILES_MAX 256u /* files on one command line, and shipped packs besides */

struct rules_command {
    bool strict;
    struct rules_input inputs[2 * FILES_MAX];
    char *texts[FILES_MAX]; /* of the files read */
    uint32_t n_inputs, n_builtin, n_texts;
    struct rule_set *set;
    struct rules_diagnostics found;
};

static int set_strict(void *target, const char *value, struct error *e)
{
    ((struct rules_command *)target)->strict = true;
    return 0;
}

static const struct flag flags[] = {
    {"strict", NULL, "warnings count as errors", set_strict},
};

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

static int load(struct rules_command *c, char **files, int n)
{
    if ((uint32_t)n > FILES_MAX) {
        fprintf(stderr, "profgate rules: more than %u files\n", FILES_MAX);
        return EXIT_USAGE;
    }
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

/* What the command is about: the files named, or the shipped packs when none was. */
static bool is_meant(const struct rules_command *c, uint32_t file)
{
    return c->n_inputs == c->n_builtin || file >= c->n_builtin;
}

/* Prints the diagnostics of what is meant, and every error. Returns how many stand in the way. */
static uint32_t print_diagnostics(const struct rules_command *c, FILE *to)
{
    uint32_t warnings = 0, shown = 0;
    for (uint32_t i = 0; i < c->found.n; i++) {
        const struct rules_diagnostic *d = &c->found.items[i];
        if (d->warning && !is_meant(c, d->place.file))
            continue;
        warnings += d->warning;
        fprintf(to, "%s%s", shown++ > 0 ? "\n" : "", d->text);
    }
    return c->found.n_errors + (c->strict ? warnings : 0);
}

static const char *plural(uint32_t n)
{
    return n == 1 ? "" : "s";
}

/* ---- check, test, list ---- */

static int check(struct rules_command *c)
{
    uint32_t wrong = print_diagnostics(c, stdout), files = 0, metrics = 0;
    for (uint32_t i = 0; i < c->n_inputs; i++)
        files += is_meant(c, i);
    for (uint32_t i = 0; c->set && i < c->set->n_metrics; i++)
        metrics += is_meant(c, c->set->metrics[i].place.file);
    if (wrong > 0)
        printf("%s%u file%s, %u error%s\n", c->found.n > 0 ? "\n" : "", files, plural(files), wrong,
               plural(wrong));
    else
        printf("%u file%s, %u metric%s, ok\n", files, plural(files), metrics, plural(metrics));
    return wrong > 0 ? EXIT_NO : EXIT_DONE;
}

static int test(struct rules_command *c)
{
    if (!c->set) {
        print_diagnostics(c, stdout);
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
        if (is_meant(c, c->set->tests[i].place.file))
            tests[n++] = c->set->tests[i];
    }
    /* The set as it is, with the tests that were asked for; it shares the arena and is not freed. */
    struct rule_set meant = *c->set;
    meant.tests = tests;
    meant.n_tests = n;
    int r = rules_run_tests(&meant, &failures, &run);
    for (uint32_t i = 0; i < failures.n; i++)
        printf("%s\n", failures.items[i].text);
    bool failed = r != 0 || failures.n > 0;
    if (r < 0)
        fprintf(stderr, "profgate rules: %s\n", strerror(-r));
    else if (failed)
        printf("%u test%s, %u failed\n", run, plural(run), failures.n);
    else
        printf("%u test%s, ok\n", run, plural(run));
    rules_diagnostics_release(&failures);
    free(tests);
    return r < 0 ? EXIT_ENVIRONMENT : failed ? EXIT_NO : EXIT_DONE;
}

static int list(struct rules_command *c)
{
    if (!c->set) {
        print_diagnostics(c, stdout);
        return EXIT_NO;
    }
    int width = 6;
    for (uint32_t i = 0; i < c->set->n_metrics; i++)
        width = max_of(width, (int)min_of(c->set->metrics[i].name.n, (size_t)60));
    printf("%-*s  %-7s %-3s %-10s %-12s %s\n", width, "METRIC", "KIND", "", "UNIT", "PACK", "DEFINED");
    for (uint32_t i = 0; i < c->set->n_metrics; i++) {
        const struct rule_metric *m = &c->set->metrics[i];
        if (!is_meant(c, m->place.file))
            continue;
        printf("%-*.*s  %-7s %-3s %-10.*s %-12.*s %.*s:%u\n", width, BYTES_FMT(m->name),
               m->gauge ? "gauge" : "counter", m->enabled ? "on" : "off", BYTES_FMT(m->unit),
               BYTES_FMT(m->pack), BYTES_FMT(c->set->files[m->place.file].name), m->place.line);
    }
    return EXIT_DONE;
}

/* ---- the command ---- */

static const struct {
    const char *name, *usage, *doc;
    int (*run)(struct rules_command *c);
} verbs[] = {
    {"check", "rules check [--strict] [FILE]...",
     "Compiles the files together with the shipped packs and prints what is wrong or doubtful.", check},
    {"test", "rules test [FILE]...", "Runs the tests that are written in the files.", test},
    {"list", "rules list [FILE]...", "Lists every metric the files define.", list},
};

static void usage(FILE *to)
{
    for (size_t i = 0; i < ARRAY_LEN(verbs); i++)
        fprintf(to, "%s profgate %s\n       %s\n", i == 0 ? "usage:" : "      ", verbs[i].usage,
                verbs[i].doc);
    fprintf(
        to,
        "With no FILE the shipped packs are meant. A FILE named like a shipped pack stands in its place.\n");
}

static int run_verb(size_t verb, int argc, char **argv)
{
    struct rules_command *c = calloc(1, sizeof *c);
    struct error e = {""};
    int rest = 1;
    if (!c) {
        fprintf(stderr, "profgate rules: out of memory\n");
        return EXIT_ENVIRONMENT;
    }
    int r = flags_parse(flags, ARRAY_LEN(flags), argc, argv, c, &rest, &e);
    if (r == FLAGS_HELP) {
        flags_help(verbs[verb].usage, verbs[verb].doc, flags, ARRAY_LEN(flags));
        r = EXIT_DONE;
    } else if (r < 0) {
        fprintf(stderr, "profgate rules %s: %s\n", verbs[verb].name, e.text);
        r = EXIT_USAGE;
    } else {
        r = load(c, argv + rest, argc - rest);
        if (r == EXIT_DONE)
            r = verbs[verb].run(c);
    }
    rules_diagnostics_release(&c->found);
    rules_set_free(c->set);
    for (uint32_t i = 0; i < c->n_texts; i++)
        free(c->texts[i]);
    free(c);
    return r;
}

int command_rules(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";
    for (size_t i = 0; i < ARRAY_LEN(verbs); i++) {
        if (strcmp(name, verbs[i].name) == 0)
            return run_verb(i, argc - 1, argv + 1);
    }
    bool asked = strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0;
    if (!asked && name[0])
        fprintf(stderr, "profgate rules: there is no `%s`\n", name);
    usage(asked ? stdout : stderr);
    return asked ? EXIT_DONE : EXIT_USAGE;
}
