/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `override`: clauses of another pack's metric replaced.
 *
 * They are gathered before any metric is made: shipped packs first, then the user's files in their order,
 * each checked against its metric and against the others of its rank, which may not say another thing. When a
 * metric is made, override_metric gives a copy of its written definition with the clauses replaced one after
 * the other, the later file last; each clause remembers whose names it is in (`from`). So everything behind
 * sees one definition, and what an override says is checked where it would have been had it stood there.
 *
 * Labels are left to metric.c: they reach every source of the metric, also those of `also`.
 */
#include "rules/resolve/resolve.h"

#include <errno.h>

#include "proto/base/nearest.h"

/* The definition of a metric of this name, whoever has it; *ret_also says whether it has further sources. */
static const struct ast_metric *find_definition(const struct resolver *r, struct bytes name, bool *ret_also)
{
    const struct ast_metric *found = NULL;
    *ret_also = false;
    for (uint32_t i = 0; i < r->n_packs; i++) {
        for (uint32_t k = 0; r->scopes[i].usable && k < r->packs[i].n_metrics; k++) {
            const struct ast_metric *m = &r->packs[i].metrics[k];
            if (!bytes_eq(m->name.name, name))
                continue;
            *ret_also |= m->also;
            if (!found && !m->also && !m->override)
                found = m;
        }
    }
    return found;
}

static void report_no_metric(struct resolver *r, const struct ast_metric *o)
{
    struct nearest near;
    nearest_start(&near, o->name.name);
    for (uint32_t i = 0; i < r->n_packs; i++) {
        for (uint32_t k = 0; r->scopes[i].usable && k < r->packs[i].n_metrics; k++) {
            if (!r->packs[i].metrics[k].override)
                nearest_offer(&near, r->packs[i].metrics[k].name.name);
        }
    }
    report_at(r->report, "E103", o->name.place, "there is no metric named `%.*s`", BYTES_FMT(o->name.name));
    report_meant(r->report, near.best);
    report_done(r->report);
}

/* Whether two overrides of one metric are of one rank: of one file, or both shipped. */
static bool same_rank(const struct resolver *r, const struct ast_metric *a, const struct ast_metric *b)
{
    return a->pack == b->pack || (r->files[a->pack].builtin && r->files[b->pack].builtin);
}

static bool contradicts(struct resolver *r, const struct ast_metric *o, const struct ast_metric *other)
{
    if (!same_rank(r, o, other) || !bytes_eq(o->name.name, other->name.name))
        return false;
    for (uint32_t c = 0; c < CLAUSES; c++) {
        if (c == CLAUSE_LABEL || o->at[c].line == 0 || other->at[c].line == 0)
            continue;
        wrong(r, "E132", o->at[c], NULL, "another override replaces this clause already (pack %.*s, line %u)",
              BYTES_FMT(r->packs[other->pack].name.name), other->at[c].line);
        return true;
    }
    for (uint32_t i = 0; i < o->n_labels; i++) {
        for (uint32_t k = 0; k < other->n_labels; k++) {
            if (!bytes_eq(o->labels[i].name.name, other->labels[k].name.name))
                continue;
            wrong(r, "E132", o->labels[i].place, NULL,
                  "another override replaces this label already (pack %.*s, line %u)",
                  BYTES_FMT(r->packs[other->pack].name.name), other->labels[k].place.line);
            return true;
        }
    }
    return false;
}

static bool check_override(struct resolver *r, const struct ast_metric *o, const struct list *so_far)
{
    bool also;
    const struct ast_metric *m = find_definition(r, o->name.name, &also);
    if (!m) {
        report_no_metric(r, o);
        return false;
    }
    if (m->pack == o->pack)
        return wrong(r, "E132", o->place, "change it where it is defined",
                     "`override` is for another pack's metric; %.*s is this pack's own (line %u)",
                     BYTES_FMT(o->name.name), m->place.line);
    if (m->gauge != o->gauge)
        return wrong(r, "E132", o->place, NULL, "%.*s is a %s (pack %.*s, line %u)", BYTES_FMT(o->name.name),
                     m->gauge ? "gauge" : "counter", BYTES_FMT(r->packs[m->pack].name.name), m->place.line);
    static const enum ast_clause of_one_source[] = {CLAUSE_WHERE, CLAUSE_EACH};
    for (uint32_t i = 0; also && i < 2; i++) {
        if (o->at[of_one_source[i]].line == 0)
            continue;
        return wrong(r, "E132", o->at[of_one_source[i]], "disable it and define a metric of your own",
                     "%.*s has several sources (`also`): which is meant cannot be said",
                     BYTES_FMT(o->name.name));
    }
    for (uint32_t i = 0; i < so_far->n; i++) {
        if (contradicts(r, o, ((const struct ast_metric **)so_far->items)[i]))
            return false;
    }
    return !o->broken;
}

int resolve_overrides(struct resolver *r)
{
    struct list all = {0};
    for (uint32_t user = 0; user < 2; user++) {
        for (uint32_t i = 0; i < r->n_packs; i++) {
            if (!r->scopes[i].usable || r->files[i].builtin != !user)
                continue;
            for (uint32_t k = 0; k < r->packs[i].n_metrics; k++) {
                const struct ast_metric *o = &r->packs[i].metrics[k];
                if (!o->override || !check_override(r, o, &all))
                    continue;
                if (!list_append(&all, r->scratch, &o))
                    return -ENOMEM;
            }
        }
    }
    r->overrides = all.items;
    r->n_overrides = all.n;
    return 0;
}

static void replace(struct ast_metric *m, const struct ast_metric *o, enum ast_clause c)
{
    switch (c) {
    case CLAUSE_DESCRIBE: m->describe = o->describe; break;
    case CLAUSE_UNIT: m->unit = o->unit; break;
    case CLAUSE_ON: m->on_kind = o->on_kind, m->kind = o->kind, m->on = o->on; break;
    case CLAUSE_WHERE: m->where = o->where; break;
    case CLAUSE_EACH: m->distinct = o->distinct, m->each = o->each, m->each_region = o->each_region; break;
    case CLAUSE_VALUE: m->value = o->value; break;
    case CLAUSE_LIMIT: m->limit = o->limit, m->largest = o->largest; break;
    case CLAUSE_COMBINE: m->combine = o->combine; break;
    default: break; /* `off` is its being said; labels are replaced one by one */
    }
    m->at[c] = o->at[c];
    m->from[c] = o->pack;
}

const struct ast_metric *override_metric(struct resolver *r, const struct ast_metric *a)
{
    struct ast_metric *m = NULL;
    for (uint32_t i = 0; i < r->n_overrides; i++) {
        const struct ast_metric *o = r->overrides[i];
        if (!bytes_eq(o->name.name, a->name.name))
            continue;
        if (!m) {
            m = arena_alloc(r->scratch, sizeof *m);
            if (!m)
                return out_of_memory(r);
            *m = *a;
        }
        for (uint32_t c = 0; c < CLAUSES; c++) {
            if (c != CLAUSE_LABEL && o->at[c].line > 0)
                replace(m, o, (enum ast_clause)c);
        }
    }
    return m ? m : a;
}
