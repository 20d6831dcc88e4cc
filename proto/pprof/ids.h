/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the entry of an id stands. Nearly all writers number entries from 1 on in the table's order, and then
 * nothing is looked up; others choose ids freely ("could use instruction addresses", profile.proto).
 */
#ifndef PROTO_PPROF_IDS_H
#define PROTO_PPROF_IDS_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/idmap.h"

struct pprof_ids {
    uint32_t n;
    bool is_free; /* some id is not its place + 1: all are in `places` */
    struct idmap places;
    uint32_t last; /* the place + 1 of id 2^64 - 1, which is no key of a map */
};

/* No ids; keeps the memory. */
void pprof_ids_clear(struct pprof_ids *ids);

/* The next entry has this id. 0; PPROF_ID_TAKEN: 0, or another entry's; -ENOMEM. */
enum { PPROF_ID_TAKEN = 1 };
int pprof_ids_add(struct pprof_ids *ids, uint64_t id);

/* The place + 1 of an id's entry; 0: there is none. */
static inline uint32_t pprof_ids_place(const struct pprof_ids *ids, uint64_t id)
{
    if (!ids->is_free)
        return id <= ids->n ? (uint32_t)id : 0;
    if (id == IDMAP_FREE)
        return ids->last;
    const uint32_t *place = idmap_find(&ids->places, id);
    return place ? *place : 0;
}

#endif
