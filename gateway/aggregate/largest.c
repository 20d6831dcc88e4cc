/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/aggregate/largest.h"

#include "gateway/aggregate/delta.h"

void largest_init(struct largest *l, struct budget *budget)
{
    *l = (struct largest){
        .budget = budget,
        .group_of = IDMAP_INIT(budget),
        .candidate_of = IDMAP_INIT(budget),
        .groups.budget = budget,
        .candidates.budget = budget,
        .exemplars.budget = budget,
    };
}

void largest_release(struct largest *l)
{
    for (uint32_t i = 0; i < l->groups.n; i++)
        vec_release(&l->groups.p[i].heap);
    idmap_release(&l->group_of);
    idmap_release(&l->candidate_of);
    vec_release(&l->groups);
    vec_release(&l->candidates);
    vec_release(&l->exemplars);
}

void largest_clear(struct largest *l)
{
    if (l->groups.n > 0)
        largest_release(l); /* the next window's may be others */
}

static uint64_t heavier(uint64_t weight, int64_t value)
{
    return weight + (uint64_t)value < weight ? UINT64_MAX : weight + (uint64_t)value;
}

/* ---- the heaps ---- */

static bool is_lighter(const struct largest *l, const struct largest_group *g, uint32_t a, uint32_t b)
{
    return l->candidates.p[g->heap.p[a]].weight < l->candidates.p[g->heap.p[b]].weight;
}

static void swap(struct largest *l, struct largest_group *g, uint32_t a, uint32_t b)
{
    uint32_t was = g->heap.p[a];
    g->heap.p[a] = g->heap.p[b];
    g->heap.p[b] = was;
    l->candidates.p[g->heap.p[a]].at = a;
    l->candidates.p[g->heap.p[b]].at = b;
}

static void sift_up(struct largest *l, struct largest_group *g, uint32_t at)
{
    for (; at > 0 && is_lighter(l, g, at, (at - 1) / 2); at = (at - 1) / 2)
        swap(l, g, at, (at - 1) / 2);
}

static void sift_down(struct largest *l, struct largest_group *g, uint32_t at)
{
    for (;;) {
        uint32_t left = 2 * at + 1, least = at;
        if (left < g->heap.n && is_lighter(l, g, left, least))
            least = left;
        if (left + 1 < g->heap.n && is_lighter(l, g, left + 1, least))
            least = left + 1;
        if (least == at)
            return;
        swap(l, g, at, least);
        at = least;
    }
}

static struct largest_group *group_of(struct largest *l, uint32_t resource, uint32_t metric)
{
    uint32_t *place = idmap_find(&l->group_of, idmap_key(resource, metric));
    if (place)
        return &l->groups.p[*place];
    if (vec_reserve(&l->groups, l->groups.n + 1) < 0 ||
        !idmap_place(&l->group_of, idmap_key(resource, metric), l->groups.n))
        return NULL;
    vec_append(&l->groups,
               (struct largest_group){.resource = resource, .metric = metric, .heap.budget = l->budget});
    return vec_last(&l->groups);
}

/* A new candidate at the end of the group's heap, its place in the map made already. */
static struct largest_candidate *push(struct largest *l, struct largest_group *g, uint32_t series)
{
    const uint32_t id = l->candidates.n;
    if (id >= LARGEST_MAX || vec_reserve(&l->candidates, id + 1) < 0 || vec_append(&g->heap, id) < 0)
        return NULL;
    vec_append(&l->candidates, (struct largest_candidate){.group = (uint32_t)(g - l->groups.p),
                                                          .series = series,
                                                          .at = g->heap.n - 1});
    return vec_last(&l->candidates);
}

/* ---- adding ---- */

static void put_out(struct largest *l, const struct largest_group *g, const struct largest_candidate *c)
{
    uint32_t *place = idmap_find(&l->candidate_of, idmap_key(g->resource, c->series));
    if (place)
        *place = 0;
}

void largest_add(struct largest *l, uint32_t resource, uint32_t series, uint32_t metric, uint32_t limit,
                 int64_t value, int64_t *ret_out)
{
    *ret_out = 0;
    struct largest_candidate *c = largest_find(l, resource, series);
    if (c) {
        c->value = add_clamped(c->value, value);
        c->weight = heavier(c->weight, value);
        sift_down(l, &l->groups.p[c->group], c->at);
        return;
    }
    struct largest_group *g = group_of(l, resource, metric);
    uint32_t *place = g ? idmap_place(&l->candidate_of, idmap_key(resource, series), 0) : NULL;
    if (!place) {
        *ret_out = value;
        return;
    }
    c = g->heap.n < (uint64_t)limit * LARGEST_CANDIDATES ? push(l, g, series) : NULL;
    if (c) {
        c->value = value;
        c->weight = (uint64_t)value;
        *place = (uint32_t)(c - l->candidates.p) + 1;
        sift_up(l, g, c->at);
    } else if (g->heap.n == 0) {
        *ret_out = value;
    } else {
        c = &l->candidates.p[g->heap.p[0]];
        *ret_out = c->value;
        put_out(l, g, c);
        c->series = series;
        c->exemplar = 0;
        c->value = value;
        c->weight = heavier(c->weight, value);
        *place = (uint32_t)(c - l->candidates.p) + 1;
        sift_down(l, g, 0);
    }
}

struct largest_candidate *largest_find(const struct largest *l, uint32_t resource, uint32_t series)
{
    const uint32_t *place = idmap_find(&l->candidate_of, idmap_key(resource, series));
    return place && *place > 0 ? &l->candidates.p[*place - 1] : NULL;
}

void largest_exemplar(struct largest *l, struct largest_candidate *c, const struct aggregate_exemplar *e)
{
    if (c->exemplar == 0) {
        if (vec_append(&l->exemplars, *e) == 0)
            c->exemplar = l->exemplars.n;
        return;
    }
    l->exemplars.p[c->exemplar - 1] = *e;
}

bool largest_copy(struct largest *to, const struct largest *from, const struct largest_candidate *c,
                  uint32_t resource, uint32_t series)
{
    struct largest_group *g = group_of(to, resource, from->groups.p[c->group].metric);
    uint32_t *place = g ? idmap_place(&to->candidate_of, idmap_key(resource, series), 0) : NULL;
    struct largest_candidate *copy = place ? push(to, g, series) : NULL;
    if (!copy)
        return false;
    copy->value = c->value;
    copy->weight = c->weight;
    *place = (uint32_t)(copy - to->candidates.p) + 1;
    sift_up(to, g, copy->at);
    if (c->exemplar)
        largest_exemplar(to, copy, &from->exemplars.p[c->exemplar - 1]);
    return true;
}
