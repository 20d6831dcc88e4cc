/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/idmap.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_SLOTS 64u

_Static_assert(IDMAP_FREE == UINT64_MAX, "made of the same bytes");

static void make_free(struct idmap_slot *slots, uint32_t n)
{
    if (n > 0)
        memset(slots, 0xff, n * sizeof *slots);
}

static int grow(struct idmap *m)
{
    uint32_t n = m->n_slots ? m->n_slots * 2 : FIRST_SLOTS;
    if (n == 0 || !budget_charge(m->budget, n * sizeof *m->slots))
        return -1;
    struct idmap_slot *slots = malloc(n * sizeof *slots);
    if (!slots) {
        budget_refund(m->budget, n * sizeof *slots);
        return -1;
    }
    make_free(slots, n);
    for (uint32_t i = 0; i < m->n_slots; i++)
        if (m->slots[i].key != IDMAP_FREE)
            *idmap_probe(slots, n, m->slots[i].key) = m->slots[i];
    uint32_t kept = m->n;
    idmap_release(m);
    m->slots = slots;
    m->n_slots = n;
    m->n = kept;
    return 0;
}

struct idmap_slot *idmap_seek(struct idmap *m, uint64_t key)
{
    struct idmap_slot *slot = m->n_slots > 0 ? idmap_probe(m->slots, m->n_slots, key) : NULL;
    if ((slot && slot->key == key) || m->n < m->n_slots / 2)
        return slot;
    return grow(m) == 0 ? idmap_probe(m->slots, m->n_slots, key) : NULL;
}

uint32_t *idmap_place(struct idmap *m, uint64_t key, uint32_t fresh)
{
    struct idmap_slot *slot = idmap_seek(m, key);
    if (slot && slot->key != key)
        idmap_put(m, slot, key, fresh);
    return slot ? &slot->value : NULL;
}

void idmap_clear(struct idmap *m)
{
    make_free(m->slots, m->n_slots);
    m->n = 0;
}

void idmap_release(struct idmap *m)
{
    if (m->slots)
        budget_refund(m->budget, m->n_slots * sizeof *m->slots);
    free(m->slots);
    m->slots = NULL;
    m->n_slots = m->n = 0;
}
