/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the tests that rule files carry (LANGUAGE §7): each builds one profile and runs its own pack's rules
 * over it, through the same matcher as the gateway.
 */
#ifndef RULES_PROVE_RUN_TESTS_H
#define RULES_PROVE_RUN_TESTS_H

#include <stdint.h>

#include "rules/source/diagnostic.h"
#include "rules/tree/tree.h"

/* Runs the tests of the set. *ret_failures gets one diagnostic (E110) a failed test and is the caller's to
 * release; *ret_run is how many ran. 0, or -ENOMEM (then *ret_failures is empty). */
int rules_run_tests(const struct rule_set *set, struct rules_diagnostics *ret_failures, uint32_t *ret_run);

#endif
