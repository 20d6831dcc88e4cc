/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/pattern/pattern.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/hash.h"
#include "rules/pattern/parts.h"

/* ---- globs ----------------------------------------------------------------------------------- */

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

uint32_t pattern_set_words(const struct pattern_set *s)
{
    return (s->n_predicates + 63) / 64;
}

uint32_t pattern_set_atoms(const struct pattern_set *s)
{
    return s->n_atoms;
}

/* ---- matching -------------------------------------------------------------------------------- */

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
    uint32_t state = 0;
    for (size_t at = 0; at < text.n; at++) {
        state = automaton_step(automaton, state, text.p[at]);
        if (likely(!automaton_hits(state)))
            continue;
        for (uint32_t n = automaton_node(automaton, state); n != 0; n = automaton->suffix[n])
            for (uint32_t o = automaton->output[n]; o != AUTOMATON_END; o = automaton->outputs[o].next)
                candidate(s, scratch, automaton->outputs[o].tag, at + 1, text, row);
    }
}
