/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/hash.h"

#include <stdlib.h>

#include "proto/base/intern.h"
#include "tests/lib/attack_collide.h"
#include "tests/lib/unit.h"

#define KEYS  2048u
#define BITS  12u /* of places: a table of so many keys, half full */
#define PLACE ((1u << BITS) - 1)
/* Linear probing, at most three quarters full: the longest way of some thousand keys is some tens of steps;
 * keys that collide make it as long as there are keys. */
#define WAY_MAX 300u

static bool all_share(uint64_t seed)
{
    uint8_t name[COLLIDE_LONG_BYTES];
    collide_long(name, 0);
    uint64_t first = hash_bytes(bytes_of(name, sizeof name), seed);
    for (uint32_t i = 1; i < COLLIDE_LONGS; i *= 2) {
        collide_long(name, i);
        if (hash_bytes(bytes_of(name, sizeof name), seed) != first)
            return false;
    }
    return true;
}

/* What the attack is worth, so that the tests below do not pass for a generator that has gone wrong. */
UNIT(a_seed_of_64_bits_does_not_protect_long_keys)
{
    uint32_t n = 0;
    uint64_t seed = 1;
    for (uint32_t i = 0; i < 20000; i++) {
        seed = hash_mix(seed, i);
        n += all_share(seed);
    }
    ck_assert_uint_gt(n, 20000 / 400);
    ck_assert(all_share(COLLIDE_LONG_SEED));
}

