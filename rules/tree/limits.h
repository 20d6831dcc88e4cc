/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bounds of the language (rules/LANGUAGE.md §9): what the front end lets through, and what is behind it may
 * rely on.
 */
#ifndef RULES_TREE_LIMITS_H
#define RULES_TREE_LIMITS_H

#define RULES_FILE_MAX       (1u << 20)
#define RULES_STATEMENTS_MAX 4096u
#define RULES_ATOMS_MAX      50000u
#define RULES_REGEX_MAX      1024u
#define RULES_NESTING_MAX    32u
#define RULES_ROWS_MAX       1024u
#define RULES_COLUMNS_MAX    8u
#define RULES_WRITTEN_MAX    1024u /* parts of a text, conditions about a sample: with all that they name */
#define RULES_ERRORS_MAX     20u

#endif
