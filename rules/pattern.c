#include "rules/pattern.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/hash.h"
#include "proto/base/macros.h"
#include "rules/automaton.h"

#define REGEX_ALTERNATIVES 16u /* literals one regex may be found by; more, and it is always tried */

enum atom_kind {
    ATOM_EQUAL, /* the whole text; found by hash */
    ATOM_WHOLE, /* the whole text, ignoring case */
    ATOM_PREFIX,
    ATOM_SUFFIX,
    ATOM_CONTAINS,
    ATOM_GLOB, /* a literal was found: check all of it */
    ATOM_REGEX,
    ATOM_ANY, /* "*" */
};

struct atom {
    enum atom_kind kind;
    bool nocase;
    struct bytes literal;           /* EQUAL … CONTAINS; of GLOB the piece searched for */
    const struct rule_atom *source; /* NULL for a literal predicate */
    struct regex *regex;
    uint32_t preds_at, n_preds; /* into pattern_set.preds */
};

struct pattern_set {
    struct atom *atoms;
    uint32_t n_atoms;
    uint32_t *preds;
    uint32_t *equal; /* hash table: atom + 1, 0 is free */
    uint32_t n_equal_slots;
    uint32_t *always; /* atoms without a literal: tried on every text */
    uint32_t n_always;
    struct automaton automaton;
    uint32_t n_predicates;
};

/* ---- globs
 * ----------------------------------------------------------------------------------------------------- */

static bool same(struct bytes piece, const uint8_t *at, bool nocase)
{
    if (!nocase)
        return memcmp(at, piece.p, piece.n) == 0;
    for (size_t i = 0; i < piece.n; i++)
        if (automaton_fold(at[i]) != automaton_fold(piece.p[i]))
            return false;
    return true;
}

/* The first place at or after `from` where the piece stands and ends by `end`, or SIZE_MAX. */
static size_t find_piece(struct bytes piece, bool nocase, struct bytes text, size_t from, size_t end)
{
    if (!nocase) {
        const uint8_t *p = end < from ? NULL : memmem(text.p + from, end - from, piece.p, piece.n);
        return p ? (size_t)(p - text.p) : SIZE_MAX;
    }
    for (size_t at = from; at <= end && piece.n <= end - at; at++)
        if (same(piece, text.p + at, true))
            return at;
    return SIZE_MAX;
}

bool pattern_glob(const struct rule_atom *glob, struct bytes text)
{
    uint32_t first = 0, last = glob->n_pieces;
    size_t from = 0, end = text.n;
    if (glob->n_pieces == 0)
        return glob->star_first || glob->star_last || text.n == 0;
    if (glob->n_pieces == 1 && !glob->star_first && !glob->star_last)
        return text.n == glob->pieces[0].n && same(glob->pieces[0], text.p, glob->nocase);
    if (!glob->star_first) {
        struct bytes piece = glob->pieces[first++];
        if (piece.n > end || !same(piece, text.p, glob->nocase))
            return false;
        from = piece.n;
    }
    if (!glob->star_last) {
        struct bytes piece = glob->pieces[--last];
        if (piece.n > end - from || !same(piece, text.p + end - piece.n, glob->nocase))
            return false;
        end -= piece.n;
    }
    for (; first < last; first++) {
        size_t at = find_piece(glob->pieces[first], glob->nocase, text, from, end);
        if (at == SIZE_MAX)
            return false;
        from = at + glob->pieces[first].n;
    }
    return true;
}

static bool glob_is_equality(const struct rule_atom *glob)
{
    return glob->n_pieces <= 1 && !glob->star_first && !glob->star_last;
}

/* ---- collecting
 * ------------------------------------------------------------------------------------------------ */

struct predicate {
    const struct rule_pattern *pattern; /* NULL: a literal */
    struct bytes literal;
    uint64_t hash;
};

struct pattern_build {
    struct predicate *predicates;
    uint32_t n, cap;
    size_t n_atoms; /* with repetitions */
};

struct pattern_build *pattern_build_new(void)
{
    return calloc(1, sizeof(struct pattern_build));
}

