/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lowering, in one pass over the rules: what a source's `where`, `each` and labels mention gets a number the
 * first time it is met (frame predicates and frame tables in lower_frame.c; regions, facts, chains, tables
 * over stacks and texts in lower_sample.c) and is found again by the address of its tree node. So what two
 * metrics share, a definition or a table, is asked once. Patterns are only collected on the way; after the
 * last rule each domain's become one pattern set, and all sets share one allowance of bytes.
 *
 * Numbers that others rely on: region 0 is the whole stack, node 0 "every frame", fact 0 "the stack has
 * frames", and the first LOWER_DOMAIN_COLUMN domains are there whether anything asks them or not.
 *
 * Recursion follows the tree, as deep as lower_enter() allows. The first failure ends all work (parts.h).
 */
#include "rules/program/lower.h"

#include <errno.h>
#include <stdlib.h>

#include "rules/program/parts.h"

uint32_t lower_fail(struct lower *l, int r, const char *why)
{
    if (l->r == 0)
        l->r = error_set(l->error, r, "%s", why);
    return LOWER_NONE;
}

uint32_t lower_no_memory(struct lower *l)
{
    return lower_fail(l, -ENOMEM, "out of memory");
}

/* ---- the map of tree nodes ------------------------------------------------------------------- */

void lower_map_set(struct lower *l, const void *node, uint32_t value)
{
    uint32_t *number = idmap_place(&l->p->map, (uintptr_t)node, value);
    if (number)
        *number = value;
    else
        lower_no_memory(l);
}

/* True the first time it is asked about a node. */
bool lower_visit(struct lower *l, const void *node)
{
    if (lower_find(l->p, node) != LOWER_NONE)
        return false;
    lower_map_set(l, node, 0);
    return true;
}

bool lower_enter(struct lower *l)
{
    if (++l->depth <= LOWER_DEPTH_MAX && l->r == 0)
        return true;
    lower_fail(l, -E2BIG, "definitions use each other too deeply");
    l->depth--;
    return false;
}
/* ---- rules ----------------------------------------------------------------------------------- */

enum { USES_TYPE = 1, USES_MORE = 2 };

static uint32_t text_uses(const struct rule_text *text, uint32_t depth);

/* What of `frame` a predicate or text reads. */
static uint32_t sample_uses(const struct rule_sample *s, uint32_t depth)
{
    if (!s)
        return 0;
    if (depth == 0)
        return USES_MORE;
    uint32_t uses = s->op == RULE_SAMPLE_REF_IS && s->ref.kind == RULE_REF_FRAME ? USES_MORE : 0;
    for (uint32_t i = 0; i < s->n_kids; i++)
        uses |= sample_uses(s->kids[i], depth - 1);
    if (s->text)
        uses |= text_uses(s->text, depth - 1);
    if (s->text2)
        uses |= text_uses(s->text2, depth - 1);
    return uses;
}

static uint32_t part_uses(const struct rule_text_part *part, uint32_t depth)
{
    if (depth == 0)
        return USES_MORE;
    switch (part->kind) {
    case RULE_TEXT_GROUP: return text_uses(part->text, depth - 1);
    case RULE_TEXT_CAPTURE: return part_uses(part->from, depth - 1);
    case RULE_TEXT_FIELD_OF:
        if (part->ref.kind != RULE_REF_FRAME)
            return 0;
        return part->field.field == RULE_FIELD_TYPE ? USES_TYPE : USES_MORE;
    default: return 0;
    }
}

static uint32_t text_uses(const struct rule_text *text, uint32_t depth)
{
    uint32_t uses = 0;
    for (uint32_t i = 0; i < text->n_choices && depth > 0; i++) {
        uses |= sample_uses(text->choices[i].when, depth - 1);
        for (uint32_t j = 0; j < text->choices[i].n_parts; j++)
            uses |= part_uses(&text->choices[i].parts[j], depth - 1);
    }
    return depth > 0 ? uses : USES_MORE;
}

