/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Evaluating what is left of the rules once a walk has its state: texts, attributes, `when`.
 *
 * It runs on the tree itself and notes every primitive thing it reads ("function of the frame in register 3",
 * "the capture of it by regex 7", "resource attribute 2") with the value it got. Given the state, the same
 * values lead to the same next read, so those notes are a path in a decision tree (outcomes.c), and
 * evaluation happens once a path.
 */
#ifndef RULES_MATCH_EVAL_H
#define RULES_MATCH_EVAL_H

#include "rules/match/parts.h"

struct eval {
    struct rules_matcher *m;
    const struct rules_verdict *v;
    const struct rules_asker *asker;
    const uint32_t *state; /* its words */
    struct frame_eval
        *pure;        /* set: bare fields are this frame's and nothing is noted (columns of frame tables) */
    uint32_t row_reg; /* bare fields are this register's frame: a row's deciding frame */
    uint32_t each_frame; /* `frame` */
    bool each_is_type;   /* … of which only the type is known: */
    uint32_t each_type;
    struct eval_note {
        uint32_t spec, value;
    } * notes;
    uint32_t n_notes, cap_notes;
    enum rules_level level;
};

static inline void eval_init(struct eval *e, struct rules_matcher *m, const struct rules_verdict *v,
                             const struct rules_asker *asker)
{
    *e = (struct eval){.m = m, .v = v, .asker = asker, .row_reg = MATCH_NO_REG};
    e->state = v ? tuples_get(&m->states, v->state) : NULL;
}
void eval_release(struct eval *e);

bool eval_sample(struct eval *e, const struct rule_sample *s);
uint32_t eval_text(struct eval *e, const struct rule_text *text); /* a string number, RULES_NONE for none */

/* The row that took the stack and the register of its deciding frame (MATCH_NO_REG for else); LOWER_NONE
 * without one. */
uint32_t eval_table(struct eval *e, uint32_t table, uint32_t *ret_reg);

/* Reads what a note's spec names, again. */
uint32_t eval_read(struct eval *e, uint32_t spec);

/* The one thing that the spec's value is a function of; where there are several, the spec itself. */
struct cue eval_cue_of(const struct rules_matcher *m, uint32_t spec);

/* The frame a register stands for. */
static inline uint32_t eval_frame(const struct eval *e, uint32_t reg)
{
    return reg == MATCH_REG_EACH ? e->each_frame : e->v->registers[reg].frame;
}

#endif
