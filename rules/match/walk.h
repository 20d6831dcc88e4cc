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

#define MATCH_SPLIT          4096u       /* states of a part that can come apart */
#define MATCH_SPLIT_OUTCOMES 16384u      /* outcomes of such a one */
#define MATCH_PART_CELLS_MAX (1u << 20)  /* of a part, 2 bytes each */
#define MATCH_CELLS_MAX      (1u << 23)  /* of all parts together */
#define MATCH_STATES_MAX     65000u      /* the same; a state's number has 16 bits */
#define MATCH_PUSH           0x80000000u /* an action that appends the frame to the list of an `each` */

/* The registers a transition sets are written four at a time, without asking how many there are: `set` names
 * the last one again, or a spare register when there is none. */
#define MATCH_SETS 4u
struct transition {
    uint32_t row;   /* where the next state's cells begin */
    uint16_t next;  /* the state */
    bool absorbing; /* the next state is */
    bool slow;      /* more than MATCH_SETS actions, or one is a MATCH_PUSH */
    uint16_t set[MATCH_SETS];
};
struct transition_actions {
    uint32_t actions, n; /* all of them, for a slow transition */
};

/* For whoever finds things by state: zero in a state that is new. */
struct state_mark {
    uint32_t a, b;
};

/* A frame that an `each` took, in the walk of a part. */
struct list_item {
    uint32_t part, each, frame, position;
};

/* The columns of a class in a part's table: as any frame's, and as the root's. */
struct class_columns {
    uint16_t column, root;
};

/* An automaton for some of the sources; walk.c says why. */
struct walk_part {
    uint32_t n_elements; /* sources, and what is kept */
    uint32_t n_outcomes; /* made of its states */
    uint32_t *needs;     /* [need_words] the components it follows */
    uint32_t *asks;      /* what it asks of classes: masks, see walk.c */
    bool by_type;        /* it also asks for a frame's type */
    bool of_root;        /* it asks more of the root */

    struct tuples columns;            /* the bits asked of a class: column - 1 */
    VEC(struct class_columns) column; /* [class + 1]; [0] is RULES_MANY's */

    struct tuples states; /* state - 1 */
    VEC(uint16_t) cells;  /* [state × stride + column] */
    uint32_t stride;
    VEC(uint8_t) absorbing;       /* [state] no frame can change what it says */
    VEC(struct state_mark) marks; /* [state] */
    VEC(struct transition) transitions;
    VEC(struct transition_actions) taken; /* [transition] */
    VEC(uint32_t) actions;
    uint32_t *loose; /* the words of state 0 */
    uint32_t loose_steps;
};

struct match_walk {
    const struct rules_program *p;
    struct match_memory *memory;
    const struct match_frames *frames;

    struct walk_part parts[RULES_PARTS_MAX];
    uint32_t n_parts;
    uint8_t *part_of; /* [source], and last of what is kept */
    uint32_t n_state_words;
    uint32_t n_classes;                       /* that have columns */
    uint32_t n_states, n_cells;               /* of all parts */
    uint32_t component[LOWER_COMPONENTS + 1]; /* the first of a kind */
    bool is_started, is_direct;               /* is_direct: classes are columns, see walk.c */
    struct walk_part *full;                   /* that has to come apart */

    VEC(struct list_item) list; /* of the last walk */
    uint32_t generation;        /* how often states got new numbers */
    uint64_t steps;             /* computed, because no table said them */

    /* one step being computed: the state, what it does, and whether the frame is in each region */
    uint32_t *words, *step_actions, n_step_actions;
    uint32_t *class;
    uint8_t *in_region;
};

/* As match_strings_init. */
int match_walk_init(struct match_walk *w, const struct match_frames *frames);
void match_walk_clear(struct match_walk *w); /* forgets all: it knows frame classes by number */
void match_walk_release(struct match_walk *w);

/* A request begins: forgets what seems to be of yesterday. */
void match_walk_begin(struct match_walk *w);

/* One more outcome was made of a state of this part: when they become many, it comes apart. */
void match_walk_outcome(struct match_walk *w, uint32_t part);

/* The words of the state that the last walk ended in: those that the sources of a part look at, or all. Valid
 * until the next walk. */
const uint32_t *match_walk_words(const struct match_walk *w, const struct rules_verdict *v, uint32_t part);
const uint32_t *match_walk_whole(const struct match_walk *w, const struct rules_verdict *v);

/* Walks one stack. False when it has no frames or memory is out. */
bool match_walk_stack(struct match_walk *w, const struct rules_stack *stack, struct rules_verdict *v);

#endif
