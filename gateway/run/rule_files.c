/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/run/rule_files.h"

#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "gateway/run/series_names.h"
#include "proto/base/file.h"
#include "proto/base/log.h"
#include "proto/base/macros.h"
#include "proto/base/nearest.h"

#define FILES_MAX   256u /* rule files: far more than anybody keeps apart */
#define BUILTIN_MAX 64u

/* What diagnostics call the configuration's own say (add_switches). */
#define SWITCHES "(configuration)"

struct collect {
    const struct config *config;
    const struct rule_files_listener *to; /* NULL: the first complaint, with its place, is *e */
    uint32_t n_told;
    uint32_t first_enable; /* line of SWITCHES with the first of rules.enable */
    struct rules_input inputs[FILES_MAX + BUILTIN_MAX];
    uint32_t n;
    char *texts[FILES_MAX]; /* the user's files and the configuration's own; the set has copies */
    uint32_t n_texts;
};

/* Of item i of a list in rules.*. 0: it was told, and others may be wrong too. */
static int complain(struct collect *c, const char *list, uint32_t i, struct error *e, const struct error *why)
{
    char key[64];
    snprintf(key, sizeof key, "%s[%u]", list, i);
    c->n_told++;
    if (c->to) {
        c->to->tell(c->to->user, key, why->text);
        return 0;
    }
    error_set(e, 0, "%s", why->text);
    config_place(c->config, key, e);
    return -EINVAL;
}

char *rule_file_read(const char *path, size_t *ret_n, struct error *e)
{
    struct buffer text = BUFFER_INIT(0);
    struct stat is;
    if (file_read(path, RULES_FILE_MAX, &text, e) == 0)
        return (char *)buffer_take(&text, ret_n);
    if (stat(path, &is) == 0 && S_ISDIR(is.st_mode))
        error_set(e, 0, "%s is a folder: name its files, %s/*.rules", path, path);
    buffer_release(&text);
    return NULL;
}

/* Takes the text over. */
static int add(struct collect *c, const char *name, char *text, size_t n, struct error *e)
{
    if (c->n_texts == FILES_MAX) {
        free(text);
        return error_set(e, -EINVAL, "more than %u rule files", FILES_MAX);
    }
    c->texts[c->n_texts++] = text;
    c->inputs[c->n++] = (struct rules_input){.name = name, .text = bytes_of(text, n)};
    return 0;
}

static void add_builtin(struct collect *c)
{
    for (const struct embedded_file *f = rules_builtin; f->name && c->n < BUILTIN_MAX; f++)
        c->inputs[c->n++] = (struct rules_input){
            .name = f->name, .text = bytes_of(f->data, f->size), .builtin = true, .proven = true};
}

static int add_path(struct collect *c, uint32_t item, struct arena *names, struct error *e)
{
    const char *path = c->config->rules_files.items[item];
    glob_t found = {0};
    struct error why;
    int r = glob(path, 0, NULL, &found);
    if (r == GLOB_NOMATCH && strchr(path, '*') == NULL)
        r = error_set(&why, -ENOENT, "rules.files: there is no file %s", path);
    else if (r != 0 && r != GLOB_NOMATCH)
        r = error_set(&why, -EIO, "rules.files: cannot read the folder of %s", path);
    else
        r = 0;
    for (size_t i = 0; i < found.gl_pathc && r == 0; i++) {
        size_t n;
        struct bytes name = arena_copy(names, bytes_str(found.gl_pathv[i]));
        char *text = name.p ? rule_file_read(found.gl_pathv[i], &n, &why) : NULL;
        if (!name.p)
            error_set(&why, 0, "out of memory");
        r = text ? add(c, (const char *)name.p, text, n, &why) : -EINVAL;
    }
    globfree(&found);
    return r < 0 ? complain(c, "rules.files", item, e, &why) : 0;
}

