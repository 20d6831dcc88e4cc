/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/connector/convert.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/commands/command.h"
#include "gateway/connector/config.h"
#include "gateway/connector/go_regex.h"
#include "gateway/run/rule_files.h"
#include "proto/base/buffer.h"
#include "proto/base/macros.h"
#include "rules/pattern/regex_check.h"

#define PACK "connector_site" /* the pack of what is written, unless the user says another name */

struct convert_arguments {
    const char *connector, *pack;
};

/* ---- flags */

static int set_pack(void *target, const char *value, struct arena *unused, struct error *e)
{
    for (const char *p = value; *p; p++)
        if (!strchr("abcdefghijklmnopqrstuvwxyz_", *p) && (p == value || !strchr("0123456789", *p)))
            return error_set(e, -EINVAL, "%s is no name of a pack: letters a to z, digits and _", value);
    ((struct convert_arguments *)target)->pack = value;
    return value[0] ? 0 : error_set(e, -EINVAL, "a pack has a name");
}

static const struct settings_row rows[] = {
    {"connector", SETTINGS_TEXT, offsetof(struct convert_arguments, connector), .metavar = "NAME",
     .doc = "which of several connectors: profilingmetrics/site"},
    {"pack", SETTINGS_OWN, .set = set_pack, .metavar = "NAME",
     .doc = "name of the pack that is written; default " PACK},
};

static const struct settings_section flags = {.rows = rows, .n_rows = ARRAY_LEN(rows)};

/* ---- rules */

static void put_text(FILE *out, const char *text)
{
    putc('"', out);
    for (const uint8_t *p = (const uint8_t *)text; *p; p++)
        if (*p == '"' || *p == '\\')
            fprintf(out, "\\%c", *p);
        else
            fprintf(out, *p < 0x20 || *p == 0x7f ? "\\x%02x" : "%c", *p);
    putc('"', out);
}

/* As a comment's rest: what would end the line is left away. */
static void put_comment(FILE *out, const char *text)
{
    for (; *text; text++)
        if ((uint8_t)*text >= 0x20)
            putc(*text, out);
}

static void put_labels(FILE *out, const struct connector_metric *m, const char *frame_type)
{
    if (m->attributes & CONNECTOR_FRAME_TYPE) {
        fputs("    label    frame_type        = ", out);
        put_text(out, frame_type);
        putc('\n', out);
    }
    if (m->attributes & CONNECTOR_TYPE_UNIT)
        fputs("    label    profile.type_unit = type_unit\n", out);
}

enum { NO_RULE = 1 }; /* no rule can say what the configuration does; *e says why */

/* The rule's condition: the regex, translated and tried. 0, NO_RULE, or a negative errno. */
static int put_match(FILE *out, const char *path, const struct connector_aggregation *a, struct error *e)
{
    struct bytes pattern = bytes_str(a->match);
    struct regex_fault fault = {0};
    cleanup(buffer_release) struct buffer regex = {0};
    bool nocase;
    size_t at;
    int r = regex_from_go(pattern, &regex, &nocase, &at, e);
    if (r == GO_REGEX_REFUSED)
        r = error_prefix(e, NO_RULE, "%s:%zu:%zu: match: at character %zu of %s: ", path, a->match_at.line,
                         a->match_at.column, at + 1, a->match);
    else if (r == 0 && (r = regex_check(buffer_bytes(&regex), nocase, &fault)) > 0)
        r = error_set(e, NO_RULE, "%s:%zu:%zu: match: %s: %s", path, a->match_at.line, a->match_at.column,
                      a->match, fault.what ? fault.what : fault.error.text);
    if (r == 0)
        fprintf(out, "    each     frame is /%.*s/%s\n", BYTES_FMT(buffer_bytes(&regex)), nocase ? "i" : "");
    return r;
}

static int put_aggregations(FILE *out, const char *path, const struct connector_config *c,
                            const struct connector_metric *m, struct error *e)
{
    int r = 0;
    for (uint32_t i = 0; i < c->n_aggregations && r == 0; i++) {
        const struct connector_aggregation *a = &c->aggregations[i];
        fputs("\n# ", out);
        put_comment(out, a->match);
        if (i == 0)
            fprintf(out,
                    "\ngauge %s {\n"
                    "    describe \"Number of profiling frames by classification\"\n"
                    "    unit     \"1\"\n"
                    "    on       any\n"
                    "    value    one\n"
                    "    combine  %s\n",
                    m->name, m->strategy == CONNECTOR_SUM ? "sum" : "mean");
        else
            fprintf(out, "\nalso gauge %s {\n", m->name);
        r = put_match(out, path, a, e);
        put_labels(out, m, a->label);
        fputs("}\n", out);
    }
    return r;
}

