/* SPDX-License-Identifier: Apache-2.0 */
/* YAML into struct config: which section is whose. What is in one its rows say (proto/base/settings). */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/config/config.h"
#include "gateway/config/rows.h"
#include "proto/base/file.h"
#include "proto/base/macros.h"
#include "proto/base/nearest.h"
#include "proto/base/settings/file.h"

#define NAMED_MAX 64u /* receivers, exporters */

struct loader {
    struct config *config;
    struct settings_file *file;
};

static int load_receiver(struct loader *l, const struct settings_node *item, bool first)
{
    struct config_receiver receiver = {0};
    if (settings_defaults(&config_receiver_section, &receiver, &l->config->arena) < 0)
        return settings_no_memory(l->file);
    int r = settings_take_map(l->file, &config_receiver_section, &receiver, item, "receivers.otlp");
    if (r == 0 && !receiver.endpoint)
        return settings_fail(l->file, item, "receivers.otlp", "endpoint is missing");
    struct error why = {""};
    if (r == 0)
        r = config_add_receiver(l->config, &receiver, first, &why);
    return why.text[0] ? settings_fail_why(l->file, item, "receivers.otlp", r, &why) : r;
}

static int load_scrape(struct loader *l, const struct settings_node *item)
{
    struct config *c = l->config;
    struct config_scrape *scrape = &c->scrapes[c->n_scrapes];
    if (settings_defaults(&config_scrape_section, scrape, &c->arena) < 0)
        return settings_no_memory(l->file);
    int r = settings_take_map(l->file, &config_scrape_section, scrape, item, "receivers.pprof_scrape");
    if (r == 0 && scrape->targets.n == 0)
        return settings_fail(l->file, item, "receivers.pprof_scrape", "targets are missing");
    c->n_scrapes += r == 0;
    return r;
}

static int load_scrapes(struct loader *l, const struct settings_node *list)
{
    struct config *c = l->config;
    uint32_t n = settings_is(list, SETTINGS_LIST) ? settings_count(list) : 0;
    if (n == 0 || n > NAMED_MAX)
        return settings_fail(l->file, list, "receivers.pprof_scrape",
                             "a list of 1 to 64 {targets: [host:port]} belongs here");
    c->scrapes = arena_calloc(&c->arena, n, sizeof *c->scrapes);
    c->n_scrapes = 0;
    int r = c->scrapes ? 0 : settings_no_memory(l->file);
    for (uint32_t i = 0; i < n && r == 0; i++)
        r = settings_go_on(l->file, load_scrape(l, settings_item(l->file, list, i)));
    return r;
}

static int load_receivers(struct loader *l, const struct settings_node *map)
{
    int r = 0;
    if (!settings_is(map, SETTINGS_MAP))
        return settings_fail(l->file, map, "receivers",
                             "a map with the keys otlp, pprof_scrape and kafka belongs here");
    for (uint32_t i = 0; i < settings_count(map) && r == 0; i++) {
        const struct settings_node *k = settings_key(l->file, map, i), *v = settings_value(l->file, map, i);
        const char *name = settings_text(l->file, k, "receivers");
        if (!name)
            return settings_failure(l->file);
        if (strcmp(name, "pprof_scrape") == 0) {
            r = load_scrapes(l, v);
            continue;
        }
        if (strcmp(name, "kafka") == 0) {
            l->config->has_kafka = true;
            r = settings_take_map(l->file, &config_kafka_section, &l->config->kafka, v, "receivers.kafka");
            continue;
        }
        if (strcmp(name, "otlp") != 0)
            return settings_fail(l->file, k, name,
                                 "the receivers are otlp, pprof_scrape and kafka in this version");
        if (!settings_is(v, SETTINGS_LIST))
            return settings_fail(l->file, v, "receivers.otlp",
                                 settings_is(v, SETTINGS_MAP)
                                     ? "a list belongs here, not a map: [{ endpoint: host:port }]"
                                     : "a list of {endpoint: host:port} belongs here");
        uint32_t n = settings_count(v);
        if (n == 0 || n > NAMED_MAX)
            return settings_fail(l->file, v, "receivers.otlp", "1 to 64 addresses belong here");
        for (uint32_t j = 0; j < n && r == 0; j++)
            r = settings_go_on(l->file, load_receiver(l, settings_item(l->file, v, j), j == 0));
    }
    return r;
}