static bool wanted(const struct settings_strings *builtin, const char *pack, size_t n)
{
    for (uint32_t i = 0; i < builtin->n; i++)
        if (strcmp(builtin->items[i], "all") == 0 ||
            (strlen(builtin->items[i]) == n && strncmp(builtin->items[i], pack, n) == 0))
            return true;
    return false;
}

static bool ships(const char *pack)
{
    size_t n = strlen(pack);
    for (const struct embedded_file *f = rules_builtin; f->name; f++)
        if (strncmp(f->name, pack, n) == 0 && strcmp(f->name + n, ".rules") == 0)
            return true;
    return false;
}

static int no_such_pack(struct collect *c, uint32_t i, struct error *e)
{
    const char *name = c->config->rules_builtin.items[i];
    struct error why;
    struct nearest near;
    nearest_start(&near, bytes_str(name));
    for (const struct embedded_file *f = rules_builtin; f->name; f++)
        nearest_offer(&near, bytes_of(f->name, strcspn(f->name, ".")));
    error_set(&why, 0, "rules.builtin: there is no shipped pack %s%s", name, nearest_ask(near.best).s);
    return complain(c, "rules.builtin", i, e, &why);
}

/* What could be one in a rule file, so that a line of add_switches is what it was meant to be. */
static bool is_name(const char *text)
{
    return text[0] &&
           strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.") == strlen(text);
}

static int check_switches(struct collect *c, struct error *e)
{
    const struct settings_strings *builtin = &c->config->rules_builtin, *enable = &c->config->rules_enable;
    int r = 0;
    for (uint32_t i = 0; i < builtin->n && r == 0; i++)
        if (strcmp(builtin->items[i], "all") != 0 && strcmp(builtin->items[i], "none") != 0 &&
            !ships(builtin->items[i]))
            r = no_such_pack(c, i, e);
    for (uint32_t i = 0; i < enable->n && r == 0; i++) {
        struct error why;
        error_set(&why, 0, "rules.enable: \"%s\" is not the name of a metric or a pack", enable->items[i]);
        if (!is_name(enable->items[i]))
            r = complain(c, "rules.enable", i, e, &why);
    }
    return r;
}

/* The configuration's own say, as a rule file: packs not chosen are disabled (others may still use their
 * definitions), metrics named in rules.enable are enabled. */
static int add_switches(struct collect *c, struct error *e)
{
    const struct settings_strings *enable = &c->config->rules_enable;
    struct buffer text = BUFFER_INIT(RULES_FILE_MAX);
    int r = buffer_add_str(&text, "rules 1\npack configuration\n");
    c->first_enable = 3;
    for (const struct embedded_file *f = rules_builtin; f->name && r == 0; f++) {
        size_t n = strcspn(f->name, ".");
        if (wanted(&c->config->rules_builtin, f->name, n))
            continue;
        r = buffer_printf(&text, "disable %.*s\n", (int)n, f->name);
        c->first_enable++;
    }
    for (uint32_t i = 0; i < enable->n && r == 0; i++)
        r = buffer_printf(&text, "enable %s\n", enable->items[i]);
    char *copy = r == 0 ? bytes_dup(buffer_bytes(&text)) : NULL;
    size_t n = text.n;
    buffer_release(&text);
    return copy ? add(c, SWITCHES, copy, n, e) : error_set(e, -ENOMEM, "out of memory");
}

/* A diagnostic of SWITCHES about an item of rules.enable: its first line without its place, and what it
 * proposes behind the marks under the third. Of a line before those the generated text is shown as it is. */
static bool is_about_enable(const struct collect *c, const struct rules_diagnostic *d)
{
    return strcmp(d->file, SWITCHES) == 0 && d->place.line >= c->first_enable &&
           d->place.line - c->first_enable < c->config->rules_enable.n;
}

