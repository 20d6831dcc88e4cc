/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys that collide in a hash table whose function is known and whose key is not: what a peer can prepare at
 * home. For tests/bench/attack.c and the tests of proto/base. Any thread.
 */
#ifndef TESTS_LIB_ATTACK_COLLIDE_H
#define TESTS_LIB_ATTACK_COLLIDE_H

#include <stddef.h>
#include <stdint.h>

#define COLLIDE_LONG_BYTES 900u
#define COLLIDE_LONGS      4096u
#define COLLIDE_SHORT_MAX  17u

/* Number i < COLLIDE_LONGS of a set of ASCII names that share all 64 bits of XXH3_64bits_withSeed under one
 * 64-bit seed in about 90. Each word of its input is added to one sum, and the product of the word's halves,
 * keyed, to another (xxhash 0.8, XXH3_accumulate_512): two words of one lane whose keys have a known
 * difference are changed so that both sums stay. */
void collide_long(uint8_t ret[COLLIDE_LONG_BYTES], uint32_t i);

/* A seed under which they do. */
#define COLLIDE_LONG_SEED UINT64_C(0xff8b85edf777e844)

/* The next name (at most COLLIDE_SHORT_MAX with its NUL), in hex, of a number from *at on that XXH3 without a
 * seed puts into the first of 2^bits places; its length. *at is the number behind it. */
size_t collide_short(char *ret, uint64_t *at, unsigned bits);

/* The next pair of numbers below 2^16 from *at on, packed as idmap_key() does, that hash_mix() with a second
 * word of 0 puts into the first of 2^bits places. */
uint64_t collide_pair(uint64_t *at, unsigned bits);

/* The first n stream numbers, ascending and odd, that nghttp2's map of streams (1.52, nghttp2_map.c: the
 * number times 2654435769, its upper bits) puts into one place while it has at most 2^12. */
void collide_streams(uint32_t *ret, uint32_t n);

#endif
