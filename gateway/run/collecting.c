/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every worker and lane is asked for what it has counted: by a round once a second, and when a scraper wants
 * to see what was acknowledged until now. What was counted before somebody was asked is in what he hands
 * over; so a round is over, and a scraper has what he waits for, when everybody was asked since it began and
 * that is added up (`counted`). Each is asked for himself: one who is busy with something long keeps the
 * counts of nobody else back.
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
    LIST_REMOVE(w, others);
    w->fn(w->user);
}

/* Who waits since then loses patience then. */
static void arm_patience(struct gateway *g)
{
    const struct scrape_wait *oldest = NULL, *w;
    LIST_FOREACH (w, &g->collecting.waiting, others)
        oldest = w; /* the newest comes first */
    io_timer_set(g->collecting.patience, oldest ? oldest->since + PATIENCE_NS : UINT64_MAX);
}

/* To those who have waited since then, or for longer. */
static void tell_waiting(struct gateway *g, uint64_t since)
{
    for (struct scrape_wait *w = LIST_FIRST(&g->collecting.waiting), *next; w; w = next) {
        next = LIST_NEXT(w, others);
        if (w->since <= since)
            tell(w);
    }
    arm_patience(g);
}

/* What everybody had counted then is added up. */
static uint64_t counted_until(const struct gateway *g)
{
    uint64_t until = UINT64_MAX;
    for (uint32_t i = 0; i < gateway_n_counting(g); i++)
        until = min_of(until, g->workers[i].counted);
    return until;
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
    c->flushed_until = counted_until(g);
    if (c->is_flushing)
        g->next_flush_ns = io_loop_now(g->loop) + g->config->flush_interval_ns;
    c->tidying = (struct merger_job){.work = tidy_up, .done = tidied, .arg = g};
    merger_post(g->merger, &c->tidying);
}

/* ---- who is asked ---- */

/* Not twice at a time: who is busy with something long would be asked again and again meanwhile. Without
 * memory the next round will do. */
static void ask(struct gateway *g, uint32_t i)
{
    struct gateway_worker *w = &g->workers[i];
    struct handover *h = calloc(1, sizeof *h);
    if (!h)
        return;
    *h = (struct handover){.worker = w, .asked = clock_monotonic()};
    w->is_asked = gateway_run_on(g, i, gateway_worker_hand_over, h) == 0;
    if (w->is_asked)
        w->asked = h->asked;
    else
        free(h);
}

/* Everybody who was not asked since then. */
static void ask_all(struct gateway *g, uint64_t since)
{
    for (uint32_t i = 0; i < gateway_n_counting(g); i++)
        if (!g->workers[i].is_asked && g->workers[i].asked < since)
            ask(g, i);
}

/* Somebody was asked before that was wanted: he is asked again. */
static void ask_again(struct gateway *g, const struct handover *h)
{
    const struct collecting *c = &g->collecting;
    const struct scrape_wait *newest = LIST_FIRST(&c->waiting);
    const uint64_t wanted = max_of(newest ? newest->since : 0, c->is_round ? c->began : 0);
    if (!g->stopping && h->asked < wanted)
        ask(g, h->worker->index);
}

static void has_counted(struct gateway *g)
{
    struct collecting *c = &g->collecting;
    const uint64_t until = counted_until(g);
    if (c->is_round && until >= c->began) {
        c->is_round = false;
        give_back(g);
        tidy(g);
    }
    tell_waiting(g, until);
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
    if (!h->is_last)
        h->worker->counted = h->asked;
    if (h->is_last && --g->n_running == 0)
        gateway_all_stopped(g);
    else if (!h->is_last && !g->stopping)
        has_counted(g);
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
    h->worker->is_asked = false;
    if (!h->is_last)
        ask_again(g, h);
}

void gateway_collect(struct gateway *g)
{
    struct collecting *c = &g->collecting;
    uint64_t interval = min_of(COLLECT_INTERVAL_NS, g->config->flush_interval_ns);
    io_timer_set(c->timer, io_loop_now(g->loop) + interval);
    if (g->stopping)
        return;
    c->began = c->is_round ? c->began : clock_monotonic();
    c->is_round = true;
    ask_all(g, c->began);
}

double gateway_age(const struct gateway *g)
{
    return (double)(clock_monotonic() - counted_until(g)) / NSEC_PER_SEC;
}

void gateway_freshen(void *context, struct scrape_wait *w)
{
    struct gateway *g = context;
    struct collecting *c = &g->collecting;
    w->since = clock_monotonic();
    LIST_INSERT_HEAD(&c->waiting, w, others);
    arm_patience(g);
    if (!g->stopping)
        ask_all(g, w->since);
}

void gateway_forget(void *context, struct scrape_wait *w)
{
    LIST_REMOVE(w, others);
}

static void on_time(void *user)
{
    gateway_collect(user);
}

static void on_patience(void *user)
{
    tell_waiting(user, clock_monotonic() - PATIENCE_NS);
}

int gateway_start_collecting(struct gateway *g)
{
    g->collecting.timer = io_timer_new(g->loop, on_time, g);
    g->collecting.patience = io_timer_new(g->loop, on_patience, g);
    for (uint32_t i = 0; i < g->n_workers; i++)
        g->workers[i].counted = clock_monotonic();
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
