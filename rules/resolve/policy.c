/* SPDX-License-Identifier: Apache-2.0 */
/* What is kept and triggers (LANGUAGE §5, §6): their names, and which of them are switched on. */
#include "rules/resolve/resolve.h"

#include <errno.h>

#include "proto/base/nearest.h"

/* ---- switches -------------------------------------------------------------------------------- */

/* What the files' `enable` and `disable` make of a thing of this pack and (trigger) name, in the files'
 * order: shipped packs first, later files win, in one file a thing's own switch wins over its pack's. */
static bool switched_on(const struct resolver *r, uint32_t pack, struct bytes name)
{
    bool on = true;
    for (uint32_t user = 0; user < 2; user++) {
        for (uint32_t i = 0; i < r->n_packs; i++) {
            if (!r->scopes[i].usable || r->files[i].builtin != !user)
                continue;
            for (int own = 0; own < 2; own++) {
                for (uint32_t k = 0; k < r->packs[i].n_switches; k++) {
                    const struct ast_switch *sw = &r->packs[i].switches[k];
                    if (bytes_eq(sw->name.name, own ? name : r->packs[pack].name.name))
                        on = sw->on;
                }
            }
        }
    }
    return on;
}

bool is_trigger(const struct resolver *r, struct bytes name)
{
    for (uint32_t i = 0; i < r->n_packs; i++) {
        for (uint32_t k = 0; r->scopes[i].usable && k < r->packs[i].n_triggers; k++) {
            if (bytes_eq(r->packs[i].triggers[k].name.name, name))
                return true;
        }
    }
    return false;
}

/* ---- keep, drop ------------------------------------------------------------------------------ */

static bool resolve_keep(struct resolver *r, const struct ast_keep *a, struct rule_keep *k)
{
    bool good = true;
    *k = a->rule;
    k->pack = r->packs[a->pack].name.name;
    k->place = a->place;
    k->enabled = switched_on(r, a->pack, BYTES_LIT(""));
    r->here = (struct resolve_place){.pack = a->pack};
    if (a->by)
        good &= (k->by = resolve_text(r, a->by)) != NULL;
    if (a->on)
        good &= (k->on = resolve_pattern(r, a->on)) != NULL;
    if (a->where)
        good &= (k->where = resolve_sample(r, a->where)) != NULL;
    return good;
}

int resolve_keeps(struct resolver *r, uint32_t only, struct list *ret)
{
    for (uint32_t i = 0; i < r->n_packs; i++) {
        if (!r->scopes[i].usable || (only != UINT32_MAX && only != i))
            continue;
        for (uint32_t k = 0; k < r->packs[i].n_keeps; k++) {
            struct rule_keep keep;
            if (!resolve_keep(r, &r->packs[i].keeps[k], &keep))
                continue;
            if (!list_append(ret, r->keep, &keep))
                return -ENOMEM;
        }
    }
    return r->oom ? -ENOMEM : 0;
}

/* ---- triggers -------------------------------------------------------------------------------- */

static bool declared(const struct resolver *r, struct bytes name)
{
    for (uint32_t i = 0; i < r->n_packs; i++) {
        for (uint32_t k = 0; k < r->packs[i].n_metrics; k++) {
            if (bytes_eq(r->packs[i].metrics[k].name.name, name))
                return true;
        }
    }
    return false;
}

static const struct rule_metric *find_metric(struct resolver *r, const struct list *metrics,
                                             const struct ast_name *name)
{
    struct nearest near;
    nearest_start(&near, name->name);
    for (uint32_t i = 0; i < metrics->n; i++) {
        const struct rule_metric *m = (struct rule_metric *)metrics->items + i;
        if (bytes_eq(m->name, name->name))
            return m;
        nearest_offer(&near, m->name);
    }
    if (declared(r, name->name))
        return NULL; /* it has an error of its own */
    report_at(r->report, "E103", name->place, "no rule makes a metric named `%.*s`", BYTES_FMT(name->name));
    report_meant(r->report, near.best);
    report_done(r->report);
    return NULL;
}

static bool has_label(struct resolver *r, const struct rule_metric *m, const struct ast_name *name)
{
    struct nearest near;
    nearest_start(&near, name->name);
    for (uint32_t i = 0; i < m->n_sources; i++) {
        for (uint32_t k = 0; k < m->sources[i].n_labels; k++) {
            if (bytes_eq(m->sources[i].labels[k].name, name->name))
                return true;
            nearest_offer(&near, m->sources[i].labels[k].name);
        }
    }
    report_at(r->report, "E103", name->place, "%.*s has no label %.*s", BYTES_FMT(m->name),
              BYTES_FMT(name->name));
    report_meant(r->report, near.best);
    report_done(r->report);
    return false;
}

static bool resolve_selector(struct resolver *r, const struct list *metrics, const struct ast_selector *a,
                             struct rule_selector *s)
{
    s->metric = find_metric(r, metrics, &a->metric);
    struct rule_selector_label *labels = arena_calloc(r->keep, a->n_labels, sizeof *labels);
    if (!labels) {
        r->oom = true;
        return false;
    }
    bool good = s->metric != NULL;
    for (uint32_t i = 0; s->metric && i < a->n_labels; i++) {
        const struct ast_selector_label *label = &a->labels[i];
        labels[i] = (struct rule_selector_label){.name = label->name.name, .negated = label->negated};
        good &= has_label(r, s->metric, &label->name);
        if (label->pattern) {
            labels[i].op = RULE_LABEL_MATCHES;
            good &= (labels[i].pattern = resolve_pattern(r, label->pattern)) != NULL;
        } else {
            labels[i].op = RULE_LABEL_IS;
            labels[i].value = label->is_none ? (struct bytes){0} : label->value;
        }
    }
    s->labels = labels;
    s->n_labels = a->n_labels;
    return good;
}

