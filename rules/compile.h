/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The front end of the rule language: rule files in, a checked tree (tree/tree.h) or diagnostics out.
 *
 * Pure: it is given the files' bytes and reads nothing. All errors of a file are reported, up to 20; a file
 * with an error changes nothing.
 */
#ifndef RULES_COMPILE_H
#define RULES_COMPILE_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/bytes.h"
#include "proto/base/embed.h"
#include "rules/tree/tree.h"

/* Bounds of the language (rules/README.md §9). */
#define RULES_FILE_MAX       (1u << 20)
#define RULES_STATEMENTS_MAX 4096u
#define RULES_ATOMS_MAX      50000u
#define RULES_REGEX_MAX      1024u
#define RULES_NESTING_MAX    32u
#define RULES_ROWS_MAX       1024u
#define RULES_COLUMNS_MAX    8u
#define RULES_ERRORS_MAX     20u

struct rules_input {
    const char *name; /* shown in diagnostics */
    struct bytes text;
    bool builtin; /* a shipped pack: loads before the user's files */
};

/* One diagnostic, in the one form of §10. */
struct rules_diagnostic {
    char code[8]; /* "E101", "W202" */
    bool warning;
    struct rule_place place;
    const char *file;
    char *text; /* the whole diagnostic as printed, several lines, '\n'-terminated */
};

struct rules_diagnostics {
    struct rules_diagnostic *items;
    uint32_t n, n_errors;
};

void rules_diagnostics_release(struct rules_diagnostics *d);

/* Compiles the files together, in this order. Returns the set, or NULL when there was an error; *ret always
 * holds the diagnostics (warnings too) and is the caller's to release. NULL with no diagnostics: memory is
 * out. */
struct rule_set *rules_compile(const struct rules_input *inputs, uint32_t n_inputs,
                               struct rules_diagnostics *ret);
struct rule_set *rules_set_free(struct rule_set *set);

/* The shipped packs, as files compiled into the program. Ends with a NULL name. */
extern const struct embedded_file rules_builtin[];

#endif
