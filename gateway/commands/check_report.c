/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text is written file by file, and so is JSON, an object a file in one document; SARIF has its rules first,
 * then the results of all files, so its document is kept and written at the end.
 */
#include "gateway/commands/check_report.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/intern.h"
#include "proto/base/json.h"

struct check_report {
    enum check_severity least;
    int (*end)(struct check_report *r, const struct check *c);
    int (*finish)(struct check_report *r);
    const char *path;
    struct intern places;   /* of the file's requests that have findings */
    VEC(uint32_t) place_of; /* by finding */
    uint32_t n_requests;
    struct buffer out;
    struct json json;
};

/* ---- what all have in common ---------------------------------------------------------------------- */

static struct check_report *report_new(enum check_severity least,
                                       int (*end)(struct check_report *r, const struct check *c),
                                       int (*finish)(struct check_report *r))
{
    struct check_report *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    r->least = least;
    r->end = end;
    r->finish = finish;
    r->json = (struct json)JSON_INIT(&r->out);
    return r;
}

struct check_report *check_report_free(struct check_report *r)
{
    if (!r)
        return NULL;
    intern_release(&r->places);
    vec_release(&r->place_of);
    buffer_release(&r->out);
    free(r);
    return NULL;
}

int check_report_begin(struct check_report *r, const char *path)
{
    r->path = path;
    r->n_requests = 0;
    intern_clear(&r->places);
    vec_clear(&r->place_of);
    return 0;
}

int check_report_request(struct check_report *r, const char *place, uint32_t n_findings)
{
    r->n_requests++;
    for (uint32_t i = 0; i < n_findings; i++) {
        const uint32_t id = intern_add(&r->places, bytes_str(place));
        if (id == INTERN_NONE || vec_append(&r->place_of, id) < 0)
            return -ENOMEM;
    }
    return 0;
}

int check_report_end(struct check_report *r, const struct check *c)
{
    return r->end(r, c);
}

int check_report_finish(struct check_report *r)
{
    return r->finish(r);
}

/* Where a finding is: its request, when the file has several. */
static struct bytes place_of(const struct check_report *r, uint32_t finding)
{
    return r->n_requests > 1 ? intern_get(&r->places, r->place_of.p[finding]) : bytes_str(r->path);
}

static bool is_told(const struct check_report *r, const struct check *c, uint32_t rule)
{
    return check_count(c, (enum check_rule)rule) > 0 &&
           check_rule_row((enum check_rule)rule)->severity >= r->least;
}

/* The worst first, then in the order of the table: *at is where to go on, 0 at first. False: no more. */
static bool next_rule(const struct check_report *r, const struct check *c, uint32_t *at, uint32_t *rule)
{
    for (; *at < CHECK_SEVERITIES * CHECK_RULES; ++*at) {
        const enum check_severity severity = CHECK_ERROR - (enum check_severity)(*at / CHECK_RULES);
        *rule = *at % CHECK_RULES;
        if (check_rule_row((enum check_rule) * rule)->severity == severity && is_told(r, c, *rule)) {
            ++*at;
            return true;
        }
    }
    return false;
}

/* ---- text ------------------------------------------------------------------------------------------ */

/* What a peer wrote, for a terminal. */
static int add_clean(struct buffer *out, struct bytes b)
{
    const size_t from = out->n;
    int r = buffer_add_utf8(out, b);
    for (size_t i = from; i < out->n; i++)
        if (out->p[i] < ' ' || out->p[i] == 0x7f || (out->p[i] == 0xc2 && out->p[i + 1] < 0xa0))
            out->p[i] = '?';
    return r;
}

static int text_place(struct check_report *r, const struct check_finding *f, struct bytes place)
{
    struct buffer *out = &r->out;
    int e = buffer_add_str(out, "    ");
    if (e == 0 && r->n_requests > 1) {
        e = add_clean(out, place);
        if (e == 0)
            e = buffer_add_str(out, ": ");
    }
    if (e == 0)
        e = f->path.n > 0 ? add_clean(out, f->path) : buffer_add_str(out, "the request");
    if (e == 0 && f->text.n > 0)
        e = buffer_add_str(out, ": ");
    if (e == 0)
        e = add_clean(out, f->text);
    return e < 0 ? e : buffer_add_str(out, "\n");
}

static int text_rule(struct check_report *r, const struct check *c, uint32_t rule)
{
    const struct check_rule_row *row = check_rule_row((enum check_rule)rule);
    const uint64_t count = check_count(c, (enum check_rule)rule);
    uint32_t n, told = 0;
    const struct check_finding *findings = check_findings(c, &n);
    int e = buffer_printf(&r->out, "%s: %s: %s [%s]\n", r->path, check_severity_name(row->severity),
                          row->title, row->id);
    for (uint32_t i = 0; i < n && e == 0; i++) {
        if (findings[i].rule != rule)
            continue;
        e = text_place(r, &findings[i], place_of(r, i));
        told++;
    }
    if (e == 0 && count > told)
        e = buffer_printf(&r->out, "    and %" PRIu64 " more\n", count - told);
    return e < 0 ? e
                 : buffer_printf(&r->out, "  %s: %s\n  to mend it: %s\n", row->source, row->says, row->fix);
}

