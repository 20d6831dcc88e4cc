/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which entries of a table a part of a request reaches, and their numbers in it (subset.h).
 *
 * What is reached is kept as bits, and above them a bit for each word that has any: going through them, in
 * the table's order, and forgetting them costs as much as they are, and a 4096th of the table. Entry 0 is
 * always reached by whoever uses this, and stays 0.
 */
#ifndef PROTO_OTLP_WRITE_RENUMBER_H
#define PROTO_OTLP_WRITE_RENUMBER_H

#include <stdint.h>

#include "proto/base/arena.h"

struct renumber {
    uint32_t *to; /* [n]: of those reached */
    uint64_t *bits, *words;
    uint32_t n, n_new;
};

/* Of a table with n entries, none of them reached. 0 or -ENOMEM; memory's to free. */
int renumber_init(struct renumber *r, uint32_t n, struct arena *memory);

static inline void renumber_reach(struct renumber *r, uint32_t i)
{
    uint64_t bit = (uint64_t)1 << (i % 64), *word = &r->bits[i / 64];
    if (*word & bit) /* most are met again and again */
        return;
    if (!*word)
        r->words[i / 4096] |= (uint64_t)1 << (i / 64 % 64);
    *word |= bit;
}

/* The first that is reached from i on; n: none. The second is of words further on than i's. */
uint32_t renumber_next_word(const struct renumber *r, uint32_t i);

static inline uint32_t renumber_next(const struct renumber *r, uint32_t i)
{
    uint64_t rest = i < r->n ? r->bits[i / 64] >> (i % 64) : 0;
    return rest ? i + (uint32_t)__builtin_ctzll(rest) : renumber_next_word(r, i);
}

#define EACH_REACHED(i, r)            \
    uint32_t i = renumber_next(r, 0); \
    i < (r)->n;                       \
    i = renumber_next(r, i + 1)

/* Gives those that are reached their numbers. */
void renumber_assign(struct renumber *r);

/* As after renumber_init. */
void renumber_forget(struct renumber *r);

#endif
