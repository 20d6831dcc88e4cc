/* SPDX-License-Identifier: Apache-2.0 */
/* profgate rules list: every metric, keep rule and trigger the files define. */
#include <stdio.h>

#include "gateway/commands/command.h"
#include "gateway/commands/rules_parts.h"
#include "proto/base/macros.h"
#include "rules/source/place.h"
#include "rules/resolve/level.h"

#define WIDTH_MAX 60

static enum rule_level metric_level(const struct rule_metric *m)
{
    enum rule_level level = RULE_LEVEL_ALWAYS;
    for (uint32_t i = 0; i < m->n_sources; i++)
        level = max_of(level, rule_level_of_source(&m->sources[i]));
    return level;
}

static enum rule_level keep_level(const struct rule_keep *k)
{
    enum rule_level level = rule_level_of_sample(k->where);
    return k->by ? max_of(level, rule_level_of_text(k->by)) : level;
}

static struct bytes source_of(const struct rules_command *c, struct rule_place place)
{
    return place_source(&c->set->files[place.file], place);
}

/* ---- as text ---- */

/* A line a label and `where`, with the level that it alone has. */
static void print_levels(const struct rule_metric *m)
{
    for (uint32_t i = 0; i < m->n_sources; i++) {
        const struct rule_source *s = &m->sources[i];
        printf("    %s%-24s %s\n", i > 0 ? "also " : "", s->each ? "where, each" : "where",
               rule_level_name(s->each
                                   ? max_of(rule_level_of_sample(s->where), (enum rule_level)RULE_LEVEL_STACK)
                                   : rule_level_of_sample(s->where)));
        for (uint32_t k = 0; k < s->n_labels; k++)
            printf("    label %-18.*s %s\n", BYTES_FMT(s->labels[k].name),
                   rule_level_name(rule_level_of_text(s->labels[k].text)));
    }
}

static void print_metrics(const struct rules_command *c)
{
    int width = 6;
    for (uint32_t i = 0; i < c->set->n_metrics; i++)
        width = max_of(width, (int)min_of(c->set->metrics[i].name.n, (size_t)WIDTH_MAX));
    printf("%-*s  %-7s %-3s %-10s %-12s %s%s\n", width, "METRIC", "KIND", "", "UNIT", "PACK",
           c->levels ? "LEVEL             " : "", "DEFINED");
    for (uint32_t i = 0; i < c->set->n_metrics; i++) {
        const struct rule_metric *m = &c->set->metrics[i];
        if (!command_rules_is_meant(c, m->place.file))
            continue;
        printf("%-*.*s  %-7s %-3s %-10.*s %-12.*s ", width, BYTES_FMT(m->name),
               m->gauge ? "gauge" : "counter", m->enabled ? "on" : "off", BYTES_FMT(m->unit),
               BYTES_FMT(m->pack));
        if (c->levels)
            printf("%-17s ", rule_level_name(metric_level(m)));
        printf("%.*s:%u\n", BYTES_FMT(c->set->files[m->place.file].name), m->place.line);
        if (c->levels)
            print_levels(m);
    }
}

static void print_policy(const struct rules_command *c)
{
    for (uint32_t i = 0; i < c->set->n_keeps; i++) {
        const struct rule_keep *k = &c->set->keeps[i];
        if (!command_rules_is_meant(c, k->place.file))
            continue;
        printf("%.*s  %s %.*s ", BYTES_FMT(source_of(c, k->place)), k->enabled ? "on" : "off",
               BYTES_FMT(k->pack));
        if (c->levels)
            printf("%s ", rule_level_name(keep_level(k)));
        printf("%.*s:%u\n", BYTES_FMT(c->set->files[k->place.file].name), k->place.line);
    }
    for (uint32_t i = 0; i < c->set->n_triggers; i++) {
        const struct rule_trigger *t = &c->set->triggers[i];
        if (command_rules_is_meant(c, t->place.file))
            printf("trigger %.*s  %s %.*s %.*s:%u\n", BYTES_FMT(t->name), t->enabled ? "on" : "off",
                   BYTES_FMT(t->pack), BYTES_FMT(c->set->files[t->place.file].name), t->place.line);
    }
}

/* ---- as JSON ---- */