static int flush(struct check_report *r)
{
    fwrite(r->out.p, 1, r->out.n, stdout);
    buffer_clear(&r->out, 1 << 20);
    return 0;
}

static int text_end(struct check_report *r, const struct check *c)
{
    uint32_t at = 0, rule, rules[CHECK_SEVERITIES] = {0};
    int e = 0;
    while (e == 0 && next_rule(r, c, &at, &rule))
        e = text_rule(r, c, rule);
    for (uint32_t i = 0; i < CHECK_RULES; i++)
        rules[check_rule_row((enum check_rule)i)->severity] += check_count(c, (enum check_rule)i) > 0;
    if (e == 0)
        e = buffer_printf(&r->out, "%s: rules broken: %u errors, %u warnings, %u notes\n", r->path,
                          rules[CHECK_ERROR], rules[CHECK_WARNING], rules[CHECK_NOTE]);
    return e < 0 ? e : flush(r);
}

static int text_finish(struct check_report *r)
{
    return 0;
}

struct check_report *check_report_text(enum check_severity least)
{
    return report_new(least, text_end, text_finish);
}

/* ---- JSON ------------------------------------------------------------------------------------------ */

static void text_member(struct json *j, const char *key, struct bytes value)
{
    json_key(j, key);
    json_string(j, value);
}

static void rule_members(struct json *j, const struct check_rule_row *row)
{
    text_member(j, "rule", bytes_str(row->id));
    text_member(j, "severity", bytes_str(check_severity_name(row->severity)));
    text_member(j, "title", bytes_str(row->title));
    text_member(j, "source", bytes_str(row->source));
    text_member(j, "says", bytes_str(row->says));
    text_member(j, "fix", bytes_str(row->fix));
}

static void json_places(struct check_report *r, const struct check *c, uint32_t rule)
{
    struct json *j = &r->json;
    uint32_t n;
    const struct check_finding *findings = check_findings(c, &n);
    json_key(j, "places"), json_open(j, '[');
    for (uint32_t i = 0; i < n; i++) {
        if (findings[i].rule != rule)
            continue;
        json_open(j, '{');
        text_member(j, "request", place_of(r, i));
        text_member(j, "path", findings[i].path);
        text_member(j, "text", findings[i].text);
        json_close(j, '}');
    }
    json_close(j, ']');
}

static int json_end(struct check_report *r, const struct check *c)
{
    struct json *j = &r->json;
    uint32_t at = 0, rule;
    if (j->out->n == j->from)
        json_open(j, '{'), json_key(j, "files"), json_open(j, '[');
    json_open(j, '{');
    text_member(j, "file", bytes_str(r->path));
    json_key(j, "requests"), json_u64(j, r->n_requests);
    json_key(j, "findings"), json_open(j, '[');
    while (next_rule(r, c, &at, &rule)) {
        json_open(j, '{');
        rule_members(j, check_rule_row((enum check_rule)rule));
        json_key(j, "count"), json_u64(j, check_count(c, (enum check_rule)rule));
        json_places(r, c, rule);
        json_close(j, '}');
    }
    json_close(j, ']'), json_close(j, '}');
    return j->r;
}

static int json_finish(struct check_report *r)
{
    struct json *j = &r->json;
    if (j->out->n == j->from)
        json_open(j, '{'), json_key(j, "files"), json_open(j, '[');
    json_close(j, ']'), json_close(j, '}');
    return j->r < 0 || (j->r = buffer_add_str(&r->out, "\n")) < 0 ? j->r : flush(r);
}

struct check_report *check_report_json(enum check_severity least)
{
    return report_new(least, json_end, json_finish);
}

/* ---- SARIF ----------------------------------------------------------------------------------------- */

static void text_of(struct json *j, const char *key, const char *text)
{
    json_key(j, key), json_open(j, '{');
    text_member(j, "text", bytes_str(text));
    json_close(j, '}');
}

static void sarif_rule(struct json *j, const struct check_rule_row *row)
{
    char full[1024];
    snprintf(full, sizeof full, "%s: %s", row->source, row->says);
    json_open(j, '{');
    text_member(j, "id", bytes_str(row->id));
    text_of(j, "shortDescription", row->title);
    text_of(j, "fullDescription", full);
    text_of(j, "help", row->fix);
    json_key(j, "defaultConfiguration"), json_open(j, '{');
    text_member(j, "level", bytes_str(check_severity_name(row->severity)));
    json_close(j, '}'), json_close(j, '}');
}

