/*
 * Hashing: XXH3 (Debian libxxhash-dev, header only). With a per-process seed where a peer chooses the keys,
 * so that nobody can prepare colliding strings.
 */
#ifndef PROTO_BASE_HASH_H
#define PROTO_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "proto/base/bytes.h"

static inline uint64_t hash_bytes(struct bytes b, uint64_t seed)
{
    return XXH3_64bits_withSeed(b.p, b.n, seed);
}

/* Mixes two words into one; not symmetric. */
static inline uint64_t hash_mix(uint64_t a, uint64_t b)
{
    uint64_t x = a ^ (b + 0x9e3779b97f4a7c15u + (a << 6) + (a >> 2));
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93u;
    x ^= x >> 32;
    return x;
}

/* The process's own seed: random, drawn once with getrandom(2). Any thread. */
uint64_t hash_seed(void);

#endif
