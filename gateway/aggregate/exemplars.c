/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/aggregate/exemplars.h"

#include <stdlib.h>

#include "gateway/aggregate/output.h"

void exemplars_init(struct exemplars *x, struct budget *budget, uint64_t seed)
{
    *x = (struct exemplars){.budget = budget, .place_of = IDMAP_INIT(budget)};
    rng_seed(&x->rng, seed);
}

void exemplars_release(struct exemplars *x)
{
    idmap_release(&x->place_of);
    budget_refund(x->budget, x->cap * sizeof *x->places);
    free(x->places);
}

void exemplars_offer(struct exemplars *x, uint32_t resource, uint32_t series,
                     const struct aggregate_exemplar *e)
{
    uint32_t *at = idmap_find(&x->place_of, idmap_key(resource, series));
    if (at) {
        struct exemplar_place *p = &x->places[*at];
        if (rng_unit(&x->rng) * ++p->n_offered < 1)
            p->exemplar = *e;
        return;
    }
    if (x->n >= EXEMPLARS_MAX || !output_grow(x->budget, &x->places, &x->cap, x->n + 1, sizeof *x->places) ||
        !idmap_place(&x->place_of, idmap_key(resource, series), x->n))
        return;
    x->places[x->n++] = (struct exemplar_place){resource, series, 1, *e};
}

void exemplars_clear(struct exemplars *x)
{
    if (x->n == 0)
        return;
    idmap_clear(&x->place_of);
    x->n = 0;
}
