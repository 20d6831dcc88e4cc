/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A round asks every worker and lane for what it has counted; once a second, and when a scraper wants to see
 * what was acknowledged until now. Whoever was acknowledged before a round began is in it, so a scraper that
 * comes while one is under way waits for the next.
 */
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>

#include "gateway/kafka/consumer.h"
#include "gateway/run/parts.h"
#include "proto/base/clock.h"
#include "proto/base/macros.h"
#include "proto/io/timer.h"

/* How often workers hand over what they counted: the age a number has that an exporter sends. */
#define COLLECT_INTERVAL_NS (1ull * NSEC_PER_SEC)

/* How long a scraper waits for a worker that is busy with one large request; then it sees what there is, and
 * how old that is. */
#define PATIENCE_NS (250 * (uint64_t)NSEC_PER_MSEC)

static void tell(struct scrape_wait *w)
{
    *w->at = w->next;
    if (w->next)
        w->next->at = w->at;
    w->fn(w->user);
}

/* To those who waited for this round or one before it. */
static void tell_waiting(struct gateway *g, uint64_t round)
{
    for (struct scrape_wait *w = g->collecting.waiting, *next; w; w = next) {
        next = w->next;
        if (w->round <= round)
            tell(w);
    }
    if (!g->collecting.waiting)
        io_timer_stop(g->collecting.patience);
}

/* ---- freed memory that malloc keeps ---- */

/* Memory that is free between blocks that live, in holes that names of other lengths do not fit, grows for
 * hours before it settles. While work goes on so much of it is kept as a part of what lives, within these
 * bounds; when a round brought nothing, the least. After a flood of names it is hundreds of megabytes. */
#define KEPT_FREE_PART  4u
#define KEPT_FREE_MIN   ((size_t)4 << 20)
#define KEPT_FREE_MAX   ((size_t)32 << 20)
#define KEPT_FREE_QUIET ((size_t)1 << 20)

/* Between two times that it is given back while work goes on. */
#define GIVE_BACK_EVERY_NS (5 * (uint64_t)NSEC_PER_SEC)

/* The pool: it may take as long as a turn of the loop must not. */
static void trim(uv_work_t *work)
{
    const struct collecting *c = container_of(work, struct collecting, trim);
    const struct mallinfo2 heap = mallinfo2();
    const size_t part = min_of(max_of(heap.uordblks / KEPT_FREE_PART, KEPT_FREE_MIN), KEPT_FREE_MAX);
    if (heap.fordblks > (c->trim_is_quiet ? KEPT_FREE_QUIET : part))
        malloc_trim(0);
}

static void trimmed(uv_work_t *work, int status)
{
    container_of(work, struct collecting, trim)->is_trimming = false;
}

static void give_back(struct gateway *g)
{
    struct collecting *c = &g->collecting;
    const bool is_quiet = !c->has_news;
    const uint64_t now = io_loop_now(g->loop);
    c->has_news = false;
    c->quiet_rounds = is_quiet ? c->quiet_rounds + 1 : 0;
    /* Who rests gives back what he keeps in his own time: it is looked again, after 2, 4, 8 … rounds. */
    const bool is_time = is_quiet ? (c->quiet_rounds & (c->quiet_rounds - 1)) == 0 : now >= c->trim_after;
    if (c->is_trimming || !is_time)
        return;
    c->trim_is_quiet = is_quiet;
    c->trim_after = now + GIVE_BACK_EVERY_NS;
    c->is_trimming = uv_queue_work(io_loop_uv(g->loop), &c->trim, trim, trimmed) == 0;
}

/* ---- what a round ends with ---- */

static void tidy_up(void *arg)
{
    struct gateway *g = arg;
    if (g->collecting.is_flushing)
        g->collecting.is_flushed = outputs_flush(g->outputs, false);
    outputs_expire(g->outputs);
}

/* Triggers look at what the merger has. */
static void look_at_triggers(void *arg)
{
    struct gateway *g = arg;
    g->collecting.is_tidying = false;
    if (!g->stopping)
        control_triggers_second(g->triggers, clock_monotonic(), clock_realtime());
    merger_release(g->merger);
}

static void tidied(void *arg)
{
    struct gateway *g = arg;
    if (g->collecting.is_flushing && g->collecting.is_flushed)
        consumer_flushed(g->consumer, g->collecting.flushed_until);
    g->collecting.looking = (struct merger_job){.done = look_at_triggers, .arg = g};
    merger_post(g->merger, &g->collecting.looking);
}

