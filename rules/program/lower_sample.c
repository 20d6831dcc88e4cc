/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is asked of whole samples: regions, facts, chains, tables over stacks; and the texts that go with
 * them.
 *
 * Each takes bits of the walk's state: a fact one ("some frame of the region was such"), `first P is Q` one
 * more, a chain one, a table one a row, or 16 where `nearest leaf` settles it during the walk. `every` is the
 * fact that some frame is *not* such, `no` the same fact as `any`. A frame that a text reads later is kept in
 * a register, which its fact or its table row sets.
 *
 * Of texts nothing is computed here: what they mention is lowered, and they are evaluated on the tree itself
 * when the walk is over (rules/match/eval.c).
 */
#include "rules/program/parts.h"

#include <errno.h>
#include <stdlib.h>

#include "proto/base/macros.h"

/* ---- regions and facts ----------------------------------------------------------------------- */

uint32_t lower_region(struct lower *l, const struct rule_region *region)
{
    if (!region)
        return 0;
    uint32_t i = lower_find(l->p, region);
    if (i != LOWER_NONE)
        return i;
    struct lower_region made = {.source = region, .through = region->through};
    made.after = region->after ? lower_root(l, lower_frame(l, region->after)) : LOWER_NONE;
    made.while_ = region->while_ ? lower_root(l, lower_frame(l, region->while_)) : LOWER_NONE;
    made.until = LOWER_NONE;
    i = ADD(l, regions, made);
    if (i == LOWER_NONE)
        return i;
    lower_map_set(l, region, i);
    if (region->until) {
        uint32_t until = lower_guard(l, i, lower_frame(l, region->until));
        l->p->regions.p[i].until = until;
    }
    return i;
}

uint32_t lower_fact(struct lower *l, uint32_t region, uint32_t node)
{
    if (region == LOWER_NONE || node == LOWER_NONE)
        return LOWER_NONE;
    uint32_t i = lower_find_fact(l->p, region, node);
    if (i != LOWER_NONE)
        return i;
    if (l->p->facts.n == LOWER_NODES_MAX)
        return lower_fail(l, -E2BIG, "more than 4096 sample predicates");
    uint32_t test = lower_guard(l, region, node);
    return ADD(l, facts,
               (struct lower_fact){region, node, test, lower_take_bits(l, 1), LOWER_NONE, LOWER_NONE});
}

static bool ref_is_last(const struct rule_ref *ref)
{
    return ref->kind == RULE_REF_LAST || ref->kind == RULE_REF_ROOT;
}

static uint32_t lower_ref(struct lower *l, const struct rule_ref *ref)
{
    bool end = ref->kind == RULE_REF_LEAF || ref->kind == RULE_REF_ROOT;
    return lower_fact(l, lower_region(l, end ? NULL : ref->region),
                      lower_frame_or_any(l, end ? NULL : ref->frame));
}

/* A text reads a field of this frame: a register remembers which it was. */
static void lower_ref_text(struct lower *l, const struct rule_ref *ref)
{
    if (ref->kind == RULE_REF_FRAME)
        return;
    uint32_t i = lower_ref(l, ref);
    if (i == LOWER_NONE)
        return;
    uint32_t *reg = ref_is_last(ref) ? &l->p->facts.p[i].last : &l->p->facts.p[i].first;
    if (*reg == LOWER_NONE)
        *reg = l->p->n_regs++;
}

static void lower_ref_is(struct lower *l, const struct rule_sample *s)
{
    if (s->ref.kind == RULE_REF_FRAME) {
        lower_frame(l, s->frame);
        return;
    }
    uint32_t fact = lower_ref(l, &s->ref), node = lower_frame_or_any(l, s->frame);
    if (fact == LOWER_NONE || node == LOWER_NONE)
        return;
    struct lower_is want = {fact, node, 0, LOWER_NONE, ref_is_last(&s->ref)};
    for (uint32_t i = 0; i < l->p->iss.n; i++) {
        const struct lower_is *have = &l->p->iss.p[i];
        if (have->fact == want.fact && have->node == want.node && have->last == want.last) {
            lower_map_set(l, s, i);
            return;
        }
    }
    want.bit = lower_take_bits(l, 1);
    want.test = lower_guard(l, l->p->facts.p[fact].region, node);
    lower_map_set(l, s, ADD(l, iss, want));
}

static void lower_calls(struct lower *l, const struct rule_sample *s)
{
    autofree uint32_t *nodes = calloc(s->n_chain + 1, sizeof *nodes);
    if (!nodes) {
        lower_no_memory(l);
        return;
    }
    for (uint32_t i = 0; i < s->n_chain; i++)
        nodes[i] = lower_root(l, lower_frame(l, s->chain[i]));
    struct lower_chain made = {.n = s->n_chain, .directly = s->directly, .bit = lower_take_bits(l, 1)};
    made.nodes = lower_add_kids(l, nodes, s->n_chain);
    lower_map_set(l, s, ADD(l, chains, made));
}
/* ---- tables over stacks ------- */

void lower_row_texts(struct lower *l, const struct rule_table *table)
{
    for (uint32_t i = 0; i < table->n_rows; i++) {
        if (table->rows[i].when)
            lower_sample(l, table->rows[i].when);
        for (uint32_t c = 0; c < table->n_columns; c++)
            if (table->rows[i].cells[c])
                lower_text(l, table->rows[i].cells[c]);
    }
}

