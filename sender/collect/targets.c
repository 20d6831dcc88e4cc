/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/collect/targets.h"

#include <errno.h>
#include <stdlib.h>

#include "proto/base/macros.h"
#include "proto/base/rng.h"
#include "sender/collect/resource.h"

/* Leaves the hits of a sample that are taken. Whether there are any. */
static bool thin(struct window *w, struct window_sample *s, double share, struct rng *rng)
{
    uint32_t *link = &s->first_time, n = 0;
    for (uint32_t at = s->first_time; at != WINDOW_NO_TIME; at = w->time.p[at].next) {
        if (rng_unit(rng) >= share)
            continue;
        *link = s->last_time = at;
        link = &w->time.p[at].next;
        n++;
    }
    *link = WINDOW_NO_TIME;
    w->unwanted += s->n_times - n;
    s->n_times = n;
    return n > 0;
}

int targets_thin(struct window *w, const struct request_facts *facts)
{
    struct rng rng;
    if (!facts->relabel)
        return 0;
    struct resource *resource = calloc(1, sizeof *resource);
    if (!resource)
        return -ENOMEM;
    for (uint32_t i = 0; i < w->process.n; i++)
        w->process.p[i].share = resource_read(resource, facts, &w->process.p[i]);
    resource_release(resource);
    free(resource);
    rng_seed(&rng, facts->start ^ facts->end << 32);
    uint32_t n = 0;
    for (uint32_t i = 0; i < w->sample.n; i++) {
        struct window_sample s = w->sample.p[i];
        double share = w->process.p[s.process].share;
        if (share == 1 || thin(w, &s, share, &rng))
            w->sample.p[n++] = s;
    }
    w->sample.n = n;
    return 0;
}
