/* SPDX-License-Identifier: Apache-2.0 */
/* What a peer can make of pairs of numbers: any of them, in any order, but none that collide. */
#include <time.h>

#include "gateway/aggregate/idmap.h"
#include "tests/lib/unit.h"

#define N 30000u

/* CPU time for N keys into a map that begins empty. */
static uint64_t fill(const uint64_t *keys)
{
    struct idmap m = IDMAP_INIT(NULL);
    struct timespec from, to;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
    for (uint32_t i = 0; i < N; i++) {
        uint32_t *place = idmap_place(&m, keys[i], i);
        ck_assert_ptr_nonnull(place);
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
