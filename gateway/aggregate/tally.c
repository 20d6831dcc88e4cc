/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/aggregate/tally.h"

void tally_init(struct tally *t, struct budget *budget)
{
    *t = (struct tally){.item_of = IDMAP_INIT(budget), .items.budget = budget};
}

void tally_release(struct tally *t)
{
    idmap_release(&t->item_of);
    vec_release(&t->items);
}

void tally_clear(struct tally *t)
{
    idmap_clear(&t->item_of);
    vec_clear(&t->items);
}

void tally_add(struct tally *t, uint32_t resource, uint32_t series, uint64_t n)
{
    const uint32_t *place = idmap_find(&t->item_of, idmap_key(resource, series));
    if (place) {
        t->items.p[*place].n += n;
        return;
    }
    if (vec_reserve(&t->items, t->items.n + 1) == 0 &&
        idmap_place(&t->item_of, idmap_key(resource, series), t->items.n))
        vec_append(&t->items, (struct tally_item){resource, series, n});
}
