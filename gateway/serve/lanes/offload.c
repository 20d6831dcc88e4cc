/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Light work is done at once, since handing it over costs more than a small request itself; the rest goes to
 * a lane. What is light is known before the work where it can be: by the bytes of a plain body, by what a
 * coding's head says comes out. Else the processor decodes up to the bound and stops there (PROCESSOR_LARGE),
 * and that decoding is thrown away: some tenths of a millisecond.
 *
 * Size does not say what a request costs. So the processor time of each one done here is measured, and whose
 * took SLOW_NS is slow for a while: of its host everything above SLOW_BYTES goes to a lane. Processor time,
 * not the clock: what others take of the machine meanwhile is not the request's fault.
 */
#include "gateway/serve/lanes/offload.h"

#include <errno.h>
#include <stdlib.h>

#include "proto/base/clock.h"
#include "proto/base/macros.h"
#include "proto/base/room.h"
#include "proto/http/exchange.h"

/* Bodies above it go to a lane: half as much again as the largest request that profilers were seen to send
 * (175 KB), and by what README.md measures the worst that the loop can be made to do in one go. */
#define LARGE_BYTES ((size_t)256 << 10)

/* Whose request took the worker so much of its time is slow for a while, and then all but small requests from
 * there go to a lane. The first request of a profiler, with every name new, takes half of it. */
#define SLOW_NS (10u * 1000 * 1000)
/* …and whose dear requests took so much of it together, in that while: many that each take nearly SLOW_NS (60
 * KB of new names) keep others waiting as one does that takes more. The first requests of a profiler are a
 * few. */
#define DEAR_NS     (5u * 1000 * 1000 / 2)
#define DEAR_SUM_NS (4 * SLOW_NS)
#define SLOW_FOR_NS (10ull * NSEC_PER_SEC)
#define SLOW_BYTES  ((size_t)16 << 10)

/* A request on its way through a lane. */
struct offloaded {
    struct lane_job job;
    struct offload *owner;
    struct request *request;
    enum profiles_layout layout;
    struct processed result;
};

static void offloaded_free(struct offload *o, struct offloaded *f)
{
    budget_refund(o->budget, sizeof *f);
    free(f);
}

/* Words: NULL for those of the refusal. */
static void refuse(const struct offload *o, struct request *q, const char *words)
{
    struct processed busy;
    busy.refusal = REFUSAL_BUSY;
    busy.is_of_ingest = false;
    error_set(&busy.answer.message, 0, "%s", words ? words : "");
    o->done(q, &busy);
}

#define TOO_MANY "too many large requests are waiting just now; try again"

/* A lane's. Gives back the body's memory, if it is much, so that the worker need not. A request whose client
 * has given up by now is refused uncounted. */
static void work(struct lane_job *job, void *lane)
{
    struct offloaded *f = container_of(job, struct offloaded, job);
    struct processor *p = lane;
    struct request *q = f->request;
    f->result.is_of_ingest = false;
    f->result.answer.message.text[0] = 0;
    if (q->deadline_ns != UINT64_MAX && clock_monotonic() >= q->deadline_ns)
        f->result.refusal = REFUSAL_LATE;
    else
        processor_run(p, q, f->layout, SIZE_MAX, &f->result);
    if (q->body.cap > p->reader.keep)
        room_release(&q->body, p->reader.budget);
}

/* For lane_inbox_new: the lane has done with it. */
static void come_back(struct lane_job *job)
{
    struct offloaded *f = container_of(job, struct offloaded, job);
    struct offload *o = f->owner;
    f->request->offloaded = NULL;
    if (job->refused)
        refuse(o, f->request, TOO_MANY);
    else
        o->done(f->request, &f->result);
    offloaded_free(o, f);
}

int offload_init(struct offload *o, struct lanes *lanes, struct io_loop *loop, struct processor *processor,
                 struct budget *budget, void (*done)(struct request *q, const struct processed *p))
{
    *o = (struct offload){.processor = processor, .budget = budget, .done = done};
    o->inbox = lanes ? lane_inbox_new(lanes, loop, come_back) : NULL;
    return o->inbox || !lanes ? 0 : -ENOMEM;
}

void offload_release(struct offload *o)
{
    if (o->inbox)
        lane_inbox_close(o->inbox);
    o->inbox = NULL;
}

/* To a lane. The exchange waits; come_back goes on. */
static void hand_over(struct offload *o, struct request *q, enum profiles_layout layout)
{
    const struct http_peer *peer = q->exchange->peer;
    struct offloaded *f = budget_charge(o->budget, sizeof *f) ? malloc(sizeof *f) : NULL;
    if (!f) {
        refuse(o, q, NULL);
        return;
    }
    *f = (struct offloaded){.owner = o, .request = q, .layout = layout};
    f->job = (struct lane_job){.work = work, .client = peer ? peer->host : 0, .bytes = q->body.cap};
    q->offloaded = f;
    if (lane_put(o->inbox, &f->job) == 0)
        return;
    q->offloaded = NULL;
    offloaded_free(o, f);
    refuse(o, q, TOO_MANY);
}

bool offload_cancel(struct offload *o, struct request *q)
{
    struct offloaded *f = q->offloaded;
    if (f && !lane_cancel(&f->job))
        return false;
    q->offloaded = NULL;
    if (f)
        offloaded_free(o, f);
    return true;
}

bool offload_may_be_needed(const struct offload *o, const struct request *q)
{
    return o->inbox && (q->body.n > SLOW_BYTES || request_is_coded(q) || q->route.intake->size);
}

static void note_dear(struct offload_host *h, uint64_t took, uint64_t now)
{
    if (now - h->since > SLOW_FOR_NS) {
        h->since = now;
        h->dear = 0;
    }
    h->dear += took;
    if (took > SLOW_NS || h->dear > DEAR_SUM_NS)
        h->slow_until = now + SLOW_FOR_NS;
}

void offload_take(struct offload *o, struct request *q, enum profiles_layout layout)
{
    const struct http_peer *peer = q->exchange->peer;
    struct offload_host *host = &o->hosts[peer ? peer->host % OFFLOAD_HOSTS : 0];
    size_t light = LARGE_BYTES;
    if (unlikely(host->slow_until != 0))
        light = clock_monotonic() < host->slow_until ? SLOW_BYTES : (host->slow_until = 0, LARGE_BYTES);
    struct processed result;
    uint64_t began =
        clock_thread(); /* what others take of the machine meanwhile is not the request's fault */
    if (q->body.n > light || processor_run(o->processor, q, layout, light, &result) == PROCESSOR_LARGE) {
        hand_over(o, q, layout);
        return;
    }
    const uint64_t took = clock_thread() - began;
    if (unlikely(took > DEAR_NS))
        note_dear(host, took, clock_monotonic());
    o->done(q, &result);
}
