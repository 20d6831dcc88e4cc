/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the `keep` and `drop` rules say of a sample (keep.h), found as outcomes are and beside them.
 */
#ifndef RULES_MATCH_KEPT_H
#define RULES_MATCH_KEPT_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/idmap.h"
#include "proto/base/vec.h"
#include "rules/match/keep.h"
#include "rules/match/memory.h"
#include "rules/match/paths.h"
#include "rules/match/shapes.h"
#include "rules/match/tuples.h"
#include "rules/match/states.h"
#include "rules/match/weigh.h"

struct match_kept {
    const struct rules_program *p;
    struct match_memory *memory;
    struct match_strings *strings;
    const struct match_states *states;
    struct match_paths *paths;
    struct tuples actives; /* sets of keep rules, a bit each */
    struct idmap alone;    /* type, unit and facts → active */
    struct idmap roots;    /* active, state → path */
    uint32_t generation;   /* of the states that the roots are of */
    VEC(struct rules_kept) kept;
    VEC(struct rules_kept_rate) rates;
};

/* As match_strings_init; it has nothing to fail with. */
void match_kept_init(struct match_kept *x, struct match_states *states, struct match_paths *paths);
void match_kept_clear(struct match_kept *x); /* forgets all: it knows strings and paths by number */
bool match_kept_full(const struct match_kept *x);

/* The set of keep rules whose `on` takes such a profile. RULES_NONE: no memory. */
uint32_t match_kept_active(struct match_kept *x, const struct rules_profile *p);

/* What the active rules say of a sample on this stack; its place in `kept`. RULES_NONE: no memory. */
uint32_t match_kept_find(struct match_kept *x, const struct rules_verdict *v, uint32_t active,
                         const struct rules_asker *asker);

#endif
