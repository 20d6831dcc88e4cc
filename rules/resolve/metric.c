/* SPDX-License-Identifier: Apache-2.0 */
/* Metrics: definitions, `also`, switches. */
#include "rules/resolve/resolve.h"

#include <errno.h>
#include <string.h>

#include "rules/resolve/check.h"
#include "proto/base/nearest.h"

/* A metric being built: its definition, and its sources as they come. */
struct building {
    const struct ast_metric *a;
    struct list sources; /* of struct rule_source, in the set's arena */
    struct rule_metric metric;
    bool good;
};

/* ---- labels ---------------------------------------------------------------------------------- */

/* The labels of a source as they come; those of an override take others' places. */
struct labels {
    struct list list; /* of struct rule_label, in the set's arena */
    uint32_t
        below; /* labels[0 … below) may be replaced: they are the definition's, or an earlier override's */
};

static bool add_label(struct resolver *r, struct labels *to, const struct ast_label *a, struct bytes name,
                      const struct rule_text *text)
{
    struct list *labels = &to->list;
    for (uint32_t i = 0; i < labels->n; i++) {
        struct rule_label *other = (struct rule_label *)labels->items + i;
        if (bytes_eq(other->name, name) && i < to->below && other->place.file != a->place.file) {
            *other = (struct rule_label){name, text, a->place};
            return true;
        }
        if (bytes_eq(other->name, name))
            return wrong(r, "E120", a->place, NULL, "the label %.*s is given twice (line %u)",
                         BYTES_FMT(name), other->place.line);
    }
    struct rule_label *label = list_add(labels, r->keep, sizeof *label);
    if (!label) {
        r->oom = true;
        return false;
    }
    *label = (struct rule_label){name, text, a->place};
    return true;
}

static const struct rule_text *column_text(struct resolver *r, const struct rule_table *table,
                                           uint32_t column, struct rule_place place)
{
    struct rule_text *text = arena_calloc(r->keep, 1, sizeof *text);
    struct rule_choice *choice = arena_calloc(r->keep, 1, sizeof *choice);
    struct rule_text_part *part = arena_calloc(r->keep, 1, sizeof *part);
    if (!text || !choice || !part)
        return out_of_memory(r);
    *part = (struct rule_text_part){.kind = RULE_TEXT_COLUMN, .table = table, .column = column};
    *choice = (struct rule_choice){.parts = part, .n_parts = 1};
    *text = (struct rule_text){.choices = choice, .n_choices = 1, .place = place};
    return text;
}

/* TABLE.* */
static bool add_columns(struct resolver *r, struct labels *labels, const struct ast_label *a)
{
    const struct ast_def *def = look_up(r, a->name.name, a->name.place, 1u << DEF_TABLE, "table");
    if (!def)
        return false;
    if (def->kind != DEF_TABLE)
        return wrong(r, "E117", a->name.place, NULL, "`%.*s` is a %s; a table is needed before `.*`",
                     BYTES_FMT(a->name.name), kind_name(def->kind));
    const struct rule_table *table = resolve_def(r, def, a->name.place);
    if (!table)
        return false;
    if (!table->over) {
        report_at(r->report, "E102", a->name.place,
                  "`%.*s` belongs to a frame, but this speaks of a whole sample", BYTES_FMT(a->name.name));
        report_propose(r->report, "write: label %.*s = %.*s.%.*s of leaf", BYTES_FMT(table->columns[0]),
                       BYTES_FMT(a->name.name), BYTES_FMT(table->columns[0]));
        report_done(r->report);
        return false;
    }
    bool good = true;
    for (uint32_t i = 0; i < table->n_columns; i++) {
        const struct rule_text *text = column_text(r, table, i, a->place);
        good &= text && add_label(r, labels, a, table->columns[i], text);
    }
    return good;
}

/* `label NAME = none` of an override */
static bool is_removal(const struct ast_label *a)
{
    return !a->columns && a->text->n_kids == 1 && !a->text->kids[0]->guard && a->text->kids[0]->n_kids == 1 &&
           a->text->kids[0]->kids[0]->op == AST_NONE;
}

