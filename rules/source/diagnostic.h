/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is wrong, or probably not meant, in rule files: what the front end gives back besides the tree, and
 * what a failed test is told in.
 */
#ifndef RULES_SOURCE_DIAGNOSTIC_H
#define RULES_SOURCE_DIAGNOSTIC_H

#include <stdbool.h>
#include <stdint.h>

#include "rules/tree/tree.h"

struct rules_diagnostic {
    char code[8]; /* "E101", "W202" */
    bool warning;
    struct rule_place place;
    const char *file;
    char *text; /* the whole diagnostic as printed, several lines, '\n'-terminated; malloc'd */
};

/* All zero: none. n_errors also counts errors of a file beyond those that are kept of it, n_untold its
 * warnings beyond. */
struct rules_diagnostics {
    struct rules_diagnostic *items;
    uint32_t n, n_errors, n_untold, room;
};

/* Puts one at the end; its text is then the list's. 0, or -ENOMEM with nothing changed. Does not count
 * errors. */
int rules_diagnostics_add(struct rules_diagnostics *d, const struct rules_diagnostic *item);

void rules_diagnostics_release(struct rules_diagnostics *d);

#endif
