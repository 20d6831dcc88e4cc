/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which nodes of a tree are shown: of a large one those with the largest totals. A parent has no less than
 * its child, and stands before it, so that they are a tree. What is left out is its parent's `more`.
 */
#ifndef GATEWAY_LOOK_SHOWN_H
#define GATEWAY_LOOK_SHOWN_H

#include "gateway/look/tree.h"

/* A tree to be shown: nodes over the frames of some dictionary. */
struct look_shown {
    const struct look_node *nodes;
    uint32_t n, n_sides;
    const uint64_t *self[LOOK_SIDES], *total[LOOK_SIDES];
    const uint64_t *left[LOOK_SIDES]; /* [node] what it had `more` before; NULL: nothing */
    VEC(uint32_t) number;             /* [node] in the answer, or LOOK_NONE */
    VEC(uint64_t) more[LOOK_SIDES];
    uint32_t root_frame; /* LOOK_NONE: it has none */
};

/* All of a tree with its totals (look_tree_sum), of that many sides; to be chosen from. */
struct look_shown look_shown_of(const struct look_tree *t, uint32_t n_sides);

/* Sets number and more: at most `most` nodes; the root is always shown. 0 or -ENOMEM; released in any case.
 */
int look_shown_choose(struct look_shown *s, uint32_t most, struct budget *budget);
void look_shown_release(struct look_shown *s);

/* Of a node, on both sides. */
static inline uint64_t look_shown_weight(const struct look_shown *s, uint32_t node)
{
    return s->n_sides == 1 ? s->total[0][node] : look_add(s->total[0][node], s->total[1][node]);
}

#endif
