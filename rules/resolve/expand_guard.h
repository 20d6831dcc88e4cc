/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a dependent condition (expand.h) asks of the sample, taken apart: atoms, which are conditions without
 * `and`, `or` and `not`, and the combinations of their answers that can be.
 */
#ifndef RULES_RESOLVE_EXPAND_GUARD_H
#define RULES_RESOLVE_EXPAND_GUARD_H

#include "rules/resolve/resolve.h"

/* More than can be combined anyhow, but for many values of one text. */
#define GUARD_ATOMS_MAX 64u

struct guards {
    struct resolver *r;
    const struct rule_sample *atoms[GUARD_ATOMS_MAX]; /* not negated */
    bool value[GUARD_ATOMS_MAX];                      /* of the present combination */
    uint32_t n;
    uint32_t visits; /* nodes looked at: definitions may use each other over and over */
    bool too_many;
    bool is_settled; /* all are collected, and not too many: nothing gives up any more */
};

/* Adds what a condition asks. False: there are too many, or memory is out. */
bool guards_collect(struct guards *g, const struct rule_sample *s);

/* Whether it holds in the present combination; all it asks has been collected. */
bool guards_hold(struct guards *g, const struct rule_sample *s);

/* The first combination is as `value` is zeroed; false: there is no other. */
bool guards_next(struct guards *g);

/* The present combination as a condition; `and` what else (NULL: nothing). NULL: out of memory, or there are
 * neither atoms nor anything else. */
const struct rule_sample *guards_condition(struct guards *g, const struct rule_sample *and,
                                           struct rule_place place);

/* One more node was looked at; false when it is time to give up, or memory is out. */
bool guards_visit(struct guards *g);

#endif
