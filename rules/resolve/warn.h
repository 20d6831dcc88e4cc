/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is allowed and probably not meant: the warnings W201 … W213 (rules/LANGUAGE.md §10).
 */
#ifndef RULES_RESOLVE_WARN_H
#define RULES_RESOLVE_WARN_H

#include "rules/parse/ast.h"
#include "rules/source/report.h"
#include "rules/tree/tree.h"

/* Those that the written file shows. */
void warn_pack(struct report *report, const struct ast_pack *pack);

/* W201: rows that the ones above leave nothing for. */
void warn_table(struct report *report, const struct rule_table *table);

#endif
