/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conditions about a frame that depend on the sample: `symbol.name ~ p` where a row of `symbol` has a `when`,
 * or a cell an attribute. The walk over a stack (program.h) knows frames and no attributes, so such a
 * condition is written out: for each combination of what its table asks of the sample there is one that asks
 * frames alone, and
 *
 *     any frame is P     becomes     G1 and any frame is P1  or  G2 and any frame is P2  …
 *
 * with the guards G exclusive and exhaustive. Everything that says a frame's condition goes through here
 * while the tree is made, so what is behind the front end never meets one. `dependent` in rules/tree/tree.h
 * marks what is to be written out.
 *
 * Combinations are bounded (E127); equalities of one text with different values exclude each other, so a
 * table that is narrowed for twenty services has twenty-one. What cannot be written out is a text that joins
 * a frame's field with one of the sample's (E130): it would be another string for every pair of the two.
 */
#ifndef RULES_RESOLVE_EXPAND_H
#define RULES_RESOLVE_EXPAND_H

#include "rules/resolve/resolve.h"

/* Combinations of one condition: each is a condition of the walk, and all are tried for every sample. */
#define EXPAND_MAX 64u

/* Each gives back what it was given if nothing in it is dependent. NULL or false: an error was reported, or
 * memory is out (r->oom). */

/* A new node that asks frames or regions. */
const struct rule_sample *expand_sample(struct resolver *r, struct rule_sample *s);

/* A new `F of REF`, which may become a column of a table made for it. */
bool expand_part(struct resolver *r, struct rule_text_part *part, struct rule_place place);

/* Adds the row, or what it is written out to, to `rows` (of struct rule_row, in the set's arena). */
bool expand_row(struct resolver *r, const struct rule_row *row, struct list *rows);

/* A table over a stack whose region is dependent. */
const struct rule_table *expand_table(struct resolver *r, struct rule_table *t);

/* Adds the source, or one for each combination, to `sources` (of struct rule_source, in the set's arena). */
bool expand_source(struct resolver *r, const struct rule_source *s, struct list *sources);

#endif
