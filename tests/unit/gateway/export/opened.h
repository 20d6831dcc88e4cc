/* SPDX-License-Identifier: Apache-2.0 */
/* An exporter by itself, as the gateway opens it: what is pushed to it, and its end. */
#ifndef TESTS_OPENED_H
#define TESTS_OPENED_H

#include "gateway/export/exporter.h"
#include "gateway/export/profiles.h"
#include "gateway/stats/stats.h"
#include "proto/io/loop.h"
#include "tests/lib/unit.h"

#define UNTIL(loop, condition) unit_until(condition, io_loop_run_once(loop, 50 * NSEC_PER_MSEC))

static inline struct exporter *open_one(const struct exporter_kind *kind, const void *settings,
                                        enum config_takes signal, struct io_loop *loop, struct stats *stats)
{
    struct exporter *x = NULL;
    struct error e = {""};
    struct export_context c = {.name = kind->config.type, .signal = signal, .loop = loop, .stats = stats};
    ck_assert_msg(exporter_open(&x, &kind->config, settings, &c, &e) == 0, "%s", e.text);
    return x;
}

static inline struct exporter *open_metrics(const struct exporter_kind *kind, const void *settings,
                                            struct io_loop *loop, struct stats *stats)
{
    return open_one(kind, settings, CONFIG_TAKES_METRICS, loop, stats);
}

static inline void on_done(void *user)
{
    *(bool *)user = true;
}

static inline void drain_until(struct exporter *x, struct io_loop *loop, uint64_t deadline_ns)
{
    bool done = false;
    exporter_drain(x, deadline_ns, on_done, &done);
    ck_assert(!done);
    UNTIL(loop, done);
    exporter_free(x);
}

/* With all of them, or nothing and false. */
static inline bool reserve(struct export_profiles *x, size_t n)
{
    const export_set all = export_profiles_all(x), got = export_profiles_reserve(x, n, 1, all);
    if (got != all)
        export_profiles_cancel(x, n, 1, got);
    return got == all;
}

static inline void close_profiles(struct export_profiles *p, struct exporter **x, uint32_t n,
                                  struct io_loop *loop, uint64_t deadline_ns)
{
    for (uint32_t i = 0; i < n; i++)
        drain_until(x[i], loop, deadline_ns);
    export_profiles_free(p);
}

static inline struct export_forms plain(uint8_t *p, size_t n)
{
    return (struct export_forms){.plain = client_body_new(p, n)};
}

/* One resource with a sum of n points. */
static inline struct metric_batch *batch_of(uint32_t n)
{
    struct metric_batch *b = unit_made(metric_batch_new(NULL));
    b->n_resources = 1;
    b->resources = unit_made(arena_calloc(&b->arena, 1, sizeof *b->resources));
    b->resources[0].n_metrics = 1;
    b->resources[0].metrics = unit_made(arena_calloc(&b->arena, 1, sizeof *b->resources[0].metrics));
    struct metric *m = b->resources[0].metrics;
    *m = (struct metric){.name = BYTES_LIT("m"), .temporality = METRIC_DELTA, .n_points = n};
    m->points = unit_made(arena_calloc(&b->arena, n ? n : 1, sizeof *m->points));
    for (uint32_t i = 0; i < n; i++)
        m->points[i] = (struct metric_point){.time_unix_nano = 1, .integer = i};
    return b;
}

#endif
