/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which sources each profile of the request feeds. Mostly a look-up by type and unit; profiles that may be
 * siblings (several in one scope) are sorted into groups first.
 */
#include <errno.h>
#include <stdlib.h>

#include "gateway/classify/parts.h"
#include "proto/base/macros.h"

/* A converted pprof has a profile for each sample type: a handful. A larger group is no set of siblings. */
#define SIBLINGS_MAX 64u

static int compare(const void *a, const void *b, void *view)
{
    const struct profiles *v = view;
    uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
    return order_of(v->profile.time_unix_nano[i], v->profile.time_unix_nano[j])
               ?: order_of(v->profile.duration_nano[i], v->profile.duration_nano[j])
               ?: bytes_compare(v->profile.sibling_id[i], v->profile.sibling_id[j]) ?: order_of(i, j);
}

static int choose_group(struct classify *c, const uint32_t *members, uint32_t n, uint32_t *active)
{
    struct rules_profile group[SIBLINGS_MAX];
    uint32_t words = rules_program_mask_words(c->program);
    if (n == 1 || n > SIBLINGS_MAX) {
        for (uint32_t i = 0; i < n; i++) {
            if (!profile_is_like(c->request.view, members[i], &c->request.last_active)) {
                group[0] = profile_describe(c->request.view, members[i]);
                c->request.last_active.active = rules_matcher_choose_one(c->matcher, &group[0]);
            }
            active[members[i]] = c->request.last_active.active;
        }
        return 0;
    }
    autofree uint64_t *masks = malloc((size_t)n * words * sizeof *masks);
    if (!masks)
        return -ENOMEM;
    for (uint32_t i = 0; i < n; i++)
        group[i] = profile_describe(c->request.view, members[i]);
    rules_matcher_choose(c->matcher, group, n, masks);
    for (uint32_t i = 0; i < n; i++)
        active[members[i]] = rules_matcher_active(c->matcher, masks + (size_t)i * words);
    return 0;
}

int active_prepare(struct classify *c)
{
    const struct profiles *v = c->request.view;
    uint32_t n = v->profile.n;
    if (classify_room(&c->request.profile_active, n) < 0 || classify_room(&c->request.order, n) < 0 ||
        classify_room(&c->request.has_siblings, n) < 0)
        return -ENOMEM;
    uint32_t *active = c->request.profile_active.p, *order = c->request.order.p;
    for (uint32_t from = 0, to; from < n; from = to) {
        for (to = from; to < n && v->profile.scope[to] == v->profile.scope[from]; to++)
            order[to] = to;
        if (to - from > 1)
            qsort_r(order + from, to - from, sizeof *order, compare, (void *)v);
        for (uint32_t i = from, end; i < to; i = end) {
            for (end = i + 1; end < to && profiles_are_siblings(v, order[i], order[end]); end++)
                ;
            if (choose_group(c, order + i, end - i, active) < 0)
                return -ENOMEM;
            for (uint32_t k = i; k < end; k++)
                c->request.has_siblings.p[order[k]] = end - i > 1;
        }
    }
    return rules_matcher_error(c->matcher);
}
