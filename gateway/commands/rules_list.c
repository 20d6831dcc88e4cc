/* SPDX-License-Identifier: Apache-2.0 */
/* profgate rules list: every metric, keep rule and trigger the files define. */
#include <stdlib.h>

#include "gateway/commands/command.h"
#include "gateway/commands/rules_parts.h"
#include "gateway/commands/json_text.h"
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

static void put_text(const char *name, struct bytes text, bool *first)
{
    json_put_key(stdout, name, first);
    json_put_string(stdout, text);
}

static void put_place(const struct rules_command *c, struct rule_place place, bool *first)
{
    put_text("file", c->set->files[place.file].name, first);
    json_put_key(stdout, "line", first);
    printf("%u", place.line);
}

static void put_metric(const struct rules_command *c, const struct rule_metric *m)
{
    static const char *const combines[] = {"sum", "mean", "last"};
    bool first = true;
    putchar('{');
    put_text("name", m->name, &first);
    put_text("kind", bytes_str(m->gauge ? "gauge" : "counter"), &first);
    put_text("unit", m->unit, &first);
    put_text("description", m->describe, &first);
    put_text("pack", m->pack, &first);
    put_text("level", bytes_str(rule_level_name(metric_level(m))), &first);
    json_put_key(stdout, "enabled", &first);
    printf("%s, \"limit\": %u, \"largest\": %s", m->enabled ? "true" : "false", m->limit,
           m->largest ? "true" : "false");
    if (m->gauge)
        put_text("combine", bytes_str(combines[m->combine]), &first);
    printf(", \"labels\": {");
    for (uint32_t i = 0, first_label = true; i < m->n_sources; i++) {
        for (uint32_t k = 0; k < m->sources[i].n_labels; k++) {
            const struct rule_label *label = &m->sources[i].labels[k];
            bool again = false;
            for (uint32_t j = 0; j < i && !again; j++)
                for (uint32_t o = 0; o < m->sources[j].n_labels && !again; o++)
                    again = bytes_eq(m->sources[j].labels[o].name, label->name);
            if (again)
                continue;
            printf("%s", first_label ? "" : ", ");
            first_label = false;
            json_put_string(stdout, label->name);
            printf(": ");
            json_put_string(stdout, bytes_str(rule_level_name(rule_level_of_text(label->text))));
        }
    }
    putchar('}');
    put_place(c, m->place, &first);
    putchar('}');
}

static int print_json(const struct rules_command *c)
{
    bool first = true;
    printf("{\"metrics\": [");
    for (uint32_t i = 0; i < c->set->n_metrics; i++) {
        if (!command_rules_is_meant(c, c->set->metrics[i].place.file))
            continue;
        printf("%s", first ? "" : ", ");
        first = false;
        put_metric(c, &c->set->metrics[i]);
    }
    printf("], \"keeps\": [");
    first = true;
    for (uint32_t i = 0; i < c->set->n_keeps; i++) {
        const struct rule_keep *k = &c->set->keeps[i];
        bool first_key = true;
        if (!command_rules_is_meant(c, k->place.file))
            continue;
        printf("%s{", first ? "" : ", ");
        first = false;
        put_text("rule", source_of(c, k->place), &first_key);
        put_text("pack", k->pack, &first_key);
        put_text("level", bytes_str(rule_level_name(keep_level(k))), &first_key);
        printf(", \"enabled\": %s", k->enabled ? "true" : "false");
        put_place(c, k->place, &first_key);
        putchar('}');
    }
    printf("], \"triggers\": [");
    first = true;
    for (uint32_t i = 0; i < c->set->n_triggers; i++) {
        const struct rule_trigger *t = &c->set->triggers[i];
        bool first_key = true;
        if (!command_rules_is_meant(c, t->place.file))
            continue;
        printf("%s{", first ? "" : ", ");
        first = false;
        put_text("name", t->name, &first_key);
        put_text("description", t->describe, &first_key);
        put_text("pack", t->pack, &first_key);
        printf(", \"enabled\": %s", t->enabled ? "true" : "false");
        put_place(c, t->place, &first_key);
        putchar('}');
    }
    printf("]}\n");
    return EXIT_DONE;
}

int command_rules_list(struct rules_command *c)
{
    if (!c->set) {
        command_rules_no_set(c);
        return EXIT_NO;
    }
    if (c->json)
        return print_json(c);
    print_metrics(c);
    print_policy(c);
    return EXIT_DONE;
}
