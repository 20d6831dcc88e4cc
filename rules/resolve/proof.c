/* SPDX-License-Identifier: Apache-2.0 */
/* Tests: their expectations resolved, and for a test with `set`s of its own a rule set of its own. */
#include "rules/resolve/resolve.h"

#include <errno.h>

#include "proto/base/nearest.h"

/* Tests with a `set` compile their pack again; one pack has this many. */
#define TEST_SETS_MAX 64u

/* Whether a test of the pack expects this metric: so what a pack overrides or extends elsewhere has tests
 * too. */
static bool is_expected(const struct ast_pack *p, struct bytes metric)
{
    for (uint32_t i = 0; i < p->n_tests; i++) {
        for (uint32_t k = 0; k < p->tests[i].n_expects; k++) {
            if (bytes_eq(p->tests[i].expects[k].metric.name, metric))
                return true;
        }
    }
    return false;
}

static bool pack_keeps(struct resolver *r, const struct list *keeps, uint32_t pack, struct rule_set *set)
{
    struct list own = {0};
    for (uint32_t i = 0; i < keeps->n; i++) {
        const struct rule_keep *k = (struct rule_keep *)keeps->items + i;
        if (k->place.file != pack)
            continue;
        struct rule_keep keep = *k;
        keep.enabled = true;
        if (!list_append(&own, r->keep, &keep))
            return out_of_memory(r) != NULL;
    }
    set->keeps = own.items;
    set->n_keeps = own.n;
    return true;
}

/* A rule set of one pack's rules and the others' metrics that its tests expect, in the set's arena (its own
 * is empty). */
static const struct rule_set *pack_set(struct resolver *r, const struct list *metrics,
                                       const struct list *keeps, uint32_t pack)
{
    struct list own = {0};
    struct bytes name = r->packs[pack].name.name;
    for (uint32_t i = 0; i < metrics->n; i++) {
        const struct rule_metric *m = (struct rule_metric *)metrics->items + i;
        if (!bytes_eq(m->pack, name) && !is_expected(&r->packs[pack], m->name))
            continue;
        struct rule_metric metric = *m;
        metric.enabled = !m->off; /* enable and disable are about the gateway, not about tests */
        if (!list_append(&own, r->keep, &metric))
            return out_of_memory(r);
    }
    struct rule_set *set = arena_calloc(r->keep, 1, sizeof *set);
    if (!set)
        return out_of_memory(r);
    set->files = r->files;
    set->n_files = r->n_packs;
    set->metrics = own.items;
    set->n_metrics = own.n;
    return pack_keeps(r, keeps, pack, set) ? set : NULL;
}

/* ---- expectations ---------------------------------------------------------------------------- */

static const struct rule_metric *expected_metric(struct resolver *r, const struct ast_expect *e,
                                                 uint32_t pack, const struct rule_set *set)
{
    struct nearest near;
    nearest_start(&near, e->metric.name);
    for (uint32_t i = 0; i < set->n_metrics; i++) {
        if (bytes_eq(set->metrics[i].name, e->metric.name))
            return &set->metrics[i];
        nearest_offer(&near, set->metrics[i].name);
    }
    for (uint32_t i = 0; i < r->packs[pack].n_metrics; i++) {
        if (bytes_eq(r->packs[pack].metrics[i].name.name, e->metric.name))
            return NULL; /* it has an error of its own */
    }
    report_at(r->report, "E103", e->metric.place, "pack %.*s has no metric %.*s",
              BYTES_FMT(r->packs[pack].name.name), BYTES_FMT(e->metric.name));
    report_meant(r->report, near.best);
    report_done(r->report);
    return NULL;
}

static bool has_label(const struct rule_metric *m, struct bytes name)
{
    for (uint32_t i = 0; i < m->n_sources; i++) {
        for (uint32_t k = 0; k < m->sources[i].n_labels; k++) {
            if (bytes_eq(m->sources[i].labels[k].name, name))
                return true;
        }
    }
    return false;
}

static bool expected_labels(struct resolver *r, const struct ast_expect *a, const struct rule_metric *m,
                            struct rule_test_expect *e)
{
    struct rule_label *labels = arena_calloc(r->keep, a->n_labels, sizeof *labels);
    struct bytes *values = arena_calloc(r->keep, a->n_labels, sizeof *values);
    if (!labels || !values) {
        r->oom = true;
        return false;
    }
    for (uint32_t i = 0; i < a->n_labels; i++) {
        const struct ast_label *label = &a->labels[i];
        if (!has_label(m, label->name.name))
            return wrong(r, "E103", label->name.place, NULL, "%.*s has no label %.*s", BYTES_FMT(m->name),
                         BYTES_FMT(label->name.name));
        for (uint32_t k = 0; k < i; k++) {
            if (bytes_eq(labels[k].name, label->name.name))
                return wrong(r, "E120", label->place, NULL, "the label %.*s is given twice",
                             BYTES_FMT(label->name.name));
        }
        labels[i] = (struct rule_label){.name = label->name.name, .place = label->place};
        values[i] = label->text->name;
    }
    e->labels = labels;
    e->label_values = values;
    e->n_labels = a->n_labels;
    return true;
}

