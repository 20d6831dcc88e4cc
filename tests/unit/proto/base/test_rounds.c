/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/rounds.h"

#include <string.h>

#include "proto/base/macros.h"
#include "tests/lib/unit.h"

/* Items are named by their queue and their number in it: "a0". */
struct named {
    struct rounds_item item;
    char name[3];
};

static struct rounds rounds;
static struct rounds_queue queues[3];
static struct named items[3][4];

static void join(int q, int i)
{
    struct named *n = &items[q][i];
    n->name[0] = (char)('a' + q);
    n->name[1] = (char)('0' + i);
    rounds_join(&rounds, &queues[q], &n->item);
    ck_assert(n->item.waits);
}

static const char *take(void)
{
    struct rounds_queue *q = rounds_next(&rounds);
    if (!q)
        return "";
    struct named *n = container_of(q->first, struct named, item);
    rounds_leave(&rounds, q, &n->item);
    ck_assert(!n->item.waits);
    return n->name;
}

static const char *take_all(void)
{
    static char all[64];
    all[0] = 0;
    for (const char *name; *(name = take());)
        strcat(strcat(all, name), " ");
    return all;
}

UNIT(queues_take_turns_and_each_is_in_order)
{
    ck_assert_str_eq(take(), "");
    for (int i = 0; i < 4; i++)
        join(0, i);
    join(1, 0);
    join(1, 1);
    join(2, 0);
    ck_assert_str_eq(take_all(), "a0 b0 c0 a1 b1 a2 a3 ");
    ck_assert_ptr_null(rounds.turn);
}

UNIT(a_queue_that_comes_is_behind_all_others)
{
    join(0, 0);
    join(0, 1);
    join(1, 0);
    join(1, 1);
    ck_assert_str_eq(take(), "a0");
    join(2, 0); /* it is b's turn, then a's */
    ck_assert_str_eq(take_all(), "b0 a1 c0 b1 ");
}

UNIT(who_leaves_from_anywhere_leaves_the_others_in_order)
{
    for (int q = 0; q < 3; q++)
        for (int i = 0; i < 3; i++)
            join(q, i);
    rounds_leave(&rounds, &queues[0], &items[0][1].item); /* in the middle */
    rounds_leave(&rounds, &queues[2], &items[2][0].item); /* the first */
    rounds_leave(&rounds, &queues[2], &items[2][2].item); /* the last */
    rounds_leave(&rounds, &queues[2], &items[2][1].item); /* and with it the queue */
    ck_assert_str_eq(take(), "a0");
    rounds_leave(&rounds, &queues[1], &items[1][0].item); /* whose turn it is */
    ck_assert_str_eq(take_all(), "b1 a2 b2 ");
    join(2, 1);
    ck_assert_str_eq(take_all(), "c1 ");
}
