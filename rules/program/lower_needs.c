/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What of a walk each source, and what is kept, is made of: the regions, facts, chains, tables and eaches
 * that its evaluation may look at (rules/match/eval.c, whose cases these follow). A matcher may then walk for
 * some sources alone (rules/match/walk.c).
 */
#include <errno.h>

#include "rules/program/parts.h"

struct finder {
    const struct rules_program *p;
    uint32_t *bits;    /* of the source being looked at */
    struct idmap seen; /* tree nodes looked at for it: definitions are shared */
    bool no_memory;
};

static void need(struct finder *f, uint32_t component)
{
    f->bits[component / 32] |= 1u << (component % 32);
}

static bool is_new(struct finder *f, const void *node)
{
    uint32_t *known = idmap_place(&f->seen, (uintptr_t)node, 0);
    if (!known)
        f->no_memory = true;
    return known && (*known)++ == 0;
}

static void of_text(struct finder *f, const struct rule_text *text);

static void of_fact(struct finder *f, uint32_t fact)
{
    if (fact == LOWER_NONE)
        return;
    need(f, lower_component(f->p, LOWER_FACT, fact));
    need(f, lower_component(f->p, LOWER_REGION, f->p->facts.p[fact].region));
}

static void of_sample(struct finder *f, const struct rule_sample *s)
{
    const struct rules_program *p = f->p;
    if (!s || !is_new(f, s))
        return;
    uint32_t number = lower_find(p, s);
    for (uint32_t i = 0; i < s->n_kids; i++)
        of_sample(f, s->kids[i]);
    if (s->text)
        of_text(f, s->text);
    if (s->text2)
        of_text(f, s->text2);
    switch (s->op) {
    case RULE_SAMPLE_EVERY: of_fact(f, lower_find_fact(p, p->facts.p[number].region, 0)); /* fallthrough */
    case RULE_SAMPLE_ANY:
    case RULE_SAMPLE_NO: of_fact(f, number); break;
    case RULE_SAMPLE_REF_IS:
        if (s->ref.kind == RULE_REF_FRAME)
            break;
        need(f, lower_component(p, LOWER_IS, number));
        of_fact(f, p->iss.p[number].fact);
        break;
    case RULE_SAMPLE_CALLS: need(f, lower_component(p, LOWER_CHAIN, number)); break;
    default: break;
    }
}

static void of_table(struct finder *f, const struct rule_table *table)
{
    uint32_t i = table->over ? lower_find(f->p, table) : LOWER_NONE;
    if (i == LOWER_NONE || !is_new(f, table))
        return;
    need(f, lower_component(f->p, LOWER_TABLE, i));
    need(f, lower_component(f->p, LOWER_REGION, f->p->tables.p[i].region));
    for (uint32_t r = 0; r < table->n_rows; r++) {
        of_sample(f, table->rows[r].when);
        for (uint32_t c = 0; c < table->n_columns; c++)
            if (table->rows[r].cells[c])
                of_text(f, table->rows[r].cells[c]);
    }
}

static void of_part(struct finder *f, const struct rule_text_part *part)
{
    switch (part->kind) {
    case RULE_TEXT_GROUP: of_text(f, part->text); break;
    case RULE_TEXT_COLUMN: of_table(f, part->table); break;
    case RULE_TEXT_FIELD_OF:
        if (part->ref.kind != RULE_REF_FRAME)
            of_fact(f, lower_ref_fact(f->p, &part->ref));
        break;
    case RULE_TEXT_CAPTURE: of_part(f, part->from); break;
    default: break;
    }
}

static void of_text(struct finder *f, const struct rule_text *text)
{
    if (!is_new(f, text))
        return;
    for (uint32_t i = 0; i < text->n_choices; i++) {
        of_sample(f, text->choices[i].when);
        for (uint32_t j = 0; j < text->choices[i].n_parts; j++)
            of_part(f, &text->choices[i].parts[j]);
    }
}

static void of_source(struct finder *f, const struct lower_source *source)
{
    const struct rules_program *p = f->p;
    of_sample(f, source->where);
    if (source->each != LOWER_NONE) {
        need(f, lower_component(p, LOWER_EACH, source->each));
        need(f, lower_component(p, LOWER_REGION, p->eaches.p[source->each].region));
    }
    for (uint32_t i = 0; i < source->n_labels; i++)
        of_text(f, p->labels.p[source->labels + i].text);
}

static void of_keeps(struct finder *f)
{
    for (uint32_t i = 0; i < f->p->keeps.n; i++) {
        const struct rule_keep *keep = f->p->keeps.p[i].source;
        of_sample(f, keep->where);
        if (keep->by)
            of_text(f, keep->by);
    }
}

int lower_needs(struct rules_program *p)
{
    struct finder f = {.p = p};
    p->need_words = (lower_component(p, LOWER_COMPONENTS, 0) + 31) / 32;
    int r = vec_extend(&p->needs, (p->sources.n + 1) * p->need_words);
    for (uint32_t i = 0; i <= p->sources.n && r == 0 && !f.no_memory; i++) {
        f.bits = &p->needs.p[i * p->need_words];
        need(&f, lower_component(p, LOWER_FACT, 0));
        need(&f, lower_component(p, LOWER_REGION, 0));
        if (i < p->sources.n)
            of_source(&f, &p->sources.p[i]);
        else
            of_keeps(&f);
        idmap_release(&f.seen);
    }
    return f.no_memory ? -ENOMEM : r;
}
