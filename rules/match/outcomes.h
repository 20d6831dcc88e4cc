/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Outcomes: what a sample adds to, found by the state of its walk, the sources its profile feeds, and what
 * the rules read besides.
 */
#ifndef RULES_MATCH_OUTCOMES_H
#define RULES_MATCH_OUTCOMES_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/idmap.h"
#include "proto/base/vec.h"
#include "rules/match/memory.h"
#include "rules/match/paths.h"
#include "rules/match/reads.h"
#include "rules/match/shapes.h"
#include "rules/match/tuples.h"
#include "rules/match/states.h"
#include "rules/match/weigh.h"

/* Where the decision tree begins for a state and a set of active sources; and its inputs: what any read below
 * it is a function of. */
#define MATCH_INPUTS   8u /* more than the shipped packs ask of any sample */
#define MATCH_TOO_MANY UINT32_MAX
struct root {
    uint32_t node;
    uint32_t tag;      /* a number of its own for these inputs, never 0 */
    uint32_t n_inputs; /* MATCH_TOO_MANY: there would be more */
    struct read input[MATCH_INPUTS];
};

/* Outcomes found recently, by root and what its inputs were; two places each. As many as captures have
 * outcomes, four times over; more when there are more outcomes, as when states came apart and each stack has
 * one a part: without, a quarter of the time of scattered stacks goes to the decision tree. They are worth 25
 * % of the instructions of captures, the second place 12 % of random profiles'; and the root remembered at
 * its state 7 to 14 % of any (bench_classify). */
#define MATCH_RECENT_OUTCOMES 2048u
#define MATCH_RECENT_MANY     16384u
struct recent_outcome {
    uint64_t key; /* of the root and what its inputs were; 0: free */
    uint32_t outcome;
};

struct match_outcomes {
    const struct rules_program *p;
    struct match_memory *memory;
    struct match_states *states;
    struct match_paths *paths;
    struct match_reads *reads;

    struct tuples actives; /* sets of sources, a bit each */
    struct tuples samples; /* what samples say: keys, texts by key, whether they are linked */
    uint32_t *said;        /* one being asked for */
    struct idmap alone;    /* type, unit and facts → active, of profiles without siblings */

    struct idmap roots; /* active, state → its place in `root` */
    VEC(struct root) root;
    uint32_t tags;
    uint32_t generation;                 /* of the walk that the roots' states are of */
    struct recent_outcome *recent, *few; /* [n_recent] a power of two of them: the few, or the many */
    VEC(struct recent_outcome) many;
    uint32_t n_recent;
    uint64_t recent_key; /* secret, odd */

    VEC(struct rules_outcome) outcomes;
    VEC(struct rules_entry) entries;
    VEC(uint32_t) lists;  /* sources that count frames one by one */
    struct tuples series; /* metric, then label name and value, … */

    /* frames counted one by one */
    struct idmap each_roots; /* outcome, source → path */
    VEC(struct rules_entry) frame_entries, all_entries;
    VEC(uint32_t) series_mark; /* [series] the stamp of the stack that had it */
    uint32_t stamp;
};

/* As match_strings_init. */
int match_outcomes_init(struct match_outcomes *o, struct match_states *states, struct match_paths *paths);
void match_outcomes_clear(struct match_outcomes *o); /* forgets all: it knows strings and paths by number */
void match_outcomes_release(struct match_outcomes *o);
bool match_outcomes_full(const struct match_outcomes *o);

/* A request begins: forgets what samples said when that is much. */
void match_outcomes_begin(struct match_outcomes *o);

/* The number of a set of sources; of those that a profile without siblings feeds. RULES_NONE: no memory. */
uint32_t match_outcomes_active(struct match_outcomes *o, const uint64_t *mask);
uint32_t match_outcomes_alone(struct match_outcomes *o, const struct rules_profile *p);

/* The number of what a sample says of these keys; RULES_NONE: no memory. */
uint32_t match_outcomes_sample(struct match_outcomes *o, uint64_t keys, const uint32_t *attrs, bool linked);

static inline struct rules_outcome *match_outcomes_at(struct match_outcomes *o, uint32_t outcome)
{
    return &o->outcomes.p[outcome];
}
static inline const struct rules_entry *match_outcomes_entry(const struct match_outcomes *o, uint32_t entry)
{
    return &o->entries.p[entry];
}

/* What a sample on this stack adds to. False: no memory. */
bool match_outcomes_find(struct match_outcomes *o, const struct rules_verdict *v, uint32_t active,
                         const struct rules_asker *asker, struct rules_found *ret);

/* Right after the walk of a stack and what was found: the entries of its frames that are counted one by one.
 * *ret is valid until the next call; returns how many. */
uint32_t match_outcomes_frames(struct match_outcomes *o, const struct rules_verdict *v, uint32_t outcome,
                               const struct rules_asker *asker, const struct rules_entry **ret);

/* All that a sample adds to, in the order of sources, then of frames. *ret is valid until the next call. */
uint32_t match_outcomes_entries(struct match_outcomes *o, const struct rules_verdict *v,
                                const struct rules_found *found, const struct rules_asker *asker,
                                const struct rules_entry **ret);

#endif
