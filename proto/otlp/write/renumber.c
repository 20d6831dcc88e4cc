/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/otlp/write/renumber.h"

#include <errno.h>

#define WORDS(n) (((size_t)(n) + 63) / 64)

int renumber_init(struct renumber *r, uint32_t n, struct arena *memory)
{
    r->n = n;
    r->to = arena_calloc(memory, n, sizeof *r->to);
    r->bits = arena_calloc(memory, WORDS(n), sizeof *r->bits);
    r->words = arena_calloc(memory, WORDS(WORDS(n)), sizeof *r->words);
    return r->to && r->bits && r->words ? 0 : -ENOMEM;
}

uint32_t renumber_next_word(const struct renumber *r, uint32_t i)
{
    uint32_t word = i / 64 + 1, above = word / 64, n_above = (uint32_t)WORDS(WORDS(r->n));
    if (above >= n_above)
        return r->n;
    uint64_t rest = r->words[above] >> (word % 64) << (word % 64);
    while (!rest && ++above < n_above)
        rest = r->words[above];
    if (!rest)
        return r->n;
    word = above * 64 + (uint32_t)__builtin_ctzll(rest);
    return word * 64 + (uint32_t)__builtin_ctzll(r->bits[word]);
}

void renumber_assign(struct renumber *r)
{
    r->n_new = 0;
    for (EACH_REACHED(i, r))
        r->to[i] = r->n_new++;
}

void renumber_forget(struct renumber *r)
{
    for (uint32_t above = 0; above < WORDS(WORDS(r->n)); above++) {
        for (uint64_t rest = r->words[above]; rest; rest &= rest - 1)
            r->bits[above * 64 + (uint32_t)__builtin_ctzll(rest)] = 0;
        r->words[above] = 0;
    }
}
