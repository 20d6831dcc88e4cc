/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the `keep` and `drop` rules (LANGUAGE §5) say of a sample: how likely it is to be kept, by which
 * rule, and which rates may take it. Whoever forwards profiles makes the decision: of the numbers here, with
 * a seeded hash.
 *
 *     active  = rules_matcher_keep_active(m, profile)          once a profile
 *     walked  = rules_matcher_walk(m, stack, &verdict)         false: no frames, no rule, not kept
 *     kept    = rules_matcher_kept_at(m, rules_matcher_kept(m, &verdict, active, asker))
 *
 * A sample is kept if it is not dropped and any of these says so:
 *
 *   share[RULE_OF_STACKS]     hash(seed, content of the stack, resource) < share
 *
 *   share[RULE_OF_PROFILES]   hash(seed, profile id) < the largest such share among the profile's samples:
 *                             then every sample of the profile that is not dropped is kept with it
 *
 *   share[RULE_OF_SAMPLES]    hash(seed, stack, resource, time) < share
 *
 *   rates                     it is not kept yet, and rule and text have not had their `count` this second
 *                             or minute
 *
 * Hashes of different seeds are independent, so the probability to carry is rules_keep_probability().
 */
#ifndef RULES_MATCH_KEEP_H
#define RULES_MATCH_KEEP_H

#include <stdint.h>

#include "rules/match/shapes.h"
#include "rules/tree/policy.h"

struct rules_kept_rate {
    uint32_t keep; /* of RULE_KEEP_RATE */
    uint32_t by;   /* string number; RULES_NONE: no `by`, or its text is none */
};

struct rules_kept {
    uint32_t dropped; /* the `drop` that took it, or RULES_NONE */
    uint32_t share[RULE_KEEP_OFS],
        keep[RULE_KEEP_OFS]; /* the largest of each basis, in millionths, and whose */
    uint32_t rates, n_rates; /* rules_matcher_kept_rate(rates + i) */
    enum rules_level level;  /* what it depended on: may be remembered as rules_outcome's may */
};

/* The probability that three independent decisions keep it; 0 when dropped. In millionths, rounded.
 * `of_profile` is the profile's largest share[RULE_OF_PROFILES]. */
uint32_t rules_keep_probability(const struct rules_kept *kept, uint32_t of_profile);

#endif
