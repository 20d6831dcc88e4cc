/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/pprof/ids.h"

#include <errno.h>

void pprof_ids_clear(struct pprof_ids *ids)
{
    ids->n = ids->last = 0;
    ids->is_free = false;
    idmap_clear(&ids->places);
}

static int put(struct pprof_ids *ids, uint64_t id, uint32_t place)
{
    uint32_t *at = id == IDMAP_FREE ? &ids->last : idmap_place(&ids->places, id, 0);
    if (!at)
        return -ENOMEM;
    if (*at)
        return PPROF_ID_TAKEN;
    *at = place;
    return 0;
}

int pprof_ids_add(struct pprof_ids *ids, uint64_t id)
{
    uint32_t place = ids->n + 1;
    int r = id == 0 ? PPROF_ID_TAKEN : 0;
    if (!ids->is_free && id != place) {
        for (uint32_t i = 1; i < place && r == 0; i++)
            r = put(ids, i, i);
        ids->is_free = true;
    }
    if (ids->is_free && r == 0)
        r = put(ids, id, place);
    ids->n += r == 0;
    return r;
}
