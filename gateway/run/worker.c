/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What runs on a worker's thread: its chain of stages is made when the thread starts, handed over from once a
 * second, and released when the thread ends. A handover brings the memory of its own answer, so that handing
 * over counts cannot fail; the last one waits for memory, since what was counted is not lost.
 */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>

#include "gateway/run/parts.h"
#include "gateway/serve/calls/services.h"
#include "proto/base/clock.h"
#include "proto/base/macros.h"

#define RETRY_AFTER_NS (1ull * NSEC_PER_SEC)

/* A thread keeps three kinds of bodies' memory besides: so much of each, of what it may keep of the rest. */
#define KEPT_BODIES_SHARE 8u

static bool is_serving(void *context)
{
    return !((struct gateway *)context)->stopping;
}

static bool is_stopping(void *context)
{
    return ((struct gateway *)context)->stopping;
}

int gateway_worker_pipeline(struct gateway_worker *w, const struct counting *counting, struct pipeline *ret)
{
    struct gateway *g = w->gateway;
    if (g->looking && !w->tap && !(w->tap = looking_tap(g->looking)))
        return -ENOMEM;
    struct pipeline_options options = {
        .program = counting->rules.program,
        .metrics = counting->metrics,
        .n_metrics = counting->n_metrics,
        .generation = counting->generation,
        .destinations = outputs_profiles(g->outputs),
        .forward = counting->forward,
        .board = g->board,
        .check_share = counting->check_share,
        .tap = w->tap,
        .captures = g->captures,
        .ingest = {.limits = profiles_limits_default, .retry_after_ns = RETRY_AFTER_NS, .kept = &g->kept},
        .value_length_limit = counting->value_length_limit,
        .budget = &g->budget,
        .accounts = &g->accounts,
        .meter = &w->meter,
        .stats = w->pipeline.stats,
    };
    options.ingest.limits.column_bytes = min_of(options.ingest.limits.column_bytes, g->budget.limit / 2);
    return pipeline_init(ret, &options);
}

/* In the reverse order of making; what is missing was not made. */
static void release(struct gateway_worker *w)
{
    w->serve = serve_free(w->serve);
    w->services = services_free(w->services);
    w->access = access_worker_free(w->access);
}

void gateway_serve_options(struct gateway_worker *w, struct serve_options *ret)
{
    const struct gateway *g = w->gateway;
    *ret = (struct serve_options)SERVE_OPTIONS_DEFAULT;
    ret->keep_bytes = min_of(ret->keep_bytes, g->kept.each / KEPT_BODIES_SHARE);
    ret->meter = &w->meter;
    ret->request_bytes = g->config->request_bytes;
    ret->retry_after_ns = RETRY_AFTER_NS;
    ret->links = &g->links;
}

static int make_serve(struct gateway_worker *w, struct io_loop *loop)
{
    struct gateway *g = w->gateway;
    struct services_options services = {is_serving, is_stopping, g};
    w->services = services_new(&services);
    if (g->receivers.access)
        w->access = access_worker_new(g->receivers.access, loop, w->pipeline.stats);
    struct serve_options serve;
    gateway_serve_options(w, &serve);
    serve.access = w->access;
    serve.services = w->services;
    serve.lanes = g->lanes;
    serve.loop = loop;
    if (w->services && (w->access || !g->receivers.access))
        w->serve = serve_new(&serve, w->pipeline.ingest, w->pipeline.stats, &g->budget);
    if (w->serve)
        return 0;
    release(w);
    return -ENOMEM;
}

void *gateway_worker_start(void *context, uint32_t index, struct io_loop *loop, struct error *e)
{
    struct gateway *g = context;
    struct gateway_worker *w = &g->workers[index];
    int r = gateway_worker_pipeline(w, w->counting, &w->pipeline);
    if (r == 0 && (r = make_serve(w, loop)) < 0)
        pipeline_release(&w->pipeline);
    if (r == 0)
        return w->serve;
    error_set(e, r, "out of memory");
    return NULL;
}

static void hand_over(struct gateway_worker *w, struct handover *h)
{
    h->worker = w;
    h->delta = aggregate_take(w->pipeline.aggregate);
    h->look = w->tap ? look_tap_take(w->tap) : NULL;
    while (io_loop_post(w->gateway->loop, gateway_receive, h) < 0)
        sched_yield(); /* no memory for a mailbox entry: what was counted is not lost for that */
}

/* The request to hand over carries the memory of its answer, so that answering cannot fail. */
void gateway_worker_hand_over(void *arg, void *context)
{
    struct handover *h = arg;
    pipeline_look(&h->worker->pipeline);
    hand_over(h->worker, h);
}

void gateway_worker_tell(void *arg, void *context)
{
    services_changed(((struct gateway_worker *)arg)->services);
}

void gateway_worker_hand_over_last(struct gateway_worker *w)
{
    struct handover *h;
    while (!(h = calloc(1, sizeof *h)))
        sched_yield();
    h->is_last = true;
    hand_over(w, h);
}

void gateway_worker_stop(void *context, uint32_t index, void *unused)
{
    struct gateway *g = context;
    struct gateway_worker *w = &g->workers[index];
    release(w);
    gateway_worker_hand_over_last(w);
    pipeline_release(&w->pipeline);
}
