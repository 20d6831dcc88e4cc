/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/connector/config.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <yaml.h>

#include "proto/base/macros.h"

#define TYPE             "profilingmetrics"
#define KEYS_MAX         4096u /* of one map: each is compared with those before it */
#define AGGREGATIONS_MAX 1024u /* of one connector; the rules for them are one file */

struct reader {
    struct connector_config *c;
    yaml_document_t doc;
    const char *path;
    struct error *e;
};

static const struct {
    const char *name;
    bool gauge, off;
    uint32_t attributes;
} metrics[CONNECTOR_METRICS] = {
    {"samples.beam.count", false, false, 0},
    {"samples.classification", true, true,
     CONNECTOR_CLASSIFICATION | CONNECTOR_FRAME_TYPE | CONNECTOR_TYPE_UNIT},
    {"samples.cpython.count", false, false, 0},
    {"samples.custom_aggregation", true, false, CONNECTOR_FRAME_TYPE | CONNECTOR_TYPE_UNIT},
    {"samples.dotnet.count", false, false, 0},
    {"samples.frame_type", true, true, CONNECTOR_FRAME_TYPE | CONNECTOR_TYPE_UNIT},
    {"samples.go.count", false, false, 0},
    {"samples.jvm.count", false, false, 0},
    {"samples.kernel.count", false, false, 0},
    {"samples.native.count", false, false, 0},
    {"samples.perl.count", false, false, 0},
    {"samples.php.count", false, false, 0},
    {"samples.ruby.count", false, false, 0},
    {"samples.rust.count", false, false, 0},
    {"samples.user.count", false, false, 0},
    {"samples.v8js.count", false, false, 0},
};

/* ---- YAML */

static struct connector_place place(const yaml_node_t *n)
{
    return (struct connector_place){n->start_mark.line + 1, n->start_mark.column + 1};
}

static int fail(struct reader *r, const yaml_node_t *at, const char *what, const char *subject)
{
    struct connector_place p = place(at);
    return error_set(r->e, -EINVAL, "%s:%zu:%zu: %s%s%s", r->path, p.line, p.column, subject ? subject : "",
                     subject ? ": " : "", what);
}

static yaml_node_t *node(struct reader *r, int id)
{
    return yaml_document_get_node(&r->doc, id);
}

static bool is_null(const yaml_node_t *n)
{
    if (n->type != YAML_SCALAR_NODE || n->data.scalar.style != YAML_PLAIN_SCALAR_STYLE)
        return false;
    const char *text = (const char *)n->data.scalar.value;
    return text[0] == '\0' || strcmp(text, "~") == 0 || strcmp(text, "null") == 0 ||
           strcmp(text, "Null") == 0 || strcmp(text, "NULL") == 0;
}

/* A scalar's text, after the Collector's $$ (confmap: one dollar). What it would take from elsewhere is not
 * here. */
static const char *scalar(struct reader *r, yaml_node_t *n, const char *key)
{
    if (n->type != YAML_SCALAR_NODE) {
        fail(r, n, "a single value belongs here", key);
        return NULL;
    }
    const char *from = (const char *)n->data.scalar.value;
    if (strlen(from) != n->data.scalar.length) {
        fail(r, n, "a NUL byte cannot be part of a value", key);
        return NULL;
    }
    char *text = arena_calloc(&r->c->arena, n->data.scalar.length + 1, 1), *to = text;
    if (!text) {
        fail(r, n, "out of memory", key);
        return NULL;
    }
    for (; *from; from++) {
        if (from[0] == '$' && from[1] == '{') {
            fail(r, n, "${…} is filled in by the Collector; put its value here before converting", key);
            return NULL;
        }
        from += from[0] == '$' && from[1] == '$';
        *to++ = *from;
    }
    return text;
}

static size_t size_of(const yaml_node_t *map)
{
    return (size_t)(map->data.mapping.pairs.top - map->data.mapping.pairs.start);
}

/* The key of pair i of a map, with every earlier one different; NULL with the error set. */
static const char *key_of(struct reader *r, yaml_node_t *map, size_t i)
{
    yaml_node_t *k = node(r, map->data.mapping.pairs.start[i].key);
    if (i >= KEYS_MAX) {
        fail(r, k, "a map of more than 4096 keys", NULL);
        return NULL;
    }
    const char *key = scalar(r, k, NULL);
    for (size_t j = 0; key && j < i; j++) {
        yaml_node_t *other = node(r, map->data.mapping.pairs.start[j].key);
        if (other->type == YAML_SCALAR_NODE && strcmp((const char *)other->data.scalar.value, key) == 0) {
            fail(r, k, "this key stands here twice", key);
            return NULL;
        }
    }
    return key;
}

