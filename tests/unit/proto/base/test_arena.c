/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/arena.h"
#include "tests/lib/unit.h"

UNIT(refuses_what_the_budget_does_not_allow_and_refunds_all)
{
    struct budget top = BUDGET_INIT(1 << 20, NULL), peer = BUDGET_INIT(64 << 10, &top);
    struct arena a = ARENA_INIT(&peer);
    ck_assert_ptr_nonnull(arena_alloc(&a, 1000));
    ck_assert_ptr_null(arena_alloc(&a, 100 << 10));
    ck_assert_ptr_nonnull(arena_alloc(&a, 1000));
    ck_assert_uint_eq(atomic_load(&top.used), atomic_load(&peer.used));
    arena_release(&a);
    ck_assert_uint_eq(atomic_load(&top.used), 0);
    ck_assert_uint_eq(atomic_load(&peer.used), 0);
}

UNIT(reset_keeps_one_block_for_the_next_round)
{
    cleanup(arena_release) struct arena a = ARENA_INIT(NULL);
    for (int i = 0; i < 1000; i++)
        ck_assert_ptr_nonnull(arena_alloc(&a, 100));
    arena_reset(&a, 1 << 20);
    uint8_t *first = unit_made(arena_alloc(&a, 100));
    arena_reset(&a, 1 << 20);
    ck_assert_ptr_eq(first, arena_alloc(&a, 100));
}

UNIT(calloc_refuses_a_product_that_overflows)
{
    cleanup(arena_release) struct arena a = ARENA_INIT(NULL);
    ck_assert_ptr_null(arena_calloc(&a, SIZE_MAX / 2, 3));
}

UNIT(what_was_reserved_is_one_block)
{
    struct budget b = BUDGET_INIT(1 << 20, NULL);
    cleanup(arena_release) struct arena a = ARENA_INIT(&b);
    arena_reserve(&a, 100 * (1000 + ARENA_EACH));
    const size_t used = atomic_load(&b.used);
    ck_assert_uint_ge(used, 100 * 1000);
    for (int i = 0; i < 100; i++)
        ck_assert_ptr_nonnull(arena_alloc(&a, 1000));
    ck_assert_uint_eq(atomic_load(&b.used), used);
    arena_reserve(&a, 2 << 20); /* more than there is */
    ck_assert_uint_eq(atomic_load(&b.used), used);
    ck_assert_ptr_nonnull(arena_alloc(&a, 1000));
}
