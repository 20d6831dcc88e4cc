/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A node is evaluated once a frame, and a column once a frame: both are remembered until the next begins.
 * They ask each other: a node may look at a column, whose rows are chosen by nodes, and whose cells are texts
 * made of fields, other columns and captures of them. How deep that goes, lowering has bounded
 * (LOWER_DEPTH_MAX).
 */
#include "rules/match/predicates.h"

#include <stdlib.h>
#include <string.h>

#include "proto/base/buffer.h"
#include "proto/base/macros.h"

#define PREDICATES_UNKNOWN (UINT32_MAX - 2)

enum { NODE_UNKNOWN, NODE_FALSE, NODE_HOLDS };

int match_predicates_init(struct match_predicates *x, struct match_strings *strings)
{
    x->p = strings->p;
    x->memory = strings->memory;
    x->strings = strings;
    x->node = calloc(x->p->nodes.n, sizeof *x->node);
    x->column = calloc(x->p->domains.n, sizeof *x->column);
    return x->node && x->column ? 0 : -ENOMEM;
}

void match_predicates_release(struct match_predicates *x)
{
    free(x->node);
    free(x->column);
}

void match_predicates_start(struct match_predicates *x)
{
    memset(x->node, NODE_UNKNOWN, x->p->nodes.n);
    for (uint32_t i = LOWER_DOMAIN_COLUMN; i < x->p->domains.n; i++)
        x->column[i] = PREDICATES_UNKNOWN;
}

uint32_t frame_eval_field(struct frame_eval *fe, uint32_t field)
{
    if (!(fe->have & 1u << field)) {
        fe->sid[field] = fe->asker->field(fe->asker->context, fe->frame, (enum rule_field)field);
        fe->have |= 1u << field;
    }
    return fe->sid[field];
}

/* ---- texts of cells -------------------------------------------------------------------------- */

static uint32_t text_of(struct match_predicates *x, struct frame_eval *fe, const struct rule_text *text);

static uint32_t part_of(struct match_predicates *x, struct frame_eval *fe, const struct rule_text_part *part)
{
    switch (part->kind) {
    case RULE_TEXT_LITERAL: return match_strings_add(x->strings, part->literal);
    case RULE_TEXT_GROUP: return text_of(x, fe, part->text);
    case RULE_TEXT_FIELD:
        if (part->field.field != RULE_FIELD_COLUMN)
            return frame_eval_field(fe, part->field.field);
        return match_predicates_column(x, fe, lower_find(x->p, part->field.table), part->field.column);
    case RULE_TEXT_CAPTURE:
        if (!part->regex)
            return RULES_NONE;
        return match_strings_capture(x->strings, lower_find(x->p, part->regex), part_of(x, fe, part->from));
    default: return RULES_NONE;
    }
}

static uint32_t joined_parts(struct match_predicates *x, struct frame_eval *fe,
                             const struct rule_choice *choice)
{
    cleanup(buffer_release) struct buffer joined = BUFFER_INIT(0);
    uint32_t value = RULES_NONE, i = 0;
    for (; i < choice->n_parts; i++) {
        uint32_t part = part_of(x, fe, &choice->parts[i]);
        if (part == RULES_NONE)
            break;
        if (buffer_add_bytes(&joined, match_strings_text(x->strings, part)) < 0) {
            match_memory_out(x->memory);
            break;
        }
    }
    if (i == choice->n_parts)
        value = match_strings_add(x->strings, buffer_bytes(&joined));
    return value;
}

/* The first choice that gives bytes, else what the last gives. In a table about frames no choice has a
 * `when`. */
static uint32_t text_of(struct match_predicates *x, struct frame_eval *fe, const struct rule_text *text)
{
    uint32_t value = RULES_NONE;
    for (uint32_t i = 0; i < text->n_choices; i++) {
        const struct rule_choice *choice = &text->choices[i];
        value = choice->n_parts == 1 ? part_of(x, fe, &choice->parts[0]) : joined_parts(x, fe, choice);
        if (value != RULES_NONE && match_strings_text(x->strings, value).n > 0)
            break;
    }
    return value;
}

uint32_t match_predicates_column(struct match_predicates *x, struct frame_eval *fe, uint32_t ftable,
                                 uint32_t column)
{
    const struct lower_ftable *t = &x->p->ftables.p[ftable];
    for (uint32_t i = 0; i < t->source->n_rows; i++) {
        uint32_t node = x->p->kids.p[t->nodes + i];
        if (node != LOWER_NONE && !match_predicates_holds(x, fe, node))
            continue;
        const struct rule_text *cell = t->source->rows[i].cells[column];
        return cell ? text_of(x, fe, cell) : RULES_NONE;
    }
    return RULES_NONE;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static uint32_t domain_text(struct match_predicates *x, struct frame_eval *fe, uint32_t domain)
{
    if (domain < LOWER_FIELDS)
        return frame_eval_field(fe, domain);
    if (x->column[domain] == PREDICATES_UNKNOWN) {
        const struct lower_domain *d = &x->p->domains.p[domain];
        x->column[domain] = match_predicates_column(x, fe, d->ftable, d->column);
    }
    return x->column[domain];
}

bool match_predicates_holds(struct match_predicates *x, struct frame_eval *fe, uint32_t node)
{
    if (x->node[node] != NODE_UNKNOWN)
        return x->node[node] == NODE_HOLDS;
    const struct lower_node *n = &x->p->nodes.p[node];
    bool v = true;
    switch (n->op) {
    case NODE_TRUE: break;
    case NODE_AND:
        for (uint32_t i = 0; i < n->b && v; i++)
            v = match_predicates_holds(x, fe, x->p->kids.p[n->a + i]);
        break;
    case NODE_OR:
        v = false;
        for (uint32_t i = 0; i < n->b && !v; i++)
            v = match_predicates_holds(x, fe, x->p->kids.p[n->a + i]);
        break;
    case NODE_NOT: v = !match_predicates_holds(x, fe, n->a); break;
    case NODE_MATCH: v = match_strings_bit(x->strings, n->a, domain_text(x, fe, n->a), n->b); break;
    case NODE_PRESENT: v = domain_text(x, fe, n->a) != RULES_NONE; break;
    case NODE_INLINED: v = fe->asker ? fe->asker->inlined(fe->asker->context, fe->frame) : fe->inlined; break;
    }
    x->node[node] = v ? NODE_HOLDS : NODE_FALSE;
    return v;
}
