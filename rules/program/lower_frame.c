/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frame predicates as nodes over pattern sets, and frame tables.
 *
 * A predicate becomes a closed formula: AND, OR and NOT over "bit b of domain d", "domain d has a text" and
 * "inlined". Equal formulas are one node (add_node looks for it), so that conditions which many rules share
 * are evaluated once a frame. A node gets a bit in frame classes only when the walk itself asks for it
 * (lower_root); and what is asked inside a region is asked together with the region's `while` (lower_guard).
 *
 * A frame table is its rows' nodes and texts, and looks at nothing but the frame (E130 sees to it). So
 * predicates may ask what stands in a column, which makes that column a domain.
 */
#include "rules/program/parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/macros.h"

/* ---- frame predicates ------------------------------------------------------------------------ */

uint32_t lower_take_bits(struct lower *l, uint32_t n)
{
    uint32_t at = l->p->n_bits;
    l->p->n_bits += n;
    return at;
}

static uint32_t find_kids(const struct rules_program *p, const uint32_t *kids, uint32_t n)
{
    for (uint32_t i = 0; i < p->nodes.n; i++) {
        const struct lower_node *node = &p->nodes.p[i];
        if ((node->op == NODE_AND || node->op == NODE_OR) && node->b == n &&
            memcmp(&p->kids.p[node->a], kids, n * sizeof *kids) == 0)
            return node->a;
    }
    return LOWER_NONE;
}

uint32_t lower_add_kids(struct lower *l, const uint32_t *kids, uint32_t n)
{
    uint32_t at = l->p->kids.n;
    for (uint32_t i = 0; i < n; i++)
        ADD(l, kids, kids[i]);
    return at;
}

/* The one node of this content. */
static uint32_t add_node(struct lower *l, enum lower_op op, uint32_t a, uint32_t b)
{
    struct rules_program *p = l->p;
    for (uint32_t i = 0; i < p->nodes.n; i++)
        if (p->nodes.p[i].op == op && p->nodes.p[i].a == a && p->nodes.p[i].b == b)
            return i;
    if (l->r != 0)
        return LOWER_NONE; /* its kids may be missing */
    if (p->nodes.n == LOWER_NODES_MAX)
        return lower_fail(l, -E2BIG, "more than 4096 frame predicates");
    return ADD(l, nodes, (struct lower_node){.op = op, .a = a, .b = b, .root = LOWER_NONE});
}

struct pattern_build *lower_domain_build(struct lower *l, uint32_t domain)
{
    struct lower_domain *d = &l->p->domains.p[domain];
    if (!d->build && !(d->build = pattern_build_new()))
        lower_no_memory(l);
    return d->build;
}

static uint32_t lower_domain_of(struct lower *l, const struct rule_field_ref *field)
{
    struct rules_program *p = l->p;
    if (field->field != RULE_FIELD_COLUMN) {
        p->key_fields |= 1u << field->field;
        return field->field;
    }
    uint32_t ftable = lower_ftable(l, field->table);
    if (ftable == LOWER_NONE)
        return LOWER_NONE;
    for (uint32_t i = LOWER_DOMAIN_COLUMN; i < p->domains.n; i++)
        if (p->domains.p[i].ftable == ftable && p->domains.p[i].column == field->column)
            return i;
    return ADD(l, domains, (struct lower_domain){.ftable = ftable, .column = field->column});
}

static uint32_t lower_leaf(struct lower *l, const struct rule_frame *f)
{
    if (f->op == RULE_FRAME_MATCH && f->pattern->n_atoms == 0) /* `none`, as parameters are: asks nothing */
        return lower_not(l, add_node(l, NODE_TRUE, 0, 0));
    uint32_t domain = lower_domain_of(l, &f->field), bit;
    if (domain == LOWER_NONE)
        return LOWER_NONE;
    if (f->op == RULE_FRAME_EQUAL && !f->literal.p)
        return add_node(l, NODE_PRESENT, domain, 0);
    struct pattern_build *build = lower_domain_build(l, domain);
    if (!build)
        return LOWER_NONE;
    bit = f->op == RULE_FRAME_EQUAL ? pattern_build_literal(build, f->literal)
                                    : pattern_build_pattern(build, f->pattern);
    if (bit == UINT32_MAX)
        return lower_no_memory(l);
    return add_node(l, NODE_MATCH, domain, bit);
}