/* The kind that an object is of by its name, TYPE or TYPE/NAME, or NULL. */
static const struct config_kind *kind_of(const struct config *c, const char *name)
{
    struct bytes type = bytes_of(name, strcspn(name, "/"));
    for (const struct config_kind *const *k = c->kinds; *k; k++)
        if (bytes_is(type, (*k)->type))
            return *k;
    return NULL;
}

/* Says FORMER, the types of all kinds, each with `behind` behind it ("otlp, file or kafka"), and LATTER. */
static int fail_with_kinds(struct loader *l, const struct settings_node *at, const char *key,
                           const char *former, const char *behind, const char *last, const char *latter)
{
    char what[300];
    size_t n = (size_t)snprintf(what, sizeof what, "%s", former);
    const struct config_kind *const *all = l->config->kinds;
    for (uint32_t i = 0; all[i] && n < sizeof what; i++)
        n += (size_t)snprintf(what + n, sizeof what - n, "%s%s%s",
                              i == 0       ? ""
                              : all[i + 1] ? ", "
                                           : last,
                              all[i]->type, behind);
    if (n < sizeof what)
        snprintf(what + n, sizeof what - n, "%s", latter);
    return settings_fail(l->file, at, key, what);
}

/* A name that is of no kind. */
static int unknown_kind(struct loader *l, const struct settings_node *at, const char *name)
{
    const struct bytes type = bytes_of(name, strcspn(name, "/"));
    struct nearest near;
    char latter[200];
    if (bytes_is(type, "prometheus"))
        return settings_fail(l->file, at, name,
                             "prometheus has no settings among exporters: its page is at admin.endpoint, and "
                             "metrics.exporters names it");
    nearest_start(&near, type);
    for (const struct config_kind *const *k = l->config->kinds; *k; k++)
        nearest_offer(&near, bytes_str((*k)->type));
    snprintf(latter, sizeof latter, ", or TYPE/NAME, in this version%s", nearest_ask(near.best).s);
    return fail_with_kinds(l, at, name, "an exporter is called ", "", " or ", latter);
}

static int load_exporter(struct loader *l, const struct settings_node *k, const struct settings_node *v)
{
    struct config *c = l->config;
    struct config_exporter *x = &c->exporters[c->n_exporters];
    const char *name = settings_text(l->file, k, "exporters");
    if (!name)
        return settings_failure(l->file);
    const struct config_kind *kind = kind_of(c, name);
    if (!kind)
        return unknown_kind(l, k, name);
    if (config_exporter(c, name))
        return settings_fail(l->file, k, name, "there is an exporter of this name already");
    void *settings = arena_calloc(&c->arena, 1, kind->size);
    if (!settings || settings_defaults(&kind->section, settings, &c->arena) < 0)
        return settings_no_memory(l->file);
    *x = (struct config_exporter){name, kind, settings};
    int r = settings_take_map(l->file, &kind->section, settings, v, name);
    c->n_exporters += r == 0;
    return r;
}

static int load_exporters(struct loader *l, const struct settings_node *map)
{
    struct config *c = l->config;
    if (!settings_is(map, SETTINGS_MAP))
        return fail_with_kinds(l, map, "exporters", "a map of ", "/NAME", ", ", " belongs here");
    uint32_t n = settings_count(map);
    if (n > NAMED_MAX)
        return settings_fail(l->file, map, "exporters", "at most 64 exporters");
    c->exporters = arena_calloc(&c->arena, n + 1, sizeof *c->exporters);
    c->n_exporters = 0;
    int r = c->exporters ? 0 : settings_no_memory(l->file);
    for (uint32_t i = 0; i < n && r == 0; i++)
        r = settings_go_on(l->file,
                           load_exporter(l, settings_key(l->file, map, i), settings_value(l->file, map, i)));
    return r;
}

static int unknown_section(struct loader *l, const struct settings_node *at, const char *name)
{
    char what[400];
    struct nearest near;
    nearest_start(&near, bytes_str(name));
    nearest_offer(&near, BYTES_LIT("receivers"));
    nearest_offer(&near, BYTES_LIT("exporters"));
    for (const struct settings_section *s = config_fixed; s->name; s++)
        nearest_offer(&near, bytes_str(s->name));
    const struct settings_key_name key = settings_key_meant(config_fixed, name);
    if (near.best.n == 0)
        near.best = bytes_str(key.s);
    size_t n = (size_t)snprintf(what, sizeof what, "unknown section%s%s are receivers, exporters",
                                nearest_ask(near.best).s, near.best.n > 0 ? " There" : "; there");
    for (const struct settings_section *s = config_fixed; s->name && n < sizeof what; s++)
        n += (size_t)snprintf(what + n, sizeof what - n, ", %s", s->name);
    return settings_fail(l->file, at, name, what);
}

