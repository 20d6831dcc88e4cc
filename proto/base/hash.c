/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/hash.h"

#include <sys/random.h>
#include <time.h>

/*
 * XXH3 makes the key of its long form, 24 words, out of the 64 bits of a seed by adding it to (or taking it
 * from) words that everybody knows. So two words keep a difference that can be guessed: the low halves of
 * words 0 and 12 differ by 0x060a0410 for one seed in 62. Whoever guesses right, and may try again, has
 * thousands of names of 900 bytes that share all 64 bits (tests/lib/attack_collide.h does). Under a key whose
 * words have nothing to do with one another a guess hits for one key in 2^32, and for that pair alone.
 */
static uint8_t own_key[XXH_SECRET_DEFAULT_SIZE];
uint64_t hash_own_seed;

__attribute__((constructor)) static void draw(void)
{
    if (getrandom(own_key, sizeof own_key, GRND_NONBLOCK) == (ssize_t)sizeof own_key &&
        getrandom(&hash_own_seed, sizeof hash_own_seed, GRND_NONBLOCK) == (ssize_t)sizeof hash_own_seed)
        return;
    struct timespec now; /* early boot: weak, but never the same twice */
    clock_gettime(CLOCK_MONOTONIC, &now);
    uint64_t word = hash_mix((uint64_t)now.tv_nsec, (uint64_t)(uintptr_t)&now);
    hash_own_seed = word;
    for (size_t at = 0; at < sizeof own_key; at += sizeof word) {
        word = hash_mix(word, at + 1);
        memcpy(own_key + at, &word, sizeof word);
    }
}

uint64_t hash_long(struct bytes b, uint64_t seed)
{
    if (seed == hash_seed())
        return XXH3_64bits_withSecret(b.p, b.n, own_key, sizeof own_key);
    return XXH3_64bits_withSeed(b.p, b.n, seed);
}
