/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A row's cells against its table's columns: asked where both are read, and of `extend`, whose table only the
 * resolver knows.
 */
#ifndef RULES_PARSE_CELLS_H
#define RULES_PARSE_CELLS_H

#include "rules/parse/ast.h"

struct report;

/* Whether the row has as many cells as the table has columns; if not, E104 is reported. */
bool cells_fit(const struct ast_table *table, const struct ast_row *row, struct report *report);

#endif
