/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/aggregate/largest.h"

#include <stdlib.h>
#include <string.h>

#include "gateway/aggregate/delta.h"
#include "gateway/aggregate/output.h"
#include "proto/base/macros.h"

void largest_init(struct largest *l, struct budget *budget)
{
    *l = (struct largest){
        .budget = budget, .group_of = IDMAP_INIT(budget), .candidate_of = IDMAP_INIT(budget)};
}

void largest_release(struct largest *l)
{
    for (uint32_t i = 0; i < l->n_groups; i++) {
        budget_refund(l->budget, l->groups[i].cap * sizeof *l->groups[i].heap);
        free(l->groups[i].heap);
    }
    budget_refund(l->budget, l->cap_groups * sizeof *l->groups + l->cap * sizeof *l->candidates +
                                 l->cap_exemplars * sizeof *l->exemplars);
    idmap_release(&l->group_of);
    idmap_release(&l->candidate_of);
    free(l->groups);
    free(l->candidates);
    free(l->exemplars);
    *l = (struct largest){0};
}

void largest_clear(struct largest *l)
{
    struct budget *budget = l->budget;
    if (l->n_groups == 0)
        return;
    largest_release(l); /* the next window's may be others */
    largest_init(l, budget);
}

static uint64_t heavier(uint64_t weight, int64_t value)
{
    return weight + (uint64_t)value < weight ? UINT64_MAX : weight + (uint64_t)value;
}

/* ---- the heaps ---- */

static bool is_lighter(const struct largest *l, const struct largest_group *g, uint32_t a, uint32_t b)
{
    return l->candidates[g->heap[a]].weight < l->candidates[g->heap[b]].weight;
}

static void swap(struct largest *l, struct largest_group *g, uint32_t a, uint32_t b)
{
    uint32_t was = g->heap[a];
    g->heap[a] = g->heap[b];
    g->heap[b] = was;
    l->candidates[g->heap[a]].at = a;
    l->candidates[g->heap[b]].at = b;
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
        if (left < g->n && is_lighter(l, g, left, least))
            least = left;
        if (left + 1 < g->n && is_lighter(l, g, left + 1, least))
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
        return &l->groups[*place];
    if (!output_grow(l->budget, &l->groups, &l->cap_groups, l->n_groups + 1, sizeof *l->groups) ||
        !idmap_place(&l->group_of, idmap_key(resource, metric), l->n_groups))
        return NULL;
    l->groups[l->n_groups] = (struct largest_group){.resource = resource, .metric = metric};
    return &l->groups[l->n_groups++];
}

/* A new candidate at the end of the group's heap, its place in the map made already. */
static struct largest_candidate *push(struct largest *l, struct largest_group *g, uint32_t series)
{
    if (l->n >= LARGEST_MAX ||
        !output_grow(l->budget, &l->candidates, &l->cap, l->n + 1, sizeof *l->candidates) ||
        !output_grow(l->budget, &g->heap, &g->cap, g->n + 1, sizeof *g->heap))
        return NULL;
    uint32_t id = l->n++;
    g->heap[g->n] = id;
    l->candidates[id] =
        (struct largest_candidate){.group = (uint32_t)(g - l->groups), .series = series, .at = g->n++};
    return &l->candidates[id];
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
        sift_down(l, &l->groups[c->group], c->at);
        return;
    }
    struct largest_group *g = group_of(l, resource, metric);
    uint32_t *place = g ? idmap_place(&l->candidate_of, idmap_key(resource, series), 0) : NULL;
    if (!place) {
        *ret_out = value;
        return;
    }
    c = g->n < (uint64_t)limit * LARGEST_CANDIDATES ? push(l, g, series) : NULL;
    if (c) {
        c->value = value;
        c->weight = (uint64_t)value;
        *place = (uint32_t)(c - l->candidates) + 1;
        sift_up(l, g, c->at);
    } else if (g->n == 0) {
        *ret_out = value;
    } else {
        c = &l->candidates[g->heap[0]];
        *ret_out = c->value;
        put_out(l, g, c);
        c->series = series;
        c->exemplar = 0;
        c->value = value;
        c->weight = heavier(c->weight, value);
        *place = (uint32_t)(c - l->candidates) + 1;
        sift_down(l, g, 0);
    }
}

struct largest_candidate *largest_find(const struct largest *l, uint32_t resource, uint32_t series)
{
    const uint32_t *place = idmap_find(&l->candidate_of, idmap_key(resource, series));
    return place && *place > 0 ? &l->candidates[*place - 1] : NULL;
}

void largest_exemplar(struct largest *l, struct largest_candidate *c, const struct aggregate_exemplar *e)
{
    if (c->exemplar == 0) {
        if (!output_grow(l->budget, &l->exemplars, &l->cap_exemplars, l->n_exemplars + 1,
                         sizeof *l->exemplars))
            return;
        c->exemplar = ++l->n_exemplars;
    }
    l->exemplars[c->exemplar - 1] = *e;
}

bool largest_copy(struct largest *to, const struct largest *from, const struct largest_candidate *c,
                  uint32_t resource, uint32_t series)
{
    struct largest_group *g = group_of(to, resource, from->groups[c->group].metric);
    uint32_t *place = g ? idmap_place(&to->candidate_of, idmap_key(resource, series), 0) : NULL;
    struct largest_candidate *copy = place ? push(to, g, series) : NULL;
    if (!copy)
        return false;
    copy->value = c->value;
    copy->weight = c->weight;
    *place = (uint32_t)(copy - to->candidates) + 1;
    sift_up(to, g, copy->at);
    if (c->exemplar)
        largest_exemplar(to, copy, &from->exemplars[c->exemplar - 1]);
    return true;
}
