/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What walks found, numbered: equal states, equal number, so that outcomes are found by it. Part by part of
 * the sources: states.c says why.
 */
#ifndef RULES_MATCH_STATES_H
#define RULES_MATCH_STATES_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/hash_table.h"
#include "proto/base/vec.h"
#include "rules/match/memory.h"
#include "rules/match/shapes.h"
#include "rules/match/automaton.h"

#define MATCH_SPLIT          4096u  /* states of a part that can come apart */
#define MATCH_SPLIT_OUTCOMES 2048u  /* outcomes of such a one that are new … */
#define MATCH_SPLIT_FADES    256u   /* … of which, at each begin, one in so many is forgotten */
#define MATCH_STATES_MAX     65000u /* of all parts together; a state's number has 16 bits */

/* For whoever finds things by state: zero in a state that is new. */
struct state_mark {
    uint32_t a, b;
};

/* Some of the sources. */
struct states_part {
    uint32_t n_elements;      /* sources, and what is kept */
    uint32_t n_outcomes;      /* made of its states of late */
    uint32_t n_states, loose; /* loose: walks whose state got no number */
    uint32_t *needs;          /* [need_words] the components its sources are made of */
    uint64_t *mask;           /* [n_words] their bits */
    uint32_t *used, n_used;   /* the words of the mask that are not 0 */
    VEC(uint64_t) words;      /* [(state - 1) × n_used] */
    struct hash_table table;
    VEC(struct state_mark) marks; /* [state] */
};

struct match_states {
    const struct rules_program *p;
    struct match_memory *memory;
    struct match_automaton *automaton;
    struct states_part parts[RULES_PARTS_MAX];
    uint32_t n_parts, n_states;               /* of all parts */
    uint32_t n_words;                         /* of a state, 64 bits each */
    uint8_t *part_of;                         /* [source], and last of what is kept */
    uint32_t component[LOWER_COMPONENTS + 1]; /* the first of a kind */
    struct states_part *full;                 /* that has to come apart */
    uint32_t generation;                      /* how often states got new numbers */
    uint64_t *keys;                           /* [n_words] for hashing, odd */
};

/* As match_strings_init. */
int match_states_init(struct match_states *x, struct match_automaton *automaton);
void match_states_clear(struct match_states *x); /* forgets all */
void match_states_release(struct match_states *x);

/* A request begins: forgets what seems to be of yesterday. */
void match_states_begin(struct match_states *x);

/* One more outcome was made of a state of this part: when they become many, it comes apart. */
void match_states_outcome(struct match_states *x, uint32_t part);

/* The numbers of what the last walk found, 0 where there is no room for more. False when memory is out. */
bool match_states_look(struct match_states *x, struct rules_verdict *v);
static inline bool match_states_find(struct match_states *x, struct rules_verdict *v)
{
    const struct match_automaton *a = x->automaton;
    if (likely(a->state != 0 && x->n_parts == 1 && a->numbers.p[a->state] != 0 && !x->full)) {
        v->state[0] = a->numbers.p[a->state];
        v->generation = x->generation;
        return true;
    }
    return match_states_look(x, v);
}

#endif
