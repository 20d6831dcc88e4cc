/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plan is made by evaluating the program's nodes knowing only the type, in three values: a node holds, does
 * not, or is open. What is open and somebody asks for (a root) is followed down to the domains that keep it
 * open: a field is looked at if one of them is that field, or a column whose cell, for this type, is made of
 * it.
 *
 * A column that is made of one field alone is a function of that field's text, so the text's kind says it
 * (frames.c). Where a column is made of several, kinds do not say all: frames of such a type are matched by
 * their texts (`by_text`).
 */
#include "rules/match/plan.h"

#include <stdlib.h>
#include <string.h>

#include "proto/base/macros.h"

int match_plans_init(struct match_plans *x, struct match_strings *strings)
{
    const struct rules_program *p = strings->p;
    x->p = p;
    x->memory = strings->memory;
    x->strings = strings;
    x->of_type.budget = x->columns.budget = x->memory->budget;
    x->plans = calloc(MATCH_PLANS_MAX, sizeof *x->plans);
    x->answer = calloc(p->nodes.n, sizeof *x->answer);
    x->seen = calloc(p->nodes.n, sizeof *x->seen);
    x->asked = calloc(2 * (size_t)p->domains.n, sizeof *x->asked);
    x->column_fields = calloc(p->domains.n, sizeof *x->column_fields);
    return x->plans && x->answer && x->seen && x->asked && x->column_fields ? 0 : -ENOMEM;
}

void match_plans_clear(struct match_plans *x)
{
    vec_release(&x->of_type);
    vec_release(&x->columns);
    x->n = x->of_none = 0;
}

void match_plans_release(struct match_plans *x)
{
    match_plans_clear(x);
    free(x->plans);
    free(x->answer);
    free(x->seen);
    free(x->asked);
    free(x->column_fields);
}

/* What a predicate can say knowing only the type. */
enum answer { UNKNOWN, NO, YES, OPEN };

static enum answer answer_of(struct match_plans *x, uint32_t node, uint32_t type)
{
    if (x->answer[node] != UNKNOWN)
        return (enum answer)x->answer[node];
    const struct lower_node *n = &x->p->nodes.p[node];
    enum answer v = OPEN, kid;
    switch (n->op) {
    case NODE_TRUE: v = YES; break;
    case NODE_NOT:
        kid = answer_of(x, n->a, type);
        v = kid == OPEN ? OPEN : kid == YES ? NO : YES;
        break;
    case NODE_AND:
    case NODE_OR: {
        enum answer decides = n->op == NODE_AND ? NO : YES;
        v = n->op == NODE_AND ? YES : NO;
        for (uint32_t i = 0; i < n->b && v != decides; i++) {
            kid = answer_of(x, x->p->kids.p[n->a + i], type);
            v = kid == decides || kid == OPEN ? kid : v;
        }
        break;
    }
    case NODE_MATCH:
        if (n->a == RULE_FIELD_TYPE)
            v = match_strings_bit(x->strings, n->a, type, n->b) ? YES : NO;
        break;
    case NODE_PRESENT:
        if (n->a == RULE_FIELD_TYPE)
            v = type != RULES_NONE ? YES : NO;
        break;
    case NODE_INLINED: break; /* in every key */
    }
    x->answer[node] = (uint8_t)v;
    return v;
}

/* The domains that an open node looks at, marked; each node once (x->seen). */
static void mark_open(struct match_plans *x, uint32_t node, uint32_t type, uint8_t *asked)
{
    const struct lower_node *n = &x->p->nodes.p[node];
    if (x->seen[node] || answer_of(x, node, type) != OPEN)
        return;
    x->seen[node] = 1;
    switch (n->op) {
    case NODE_NOT: mark_open(x, n->a, type, asked); break;
    case NODE_AND:
    case NODE_OR:
        for (uint32_t i = 0; i < n->b; i++)
            mark_open(x, x->p->kids.p[n->a + i], type, asked);
        break;
    case NODE_MATCH:
    case NODE_PRESENT: asked[n->a] = 1; break;
    case NODE_TRUE:
    case NODE_INLINED: break;
    }
}

/* The fields a cell's text is made of; all there are where it asks another table. */
static uint32_t text_fields(const struct rules_program *p, const struct rule_text *text, uint32_t depth);

static uint32_t part_fields(const struct rules_program *p, const struct rule_text_part *part, uint32_t depth)
{
    if (depth == 0)
        return p->key_fields;
    switch (part->kind) {
    case RULE_TEXT_FIELD:
        return part->field.field == RULE_FIELD_COLUMN ? p->key_fields : 1u << part->field.field;
    case RULE_TEXT_GROUP: return text_fields(p, part->text, depth - 1);
    case RULE_TEXT_CAPTURE: return part_fields(p, part->from, depth - 1);
    default: return 0;
    }
}

static uint32_t text_fields(const struct rules_program *p, const struct rule_text *text, uint32_t depth)
{
    uint32_t fields = 0;
    for (uint32_t i = 0; i < text->n_choices; i++)
        for (uint32_t j = 0; j < text->choices[i].n_parts; j++)
            fields |= part_fields(p, &text->choices[i].parts[j], depth);
    return fields;
}

