/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The decision tree that evaluations leave behind: a path of reads and what they gave, from a root to a
 * number. Whoever evaluates the same rules on the same state (outcomes, series of frames, what is kept)
 * follows it and evaluates only where it ends.
 */
#ifndef RULES_MATCH_PATHS_H
#define RULES_MATCH_PATHS_H

#include "rules/match/eval.h"

/* A new node, with nothing below it. RULES_NONE: no memory. */
uint32_t paths_new(struct rules_matcher *m);

/* The node that stands for `key` in a map of roots (or, inside, of children), made if new. RULES_NONE: no
 * memory. */
uint32_t paths_root(struct rules_matcher *m, struct pairs *pairs, uint64_t key);

/* Follows what is known from a root; the leaf's content, or RULES_NONE where the tree ends. */
uint32_t paths_follow(struct eval *e, uint32_t root);

/* Writes the notes of an evaluation as a path from the root to a leaf with this content, and returns that. */
uint32_t paths_lay(struct eval *e, uint32_t root, uint32_t content);

#endif
