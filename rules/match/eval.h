/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Evaluating what is left of the rules once a walk has its state: texts, attributes, `when`. It runs on the
 * tree itself and notes every primitive read with the value it got.
 */
#ifndef RULES_MATCH_EVAL_H
#define RULES_MATCH_EVAL_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/vec.h"
#include "rules/match/reads.h"
#include "rules/match/walk.h"

struct eval {
    const struct rules_program *p;
    struct match_memory *memory;
    struct match_reads *reads;
    struct reading at;
    const uint32_t *state; /* its words */
    uint32_t row_reg;      /* bare fields are this register's frame: a row's deciding frame */
    bool each_is_type;     /* of `frame` only the type is known: */
    uint32_t each_type;
    VEC(struct read_note) notes;
};

/* Of one sample: its walk's verdict, those words of its state that will be looked at, and whom to ask. */
void eval_init(struct eval *e, struct match_reads *reads, const uint32_t *state,
               const struct rules_verdict *v, const struct rules_asker *asker);
void eval_release(struct eval *e);

/* Neither says that memory ran out: ask reads->memory->error. */
bool eval_sample(struct eval *e, const struct rule_sample *s);
uint32_t eval_text(struct eval *e, const struct rule_text *text); /* a string number, RULES_NONE for none */

/* The row that took the stack and the register of its deciding frame (MATCH_NO_REG for else); LOWER_NONE
 * without one. */
uint32_t eval_table(struct eval *e, uint32_t table, uint32_t *ret_reg);

#endif
