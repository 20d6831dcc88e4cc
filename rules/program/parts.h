/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inside of lowering, shared by the lower*.c files: frame predicates and frame tables (lower_frame.c),
 * what is asked of whole samples (lower_sample.c), rules (lower.c).
 *
 * The first failure is kept in `r` and makes everything after it do nothing; numbers are then LOWER_NONE.
 */
#ifndef RULES_PROGRAM_PARTS_H
#define RULES_PROGRAM_PARTS_H

#include "proto/base/error.h"
#include "rules/program/lowered.h"

struct lower {
    struct rules_program *p;
    struct error *error;
    int r;
    uint32_t depth;
};

uint32_t lower_fail(struct lower *l, int r, const char *why); /* LOWER_NONE */

/* Appends to a list of the program and gives the index; LOWER_NONE when memory is out. */
#define ADD(l, list, ...) \
    (vec_append(&(l)->p->list, __VA_ARGS__) < 0 ? lower_no_memory(l) : (l)->p->list.n - 1)
uint32_t lower_no_memory(struct lower *l); /* LOWER_NONE */

void lower_map_set(struct lower *l, const void *node, uint32_t value);
bool lower_visit(struct lower *l, const void *node); /* true the first time it is asked about a node */
bool lower_enter(struct lower *l); /* one level deeper; false: too deep. Else lower `depth` again */

uint32_t lower_take_bits(struct lower *l, uint32_t n); /* of the state */
struct pattern_build *lower_domain_build(struct lower *l, uint32_t domain);

/* Nodes (lower_frame.c). */
uint32_t lower_add_kids(struct lower *l, const uint32_t *kids, uint32_t n);
uint32_t lower_frame(struct lower *l, const struct rule_frame *frame);
uint32_t lower_frame_or_any(struct lower *l, const struct rule_frame *frame); /* NULL: every frame */
uint32_t lower_not(struct lower *l, uint32_t node);
uint32_t lower_root(struct lower *l, uint32_t node); /* the walk asks it: it gets a bit in frame classes */
uint32_t lower_guard(struct lower *l, uint32_t region, uint32_t node);
uint32_t lower_ftable(struct lower *l, const struct rule_table *table);
uint32_t lower_row_nodes(struct lower *l, const struct rule_table *table, uint32_t region);

/* Samples (lower_sample.c). */
uint32_t lower_region(struct lower *l, const struct rule_region *region); /* NULL: 0, the whole stack */
uint32_t lower_fact(struct lower *l, uint32_t region, uint32_t node);
void lower_sample(struct lower *l, const struct rule_sample *s);
void lower_text(struct lower *l, const struct rule_text *text);
void lower_row_texts(struct lower *l, const struct rule_table *table);

int lower_needs(struct rules_program *p); /* lower_needs.c: fills in `needs`. 0 or -ENOMEM */

#endif
