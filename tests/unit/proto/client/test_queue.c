/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include <stdlib.h>
#include <string.h>

#include "proto/client/queue.h"

static struct client_body *body(size_t n)
{
    uint8_t *p = malloc(n + 1);
    memset(p, 'x', n);
    return unit_made(client_body_new(p, n));
}

UNIT(bounded_in_bytes)
{
    cleanup(send_queue_release) struct send_queue q;
    ck_assert_int_eq(send_queue_init(&q, 10, 1000, NULL), 0);
    ck_assert(send_queue_reserve(&q, 600));
    ck_assert(!send_queue_reserve(&q, 401));
    ck_assert(send_queue_reserve(&q, 400));
    send_queue_cancel(&q, 600);
    ck_assert(send_queue_reserve(&q, 600));
    ck_assert(!send_queue_reserve(&q, (size_t)-1));
    ck_assert_uint_eq(send_queue_bytes(&q), 1000);
}

UNIT(bounded_in_requests)
{
    cleanup(send_queue_release) struct send_queue q;
    ck_assert_int_eq(send_queue_init(&q, 2, 1000, NULL), 0);
    ck_assert(send_queue_reserve(&q, 1));
    ck_assert(send_queue_reserve(&q, 1));
    ck_assert(!send_queue_reserve(&q, 1));
}

UNIT(a_push_keeps_what_it_uses_of_the_reservation)
{
    cleanup(send_queue_release) struct send_queue q;
    ck_assert_int_eq(send_queue_init(&q, 2, 1000, NULL), 0);
    ck_assert(send_queue_reserve(&q, 1000));
    ck_assert(send_queue_push(&q, body(10), 1000, 7, 0));
    ck_assert_uint_eq(send_queue_bytes(&q), 10);
    struct send_entry *entry = unit_made(send_queue_pop(&q));
    ck_assert_uint_eq(entry->items, 7);
    ck_assert_ptr_null(send_queue_pop(&q));
    ck_assert_uint_eq(send_queue_bytes(&q), 10); /* in flight still counts */
    send_queue_finish(&q, entry);
    ck_assert_uint_eq(send_queue_bytes(&q), 0);
    ck_assert_uint_eq(q.requests, 0);
}

/* Whatever the queue holds or has promised is charged; it ends with nothing charged. */
UNIT(charged_to_a_budget)
{
    struct budget whole = BUDGET_INIT(100, NULL), part = BUDGET_INIT(1000, &whole);
    struct send_queue q;
    struct send_evicted evicted;
    ck_assert_int_eq(send_queue_init(&q, 8, 1000, &part), 0);
    ck_assert(send_queue_reserve(&q, 90));
    ck_assert(!send_queue_reserve(&q, 11)); /* the queue has room, the process has not */
    ck_assert_uint_eq(whole.used, 90);
    ck_assert_uint_eq(q.requests, 1);
    ck_assert(send_queue_push(&q, body(40), 90, 1, 0));
    ck_assert_uint_eq(whole.used, 40);
    ck_assert(send_queue_push_newest(&q, body(60), 2, &evicted));
    ck_assert_uint_eq(evicted.requests, 0);
    ck_assert(send_queue_push_newest(&q, body(30), 4, &evicted)); /* out goes the oldest */
    ck_assert_uint_eq(evicted.items, 1);
    ck_assert_uint_eq(part.used, 90);
    ck_assert(!send_queue_push_newest(&q, body(101), 8, &evicted)); /* would not fit an empty process */
    ck_assert_uint_eq(evicted.requests, 0);
    send_queue_finish(&q, send_queue_pop(&q));
    ck_assert_uint_eq(whole.used, 30);
    ck_assert(send_queue_reserve(&q, 5));
    send_queue_close(&q);
    ck_assert(!send_queue_push(&q, body(5), 5, 16, 0));
    ck_assert_uint_eq(whole.used, 30);
    send_queue_release(&q); /* with one that waits */
    ck_assert_uint_eq(whole.used, 0);
    ck_assert_uint_eq(part.used, 0);
}

/* Room for three requests, taken as one and two of nothing, is given back in other portions. */
UNIT(reservations_are_sums)
{
    cleanup(send_queue_release) struct send_queue q;
    ck_assert_int_eq(send_queue_init(&q, 3, 1000, NULL), 0);
    ck_assert(send_queue_reserve(&q, 1000) && send_queue_reserve(&q, 0) && send_queue_reserve(&q, 0));
    ck_assert(!send_queue_reserve(&q, 0));
    ck_assert(send_queue_push(&q, body(300), 300, 1, 0));
    ck_assert(send_queue_push(&q, body(500), 600, 1, 0));
    send_queue_cancel(&q, 100);
    ck_assert_uint_eq(send_queue_bytes(&q), 800);
    ck_assert_uint_eq(q.requests, 2);
}

