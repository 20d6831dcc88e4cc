/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which complete requests a worker processes itself and which it hands to a lane: those that are large, and
 * all but the small ones of hosts whose requests took long. One for each worker, on its thread.
 */
#ifndef GATEWAY_SERVE_LANES_OFFLOAD_H
#define GATEWAY_SERVE_LANES_OFFLOAD_H

#include "gateway/serve/lanes/lanes.h"
#include "gateway/serve/lanes/processor.h"

#define OFFLOAD_HOSTS 256u /* by the remainder of http_peer.host: two in one place are slow together */

struct offload {
    struct processor *processor; /* the worker's */
    struct budget *budget;
    struct lane_inbox *inbox; /* NULL: there are no lanes */
    /* The last word on a request that was taken; from inside offload_take, or later by the worker's loop. */
    void (*done)(struct request *q, const struct processed *p);
    struct offload_host {
        uint64_t slow_until;  /* 0: it is not */
        uint64_t dear, since; /* what its dear requests took since then */
    } hosts[OFFLOAD_HOSTS];
};

/* lanes: NULL for none. processor and budget outlive it. 0 or -ENOMEM. */
int offload_init(struct offload *o, struct lanes *lanes, struct io_loop *loop, struct processor *processor,
                 struct budget *budget, void (*done)(struct request *q, const struct processed *p));

/* What waits or is being worked on is done with from inside. Before the loop goes. */
void offload_release(struct offload *o);

/* Whether a complete request may be more than the worker's loop should do in one go. */
bool offload_may_be_needed(const struct offload *o, const struct request *q);

/* Takes one that may be: here if it turns out to be light, else on a lane; then q->offloaded is set until it
 * is done. */
void offload_take(struct offload *o, struct request *q, enum profiles_layout layout);

/* The exchange is gone: what still waits for a lane is not worth the work. True: the request is the caller's
 * again. False: it is being worked on, and `done` will be called. */
bool offload_cancel(struct offload *o, struct request *q);

#endif
