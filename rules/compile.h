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
#include "rules/source/diagnostic.h"
#include "rules/tree/limits.h"
#include "rules/tree/tree.h"

struct rules_input {
    const char *name; /* shown in diagnostics */
    struct bytes text;
    bool builtin; /* a shipped pack: loads before the user's files; its text must outlive the set */
    bool proven;  /* its tests are known to hold: they are stepped over, and no part of the set */
};

/* Compiles the files together, in this order. Returns the set, or NULL when there was an error; *ret always
 * holds the diagnostics (warnings too) and is the caller's to release. NULL with no diagnostics: memory is
 * out. */
struct rule_set *rules_compile(const struct rules_input *inputs, uint32_t n_inputs,
                               struct rules_diagnostics *ret);
struct rule_set *rules_set_free(struct rule_set *set);

/* For who does not run them: the memory of the set's tests. */
void rules_set_forget_tests(struct rule_set *set);

/* The shipped packs, as files compiled into the program. Ends with a NULL name. */
extern const struct embedded_file rules_builtin[];

#endif
