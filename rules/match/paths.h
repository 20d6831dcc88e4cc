/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The decision tree that evaluations leave behind: a path of reads and what they gave, from a root to a
 * number. Whoever evaluates the same rules on the same state (outcomes, series of frames, what is kept)
 * follows it and evaluates only where it ends.
 */
#ifndef RULES_MATCH_PATHS_H
#define RULES_MATCH_PATHS_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/idmap.h"
#include "proto/base/vec.h"
#include "rules/match/memory.h"
#include "rules/match/reads.h"

#define RULES_PATHS_MAX (1u << 18) /* nodes; reached, everything is forgotten between requests */

struct path_node {
    uint32_t read; /* + 1: what to read here; 0: nothing known yet, or a leaf */
    uint32_t leaf; /* + 1: the content */
};

struct match_paths {
    struct match_memory *memory;
    struct match_reads *reads;
    VEC(struct path_node) nodes;
    struct idmap children; /* node, value read there → node */
};

/* As match_strings_init; it has nothing to fail with. */
void match_paths_init(struct match_paths *x, struct match_reads *reads);
void match_paths_clear(struct match_paths *x);
bool match_paths_full(const struct match_paths *x);

/* A new node, with nothing below it. RULES_NONE: no memory. */
uint32_t match_paths_new(struct match_paths *x);

/* The node that stands for `key` in a map of roots (or, inside, of children), made if new. RULES_NONE: no
 * memory. */
uint32_t match_paths_root(struct match_paths *x, struct idmap *roots, uint64_t key);

/* Follows what is known from a root; the leaf's content, or RULES_NONE where the tree ends, and when memory
 * is out. */
uint32_t match_paths_follow(struct match_paths *x, uint32_t root, struct reading *at);

/* Writes the notes of an evaluation as a path from the root to a leaf with this content, and returns that.
 * RULES_NONE: no memory, during the evaluation or now. */
uint32_t match_paths_lay(struct match_paths *x, uint32_t root, const struct read_note *notes, uint32_t n,
                         uint32_t content);

#endif
