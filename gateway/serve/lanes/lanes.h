/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lanes: threads beside the workers for requests that take long, so that a worker's other connections do not
 * wait for them. The kernel does the cutting that the event loop cannot.
 *
 * A worker puts a job in; a lane takes it, works, and sends it back to the worker's loop. Jobs wait in one
 * queue for each client, and lanes go round the clients, so that who sends much waits for himself. Lanes are
 * made when there is work for one: their owner is asked (`wanted`) and adds it, and can have something run on
 * each lane between two jobs, as on a worker.
 *
 * The owner is one thread (the control loop): it makes and frees the object, adds lanes, runs things on them
 * and stops them.
 */
#ifndef GATEWAY_SERVE_LANES_LANES_H
#define GATEWAY_SERVE_LANES_LANES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "proto/base/rounds.h"

struct io_loop;
struct lane_inbox;
struct lanes;

/* Jobs that may wait, besides those that are worked on: a burst, and no more than some seconds of work. One
 * client may have more than one HTTP/2 connection's concurrent streams (100), and never all the places. */
#define LANES_WAITING_MAX        512u
#define LANES_WAITING_CLIENT_MAX 128u

/* Clients by the remainder of their number. Two in one place are one client: they share a queue. */
#define LANES_CLIENTS 256u

#define LANES_MAX 256u

/* Below ordinary work for the kernel: where both want a core, who waits for a worker has it three times as
 * much (sched(7): each step is 1.25), and a lane is never starved. */
#define LANES_NICE 5

struct lanes_options {
    uint32_t n_max;       /* 1 … LANES_MAX */
    size_t waiting_bytes; /* of all jobs that wait, in shares (proto/base/share.h); of one client half at
                             most. A job larger than that waits alone */
    void (*wanted)(void *context); /* there is work for one lane more: add it, or give up. Any thread */
    void *context;
};

/* NULL: memory is out. */
struct lanes *lanes_new(const struct lanes_options *options);

/* Stops; frees all inboxes, which are closed, and after their loops. NULL is fine. Returns NULL. */
struct lanes *lanes_free(struct lanes *l);

/* One lane more; `lane` is what its jobs and tasks are given. 0 or -errno: then lanes_give_up. */
int lanes_add(struct lanes *l, void *lane);

/* There is no lane to add now. Where there is none at all, what waits comes back as `refused`. */
void lanes_give_up(struct lanes *l);

/* Lanes that run: those with the numbers below this one. */
uint32_t lanes_n(const struct lanes *l);

/* Conditions of lanes_run. */
enum {
    LANES_STOPPED = 1, /* there is no such lane, or none any more: fn will not run */
};

/* Has fn(arg, lane) run on the lane with that number, before its next job and in order of calling. 0,
 * the condition above, or -ENOMEM. */
int lanes_run(struct lanes *l, uint32_t index, void (*fn)(void *arg, void *lane), void *arg);

/* Lets the lanes do what they were given and joins them. Every inbox must be closed. */
void lanes_stop(struct lanes *l);

/* Jobs that were taken up so far, and that wait now. Any thread. */
uint64_t lanes_taken(const struct lanes *l);
uint32_t lanes_waiting(const struct lanes *l);

/* ---- a worker's side ---- */

/* Embedded in what is to be done. */
struct lane_job {
    /* On a lane's thread, with what lanes_add gave. */
    void (*work)(struct lane_job *job, void *lane);
    uint64_t client; /* any number that says whose it is */
    size_t bytes;    /* what it holds while it waits */
    bool refused;    /* when it comes back: it was not worked on */
    /* The lanes' own. */
    struct rounds_item item;
    struct lane_inbox *inbox;
    STAILQ_ENTRY(lane_job) next; /* of those that have come back */
};

/* Where a worker's jobs come back: done(job) is called on its loop, once for each that was put and not
 * cancelled. On the worker's thread, as all that follows. NULL: memory is out. */
struct lane_inbox *lane_inbox_new(struct lanes *l, struct io_loop *loop, void (*done)(struct lane_job *job));

/* Jobs that wait come back as refused; waits for those that are being worked on; done is called for all from
 * inside. Before the loop is freed. */
void lane_inbox_close(struct lane_inbox *in);

/* Conditions of lane_put. */
enum {
    LANE_FULL = 1, /* too many wait, of this client or of all: not taken */
};

/* work, client and bytes are set. Ours until it comes back. 0 or LANE_FULL. */
int lane_put(struct lane_inbox *in, struct lane_job *job);

/* Takes back a job that still waits. False: it is being worked on and will come. */
bool lane_cancel(struct lane_job *job);

#endif
