/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/options/file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "proto/base/file.h"
#include "proto/base/nearest.h"
#include "proto/base/settings/file.h"
#include "sender/options/rows.h"

struct reading {
    struct options *o;
    struct settings_file *file;
};

static int unknown(struct reading *r, const char *key, const struct settings_node *at)
{
    char what[160];
    struct nearest near;
    nearest_start(&near, bytes_str(key));
    for (uint32_t i = 0; i < options_section.n_rows; i++)
        if (options_section.rows[i].key && !options_is_of_command(&options_section.rows[i]))
            nearest_offer(&near, bytes_str(options_section.rows[i].key));
    snprintf(what, sizeof what, "unknown key%s", nearest_ask(near.best).s);
    return settings_fail(r->file, at, key, what);
}

/* One setting, as the flag of that name; NULL: a switch that is on. */
static int set(struct reading *r, const char *key, const char *value, const struct settings_node *at)
{
    const struct settings_row *row = settings_find(&options_section, bytes_str(key));
    struct error why = {""};
    if (!row || options_is_of_command(row))
        return unknown(r, key, at);
    if (!row->metavar != !value) {
        snprintf(why.text, sizeof why.text, "%s %s", key,
                 row->metavar ? "wants a value" : "is true or false");
        return settings_fail(r->file, at, "", why.text);
    }
    int result = settings_set(row, r->o, value, &r->o->arena, &why);
    return result == 0 ? 0 : settings_fail_why(r->file, at, key, result, &why);
}

/* "true" switches a switch on; a switch that is "false" is not given. */
static int take(struct reading *r, const char *key, const struct settings_node *n)
{
    if (!settings_is(n, SETTINGS_SCALAR))
        return settings_fail(r->file, n, "", "a text or number is expected here");
    if (settings_is_word(n, "false"))
        return 0;
    if (settings_is_word(n, "true"))
        return set(r, key, NULL, n);
    const char *value = settings_text(r->file, n, key);
    return value ? set(r, key, value, n) : settings_failure(r->file);
}

static int take_header(struct reading *r, const char *name, const struct settings_node *n)
{
    const char *value = settings_text(r->file, n, name);
    if (!value)
        return settings_failure(r->file);
    const char *pair = arena_printf(&r->o->arena, "%s=%s", name, value);
    return pair ? set(r, "header", pair, n) : settings_no_memory(r->file);
}

/* Whether options are called so, and more behind a dash. */
static bool opens(const char *key)
{
    const size_t n = strlen(key);
    for (uint32_t i = 0; i < options_section.n_rows; i++) {
        const char *row = options_section.rows[i].key;
        if (row && strncmp(row, key, n) == 0 && row[n] == '-')
            return true;
    }
    return false;
}

/* "off-cpu: { min: 1ms }" is --off-cpu and --off-cpu-min; "header: { a: b }" is --header a=b. */
static int take_map(struct reading *r, const char *key, const struct settings_node *map)
{
    bool is_header = strcmp(key, "header") == 0;
    if (!is_header && !opens(key))
        return unknown(r, key, map);
    int result = strcmp(key, "off-cpu") == 0 ? set(r, key, NULL, map) : 0;
    for (uint32_t i = 0; i < settings_count(map) && result == 0; i++) {
        const struct settings_node *k = settings_key(r->file, map, i), *v = settings_value(r->file, map, i);
        if (!settings_is(k, SETTINGS_SCALAR) || !settings_is(v, SETTINGS_SCALAR))
            return settings_fail(r->file, k, "", "a name and a text or number are expected here");
        const char *name = settings_text(r->file, k, key);
        if (!name)
            return settings_failure(r->file);
        const char *longer = is_header ? name : arena_printf(&r->o->arena, "%s-%s", key, name);
        result = !longer     ? settings_no_memory(r->file)
                 : is_header ? take_header(r, name, v)
                             : take(r, longer, v);
    }
    return result;
}

/* "relabel: [ { source_labels: […], action: drop }, … ]", as Prometheus writes relabel_configs. */
static int take_rule(struct reading *r, const struct settings_node *n)
{
    struct relabel_rule rule = {0};
    struct error why = {""};
    if (!settings_is(n, SETTINGS_MAP))
        return settings_fail(r->file, n, "relabel",
                             "a rule is a map: { source_labels: [...], action: drop }");
    if (settings_defaults(&relabel_section, &rule, &r->o->arena) < 0)
        return settings_no_memory(r->file);
    int result = settings_take_map(r->file, &relabel_section, &rule, n, "relabel");
    if (result == 0 && (result = options_add_rule(r->o, &rule, &why)) < 0)
        return settings_fail_why(r->file, n, "relabel", result, &why);
    return result;
}

static int take_rules(struct reading *r, const struct settings_node *n)
{
    int result = 0;
    if (!settings_is(n, SETTINGS_LIST))
        return take_rule(r, n);
    for (uint32_t i = 0; i < settings_count(n) && result == 0; i++)
        result = take_rule(r, settings_item(r->file, n, i));
    return result;
}

static int take_key(struct reading *r, const struct settings_node *k, const struct settings_node *v)
{
    if (!settings_is(k, SETTINGS_SCALAR))
        return settings_fail(r->file, k, "", "an option's name is expected");
    const char *name = settings_text(r->file, k, "");
    char *key = name ? arena_printf(&r->o->arena, "%s", name) : NULL;
    if (!key)
        return name ? settings_no_memory(r->file) : settings_failure(r->file);
    for (char *c = key; *c; c++)
        *c = *c == '_' ? '-' : *c; /* as the Collector spells its keys */
    if (strcmp(key, "relabel") == 0)
        return take_rules(r, v);
    if (settings_is(v, SETTINGS_MAP))
        return take_map(r, key, v);
    if (settings_is(v, SETTINGS_SCALAR))
        return take(r, key, v);
    int result = 0;
    for (uint32_t i = 0; i < settings_count(v) && result == 0; i++)
        result = take(r, key, settings_item(r->file, v, i));
    return result;
}

static int take_document(struct reading *r)
{
    const struct settings_node *root = settings_root(r->file);
    int result = 0;
    if (!root)
        return 0; /* an empty file */
    if (!settings_is(root, SETTINGS_MAP))
        return settings_fail(r->file, root, "",
                             "\"option: value\" is expected, with a blank behind the colon");
    for (uint32_t i = 0; i < settings_count(root) && result == 0; i++)
        result = take_key(r, settings_key(r->file, root, i), settings_value(r->file, root, i));
    return result;
}

int options_file_read(struct options *o, const char *path, char *(*getvar)(const char *), struct error *e)
{
    const struct settings_file_options options = {.arena = &o->arena, .getvar = getvar, .lines_only = true};
    cleanup(buffer_release) struct buffer text = BUFFER_INIT(0);
    struct reading r = {.o = o};
    int result = file_read(path, SETTINGS_FILE_MAX, &text, e);
    if (result > 0)
        result = -EINVAL; /* it is the user who named the file */
    if (result == 0 && text.n && !(o->text = arena_copy(&o->arena, buffer_bytes(&text))).p)
        result = error_set(e, -ENOMEM, "out of memory");
    if (result == 0)
        result = settings_file_open(&r.file, path, buffer_bytes(&text), &options, e);
    if (result == 0)
        result = take_document(&r);
    settings_file_close(r.file);
    return result;
}
