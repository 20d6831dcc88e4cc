/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/match/tuples.h"

#include <string.h>

#include "proto/base/hash.h"

void tuples_init(struct tuples *t, struct budget *budget)
{
    *t = (struct tuples){.words.budget = budget, .at.budget = budget, .table.budget = budget};
}

static uint64_t hash_of(const uint32_t *words, uint32_t n)
{
    return hash_bytes(bytes_of(words, n * sizeof *words), hash_seed());
}

uint32_t tuples_add(struct tuples *t, const uint32_t *words, uint32_t n)
{
    struct hash_at at = hash_table_at(&t->table, hash_of(words, n));
    for (uint32_t i; (i = hash_table_next(&t->table, &at)) != HASH_NONE;)
        if (tuples_length(t, i) == n && memcmp(tuples_get(t, i), words, n * sizeof *words) == 0)
            return i;
    /* All the room first: what fails leaves nothing behind. A word more, so that an empty tuple is somewhere.
     */
    if (vec_extend(&t->at, 1) < 0 || vec_reserve(&t->at, (uint64_t)t->n + 2) < 0 ||
        vec_reserve(&t->words, (uint64_t)t->words.n + n + 1) < 0 || hash_table_add(&t->table, at, t->n) < 0)
        return TUPLES_NONE;
    vec_append_all(&t->words, words, n);
    t->at.p[t->at.n++] = t->words.n;
    return t->n++;
}

void tuples_clear(struct tuples *t)
{
    vec_release(&t->words);
    vec_release(&t->at);
    hash_table_release(&t->table);
    t->n = 0;
}
