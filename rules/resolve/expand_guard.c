/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/resolve/expand_guard.h"

#include <string.h>

/* Of collecting; a combination takes as many again, and there are EXPAND_MAX. */
#define VISITS_MAX 100000u

bool guards_visit(struct guards *g)
{
    if (!g->is_settled && ++g->visits > VISITS_MAX)
        g->too_many = true;
    return !g->too_many && !g->r->oom;
}

/* ---- which conditions are the same ----------------------------------------------------------- */

static bool same_part(const struct rule_text_part *a, const struct rule_text_part *b)
{
    if (a->kind != b->kind)
        return false;
    switch (a->kind) {
    case RULE_TEXT_NONE:
    case RULE_TEXT_PROFILE_TYPE:
    case RULE_TEXT_PROFILE_UNIT: return true;
    case RULE_TEXT_LITERAL: return bytes_eq(a->literal, b->literal);
    case RULE_TEXT_ATTR: return a->scope == b->scope && bytes_eq(a->literal, b->literal);
    case RULE_TEXT_GROUP: return a->text == b->text;
    case RULE_TEXT_COLUMN: return a->table == b->table && a->column == b->column;
    default: return false;
    }
}

/* Said twice in the same words; two that only mean the same are asked twice, which costs combinations and no
 * truth. */
static bool same_text(const struct rule_text *a, const struct rule_text *b)
{
    if (a == b)
        return true;
    if (a->n_choices != 1 || b->n_choices != 1)
        return false;
    const struct rule_choice *x = a->choices, *y = b->choices;
    if (x->when || y->when || x->n_parts != y->n_parts)
        return false;
    bool same = true;
    for (uint32_t i = 0; i < x->n_parts && same && x->parts != y->parts; i++)
        same = same_part(&x->parts[i], &y->parts[i]);
    return same;
}

static bool same_pattern(const struct rule_pattern *a, const struct rule_pattern *b)
{
    if (a == b)
        return true;
    bool same = a->n_atoms == b->n_atoms;
    for (uint32_t i = 0; same && i < a->n_atoms; i++)
        same = a->atoms[i]->kind == b->atoms[i]->kind && a->atoms[i]->nocase == b->atoms[i]->nocase &&
               bytes_eq(a->atoms[i]->text, b->atoms[i]->text);
    return same;
}

/* But for their negation. */
static bool same_atom(const struct rule_sample *a, const struct rule_sample *b)
{
    if (a == b)
        return true;
    if (a->op != b->op)
        return false;
    switch (a->op) {
    case RULE_SAMPLE_LINKED: return true;
    case RULE_SAMPLE_EQUAL: return same_text(a->text, b->text) && same_text(a->text2, b->text2);
    case RULE_SAMPLE_MATCH: return same_text(a->text, b->text) && same_pattern(a->pattern, b->pattern);
    default: return false;
    }
}

static const struct rule_text_part *constant(const struct rule_text *t)
{
    if (t->n_choices != 1 || t->choices[0].when || t->choices[0].n_parts != 1)
        return NULL;
    const struct rule_text_part *part = t->choices[0].parts;
    return part->kind == RULE_TEXT_LITERAL || part->kind == RULE_TEXT_NONE ? part : NULL;
}

static bool is_text(const struct rule_sample *s)
{
    return s->op == RULE_SAMPLE_EQUAL || s->op == RULE_SAMPLE_MATCH;
}

/* A text has one value, and where it is none it meets no pattern. */
static bool exclude(const struct rule_sample *a, const struct rule_sample *b)
{
    if (!is_text(a) || !is_text(b) || !same_text(a->text, b->text))
        return false;
    const struct rule_text_part *x = a->op == RULE_SAMPLE_EQUAL ? constant(a->text2) : NULL,
                                *y = b->op == RULE_SAMPLE_EQUAL ? constant(b->text2) : NULL;
    if (x && y)
        return !same_part(x, y);
    const struct rule_text_part *only = x ? x : y;
    return a->op != b->op && only && only->kind == RULE_TEXT_NONE;
}

/* ---- collecting ------------------------------------------------------------------------------ */

