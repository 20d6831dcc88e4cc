/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making a pattern set.
 *
 * Predicates are collected first (the same atoms: the same number). Then equal atoms of all predicates become
 * one, with a list of the predicates that it decides (gather_uses), and each is indexed by what it is found
 * by:
 *
 *     the whole text              the hash table `equal`
 *     one literal piece           that piece in the automaton; `kind` says which anchors to check
 *     several pieces, a regex     a literal it cannot do without in the automaton, then all of it is checked
 *     none of these               `always`
 *
 * Where an atom has a choice of literals, all atoms vote first (count_literal: how many could be found by
 * it), then each takes the one that fewest share. The automaton is built last, from all literals at once.
 */
#include "rules/pattern/pattern.h"

#include <errno.h>
#include <stdlib.h>

#include "proto/base/hash.h"
#include "proto/base/macros.h"
#include "proto/base/vec.h"
#include "rules/pattern/parts.h"

static bool glob_is_equality(const struct rule_atom *glob)
{
    return glob->n_pieces <= 1 && !glob->star_first && !glob->star_last;
}

/* ---- collecting ------------------------------------------------------------------------------ */

struct predicate {
    const struct rule_pattern *pattern; /* NULL: a literal */
    struct bytes literal;
    uint64_t hash;
};

struct pattern_build {
    VEC(struct predicate) predicates;
    size_t n_atoms; /* with repetitions */
};

struct pattern_build *pattern_build_new(void)
{
    return calloc(1, sizeof(struct pattern_build));
}

struct pattern_build *pattern_build_free(struct pattern_build *b)
{
    if (b)
        vec_release(&b->predicates);
    free(b);
    return NULL;
}

static uint64_t hash_atom(const struct rule_atom *a)
{
    return hash_mix(hash_bytes(a->text, 0), (uint64_t)a->kind * 2 + a->nocase);
}

static bool same_atom(const struct rule_atom *a, const struct rule_atom *b)
{
    return a == b || (a->kind == b->kind && a->nocase == b->nocase && bytes_eq(a->text, b->text));
}

static bool same_pattern(const struct rule_pattern *a, const struct rule_pattern *b)
{
    if (a == b)
        return true;
    if (!a || !b || a->n_atoms != b->n_atoms)
        return false;
    for (uint32_t i = 0; i < a->n_atoms; i++)
        if (!same_atom(a->atoms[i], b->atoms[i]))
            return false;
    return true;
}

static uint32_t add_predicate(struct pattern_build *b, struct predicate want)
{
    for (uint32_t i = 0; i < b->predicates.n; i++) {
        const struct predicate *have = &b->predicates.p[i];
        if (have->hash == want.hash && same_pattern(have->pattern, want.pattern) &&
            bytes_eq(have->literal, want.literal))
            return i;
    }
    if (vec_append(&b->predicates, want) < 0)
        return UINT32_MAX;
    b->n_atoms += want.pattern ? want.pattern->n_atoms : 1;
    return b->predicates.n - 1;
}

uint32_t pattern_build_pattern(struct pattern_build *b, const struct rule_pattern *pattern)
{
    uint64_t hash = 1;
    for (uint32_t i = 0; i < pattern->n_atoms; i++)
        hash = hash_mix(hash, hash_atom(pattern->atoms[i]));
    return add_predicate(b, (struct predicate){.pattern = pattern, .hash = hash});
}

uint32_t pattern_build_literal(struct pattern_build *b, struct bytes literal)
{
    return add_predicate(b, (struct predicate){.literal = literal, .hash = hash_bytes(literal, 2)});
}

/* ---- making the set -------------------------------------------------------------------------- */

struct maker {
    struct pattern_set *s;
    uint32_t *slots, n_slots; /* atoms by content, while making */
    uint32_t (*uses)[2];      /* (atom, predicate) pairs */
    uint32_t n_uses;
    VEC(struct automaton_literal) literals;
    uint8_t **stores; /* literal bytes of regexes */
    uint32_t n_stores;
    /* How many atoms could be found by a literal with this hash: a table of counters without the literals.
     * Two that share one make each other look commoner, no more. */
    uint32_t *common, n_common;
    struct error *error;
};

/* ---- which literal an atom is looked for by -------------------------------------------------- */

/* Patterns of one company share the beginnings of its names: found by that, each would be tried on every name
 * of the company's. So an atom is looked for by the piece that fewest others have, if it is of some length.
 */
#define LITERAL_GOOD 4u

static int out_of_memory(struct maker *m)
{
    return error_set(m->error, -ENOMEM, "out of memory");
}

