/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plans: what is left to ask of a frame when its type is known, and which of its fields say it. One a type,
 * made once.
 */
#ifndef RULES_MATCH_PLAN_H
#define RULES_MATCH_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/macros.h"
#include "proto/base/vec.h"
#include "rules/match/memory.h"
#include "rules/match/strings.h"

/* A program has a dozen types; a peer that invents more than there are plans for is matched by the texts of
 * each frame. */
#define MATCH_PLANS_MAX 256u

struct frame_plan {
    uint32_t number;
    uint32_t fields; /* mask of those to look at, the type aside */
    uint32_t asked;  /* those of them that patterns are asked of; the others only make columns */
    bool by_text;    /* a column is made of several fields: kinds of texts do not say all */
    uint32_t columns_at[RULES_FIELDS],
        n_columns[RULES_FIELDS];      /* in match_plans.columns: domains made of this field alone */
    uint32_t none_kind[RULES_FIELDS]; /* + 1; for frames.c: the kind of `none` in a field */
};

/* Without them, frames go by all their texts: 1.5 to 2 times the instructions, and 6 times for frames that
 * are new (bench_classify). */
struct match_plans {
    const struct rules_program *p;
    struct match_memory *memory;
    struct match_strings *strings;
    struct frame_plan *plans; /* [MATCH_PLANS_MAX] */
    uint32_t n;
    VEC(uint32_t) of_type;   /* [string] plan + 1 */
    uint32_t of_none;        /* plan + 1, of frames without a type */
    VEC(uint32_t) columns;   /* domains, by plan and field */
    uint8_t *answer, *seen;  /* [node] while one is made */
    uint8_t *asked;          /* [2 × domain] the same */
    uint32_t *column_fields; /* [domain] the same */
};

/* As match_strings_init. */
int match_plans_init(struct match_plans *x, struct match_strings *strings);
void match_plans_clear(struct match_plans *x); /* forgets all: types are strings */
void match_plans_release(struct match_plans *x);

/* The plan of a type (a string or RULES_NONE); NULL when memory is out or a peer has invented more types than
 * have one. Valid until they are forgotten. */
struct frame_plan *match_plans_find(struct match_plans *x, uint32_t type);
static inline struct frame_plan *match_plan(struct match_plans *x, uint32_t type)
{
    if (likely(type < x->of_type.n && x->of_type.p[type] != 0))
        return &x->plans[x->of_type.p[type] - 1];
    return match_plans_find(x, type);
}

/* Mask of the fields, the type aside, that a column of a frame table, or a node, depends on in frames of a
 * type.
 */
uint32_t match_plans_column_fields(struct match_plans *x, uint32_t ftable, uint32_t column, uint32_t type);
uint32_t match_plans_node_fields(struct match_plans *x, uint32_t node, uint32_t type);

#endif