static yaml_node_t *value_of(struct reader *r, yaml_node_t *map, size_t i)
{
    return node(r, map->data.mapping.pairs.start[i].value);
}

static yaml_node_t *key_at(struct reader *r, yaml_node_t *map, size_t i)
{
    return node(r, map->data.mapping.pairs.start[i].key);
}

/* ---- the section */

static int read_attributes(struct reader *r, yaml_node_t *n, struct connector_metric *m)
{
    static const struct {
        const char *name;
        uint32_t bit;
    } names[] = {{"classification", CONNECTOR_CLASSIFICATION},
                 {"frame_type", CONNECTOR_FRAME_TYPE},
                 {"profile.type_unit", CONNECTOR_TYPE_UNIT}};
    if (n->type != YAML_SEQUENCE_NODE)
        return fail(r, n, "a list of attributes belongs here", "attributes");
    m->attributes = 0;
    for (yaml_node_item_t *item = n->data.sequence.items.start; item < n->data.sequence.items.top; item++) {
        const char *name = scalar(r, node(r, *item), "attributes");
        uint32_t bit = 0;
        if (!name)
            return -EINVAL;
        for (size_t i = 0; i < ARRAY_LEN(names); i++)
            bit |= strcmp(name, names[i].name) == 0 ? names[i].bit : 0;
        if ((bit & m->all_attributes) == 0)
            return fail(r, node(r, *item), "the metric has no such attribute", name);
        m->attributes |= bit;
    }
    return 0;
}

static int read_strategy(struct reader *r, yaml_node_t *n, struct connector_metric *m)
{
    const char *text = scalar(r, n, "aggregation_strategy");
    if (!text)
        return -EINVAL;
    if (strcmp(text, "min") == 0 || strcmp(text, "max") == 0)
        return fail(r, n, "cannot be said in the rule language, whose gauges add up or average", text);
    if (strcmp(text, "avg") != 0 && strcmp(text, "sum") != 0)
        return fail(r, n, "sum, avg, min or max belongs here", text);
    m->strategy = text[0] == 's' ? CONNECTOR_SUM : CONNECTOR_AVG;
    return 0;
}

static int read_enabled(struct reader *r, yaml_node_t *n, struct connector_metric *m)
{
    static const char *const words[] = {"false", "False", "FALSE", "true", "True", "TRUE"};
    const char *text = scalar(r, n, "enabled");
    if (!text)
        return -EINVAL;
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        if (n->data.scalar.style == YAML_PLAIN_SCALAR_STYLE && strcmp(text, words[i]) == 0) {
            m->enabled = i >= 3;
            return 0;
        }
    }
    return fail(r, n, "true or false belongs here", text);
}

/* Where averaging is of points that differ in what is left out, it is not an average of profiles (connector:
 * recordDataPoint), which is all that `combine mean` is. */
static int check_average(struct reader *r, const yaml_node_t *at, const struct connector_metric *m)
{
    uint32_t left_out = m->all_attributes & ~m->attributes;
    if (m->strategy == CONNECTOR_SUM || (left_out & ~(uint32_t)CONNECTOR_TYPE_UNIT) == 0)
        return 0;
    return fail(r, at,
                "an average over what an attribute told apart cannot be said in the rule language; say "
                "aggregation_strategy: sum, or leave frame_type and classification among the attributes",
                m->name);
}

static int read_metric(struct reader *r, yaml_node_t *map, struct connector_metric *m)
{
    if (is_null(map))
        return 0;
    if (map->type != YAML_MAPPING_NODE)
        return fail(r, map, "a map with `enabled` belongs here", m->name);
    for (size_t i = 0; i < size_of(map); i++) {
        const char *key = key_of(r, map, i);
        yaml_node_t *value = value_of(r, map, i);
        int e = !key                                         ? -EINVAL
                : strcmp(key, "enabled") == 0                ? read_enabled(r, value, m)
                : m->gauge && strcmp(key, "attributes") == 0 ? read_attributes(r, value, m)
                : m->gauge && strcmp(key, "aggregation_strategy") == 0
                    ? read_strategy(r, value, m)
                    : fail(r, key_at(r, map, i),
                           m->gauge ? "unknown key; known here: enabled, attributes, aggregation_strategy"
                                    : "unknown key; known here: enabled",
                           key);
        if (e < 0)
            return e;
    }
    return check_average(r, map, m);
}

