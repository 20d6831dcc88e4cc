/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stack automaton: one walk from leaf to root answers every region, fact, chain and table at once.
 */
#ifndef RULES_MATCH_WALK_H
#define RULES_MATCH_WALK_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/vec.h"
#include "rules/match/frames.h"
#include "rules/match/memory.h"
#include "rules/match/shapes.h"
#include "rules/match/tuples.h"

#define RULES_CELLS_MAX (1u << 22)  /* of the table, 4 bytes each; it is emptied at once when full */
#define MATCH_DENSE_MAX 4096u       /* frame classes that have a column in the table */
#define MATCH_PUSH      0x80000000u /* an action that appends the frame to the list of an `each` */

/* The registers a transition sets are written four at a time, without asking how many there are: `set` names
 * the last one again, or a spare register when there is none. */
#define MATCH_SETS 4u
struct transition {
    uint32_t next, row; /* the state and where its cells begin */
    uint32_t set[MATCH_SETS];
    uint32_t actions, n_actions; /* all of them, for a slow transition */
    bool absorbing;              /* the next state is */
    bool slow;                   /* more than MATCH_SETS actions, or one is a MATCH_PUSH */
};

/* For whoever finds things by state: zero in a state that is new. */
struct state_mark {
    uint32_t a, b;
};

/* A frame that an `each` took. */
struct list_item {
    uint32_t each, frame, position;
};

struct match_walk {
    const struct rules_program *p;
    struct match_memory *memory;
    const struct match_frames *frames;

    struct tuples states;
    uint32_t n_state_words;
    VEC(uint32_t) cells; /* [state × stride + 1 + class]; the first of a row is RULES_MANY's */
    uint32_t stride;
    VEC(uint8_t) absorbing;       /* [state] no frame can change what it says */
    VEC(struct state_mark) marks; /* [state] */
    VEC(struct transition) transitions;
    VEC(uint32_t) actions;
    VEC(struct list_item) list; /* of the last walk */
    uint32_t generation;        /* how often the table was emptied: then states have new numbers */

    /* one step being computed: the state, what it does, and whether the frame is in each region */
    uint32_t *words, *step_actions, n_step_actions;
    uint8_t *in_region;
};

/* As match_strings_init. */
int match_walk_init(struct match_walk *w, const struct match_frames *frames);
void match_walk_clear(struct match_walk *w); /* forgets all: it knows frame classes by number */
void match_walk_release(struct match_walk *w);

/* Walks one stack. False when it has no frames or memory is out. */
bool match_walk_stack(struct match_walk *w, const struct rules_stack *stack, struct rules_verdict *v);

#endif