static bool resolve_expects(struct resolver *r, const struct ast_test *a, struct rule_test *t)
{
    struct rule_test_expect *expects = arena_calloc(r->keep, a->n_expects, sizeof *expects);
    if (!expects) {
        r->oom = true;
        return false;
    }
    bool good = true;
    for (uint32_t i = 0; i < a->n_expects; i++) {
        const struct ast_expect *e = &a->expects[i];
        expects[i] = (struct rule_test_expect){
            .kind = e->kind,
            .metric = e->metric.name,
            .has_amount = e->has_amount,
            .amount_is_time = e->amount_is_time,
            .amount = e->amount,
            .share = e->share,
            .per_second = e->per_second,
            .sample = e->sample,
            .place = e->place,
        };
        r->here = (struct resolve_place){.pack = a->pack};
        if (e->kind == RULE_EXPECT_THAT) {
            good &= (expects[i].that = resolve_sample(r, e->that)) != NULL;
        } else if (e->kind == RULE_EXPECT_SERIES) {
            const struct rule_metric *m = expected_metric(r, e, a->pack, t->set);
            good &= m && expected_labels(r, e, m, &expects[i]);
        }
    }
    t->expects = expects;
    t->n_expects = a->n_expects;
    return good;
}

/* ---- tests ----------------------------------------------------------------------------------- */

static bool expects_foreign(const struct resolver *r, const struct ast_test *a)
{
    const struct ast_pack *p = &r->packs[a->pack];
    for (uint32_t i = 0; i < a->n_expects; i++) {
        bool own = a->expects[i].kind != RULE_EXPECT_SERIES;
        for (uint32_t k = 0; k < p->n_metrics && !own; k++)
            own = !p->metrics[k].override && bytes_eq(p->metrics[k].name.name, a->expects[i].metric.name);
        if (!own)
            return true;
    }
    return false;
}

/* A pass of its own over the test's pack: the parameters as everywhere, with the test's on top. */
static bool resolve_with_sets(struct resolver *r, const struct ast_test *a, struct rule_test *t)
{
    struct resolver pass = *r;
    struct list metrics = {0}, keeps = {0};
    uint32_t only = expects_foreign(r, a) ? UINT32_MAX : a->pack;
    pass.values = arena_calloc(r->scratch, r->n_defs, sizeof *pass.values);
    pass.states = arena_calloc(r->scratch, r->n_defs, sizeof *pass.states);
    if (!pass.values || !pass.states)
        return out_of_memory(r) != NULL;
    memcpy(pass.values, r->values, r->n_defs * sizeof *pass.values);
    uint32_t before = r->report->out->n_errors;
    for (uint32_t i = 0; i < a->n_sets; i++)
        apply_set(&pass, &a->sets[i], a->pack, true);
    bool good = r->report->out->n_errors == before && resolve_metrics(&pass, only, &metrics) == 0 &&
                resolve_keeps(&pass, a->pack, &keeps) == 0;
    good = good && r->report->out->n_errors == before;
    good = good && (t->set = pack_set(&pass, &metrics, &keeps, a->pack)) && resolve_expects(&pass, a, t);
    r->flattened = pass.flattened;
    r->oom |= pass.oom;
    return good;
}

static bool resolve_test(struct resolver *r, const struct ast_test *a, const struct rule_set *set,
                         struct rule_test *t)
{
    *t = (struct rule_test){
        .name = a->name,
        .pack = r->packs[a->pack].name.name,
        .type = a->type,
        .unit = a->unit,
        .period_ns = a->period_ns,
        .samples = a->samples,
        .n_samples = a->n_samples,
        .attrs = a->attrs,
        .n_attrs = a->n_attrs,
        .set = set,
        .place = a->place,
    };
    return a->n_sets > 0 ? resolve_with_sets(r, a, t) : resolve_expects(r, a, t);
}

/* ---- what later files say of earlier ones' rules --------------------------------------------- */

/* Whether the tests of a pack see what another pack overrides and extends: its own, and that of files before
 * it. So nobody's tests fail because of what a later file makes of their rules. */