static void remove_label(struct labels *labels, struct bytes name)
{
    struct rule_label *items = labels->list.items;
    for (uint32_t i = 0; i < labels->below; i++) {
        if (!bytes_eq(items[i].name, name))
            continue;
        memmove(&items[i], &items[i + 1], (labels->list.n - i - 1) * sizeof *items);
        labels->list.n--;
        labels->below--;
        return;
    }
}

static bool add_labels(struct resolver *r, const struct ast_metric *a, bool each, struct labels *labels)
{
    bool good = true;
    labels->below = a->override ? labels->list.n : 0;
    for (uint32_t i = 0; i < a->n_labels; i++) {
        const struct ast_label *label = &a->labels[i];
        r->here = (struct resolve_place){.pack = label->pack, .each = each};
        if (label->columns) {
            good &= add_columns(r, labels, label);
            continue;
        }
        if (a->override && is_removal(label)) {
            remove_label(labels, label->name.name);
            continue;
        }
        const struct rule_text *text = resolve_text(r, label->text);
        good &= text && add_label(r, labels, label, label->name.name, text);
    }
    return good;
}

/* A source's own labels, then what overrides of the metric say of them: they mean every source. */
static bool resolve_labels(struct resolver *r, const struct ast_metric *a, struct rule_source *s)
{
    struct labels labels = {0};
    bool good = add_labels(r, a, s->each, &labels);
    for (uint32_t i = 0; i < r->n_overrides; i++) {
        if (bytes_eq(r->overrides[i]->name.name, a->name.name))
            good &= add_labels(r, r->overrides[i], s->each, &labels);
    }
    s->labels = labels.list.items;
    s->n_labels = labels.list.n;
    return good;
}

/* ---- sources --------------------------------------------------------------------------------- */

static bool resolve_source(struct resolver *r, const struct ast_metric *a, const struct rule_source *inherit,
                           struct rule_source *s)
{
    bool good = true;
    *s =
        (struct rule_source){.place = a->place, .each = a->at[CLAUSE_EACH].line > 0, .distinct = a->distinct};
    r->here = (struct resolve_place){.pack = a->from[CLAUSE_ON]};
    if (a->at[CLAUSE_ON].line > 0) {
        s->on_kind = a->on_kind;
        s->kind = a->kind;
        r->here.is_on = true;
        good = a->on_kind || (s->on = resolve_pattern(r, a->on));
        r->here.is_on = false;
    } else if (inherit) {
        s->on_kind = inherit->on_kind;
        s->kind = inherit->kind;
        s->on = inherit->on;
    } else {
        report_at(r->report, "E108", a->place,
                  "%s %.*s has no `on`: on-CPU, off-CPU and bytes would be added up",
                  a->gauge ? "gauge" : "counter", BYTES_FMT(a->name.name));
        report_propose(r->report, "add: on cpu");
        report_done(r->report);
        good = false;
    }
    if (a->at[CLAUSE_VALUE].line > 0)
        s->value = a->value;
    else
        s->value = inherit ? inherit->value : check_default_value(a->gauge, s->each);
    r->here = (struct resolve_place){.pack = a->from[CLAUSE_WHERE]};
    if (a->where)
        good &= (s->where = resolve_sample(r, a->where)) != NULL;
    r->here = (struct resolve_place){.pack = a->from[CLAUSE_EACH]};
    if (a->each)
        good &= (s->each_frame = resolve_frame(r, a->each)) != NULL;
    bool region_good;
    s->each_region = resolve_region_name(r, a->each_region.name, a->each_region.place, &region_good);
    good &= region_good;
    return resolve_labels(r, a, s) && good;
}

static bool add_source(struct resolver *r, struct building *b, const struct ast_metric *a)
{
    const struct rule_source *first = b->sources.n > 0 ? b->sources.items : NULL;
    struct rule_source source;
    bool good = resolve_source(r, a, a->also ? first : NULL, &source);
    if (!good)
        return false;
    struct bytes unit = a->at[CLAUSE_UNIT].line > 0 ? a->unit
                        : a->also                   ? b->metric.unit
                                                    : check_default_unit(&source);
    if (!a->also)
        b->metric.unit = unit;
    good = check_metric(r->report, a, &source, unit);
    if (!list_append(&b->sources, r->keep, &source))
        return out_of_memory(r);
    return good;
}