static uint32_t find(const struct guards *g, const struct rule_sample *s)
{
    uint32_t i = 0;
    while (i < g->n && !same_atom(g->atoms[i], s))
        i++;
    return i;
}

static bool add(struct guards *g, const struct rule_sample *s)
{
    if (find(g, s) < g->n)
        return true;
    if (g->n == GUARD_ATOMS_MAX) {
        g->too_many = true;
        return false;
    }
    if (s->negated) {
        struct rule_sample *plain = arena_calloc(g->r->keep, 1, sizeof *plain);
        if (!plain)
            return out_of_memory(g->r);
        *plain = *s;
        plain->negated = false;
        s = plain;
    }
    g->atoms[g->n++] = s;
    return true;
}

static bool is_formula(const struct rule_sample *s)
{
    return s->op == RULE_SAMPLE_AND || s->op == RULE_SAMPLE_OR || s->op == RULE_SAMPLE_NOT;
}

/* As deep as definitions nest: RULES_NESTING_MAX, and expressions in them as much. */
bool guards_collect(struct guards *g, const struct rule_sample *s)
{
    if (!s)
        return true;
    if (!guards_visit(g))
        return false;
    if (!is_formula(s))
        return add(g, s);
    for (uint32_t i = 0; i < s->n_kids; i++) {
        if (!guards_collect(g, s->kids[i]))
            return false;
    }
    return true;
}

/* ---- combinations ---------------------------------------------------------------------------- */

bool guards_hold(struct guards *g, const struct rule_sample *s)
{
    if (!s)
        return true;
    if (!guards_visit(g))
        return false;
    if (!is_formula(s))
        return g->value[find(g, s)] != s->negated;
    bool all = true, any = false;
    for (uint32_t i = 0; i < s->n_kids; i++) {
        bool kid = guards_hold(g, s->kids[i]);
        all &= kid;
        any |= kid;
    }
    return s->op == RULE_SAMPLE_AND ? all : s->op == RULE_SAMPLE_OR ? any : !all;
}

static bool may_hold(const struct guards *g, uint32_t atom)
{
    for (uint32_t i = 0; i < atom; i++) {
        if (g->value[i] && exclude(g->atoms[i], g->atoms[atom]))
            return false;
    }
    return true;
}

/* Counts up in twos, the last atom fastest, past what cannot be. */
bool guards_next(struct guards *g)
{
    for (uint32_t i = g->n; i-- > 0; g->value[i] = false) {
        if (!g->value[i] && may_hold(g, i)) {
            g->value[i] = true;
            return true;
        }
    }
    return false;
}

static const struct rule_sample *not_of(struct guards *g, const struct rule_sample *atom)
{
    struct rule_sample *s = arena_calloc(g->r->keep, 1, sizeof *s);
    const struct rule_sample **kid = arena_calloc(g->r->keep, 1, sizeof *kid);
    if (!s || !kid)
        return out_of_memory(g->r);
    *kid = atom;
    *s = (struct rule_sample){.op = RULE_SAMPLE_NOT, .kids = kid, .n_kids = 1, .place = atom->place};
    return s;
}

const struct rule_sample *guards_condition(struct guards *g, const struct rule_sample *and,
                                           struct rule_place place)
{
    if (g->n == 0)
        return and;
    struct rule_sample *s = arena_calloc(g->r->keep, 1, sizeof *s);
    const struct rule_sample **kids = arena_calloc(g->r->keep, (size_t)g->n + 1, sizeof *kids);
    if (!s || !kids)
        return out_of_memory(g->r);
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->n; i++) {
        const struct rule_sample *kid = g->value[i] ? g->atoms[i] : NULL;
        /* That something else is excluded goes without saying. */
        bool implied = false;
        for (uint32_t k = 0; !kid && k < g->n; k++)
            implied |= g->value[k] && exclude(g->atoms[k], g->atoms[i]);
        if (implied)
            continue;
        if (!kid && !(kid = not_of(g, g->atoms[i])))
            return NULL;
        kids[n++] = kid;
    }
    *s = (struct rule_sample){.op = RULE_SAMPLE_AND, .kids = kids, .n_guards = n, .place = place};
    if (and)
        kids[n++] = and;
    s->n_kids = n;
    return s;
}
