/* Tests: their expectations resolved, and for a test with `set`s of its own a rule set of its own. */
#include "rules/resolve.h"

#include <errno.h>
#include <stdio.h>

#include "proto/base/macros.h"

/* Tests with a `set` compile their pack again; one pack has this many. */
#define TEST_SETS_MAX 64u

/* A rule set of one pack's metrics, in the set's arena (its own is empty). */
static const struct rule_set *pack_set(struct resolver *r, const struct list *metrics, uint32_t pack)
{
    struct list own = {0};
    struct bytes name = r->packs[pack].name.name;
    for (uint32_t i = 0; i < metrics->n; i++) {
        const struct rule_metric *m = (struct rule_metric *)metrics->items + i;
        if (!bytes_eq(m->pack, name))
            continue;
        struct rule_metric *slot = list_add(&own, r->keep, sizeof *slot);
        if (!slot)
            return out_of_memory(r);
        *slot = *m;
        slot->enabled = !m->off; /* enable and disable are about the gateway, not about tests */
    }
    struct rule_set *set = arena_calloc(r->keep, 1, sizeof *set);
    if (!set)
        return out_of_memory(r);
    set->files = r->files;
    set->n_files = r->n_packs;
    set->metrics = own.items;
    set->n_metrics = own.n;
    return set;
}

/* ---- expectations
 * ---------------------------------------------------------------------------------------------- */

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
    if (near.best.n > 0)
        report_side(r->report, "did you mean `%.*s`?", BYTES_FMT(near.best));
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
        if (!has_label(m, label->name.name)) {
            wrong(r, "E103", label->name.place, NULL, "%.*s has no label %.*s", BYTES_FMT(m->name),
                  BYTES_FMT(label->name.name));
            return false;
        }
        for (uint32_t k = 0; k < i; k++) {
            if (bytes_eq(labels[k].name, label->name.name)) {
                wrong(r, "E120", label->place, NULL, "the label %.*s is given twice",
                      BYTES_FMT(label->name.name));
                return false;
            }
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

/* ---- tests
 * ----------------------------------------------------------------------------------------------------- */

/* A pass of its own over the test's pack: the parameters as everywhere, with the test's on top. */
static bool resolve_with_sets(struct resolver *r, const struct ast_test *a, struct rule_test *t)
{
    struct resolver pass = *r;
    struct list metrics = {0};
    pass.values = arena_calloc(r->scratch, r->n_defs, sizeof *pass.values);
    pass.states = arena_calloc(r->scratch, r->n_defs, sizeof *pass.states);
    if (!pass.values || !pass.states)
        return out_of_memory(r) != NULL;
    memcpy(pass.values, r->values, r->n_defs * sizeof *pass.values);
    uint32_t before = r->report->out->n_errors;
    for (uint32_t i = 0; i < a->n_sets; i++)
        apply_set(&pass, &a->sets[i], a->pack, true);
    bool good = r->report->out->n_errors == before && resolve_metrics(&pass, a->pack, &metrics) == 0;
    good = good && r->report->out->n_errors == before;
    good = good && (t->set = pack_set(&pass, &metrics, a->pack)) && resolve_expects(&pass, a, t);
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

static int resolve_pack_tests(struct resolver *r, uint32_t pack, const struct list *metrics, struct list *ret)
{
    const struct ast_pack *p = &r->packs[pack];
    const struct rule_set *set = p->n_tests > 0 ? pack_set(r, metrics, pack) : NULL;
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
        struct rule_test *slot = list_add(ret, r->keep, sizeof *slot);
        if (!slot)
            return -ENOMEM;
        *slot = test;
    }
    return r->oom ? -ENOMEM : 0;
}

int resolve_tests(struct resolver *r, const struct list *metrics, struct list *ret)
{
    for (uint32_t i = 0; i < r->n_packs; i++) {
        if (r->scopes[i].usable && resolve_pack_tests(r, i, metrics, ret) < 0)
            return -ENOMEM;
    }
    return 0;
}
