/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which sources a profile feeds, and what a sample of it weighs: the language's `on` and `value`
 * (LANGUAGE §4).
 */
#ifndef RULES_MATCH_WEIGH_H
#define RULES_MATCH_WEIGH_H

#include "rules/match/match.h"

/* What `on` and `value` want to know of a profile. */
struct rules_profile {
    struct bytes type, unit, period_unit; /* empty where absent */
    int64_t period;
};

/* How its samples become time: Σ values × factor, or samples × factor nanoseconds, or not at all. `limit` is
 * the largest sum whose product still fits 63 bits. */
struct rules_time {
    enum { RULES_TIME_NONE, RULES_TIME_VALUES, RULES_TIME_SAMPLES } how;
    int64_t factor, limit;
};
struct rules_time rules_time_of(const struct rules_profile *p);

/* Decides for a group of siblings (profiles of one scope with equal time, duration and id; often just one)
 * which sources each feeds: mask bits are set for profile i in masks[i × rules_program_mask_words()]. A
 * `kind` takes, of the siblings it matches, those of the first TYPE/UNIT that suits the value, so that
 * nothing counts twice. */
void rules_matcher_choose(struct rules_matcher *m, const struct rules_profile *group, uint32_t n,
                          uint64_t *masks);

/* The same for a profile without siblings, as an active set (rules_matcher_active), remembered. RULES_NONE:
 * no memory. */
uint32_t rules_matcher_choose_one(struct rules_matcher *m, const struct rules_profile *p);

#endif
