/* SPDX-License-Identifier: Apache-2.0 */
/*
 * YAML into struct config, led by the table of rows. libyaml builds the document; nothing here recurses: the
 * file's shape is at most section → object → nested key.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <yaml.h>

#include "gateway/config/config.h"
#include "gateway/config/rows.h"
#include "gateway/config/value.h"
#include "proto/base/macros.h"

#define FILE_MAX  (1u << 20) /* a configuration is written by hand */
#define NAMED_MAX 64u        /* receivers, exporters */

struct loader {
    struct config *config;
    yaml_document_t doc;
    const char *name;
    struct error *e;
    int r; /* of the last fail, or no_memory */
};

static int fail(struct loader *l, const yaml_node_t *at, const char *key, const char *what)
{
    return l->r = error_set(l->e, -EINVAL, "%s:%zu:%zu: %s%s%s", l->name, at->start_mark.line + 1,
                            at->start_mark.column + 1, key, key[0] ? ": " : "", what);
}

/* The file is not to blame. */
static int no_memory(struct loader *l)
{
    return l->r = error_set(l->e, -ENOMEM, "%s: out of memory", l->name);
}

static yaml_node_t *node(struct loader *l, int id)
{
    return yaml_document_get_node(&l->doc, id);
}

/* The text of a scalar after ${env:…}; NULL with the error set. Only plain scalars say null by ~, null or
 * nothing. */
static const char *scalar(struct loader *l, yaml_node_t *n, const char *key)
{
    if (n->type != YAML_SCALAR_NODE) {
        fail(l, n, key, "a single value belongs here");
        return NULL;
    }
    const char *text = (const char *)n->data.scalar.value;
    if (strlen(text) != n->data.scalar.length) {
        fail(l, n, key, "a NUL byte cannot be part of a value");
        return NULL;
    }
    if (n->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
        (strcmp(text, "~") == 0 || strcmp(text, "null") == 0))
        return "";
    struct error why = {""};
    const char *expanded = value_expand(text, &l->config->arena, &why);
    if (!expanded && why.text[0])
        fail(l, n, key, why.text);
    else if (!expanded)
        no_memory(l);
    return expanded;
}

static int load_strings(struct loader *l, yaml_node_t *n, const char *key, struct config_strings *ret)
{
    size_t count = (size_t)(n->data.sequence.items.top - n->data.sequence.items.start);
    const char **items = arena_calloc(&l->config->arena, count + 1, sizeof *items);
    if (!items)
        return no_memory(l);
    for (size_t i = 0; i < count; i++) {
        items[i] = scalar(l, node(l, n->data.sequence.items.start[i]), key);
        if (!items[i])
            return l->r;
    }
    *ret = (struct config_strings){items, (uint32_t)count};
    return 0;
}

static int load_pairs(struct loader *l, yaml_node_t *n, const char *key, struct config_pairs *ret)
{
    size_t count = (size_t)(n->data.mapping.pairs.top - n->data.mapping.pairs.start);
    struct config_pair *items = arena_calloc(&l->config->arena, count + 1, sizeof *items);
    if (!items)
        return no_memory(l);
    for (size_t i = 0; i < count; i++) {
        yaml_node_pair_t *pair = &n->data.mapping.pairs.start[i];
        items[i].name = scalar(l, node(l, pair->key), key);
        items[i].value = items[i].name ? scalar(l, node(l, pair->value), key) : NULL;
        if (!items[i].value)
            return l->r;
    }
    *ret = (struct config_pairs){items, (uint32_t)count};
    return 0;
}

static int load_value(struct loader *l, const struct config_row *row, void *base, yaml_node_t *n,
                      const char *key)
{
    void *field = (char *)base + row->offset;
    if (row->type == CONFIG_STRINGS && n->type == YAML_SEQUENCE_NODE)
        return load_strings(l, n, key, field);
    if (row->type == CONFIG_PAIRS && n->type == YAML_MAPPING_NODE)
        return load_pairs(l, n, key, field);
    const char *text = scalar(l, n, key);
    struct error why = {""};
    if (!text)
        return l->r;
    if (value_set(row, base, text, &l->config->arena, &why) < 0)
        return why.text[0] ? fail(l, n, key, why.text) : no_memory(l);
    return 0;
}

static int unknown_key(struct loader *l, yaml_node_t *at, const struct config_section *s, const char *key)
{
    char known[400] = "";
    for (uint32_t i = 0; i < s->n_rows && strlen(known) + strlen(s->rows[i].key) + 3 < sizeof known; i++) {
        strcat(known, i ? ", " : "");
        strcat(known, s->rows[i].key);
    }
    char what[480];
    snprintf(what, sizeof what, "unknown key; known here: %s", known);
    return fail(l, at, key, what);
}

