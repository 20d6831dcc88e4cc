/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/aggregate/latest.h"

#include <errno.h>
#include <stdlib.h>

#include "gateway/aggregate/output.h"

void latest_init(struct latest *l, struct budget *budget)
{
    *l = (struct latest){.budget = budget, .entry_of = IDMAP_INIT(budget), .newest_of = IDMAP_INIT(budget)};
}

void latest_release(struct latest *l)
{
    budget_refund(l->budget, l->cap * sizeof *l->entries + l->cap_newest * sizeof *l->newest);
    idmap_release(&l->entry_of);
    idmap_release(&l->newest_of);
    free(l->entries);
    free(l->newest);
    *l = (struct latest){0};
}

void latest_clear(struct latest *l)
{
    idmap_clear(&l->entry_of);
    idmap_clear(&l->newest_of);
    l->n = l->n_newest = 0;
}

static int compare(const struct aggregate_moment *a, const struct aggregate_moment *b)
{
    if (a->time != b->time)
        return a->time < b->time ? -1 : 1;
    return (a->arrival > b->arrival) - (a->arrival < b->arrival);
}

static struct latest_newest *newest_of(const struct latest *l, uint32_t resource, uint32_t metric)
{
    const uint32_t *place = idmap_find(&l->newest_of, idmap_key(resource, metric));
    return place ? &l->newest[*place] : NULL;
}

static int note_newest(struct latest *l, const struct latest_entry *e)
{
    struct latest_newest *known = newest_of(l, e->resource, e->metric);
    if (known) {
        if (compare(&e->moment, &known->moment) > 0)
            known->moment = e->moment;
        return 0;
    }
    if (!output_grow(l->budget, &l->newest, &l->cap_newest, l->n_newest + 1, sizeof *l->newest) ||
        !idmap_place(&l->newest_of, idmap_key(e->resource, e->metric), l->n_newest))
        return -ENOMEM;
    l->newest[l->n_newest++] = (struct latest_newest){e->resource, e->metric, e->moment};
    return 0;
}

int latest_put(struct latest *l, const struct latest_entry *e)
{
    const struct latest_newest *known = newest_of(l, e->resource, e->metric);
    if (known && compare(&e->moment, &known->moment) < 0)
        return 1;
    const uint32_t *place = idmap_find(&l->entry_of, idmap_key(e->resource, e->series));
    if (place) {
        l->entries[*place] = *e;
        return note_newest(l, e);
    }
    if (l->n >= LATEST_MAX || !output_grow(l->budget, &l->entries, &l->cap, l->n + 1, sizeof *l->entries) ||
        note_newest(l, e) < 0 || !idmap_place(&l->entry_of, idmap_key(e->resource, e->series), l->n))
        return -ENOMEM;
    l->entries[l->n++] = *e;
    return 0;
}

bool latest_is_current(const struct latest *l, const struct latest_entry *e)
{
    const struct latest_newest *newest = newest_of(l, e->resource, e->metric);
    return newest && compare(&e->moment, &newest->moment) == 0;
}