static void put_text(struct json *j, const char *name, struct bytes text)
{
    json_key(j, name), json_string(j, text);
}

static void put_place(struct rules_command *c, struct rule_place place)
{
    put_text(&c->put, "file", c->set->files[place.file].name);
    json_key(&c->put, "line"), json_u64(&c->put, place.line);
}

/* Whether a source before the i-th has a label of this name. */
static bool is_said(const struct rule_metric *m, uint32_t i, struct bytes name)
{
    for (uint32_t j = 0; j < i; j++)
        for (uint32_t k = 0; k < m->sources[j].n_labels; k++)
            if (bytes_eq(m->sources[j].labels[k].name, name))
                return true;
    return false;
}

static void put_metric(struct rules_command *c, const struct rule_metric *m)
{
    static const char *const combines[] = {"sum", "mean", "last"};
    struct json *j = &c->put;
    json_open(j, '{');
    put_text(j, "name", m->name);
    put_text(j, "kind", bytes_str(m->gauge ? "gauge" : "counter"));
    put_text(j, "unit", m->unit);
    put_text(j, "description", m->describe);
    put_text(j, "pack", m->pack);
    put_text(j, "level", bytes_str(rule_level_name(metric_level(m))));
    json_key(j, "enabled"), json_bool(j, m->enabled);
    json_key(j, "limit"), json_u64(j, m->limit);
    json_key(j, "largest"), json_bool(j, m->largest);
    if (m->gauge)
        put_text(j, "combine", bytes_str(combines[m->combine]));
    json_key(j, "labels"), json_open(j, '{');
    for (uint32_t i = 0; i < m->n_sources; i++) {
        for (uint32_t k = 0; k < m->sources[i].n_labels; k++) {
            const struct rule_label *label = &m->sources[i].labels[k];
            if (is_said(m, i, label->name))
                continue;
            json_string_key(j, label->name);
            json_string(j, bytes_str(rule_level_name(rule_level_of_text(label->text))));
        }
    }
    json_close(j, '}');
    put_place(c, m->place);
    json_close(j, '}');
}

static void put_keep(struct rules_command *c, const struct rule_keep *k)
{
    struct json *j = &c->put;
    json_open(j, '{');
    put_text(j, "rule", source_of(c, k->place));
    put_text(j, "pack", k->pack);
    put_text(j, "level", bytes_str(rule_level_name(keep_level(k))));
    json_key(j, "enabled"), json_bool(j, k->enabled);
    put_place(c, k->place);
    json_close(j, '}');
}

static void put_trigger(struct rules_command *c, const struct rule_trigger *t)
{
    struct json *j = &c->put;
    json_open(j, '{');
    put_text(j, "name", t->name);
    put_text(j, "description", t->describe);
    put_text(j, "pack", t->pack);
    json_key(j, "enabled"), json_bool(j, t->enabled);
    put_place(c, t->place);
    json_close(j, '}');
}

static void put_all(struct rules_command *c)
{
    struct json *j = &c->put;
    json_open(j, '{');
    json_key(j, "metrics"), json_open(j, '[');
    for (uint32_t i = 0; i < c->set->n_metrics; i++)
        if (command_rules_is_meant(c, c->set->metrics[i].place.file))
            put_metric(c, &c->set->metrics[i]);
    json_close(j, ']');
    json_key(j, "keeps"), json_open(j, '[');
    for (uint32_t i = 0; i < c->set->n_keeps; i++)
        if (command_rules_is_meant(c, c->set->keeps[i].place.file))
            put_keep(c, &c->set->keeps[i]);
    json_close(j, ']');
    json_key(j, "triggers"), json_open(j, '[');
    for (uint32_t i = 0; i < c->set->n_triggers; i++)
        if (command_rules_is_meant(c, c->set->triggers[i].place.file))
            put_trigger(c, &c->set->triggers[i]);
    json_close(j, ']');
    json_close(j, '}');
}

int command_rules_list(struct rules_command *c)
{
    if (!c->set) {
        command_rules_no_set(c);
        return EXIT_NO;
    }
    if (c->json) {
        put_all(c);
    } else {
        print_metrics(c);
        print_policy(c);
    }
    return EXIT_DONE;
}
