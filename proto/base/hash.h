/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hashing: XXH3 (Debian libxxhash-dev, header only). With the process's own key where a peer chooses the
 * keys, so that nobody can prepare colliding strings.
 */
#ifndef PROTO_BASE_HASH_H
#define PROTO_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "proto/base/bytes.h"
#include "proto/base/macros.h"

/* Up to here XXH3 mixes every 16 bytes with a 128-bit product; beyond, it has a form of its own. */
#define HASH_SHORT_MAX XXH3_MIDSIZE_MAX

/* hash_bytes of what is longer; not called otherwise. Any thread. */
uint64_t hash_long(struct bytes b, uint64_t seed);

/* A seed that is written down gives the same numbers in every process; hash_seed() gives numbers that no peer
 * can foresee, under a key of 192 bytes where 64 bits do not suffice (hash.c). */
static inline uint64_t hash_bytes(struct bytes b, uint64_t seed)
{
    return likely(b.n <= HASH_SHORT_MAX) ? XXH3_64bits_withSeed(b.p, b.n, seed) : hash_long(b, seed);
}

/* Mixes two words into one; not symmetric. Two pairs of words below 2^32 never give the same (each step can
 * be undone); others do as two in 2^64 by chance. */
static inline uint64_t hash_mix(uint64_t a, uint64_t b)
{
    uint64_t x = (a ^ (b << 32 | b >> 32)) * 0x9e3779b97f4a7c15u;
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93u;
    x ^= x >> 32;
    return x;
}

/* The process's own seed: random, drawn with getrandom(2) before main. Any thread. */
extern uint64_t hash_own_seed;
static inline uint64_t hash_seed(void)
{
    return hash_own_seed;
}

#endif
