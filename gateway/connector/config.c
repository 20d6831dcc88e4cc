/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/connector/config.h"

#include <errno.h>
#include <string.h>

#include "proto/base/macros.h"

#define TYPE             "profilingmetrics"
#define AGGREGATIONS_MAX 1024u /* of one connector; the rules for them are one file */

struct reader {
    struct connector_config *c;
    struct settings_file *file;
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

static int fail(struct reader *r, const struct settings_node *at, const char *what, const char *subject)
{
    return settings_fail(r->file, at, subject ? subject : "", what);
}

static const char *scalar(struct reader *r, const struct settings_node *n, const char *key)
{
    return settings_text(r->file, n, key ? key : "");
}

/* The key of pair i of a map; NULL with the error set. */
static const char *key_of(struct reader *r, const struct settings_node *map, uint32_t i)
{
    return scalar(r, settings_key(r->file, map, i), NULL);
}

/* ---- the section */

static int read_attributes(struct reader *r, const struct settings_node *n, struct connector_metric *m)
{
    static const struct {
        const char *name;
        uint32_t bit;
    } names[] = {{"classification", CONNECTOR_CLASSIFICATION},
                 {"frame_type", CONNECTOR_FRAME_TYPE},
                 {"profile.type_unit", CONNECTOR_TYPE_UNIT}};
    if (!settings_is(n, SETTINGS_LIST))
        return fail(r, n, "a list of attributes belongs here", "attributes");
    m->attributes = 0;
    for (uint32_t at = 0; at < settings_count(n); at++) {
        const struct settings_node *item = settings_item(r->file, n, at);
        const char *name = scalar(r, item, "attributes");
        uint32_t bit = 0;
        if (!name)
            return settings_failure(r->file);
        for (size_t i = 0; i < ARRAY_LEN(names); i++)
            bit |= strcmp(name, names[i].name) == 0 ? names[i].bit : 0;
        if ((bit & m->all_attributes) == 0)
            return fail(r, item, "the metric has no such attribute", name);
        m->attributes |= bit;
    }
    return 0;
}

static int read_strategy(struct reader *r, const struct settings_node *n, struct connector_metric *m)
{
    const char *text = scalar(r, n, "aggregation_strategy");
    if (!text)
        return settings_failure(r->file);
    if (strcmp(text, "min") == 0 || strcmp(text, "max") == 0)
        return fail(r, n, "cannot be said in the rule language, whose gauges add up or average", text);
    if (strcmp(text, "avg") != 0 && strcmp(text, "sum") != 0)
        return fail(r, n, "sum, avg, min or max belongs here", text);
    m->strategy = text[0] == 's' ? CONNECTOR_SUM : CONNECTOR_AVG;
    return 0;
}

static int read_enabled(struct reader *r, const struct settings_node *n, struct connector_metric *m)
{
    static const char *const words[] = {"false", "False", "FALSE", "true", "True", "TRUE"};
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        if (settings_is_word(n, words[i])) {
            m->enabled = i >= 3;
            return 0;
        }
    }
    const char *text = scalar(r, n, "enabled");
    return text ? fail(r, n, "true or false belongs here", text) : settings_failure(r->file);
}

/* Where averaging is of points that differ in what is left out, it is not an average of profiles (connector:
 * recordDataPoint), which is all that `combine mean` is. */
static int check_average(struct reader *r, const struct settings_node *at, const struct connector_metric *m)
{
    uint32_t left_out = m->all_attributes & ~m->attributes;
    if (m->strategy == CONNECTOR_SUM || (left_out & ~(uint32_t)CONNECTOR_TYPE_UNIT) == 0)
        return 0;
    return fail(r, at,
                "an average over what an attribute told apart cannot be said in the rule language; say "
                "aggregation_strategy: sum, or leave frame_type and classification among the attributes",
                m->name);
}

static int read_metric(struct reader *r, const struct settings_node *map, struct connector_metric *m)
{
    if (settings_is_null(map))
        return 0;
    if (!settings_is(map, SETTINGS_MAP))
        return fail(r, map, "a map with `enabled` belongs here", m->name);
    for (uint32_t i = 0; i < settings_count(map); i++) {
        const char *key = key_of(r, map, i);
        const struct settings_node *value = settings_value(r->file, map, i);
        int e = !key                                         ? settings_failure(r->file)
                : strcmp(key, "enabled") == 0                ? read_enabled(r, value, m)
                : m->gauge && strcmp(key, "attributes") == 0 ? read_attributes(r, value, m)
                : m->gauge && strcmp(key, "aggregation_strategy") == 0
                    ? read_strategy(r, value, m)
                    : fail(r, settings_key(r->file, map, i),
                           m->gauge ? "unknown key; known here: enabled, attributes, aggregation_strategy"
                                    : "unknown key; known here: enabled",
                           key);
        if (e < 0)
            return e;
    }
    return check_average(r, map, m);
}

static int read_metrics(struct reader *r, const struct settings_node *map)
{
    if (settings_is_null(map))
        return 0;
    if (!settings_is(map, SETTINGS_MAP))
        return fail(r, map, "a map of metrics belongs here", "metrics");
    for (uint32_t i = 0; i < settings_count(map); i++) {
        const char *key = key_of(r, map, i);
        struct connector_metric *m = NULL;
        if (!key)
            return settings_failure(r->file);
        for (uint32_t k = 0; k < CONNECTOR_METRICS; k++)
            if (strcmp(key, r->c->metrics[k].name) == 0)
                m = &r->c->metrics[k];
        if (!m)
            return fail(r, settings_key(r->file, map, i), "the connector has no such metric", key);
        int e = read_metric(r, settings_value(r->file, map, i), m);
        if (e < 0)
            return e;
    }
    return 0;
}

