/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/look/shown.h"

#include <errno.h>

/* The k-th largest (from 0) of n, which are put in another order: Hoare's selection. */
static uint64_t kth_largest(uint64_t *v, uint32_t n, uint32_t k)
{
    uint32_t from = 0, to = n;
    while (to - from > 1) {
        const uint64_t pivot = v[from + (to - from) / 2];
        uint32_t above = from, i = from, below = to;
        while (i < below) {
            const uint64_t x = v[i];
            if (x > pivot) {
                v[i++] = v[above];
                v[above++] = x;
            } else if (x < pivot) {
                v[i] = v[--below];
                v[below] = x;
            } else {
                i++;
            }
        }
        if (k < above)
            to = above;
        else if (k >= below)
            from = below;
        else
            return pivot;
    }
    return v[from];
}

/* What a node must have to be shown; of those that have just that the first *ret_ties are. */
static int threshold(const struct look_shown *s, uint32_t most, struct budget *budget, uint64_t *ret,
                     uint32_t *ret_ties)
{
    VEC(uint64_t) weights = {.budget = budget};
    *ret = 1;
    *ret_ties = UINT32_MAX;
    if (s->n <= most)
        return 0;
    if (vec_reserve(&weights, s->n) < 0)
        return -ENOMEM;
    for (uint32_t i = 0; i < s->n; i++)
        weights.p[i] = look_shown_weight(s, i);
    const uint64_t least = kth_largest(weights.p, s->n, most - 1);
    if (least > 0) {
        *ret = least;
        *ret_ties = most;
        for (uint32_t i = 0; i < s->n; i++)
            *ret_ties -= look_shown_weight(s, i) > least;
    }
    vec_release(&weights);
    return 0;
}

int look_shown_choose(struct look_shown *s, uint32_t most, struct budget *budget)
{
    uint64_t least;
    uint32_t ties, n = 1;
    s->number.budget = s->more[0].budget = s->more[1].budget = budget;
    int r = threshold(s, most, budget, &least, &ties);
    if (r == 0)
        r = vec_extend(&s->number, s->n);
    for (uint32_t side = 0; side < s->n_sides && r == 0; side++)
        r = vec_extend(&s->more[side], s->n);
    if (r < 0)
        return r;
    for (uint32_t side = 0; side < s->n_sides; side++)
        if (s->left[side])
            memcpy(s->more[side].p, s->left[side], s->n * sizeof *s->more[side].p);
    s->number.p[0] = 0;
    for (uint32_t i = 1; i < s->n; i++) {
        const uint64_t w = look_shown_weight(s, i);
        const uint32_t parent = s->nodes[i].parent;
        const bool is_shown = s->number.p[parent] != LOOK_NONE && (w > least || (w == least && ties > 0));
        ties -= is_shown && w == least && ties != UINT32_MAX;
        s->number.p[i] = is_shown ? n++ : LOOK_NONE;
        for (uint32_t side = 0; side < s->n_sides && !is_shown; side++)
            s->more[side].p[parent] = look_add(s->more[side].p[parent], s->total[side][i]);
    }
    return 0;
}

void look_shown_release(struct look_shown *s)
{
    vec_release(&s->number);
    vec_release(&s->more[0]);
    vec_release(&s->more[1]);
}

struct look_shown look_shown_of(const struct look_tree *t, uint32_t n_sides)
{
    struct look_shown s = {
        .nodes = t->dict.nodes.p, .n = t->dict.nodes.n, .n_sides = n_sides, .root_frame = LOOK_NONE};
    for (uint32_t i = 0; i < n_sides; i++) {
        s.self[i] = t->self[i].p;
        s.total[i] = t->total[i].p;
        s.left[i] = t->more[i].n == s.n ? t->more[i].p : NULL;
    }
    return s;
}
