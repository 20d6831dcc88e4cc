/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who goes first. A name that was invented, and a process of a second, is added to in one hand-over and never
 * again: such once-seen resources leave before those that come back (they are known by a hash also where a
 * collect, or room for others, has made an end of them), which must have been idle for a minute.
 * Among equals those of the client that has most leave first, then those idle longest. So a flood of names
 * displaces itself.
 *
 * A share. A client may take three times what is free, seven times for those of its resources that come back:
 * alone it has three quarters at most (seven eighths), of several that want all each has less, and there is
 * always something left for whoever has nothing (dynamic thresholds, Choudhury and Hahne 1998).
 *
 * Nothing is lost by it, nor told twice: of a resource that goes what was not told yet is added to the
 * overflow resource. In a cumulative output that is pushed, a series that was told must end with a stale
 * point: it is retired, and leaves at the collect after the next. In one that is pulled nobody knows who
 * asks: what was shown to one stays for a minute after its last addition, until the others have seen it, too.
 */
#include "gateway/aggregate/room.h"

#include <stdlib.h>

#include "gateway/aggregate/tables.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "proto/base/macros.h"

/* Without an addition: two rounds of hand-overs, or a minute for what came back before. */
#define ONCE_IDLE_NS    (2 * (uint64_t)NSEC_PER_SEC)
#define REGULAR_IDLE_NS (60 * (uint64_t)NSEC_PER_SEC)

/* …and for what somebody may know: who asks once a minute has asked by then. */
#define OFFERED_IDLE_NS (65 * (uint64_t)NSEC_PER_SEC)

/* Looking for what has expired costs as much as there are cells. */
#define EXPIRE_EVERY_NS (1 * (uint64_t)NSEC_PER_SEC)

struct leaving {
    uint32_t resource;
    bool is_regular;
    uint32_t share; /* what its client has */
    uint64_t last;
};

static int by_rank(const void *a, const void *b)
{
    const struct leaving *x = a, *y = b;
    return order_of(x->is_regular, y->is_regular) ?: order_of(y->share, x->share)
               ?: order_of(x->last, y->last);
}

/* How long a resource has had nothing added to it before it may go. */
static uint64_t idle_min(const struct output_resource *r, bool is_offered)
{
    if (is_offered)
        return OFFERED_IDLE_NS;
    return r->times > 1 ? REGULAR_IDLE_NS : ONCE_IDLE_NS;
}

/* Those that may go, the first to go first. */
static uint32_t list_leaving(const struct output *o, const bool *is_offered, struct leaving *list)
{
    const struct output_tables *t = &o->tables;
    uint32_t n = 0;
    for (uint32_t i = 0; i < t->known.n; i++) {
        const struct output_resource *r = &t->known.p[i];
        const bool is_regular = r->times > 1;
        if (o->now - r->last < idle_min(r, is_offered[i + 1]))
            continue;
        const uint32_t *share = idmap_find(&t->shares, r->client);
        list[n++] = (struct leaving){i + 1, is_regular, share ? *share : 0, r->last};
    }
    if (n > 0)
        qsort(list, n, sizeof *list, by_rank);
    return n;
}

/* Whether somebody waits for the cell's end: it must be told. */
static bool is_awaited(const struct output *o, const struct output_cell *cell)
{
    if (o->options.temporality == METRIC_DELTA || o->options.is_pulled)
        return false;
    return o->all->metrics[cell->metric].kind == METRIC_GAUGE || cell->told > 0;
}

/* Retires the cells of resources that are to go, and takes those out of `gone` that somebody was told of. */
static void retire_told(struct output *o, bool *gone)
{
    struct output_tables *t = &o->tables;
    for (uint32_t i = o->all->n_metrics; i < t->cells.n; i++)
        t->cells.p[i].retired |= gone[t->cells.p[i].resource];
    for (uint32_t i = o->all->n_metrics; i < t->cells.n; i++)
        if (t->cells.p[i].live && is_awaited(o, &t->cells.p[i]))
            gone[t->cells.p[i].resource] = false;
}

/* What the cell has and nobody was told. */
static int64_t untold(const struct output *o, const struct output_cell *cell)
{
    if (o->options.temporality == METRIC_DELTA)
        return cell->value;
    return o->all->metrics[cell->metric].kind == METRIC_SUM ? cell->value - cell->told : 0;
}

