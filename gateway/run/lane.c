/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A lane is a worker without sockets, numbered behind the workers: its counts, its reload and its end are
 * theirs. It is made when the first large request comes (lanes.h asks by `wanted`, from any thread; the
 * control loop answers), with the rules of that moment, and the merger is told which generation it begins
 * with. Lanes end after the workers, when nobody can send them anything.
 */
#include <errno.h>
#include <string.h>

#include "gateway/aggregate/store.h"
#include "gateway/run/parts.h"
#include "gateway/serve/lanes/lanes.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "proto/base/macros.h"

/* What may wait for a lane, of limits.memory: a part that leaves room for the bodies that come in, and for
 * the columns of those that are being counted. */
#define WAITING_SHARE 2u

static void release(struct gateway_worker *w)
{
    w->lane = serve_lane_free(w->lane);
    pipeline_release(&w->pipeline);
    w->counting = counting_drop(w->counting);
}

static void is_at(struct gateway *g, const struct gateway_worker *w, uint32_t generation)
{
    merger_hold(g->merger);
    store_worker_is_at(outputs_store(g->outputs), w->index, generation);
    merger_release(g->merger);
}

/* As a worker begins, but with the rules of now. */
static int start(struct gateway *g, struct gateway_worker *w)
{
    struct serve_options options;
    gateway_serve_options(w, &options);
    w->counting = counting_use(g->counting);
    int r = gateway_worker_pipeline(w, w->counting, &w->pipeline);
    if (r < 0) {
        w->counting = counting_drop(w->counting);
        return r;
    }
    w->lane = serve_lane_new(&options, w->pipeline.ingest, w->pipeline.stats, &g->budget);
    is_at(g, w, max_of(w->counting->generation, 1u));
    w->counted = clock_monotonic(); /* nothing until now */
    r = w->lane ? lanes_add(g->lanes, w->lane) : -ENOMEM;
    if (r == 0)
        return 0;
    is_at(g, w, STORE_WORKER_IDLE);
    release(w);
    return r;
}

static void on_wanted(void *arg)
{
    struct gateway *g = arg;
    uint32_t i = lanes_n(g->lanes);
    if (i == g->n_workers || g->lanes_ended)
        return;
    int r = start(g, &g->workers[g->n_workers + i]);
    if (r == 0)
        return;
    log_limited(LOG_LEVEL_ERROR, "no lane for large requests, %u run error=\"%s\"", i, strerror(-r));
    lanes_give_up(g->lanes);
}

/* Any thread; with memory of its own, so that it cannot fail. */
static void wanted(void *context)
{
    struct gateway *g = context;
    io_loop_post_in(g->loop, &g->lane_wanted);
}

int gateway_make_lanes(struct gateway *g)
{
    g->lane_wanted = (struct io_post){.fn = on_wanted, .arg = g};
    struct lanes_options options = {
        .n_max = g->n_workers,
        .waiting_bytes = g->budget.limit / WAITING_SHARE,
        .wanted = wanted,
        .context = g,
    };
    g->lanes = lanes_new(&options);
    for (uint32_t i = g->n_workers; i < 2 * g->n_workers; i++) {
        g->workers[i] = (struct gateway_worker){.gateway = g, .index = i};
        meter_init(&g->workers[i].meter, &g->accounts, &g->budget);
        store_worker_is_at(outputs_store(g->outputs), i, STORE_WORKER_IDLE);
    }
    return g->lanes ? 0 : -ENOMEM;
}

uint32_t gateway_n_counting(const struct gateway *g)
{
    return g->n_workers + lanes_n(g->lanes);
}

int gateway_run_on(struct gateway *g, uint32_t i, void (*fn)(void *arg, void *unused), void *arg)
{
    int r = i < g->n_workers ? listen_run_on_worker(g->listen, i, fn, arg)
                             : lanes_run(g->lanes, i - g->n_workers, fn, arg);
    return r > 0 ? GATEWAY_RUN_ON_STOPPED : r;
}

void gateway_end_lanes(struct gateway *g)
{
    if (!g->lanes || g->lanes_ended)
        return;
    g->lanes_ended = true;
    lanes_stop(g->lanes);
    for (uint32_t i = g->n_workers; i < gateway_n_counting(g); i++) {
        struct gateway_worker *w = &g->workers[i];
        gateway_worker_hand_over_last(w);
        release(w);
    }
}
