/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tokens to an ast_pack (ast.h): recursive descent by the grammar of rules/LANGUAGE.md §3, nesting bounded,
 * errors reported and recovered from at statement and clause words.
 */
#ifndef RULES_PARSE_PARSE_H
#define RULES_PARSE_PARSE_H

#include "proto/base/arena.h"
#include "rules/parse/ast.h"

struct report;
struct tokens;

/* 0: *ret_pack holds what could be read, and the report what could not. 1: the file has no usable header,
 * nothing of it can be read. -ENOMEM. Nodes live in `ast`; strings and atoms in `keep`, those of tests in
 * `tests`. */
int parse(const struct rule_file *file, uint16_t number, const struct tokens *tokens, struct report *report,
          struct ast_totals *totals, struct arena *ast, struct arena *keep, struct arena *tests,
          struct ast_pack *ret_pack);

#endif
