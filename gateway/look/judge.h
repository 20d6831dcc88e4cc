/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the rules say of the stacks of a tree: which series of which metrics each is counted in. Not of what
 * was counted, which nobody remembers by stack, but asked anew, of the rules in force.
 *
 * A stack here has functions, files, libraries, frame types and what is inlined; no build ids and no system
 * names. Attributes it has as far as the selection names them with `=`.
 */
#ifndef GATEWAY_LOOK_JUDGE_H
#define GATEWAY_LOOK_JUDGE_H

#include "gateway/look/parts.h"
#include "rules/prove/explain.h"

struct look_judge {
    struct look_rules rules;
    const struct look_select *select;
    const struct look_tree *tree;
    struct rules_matcher *matcher;
    struct rules_asker asker;
    struct rules_register *registers;
    uint32_t active;       /* the sources that profiles of the selection's type feed */
    uint32_t type, unit;   /* strings of the matcher */
    VEC(uint32_t) classes; /* [frame], or RULES_NONE: not asked yet */
    /* of the stack that was asked about last */
    uint32_t stack[LOOK_STACK_MAX], n_stack; /* frames, leaf first */
    struct rules_verdict verdict;
    const struct rules_entry *entries;
    uint32_t n_entries;
};

/* Conditions. */
enum {
    LOOK_NO_RULES = 3, /* nobody gave any */
    LOOK_NO_METRIC,    /* they have none of that name */
};

/* The tree's nodes may lose values meanwhile, and get no new ones. 0, LOOK_NO_RULES or -ENOMEM; released in
 * any case. */
int look_judge_init(struct look_judge *j, const struct look_asked *asked, const struct look_tree *tree,
                    const struct look_select *select);
void look_judge_release(struct look_judge *j);

/* Asks about the stack of a node: `entries`. 0 or -ENOMEM. */
int look_judge_ask(struct look_judge *j, uint32_t node);

/* For rules_reasons, about the one that was asked about last. */
struct rules_explained look_judge_explained(const struct look_judge *j);

/* Leaves out the stacks that the metric asked for does not count, on one side. 0, LOOK_NO_RULES,
 * LOOK_NO_METRIC, LOOK_TOO_LONG or -ENOMEM. */
int look_tree_metric(struct look_tree *t, uint32_t side, const struct look_asked *asked);

#endif
