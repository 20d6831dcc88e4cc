/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plans: what is left to ask of a frame when its type is known, and which of its fields say it. Made once a
 * type.
 */
#include <stdlib.h>
#include <string.h>

#include "proto/base/macros.h"
#include "rules/match/parts.h"

/* ---- plans ----------------------------------------------------------------------------------- */

/* What a predicate can say knowing only the type. */
enum partial { PARTIAL_UNKNOWN, NO, YES, OPEN };

/* Remembered in m->node_value while a plan is made. */
static enum partial partial_node(struct rules_matcher *m, uint32_t node, uint32_t type)
{
    if (m->node_value[node] != PARTIAL_UNKNOWN)
        return (enum partial)m->node_value[node];
    const struct lower_node *n = &m->p->nodes.p[node];
    enum partial v = OPEN, kid;
    switch (n->op) {
    case NODE_TRUE: v = YES; break;
    case NODE_NOT:
        kid = partial_node(m, n->a, type);
        v = kid == OPEN ? OPEN : kid == YES ? NO : YES;
        break;
    case NODE_AND:
    case NODE_OR: {
        enum partial decides = n->op == NODE_AND ? NO : YES;
        v = n->op == NODE_AND ? YES : NO;
        for (uint32_t i = 0; i < n->b && v != decides; i++) {
            kid = partial_node(m, m->p->kids.p[n->a + i], type);
            v = kid == decides || kid == OPEN ? kid : v;
        }
        break;
    }
    case NODE_MATCH:
        if (n->a == RULE_FIELD_TYPE)
            v = matcher_string_bit(m, n->a, type, n->b) ? YES : NO;
        break;
    case NODE_PRESENT:
        if (n->a == RULE_FIELD_TYPE)
            v = type != RULES_NONE ? YES : NO;
        break;
    case NODE_INLINED: break; /* in every key */
    }
    m->node_value[node] = (uint8_t)v;
    return v;
}

/* The domains that an open node looks at, marked; each node once (m->node_seen). */
static void mark_open(struct rules_matcher *m, uint32_t node, uint32_t type, uint8_t *asked)
{
    const struct lower_node *n = &m->p->nodes.p[node];
    if (m->node_seen[node] || partial_node(m, node, type) != OPEN)
        return;
    m->node_seen[node] = 1;
    switch (n->op) {
    case NODE_NOT: mark_open(m, n->a, type, asked); break;
    case NODE_AND:
    case NODE_OR:
        for (uint32_t i = 0; i < n->b; i++)
            mark_open(m, m->p->kids.p[n->a + i], type, asked);
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

/* The fields a column depends on in frames of this type: those of the cell that the type chooses, or of all
 * that it leaves, and of what chooses between them. */
static uint32_t column_fields(struct rules_matcher *m, uint32_t ftable, uint32_t column, uint32_t type,
                              uint8_t *asked)
{
    const struct rules_program *p = m->p;
    const struct lower_ftable *t = &p->ftables.p[ftable];
    uint32_t fields = 0;
    memset(m->node_seen, 0, p->nodes.n);
    memset(asked, 0, p->domains.n);
    for (uint32_t i = 0; i < t->source->n_rows; i++) {
        uint32_t node = p->kids.p[t->nodes + i];
        enum partial v = node == LOWER_NONE ? OPEN : partial_node(m, node, type);
        const struct rule_text *cell = t->source->rows[i].cells[column];
        if (v == NO)
            continue;
        if (node != LOWER_NONE)
            mark_open(m, node, type, asked);
        fields |= cell ? text_fields(p, cell, LOWER_DEPTH_MAX) : 0;
        if (v == YES)
            break;
    }
    for (uint32_t i = 0; i < p->domains.n; i++)
        if (asked[i])
            fields |= i < LOWER_FIELDS ? 1u << i : p->key_fields;
    return fields & ~(1u << RULE_FIELD_TYPE);
}

static int add_column(struct rules_matcher *m, uint32_t domain)
{
    if (charged_grow(m->budget, &m->plan_columns, &m->cap_plan_columns, m->n_plan_columns + 1,
                     sizeof *m->plan_columns) < 0)
        return -1;
    m->plan_columns[m->n_plan_columns++] = domain;
    return 0;
}

/* `asked` has room for two sets of domains. */
static int fill_plan(struct rules_matcher *m, struct frame_plan *plan, uint32_t type, uint8_t *asked)
{
    const struct rules_program *p = m->p;
    memset(m->node_value, PARTIAL_UNKNOWN, p->nodes.n);
    memset(m->node_seen, 0, p->nodes.n);
    for (uint32_t i = 0; i < p->nodes.n; i++)
        if (p->nodes.p[i].root != LOWER_NONE)
            mark_open(m, i, type, asked);
    for (uint32_t i = 0; i < LOWER_FIELDS; i++)
        plan->fields |= asked[i] ? 1u << i : 0;
    for (uint32_t i = LOWER_DOMAIN_COLUMN; i < p->domains.n; i++) {
        const struct lower_domain *d = &p->domains.p[i];
        m->column_text[i] = asked[i] ? column_fields(m, d->ftable, d->column, type, asked + p->domains.n) : 0;
        plan->fields |= m->column_text[i];
        plan->by_text |= (m->column_text[i] & (m->column_text[i] - 1)) != 0;
    }
    plan->asked = plan->fields;
    for (uint32_t f = 0; f < LOWER_FIELDS; f++) {
        if (!asked[f])
            plan->asked &= ~(1u << f);
        plan->columns_at[f] = m->n_plan_columns;
        for (uint32_t i = LOWER_DOMAIN_COLUMN; i < p->domains.n; i++)
            if (asked[i] && m->column_text[i] == 1u << f && add_column(m, i) < 0)
                return -1;
        plan->n_columns[f] = m->n_plan_columns - plan->columns_at[f];
    }
    return m->error;
}

struct frame_plan *matcher_find_plan(struct rules_matcher *m, uint32_t type)
{
    uint32_t *at = &m->none_plan, was = m->cap_type_plan;
    if (type != RULES_NONE) {
        if (charged_grow(m->budget, &m->type_plan, &m->cap_type_plan, type + 1, sizeof *at) < 0) {
            matcher_oom(m);
            return NULL;
        }
        memset(m->type_plan + was, 0, (m->cap_type_plan - was) * sizeof *at);
        at = &m->type_plan[type];
    }
    if (*at != 0)
        return &m->plans[*at - 1];
    if (m->n_plans == MATCH_PLANS_MAX)
        return NULL;
    autofree uint8_t *asked = calloc(2, m->p->domains.n);
    struct frame_plan made = {.number = m->n_plans};
    if (!asked || fill_plan(m, &made, type, asked) < 0) {
        matcher_oom(m);
        return NULL;
    }
    m->plans[m->n_plans] = made;
    *at = ++m->n_plans;
    return &m->plans[*at - 1];
}

uint32_t rules_matcher_fields(struct rules_matcher *m, uint32_t type)
{
    const struct frame_plan *plan = matcher_plan(m, type);
    return plan ? plan->fields | (m->p->key_fields & 1u << RULE_FIELD_TYPE) : m->p->key_fields;
}
