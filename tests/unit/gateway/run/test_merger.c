/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs in their order, one at a time, beside whoever holds the merger. */
#include "gateway/run/merger.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "proto/base/clock.h"
#include "tests/lib/unit.h"

enum { JOBS = 200, HOLDERS = 4, HOLDS = 50 };

static struct world {
    struct io_loop *loop;
    struct merger *m;
    bool is_had; /* by somebody: no lock of its own, so that a sanitizer sees who comes in between */
    unsigned n_worked, n_done, n_held;
    pthread_t control;
} w;

struct job {
    struct merger_job job;
    unsigned number;
};

static void use(void)
{
    ck_assert(!w.is_had);
    w.is_had = true;
    usleep(50);
    w.is_had = false;
}

static void work(void *arg)
{
    const struct job *j = arg;
    ck_assert(!pthread_equal(pthread_self(), w.control));
    ck_assert_uint_eq(j->number, w.n_worked++);
    use();
}

static void done(void *arg)
{
    autofree struct job *j = arg;
    ck_assert(pthread_equal(pthread_self(), w.control));
    ck_assert_uint_eq(j->number, w.n_done++);
}

/* A job of the loop's, which has the merger in it. */
static void held(void *arg)
{
    autofree struct job *j = arg;
    ck_assert_uint_le(j->number, w.n_worked); /* not before those that were posted before */
    use();
    merger_release(w.m);
    w.n_held++;
}

static void *holder(void *arg)
{
    for (unsigned i = 0; i < HOLDS; i++) {
        merger_hold(w.m);
        use();
        merger_release(w.m);
    }
    return NULL;
}

UNIT(one_at_a_time_and_in_order)
{
    pthread_t holders[HOLDERS];
    w = (struct world){.loop = unit_made(io_loop_new()), .control = pthread_self()};
    ck_assert_int_eq(merger_new(&w.m, w.loop), 0);
    ck_assert(merger_is_over(w.m));
    for (unsigned i = 0; i < HOLDERS; i++)
        ck_assert_int_eq(pthread_create(&holders[i], NULL, holder, NULL), 0);
    for (unsigned i = 0; i < JOBS; i++) {
        struct job *j = unit_made(calloc(1, sizeof *j));
        *j = (struct job){.job = {.work = work, .done = done, .arg = j}, .number = i};
        merger_post(w.m, &j->job);
        if (i % 3 == 0) {
            j = unit_made(calloc(1, sizeof *j));
            *j = (struct job){.job = {.done = held, .arg = j}, .number = i};
            merger_post(w.m, &j->job);
        }
        if (i % 7 == 0) { /* also where it is the loop's turn, which does not turn now */
            merger_hold(w.m);
            use();
            merger_release(w.m);
        }
    }
    ck_assert(!merger_is_over(w.m));
    merger_hold(w.m); /* what was posted is worked off */
    ck_assert_uint_eq(w.n_worked, JOBS);
    merger_release(w.m);
    unit_until(merger_is_over(w.m), io_loop_run_once(w.loop, 1000000));
    ck_assert_uint_eq(w.n_done, JOBS);
    ck_assert_uint_eq(w.n_held, (JOBS + 2) / 3);
    for (unsigned i = 0; i < HOLDERS; i++)
        pthread_join(holders[i], NULL);
    merger_free(w.m);
    io_loop_free(w.loop);
}

static pthread_barrier_t barrier;

static void *long_holder(void *arg)
{
    merger_hold(w.m);
    pthread_barrier_wait(&barrier); /* it has it */
    pthread_barrier_wait(&barrier); /* …until now */
    merger_release(w.m);
    return NULL;
}

/* Somebody has the merger for as long as he likes: the loop turns all the same, and is told when it is free.
 */
UNIT(the_loop_does_not_wait_for_the_merger)
{
    pthread_t thread;
    w = (struct world){.loop = unit_made(io_loop_new()), .control = pthread_self()};
    ck_assert_int_eq(merger_new(&w.m, w.loop), 0);
    ck_assert_int_eq(pthread_barrier_init(&barrier, NULL, 2), 0);
    ck_assert_int_eq(pthread_create(&thread, NULL, long_holder, NULL), 0);
    pthread_barrier_wait(&barrier);
    struct job *j = unit_made(calloc(1, sizeof *j));
    *j = (struct job){.job = {.done = held, .arg = j}};
    merger_post(w.m, &j->job);
    for (int i = 0; i < 10; i++)
        io_loop_run_once(w.loop, 1000000);
    ck_assert_uint_eq(w.n_held, 0);
    pthread_barrier_wait(&barrier);
    unit_until(merger_is_over(w.m), io_loop_run_once(w.loop, 1000000));
    ck_assert_uint_eq(w.n_held, 1);
    pthread_join(thread, NULL);
    pthread_barrier_destroy(&barrier);
    merger_free(w.m);
    io_loop_free(w.loop);
}