static uint32_t lower_table(struct lower *l, const struct rule_table *table)
{
    uint32_t i = lower_find(l->p, table);
    if (i != LOWER_NONE || !lower_enter(l))
        return i;
    bool guarded = false;
    for (uint32_t r = 0; r < table->n_rows; r++)
        guarded = guarded || (table->rows[r].when && table->rows[r].frame);
    struct lower_table made = {.source = table, .in_state = table->nearest_leaf && !guarded};
    made.region = lower_region(l, table->region);
    made.nodes = lower_row_nodes(l, table, made.region);
    made.bit = lower_take_bits(l, made.in_state ? 16 : table->n_rows);
    made.reg = l->p->n_regs;
    l->p->n_regs += made.in_state ? 1 : table->n_rows;
    i = ADD(l, tables, made);
    if (i != LOWER_NONE) {
        lower_map_set(l, table, i);
        lower_row_texts(l, table);
    }
    l->depth--;
    return i;
}
/* ---- texts and samples ----------------------------------------------------------------------- */

static uint32_t add_attr(struct lower *l, struct bytes key)
{
    for (uint32_t i = 0; i < l->p->attrs.n; i++)
        if (bytes_eq(l->p->attrs.p[i].key, key))
            return i;
    return ADD(l, attrs, (struct lower_attr){key});
}

static void add_capture(struct lower *l, const struct rule_atom *atom)
{
    if (lower_find(l->p, atom) != LOWER_NONE)
        return;
    struct regex *regex;
    int r = regex_new(&regex, atom->text, atom->nocase, l->error);
    if (r < 0) {
        l->r = l->r ? l->r : r;
        return;
    }
    uint32_t i = ADD(l, regexes, regex);
    if (i == LOWER_NONE)
        regex_free(regex);
    else
        lower_map_set(l, atom, i);
}

static void lower_field_text(struct lower *l, const struct rule_field_ref *field)
{
    if (field->field == RULE_FIELD_COLUMN)
        lower_ftable(l, field->table);
}

static void lower_part(struct lower *l, const struct rule_text_part *part)
{
    if (!lower_enter(l))
        return;
    switch (part->kind) {
    case RULE_TEXT_LITERAL:
    case RULE_TEXT_NONE:
    case RULE_TEXT_PROFILE_TYPE:
    case RULE_TEXT_PROFILE_UNIT: break;
    case RULE_TEXT_GROUP: lower_text(l, part->text); break;
    case RULE_TEXT_COLUMN:
        if (part->table->over)
            lower_table(l, part->table);
        else
            lower_ftable(l, part->table);
        break;
    case RULE_TEXT_FIELD_OF:
        lower_field_text(l, &part->field);
        lower_ref_text(l, &part->ref);
        break;
    case RULE_TEXT_FIELD: lower_field_text(l, &part->field); break;
    case RULE_TEXT_ATTR: lower_map_set(l, part, add_attr(l, part->literal)); break;
    case RULE_TEXT_CAPTURE:
        if (part->regex)
            add_capture(l, part->regex);
        lower_part(l, part->from);
        break;
    }
    l->depth--;
}

void lower_text(struct lower *l, const struct rule_text *text)
{
    if (!lower_visit(l, text) || !lower_enter(l))
        return;
    for (uint32_t i = 0; i < text->n_choices; i++) {
        const struct rule_choice *choice = &text->choices[i];
        if (choice->when)
            lower_sample(l, choice->when);
        for (uint32_t j = 0; j < choice->n_parts; j++)
            lower_part(l, &choice->parts[j]);
    }
    l->depth--;
}

static void lower_match(struct lower *l, const struct rule_sample *s)
{
    lower_text(l, s->text);
    struct pattern_build *build = lower_domain_build(l, LOWER_DOMAIN_TEXT);
    uint32_t bit = build ? pattern_build_pattern(build, s->pattern) : UINT32_MAX;
    if (bit == UINT32_MAX)
        lower_no_memory(l);
    else
        lower_map_set(l, s, bit);
}

void lower_sample(struct lower *l, const struct rule_sample *s)
{
    if (lower_find(l->p, s) != LOWER_NONE || !lower_enter(l))
        return;
    lower_map_set(l, s, 0);
    switch (s->op) {
    case RULE_SAMPLE_AND:
    case RULE_SAMPLE_OR:
    case RULE_SAMPLE_NOT:
        for (uint32_t i = 0; i < s->n_kids; i++)
            lower_sample(l, s->kids[i]);
        break;
    case RULE_SAMPLE_LINKED: break;
    case RULE_SAMPLE_ANY:
    case RULE_SAMPLE_NO:
        lower_map_set(l, s, lower_fact(l, lower_region(l, s->region), lower_frame_or_any(l, s->frame)));
        break;
    case RULE_SAMPLE_EVERY: {
        uint32_t region = lower_region(l, s->region), node = lower_not(l, lower_frame(l, s->frame));
        lower_fact(l, region, lower_frame_or_any(l, NULL));
        lower_map_set(l, s, lower_fact(l, region, node));
        break;
    }
    case RULE_SAMPLE_REF_IS: lower_ref_is(l, s); break;
    case RULE_SAMPLE_CALLS: lower_calls(l, s); break;
    case RULE_SAMPLE_MATCH: lower_match(l, s); break;
    case RULE_SAMPLE_EQUAL:
        lower_text(l, s->text);
        lower_text(l, s->text2);
        break;
    }
    l->depth--;
}
