/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread that merges. What takes as long as there are series (counts added up, batches made and encoded,
 * tables made anew) is a job for it, and the control loop goes on. The store belongs to whoever has the
 * merger: a job, in the order of posting, or who holds it.
 */
#ifndef GATEWAY_RUN_MERGER_H
#define GATEWAY_RUN_MERGER_H

#include <stdbool.h>
#include <sys/queue.h>

#include "proto/io/loop.h"

struct merger;

/* In place until `done` is called; from within that it may be freed or posted again. */
struct merger_job {
    void (*work)(void *arg); /* the merger's thread; NULL: it is for the loop, and `done` is what is done… */
    void (*done)(void *arg); /* the loop's, afterwards; …by who has the merger then, and releases it */
    void *arg;
    STAILQ_ENTRY(merger_job) next; /* the merger's, as the rest */
    struct merger *merger;
    struct io_post post;
};

/* Starts the thread. 0, -ENOMEM, or an errno. */
int merger_new(struct merger **ret, struct io_loop *loop);

/* Waits for its thread. No job is open (merger_is_over). NULL is fine. */
struct merger *merger_free(struct merger *m);

/* The loop's thread. */
void merger_post(struct merger *m, struct merger_job *job);

/* Whether all `done`s were called. The loop's thread. */
bool merger_is_over(const struct merger *m);

/* Has the merger when all that was posted is worked off: that can take as long as there are series, and the
 * loop has better to do (a job without `work` waits for it). Any thread, once. */
void merger_hold(struct merger *m);
void merger_release(struct merger *m);

#endif
