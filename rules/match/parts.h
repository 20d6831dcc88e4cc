/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inside of a matcher: its parts, each of which knows those above it here and none below. Beside match.c
 * it is for who explains what a matcher did (rules/prove), and for tests.
 */
#ifndef RULES_MATCH_PARTS_H
#define RULES_MATCH_PARTS_H

#include "rules/match/automaton.h"
#include "rules/match/eval.h"
#include "rules/match/frames.h"
#include "rules/match/kept.h"
#include "rules/match/memory.h"
#include "rules/match/outcomes.h"
#include "rules/match/paths.h"
#include "rules/match/reads.h"
#include "rules/match/states.h"
#include "rules/match/strings.h"
#include "rules/match/walk.h"

struct rules_matcher {
    const struct rules_program *p;
    struct match_memory memory;
    struct match_strings strings;
    struct match_frames frames;
    struct match_walk walk;
    struct match_automaton automaton;
    struct match_states states;
    struct match_reads reads;
    struct match_paths paths;
    struct match_outcomes outcomes;
    struct match_kept kept;
    uint32_t epoch;
    uint64_t resets;
};

/* An evaluation of rules on a walked sample. Release with eval_release(). */
static inline void matcher_eval(struct eval *e, struct rules_matcher *m, const struct rules_verdict *v,
                                const struct rules_asker *asker)
{
    eval_init(e, &m->reads, m->automaton.found, v, asker);
}

#endif
