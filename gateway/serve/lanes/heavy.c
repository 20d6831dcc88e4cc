/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that may be more than a worker's loop should do in one go: those that are large, and those of
 * hosts whose requests were slow lately. */
#include <stdlib.h>
#include <time.h>

#include "gateway/serve/serve_parts.h"
#include "proto/base/clock.h"
#include "proto/base/macros.h"

/* Bodies above it go to a lane: half as much again as the largest request that profilers were seen to send
 * (175 KB), and by what README.md measures the worst that the loop can be made to do in one go. */
#define HEAVY_BYTES ((size_t)256 << 10)

/* Whose request took the worker so much of its time is slow for a while, and then all but small requests from
 * there go to a lane. The first request of a profiler, with every name new, takes half of it. */
#define SLOW_NS     (10u * 1000 * 1000)
#define SLOW_FOR_NS (10ull * NSEC_PER_SEC)
#define SLOW_BYTES  ((size_t)16 << 10)

static void heavy_free(struct serve *s, struct heavy *h)
{
    budget_refund(s->budget, sizeof *h);
    free(h);
}

/* To a lane. The exchange waits; heavy_back goes on. */
static void hand_over(struct request *q, enum profiles_layout layout)
{
    struct serve *s = q->serve;
    const struct http_peer *peer = q->exchange->peer;
    struct heavy *h = budget_charge(s->budget, sizeof *h) ? malloc(sizeof *h) : NULL;
    if (!h) {
        serve_finish_with(q, REFUSAL_BUSY);
        return;
    }
    *h = (struct heavy){.request = q, .layout = layout};
    h->job = (struct lane_job){.work = heavy_work, .client = peer ? peer->host : 0, .bytes = q->body.cap};
    q->heavy = h;
    if (lane_put(s->inbox, &h->job) == 0)
        return;
    serve_finish_with(q, REFUSAL_BUSY);
    heavy_free(s, h);
}

void heavy_back(struct lane_job *job)
{
    struct heavy *h = container_of(job, struct heavy, job);
    struct request *q = h->request;
    struct serve *s = q->serve;
    if (job->refused)
        serve_finish_with(q, REFUSAL_BUSY);
    else
        serve_finish(q, &h->outcome);
    heavy_free(s, h);
}

void heavy_abandon(struct request *q)
{
    struct serve *s = q->serve;
    struct heavy *h = q->heavy;
    q->exchange = NULL;
    if (h && !lane_cancel(&h->job))
        return;
    serve_release(s, q);
    if (h)
        heavy_free(s, h);
}

bool heavy_may_be(const struct request *q)
{
    return q->serve->inbox && (q->body.n > SLOW_BYTES || request_is_coded(q));
}

/* Of this thread: what others take of the machine meanwhile is not the request's fault. */
static uint64_t cpu_time(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * NSEC_PER_SEC + (uint64_t)t.tv_nsec;
}

void heavy_take(struct request *q, enum profiles_layout layout)
{
    struct serve *s = q->serve;
    const struct http_peer *peer = q->exchange->peer;
    uint64_t *slow_until = &s->slow_until[peer ? peer->host % SERVE_SLOW_HOSTS : 0];
    size_t light = HEAVY_BYTES;
    if (unlikely(*slow_until != 0))
        light = clock_monotonic() < *slow_until ? SLOW_BYTES : (*slow_until = 0, HEAVY_BYTES);
    struct outcome o;
    uint64_t began = cpu_time();
    if (q->body.n > light || taker_take(&s->taker, q, layout, light, &o) == TAKER_HEAVY) {
        hand_over(q, layout);
        return;
    }
    if (cpu_time() - began > SLOW_NS)
        *slow_until = clock_monotonic() + SLOW_FOR_NS;
    serve_finish(q, &o);
}
