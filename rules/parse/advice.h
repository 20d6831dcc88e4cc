/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What somebody meant who wrote the words of another language: a proposal for a syntax error.
 */
#ifndef RULES_PARSE_ADVICE_H
#define RULES_PARSE_ADVICE_H

#include "rules/parse/parser.h"

/* For the diagnostic that is being built, of `what` that was expected where the parser stands. */
void advise(struct parser *p, const char *what);

#endif
