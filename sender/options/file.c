/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/options/file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <yaml.h>

#include "proto/base/bytes.h"
#include "proto/base/macros.h"

struct reading {
    const char *path;
    struct arena *arena;
    char *(*getvar)(const char *);
    options_file_fn fn;
    void *user;
    struct error *e;
    yaml_document_t document;
};

static int fail(const struct reading *r, const yaml_node_t *at, const char *what)
{
    return error_set(r->e, -EINVAL, "%s:%zu: %s", r->path, at->start_mark.line + 1, what);
}

/* The text with each ${env:NAME} replaced by the variable. NULL: a variable is missing, or memory is. */
static const char *substituted(const struct reading *r, const char *text)
{
    static const char mark[] = "${env:";
    for (const char *at; (at = strstr(text, mark)) != NULL;) {
        const char *name = at + sizeof mark - 1, *end = strchr(name, '}');
        char variable[128];
        if (!end || (size_t)(end - name) >= sizeof variable)
            return NULL;
        snprintf(variable, sizeof variable, "%.*s", (int)(end - name), name);
        const char *value = r->getvar(variable);
        if (!value || strstr(value, mark)) /* no variable stands for another */
            return NULL;
        text = arena_printf(r->arena, "%.*s%s%s", (int)(at - text), text, value, end + 1);
        if (!text)
            return NULL;
    }
    return text;
}

/* One scalar to the flag of its name. "true" switches a switch on; a switch that is "false" is not given. */
static int take(const struct reading *r, const char *flag, const yaml_node_t *value)
{
    if (value->type != YAML_SCALAR_NODE)
        return fail(r, value, "a text or number is expected here");
    const char *text = (const char *)value->data.scalar.value;
    bool is_plain = value->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    if (is_plain && strcmp(text, "false") == 0)
        return 0;
    const char *known = is_plain && strcmp(text, "true") == 0 ? NULL : substituted(r, text);
    if (!known && !(is_plain && strcmp(text, "true") == 0))
        return fail(r, value, "a variable in it is not set");
    int done = r->fn(r->user, flag, known, r->e);
    return done < 0 ? error_prefix(r->e, done, "%s:%zu: ", r->path, value->start_mark.line + 1) : 0;
}

static int take_list(struct reading *r, const char *flag, const yaml_node_t *list)
{
    for (yaml_node_item_t *i = list->data.sequence.items.start; i < list->data.sequence.items.top; i++) {
        int done = take(r, flag, yaml_document_get_node(&r->document, *i));
        if (done < 0)
            return done;
    }
    return 0;
}

/* "off-cpu: { min: 1ms }" is --off-cpu and --off-cpu-min; "header: { a: b }" is --header a=b. */
static int take_map(struct reading *r, const char *flag, const yaml_node_t *map)
{
    bool is_header = strcmp(flag, "--header") == 0;
    if (strcmp(flag, "--off-cpu") == 0) {
        int done = r->fn(r->user, flag, NULL, r->e);
        if (done < 0)
            return done;
    }
    for (yaml_node_pair_t *i = map->data.mapping.pairs.start; i < map->data.mapping.pairs.top; i++) {
        const yaml_node_t *key = yaml_document_get_node(&r->document, i->key);
        yaml_node_t *value = yaml_document_get_node(&r->document, i->value);
        if (key->type != YAML_SCALAR_NODE || value->type != YAML_SCALAR_NODE)
            return fail(r, key, "a name and a text or number are expected here");
        const char *name = (const char *)key->data.scalar.value;
        int done;
        if (is_header) {
            const char *text = substituted(r, (const char *)value->data.scalar.value);
            const char *pair = text ? arena_printf(r->arena, "%s=%s", name, text) : NULL;
            done = pair ? r->fn(r->user, flag, pair, r->e) : fail(r, value, "a variable in it is not set");
        } else {
            const char *longer = arena_printf(r->arena, "%s-%s", flag, name);
            done = longer ? take(r, longer, value) : -ENOMEM;
        }
        if (done < 0)
            return done;
    }
    return 0;
}

static int take_document(struct reading *r)
{
    const yaml_node_t *root = yaml_document_get_root_node(&r->document);
    if (!root)
        return 0; /* an empty file */
    if (root->type != YAML_MAPPING_NODE)
        return fail(r, root, "\"option: value\" is expected");
    for (yaml_node_pair_t *i = root->data.mapping.pairs.start; i < root->data.mapping.pairs.top; i++) {
        const yaml_node_t *key = yaml_document_get_node(&r->document, i->key);
        const yaml_node_t *value = yaml_document_get_node(&r->document, i->value);
        if (key->type != YAML_SCALAR_NODE)
            return fail(r, key, "an option's name is expected");
        char *flag = arena_printf(r->arena, "--%s", (const char *)key->data.scalar.value);
        if (!flag)
            return -ENOMEM;
        for (char *c = flag; *c; c++)
            *c = *c == '_' ? '-' : *c; /* as the Collector spells its keys */
        int done = value->type == YAML_SEQUENCE_NODE  ? take_list(r, flag, value)
                   : value->type == YAML_MAPPING_NODE ? take_map(r, flag, value)
                                                      : take(r, flag, value);
        if (done < 0)
            return done;
    }
    return 0;
}

int options_file_read(const char *path, struct arena *arena, char *(*getvar)(const char *),
                      options_file_fn fn, void *user, struct error *e)
{
    struct reading r = {.path = path, .arena = arena, .getvar = getvar, .fn = fn, .user = user, .e = e};
    char *text = arena_alloc(arena, OPTIONS_FILE_BYTES);
    if (!text)
        return error_set(e, -ENOMEM, "out of memory");
    FILE *f = fopen(path, "re");
    if (!f)
        return error_set(e, -EINVAL, "%s: %s", path, strerror(errno));
    size_t n = fread(text, 1, OPTIONS_FILE_BYTES, f);
    fclose(f);
    if (n == OPTIONS_FILE_BYTES)
        return error_set(e, -EINVAL, "%s: larger than %u bytes", path, OPTIONS_FILE_BYTES);
    yaml_parser_t parser;
    if (!yaml_parser_initialize(&parser))
        return error_set(e, -ENOMEM, "out of memory");
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, n);
    int done;
    if (yaml_parser_load(&parser, &r.document)) {
        done = take_document(&r);
        yaml_document_delete(&r.document);
    } else {
        done = error_set(e, -EINVAL, "%s:%zu: %s", path, parser.problem_mark.line + 1,
                         parser.problem ? parser.problem : "no YAML");
    }
    yaml_parser_delete(&parser);
    return done;
}
