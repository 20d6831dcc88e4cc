/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/match/tuples.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/hash.h"

#define FIRST_CAP 64u

static int grow_bytes(struct budget *b, void *p, size_t was, size_t now)
{
    void **at = p;
    if (!budget_charge(b, now - was))
        return -ENOMEM;
    void *more = realloc(*at, now);
    if (!more) {
        budget_refund(b, now - was);
        return -ENOMEM;
    }
    *at = more;
    return 0;
}

int charged_grow(struct budget *b, void *p, uint32_t *cap, uint32_t need, size_t size)
{
    if (need <= *cap)
        return 0;
    uint64_t now = *cap < FIRST_CAP ? FIRST_CAP : *cap;
    while (now < need)
        now *= 2;
    if (now > UINT32_MAX || now > SIZE_MAX / size ||
        grow_bytes(b, p, (size_t)*cap * size, (size_t)now * size) < 0)
        return -ENOMEM;
    *cap = (uint32_t)now;
    return 0;
}

void charged_free(struct budget *b, void *p, uint32_t *cap, size_t size)
{
    void **at = p;
    free(*at);
    budget_refund(b, (size_t)*cap * size);
    *at = NULL;
    *cap = 0;
}

/* The tuple's number, or the free slot where it belongs in *ret_slot. */
static uint32_t look(const struct tuples *t, const uint32_t *words, uint32_t n, uint64_t h,
                     uint32_t *ret_slot)
{
    uint32_t mask = t->n_slots - 1, i = (uint32_t)h & mask;
    for (; t->slot[i] != 0; i = (i + 1) & mask) {
        uint32_t id = t->slot[i] - 1;
        if (t->hash[id] == h && tuples_length(t, id) == n &&
            memcmp(tuples_get(t, id), words, n * sizeof *words) == 0)
            return id;
    }
    *ret_slot = i;
    return TUPLES_NONE;
}

static uint64_t hash_of(const uint32_t *words, uint32_t n)
{
    return hash_bytes(bytes_of(words, n * sizeof *words), hash_seed());
}

uint32_t tuples_find(const struct tuples *t, const uint32_t *words, uint32_t n)
{
    uint32_t slot;
    return t->n == 0 ? TUPLES_NONE : look(t, words, n, hash_of(words, n), &slot);
}

static int rehash(struct tuples *t)
{
    uint32_t n = t->n_slots ? t->n_slots * 2 : 2 * FIRST_CAP;
    if (n == 0 || !budget_charge(t->budget, n * sizeof *t->slot))
        return -ENOMEM;
    uint32_t *slot = calloc(n, sizeof *slot);
    if (!slot) {
        budget_refund(t->budget, n * sizeof *slot);
        return -ENOMEM;
    }
    for (uint32_t id = 0; id < t->n; id++) {
        uint32_t i = (uint32_t)t->hash[id] & (n - 1);
        while (slot[i] != 0)
            i = (i + 1) & (n - 1);
        slot[i] = id + 1;
    }
    free(t->slot);
    budget_refund(t->budget, t->n_slots * sizeof *slot);
    t->slot = slot;
    t->n_slots = n;
    return 0;
}

static int make_room(struct tuples *t, uint32_t n)
{
    if ((uint64_t)(t->n + 1) * 4 > (uint64_t)t->n_slots * 3 && rehash(t) < 0)
        return -ENOMEM;
    if (charged_grow(t->budget, &t->at, &t->cap, t->n + 2, sizeof *t->at) < 0 ||
        charged_grow(t->budget, &t->hash, &t->cap_hash, t->n + 1, sizeof *t->hash) < 0)
        return -ENOMEM;
    size_t need = t->n_words + n, cap = t->cap_words ? t->cap_words : 4 * FIRST_CAP;
    while (cap < need)
        cap *= 2;
    if (cap != t->cap_words) {
        if (grow_bytes(t->budget, &t->words, t->cap_words * sizeof *t->words, cap * sizeof *t->words) < 0)
            return -ENOMEM;
        t->cap_words = cap;
    }
    return 0;
}

uint32_t tuples_add(struct tuples *t, const uint32_t *words, uint32_t n)
{
    uint64_t h = hash_of(words, n);
    uint32_t slot;
    if (t->n > 0) {
        uint32_t id = look(t, words, n, h, &slot);
        if (id != TUPLES_NONE)
            return id;
    }
    if (make_room(t, n) < 0)
        return TUPLES_NONE;
    look(t, words, n, h, &slot); /* the table may have grown */
    memcpy(t->words + t->n_words, words, n * sizeof *words);
    t->at[t->n] = t->n_words;
    t->n_words += n;
    t->at[t->n + 1] = t->n_words;
    t->hash[t->n] = h;
    t->slot[slot] = t->n + 1;
    return t->n++;
}

void tuples_clear(struct tuples *t)
{
    charged_free(t->budget, &t->at, &t->cap, sizeof *t->at);
    charged_free(t->budget, &t->hash, &t->cap_hash, sizeof *t->hash);
    free(t->words);
    budget_refund(t->budget, t->cap_words * sizeof *t->words);
    free(t->slot);
    budget_refund(t->budget, t->n_slots * sizeof *t->slot);
    *t = (struct tuples){.budget = t->budget};
}