/* ---- metrics --------------------------------------------------------------------------------- */

static struct building *find_building(struct list *all, struct bytes name)
{
    for (uint32_t i = 0; i < all->n; i++) {
        struct building *b = (struct building *)all->items + i;
        if (bytes_eq(b->a->name.name, name))
            return b;
    }
    return NULL;
}

static int start_metric(struct resolver *r, struct list *all, const struct ast_metric *written)
{
    const struct ast_metric *a = override_metric(r, written);
    const struct building *other = find_building(all, written->name.name);
    if (!a)
        return -ENOMEM;
    struct bytes pack = r->packs[a->pack].name.name;
    if (other) {
        struct bytes its_pack = r->packs[other->a->pack].name.name;
        report_at(r->report, "E105", a->place, "the metric %.*s already exists (pack %.*s, line %u)",
                  BYTES_FMT(a->name.name), BYTES_FMT(its_pack), other->a->place.line);
        report_propose(r->report,
                       "to change it: override %s %.*s { … }; to add a source inside pack %.*s: also %s …",
                       a->gauge ? "gauge" : "counter", BYTES_FMT(a->name.name), BYTES_FMT(its_pack),
                       a->gauge ? "gauge" : "counter");
        report_done(r->report);
        return 0;
    }
    struct building *b = list_add(all, r->scratch, sizeof *b);
    if (!b)
        return -ENOMEM;
    b->a = a;
    bool off = a->at[CLAUSE_OFF].line > 0;
    b->metric = (struct rule_metric){
        .gauge = a->gauge,
        .enabled = !off,
        .off = off,
        .name = a->name.name,
        .pack = pack,
        .describe = a->describe,
        .limit = a->limit,
        .largest = a->largest,
        .combine = a->combine,
        .place = a->place,
    };
    b->good = !a->broken && add_source(r, b, a);
    return 0;
}

/* What an `also` may not say. */
static bool check_also(struct resolver *r, const struct building *b, const struct ast_metric *a)
{
    static const struct {
        enum ast_clause clause;
        const char *word;
    } rows[] = {{CLAUSE_DESCRIBE, "describe"},
                {CLAUSE_OFF, "off"},
                {CLAUSE_UNIT, "unit"},
                {CLAUSE_LIMIT, "limit"},
                {CLAUSE_COMBINE, "combine"}};
    bool good = true;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (a->at[rows[i].clause].line == 0)
            continue;
        wrong(r, "E123", a->at[rows[i].clause], "leave it out",
              "`%s` belongs to the metric's own definition (line %u)", rows[i].word, b->a->place.line);
        good = false;
    }
    if (a->gauge != b->a->gauge) {
        wrong(r, "E123", a->place, NULL, "%.*s is a %s (line %u)", BYTES_FMT(a->name.name),
              b->a->gauge ? "gauge" : "counter", b->a->place.line);
        good = false;
    }
    return good;
}

static void add_also(struct resolver *r, struct list *all, const struct ast_metric *a)
{
    struct building *b = find_building(all, a->name.name);
    if (!b || b->a->pack != a->pack) {
        struct bytes pack = r->packs[a->pack].name.name;
        wrong(r, "E123", a->place, "`also` adds a source to a metric of the same pack",
              "pack %.*s has no metric %.*s", BYTES_FMT(pack), BYTES_FMT(a->name.name));
        return;
    }
    bool good = !a->broken && check_also(r, b, a);
    if (b->good)
        b->good = good && add_source(r, b, a);
}

/* ---- enable, disable ------------------------------------------------------------------------- */

