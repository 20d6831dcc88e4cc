/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/aggregate/latest.h"

#include <errno.h>

#include "proto/base/macros.h"

void latest_init(struct latest *l, struct budget *budget)
{
    *l = (struct latest){.entry_of = IDMAP_INIT(budget),
                         .newest_of = IDMAP_INIT(budget),
                         .entries.budget = budget,
                         .newest.budget = budget};
}

void latest_release(struct latest *l)
{
    idmap_release(&l->entry_of);
    idmap_release(&l->newest_of);
    vec_release(&l->entries);
    vec_release(&l->newest);
}

void latest_clear(struct latest *l)
{
    idmap_clear(&l->entry_of);
    idmap_clear(&l->newest_of);
    vec_clear(&l->entries);
    vec_clear(&l->newest);
}

static int compare(const struct aggregate_moment *a, const struct aggregate_moment *b)
{
    return order_of(a->time, b->time) ?: order_of(a->arrival, b->arrival);
}

static struct latest_newest *newest_of(const struct latest *l, uint32_t resource, uint32_t metric)
{
    const uint32_t *place = idmap_find(&l->newest_of, idmap_key(resource, metric));
    return place ? &l->newest.p[*place] : NULL;
}

static int note_newest(struct latest *l, const struct latest_entry *e)
{
    struct latest_newest *known = newest_of(l, e->resource, e->metric);
    if (known) {
        if (compare(&e->moment, &known->moment) > 0)
            known->moment = e->moment;
        return 0;
    }
    if (vec_reserve(&l->newest, l->newest.n + 1) < 0 ||
        !idmap_place(&l->newest_of, idmap_key(e->resource, e->metric), l->newest.n))
        return -ENOMEM;
    return vec_append(&l->newest, (struct latest_newest){e->resource, e->metric, e->moment});
}

int latest_put(struct latest *l, const struct latest_entry *e)
{
    const struct latest_newest *known = newest_of(l, e->resource, e->metric);
    if (known && compare(&e->moment, &known->moment) < 0)
        return LATEST_OLDER;
    const uint32_t *place = idmap_find(&l->entry_of, idmap_key(e->resource, e->series));
    if (place) {
        l->entries.p[*place] = *e;
        return note_newest(l, e);
    }
    if (l->entries.n >= LATEST_MAX || vec_reserve(&l->entries, l->entries.n + 1) < 0 ||
        note_newest(l, e) < 0 || !idmap_place(&l->entry_of, idmap_key(e->resource, e->series), l->entries.n))
        return -ENOMEM;
    return vec_append(&l->entries, *e);
}

bool latest_is_current(const struct latest *l, const struct latest_entry *e)
{
    const struct latest_newest *newest = newest_of(l, e->resource, e->metric);
    return newest && compare(&e->moment, &newest->moment) == 0;
}
