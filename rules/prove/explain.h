/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why a rule took a sample: which conditions held, by which frames, and which rows of which tables gave its
 * labels. For people: asked of one stack at a time, not fast.
 */
#ifndef RULES_PROVE_EXPLAIN_H
#define RULES_PROVE_EXPLAIN_H

#include "rules/match/match.h"
#include "rules/program/program.h"

/* A sample that was walked. */
struct rules_explained {
    struct rules_matcher *matcher;
    const struct rules_verdict *verdict;
    const struct rules_asker *asker;
    const uint32_t *frames; /* the caller's numbers, leaf first */
    uint32_t n_frames;
};

struct rules_because {
    const struct rule_sample *condition; /* it holds */
    uint32_t position; /* the frame that makes it hold, from 0 at the leaf; RULES_NONE: none alone */
};

/* The conditions that together make `where` fail (it must): of an `and` those that do, of an `or` all; of a
 * `not` the condition in it, which holds. `position`: the frame that was asked and is not so, or is where it
 * must not be. At most `max`; returns how many. */
uint32_t rules_explain_not(const struct rules_explained *x, const struct rule_sample *where,
                           struct rules_because *ret, uint32_t max);

/* Why an entry of a source was made, one reason after the other: what counts each frame, the conditions of
 * `where`, the rows of tables. */
struct rules_reason {
    const char *what;  /* "each", "where" or "table" */
    struct bytes text; /* the definition's name, or what stands there; until the call is over */
    struct rule_place place;
    uint32_t position; /* the frame that decided; RULES_NONE: none alone */
};
typedef void rules_reason_told(void *context, const struct rules_reason *reason);
void rules_reasons(const struct rules_explained *x, const struct rules_program *p, const struct rule_set *set,
                   const struct rule_source *source, rules_reason_told *tell, void *context);
/* Those of a `where` alone. */
void rules_reasons_where(const struct rules_explained *x, const struct rule_set *set,
                         const struct rule_sample *where, rules_reason_told *tell, void *context);

/* Whether the source is in a set of rules_matcher_active: whether its `on` takes the profile. */
bool rules_is_active(const struct rules_explained *x, uint32_t active, uint32_t source);

/* Whether `where` or a label of the source asks this table. */
bool rules_source_asks(const struct rule_source *source, const struct rule_table *table);

#endif