static int complain_about_enable(struct collect *c, const struct rules_diagnostic *d, struct error *e)
{
    struct error why;
    const uint32_t i = d->place.line - c->first_enable;
    const char *colon = strstr(d->text, ": "), *words = colon ? colon + 2 : d->text;
    const char *marks = strstr(words, "^  "), *meant = marks ? marks + 3 : "";
    error_set(&why, 0, "rules.enable: %.*s%s%.*s", (int)strcspn(words, "\n"), words, *meant ? "; " : "",
              (int)strcspn(meant, "\n"), meant);
    return complain(c, "rules.enable", i, e, &why);
}

static void show(const struct rules_diagnostic *d)
{
    if (log_format() != LOG_FORMAT_JSON)
        fputs(d->text, stderr);
    else if (d->warning)
        log_warn("rules code=%s diagnostic=\"%s\"", d->code, d->text);
    else
        log_error("rules code=%s diagnostic=\"%s\"", d->code, d->text);
}

/* Most warnings are for who writes rules, and asks `rules check`; that something is without effect is for who
 * runs them, too. */
static bool is_for_operators(const struct rules_diagnostic *d)
{
    return strcmp(d->code, "W214") == 0;
}

static int compile(struct collect *c, struct rule_files *ret, struct error *e)
{
    struct rules_diagnostics found;
    int r = 0;
    ret->set = rules_compile(c->inputs, c->n, &found);
    if (ret->set && series_names_check(ret->set, c->config->translation_strategy, &found) < 0) {
        rules_diagnostics_release(&found);
        return error_set(e, -ENOMEM, "out of memory");
    }
    for (uint32_t i = 0; i < found.n; i++) {
        if (found.items[i].warning && !is_for_operators(&found.items[i]))
            continue;
        ret->n_warnings += found.items[i].warning;
        if (!is_about_enable(c, &found.items[i]))
            show(&found.items[i]);
        else if (r == 0)
            r = complain_about_enable(c, &found.items[i], e);
    }
    uint32_t n_errors = found.n_errors;
    rules_diagnostics_release(&found);
    if (r < 0)
        return r;
    if (n_errors > 0)
        return n_errors == c->n_told
                   ? -EINVAL
                   : error_set(e, -EINVAL, "the rules have %u error%s", n_errors, n_errors > 1 ? "s" : "");
    if (!ret->set)
        return error_set(e, -ENOMEM, "out of memory");
    rules_set_forget_tests(ret->set);
    ret->program = rules_program_new(ret->set, e);
    return ret->program ? 0 : -EINVAL;
}

int rule_files_load(struct rule_files *ret, const struct config *config, const struct rule_files_listener *to,
                    struct error *e)
{
    struct arena names = {0};
    struct collect *c = calloc(1, sizeof *c);
    *ret = (struct rule_files){0};
    if (!c)
        return error_set(e, -ENOMEM, "out of memory");
    c->config = config;
    c->to = to;
    add_builtin(c);
    int r = 0;
    for (uint32_t i = 0; i < config->rules_files.n && r == 0; i++)
        r = add_path(c, i, &names, e);
    if (r == 0)
        r = check_switches(c, e);
    if (r == 0 && c->n_told > 0) /* more would only follow from that */
        r = -EINVAL;
    if (r == 0)
        r = add_switches(c, e);
    if (r == 0)
        r = compile(c, ret, e);
    for (uint32_t i = 0; i < c->n_texts; i++)
        free(c->texts[i]);
    free(c);
    arena_release(&names);
    if (r < 0)
        rule_files_release(ret);
    return r;
}

void rule_files_unmatched(const struct config *config,
                          void (*tell)(void *user, uint32_t i, const char *pattern), void *user)
{
    for (uint32_t i = 0; i < config->rules_files.n; i++) {
        const char *pattern = config->rules_files.items[i];
        glob_t found = {0};
        if (strchr(pattern, '*') && glob(pattern, 0, NULL, &found) == GLOB_NOMATCH)
            tell(user, i, pattern);
        globfree(&found);
    }
}

void rule_files_release(struct rule_files *f)
{
    f->program = rules_program_free(f->program);
    f->set = rules_set_free(f->set);
}