/* The key of `resource["…"]`, and nothing else: a group is what one sender's resource says. */
static bool resource_key(struct resolver *r, const struct ast *a, struct bytes *ret)
{
    const struct rule_text *text = resolve_text(r, a);
    if (!text)
        return false;
    const struct rule_text_part *part = text->choices[0].parts;
    if (text->n_choices == 1 && !text->choices[0].when && text->choices[0].n_parts == 1 &&
        part->kind == RULE_TEXT_ATTR && part->scope == RULE_SCOPE_RESOURCE) {
        *ret = part->literal;
        return true;
    }
    return wrong(r, "E135", a->place, "for example: per resource[\"service.name\"]",
                 "`per` takes attributes of the resource only: they name the senders that are asked");
}

static bool resolve_groups(struct resolver *r, const struct ast_trigger *a, struct rule_trigger *t)
{
    struct bytes *per = arena_calloc(r->keep, a->n_per, sizeof *per);
    if (!per) {
        r->oom = true;
        return false;
    }
    bool good = true;
    for (uint32_t i = 0; i < a->n_per; i++)
        good &= resource_key(r, a->per[i], &per[i]);
    t->per = per;
    t->n_per = a->n_per;
    return good;
}

/* A rate of samples rises with the frequency: raising the frequency because it rose never ends. */
static bool check_excitation(struct resolver *r, const struct ast_trigger *a, const struct rule_trigger *t)
{
    if (t->share || a->action_at.line == 0)
        return true;
    for (uint32_t i = 0; i < t->part.metric->n_sources; i++) {
        enum rule_value value = t->part.metric->sources[i].value;
        if (value == RULE_VALUE_TIME || value == RULE_VALUE_SUM)
            continue;
        return wrong(
            r, "E136", a->action_at, "ask for a share, or for the rate of a metric of `value time`",
            "%.*s counts samples: sampling more often raises its rate, which keeps the trigger firing",
            BYTES_FMT(t->part.metric->name));
    }
    return true;
}

static bool resolve_trigger(struct resolver *r, const struct list *metrics, const struct ast_trigger *a,
                            struct rule_trigger *t)
{
    *t = a->rule;
    t->name = a->name.name;
    t->pack = r->packs[a->pack].name.name;
    t->place = a->place;
    t->enabled = switched_on(r, a->pack, t->name);
    r->here = (struct resolve_place){.pack = a->pack};
    bool good = resolve_selector(r, metrics, &a->part, &t->part);
    if (t->share)
        good &= resolve_selector(r, metrics, &a->whole, &t->whole);
    good &= resolve_groups(r, a, t);
    t->until_said = a->at[TRIGGER_UNTIL].line > 0;
    if (good && t->share && t->part.metric->gauge != t->whole.metric->gauge)
        return wrong(r, "E134", a->whole.metric.place, NULL, "a share is of two counters");
    if (good && t->part.metric->gauge)
        return wrong(r, "E134", a->part.metric.place, NULL,
                     "%.*s is a gauge: only a counter has an increase over a window",
                     BYTES_FMT(t->part.metric->name));
    return good && check_excitation(r, a, t);
}

static bool is_first(struct resolver *r, const struct ast_trigger *a, const struct list *metrics)
{
    for (uint32_t i = 0; i < metrics->n; i++) {
        const struct rule_metric *m = (struct rule_metric *)metrics->items + i;
        if (bytes_eq(m->name, a->name.name))
            return wrong(r, "E115", a->name.place, "`enable` and `disable` would not know which is meant",
                         "`%.*s` is a metric already (pack %.*s)", BYTES_FMT(m->name), BYTES_FMT(m->pack));
    }
    for (uint32_t i = 0; i <= a->pack; i++) {
        for (uint32_t k = 0; r->scopes[i].usable && k < r->packs[i].n_triggers; k++) {
            const struct ast_trigger *other = &r->packs[i].triggers[k];
            if (other == a)
                return true;
            if (!bytes_eq(other->name.name, a->name.name))
                continue;
            return wrong(r, "E115", a->name.place, NULL,
                         "there is a trigger %.*s already (pack %.*s, line %u)", BYTES_FMT(a->name.name),
                         BYTES_FMT(r->packs[i].name.name), other->place.line);
        }
    }
    return true;
}

int resolve_triggers(struct resolver *r, const struct list *metrics, struct list *ret)
{
    for (uint32_t i = 0; i < r->n_packs; i++) {
        for (uint32_t k = 0; r->scopes[i].usable && k < r->packs[i].n_triggers; k++) {
            const struct ast_trigger *a = &r->packs[i].triggers[k];
            struct rule_trigger trigger;
            if (!is_first(r, a, metrics) || a->broken || !resolve_trigger(r, metrics, a, &trigger))
                continue;
            if (!list_append(ret, r->keep, &trigger))
                return -ENOMEM;
        }
    }
    return r->oom ? -ENOMEM : 0;
}