static uint32_t lower_many(struct lower *l, const struct rule_frame *f)
{
    autofree uint32_t *kids = calloc(f->n_kids + 1, sizeof *kids);
    if (!kids)
        return lower_no_memory(l);
    for (uint32_t i = 0; i < f->n_kids; i++)
        if ((kids[i] = lower_frame(l, f->kids[i])) == LOWER_NONE)
            return LOWER_NONE;
    if (f->n_kids == 1)
        return kids[0];
    uint32_t at = find_kids(l->p, kids, f->n_kids);
    if (at == LOWER_NONE)
        at = lower_add_kids(l, kids, f->n_kids);
    return add_node(l, f->op == RULE_FRAME_AND ? NODE_AND : NODE_OR, at, f->n_kids);
}

uint32_t lower_not(struct lower *l, uint32_t node)
{
    if (node == LOWER_NONE)
        return LOWER_NONE;
    if (l->p->nodes.p[node].op == NODE_NOT)
        return l->p->nodes.p[node].a;
    return add_node(l, NODE_NOT, node, 0);
}

uint32_t lower_frame(struct lower *l, const struct rule_frame *f)
{
    uint32_t node = lower_find(l->p, f);
    if (node != LOWER_NONE || !lower_enter(l))
        return node;
    bool negate = f->negated;
    switch (f->op) {
    case RULE_FRAME_AND:
    case RULE_FRAME_OR: node = lower_many(l, f); break;
    case RULE_FRAME_NOT: node = lower_not(l, lower_frame(l, f->kids[0])); break;
    case RULE_FRAME_INLINED: node = add_node(l, NODE_INLINED, 0, 0); break;
    case RULE_FRAME_EQUAL:
        node = lower_leaf(l, f);
        if (!f->literal.p)
            negate = !negate; /* `== none` is the opposite of "present" */
        break;
    case RULE_FRAME_MATCH: node = lower_leaf(l, f); break;
    }
    if (negate && (f->op == RULE_FRAME_EQUAL || f->op == RULE_FRAME_MATCH))
        node = lower_not(l, node);
    if (node != LOWER_NONE)
        lower_map_set(l, f, node);
    l->depth--;
    return node;
}

/* As a node that the walk asks about: it gets a bit in the frame classes. */
uint32_t lower_root(struct lower *l, uint32_t node)
{
    if (node != LOWER_NONE && l->p->nodes.p[node].root == LOWER_NONE)
        l->p->nodes.p[node].root = l->p->n_roots++;
    return node;
}

uint32_t lower_frame_or_any(struct lower *l, const struct rule_frame *f)
{
    return f ? lower_frame(l, f) : add_node(l, NODE_TRUE, 0, 0);
}

/* A frame inside a region satisfies its `while`. Saying so in the predicate itself changes no answer, but
 * lets a frame's type decide more: "kernel and tcp_*" need not look at the names of frames that are not the
 * kernel's. */
uint32_t lower_guard(struct lower *l, uint32_t region, uint32_t node)
{
    uint32_t guard = region == LOWER_NONE ? LOWER_NONE : l->p->regions.p[region].while_;
    if (node == LOWER_NONE || guard == LOWER_NONE || node == guard || l->p->nodes.p[node].op == NODE_TRUE)
        return lower_root(l, node);
    const uint32_t both[2] = {guard, node};
    uint32_t at = find_kids(l->p, both, 2);
    return lower_root(l, add_node(l, NODE_AND, at == LOWER_NONE ? lower_add_kids(l, both, 2) : at, 2));
}
/* ---- frame tables --------- */

/* Of a table over a stack, the rows as the walk asks them of frames in the region; of a frame table, as they
 * are. */
uint32_t lower_row_nodes(struct lower *l, const struct rule_table *table, uint32_t region)
{
    autofree uint32_t *nodes = calloc(table->n_rows + 1, sizeof *nodes);
    if (!nodes)
        return lower_no_memory(l);
    for (uint32_t i = 0; i < table->n_rows; i++) {
        const struct rule_frame *f = table->rows[i].frame;
        nodes[i] = f ? lower_frame(l, f) : LOWER_NONE;
        if (f && table->over)
            nodes[i] = lower_guard(l, region, nodes[i]);
    }
    return lower_add_kids(l, nodes, table->n_rows);
}

uint32_t lower_ftable(struct lower *l, const struct rule_table *table)
{
    uint32_t i = lower_find(l->p, table);
    if (i != LOWER_NONE || !lower_enter(l))
        return i;
    struct lower_ftable made = {.source = table};
    made.nodes = lower_row_nodes(l, table, LOWER_NONE);
    i = ADD(l, ftables, made);
    if (i != LOWER_NONE) {
        lower_map_set(l, table, i);
        lower_row_texts(l, table);
    }
    l->depth--;
    return i;
}
