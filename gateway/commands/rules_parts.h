/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inside of `profgate rules`: what its verbs share.
 */
#ifndef GATEWAY_COMMANDS_RULES_PARTS_H
#define GATEWAY_COMMANDS_RULES_PARTS_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/json.h"
#include "rules/compile.h"
#include "rules/tree/policy.h"

#define COMMAND_RULES_FILES_MAX 256u /* files on one command line, and shipped packs besides */

struct rules_command {
    bool strict, json, levels;
    uint32_t n_warnings;
    uint32_t stack;      /* explain: only this one; UINT32_MAX: all */
    const char *metric;  /* explain: only this one; NULL: all */
    const char *why_not; /* explain: why this one does not take a stack; NULL: nobody asks */
    struct rules_input inputs[2 * COMMAND_RULES_FILES_MAX];
    char *texts[COMMAND_RULES_FILES_MAX]; /* of the files read */
    uint32_t n_inputs, n_builtin, n_texts;
    const char *captures[COMMAND_RULES_FILES_MAX]; /* explain: what is explained */
    uint32_t n_captures;
    struct rule_set *set;
    struct rules_diagnostics found;
    struct buffer out; /* what is said as JSON, until it is printed */
    struct json put;   /* into it */
};

/* What the command is about: the files named, or the shipped packs when none was. */
bool command_rules_is_meant(const struct rules_command *c, uint32_t file);

/* All that is printed when there were errors. */
void command_rules_no_set(struct rules_command *c);

/* Prints the JSON said so far; what follows is a document of its own. At the end it goes by itself. */
void command_rules_print(struct rules_command *c);

/* The verbs: exit codes of DESIGN §1. The set is compiled; NULL when there were errors. */
int command_rules_list(struct rules_command *c);
int command_rules_explain(struct rules_command *c);

#endif
