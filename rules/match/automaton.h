/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walks remembered: an automaton over what a walk has found and the classes of frames, built as stacks ask
 * for it. Nearly every frame of a stack as programs make them is a step that was taken before.
 */
#ifndef RULES_MATCH_AUTOMATON_H
#define RULES_MATCH_AUTOMATON_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/vec.h"
#include "rules/match/memory.h"
#include "rules/match/shapes.h"
#include "rules/match/tuples.h"
#include "rules/match/walk.h"

#define MATCH_WALKED_MAX 4096u      /* states */
#define MATCH_CELLS_MAX  (1u << 20) /* 2 bytes each */

/* The registers a transition sets are written four at a time, without asking how many there are: `set` names
 * the last one again, or a spare register when there is none. */
#define MATCH_SETS 4u
struct transition {
    uint32_t row;  /* where the next state's cells begin */
    uint16_t next; /* the state */
    bool slow;     /* more than MATCH_SETS registers, or a frame that goes to a list */
    uint16_t set[MATCH_SETS];
};
struct transition_actions {
    uint32_t registers, n; /* all of them, for a slow transition */
    bool lists;            /* the frame goes to a list: it is walked again */
};

struct match_automaton {
    const struct rules_program *p;
    struct match_memory *memory;
    struct match_walk *walk;
    bool of_root; /* the root's class is asked more than others': it has columns of its own */

    struct tuples states;     /* a saved walk: state - 1 */
    VEC(uint16_t) cells;      /* [state × stride + column] */
    uint32_t stride, classes; /* classes: how many there are columns for */
    VEC(struct transition) transitions;
    VEC(struct transition_actions) taken; /* [transition] */
    VEC(uint32_t) registers;
    VEC(uint16_t) numbers; /* [state] for states.c: while there is one part, its number; 0: not known */
    uint32_t *saved;       /* [walk's n_saved] */
    struct rules_register *scratch; /* [registers + 1] */
    uint64_t left, left_max; /* walks that it did not know to the end; how many, until it is made anew */

    uint32_t state;        /* that the last walk ended in; 0: none, or it was not known to the end */
    const uint32_t *found; /* what the last walk found: bits as rules/program/lowered.h has them */
};

/* As match_strings_init. */
int match_automaton_init(struct match_automaton *a, struct match_walk *walk);
void match_automaton_clear(struct match_automaton *a); /* forgets all: it knows frame classes by number */
void match_automaton_release(struct match_automaton *a);

/* A request begins: forgets what seems to be of yesterday. */
void match_automaton_begin(struct match_automaton *a);

/* Walks one stack: `found`, the walk's list and the registers say what was found, until the next. False when
 * it has no frames or memory is out. */
bool match_automaton_walk(struct match_automaton *a, const struct rules_stack *stack,
                          struct rules_register *registers);

#endif