static int read_metrics(struct reader *r, yaml_node_t *map)
{
    if (is_null(map))
        return 0;
    if (map->type != YAML_MAPPING_NODE)
        return fail(r, map, "a map of metrics belongs here", "metrics");
    for (size_t i = 0; i < size_of(map); i++) {
        const char *key = key_of(r, map, i);
        struct connector_metric *m = NULL;
        if (!key)
            return -EINVAL;
        for (uint32_t k = 0; k < CONNECTOR_METRICS; k++)
            if (strcmp(key, r->c->metrics[k].name) == 0)
                m = &r->c->metrics[k];
        if (!m)
            return fail(r, key_at(r, map, i), "the connector has no such metric", key);
        int e = read_metric(r, value_of(r, map, i), m);
        if (e < 0)
            return e;
    }
    return 0;
}

static int read_aggregation(struct reader *r, yaml_node_t *map, struct connector_aggregation *a)
{
    if (map->type != YAML_MAPPING_NODE)
        return fail(r, map, "{match: REGEX, label: NAME} belongs here", "aggregations");
    for (size_t i = 0; i < size_of(map); i++) {
        const char *key = key_of(r, map, i);
        yaml_node_t *value = value_of(r, map, i);
        if (!key)
            return -EINVAL;
        bool match = strcmp(key, "match") == 0;
        if (!match && strcmp(key, "label") != 0)
            return fail(r, key_at(r, map, i), "unknown key; known here: match, label", key);
        const char *text = scalar(r, value, key);
        if (!text)
            return -EINVAL;
        if (text[0] == '\0' || is_null(value))
            return fail(r, value, "must not be empty", key);
        if (match) {
            a->match = text;
            a->match_at = place(value);
        } else {
            a->label = text;
        }
    }
    return a->match && a->label
               ? 0
               : fail(r, map, a->match ? "label is missing" : "match is missing", "aggregations");
}

static int read_aggregations(struct reader *r, yaml_node_t *list)
{
    if (is_null(list))
        return 0;
    if (list->type != YAML_SEQUENCE_NODE)
        return fail(r, list, "a list of {match: REGEX, label: NAME} belongs here", "aggregations");
    size_t n = (size_t)(list->data.sequence.items.top - list->data.sequence.items.start);
    if (n > AGGREGATIONS_MAX)
        return fail(r, list, "more than 1024 are not converted", "aggregations");
    r->c->aggregations = arena_calloc(&r->c->arena, n + 1, sizeof *r->c->aggregations);
    if (!r->c->aggregations)
        return fail(r, list, "out of memory", "aggregations");
    for (size_t i = 0; i < n; i++) {
        int e = read_aggregation(r, node(r, list->data.sequence.items.start[i]), &r->c->aggregations[i]);
        if (e < 0)
            return e;
    }
    r->c->n_aggregations = (uint32_t)n;
    return 0;
}

/* A duration as Go reads it (time.ParseDuration), not below zero: numbers with units, one behind the other.
 */
static bool is_duration(const char *p)
{
    static const char *const units[] = {"ns", "us", "µs", "μs", "ms", "s", "m", "h"};
    if (strcmp(p, "0") == 0)
        return true;
    do {
        size_t digits = strspn(p, "0123456789"), length = 0;
        p += digits;
        if (*p == '.') {
            size_t more = strspn(++p, "0123456789");
            digits += more;
            p += more;
        }
        for (size_t i = 0; i < ARRAY_LEN(units); i++)
            if (strncmp(p, units[i], strlen(units[i])) == 0 && strlen(units[i]) > length)
                length = strlen(units[i]);
        if (digits == 0 || length == 0)
            return false;
        p += length;
    } while (*p);
    return true;
}