struct pattern_build *pattern_build_free(struct pattern_build *b)
{
    if (b)
        free(b->predicates);
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
    for (uint32_t i = 0; i < b->n; i++) {
        const struct predicate *have = &b->predicates[i];
        if (have->hash == want.hash && same_pattern(have->pattern, want.pattern) &&
            bytes_eq(have->literal, want.literal))
            return i;
    }
    if (b->n == b->cap) {
        uint32_t cap = b->cap ? b->cap * 2 : 16;
        struct predicate *more = realloc(b->predicates, cap * sizeof *more);
        if (!more)
            return UINT32_MAX;
        b->predicates = more;
        b->cap = cap;
    }
    b->predicates[b->n] = want;
    b->n_atoms += want.pattern ? want.pattern->n_atoms : 1;
    return b->n++;
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

/* ---- making the set
 * -------------------------------------------------------------------------------------------- */

struct maker {
    struct pattern_set *s;
    uint32_t *slots, n_slots; /* atoms by content, while making */
    uint32_t (*uses)[2];      /* (atom, predicate) pairs */
    uint32_t n_uses;
    struct automaton_literal *literals;
    uint32_t n_literals, cap_literals;
    uint8_t **stores; /* literal bytes of regexes */
    uint32_t n_stores;
};

static void classify_glob(struct atom *a)
{
    const struct rule_atom *g = a->source;
    a->nocase = g->nocase;
    uint32_t best = 0;
    for (uint32_t i = 1; i < g->n_pieces; i++)
        if (g->pieces[i].n > g->pieces[best].n)
            best = i;
    a->literal = g->n_pieces ? g->pieces[best] : (struct bytes){0};
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
    if (m->n_literals == m->cap_literals) {
        uint32_t cap = m->cap_literals ? m->cap_literals * 2 : 64;
        struct automaton_literal *more = realloc(m->literals, cap * sizeof *more);
        if (!more)
            return -ENOMEM;
        m->literals = more;
        m->cap_literals = cap;
    }
    m->literals[m->n_literals++] = (struct automaton_literal){text, atom};
    return 0;
}

static int index_regex(struct maker *m, uint32_t index, struct error *e)
{
    struct atom *a = &m->s->atoms[index];
    int r = regex_new(&a->regex, a->source->text, a->source->nocase, e);
    if (r < 0)
        return r;
    struct bytes literals[REGEX_ALTERNATIVES];
    uint8_t *store = malloc(a->source->text.n + 1);
    if (!store)
        return -ENOMEM;
    m->stores[m->n_stores++] = store;
    uint32_t n = regex_literals(a->source->text, store, literals, REGEX_ALTERNATIVES);
    for (uint32_t i = 0; i < n; i++)
        if (add_literal(m, literals[i], index) < 0)
            return -ENOMEM;
    if (n == 0)
        m->s->always[m->s->n_always++] = index;
    return 0;
}

static int index_atoms(struct maker *m, struct error *e)
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
            r = index_regex(m, i, e);
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

static int make(struct maker *m, const struct pattern_build *b, size_t *bytes_left, struct error *e)
{
    struct pattern_set *s = m->s;
    size_t n = b->n_atoms + 1;
    m->n_slots = s->n_equal_slots = table_size(n);
    m->slots = calloc(m->n_slots, sizeof *m->slots);
    m->uses = calloc(n, sizeof *m->uses);
    m->stores = calloc(n, sizeof *m->stores);
    s->atoms = calloc(n, sizeof *s->atoms);
    s->preds = calloc(n, sizeof *s->preds);
    s->always = calloc(n, sizeof *s->always);
    s->equal = calloc(s->n_equal_slots, sizeof *s->equal);
    if (!m->slots || !m->uses || !m->stores || !s->atoms || !s->preds || !s->always || !s->equal)
        return -ENOMEM;
    s->n_predicates = b->n;
    for (uint32_t i = 0; i < b->n; i++) {
        const struct predicate *p = &b->predicates[i];
        uint32_t atoms = p->pattern ? p->pattern->n_atoms : 1;
        for (uint32_t j = 0; j < atoms; j++) {
            m->uses[m->n_uses][0] = intern_atom(m, p->pattern ? p->pattern->atoms[j] : NULL, p->literal);
            m->uses[m->n_uses++][1] = i;
        }
    }
    gather_uses(m);
    int r = index_atoms(m, e);
    if (r < 0)
        return r;
    r = automaton_init(&s->automaton, m->literals, m->n_literals, *bytes_left);
    if (r == 0)
        *bytes_left -= automaton_bytes(&s->automaton);
    return r;
}

int pattern_set_new(struct pattern_set **ret, const struct pattern_build *b, size_t *bytes_left,
                    struct error *e)
{
    struct maker m = {.s = calloc(1, sizeof *m.s)};
    if (!m.s)
        return error_set(e, -ENOMEM, "out of memory");
    int r = make(&m, b, bytes_left, e);
    for (uint32_t i = 0; i < m.n_stores; i++)
        free(m.stores[i]);
    free(m.stores);
    free(m.slots);
    free(m.uses);
    free(m.literals);
    if (r < 0) {
        pattern_set_free(m.s);
        if (r == -E2BIG)
            error_set(e, r, "the rules' patterns need automata larger than all of them may take together");
        else if (r == -ENOMEM)
            error_set(e, r, "out of memory");
        return r;
    }
    *ret = m.s;
    return 0;
}

struct pattern_set *pattern_set_free(struct pattern_set *s)
{
    if (!s)
        return NULL;
    for (uint32_t i = 0; s->atoms && i < s->n_atoms; i++)
        regex_free(s->atoms[i].regex);
    automaton_release(&s->automaton);
    free(s->atoms);
    free(s->preds);
    free(s->equal);
    free(s->always);
    free(s);
    return NULL;
}

uint32_t pattern_set_predicates(const struct pattern_set *s)
{
    return s->n_predicates;
}

uint32_t pattern_set_words(const struct pattern_set *s)
{
    return (s->n_predicates + 63) / 64;
}

uint32_t pattern_set_atoms(const struct pattern_set *s)
{
    return s->n_atoms;
}

/* ---- matching
 * -------------------------------------------------------------------------------------------------- */

int pattern_scratch_init(struct pattern_scratch *s, uint32_t atoms_max)
{
    struct pattern_scratch made = {.n_words = atoms_max / 64 + 1};
    made.tried = calloc(made.n_words, sizeof *made.tried);
    if (!made.tried || regex_scratch_init(&made.regex) < 0) {
        free(made.tried);
        return -ENOMEM;
    }
    *s = made;
    return 0;
}

void pattern_scratch_release(struct pattern_scratch *s)
{
    if (s->tried)
        regex_scratch_release(&s->regex);
    free(s->tried);
    *s = (struct pattern_scratch){0};
}

static void set_bits(const struct pattern_set *s, const struct atom *a, uint64_t *row)
{
    for (uint32_t i = 0; i < a->n_preds; i++) {
        uint32_t pred = s->preds[a->preds_at + i];
        row[pred / 64] |= 1ull << (pred % 64);
    }
}

/* A literal of atom `index` ends at `end`: does the atom hold? */
static void candidate(const struct pattern_set *s, struct pattern_scratch *scratch, uint32_t index,
                      size_t end, struct bytes text, uint64_t *row)
{
    const struct atom *a = &s->atoms[index];
    uint64_t *tried = &scratch->tried[index / 64], bit = 1ull << (index % 64);
    if (*tried & bit)
        return;
    if (a->kind != ATOM_GLOB && a->kind != ATOM_REGEX) {
        size_t start = end - a->literal.n;
        bool at_start = start == 0, at_end = end == text.n;
        if ((a->kind == ATOM_PREFIX && !at_start) || (a->kind == ATOM_SUFFIX && !at_end) ||
            (a->kind == ATOM_WHOLE && !(at_start && at_end)))
            return;
        if (!a->nocase && memcmp(text.p + start, a->literal.p, a->literal.n) != 0)
            return;
        *tried |= bit;
        set_bits(s, a, row);
        return;
    }
    *tried |= bit; /* once a text: where the literal stands does not matter */
    if (a->kind == ATOM_GLOB ? pattern_glob(a->source, text) : regex_search(a->regex, &scratch->regex, text))
        set_bits(s, a, row);
}

void pattern_set_match(const struct pattern_set *s, struct pattern_scratch *scratch, struct bytes text,
                       uint64_t *row)
{
    memset(row, 0, pattern_set_words(s) * sizeof *row);
    memset(scratch->tried, 0, (s->n_atoms / 64 + 1) * sizeof *scratch->tried);

    for (uint32_t i = (uint32_t)hash_bytes(text, 0) & (s->n_equal_slots - 1); s->equal[i] != 0;
         i = (i + 1) & (s->n_equal_slots - 1)) {
        const struct atom *a = &s->atoms[s->equal[i] - 1];
        if (bytes_eq(a->literal, text))
            set_bits(s, a, row);
    }
    for (uint32_t i = 0; i < s->n_always; i++) {
        const struct atom *a = &s->atoms[s->always[i]];
        if (a->kind == ATOM_ANY || regex_search(a->regex, &scratch->regex, text))
            set_bits(s, a, row);
    }
    const struct automaton *automaton = &s->automaton;
    if (automaton->n_nodes <= 1)
        return;
    for (size_t at = 0, node = 0; at < text.n; at++) {
        node = automaton_step(automaton, (uint32_t)node, text.p[at]);
        for (size_t n = node; n != 0; n = automaton->suffix[n])
            for (uint32_t o = automaton->output[n]; o != AUTOMATON_END; o = automaton->outputs[o].next)
                candidate(s, scratch, automaton->outputs[o].tag, at + 1, text, row);
    }
}