static int read_aggregation(struct reader *r, const struct settings_node *map,
                            struct connector_aggregation *a)
{
    if (!settings_is(map, SETTINGS_MAP))
        return fail(r, map, "{match: REGEX, label: NAME} belongs here", "aggregations");
    for (uint32_t i = 0; i < settings_count(map); i++) {
        const char *key = key_of(r, map, i);
        const struct settings_node *value = settings_value(r->file, map, i);
        if (!key)
            return settings_failure(r->file);
        bool match = strcmp(key, "match") == 0;
        if (!match && strcmp(key, "label") != 0)
            return fail(r, settings_key(r->file, map, i), "unknown key; known here: match, label", key);
        const char *text = scalar(r, value, key);
        if (!text)
            return settings_failure(r->file);
        if (text[0] == '\0' || settings_is_null(value))
            return fail(r, value, "must not be empty", key);
        if (match) {
            a->match = text;
            a->match_at = settings_place(value);
        } else {
            a->label = text;
        }
    }
    return a->match && a->label
               ? 0
               : fail(r, map, a->match ? "label is missing" : "match is missing", "aggregations");
}

static int read_aggregations(struct reader *r, const struct settings_node *list)
{
    if (settings_is_null(list))
        return 0;
    if (!settings_is(list, SETTINGS_LIST))
        return fail(r, list, "a list of {match: REGEX, label: NAME} belongs here", "aggregations");
    uint32_t n = settings_count(list);
    if (n > AGGREGATIONS_MAX)
        return fail(r, list, "more than 1024 are not converted", "aggregations");
    r->c->aggregations = arena_calloc(&r->c->arena, n + 1, sizeof *r->c->aggregations);
    if (!r->c->aggregations)
        return settings_no_memory(r->file);
    for (uint32_t i = 0; i < n; i++) {
        int e = read_aggregation(r, settings_item(r->file, list, i), &r->c->aggregations[i]);
        if (e < 0)
            return e;
    }
    r->c->n_aggregations = n;
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

static int read_section(struct reader *r, const struct settings_node *map)
{
    if (settings_is_null(map))
        return 0;
    if (!settings_is(map, SETTINGS_MAP))
        return fail(r, map, "a map with metrics, aggregations and flush_interval belongs here", r->c->name);
    for (uint32_t i = 0; i < settings_count(map); i++) {
        const char *key = key_of(r, map, i);
        const struct settings_node *value = settings_value(r->file, map, i);
        int e = 0;
        if (!key)
            return settings_failure(r->file);
        if (strcmp(key, "metrics") == 0) {
            e = read_metrics(r, value);
        } else if (strcmp(key, "aggregations") == 0) {
            e = read_aggregations(r, value);
        } else if (strcmp(key, "flush_interval") == 0) {
            r->c->flush_interval = scalar(r, value, key);
            if (r->c->flush_interval && !is_duration(r->c->flush_interval))
                e = fail(r, value, "a duration belongs here, such as 30s", key);
            else if (!r->c->flush_interval)
                e = settings_failure(r->file);
        } else {
            e = fail(r, settings_key(r->file, map, i),
                     "unknown key; known here: metrics, aggregations, flush_interval", key);
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
static int choose(struct reader *r, const struct settings_node *map, const char *name)
{
    const struct settings_node *section = NULL;
    if (!settings_is(map, SETTINGS_MAP))
        return fail(r, map, "a map of connectors belongs here", "connectors");
    for (uint32_t i = 0; i < settings_count(map); i++) {
        const char *key = key_of(r, map, i);
        if (!key)
            return settings_failure(r->file);
        if (name ? strcmp(key, name) != 0 : !is_connector(key))
            continue;
        if (section)
            return fail(r, settings_key(r->file, map, i),
                        "a second one; say which is meant with --connector NAME", key);
        section = settings_value(r->file, map, i);
        r->c->name = key;
    }
    if (!section)
        return fail(r, map, "there is no such connector", name ? name : TYPE);
    return read_section(r, section);
}

static int find_section(struct reader *r, const char *path, const char *name, struct error *e)
{
    const struct settings_node *root = settings_root(r->file);
    if (!root)
        return error_set(e, -EINVAL, "%s:1:1: nothing is in it", path);
    if (!settings_is(root, SETTINGS_MAP))
        return fail(r, root, "a Collector's configuration belongs here, or the connector's section", NULL);
    bool is_whole = false; /* a configuration, or a map of connectors; not the section of one */
    for (uint32_t i = 0; i < settings_count(root); i++) {
        const char *key = key_of(r, root, i);
        if (!key)
            return settings_failure(r->file);
        if (strcmp(key, "connectors") == 0)
            return choose(r, settings_value(r->file, root, i), name);
        is_whole |= is_connector(key) || strcmp(key, "service") == 0 || strcmp(key, "exporters") == 0;
    }
    return is_whole || name ? choose(r, root, name) : read_section(r, root);
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
    const struct settings_file_options options = {
        .arena = &c->arena,
        .no_variables = "${…} is filled in by the Collector; put its value here before converting"};
    struct reader r = {.c = c};
    int result = settings_file_open(&r.file, path, text, &options, e);
    if (result == 0)
        result = find_section(&r, path, name, e);
    settings_file_close(r.file);
    return result;
}

void connector_config_release(struct connector_config *c)
{
    arena_release(&c->arena);
}