/* The fields that the marked domains are made of; all there are where one is a column. */
static uint32_t asked_fields(const struct match_plans *x, const uint8_t *asked)
{
    uint32_t fields = 0;
    for (uint32_t i = 0; i < x->p->domains.n; i++)
        if (asked[i])
            fields |= i < LOWER_FIELDS ? 1u << i : x->p->key_fields;
    return fields;
}

/* The fields a column depends on in frames of this type: those of the cell that the type chooses, or of all
 * that it leaves, and of what chooses between them. */
static uint32_t column_fields(struct match_plans *x, uint32_t ftable, uint32_t column, uint32_t type,
                              uint8_t *asked)
{
    const struct rules_program *p = x->p;
    const struct lower_ftable *t = &p->ftables.p[ftable];
    uint32_t fields = 0;
    memset(x->seen, 0, p->nodes.n);
    memset(asked, 0, p->domains.n);
    for (uint32_t i = 0; i < t->source->n_rows; i++) {
        uint32_t node = p->kids.p[t->nodes + i];
        enum answer v = node == LOWER_NONE ? OPEN : answer_of(x, node, type);
        const struct rule_text *cell = t->source->rows[i].cells[column];
        if (v == NO)
            continue;
        if (node != LOWER_NONE)
            mark_open(x, node, type, asked);
        fields |= cell ? text_fields(p, cell, LOWER_DEPTH_MAX) : 0;
        if (v == YES)
            break;
    }
    return (fields | asked_fields(x, asked)) & ~(1u << RULE_FIELD_TYPE);
}

/* Of each column that somebody asks: the fields it depends on. */
static void find_columns(struct match_plans *x, struct frame_plan *plan, uint32_t type)
{
    const struct rules_program *p = x->p;
    for (uint32_t i = LOWER_DOMAIN_COLUMN; i < p->domains.n; i++) {
        const struct lower_domain *d = &p->domains.p[i];
        uint32_t fields = 0;
        if (x->asked[i])
            fields = column_fields(x, d->ftable, d->column, type, x->asked + p->domains.n);
        x->column_fields[i] = fields;
        plan->fields |= fields;
        plan->by_text |= (fields & (fields - 1)) != 0;
    }
}

static int fill_plan(struct match_plans *x, struct frame_plan *plan, uint32_t type)
{
    const struct rules_program *p = x->p;
    memset(x->answer, UNKNOWN, p->nodes.n);
    memset(x->seen, 0, p->nodes.n);
    memset(x->asked, 0, p->domains.n);
    for (uint32_t i = 0; i < p->nodes.n; i++)
        if (p->nodes.p[i].root != LOWER_NONE)
            mark_open(x, i, type, x->asked);
    for (uint32_t i = 0; i < LOWER_FIELDS; i++)
        plan->fields |= x->asked[i] ? 1u << i : 0;
    find_columns(x, plan, type);
    plan->asked = plan->fields;
    for (uint32_t f = 0; f < LOWER_FIELDS; f++) {
        if (!x->asked[f])
            plan->asked &= ~(1u << f);
        plan->columns_at[f] = x->columns.n;
        for (uint32_t i = LOWER_DOMAIN_COLUMN; i < p->domains.n; i++)
            if (x->asked[i] && x->column_fields[i] == 1u << f && vec_append(&x->columns, i) < 0)
                return -ENOMEM;
        plan->n_columns[f] = x->columns.n - plan->columns_at[f];
    }
    return x->memory->error;
}

struct frame_plan *match_plans_find(struct match_plans *x, uint32_t type)
{
    uint32_t *at = &x->of_none;
    if (type != RULES_NONE) {
        if (vec_extend(&x->of_type, type + 1) < 0) {
            match_memory_out(x->memory);
            return NULL;
        }
        at = &x->of_type.p[type];
    }
    if (*at != 0)
        return &x->plans[*at - 1];
    if (x->n == MATCH_PLANS_MAX)
        return NULL;
    struct frame_plan made = {.number = x->n};
    if (fill_plan(x, &made, type) < 0) {
        match_memory_out(x->memory);
        return NULL;
    }
    x->plans[x->n] = made;
    *at = ++x->n;
    return &x->plans[*at - 1];
}

uint32_t match_plans_column_fields(struct match_plans *x, uint32_t ftable, uint32_t column, uint32_t type)
{
    memset(x->answer, UNKNOWN, x->p->nodes.n);
    return column_fields(x, ftable, column, type, x->asked);
}

uint32_t match_plans_node_fields(struct match_plans *x, uint32_t node, uint32_t type)
{
    memset(x->answer, UNKNOWN, x->p->nodes.n);
    memset(x->seen, 0, x->p->nodes.n);
    memset(x->asked, 0, x->p->domains.n);
    mark_open(x, node, type, x->asked);
    return asked_fields(x, x->asked) & ~(1u << RULE_FIELD_TYPE);
}
