/* SPDX-License-Identifier: Apache-2.0 */
/* What a peer can make of pairs of numbers: any of them, in any order, but none that collide. */
#include <time.h>

#include "proto/base/idmap.h"
#include "tests/lib/sweep.h"
#include "tests/lib/unit.h"

#define N 30000u

UNIT(what_was_placed_is_found)
{
    struct budget budget = BUDGET_INIT(1u << 20, NULL);
    struct idmap m = IDMAP_INIT(&budget);
    ck_assert_ptr_null(idmap_find(&m, 0));
    for (uint32_t i = 0; i < 10000; i++) {
        ck_assert_uint_eq(*unit_made(idmap_place(&m, idmap_key(i % 7, i), i)), i);
        ck_assert_uint_eq(*unit_made(idmap_place(&m, idmap_key(i % 7, i), 0)), i);
    }
    for (uint32_t i = 0; i < 10000; i++) {
        ck_assert_uint_eq(*unit_made(idmap_find(&m, idmap_key(i % 7, i))), i);
        ck_assert_ptr_null(idmap_find(&m, idmap_key(i % 7 + 1, i)));
    }
    ck_assert_uint_eq(m.n, 10000);
    ck_assert_uint_eq(atomic_load(&budget.used), m.n_slots * sizeof *m.slots);
    idmap_clear(&m);
    ck_assert_ptr_null(idmap_find(&m, idmap_key(1, 1)));
    idmap_release(&m);
    ck_assert_uint_eq(atomic_load(&budget.used), 0);
}

OOM_SWEEP(a_refused_key_is_not_there_and_the_others_are)
{
    cleanup(idmap_release) struct idmap m = IDMAP_INIT(NULL);
    uint32_t n = 0;
    for (uint64_t key = 0; key < 200; key++) {
        bool placed = idmap_place(&m, key, n) != NULL;
        ck_assert(placed || sweep_has_failed());
        ck_assert_int_eq(idmap_find(&m, key) != NULL, placed);
        n += placed;
    }
    ck_assert_uint_eq(m.n, n);
}

/* CPU time for N keys into a map that begins empty. */
static uint64_t fill(const uint64_t *keys)
{
    struct idmap m = IDMAP_INIT(NULL);
    struct timespec from, to;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
    for (uint32_t i = 0; i < N; i++) {
        uint32_t *place = unit_made(idmap_place(&m, keys[i], i));
        ck_assert_uint_eq(*place, i);
    }
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
    idmap_release(&m);
    return (uint64_t)(to.tv_sec - from.tv_sec) * 1000000000u + (uint64_t)to.tv_nsec - (uint64_t)from.tv_nsec;
}

/* Keys whose product with the golden ratio is 0 in bits 32 … 47: an unseeded multiplication would put all of
 * them into one place, one after the other, 450 million steps. */
UNIT(pairs_prepared_for_one_place_cost_what_others_do)
{
    static uint64_t plain[N], prepared[N];
    const uint64_t golden = 0x9e3779b97f4a7c15u;
    uint64_t inverse = golden; /* modulo 2^64: each round of Newton's doubles the bits that are right */
    for (int i = 0; i < 5; i++)
        inverse *= 2 - golden * inverse;
    ck_assert_uint_eq(golden * inverse, 1);
    for (uint32_t i = 0; i < N; i++) {
        prepared[i] = ((uint64_t)i << 48 | i) * inverse;
        plain[i] = idmap_key(i / 250, i % 250);
    }
    uint64_t ratio = UINT64_MAX;
    for (int i = 0; i < 5; i++) {
        uint64_t of_plain = fill(plain), now = fill(prepared) / (of_plain + 1);
        ratio = now < ratio ? now : ratio;
    }
    ck_assert_msg(ratio < 4, "%u times", (unsigned)ratio);
}