static uint32_t lower_each(struct lower *l, const struct rule_source *source)
{
    struct rules_program *p = l->p;
    uint32_t uses = 0;
    for (uint32_t i = 0; i < source->n_labels; i++)
        uses |= text_uses(source->labels[i].text, LOWER_DEPTH_MAX);
    struct lower_each made = {.by_type = source->distinct && !(uses & USES_MORE)};
    made.region = lower_region(l, source->each_region);
    made.node = lower_guard(l, made.region, lower_frame_or_any(l, source->each_frame));
    for (uint32_t i = 0; i < p->eaches.n; i++)
        if (p->eaches.p[i].region == made.region && p->eaches.p[i].node == made.node &&
            p->eaches.p[i].by_type == made.by_type)
            return i;
    made.bit = made.by_type ? lower_take_bits(l, LOWER_TYPES + 1) : 0;
    p->any_by_type = p->any_by_type || made.by_type;
    if (made.by_type)
        p->key_fields |= 1u << RULE_FIELD_TYPE;
    return ADD(l, eaches, made);
}

static uint32_t add_name(struct lower *l, struct bytes name)
{
    for (uint32_t i = 0; i < l->p->names.n; i++)
        if (bytes_eq(l->p->names.p[i], name))
            return i;
    return ADD(l, names, name);
}

static void lower_labels(struct lower *l, struct lower_source *to, const struct rule_source *source)
{
    struct rules_program *p = l->p;
    to->labels = p->labels.n;
    for (uint32_t i = 0; i < source->n_labels && l->r == 0; i++) {
        lower_text(l, source->labels[i].text);
        ADD(l, labels, (struct lower_label){add_name(l, source->labels[i].name), source->labels[i].text});
        if (l->r != 0)
            return;
        for (uint32_t j = p->labels.n - 1; j > to->labels && p->labels.p[j - 1].name > p->labels.p[j].name;
             j--) {
            struct lower_label swap = p->labels.p[j];
            p->labels.p[j] = p->labels.p[j - 1];
            p->labels.p[j - 1] = swap;
        }
    }
    to->n_labels = p->labels.n - to->labels;
}

/* A pattern of TYPE/UNIT: its bit among the texts'. */
static void lower_on(struct lower *l, const struct rule_pattern *on)
{
    struct pattern_build *build = lower_domain_build(l, LOWER_DOMAIN_TEXT);
    uint32_t bit = build ? pattern_build_pattern(build, on) : LOWER_NONE;
    if (bit == LOWER_NONE)
        lower_no_memory(l);
    else
        lower_map_set(l, on, bit);
}

static void lower_source(struct lower *l, const struct rule_source *source, uint32_t metric)
{
    struct lower_source made = {
        .source = source, .where = source->where, .metric = metric, .each = LOWER_NONE};
    if (source->where) {
        if (sample_uses(source->where, LOWER_DEPTH_MAX) != 0)
            lower_fail(
                l, -ENOTSUP,
                "`where` guards the sample and cannot ask about `frame`: move the condition to `each`");
        lower_sample(l, source->where);
    }
    if (source->each)
        made.each = lower_each(l, source);
    if (source->on)
        lower_on(l, source->on);
    lower_labels(l, &made, source);
    ADD(l, sources, made);
}

static void lower_keep(struct lower *l, const struct rule_keep *keep)
{
    if (keep->where)
        lower_sample(l, keep->where);
    if (keep->by)
        lower_text(l, keep->by);
    if (keep->on)
        lower_on(l, keep->on);
    ADD(l, keeps, (struct lower_keep){keep});
}

static void begin(struct lower *l)
{
    for (uint32_t i = 0; i < LOWER_DOMAIN_COLUMN; i++)
        ADD(l, domains, (struct lower_domain){.ftable = LOWER_NONE});
    ADD(l, regions, (struct lower_region){NULL, LOWER_NONE, LOWER_NONE, LOWER_NONE, false});
    lower_root(l, lower_frame_or_any(l, NULL)); /* node 0: every frame */
    if (l->r == 0)
        lower_fact(l, 0, 0); /* fact 0: the stack has frames */
}