static bool sees(const struct resolver *r, uint32_t pack, uint32_t other)
{
    return other == pack || r->files[other].builtin || (!r->files[pack].builtin && other < pack);
}

static bool sees_all(const struct resolver *r, uint32_t pack)
{
    for (uint32_t i = 0; i < r->n_overrides; i++) {
        if (!sees(r, pack, r->overrides[i]->pack))
            return false;
    }
    for (uint32_t i = 0; i < r->n_defs; i++) {
        for (uint32_t k = 0; k < r->extensions[i].n; k++) {
            if (!sees(r, pack, r->extensions[i].items[k]->pack))
                return false;
        }
    }
    return true;
}

/* The rules as the pack sees them: a pass of its own, without the others' overrides and extensions. */
static bool resolve_as_seen(struct resolver *r, uint32_t pack, struct resolver *pass, struct list *metrics,
                            struct list *keeps)
{
    const struct ast_pack *p = &r->packs[pack];
    uint32_t only = pack;
    *pass = *r;
    pass->states = arena_calloc(r->scratch, r->n_defs, sizeof *pass->states);
    pass->extensions = arena_calloc(r->scratch, r->n_defs, sizeof *pass->extensions);
    pass->overrides = arena_calloc(r->scratch, r->n_overrides + 1, sizeof *pass->overrides);
    if (!pass->states || !pass->extensions || !pass->overrides)
        return out_of_memory(r) != NULL;
    pass->n_overrides = 0;
    for (uint32_t i = 0; i < r->n_overrides; i++) {
        if (sees(r, pack, r->overrides[i]->pack))
            pass->overrides[pass->n_overrides++] = r->overrides[i];
    }
    for (uint32_t i = 0; i < r->n_defs; i++) {
        const struct extensions *from = &r->extensions[i];
        struct extensions *to = &pass->extensions[i];
        to->items = from->n > 0 ? arena_calloc(r->scratch, from->n, sizeof *to->items) : NULL;
        if (from->n > 0 && !to->items)
            return out_of_memory(r) != NULL;
        for (uint32_t k = 0; k < from->n; k++) {
            if (!sees(r, pack, from->items[k]->pack))
                continue;
            to->items[to->n++] = from->items[k];
            to->n_rows += from->items[k]->n_rows;
        }
    }
    for (uint32_t i = 0; i < p->n_tests && only == pack; i++)
        only = expects_foreign(r, &p->tests[i]) ? UINT32_MAX : pack;
    return resolve_metrics(pass, only, metrics) == 0 && resolve_keeps(pass, pack, keeps) == 0;
}

/* The tests of one pack, by a resolver that sees what they see. */
static int add_tests(struct resolver *r, uint32_t pack, const struct list *metrics, const struct list *keeps,
                     struct list *ret)
{
    const struct ast_pack *p = &r->packs[pack];
    const struct rule_set *set = p->n_tests > 0 ? pack_set(r, metrics, keeps, pack) : NULL;
    uint32_t with_sets = 0;
    for (uint32_t i = 0; set && i < p->n_tests; i++) {
        const struct ast_test *a = &p->tests[i];
        with_sets += a->n_sets > 0;
        if (a->n_sets > 0 && with_sets > TEST_SETS_MAX) {
            wrong(r, "E127", a->place, NULL, "more than %u tests with `set` in one pack", TEST_SETS_MAX);
            return 0;
        }
        struct rule_test test;
        if (!resolve_test(r, a, set, &test))
            continue;
        if (!list_append(ret, r->keep, &test))
            return -ENOMEM;
    }
    return r->oom ? -ENOMEM : 0;
}

static int resolve_pack_tests(struct resolver *r, uint32_t pack, const struct list *metrics,
                              const struct list *keeps, struct list *ret)
{
    struct resolver pass;
    struct list own_metrics = {0}, own_keeps = {0};
    if (r->packs[pack].n_tests == 0 || sees_all(r, pack))
        return add_tests(r, pack, metrics, keeps, ret);
    if (r->report->out->n_errors > 0) /* of the main pass: another one would say them again */
        return 0;
    bool good = resolve_as_seen(r, pack, &pass, &own_metrics, &own_keeps);
    int error = good ? add_tests(&pass, pack, &own_metrics, &own_keeps, ret) : 0;
    r->flattened = pass.flattened;
    r->oom |= pass.oom;
    return r->oom ? -ENOMEM : error;
}

int resolve_tests(struct resolver *r, const struct list *metrics, const struct list *keeps, struct list *ret)
{
    for (uint32_t i = 0; i < r->n_packs; i++) {
        if (r->scopes[i].usable && resolve_pack_tests(r, i, metrics, keeps, ret) < 0)
            return -ENOMEM;
    }
    return 0;
}