static void report_no_switch(struct resolver *r, struct list *all, const struct ast_switch *sw)
{
    struct nearest near;
    nearest_start(&near, sw->name.name);
    for (uint32_t i = 0; i < all->n; i++)
        nearest_offer(&near, ((struct building *)all->items)[i].a->name.name);
    for (uint32_t i = 0; i < r->n_packs; i++) {
        for (uint32_t k = 0; r->scopes[i].usable && k < r->packs[i].n_triggers; k++)
            nearest_offer(&near, r->packs[i].triggers[k].name.name);
        if (r->scopes[i].usable)
            nearest_offer(&near, r->packs[i].name.name);
    }
    report_at(r->report, "E103", sw->name.place, "there is no metric, trigger or pack named `%.*s`",
              BYTES_FMT(sw->name.name));
    report_meant(r->report, near.best);
    report_done(r->report);
}

/* Those of one file: packs first, so that a metric's own switch wins over its pack's. */
static void apply_switches(struct resolver *r, struct list *all, const struct ast_pack *p)
{
    for (int metrics = 0; metrics < 2; metrics++) {
        for (uint32_t i = 0; i < p->n_switches; i++) {
            const struct ast_switch *sw = &p->switches[i];
            struct building *b = find_building(all, sw->name.name);
            const struct ast_pack *pack = b ? NULL : find_pack(r, sw->name.name, NULL);
            if ((b != NULL) != (metrics == 1))
                continue;
            if (b)
                b->metric.enabled = sw->on;
            for (uint32_t k = 0; pack && k < all->n; k++) {
                struct building *of_pack = (struct building *)all->items + k;
                if (bytes_eq(of_pack->metric.pack, pack->name.name))
                    of_pack->metric.enabled = sw->on;
            }
        }
    }
}

static void check_switches(struct resolver *r, struct list *all, const struct ast_pack *p)
{
    for (uint32_t i = 0; i < p->n_switches; i++) {
        const struct ast_switch *sw = &p->switches[i];
        if (!find_building(all, sw->name.name) && !find_pack(r, sw->name.name, NULL) &&
            !is_trigger(r, sw->name.name))
            report_no_switch(r, all, sw);
        for (uint32_t k = 0; k < i; k++) {
            if (p->switches[k].on != sw->on && bytes_eq(p->switches[k].name.name, sw->name.name)) {
                wrong(r, "E125", sw->name.place, NULL, "`%.*s` is %sabled in line %u already",
                      BYTES_FMT(sw->name.name), p->switches[k].on ? "en" : "dis",
                      p->switches[k].name.place.line);
                break;
            }
        }
    }
}

/* ---- all ------------------------------------------------------------------------------------- */

static int gather(struct resolver *r, uint32_t only, struct list *all)
{
    for (uint32_t i = 0; i < r->n_packs; i++) {
        const struct ast_pack *p = &r->packs[i];
        for (uint32_t k = 0; r->scopes[i].usable && (only == UINT32_MAX || only == i) && k < p->n_metrics;
             k++) {
            if (!p->metrics[k].also && !p->metrics[k].override && start_metric(r, all, &p->metrics[k]) < 0)
                return -ENOMEM;
        }
    }
    for (uint32_t i = 0; i < r->n_packs; i++) {
        const struct ast_pack *p = &r->packs[i];
        for (uint32_t k = 0; r->scopes[i].usable && (only == UINT32_MAX || only == i) && k < p->n_metrics;
             k++) {
            if (p->metrics[k].also)
                add_also(r, all, &p->metrics[k]);
        }
    }
    return 0;
}

int resolve_metrics(struct resolver *r, uint32_t only, struct list *ret)
{
    struct list all = {0};
    if (gather(r, only, &all) < 0)
        return -ENOMEM;
    for (uint32_t user = 0; only == UINT32_MAX && user < 2; user++) {
        for (uint32_t i = 0; i < r->n_packs; i++) {
            if (!r->scopes[i].usable || r->files[i].builtin != !user)
                continue;
            check_switches(r, &all, &r->packs[i]);
            apply_switches(r, &all, &r->packs[i]);
        }
    }
    for (uint32_t i = 0; i < all.n; i++) {
        struct building *b = (struct building *)all.items + i;
        if (!b->good)
            continue;
        struct rule_metric *m = list_add(ret, r->keep, sizeof *m);
        if (!m)
            return -ENOMEM;
        *m = b->metric;
        m->sources = b->sources.items;
        m->n_sources = b->sources.n;
    }
    return r->oom ? -ENOMEM : 0;
}