static void tidy(struct gateway *g)
{
    struct collecting *c = &g->collecting;
    if (c->is_tidying)
        return;
    c->is_tidying = true;
    c->is_flushing = io_loop_now(g->loop) >= g->next_flush_ns;
    c->flushed_until = c->counted;
    if (c->is_flushing)
        g->next_flush_ns = io_loop_now(g->loop) + g->config->flush_interval_ns;
    c->tidying = (struct merger_job){.work = tidy_up, .done = tidied, .arg = g};
    merger_post(g->merger, &c->tidying);
}

static void all_handed_over(struct gateway *g)
{
    struct collecting *c = &g->collecting;
    if (c->is_whole)
        c->counted = c->began;
    give_back(g);
    tidy(g);
    tell_waiting(g, c->round);
    if (c->waiting)
        gateway_collect(g);
}

static void apply(void *arg)
{
    struct handover *h = arg;
    outputs_apply(h->worker->gateway->outputs, h->worker->index, take_ptr(h->delta));
}

static void applied(void *arg)
{
    struct handover *h = arg;
    struct gateway *g = h->worker->gateway;
    if (h->is_last && --g->n_running == 0)
        gateway_all_stopped(g);
    else if (!h->is_last && --g->collecting.n_handing_over == 0 && !g->stopping)
        all_handed_over(g);
    free(h);
}

void gateway_receive(void *arg)
{
    struct handover *h = arg;
    struct gateway *g = h->worker->gateway;
    g->collecting.has_news |= h->delta != NULL;
    looking_take(g->looking, take_ptr(h->look));
    h->job = (struct merger_job){.work = apply, .done = applied, .arg = h};
    merger_post(g->merger, &h->job);
}

static void ask(struct gateway *g)
{
    struct collecting *c = &g->collecting;
    const uint32_t n = gateway_n_counting(g);
    c->round++;
    c->began = clock_monotonic();
    c->is_whole = true;
    for (uint32_t i = 0; i < n; i++) {
        struct handover *h = calloc(1, sizeof *h);
        if (!h) {
            c->is_whole = false;
            break;
        }
        h->worker = &g->workers[i];
        c->n_handing_over++;
        if (gateway_run_on(g, i, gateway_worker_hand_over, h) != 0) {
            c->n_handing_over--;
            free(h);
        }
    }
}

void gateway_collect(struct gateway *g)
{
    uint64_t interval = min_of(COLLECT_INTERVAL_NS, g->config->flush_interval_ns);
    io_timer_set(g->collecting.timer, io_loop_now(g->loop) + interval);
    /* A worker that is busy with something long: the next round will do. */
    if (g->collecting.n_handing_over == 0 && !g->stopping)
        ask(g);
}

double gateway_age(const struct gateway *g)
{
    return (double)(clock_monotonic() - g->collecting.counted) / NSEC_PER_SEC;
}

void gateway_freshen(void *context, struct scrape_wait *w)
{
    struct gateway *g = context;
    struct collecting *c = &g->collecting;
    if (!c->waiting)
        io_timer_set(c->patience, io_loop_now(g->loop) + PATIENCE_NS);
    w->round = c->round + 1;
    w->next = c->waiting;
    w->at = &c->waiting;
    if (w->next)
        w->next->at = &w->next;
    c->waiting = w;
    gateway_collect(g);
}

void gateway_forget(void *context, struct scrape_wait *w)
{
    (void)context;
    *w->at = w->next;
    if (w->next)
        w->next->at = w->at;
}

static void on_time(void *user)
{
    gateway_collect(user);
}

static void on_patience(void *user)
{
    tell_waiting(user, UINT64_MAX);
}

int gateway_start_collecting(struct gateway *g)
{
    g->collecting.timer = io_timer_new(g->loop, on_time, g);
    g->collecting.patience = io_timer_new(g->loop, on_patience, g);
    g->collecting.counted = clock_monotonic();
    return g->collecting.timer && g->collecting.patience ? 0 : -ENOMEM;
}

void gateway_stop_collecting(struct gateway *g)
{
    io_timer_stop(g->collecting.timer);
}

void gateway_free_collecting(struct gateway *g)
{
    io_timer_free(g->collecting.timer);
    io_timer_free(g->collecting.patience);
}