static void sarif_begin(struct json *j)
{
    json_open(j, '{');
    text_member(
        j, "$schema",
        BYTES_LIT(
            "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"));
    text_member(j, "version", BYTES_LIT("2.1.0"));
    json_key(j, "runs"), json_open(j, '['), json_open(j, '{');
    json_key(j, "tool"), json_open(j, '{'), json_key(j, "driver"), json_open(j, '{');
    text_member(j, "name", BYTES_LIT("profgate check"));
    text_member(j, "version", BYTES_LIT(PROFGATE_VERSION));
    json_key(j, "rules"), json_open(j, '[');
    for (uint32_t i = 0; i < CHECK_RULES; i++)
        sarif_rule(j, check_rule_row((enum check_rule)i));
    json_close(j, ']'), json_close(j, '}'), json_close(j, '}');
    json_key(j, "results"), json_open(j, '[');
}

/* A path as a URI reference (RFC 3986): what is not unreserved or a slash, in percent. */
static void sarif_uri(struct json *j, const char *path)
{
    cleanup(buffer_release) struct buffer uri = BUFFER_INIT(0);
    int r = buffer_add_percent(&uri, strcmp(path, "-") == 0 ? "stdin" : path, "/");
    if (r < 0)
        j->r = j->r < 0 ? j->r : r;
    text_member(j, "uri", buffer_bytes(&uri));
}

/* `more`: beyond those that were kept. */
static void sarif_result(struct check_report *r, const struct check_finding *f, struct bytes place,
                         uint64_t more)
{
    struct json *j = &r->json;
    const struct check_rule_row *row = check_rule_row(f->rule);
    struct buffer words = BUFFER_INIT(0);
    int e = buffer_add_str(&words, row->title);
    if (e == 0 && f->text.n > 0)
        e = buffer_add_str(&words, ": ");
    if (e == 0)
        e = buffer_add_bytes(&words, f->text);
    if (e == 0 && r->n_requests > 1)
        e = buffer_printf(&words, "; in %.*s", BYTES_FMT(place));
    if (e == 0 && more > 0)
        e = buffer_printf(&words, "; and %" PRIu64 " more places", more);
    json_open(j, '{');
    text_member(j, "ruleId", bytes_str(row->id));
    json_key(j, "ruleIndex"), json_u64(j, f->rule);
    text_member(j, "level", bytes_str(check_severity_name(row->severity)));
    json_key(j, "message"), json_open(j, '{');
    text_member(j, "text", buffer_bytes(&words));
    json_close(j, '}');
    json_key(j, "locations"), json_open(j, '['), json_open(j, '{');
    json_key(j, "physicalLocation"), json_open(j, '{'), json_key(j, "artifactLocation"), json_open(j, '{');
    sarif_uri(j, r->path);
    json_close(j, '}'), json_close(j, '}');
    json_key(j, "logicalLocations"), json_open(j, '['), json_open(j, '{');
    text_member(j, "fullyQualifiedName", f->path.n > 0 ? f->path : BYTES_LIT("request"));
    json_close(j, '}'), json_close(j, ']');
    json_close(j, '}'), json_close(j, ']'), json_close(j, '}');
    buffer_release(&words);
    if (e < 0 && j->r == 0)
        j->r = e;
}

static int sarif_end(struct check_report *r, const struct check *c)
{
    uint32_t at = 0, rule, n;
    const struct check_finding *findings = check_findings(c, &n);
    if (r->out.n == r->json.from)
        sarif_begin(&r->json);
    while (next_rule(r, c, &at, &rule)) {
        uint64_t left = check_count(c, (enum check_rule)rule), kept = 0;
        for (uint32_t i = 0; i < n; i++)
            kept += findings[i].rule == rule;
        for (uint32_t i = 0; i < n; i++)
            if (findings[i].rule == rule)
                sarif_result(r, &findings[i], place_of(r, i), --kept == 0 ? --left : (left--, 0));
    }
    return r->json.r;
}

static int sarif_finish(struct check_report *r)
{
    struct json *j = &r->json;
    if (r->out.n == j->from)
        sarif_begin(j);
    json_close(j, ']'), json_close(j, '}'), json_close(j, ']'), json_close(j, '}');
    return j->r < 0 || (j->r = buffer_add_str(&r->out, "\n")) < 0 ? j->r : flush(r);
}

struct check_report *check_report_sarif(enum check_severity least)
{
    return report_new(least, sarif_end, sarif_finish);
}

/* ---- the rules --------------------------------------------------------------------------------------- */

static void rules_json(void)
{
    cleanup(buffer_release) struct buffer out = BUFFER_INIT(0);
    struct json j = JSON_INIT(&out);
    json_open(&j, '[');
    for (uint32_t i = 0; i < CHECK_RULES; i++) {
        json_open(&j, '{');
        rule_members(&j, check_rule_row((enum check_rule)i));
        json_close(&j, '}');
    }
    json_close(&j, ']');
    if (j.r == 0)
        printf("%.*s\n", BYTES_FMT(buffer_bytes(&out)));
}

void check_report_rules(bool json)
{
    if (json) {
        rules_json();
        return;
    }
    for (uint32_t i = 0; i < CHECK_RULES; i++) {
        const struct check_rule_row *row = check_rule_row((enum check_rule)i);
        printf("%-8s %-20s %s\n         %s: %s\n         to mend it: %s\n",
               check_severity_name(row->severity), row->id, row->title, row->source, row->says, row->fix);
    }
}
