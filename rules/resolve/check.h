/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a metric's clauses must agree on: kind, value and unit (LANGUAGE §4).
 */
#ifndef RULES_RESOLVE_CHECK_H
#define RULES_RESOLVE_CHECK_H

#include "rules/parse/ast.h"
#include "rules/tree/tree.h"

struct report;

/* The value a source without a `value` clause has. */
enum rule_value check_default_value(bool gauge, bool each);

/* The unit that goes with what a source counts: "s", "By", "1"; "" when the profile's type decides. */
struct bytes check_default_unit(const struct rule_source *source);

/* Reports E121 and E122 of one definition (or `also`); source is resolved. False if there was one. */
bool check_metric(struct report *report, const struct ast_metric *a, const struct rule_source *source,
                  struct bytes unit);

#endif
