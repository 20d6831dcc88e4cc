/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/hash_table.h"

#include <errno.h>

#include "proto/base/hash.h"
#include "proto/base/vec.h"
#include "tests/lib/sweep.h"
#include "tests/lib/unit.h"

/* A set of numbers: the simplest thing a table can be of. */
struct set {
    struct hash_table table;
    VEC(uint32_t) keys;
    uint32_t bits; /* of the hash that say something: few make keys collide */
};

static uint64_t hash_of(const struct set *s, uint32_t key)
{
    return hash_mix(key, 1) & ((UINT64_C(1) << s->bits) - 1);
}

static uint32_t set_find(const struct set *s, uint32_t key)
{
    struct hash_at at = hash_table_at(&s->table, hash_of(s, key));
    for (uint32_t i; (i = hash_table_next(&s->table, &at)) != HASH_NONE;)
        if (s->keys.p[i] == key)
            return i;
    return HASH_NONE;
}

static int set_add(struct set *s, uint32_t key)
{
    if (vec_reserve(&s->keys, s->keys.n + 1) < 0 ||
        hash_table_add(&s->table, hash_table_at(&s->table, hash_of(s, key)), s->keys.n) < 0)
        return -ENOMEM;
    return vec_append(&s->keys, key);
}

/* The last element fills the hole. */
static void set_remove(struct set *s, uint32_t i)
{
    uint32_t last = s->keys.n - 1;
    hash_table_remove(&s->table, hash_of(s, s->keys.p[i]), i);
    if (i != last) {
        const uint64_t moved = hash_of(s, s->keys.p[last]);
        hash_table_remove(&s->table, moved, last);
        hash_table_add(&s->table, hash_table_at(&s->table, moved), i);
    }
    s->keys.p[i] = s->keys.p[last];
    vec_pop(&s->keys);
}

static void set_release(struct set *s)
{
    hash_table_release(&s->table);
    vec_release(&s->keys);
}

UNIT(what_was_added_is_found_by_its_number)
{
    struct set s = {.bits = 64 - 1};
    ck_assert_uint_eq(set_find(&s, 5), HASH_NONE);
    for (uint32_t i = 0; i < 20000; i++) {
        ck_assert_int_eq(set_add(&s, 3 * i), 0);
        ck_assert_uint_eq(set_find(&s, 3 * i), i);
    }
    for (uint32_t i = 0; i < 60000; i++)
        ck_assert_uint_eq(set_find(&s, i), i % 3 ? HASH_NONE : i / 3);
    ck_assert_uint_le(s.table.used * 4, (s.table.mask + 1) * 3);
    hash_table_clear(&s.table);
    vec_clear(&s.keys);
    ck_assert_uint_eq(set_find(&s, 3), HASH_NONE);
    ck_assert_int_eq(set_add(&s, 3), 0);
    ck_assert_uint_eq(set_find(&s, 3), 0);
    set_release(&s);
    ck_assert_uint_eq(set_find(&s, 3), HASH_NONE);
}

static int add(struct hash_table *t, uint64_t hash, uint32_t number)
{
    return hash_table_add(t, hash_table_at(t, hash), number);
}

UNIT(all_numbers_of_one_hash_are_offered)
{
    cleanup(hash_table_release) struct hash_table t = {0};
    bool seen[100] = {false};
    for (uint32_t i = 0; i < 100; i++)
        ck_assert_int_eq(add(&t, 42 + (UINT64_C(7) << 32) * i, i), 0); /* the low half counts */
    ck_assert_int_eq(add(&t, 43, 100), 0);
    struct hash_at at = hash_table_at(&t, 42);
    uint32_t n = 0;
    for (uint32_t i; (i = hash_table_next(&t, &at)) != HASH_NONE; n++) {
        ck_assert(i < 100 && !seen[i]);
        seen[i] = true;
    }
    ck_assert_uint_eq(n, 100);
}

/* Against a plain array of what is in it, with hashes so poor that every removal moves others. */
UNIT(removal_leaves_the_others_to_be_found)
{
    for (uint32_t bits = 1; bits <= 8; bits++) {
        cleanup(set_release) struct set s = {.bits = bits};
        bool in[64] = {false};
        uint64_t dice = bits;
        for (uint32_t round = 0; round < 1500; round++) {
            dice = hash_mix(dice, round);
            uint32_t key = (uint32_t)dice % ARRAY_LEN(in), at = set_find(&s, key);
            ck_assert_int_eq(at != HASH_NONE, in[key]);
            if (in[key])
                set_remove(&s, at);
            else
                ck_assert_int_eq(set_add(&s, key), 0);
            in[key] = !in[key];
            for (uint32_t k = 0; k < ARRAY_LEN(in); k++) {
                at = set_find(&s, k);
                ck_assert_int_eq(at != HASH_NONE, in[k]);
                ck_assert(!in[k] || s.keys.p[at] == k);
            }
        }
        ck_assert_uint_eq(s.table.used, s.keys.n);
    }
}

UNIT(what_was_reserved_does_not_fail)
{
    struct budget budget = BUDGET_INIT(8192, NULL);
    struct hash_table t = {.budget = &budget};
    ck_assert_int_eq(hash_table_reserve(&t, 700), 0);
    ck_assert_uint_eq(atomic_load(&budget.used), 1024 * sizeof *t.slots);
    ck_assert_int_eq(hash_table_reserve(&t, 800), -ENOMEM);
    for (uint32_t i = 0; i < 768; i++)
        ck_assert_int_eq(add(&t, i, i), 0);
    ck_assert_int_eq(add(&t, 768, 768), -ENOMEM);
    ck_assert_uint_eq(t.used, 768);
    struct hash_at at = hash_table_at(&t, 700);
    ck_assert_uint_eq(hash_table_next(&t, &at), 700);
    hash_table_release(&t);
    ck_assert_uint_eq(atomic_load(&budget.used), 0);
    ck_assert_int_eq(hash_table_reserve(&t, UINT32_MAX), -ENOMEM);
}

OOM_SWEEP(a_table_that_finds_no_memory_keeps_what_it_has)
{
    struct budget budget = BUDGET_INIT(1u << 20, NULL);
    struct set s = {.bits = 32, .table = {.budget = &budget}, .keys = {.budget = &budget}};
    uint32_t n = 0;
    for (uint32_t key = 0; key < 300; key++)
        n += set_add(&s, key) == 0;
    ck_assert_uint_eq(s.keys.n, n);
    ck_assert_uint_eq(s.table.used, n);
    for (uint32_t i = 0; i < n; i++)
        ck_assert_uint_eq(set_find(&s, s.keys.p[i]), i);
    set_release(&s);
    ck_assert_uint_eq(atomic_load(&budget.used), 0);
}
