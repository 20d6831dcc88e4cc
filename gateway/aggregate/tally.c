/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/aggregate/tally.h"

#include <stdlib.h>

#include "gateway/aggregate/output.h"

void tally_init(struct tally *t, struct budget *budget)
{
    *t = (struct tally){.budget = budget, .item_of = IDMAP_INIT(budget)};
}

void tally_release(struct tally *t)
{
    budget_refund(t->budget, t->cap * sizeof *t->items);
    idmap_release(&t->item_of);
    free(t->items);
    *t = (struct tally){0};
}

void tally_clear(struct tally *t)
{
    idmap_clear(&t->item_of);
    t->n = 0;
}

void tally_add(struct tally *t, uint32_t resource, uint32_t series, uint64_t n)
{
    const uint32_t *place = idmap_find(&t->item_of, idmap_key(resource, series));
    if (place) {
        t->items[*place].n += n;
        return;
    }
    if (output_grow(t->budget, &t->items, &t->cap, t->n + 1, sizeof *t->items) &&
        idmap_place(&t->item_of, idmap_key(resource, series), t->n))
        t->items[t->n++] = (struct tally_item){resource, series, n};
}
