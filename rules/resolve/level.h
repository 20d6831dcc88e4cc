/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The level of a rule (LANGUAGE §9): the lowest thing that can decide it. The cost of a rule rises with it.
 */
#ifndef RULES_RESOLVE_LEVEL_H
#define RULES_RESOLVE_LEVEL_H

#include "rules/tree/policy.h"
#include "rules/tree/tree.h"

enum rule_level {
    RULE_LEVEL_ALWAYS, /* nothing has to be asked */
    RULE_LEVEL_FRAME,
    RULE_LEVEL_STACK,
    RULE_LEVEL_PROFILE, /* stack and resource, scope or profile */
    RULE_LEVEL_SAMPLE,
};

enum rule_level rule_level_of_sample(const struct rule_sample *sample); /* NULL: ALWAYS */
enum rule_level rule_level_of_text(const struct rule_text *text);
/* Of `where`, `each` and all labels of a source. */
enum rule_level rule_level_of_source(const struct rule_source *source);
const char *rule_level_name(enum rule_level level);

#endif
