/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A table's cells, and the table itself, as they are in one combination of what its rows ask of the sample
 * (expand.h): without `when`s, and without the sample's texts.
 *
 * What a cell takes from the sample is only needed as an answer: does it meet the condition that is written
 * out? The answer is an atom like any other (expand_guard.h), and in the cell's place stands a text that
 * meets the condition, or none, which does not.
 */
#ifndef RULES_RESOLVE_EXPAND_CELL_H
#define RULES_RESOLVE_EXPAND_CELL_H

#include "rules/resolve/expand_guard.h"

/* Adds what column `column` of a table without `over` asks of the sample when condition `f` (MATCH or EQUAL)
 * is asked of it. False with E130, or as guards_collect. */
bool cell_collect(struct guards *g, const struct rule_table *t, uint32_t column, const struct rule_frame *f);

/* `f` in the present combination; its field is a column of a dependent table. NULL: memory is out. */
const struct rule_frame *cell_condition(struct guards *g, const struct rule_frame *f);

#endif