/* Adds to the overflow resource what a label set of the tables before had. */
static void spill(struct output *o, const struct output_tables *before, uint32_t series, uint32_t metric,
                  int64_t value)
{
    uint32_t to = metric;
    if (value == 0)
        return;
    if (series >= o->all->n_metrics && output_has_room(o, RESOURCE_OVERFLOW, metric)) {
        uint32_t id = intern_add(&o->tables.series, intern_get(&before->series, series - o->all->n_metrics));
        to = id == INTERN_NONE ? metric : id + o->all->n_metrics;
    }
    output_add_to(o, RESOURCE_OVERFLOW, to, metric, value);
}

/* The tables without the resources that are gone: then what those had is in overflow. */
static void evict(struct output *o, const bool *gone)
{
    struct output_tables fresh, before;
    if (!output_tables_without(o, gone, o->all->n_metrics, &fresh))
        return;
    before = o->tables;
    o->tables = fresh;
    o->generation++;
    for (uint32_t i = o->all->n_metrics; i < before.cells.n; i++) {
        const struct output_cell *cell = &before.cells.p[i];
        if (!cell->live || !gone[cell->resource])
            continue;
        if (!o->all->metrics[cell->metric].keeps_last) /* they are made anew at each collect */
            spill(o, &before, cell->series, cell->metric, untold(o, cell));
        stats_add(o->all->stats, STATS_SERIES_EXPIRED, 1);
    }
    for (uint32_t i = 0; i < before.largest.candidates.n; i++) {
        const struct largest_candidate *c = &before.largest.candidates.p[i];
        const struct largest_group *g = &before.largest.groups.p[c->group];
        if (gone[g->resource])
            spill(o, &before, g->metric, g->metric, c->value);
    }
    output_tables_release(&before);
}

/* Which resources (by number) have a sum that may be known to somebody who was not sent it. */
static void find_offered(const struct output *o, bool *ret)
{
    for (uint32_t i = o->all->n_metrics; i < o->tables.cells.n; i++) {
        const struct output_cell *cell = &o->tables.cells.p[i];
        ret[cell->resource] |=
            cell->live && cell->offered && o->all->metrics[cell->metric].kind == METRIC_SUM;
    }
}

static void tell_once(struct output *o)
{
    if (o->told_full)
        return;
    o->told_full = true;
    log_warn(
        "a resource finds no room: metrics.resource_limit, one client's share of it, or limits.memory is used up; "
        "what it counts is added up under otel.metric.overflow (profgate_resource_overflow_total) resource_limit=%u",
        o->options.max_resources);
}

void output_make_room(struct output *o)
{
    const uint32_t n_known = o->tables.known.n;
    if (o->n_refused == 0)
        return;
    o->n_refused = 0;
    tell_once(o);
    struct leaving *list = calloc(n_known + 1, sizeof *list);
    bool *gone = calloc(n_known + 1, sizeof *gone), *is_offered = calloc(n_known + 1, sizeof *is_offered);
    uint32_t n = 0;
    if (list && gone && is_offered) {
        find_offered(o, is_offered);
        n = list_leaving(o, is_offered, list);
    }
    n = min_of(n, max_of(o->options.max_resources / 4, 1u));
    for (uint32_t i = 0; i < n; i++)
        gone[list[i].resource] = true;
    if (n > 0) {
        retire_told(o, gone);
        evict(o, gone);
    }
    free(list);
    free(gone);
    free(is_offered);
}

void output_expire(struct output *o)
{
    if (!o->options.is_pulled || o->now - o->expired_at < EXPIRE_EVERY_NS)
        return;
    o->expired_at = o->now;
    for (uint32_t i = 0; i < o->tables.cells.n; i++) {
        struct output_cell *cell = &o->tables.cells.p[i];
        if (!cell->live || !output_is_idle(o, cell) || o->all->metrics[cell->metric].keeps_last)
            continue;
        stats_add(o->all->stats, STATS_SERIES_UNREAD, untold(o, cell) > 0);
        output_end_cell(o, cell);
    }
    output_compact(o);
}