/* A map of a section's keys; `prefix` is "tls" inside a nested map, whose own maps are values. */
static int load_map(struct loader *l, const struct config_section *s, void *base, yaml_node_t *map,
                    const char *where, const char *prefix)
{
    if (map->type == YAML_SCALAR_NODE && map->data.scalar.length == 0)
        return 0; /* "metrics:" with nothing behind it */
    if (map->type != YAML_MAPPING_NODE)
        return fail(l, map, where, "a map of keys belongs here");
    for (yaml_node_pair_t *pair = map->data.mapping.pairs.start; pair < map->data.mapping.pairs.top; pair++) {
        yaml_node_t *k = node(l, pair->key), *v = node(l, pair->value);
        const char *name = scalar(l, k, where);
        if (!name)
            return l->r;
        char path[160], full[320];
        snprintf(path, sizeof path, "%s%s%s", prefix, prefix[0] ? "." : "", name);
        snprintf(full, sizeof full, "%s.%s", where, path);
        const struct config_row *row = NULL;
        bool opens = false;
        for (uint32_t i = 0; i < s->n_rows; i++) {
            size_t n = strlen(path);
            if (strcmp(s->rows[i].key, path) == 0)
                row = &s->rows[i];
            else if (strncmp(s->rows[i].key, path, n) == 0 && s->rows[i].key[n] == '.')
                opens = true;
        }
        int r = row     ? load_value(l, row, base, v, full)
                : opens ? load_map(l, s, base, v, where, path) /* once: no key of the table has two dots */
                        : unknown_key(l, k, s, full);
        if (r < 0)
            return r;
    }
    return 0;
}

static int load_receivers(struct loader *l, yaml_node_t *map)
{
    if (map->type != YAML_MAPPING_NODE)
        return fail(l, map, "receivers", "a map with the key otlp belongs here");
    for (yaml_node_pair_t *pair = map->data.mapping.pairs.start; pair < map->data.mapping.pairs.top; pair++) {
        yaml_node_t *v = node(l, pair->value);
        const char *name = scalar(l, node(l, pair->key), "receivers");
        if (!name)
            return l->r;
        if (strcmp(name, "otlp") != 0)
            return fail(l, node(l, pair->key), name, "there is only the receiver otlp in this version");
        if (v->type != YAML_SEQUENCE_NODE)
            return fail(l, v, "receivers.otlp", "a list of {endpoint: host:port} belongs here");
        size_t n = (size_t)(v->data.sequence.items.top - v->data.sequence.items.start);
        if (n == 0 || n > NAMED_MAX)
            return fail(l, v, "receivers.otlp", "1 to 64 addresses belong here");
        for (size_t i = 0; i < n; i++) {
            yaml_node_t *item = node(l, v->data.sequence.items.start[i]);
            struct config_receiver receiver = {0};
            if (value_defaults(&config_receiver_section, &receiver, &l->config->arena) < 0)
                return no_memory(l);
            int r = load_map(l, &config_receiver_section, &receiver, item, "receivers.otlp", "");
            if (r < 0)
                return r;
            if (!receiver.endpoint)
                return fail(l, item, "receivers.otlp", "endpoint is missing");
            r = config_add_receiver(l->config, &receiver, i == 0, l->e);
            if (r < 0)
                return r;
        }
    }
    return 0;
}

/* The kind that an object is of by its name, TYPE or TYPE/NAME, or NULL. */
static const struct config_kind *kind_of(const struct config *c, const char *name)
{
    size_t n = strcspn(name, "/");
    for (const struct config_kind *const *k = c->kinds; *k; k++)
        if (strlen((*k)->type) == n && strncmp(name, (*k)->type, n) == 0)
            return *k;
    return NULL;
}

/* "otlp, file or kafka": their types, each with `behind` behind it. */
static void name_kinds(const struct config *c, const char *behind, const char *last, char *text, size_t size)
{
    size_t n = 0;
    text[0] = 0;
    for (const struct config_kind *const *k = c->kinds; *k && n < size; k++)
        n += (size_t)snprintf(text + n, size - n, "%s%s%s",
                              k == c->kinds ? ""
                              : k[1]        ? ", "
                                            : last,
                              (*k)->type, behind);
}

static int not_a_map_of_exporters(struct loader *l, yaml_node_t *at)
{
    char kinds[200], what[256];
    name_kinds(l->config, "/NAME", ", ", kinds, sizeof kinds);
    snprintf(what, sizeof what, "a map of %s belongs here", kinds);
    return fail(l, at, "exporters", what);
}

static int unknown_kind(struct loader *l, yaml_node_t *at, const char *name)
{
    char kinds[200], what[300];
    name_kinds(l->config, "", " or ", kinds, sizeof kinds);
    snprintf(what, sizeof what, "an exporter is called %s, or TYPE/NAME, in this version", kinds);
    return fail(l, at, name, what);
}

