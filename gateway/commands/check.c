/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>

#include "gateway/commands/capture_file.h"
#include "gateway/commands/check_report.h"
#include "gateway/commands/command.h"
#include "proto/base/macros.h"

#define PLACES      5 /* of a rule's that are told, unless --places says otherwise */
#define TEXT_OF(n)  TEXT_OF_(n)
#define TEXT_OF_(n) #n

enum format { FORMAT_TEXT, FORMAT_JSON, FORMAT_SARIF };

static const struct settings_word formats[] = {
    {"text", FORMAT_TEXT}, {"json", FORMAT_JSON}, {"sarif", FORMAT_SARIF}, {NULL}};
static const struct settings_word severities[] = {
    {"error", CHECK_ERROR}, {"warning", CHECK_WARNING}, {"note", CHECK_NOTE}, {NULL}};

struct check_arguments {
    int format, severity, fail;
    uint32_t places;
    bool rules;
};

#define AT(field) offsetof(struct check_arguments, field)

/* clang-format off */
static const struct settings_row rows[] = {
    {"format", SETTINGS_CHOICE, AT(format), "text", .words = formats, .metavar = "FORMAT",
     .doc = "text (the default), json, or sarif (2.1.0, for code hosts)"},
    {"severity", SETTINGS_CHOICE, AT(severity), "warning", .words = severities, .metavar = "LEVEL",
     .doc = "the least that is told: error, warning (the default) or note"},
    {"fail", SETTINGS_CHOICE, AT(fail), "error", .words = severities, .metavar = "LEVEL",
     .doc = "the least for which the exit code is 1: error (the default), warning or note"},
    {"places", SETTINGS_COUNT, AT(places), TEXT_OF(PLACES), 1, 1000000, .metavar = "N",
     .doc = "how many places of each rule are told in a file, all being counted; default " TEXT_OF(PLACES)},
    {"rules", SETTINGS_BOOL, AT(rules), .doc = "print the table of rules"},
};
/* clang-format on */

static const struct settings_section flags = {.rows = rows, .n_rows = ARRAY_LEN(rows)};

/* ---- a file -------------------------------------------------------------------------------------- */

struct checking {
    struct check *check;
    struct check_report *report;
    struct error *e;
};

static int check_one(void *context, const struct capture_request *request)
{
    const struct checking *k = context;
    uint32_t before, n;
    if (request->was_other)
        return error_set(k->e, -EINVAL, "%s: not OTLP; profgate convert makes OTLP of it", request->place);
    check_findings(k->check, &before);
    int r = check_request(k->check, request->body, request->layout, !request->was_json);
    if (r == CHECK_TOO_LARGE)
        return error_set(k->e, -EFBIG, "%s: 4 GiB and more", request->place);
    if (r < 0)
        return error_set(k->e, r, "%s: out of memory", request->place);
    check_findings(k->check, &n);
    return check_report_request(k->report, request->place, n - before);
}

/* The exit code of one file. */
static int check_file(struct checking *k, const char *path, enum check_severity fail)
{
    int r = check_report_begin(k->report, path);
    if (r == 0)
        r = capture_file_requests(path, check_one, k, k->e);
    if (r == 0)
        r = check_report_end(k->report, k->check);
    if (r < 0) {
        fprintf(stderr, "profgate check: %s\n", k->e->text[0] ? k->e->text : "out of memory");
        return EXIT_USAGE;
    }
    for (uint32_t i = 0; i < CHECK_RULES; i++)
        if (check_count(k->check, (enum check_rule)i) > 0 &&
            check_rule_row((enum check_rule)i)->severity >= fail)
            return EXIT_NO;
    return EXIT_DONE;
}

static int check_files(const struct check_arguments *a, char **files, int n)
{
    static check_report_new *const make[] = {[FORMAT_TEXT] = check_report_text,
                                             [FORMAT_JSON] = check_report_json,
                                             [FORMAT_SARIF] = check_report_sarif};
    struct error e = {""};
    struct checking k = {check_new(a->places, NULL), make[a->format]((enum check_severity)a->severity), &e};
    int code = k.check && k.report ? EXIT_DONE : EXIT_ENVIRONMENT;
    if (code == EXIT_ENVIRONMENT)
        fprintf(stderr, "profgate check: out of memory\n");
    for (int i = 0; i < n && code != EXIT_ENVIRONMENT; i++) {
        e.text[0] = '\0';
        check_clear(k.check);
        code = max_of(code, check_file(&k, files[i], (enum check_severity)a->fail));
    }
    if (code != EXIT_ENVIRONMENT && check_report_finish(k.report) < 0) {
        fprintf(stderr, "profgate check: out of memory\n");
        code = EXIT_ENVIRONMENT;
    }
    check_report_free(k.report);
    check_free(k.check);
    return code;
}

static int run(int argc, char **argv)
{
    struct check_arguments a = {0};
    struct error e = {""};
    int rest = argc;
    int r = settings_defaults(&flags, &a, NULL);
    if (r == 0)
        r = settings_flags(&flags, argc, argv, &a, NULL, &rest, &e);
    if (r == 0 && a.rules && rest == argc) {
        check_report_rules(a.format == FORMAT_JSON);
        return EXIT_DONE;
    }
    if (r == 0 && rest == argc)
        r = error_set(&e, -EINVAL, "name a file, or - for standard input");
    if (r < 0) {
        fprintf(stderr, "profgate check: %s\n", e.text[0] ? e.text : "out of memory");
        return EXIT_USAGE;
    }
    return check_files(&a, argv + rest, argc - rest);
}

const struct settings_command conformance_command = {
    .name = "profgate check",
    .usage = "[--format FORMAT] [--severity LEVEL] FILE...",
    .doc = "hold OTLP profiles against the specification, and say where they break which rule",
    .text =
        "Checks requests (ExportProfilesServiceRequest or ProfilesData as protobuf of any layout, or OTLP/JSON; one\n"
        "or several; plain, gzip or zstd) rule by rule, on the wire and in what they say. Of each rule that is broken it\n"
        "prints where, what the specification says, and how it is mended.\n"
        "Exits with 1 when there are findings of --fail or worse, with 2 when a file cannot be read as a request.\n",
    .flags = &flags,
    .run = run,
};