static int read_section(struct reader *r, yaml_node_t *map)
{
    if (is_null(map))
        return 0;
    if (map->type != YAML_MAPPING_NODE)
        return fail(r, map, "a map with metrics, aggregations and flush_interval belongs here", r->c->name);
    for (size_t i = 0; i < size_of(map); i++) {
        const char *key = key_of(r, map, i);
        yaml_node_t *value = value_of(r, map, i);
        int e = 0;
        if (!key)
            return -EINVAL;
        if (strcmp(key, "metrics") == 0) {
            e = read_metrics(r, value);
        } else if (strcmp(key, "aggregations") == 0) {
            e = read_aggregations(r, value);
        } else if (strcmp(key, "flush_interval") == 0) {
            r->c->flush_interval = scalar(r, value, key);
            if (r->c->flush_interval && !is_duration(r->c->flush_interval))
                e = fail(r, value, "a duration belongs here, such as 30s", key);
            else if (!r->c->flush_interval)
                e = -EINVAL;
        } else {
            e = fail(r, key_at(r, map, i), "unknown key; known here: metrics, aggregations, flush_interval",
                     key);
        }
        if (e < 0)
            return e;
    }
    return 0;
}

/* ---- where the section is */

static bool is_connector(const char *name)
{
    size_t n = strlen(TYPE);
    return strncmp(name, TYPE, n) == 0 && (name[n] == '\0' || name[n] == '/');
}

/* The one of a map of connectors that is meant; the others are not ours to judge. */
static int choose(struct reader *r, yaml_node_t *map, const char *name)
{
    yaml_node_t *section = NULL;
    if (map->type != YAML_MAPPING_NODE)
        return fail(r, map, "a map of connectors belongs here", "connectors");
    for (size_t i = 0; i < size_of(map); i++) {
        const char *key = key_of(r, map, i);
        if (!key)
            return -EINVAL;
        if (name ? strcmp(key, name) != 0 : !is_connector(key))
            continue;
        if (section)
            return fail(r, key_at(r, map, i), "a second one; say which is meant with --connector NAME", key);
        section = value_of(r, map, i);
        r->c->name = key;
    }
    if (!section)
        return fail(r, map, "there is no such connector", name ? name : TYPE);
    return read_section(r, section);
}

static int find_section(struct reader *r, const char *name)
{
    yaml_node_t *root = yaml_document_get_root_node(&r->doc);
    if (!root)
        return error_set(r->e, -EINVAL, "%s:1:1: nothing is in it", r->path);
    if (root->type != YAML_MAPPING_NODE)
        return fail(r, root, "a Collector's configuration belongs here, or the connector's section", NULL);
    bool connectors = false;
    for (size_t i = 0; i < size_of(root); i++) {
        const char *key = key_of(r, root, i);
        if (!key)
            return -EINVAL;
        if (strcmp(key, "connectors") == 0)
            return choose(r, value_of(r, root, i), name);
        connectors |= is_connector(key);
    }
    return connectors || name ? choose(r, root, name) : read_section(r, root);
}

int connector_config_read(struct connector_config *c, const char *path, struct bytes text, const char *name,
                          struct error *e)
{
    *c = (struct connector_config){.arena = ARENA_INIT(NULL), .name = TYPE};
    for (uint32_t i = 0; i < CONNECTOR_METRICS; i++)
        c->metrics[i] = (struct connector_metric){.name = metrics[i].name,
                                                  .gauge = metrics[i].gauge,
                                                  .enabled = !metrics[i].off,
                                                  .enabled_at_first = !metrics[i].off,
                                                  .attributes = metrics[i].attributes,
                                                  .all_attributes = metrics[i].attributes};
    struct reader r = {.c = c, .path = path, .e = e};
    yaml_parser_t parser;
    if (!yaml_parser_initialize(&parser))
        return error_set(e, -EINVAL, "%s: out of memory", path);
    yaml_parser_set_input_string(&parser, text.p, text.n);
    int result;
    if (yaml_parser_load(&parser, &r.doc)) {
        result = find_section(&r, name);
        yaml_document_delete(&r.doc);
    } else {
        result = error_set(e, -EINVAL, "%s:%zu:%zu: %s", path, parser.problem_mark.line + 1,
                           parser.problem_mark.column + 1, parser.problem ? parser.problem : "not YAML");
    }
    yaml_parser_delete(&parser);
    return result;
}

void connector_config_release(struct connector_config *c)
{
    arena_release(&c->arena);
}