static uint32_t *commonness(const struct maker *m, struct bytes literal)
{
    uint64_t hash = literal.n;
    for (size_t i = 0; i < literal.n; i++)
        hash = hash * 0x100000001b3u ^ automaton_fold(literal.p[i]);
    return &m->common[(hash_mix(hash, 0) >> 32) & (m->n_common - 1)];
}

static uint64_t count_literal(void *context, struct bytes literal)
{
    ++*commonness(context, literal);
    return 0;
}

static uint64_t score_literal(void *context, struct bytes literal)
{
    uint64_t too_short = literal.n < LITERAL_GOOD ? LITERAL_GOOD - literal.n : 0;
    return too_short << 48 | (uint64_t)*commonness(context, literal) << 16 |
           (UINT16_MAX - min_of(literal.n, (size_t)UINT16_MAX));
}

static void choose_piece(struct maker *m, struct atom *a)
{
    const struct rule_atom *g = a->source;
    uint32_t best = 0;
    for (uint32_t i = 1; i < g->n_pieces; i++)
        if (score_literal(m, g->pieces[i]) < score_literal(m, g->pieces[best]))
            best = i;
    a->literal = g->pieces[best];
}

/* Counts what each atom with a choice could be found by, then chooses for the globs. */
static int choose_literals(struct maker *m)
{
    struct pattern_set *s = m->s;
    for (int choose = 0; choose < 2; choose++) {
        for (uint32_t i = 0; i < s->n_atoms; i++) {
            struct atom *a = &s->atoms[i];
            if (a->kind == ATOM_GLOB && choose) {
                choose_piece(m, a);
            } else if (a->kind == ATOM_GLOB) {
                for (uint32_t k = 0; k < a->source->n_pieces; k++)
                    count_literal(m, a->source->pieces[k]);
            } else if (a->kind == ATOM_REGEX && !choose) {
                struct bytes literals[REGEX_LITERALS_MAX];
                uint8_t *store = malloc(a->source->text.n + 1);
                if (!store)
                    return out_of_memory(m);
                regex_literals(a->source->text, store, literals, count_literal, m);
                free(store);
            }
        }
    }
    return 0;
}

static void classify_glob(struct atom *a)
{
    const struct rule_atom *g = a->source;
    a->nocase = g->nocase;
    a->literal = g->n_pieces ? g->pieces[0] : (struct bytes){0};
    if (glob_is_equality(g))
        a->kind = g->nocase && a->literal.n > 0 ? ATOM_WHOLE : ATOM_EQUAL;
    else if (g->n_pieces == 0)
        a->kind = ATOM_ANY;
    else if (g->n_pieces == 1)
        a->kind = g->star_first ? g->star_last ? ATOM_CONTAINS : ATOM_SUFFIX : ATOM_PREFIX;
    else
        a->kind = ATOM_GLOB;
}

static uint32_t intern_atom(struct maker *m, const struct rule_atom *source, struct bytes literal)
{
    struct pattern_set *s = m->s;
    uint64_t h = source ? hash_atom(source) : hash_bytes(literal, 2);
    uint32_t i = (uint32_t)h & (m->n_slots - 1);
    for (; m->slots[i] != 0; i = (i + 1) & (m->n_slots - 1)) {
        const struct atom *a = &s->atoms[m->slots[i] - 1];
        if (source ? a->source && same_atom(a->source, source) : !a->source && bytes_eq(a->literal, literal))
            return m->slots[i] - 1;
    }
    struct atom *a = &s->atoms[s->n_atoms];
    *a = (struct atom){.kind = ATOM_EQUAL, .literal = literal, .source = source};
    if (source && source->kind == RULE_GLOB)
        classify_glob(a);
    else if (source)
        a->kind = ATOM_REGEX;
    m->slots[i] = ++s->n_atoms;
    return s->n_atoms - 1;
}

static int add_literal(struct maker *m, struct bytes text, uint32_t atom)
{
    int r = vec_append(&m->literals, (struct automaton_literal){text, atom});
    return r < 0 ? out_of_memory(m) : 0;
}

static int index_regex(struct maker *m, uint32_t index)
{
    struct atom *a = &m->s->atoms[index];
    int r = regex_new(&a->regex, a->source->text, a->source->nocase, m->error);
    if (r < 0)
        return r;
    struct bytes literals[REGEX_LITERALS_MAX];
    uint8_t *store = malloc(a->source->text.n + 1);
    if (!store)
        return out_of_memory(m);
    m->stores[m->n_stores++] = store;
    uint32_t n = regex_literals(a->source->text, store, literals, score_literal, m);
    for (uint32_t i = 0; i < n; i++)
        if ((r = add_literal(m, literals[i], index)) < 0)
            return r;
    if (n == 0)
        m->s->always[m->s->n_always++] = index;
    return 0;
}