static int load_section(struct loader *l, const struct settings_node *k, const struct settings_node *v)
{
    const char *name = settings_text(l->file, k, "");
    if (!name)
        return settings_failure(l->file);
    if (strcmp(name, "receivers") == 0)
        return load_receivers(l, v);
    if (strcmp(name, "exporters") == 0)
        return load_exporters(l, v);
    for (const struct settings_section *s = config_fixed; s->name; s++)
        if (strcmp(s->name, name) == 0)
            return settings_take_map(l->file, s, l->config, v, name);
    return unknown_section(l, k, name);
}

static int load_document(struct loader *l)
{
    const struct settings_node *root = settings_root(l->file);
    int r = 0;
    if (!root)
        return 0; /* an empty file: the defaults */
    if (!settings_is(root, SETTINGS_MAP))
        return settings_fail(l->file, root, "", "a configuration is a map of sections");
    for (uint32_t i = 0; i < settings_count(root) && r == 0; i++)
        r = settings_go_on(l->file,
                           load_section(l, settings_key(l->file, root, i), settings_value(l->file, root, i)));
    return r;
}

int config_parse_all(struct config *c, const char *name, struct bytes yaml, const struct config_listener *to,
                     struct error *e)
{
    struct settings_file_options options = {.arena = &c->arena, .getvar = getenv, .sections = config_fixed};
    struct loader l = {.config = c};
    if (to) {
        options.tell = to->tell;
        options.user = to->user;
    }
    int r = settings_file_open(&l.file, name, yaml, &options, e);
    if (r == 0 && (r = load_document(&l)) == 0)
        r = settings_failure(l.file);
    settings_file_close(l.file);
    return r;
}

int config_parse(struct config *c, const char *name, struct bytes yaml, struct error *e)
{
    return config_parse_all(c, name, yaml, NULL, e);
}

int config_read(const char *path, struct buffer *ret, struct error *e)
{
    const size_t was = ret->n;
    int r = file_read(path, SETTINGS_FILE_MAX, ret, e);
    if (r == 0 && ret->n == was)
        return error_set(e, -EINVAL, "%s: empty, as a file that is just being written, or a pipe read before",
                         path);
    return r > 0 ? -EINVAL : r;
}

int config_load(struct config *c, const char *path, struct error *e)
{
    cleanup(buffer_release) struct buffer text = BUFFER_INIT(0);
    int r = config_read(path, &text, e);
    if (r == 0)
        r = config_parse(c, path, buffer_bytes(&text), e);
    if (r == 0 && !(c->path = (const char *)arena_copy(&c->arena, bytes_str(path)).p))
        r = error_set(e, -ENOMEM, "out of memory");
    c->flags = NULL;
    return r;
}

/* Whether the key, or one in it, or one that it is in, is not as the file has it. */
static bool is_changed(const struct config *c, const char *key)
{
    for (const struct config_flag *f = c->flags; f; f = f->next) {
        const size_t n = strlen(f->key), m = strlen(key);
        const char next = n < m ? key[n] : f->key[m];
        if (strncmp(f->key, key, min_of(n, m)) == 0 && (n == m || next == '.' || next == '['))
            return true;
    }
    return false;
}

/* The file is read once more: errors are rare, and places of what is right need not be kept. */
void config_place(const struct config *c, const char *key, struct error *e)
{
    cleanup(arena_release) struct arena arena = ARENA_INIT(NULL);
    const struct settings_file_options options = {.arena = &arena, .getvar = getenv};
    cleanup(buffer_release) struct buffer text = BUFFER_INIT(0);
    struct settings_file *file = NULL;
    struct error ignored;
    if (c->path && !is_changed(c, key) && file_read(c->path, SETTINGS_FILE_MAX, &text, &ignored) == 0 &&
        settings_file_open(&file, c->path, buffer_bytes(&text), &options, &ignored) == 0) {
        const struct settings_node *at = settings_seek(file, key);
        struct settings_place place = at ? settings_place(at) : (struct settings_place){1, 1};
        error_prefix(e, 0, "%s:%zu:%zu: ", c->path, place.line, place.column);
    }
    settings_file_close(file);
}