UNIT(oldest_first)
{
    cleanup(send_queue_release) struct send_queue q;
    ck_assert_int_eq(send_queue_init(&q, 8, 1000, NULL), 0);
    for (uint64_t i = 0; i < 5; i++) {
        ck_assert(send_queue_reserve(&q, 1));
        ck_assert(send_queue_push(&q, body(1), 1, i, 0));
    }
    for (uint64_t i = 0; i < 5; i++) {
        struct send_entry *entry = send_queue_pop(&q);
        ck_assert_uint_eq(entry->items, i);
        send_queue_finish(&q, entry);
    }
}

UNIT(newest_throws_the_oldest_out)
{
    cleanup(send_queue_release) struct send_queue q;
    struct send_evicted out;
    ck_assert_int_eq(send_queue_init(&q, 40, 100, NULL), 0);
    for (uint64_t i = 0; i < 40; i++)
        ck_assert(send_queue_push_newest(&q, body(2), 1, &out));
    ck_assert_uint_eq(out.requests, 0);
    struct send_entry *flying = send_queue_pop(&q);
    ck_assert(send_queue_push_newest(&q, body(80), 100, &out)); /* 20 bytes are free, 30 requests must go */
    ck_assert_uint_eq(out.requests, 30);
    ck_assert_uint_eq(out.items, 30);
    ck_assert(!send_queue_push_newest(&q, body(101), 5, &out)); /* never fits: nothing is thrown out for it */
    ck_assert_uint_eq(out.requests, 0);
    ck_assert_uint_eq(send_queue_bytes(&q), 100);
    send_queue_finish(&q, flying);
}

UNIT(closed_takes_no_more)
{
    cleanup(send_queue_release) struct send_queue q;
    struct send_evicted out;
    ck_assert_int_eq(send_queue_init(&q, 4, 100, NULL), 0);
    ck_assert(send_queue_reserve(&q, 10));
    send_queue_close(&q);
    ck_assert(!send_queue_reserve(&q, 10));
    ck_assert(!send_queue_push(&q, body(10), 10, 1, 0));
    ck_assert(!send_queue_push_newest(&q, body(10), 1, &out));
    ck_assert_uint_eq(send_queue_bytes(&q), 0);
    ck_assert_uint_eq(q.requests, 0);
}

UNIT(a_body_is_shared)
{
    struct client_body *b = body(3);
    struct send_queue q[2];
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(send_queue_init(&q[i], 1, 10, NULL), 0);
        ck_assert(send_queue_reserve(&q[i], 3));
        ck_assert(send_queue_push(&q[i], client_body_ref(b), 3, 1, 0));
    }
    client_body_unref(b);
    send_queue_release(&q[0]);
    struct send_entry *entry = send_queue_pop(&q[1]);
    ck_assert_mem_eq(entry->body->p, "xxx", 3);
    send_queue_finish(&q[1], entry);
    send_queue_release(&q[1]);
}

struct race {
    struct send_queue q;
    atomic_uint pushed, refused, cancelled;
};

enum { RACE_ROUNDS = 20000 };

static void *producer(void *arg)
{
    struct race *race = arg;
    for (unsigned i = 0; i < RACE_ROUNDS; i++) {
        if (!send_queue_reserve(&race->q, 64)) {
            atomic_fetch_add(&race->refused, 1);
        } else if (i % 3 == 0) {
            send_queue_cancel(&race->q, 64);
            atomic_fetch_add(&race->cancelled, 1);
        } else {
            ck_assert(send_queue_push(&race->q, body(i % 64), 64, 1, 0));
            atomic_fetch_add(&race->pushed, 1);
        }
    }
    return NULL;
}

UNIT(threads_lose_and_double_nothing)
{
    static struct race race;
    ck_assert_int_eq(send_queue_init(&race.q, 16, 1024, NULL), 0);
    pthread_t thread[4];
    for (int i = 0; i < 4; i++)
        pthread_create(&thread[i], NULL, producer, &race);
    unsigned popped = 0;
    for (;;) {
        unsigned settled =
            atomic_load(&race.pushed) + atomic_load(&race.refused) + atomic_load(&race.cancelled);
        struct send_entry *entry = send_queue_pop(&race.q);
        if (entry) {
            popped++;
            send_queue_finish(&race.q, entry);
        } else if (settled == 4 * RACE_ROUNDS) {
            break;
        }
    }
    for (int i = 0; i < 4; i++)
        pthread_join(thread[i], NULL);
    ck_assert_uint_eq(popped, atomic_load(&race.pushed));
    ck_assert_uint_gt(popped, 0);
    ck_assert_uint_eq(send_queue_bytes(&race.q), 0);
    ck_assert_uint_eq(race.q.requests, 0);
    send_queue_release(&race.q);
}