static int by_hash(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

UNIT(under_the_process_own_key_no_two_long_keys_collide)
{
    static uint64_t hash[COLLIDE_LONGS];
    uint8_t name[COLLIDE_LONG_BYTES];
    for (uint32_t i = 0; i < COLLIDE_LONGS; i++) {
        collide_long(name, i);
        hash[i] = hash_bytes(bytes_of(name, sizeof name), hash_seed());
    }
    qsort(hash, COLLIDE_LONGS, sizeof *hash, by_hash);
    for (uint32_t i = 1; i < COLLIDE_LONGS; i++)
        ck_assert_uint_ne(hash[i - 1], hash[i]);
}

/* All keys the same: the sum of 64 bits of their hashes says nothing of how long a key is, or what is in it.
 */
UNIT(keys_of_every_length_differ_by_their_last_byte)
{
    char text[1200] = {0};
    for (size_t n = 1; n <= sizeof text; n++) {
        text[n - 1] = 1;
        uint64_t one = hash_bytes(bytes_of(text, n), hash_seed());
        ck_assert_uint_eq(one, hash_bytes(bytes_of(text, n), hash_seed()));
        text[n - 1] = 0;
        ck_assert_uint_ne(one, hash_bytes(bytes_of(text, n), hash_seed()));
        ck_assert_uint_ne(one, hash_bytes(bytes_of(text, n - 1), hash_seed()));
    }
}

/* Gateways that sample by the same seed agree: what is written down must not move with the process. */
UNIT(a_seed_that_is_written_down_gives_the_same_numbers_everywhere)
{
    char text[300];
    memset(text, 'x', sizeof text);
    ck_assert_uint_eq(hash_bytes(bytes_of(text, 10), 7), XXH3_64bits_withSeed(text, 10, 7));
    ck_assert_uint_eq(hash_bytes(bytes_of(text, HASH_SHORT_MAX), 7),
                      XXH3_64bits_withSeed(text, HASH_SHORT_MAX, 7));
    ck_assert_uint_eq(hash_bytes(bytes_of(text, HASH_SHORT_MAX + 1), 7),
                      XXH3_64bits_withSeed(text, HASH_SHORT_MAX + 1, 7));
    ck_assert_uint_eq(hash_bytes(bytes_of(text, sizeof text), 0), XXH3_64bits(text, sizeof text));
}

static uint32_t longest_way(const struct hash_table *t)
{
    uint32_t longest = 0;
    for (uint32_t i = 0; i <= t->mask; i++)
        if (t->slots[i].entry != 0)
            longest = max_of(longest, (i - t->slots[i].hash) & t->mask);
    return longest;
}

UNIT(prepared_names_take_no_long_way_in_a_table)
{
    cleanup(intern_release) struct intern t = INTERN_INIT(NULL);
    uint8_t name[COLLIDE_LONG_BYTES];
    for (uint32_t i = 0; i < COLLIDE_LONGS; i++) {
        collide_long(name, i);
        ck_assert_uint_eq(intern_add(&t, bytes_of(name, sizeof name)), i);
    }
    ck_assert_uint_lt(longest_way(&t.table), WAY_MAX);
    intern_clear(&t);
    uint64_t at = 0;
    for (uint32_t i = 0; i < KEYS; i++) {
        char text[COLLIDE_SHORT_MAX];
        size_t n = collide_short(text, &at, BITS);
        ck_assert_uint_eq(hash_bytes(bytes_of(text, n), 0) & PLACE, 0);
        ck_assert_uint_eq(intern_add(&t, bytes_of(text, n)), i);
    }
    ck_assert_uint_lt(longest_way(&t.table), WAY_MAX);
}

/* Numbers that we give ourselves are small, and in places their hash is all that tells them apart. */
UNIT(no_two_pairs_of_small_numbers_mix_to_one)
{
    enum { SIDE = 512 };
    static uint64_t hash[SIDE * SIDE];
    for (uint32_t step = 1; step <= 1u << 20; step <<= 10) {
        for (uint32_t i = 0; i < ARRAY_LEN(hash); i++)
            hash[i] = hash_mix((uint64_t)(i / SIDE) * step, (uint64_t)(i % SIDE) * step);
        qsort(hash, ARRAY_LEN(hash), sizeof *hash, by_hash);
        for (uint32_t i = 1; i < ARRAY_LEN(hash); i++)
            ck_assert_uint_ne(hash[i - 1], hash[i]);
    }
    ck_assert_uint_ne(hash_mix(1, 2), hash_mix(2, 1));
}

/* The longest way in a table with linear probing, half full. */
static uint32_t way_of_pairs(const uint64_t *key, uint64_t seed)
{
    static bool taken[PLACE + 1];
    memset(taken, 0, sizeof taken);
    uint32_t longest = 0;
    for (uint32_t i = 0; i < KEYS; i++) {
        uint32_t way = 0;
        while (taken[(hash_mix(key[i], seed) + way) & PLACE])
            way++;
        taken[(hash_mix(key[i], seed) + way) & PLACE] = true;
        longest = way > longest ? way : longest;
    }
    return longest;
}

UNIT(prepared_pairs_take_no_long_way_in_a_table)
{
    static uint64_t key[KEYS];
    uint64_t at = 0;
    for (uint32_t i = 0; i < KEYS; i++)
        key[i] = collide_pair(&at, BITS);
    ck_assert_uint_eq(way_of_pairs(key, 0), KEYS - 1);
    ck_assert_uint_lt(way_of_pairs(key, hash_seed()), WAY_MAX);
    /* and under others, since this process has but one */
    uint64_t seed = hash_seed();
    for (uint32_t i = 0; i < 200; i++) {
        seed = hash_mix(seed, i);
        ck_assert_uint_lt(way_of_pairs(key, seed), WAY_MAX);
    }
}

/* Rows, columns and grids of pairs: what numbers given in order make without anybody meaning it. */
UNIT(regular_pairs_take_no_long_way_in_a_table)
{
    static uint64_t key[KEYS];
    for (uint32_t shape = 0; shape < 4; shape++) {
        for (uint32_t i = 0; i < KEYS; i++)
            key[i] = shape == 0   ? (uint64_t)i << 32
                     : shape == 1 ? i
                     : shape == 2 ? (uint64_t)(i / 64) << 32 | i % 64
                                  : (uint64_t)i << 32 | i;
        ck_assert_uint_lt(way_of_pairs(key, hash_seed()), WAY_MAX);
    }
}
