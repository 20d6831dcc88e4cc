/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inside of a pattern set: made by build.c, asked by pattern.c.
 */
#ifndef RULES_PATTERN_PARTS_H
#define RULES_PATTERN_PARTS_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/bytes.h"
#include "rules/pattern/automaton.h"
#include "rules/pattern/regex_match.h"
#include "rules/tree/tree.h"

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

#endif
