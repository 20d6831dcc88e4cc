/* SPDX-License-Identifier: Apache-2.0 */
/* needs: gateway/kafka */
#include "tests/lib/unit.h"

#include <stdlib.h>

#include "gateway/kafka/partition.h"

/* Offset 0 to n - 1, in a partition of its own. */
static struct partition *make(struct partitions *ps, struct message **ret, uint32_t n)
{
    ck_assert_int_eq(partitions_add(ps, "topic", 7), 0);
    struct partition *p = partitions_find(ps, "topic", 7);
    ck_assert_ptr_nonnull(p);
    for (uint32_t i = 0; i < n; i++) {
        ret[i] = calloc(1, sizeof *ret[i]);
        partition_add(p, ret[i], NULL, i + 1);
    }
    return p;
}

UNIT(a_partition_is_found_by_its_topic_and_number)
{
    cleanup(partitions_release) struct partitions ps = {0};
    struct message *unused;
    make(&ps, &unused, 0);
    ck_assert_int_eq(partitions_add(&ps, "other", 7), 0);
    ck_assert_ptr_null(partitions_find(&ps, "topic", 8));
    ck_assert_ptr_null(partitions_find(&ps, "", 7));
    ck_assert_ptr_ne(partitions_find(&ps, "topic", 7), partitions_find(&ps, "other", 7));
    partitions_remove(&ps, partitions_find(&ps, "topic", 7));
    ck_assert_ptr_null(partitions_find(&ps, "topic", 7));
    ck_assert_uint_eq(ps.of.n, 1);
}

UNIT(it_is_as_far_as_the_first_that_is_not_done)
{
    struct partitions ps = {0};
    struct message *m[4];
    struct partition *p = make(&ps, m, 4);
    for (int i = 0; i < 4; i++)
        message_becomes(m[i], MESSAGE_WORKING);
    message_becomes(m[1], MESSAGE_DONE);
    partition_sweep(p, false);
    ck_assert_int_eq(p->progress.done, -1);
    ck_assert_uint_eq(ps.n_messages, 4);
    message_becomes(m[0], MESSAGE_DONE);
    partition_sweep(p, false);
    ck_assert_int_eq(p->progress.done, 2);
    ck_assert_uint_eq(ps.n_messages, 2);
    message_becomes(m[3], MESSAGE_UNSAFE);
    ck_assert_uint_eq(p->n_working, 2);
    ck_assert_uint_eq(ps.n_working, 2);
    message_becomes(m[2], MESSAGE_READY);
    ck_assert_uint_eq(p->n_working, 1);
    ck_assert_uint_eq(ps.n_ready, 1);
    ck_assert(!partition_is_settled(p));
    partitions_release(&ps);
    ck_assert_uint_eq(ps.n_messages + ps.n_ready + ps.n_working, 0);
}

/* What nobody works on goes at once, and is not counted as done; what a lane has is waited for. */
UNIT(one_that_is_not_ours_stays_for_what_is_worked_on)
{
    cleanup(partitions_release) struct partitions ps = {0};
    struct message *m[4];
    struct partition *p = make(&ps, m, 4);
    message_becomes(m[1], MESSAGE_WORKING);
    message_becomes(m[2], MESSAGE_DONE);
    partitions_remove(&ps, p);
    ck_assert_uint_eq(ps.n_messages, 1);
    ck_assert_uint_eq(ps.n_ready, 0);
    ck_assert_int_eq(p->progress.done, -1);
    struct message *late = calloc(1, sizeof *late);
    partition_add(p, late, NULL, 5);
    ck_assert_ptr_eq(TAILQ_NEXT(m[1], next), late); /* the list's end is where it was swept */
    message_becomes(m[1], MESSAGE_DONE);
    partition_sweep(p, false); /* and frees it */
    ck_assert_uint_eq(ps.n_messages, 0);
    ck_assert_uint_eq(ps.of.n, 0);
}
