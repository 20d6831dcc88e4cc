/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/hash.h"
#include "proto/otlp/check/parts.h"

/* Slots that are cleared rather than freed: a large set that comes once is not paid for by the small ones
 * after it. */
#define KEEP_SLOTS 256u

static uint32_t find(const struct check_set *set, struct hash_at *at, struct bytes b)
{
    uint32_t i;
    while ((i = hash_table_next(&set->table, at)) != HASH_NONE && !bytes_eq(set->of.p[i], b)) {
    }
    return i;
}

uint32_t check_set_add(struct check *c, struct check_set *set, struct bytes b)
{
    const uint64_t hash = hash_bytes(b, hash_seed());
    if (check_failed(c, hash_table_reserve(&set->table, 1)))
        return NOWHERE;
    struct hash_at at = hash_table_at(&set->table, hash);
    const uint32_t i = find(set, &at, b);
    if (i != HASH_NONE)
        return i;
    if (!check_failed(c, vec_append(&set->of, b)))
        check_failed(c, hash_table_add(&set->table, at, set->of.n - 1));
    return NOWHERE;
}

bool check_set_has(const struct check_set *set, struct bytes b)
{
    struct hash_at at = hash_table_at(&set->table, hash_bytes(b, hash_seed()));
    return find(set, &at, b) != HASH_NONE;
}

void check_set_clear(struct check_set *set)
{
    if (set->table.mask < KEEP_SLOTS)
        hash_table_clear(&set->table);
    else
        hash_table_release(&set->table);
    vec_clear(&set->of);
}

void check_set_release(struct check_set *set)
{
    hash_table_release(&set->table);
    vec_release(&set->of);
}