/* A shipped gauge with fewer attributes, or added up. */
static void put_override(FILE *out, const struct connector_metric *m)
{
    static const struct {
        uint32_t bit;
        const char *name;
    } labels[] = {{CONNECTOR_CLASSIFICATION, "classification"},
                  {CONNECTOR_FRAME_TYPE, "frame_type"},
                  {CONNECTOR_TYPE_UNIT, "profile.type_unit"}};
    uint32_t left_out = m->all_attributes & ~m->attributes;
    if (!m->enabled || (left_out == 0 && m->strategy == CONNECTOR_AVG))
        return;
    fprintf(out, "\noverride gauge %s {\n", m->name);
    if (m->strategy == CONNECTOR_SUM)
        fputs("    combine  sum\n", out);
    for (size_t i = 0; i < ARRAY_LEN(labels); i++)
        if (left_out & labels[i].bit)
            fprintf(out, "    label    %s = none\n", labels[i].name);
    fputs("}\n", out);
}

static void put_head(FILE *out, const char *path, const struct connector_config *c, const char *pack)
{
    fputs("# Made by `profgate rules from-connector` out of ", out);
    put_comment(out, path);
    fputs(", ", out);
    put_comment(out, c->name);
    if (c->flush_interval)
        fprintf(out, ".\n# flush_interval is the gateway's to know: metrics: { flush_interval: %s }",
                c->flush_interval);
    fprintf(out, ".\n\nrules 1\npack  %s\n", pack);
}

/* Whether it is all there says ferror(3). 0, NO_RULE or a negative errno. */
static int put_rules(FILE *out, const char *path, const struct connector_config *c, const char *pack,
                     struct error *e)
{
    const struct connector_metric *custom = NULL;
    bool switched = false;
    for (uint32_t i = 0; i < CONNECTOR_METRICS; i++)
        if (strcmp(c->metrics[i].name, "samples.custom_aggregation") == 0)
            custom = &c->metrics[i];
    bool aggregates = custom->enabled && c->n_aggregations > 0;
    put_head(out, path, c, pack);
    if (aggregates && custom->attributes & CONNECTOR_TYPE_UNIT)
        fputs("use   connector (type_unit)\n", out);
    for (uint32_t i = 0; i < CONNECTOR_METRICS; i++) {
        const struct connector_metric *m = &c->metrics[i];
        if (m == custom || m->enabled == m->enabled_at_first)
            continue;
        fprintf(out, "%s%s %s\n", switched ? "" : "\n", m->enabled ? "enable " : "disable", m->name);
        switched = true;
    }
    for (uint32_t i = 0; i < CONNECTOR_METRICS; i++)
        if (c->metrics[i].gauge && &c->metrics[i] != custom)
            put_override(out, &c->metrics[i]);
    return aggregates ? put_aggregations(out, path, c, custom, e) : 0;
}

/* ---- the command */

static int convert(const struct convert_arguments *a, const char *path)
{
    struct error e = {""};
    struct connector_config c;
    autofree char *rules = NULL;
    size_t n, n_rules = 0;
    autofree char *text = rule_file_read(path, &n, &e);
    if (!text) {
        fprintf(stderr, "profgate rules from-connector: %s\n", e.text);
        return EXIT_USAGE;
    }
    int code = EXIT_USAGE, r;
    r = connector_config_read(&c, path, bytes_of(text, n), a->connector, &e);
    if (r == 0) {
        FILE *out = open_memstream(&rules, &n_rules);
        r = out ? put_rules(out, path, &c, a->pack, &e) : -ENOMEM;
        const bool is_cut = !out || ferror(out);
        if ((out && fclose(out) != 0) || is_cut)
            r = -ENOMEM;
        code = r < 0 ? EXIT_ENVIRONMENT : EXIT_NO;
    }
    if (r != 0)
        fprintf(stderr, "%s\n", e.text[0] ? e.text : "profgate rules from-connector: out of memory");
    else
        code = fwrite(rules, 1, n_rules, stdout) == n_rules && fflush(stdout) == 0 ? EXIT_DONE
                                                                                   : EXIT_ENVIRONMENT;
    connector_config_release(&c);
    return code;
}

static int run(int argc, char **argv)
{
    struct convert_arguments arguments = {.pack = PACK};
    struct error e = {""};
    int rest = argc;
    int r = settings_flags(&flags, argc, argv, &arguments, NULL, &rest, &e);
    if (r == 0 && rest + 1 != argc)
        r = error_set(&e, -EINVAL, "name one configuration file");
    if (r < 0) {
        fprintf(stderr, "profgate rules from-connector: %s\n", e.text);
        return EXIT_USAGE;
    }
    return convert(&arguments, argv[rest]);
}

const struct settings_command from_connector_command = {
    .name = "profgate rules from-connector",
    .usage = "[--connector NAME] [--pack NAME] CONFIG.yaml",
    .doc = "print the configuration of Elastic's profilingmetricsconnector as a rule file",
    .text =
        "Prints the configuration of Elastic's profilingmetricsconnector as a rule file: its switches, and its\n"
        "aggregations. CONFIG is a Collector's configuration, or the connector's section alone.\n",
    .flags = &flags,
    .run = run,
};