/* Fields that make a column which a predicate asks. */
static void mark_cell(struct rules_program *p, const struct rule_text *text, uint32_t depth);

static void mark_part(struct rules_program *p, const struct rule_text_part *part, uint32_t depth)
{
    if (depth == 0)
        return;
    if (part->kind == RULE_TEXT_FIELD && part->field.field != RULE_FIELD_COLUMN)
        p->key_fields |= 1u << part->field.field;
    else if (part->kind == RULE_TEXT_GROUP)
        mark_cell(p, part->text, depth - 1);
    else if (part->kind == RULE_TEXT_CAPTURE)
        mark_part(p, part->from, depth - 1);
}

static void mark_cell(struct rules_program *p, const struct rule_text *text, uint32_t depth)
{
    for (uint32_t i = 0; i < text->n_choices && depth > 0; i++)
        for (uint32_t j = 0; j < text->choices[i].n_parts; j++)
            mark_part(p, &text->choices[i].parts[j], depth - 1);
}

static void mark_columns(struct rules_program *p)
{
    if (p->domains.n == LOWER_DOMAIN_COLUMN)
        return; /* no predicate asks a column */
    for (uint32_t t = 0; t < p->ftables.n; t++) {
        const struct rule_table *table = p->ftables.p[t].source;
        for (uint32_t r = 0; r < table->n_rows; r++)
            for (uint32_t c = 0; c < table->n_columns; c++)
                if (table->rows[r].cells[c])
                    mark_cell(p, table->rows[r].cells[c], LOWER_DEPTH_MAX);
    }
}

static void make_sets(struct lower *l)
{
    size_t left = LOWER_AUTOMATA_MAX;
    for (uint32_t i = 0; i < l->p->domains.n && l->r == 0; i++) {
        struct lower_domain *d = &l->p->domains.p[i];
        if (!d->build)
            continue;
        int r = pattern_set_new(&d->set, d->build, &left, l->error);
        if (r < 0) {
            l->r = r;
            return;
        }
        d->words = pattern_set_words(d->set);
        if (pattern_set_atoms(d->set) > l->p->atoms_max)
            l->p->atoms_max = pattern_set_atoms(d->set);
    }
    for (uint32_t i = 0; i < l->p->domains.n; i++)
        l->p->domains.p[i].build = pattern_build_free(l->p->domains.p[i].build);
}

struct rules_program *lower_program(const struct rule_set *set, const struct lower_options *options,
                                    struct error *e)
{
    struct lower l = {.p = calloc(1, sizeof *l.p), .error = e};
    if (!l.p) {
        error_set(e, -ENOMEM, "out of memory");
        return NULL;
    }
    begin(&l);
    for (uint32_t i = 0; i < set->n_metrics && l.r == 0; i++) {
        const struct rule_metric *metric = &set->metrics[i];
        if (options->choose ? !options->choose(metric, options->context) : !metric->enabled)
            continue;
        uint32_t number = ADD(&l, metrics, metric);
        for (uint32_t j = 0; j < metric->n_sources && l.r == 0; j++)
            lower_source(&l, &metric->sources[j], number);
    }
    for (uint32_t i = 0; i < set->n_keeps && l.r == 0; i++) {
        if (set->keeps[i].enabled)
            lower_keep(&l, &set->keeps[i]);
    }
    for (uint32_t i = 0; i < options->n_probes && l.r == 0; i++) {
        lower_sample(&l, options->probes[i]);
        ADD(&l, sources,
            (struct lower_source){.where = options->probes[i], .metric = LOWER_NONE, .each = LOWER_NONE});
    }
    if (l.r == 0) {
        mark_columns(l.p);
        make_sets(&l);
    }
    if (l.r == 0 && lower_needs(l.p) < 0)
        lower_no_memory(&l);
    if (l.r != 0)
        return lowered_free(l.p);
    return l.p;
}
