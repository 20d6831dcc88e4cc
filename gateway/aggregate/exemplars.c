/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/aggregate/exemplars.h"

void exemplars_init(struct exemplars *x, struct budget *budget, uint64_t seed)
{
    *x = (struct exemplars){.place_of = IDMAP_INIT(budget), .places.budget = budget};
    rng_seed(&x->rng, seed);
}

void exemplars_release(struct exemplars *x)
{
    idmap_release(&x->place_of);
    vec_release(&x->places);
}

void exemplars_offer(struct exemplars *x, uint32_t resource, uint32_t series,
                     const struct aggregate_exemplar *e)
{
    uint32_t *at = idmap_find(&x->place_of, idmap_key(resource, series));
    if (at) {
        struct exemplar_place *p = &x->places.p[*at];
        if (rng_unit(&x->rng) * ++p->n_offered < 1)
            p->exemplar = *e;
        return;
    }
    if (x->places.n >= EXEMPLARS_MAX || vec_reserve(&x->places, x->places.n + 1) < 0 ||
        !idmap_place(&x->place_of, idmap_key(resource, series), x->places.n))
        return;
    vec_append(&x->places, (struct exemplar_place){resource, series, 1, *e});
}

void exemplars_clear(struct exemplars *x)
{
    if (x->places.n == 0)
        return;
    idmap_clear(&x->place_of);
    vec_clear(&x->places);
}
