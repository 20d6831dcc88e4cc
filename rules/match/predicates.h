/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One frame looked at: which nodes of the program hold of it, and what stands in columns of pure frame
 * tables.
 */
#ifndef RULES_MATCH_PREDICATES_H
#define RULES_MATCH_PREDICATES_H

#include <stdbool.h>
#include <stdint.h>

#include "rules/match/memory.h"
#include "rules/match/shapes.h"
#include "rules/match/strings.h"

/* The frame; fields are in `sid` where `have` says so, the others are asked for. */
struct frame_eval {
    const struct rules_asker *asker; /* NULL: all fields are there */
    uint32_t frame;
    uint32_t sid[RULES_FIELDS];
    uint32_t have;
    bool inlined;
};

struct match_predicates {
    const struct rules_program *p;
    struct match_memory *memory;
    struct match_strings *strings;
    /* of the frame being looked at */
    uint8_t *node;    /* [node] 0: unknown, 1: false, 2: true */
    uint32_t *column; /* [domain] text; or PREDICATES_UNKNOWN */
};

/* As match_strings_init. */
int match_predicates_init(struct match_predicates *x, struct match_strings *strings);
void match_predicates_release(struct match_predicates *x);

/* Begins another frame. */
void match_predicates_start(struct match_predicates *x);

uint32_t frame_eval_field(struct frame_eval *fe, uint32_t field);
bool match_predicates_holds(struct match_predicates *x, struct frame_eval *fe, uint32_t node);

/* The text of a frame table's column; RULES_NONE, too, when memory is out. */
uint32_t match_predicates_column(struct match_predicates *x, struct frame_eval *fe, uint32_t ftable,
                                 uint32_t column);

#endif
