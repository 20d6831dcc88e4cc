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
    cleanup(pending_release) struct pending p = {0};
    ck_assert_ptr_null(pending_take(&p, 1));
    for (uint64_t i = 1; i <= 10000; i++)
        add(&p, i, 3);
    for (uint64_t i = 10000; i >= 1; i--) {
        struct pending_stack *s = unit_made(pending_take(&p, i));
        ck_assert_uint_eq(s->head.ticket, i);
        ck_assert_uint_eq(s->body[2], 33);
        free(s);
        ck_assert_ptr_null(pending_take(&p, i));
    }
    ck_assert_uint_eq(p.n, 0);
    ck_assert_uint_eq(p.bytes, 0);
    ck_assert_uint_eq(p.dropped, 0);
}

UNIT(the_oldest_go_first_and_are_counted)
{
    cleanup(pending_release) struct pending p = {0};
    for (uint64_t i = 1; i <= PENDING_MAX + 5; i++)
        add(&p, i, 1);
    ck_assert_uint_eq(p.n, PENDING_MAX);
    ck_assert_uint_eq(p.dropped, 5);
    ck_assert_ptr_null(pending_take(&p, 5));
    free(pending_take(&p, 6));
    ck_assert_uint_eq(p.n, PENDING_MAX - 1);
}

UNIT(bytes_are_bounded_too)
{
    cleanup(pending_release) struct pending p = {0};
    for (uint64_t i = 1; i <= 20000; i++)
        add(&p, i, SAMPLE_USER_MAX);
    ck_assert_uint_le(p.bytes, PENDING_BYTES);
    ck_assert_uint_eq(p.n + p.dropped, 20000);
    ck_assert_uint_gt(p.dropped, 0);
}

UNIT(a_ticket_given_again_replaces)
{
    cleanup(pending_release) struct pending p = {0};
    add(&p, 9, 1);
    add(&p, 9, 2);
    ck_assert_uint_eq(p.n, 1);
    autofree struct pending_stack *s = pending_take(&p, 9);
    ck_assert_uint_eq(s->head.n_user, 2);
}

static void tell(struct pending *p, uint64_t ticket)
{
    struct sample_head head = {.kind = SAMPLE_VALUE, .ticket = ticket, .value = 3 * ticket, .time = ticket};
    pending_value(p, &head);
}

UNIT(values_of_eight_stacks_under_way_are_all_kept)
{
    cleanup(pending_release) struct pending p = {0};
    struct pending_value value;
    ck_assert(!pending_take_value(&p, 1, &value));
    for (uint64_t first = 1; first < 20000; first += 8) {
        for (uint64_t i = first; i < first + 8; i++)
            tell(&p, i);
        for (uint64_t i = first; i < first + 8; i++) {
            ck_assert(pending_take_value(&p, i, &value));
            ck_assert_uint_eq(value.value, 3 * i);
            ck_assert(!pending_take_value(&p, i, &value)); /* once */
        }
    }
}

UNIT(of_values_that_nobody_takes_the_oldest_go)
{
    cleanup(pending_release) struct pending p = {0};
    struct pending_value value;
    for (uint64_t i = 1; i <= 20 * PENDING_VALUES; i++)
        tell(&p, i);
    for (uint64_t i = 20 * PENDING_VALUES - 7; i <= 20 * PENDING_VALUES; i++)
        ck_assert(pending_take_value(&p, i, &value));
    ck_assert(!pending_take_value(&p, 1, &value));
}
