/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files that make up serve share (serve.c: an exchange from its head to its answer; lanes/heavy.c:
 * what takes long): private to them. All on the worker's thread.
 */
#ifndef GATEWAY_SERVE_SERVE_PARTS_H
#define GATEWAY_SERVE_SERVE_PARTS_H

#include "gateway/serve/lanes/lanes.h"
#include "gateway/serve/request.h"
#include "gateway/serve/serve.h"
#include "gateway/serve/lanes/taker.h"

#define SERVE_SLOW_HOSTS 256u /* by the remainder of http_peer.host: two in one place are slow together */

struct serve {
    struct serve_options options;
    struct budget *budget;
    struct request_pool pool;
    struct taker taker;
    struct lane_inbox *inbox;              /* NULL: there are no lanes */
    uint64_t slow_until[SERVE_SLOW_HOSTS]; /* lanes/heavy.c's */
};

/* ---- serve.c ---- */

/* The request is over: nobody waits for it, counts it or holds its memory any more. */
void serve_release(struct serve *s, struct request *q);

/* The last word on a request whose body is complete, to its exchange if that is still there; releases it. */
void serve_finish(struct request *q, const struct outcome *o);
void serve_finish_with(struct request *q, enum refusal refusal);

/* ---- lanes/heavy.c ---- */

/* Whether a complete request may be more than the worker's loop should do in one go. */
bool heavy_may_be(const struct request *q);

/* Takes one that may be: here if it turns out to be light, else on a lane. */
void heavy_take(struct request *q, enum profiles_layout layout);

/* For lane_inbox_new: the lane has done with it. */
void heavy_back(struct lane_job *job);

/* The exchange is gone: what still waits for a lane is not worth the work; what is being worked on comes by
 * heavy_back. Releases a request that no lane has. */
void heavy_abandon(struct request *q);

#endif
