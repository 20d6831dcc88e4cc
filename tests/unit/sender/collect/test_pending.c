/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include <stdlib.h>

#include "sender/collect/pending.h"

static void add(struct pending *p, uint64_t ticket, uint32_t frames)
{
    static const uint64_t body[SAMPLE_USER_MAX * SAMPLE_FRAME_WORDS] = {11, 22, 33};
    struct sample_head head = {.kind = SAMPLE_STACK, .n_user = frames, .ticket = ticket};
    pending_add(p, &head, body);
}

UNIT(a_stack_waits_for_its_ticket)
{
    struct pending p = {0};
    ck_assert_ptr_null(pending_take(&p, 1));
    for (uint64_t i = 1; i <= 10000; i++)
        add(&p, i, 3);
    for (uint64_t i = 10000; i >= 1; i--) {
        struct pending_stack *s = pending_take(&p, i);
        ck_assert_ptr_nonnull(s);
        ck_assert_uint_eq(s->head.ticket, i);
        ck_assert_uint_eq(s->body[2], 33);
        free(s);
        ck_assert_ptr_null(pending_take(&p, i));
    }
    ck_assert_uint_eq(p.n, 0);
    ck_assert_uint_eq(p.bytes, 0);
    ck_assert_uint_eq(p.dropped, 0);
    pending_release(&p);
}

UNIT(the_oldest_go_first_and_are_counted)
{
    struct pending p = {0};
    for (uint64_t i = 1; i <= PENDING_MAX + 5; i++)
        add(&p, i, 1);
    ck_assert_uint_eq(p.n, PENDING_MAX);
    ck_assert_uint_eq(p.dropped, 5);
    ck_assert_ptr_null(pending_take(&p, 5));
    free(pending_take(&p, 6));
    ck_assert_uint_eq(p.n, PENDING_MAX - 1);
    pending_release(&p);
}

UNIT(bytes_are_bounded_too)
{
    struct pending p = {0};
    for (uint64_t i = 1; i <= 20000; i++)
        add(&p, i, SAMPLE_USER_MAX);
    ck_assert_uint_le(p.bytes, PENDING_BYTES);
    ck_assert_uint_eq(p.n + p.dropped, 20000);
    ck_assert_uint_gt(p.dropped, 0);
    pending_release(&p);
}

UNIT(a_ticket_given_again_replaces)
{
    struct pending p = {0};
    add(&p, 9, 1);
    add(&p, 9, 2);
    ck_assert_uint_eq(p.n, 1);
    struct pending_stack *s = pending_take(&p, 9);
    ck_assert_uint_eq(s->head.n_user, 2);
    free(s);
    pending_release(&p);
}