static int load_exporter(struct loader *l, yaml_node_t *k, yaml_node_t *v)
{
    struct config *c = l->config;
    struct config_exporter *x = &c->exporters[c->n_exporters];
    const char *name = scalar(l, k, "exporters");
    if (!name)
        return l->r;
    const struct config_kind *kind = kind_of(c, name);
    if (!kind)
        return unknown_kind(l, k, name);
    if (config_exporter(c, name))
        return fail(l, k, name, "there is an exporter of this name already");
    struct bytes copy = arena_copy(&c->arena, bytes_str(name));
    void *settings = arena_calloc(&c->arena, 1, kind->size);
    if (!copy.p || !settings || value_defaults(&kind->section, settings, &c->arena) < 0)
        return no_memory(l);
    *x = (struct config_exporter){(const char *)copy.p, kind, settings};
    int r = load_map(l, &kind->section, settings, v, name, "");
    if (r == 0)
        c->n_exporters++;
    return r;
}

static int load_exporters(struct loader *l, yaml_node_t *map)
{
    struct config *c = l->config;
    if (map->type != YAML_MAPPING_NODE)
        return not_a_map_of_exporters(l, map);
    size_t n = (size_t)(map->data.mapping.pairs.top - map->data.mapping.pairs.start);
    if (n > NAMED_MAX)
        return fail(l, map, "exporters", "at most 64 exporters");
    c->exporters = arena_calloc(&c->arena, n + 1, sizeof *c->exporters);
    c->n_exporters = 0;
    if (!c->exporters)
        return no_memory(l);
    for (yaml_node_pair_t *pair = map->data.mapping.pairs.start; pair < map->data.mapping.pairs.top; pair++) {
        int r = load_exporter(l, node(l, pair->key), node(l, pair->value));
        if (r < 0)
            return r;
    }
    return 0;
}

static int load_section(struct loader *l, yaml_node_t *k, yaml_node_t *v)
{
    const char *name = scalar(l, k, "");
    if (!name)
        return l->r;
    if (strcmp(name, "receivers") == 0)
        return load_receivers(l, v);
    if (strcmp(name, "exporters") == 0)
        return load_exporters(l, v);
    for (const struct config_section *s = config_fixed; s->name; s++)
        if (strcmp(s->name, name) == 0)
            return load_map(l, s, l->config, v, name, "");
    return fail(
        l, k, name,
        "unknown section; there are receivers, rules, metrics, profiles, exporters, admin, limits, tenants, "
        "service");
}

static int load_document(struct loader *l)
{
    yaml_node_t *root = yaml_document_get_root_node(&l->doc);
    if (!root)
        return 0; /* an empty file: the defaults */
    if (root->type != YAML_MAPPING_NODE)
        return fail(l, root, "", "a configuration is a map of sections");
    for (yaml_node_pair_t *pair = root->data.mapping.pairs.start; pair < root->data.mapping.pairs.top;
         pair++) {
        int r = load_section(l, node(l, pair->key), node(l, pair->value));
        if (r < 0)
            return r;
    }
    return 0;
}

int config_parse(struct config *c, const char *name, struct bytes yaml, struct error *e)
{
    if (yaml.n > FILE_MAX)
        return error_set(e, -EINVAL, "%s: longer than 1 MiB", name);
    yaml_parser_t parser;
    if (!yaml_parser_initialize(&parser))
        return error_set(e, -ENOMEM, "out of memory");
    yaml_parser_set_input_string(&parser, yaml.p, yaml.n);

    struct loader l = {.config = c, .name = name, .e = e};
    int r;
    bool loaded = yaml_parser_load(&parser, &l.doc);
    if (!loaded && parser.error == YAML_MEMORY_ERROR) {
        r = no_memory(&l);
    } else if (!loaded) {
        r = error_set(e, -EINVAL, "%s:%zu:%zu: %s", name, parser.problem_mark.line + 1,
                      parser.problem_mark.column + 1, parser.problem ? parser.problem : "not YAML");
    } else {
        r = load_document(&l);
        yaml_document_delete(&l.doc);
    }
    yaml_parser_delete(&parser);
    return r;
}

int config_load(struct config *c, const char *path, struct error *e)
{
    autoclose int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return error_set(e, -errno, "cannot read %s: %s", path, strerror(errno));
    struct buffer text = BUFFER_INIT(FILE_MAX + 1);
    int r = 0;
    for (;;) {
        int room = buffer_reserve(&text, 4096);
        ssize_t n = room == 0 ? read(fd, text.p + text.n, 4096) : -1;
        if (room == -ENOMEM)
            r = error_set(e, -ENOMEM, "cannot read %s: out of memory", path);
        else if (n < 0)
            r = error_set(e, -EINVAL, "cannot read %s: %s", path,
                          room ? "longer than 1 MiB" : strerror(errno));
        if (n <= 0)
            break;
        text.n += (size_t)n;
    }
    if (r == 0)
        r = config_parse(c, path, buffer_bytes(&text), e);
    buffer_release(&text);
    return r;
}