static int index_atoms(struct maker *m)
{
    struct pattern_set *s = m->s;
    for (uint32_t i = 0; i < s->n_atoms; i++) {
        struct atom *a = &s->atoms[i];
        int r = 0;
        if (a->kind == ATOM_EQUAL) {
            uint32_t j = (uint32_t)hash_bytes(a->literal, 0) & (s->n_equal_slots - 1);
            while (s->equal[j] != 0)
                j = (j + 1) & (s->n_equal_slots - 1);
            s->equal[j] = i + 1;
        } else if (a->kind == ATOM_REGEX) {
            r = index_regex(m, i);
        } else if (a->kind == ATOM_ANY) {
            s->always[s->n_always++] = i;
        } else {
            r = add_literal(m, a->literal, i);
        }
        if (r < 0)
            return r;
    }
    return 0;
}

/* The predicates of each atom, gathered by counting. */
static void gather_uses(struct maker *m)
{
    struct pattern_set *s = m->s;
    for (uint32_t i = 0; i < m->n_uses; i++)
        s->atoms[m->uses[i][0]].n_preds++;
    for (uint32_t i = 0, at = 0; i < s->n_atoms; i++) {
        s->atoms[i].preds_at = at;
        at += s->atoms[i].n_preds;
        s->atoms[i].n_preds = 0;
    }
    for (uint32_t i = 0; i < m->n_uses; i++) {
        struct atom *a = &s->atoms[m->uses[i][0]];
        s->preds[a->preds_at + a->n_preds++] = m->uses[i][1];
    }
}

static uint32_t table_size(size_t n)
{
    uint32_t size = 8;
    while (size < n * 2)
        size *= 2;
    return size;
}

static int make(struct maker *m, const struct pattern_build *b, size_t *bytes_left)
{
    struct pattern_set *s = m->s;
    size_t n = b->n_atoms + 1;
    m->n_slots = s->n_equal_slots = table_size(n);
    m->slots = calloc(m->n_slots, sizeof *m->slots);
    m->uses = calloc(n, sizeof *m->uses);
    m->stores = calloc(n, sizeof *m->stores);
    m->n_common = table_size(2 * n);
    m->common = calloc(m->n_common, sizeof *m->common);
    s->atoms = calloc(n, sizeof *s->atoms);
    s->preds = calloc(n, sizeof *s->preds);
    s->always = calloc(n, sizeof *s->always);
    s->equal = calloc(s->n_equal_slots, sizeof *s->equal);
    if (!m->slots || !m->uses || !m->stores || !m->common || !s->atoms || !s->preds || !s->always ||
        !s->equal)
        return out_of_memory(m);
    s->n_predicates = b->predicates.n;
    for (uint32_t i = 0; i < b->predicates.n; i++) {
        const struct predicate *p = &b->predicates.p[i];
        uint32_t atoms = p->pattern ? p->pattern->n_atoms : 1;
        for (uint32_t j = 0; j < atoms; j++) {
            m->uses[m->n_uses][0] = intern_atom(m, p->pattern ? p->pattern->atoms[j] : NULL, p->literal);
            m->uses[m->n_uses++][1] = i;
        }
    }
    gather_uses(m);
    int r = choose_literals(m);
    if (r == 0)
        r = index_atoms(m);
    if (r < 0)
        return r;
    r = automaton_init(&s->automaton, m->literals.p, m->literals.n, *bytes_left);
    if (r == AUTOMATON_TOO_LARGE)
        return error_set(m->error, -E2BIG,
                         "the rules' patterns need automata larger than all of them may take together");
    if (r < 0)
        return out_of_memory(m);
    *bytes_left -= automaton_bytes(&s->automaton);
    return 0;
}

int pattern_set_new(struct pattern_set **ret, const struct pattern_build *b, size_t *bytes_left,
                    struct error *e)
{
    struct maker m = {.s = calloc(1, sizeof *m.s), .error = e};
    if (!m.s)
        return out_of_memory(&m);
    int r = make(&m, b, bytes_left);
    for (uint32_t i = 0; i < m.n_stores; i++)
        free(m.stores[i]);
    free(m.stores);
    free(m.slots);
    free(m.common);
    free(m.uses);
    vec_release(&m.literals);
    if (r < 0) {
        pattern_set_free(m.s);
        return r;
    }
    *ret = m.s;
    return 0;
}
