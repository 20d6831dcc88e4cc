/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of rule files leave untried: rows of tables, and named patterns in conditions about frames,
 * that no test's stack meets (W210). Of what metrics and keep rules of tested packs ask; a definition that
 * nothing uses is not seen.
 */
#ifndef RULES_PROVE_COVERAGE_H
#define RULES_PROVE_COVERAGE_H

#include "rules/source/diagnostic.h"
#include "rules/tree/tree.h"

/* Runs the tests of the set once more and appends a warning for each such row and pattern to *found, in the
 * order of files and lines. 0 or -ENOMEM. */
int rules_warn_untested(const struct rule_set *set, struct rules_diagnostics *found);

#endif
