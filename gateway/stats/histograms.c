/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/stats/histograms.h"

#include <errno.h>
#include <inttypes.h>

#include "proto/base/macros.h"

#define US 1000ull
#define MS 1000000ull

/* The conventions' advice (semantic conventions, http/http-metrics) begins at 5 ms, in which most of our
 * requests would be one bucket: it is continued downwards. */
static const uint64_t durations[] = {100 * US,  250 * US,  500 * US,  1 * MS,    2500 * US,
                                     5 * MS,    10 * MS,   25 * MS,   50 * MS,   75 * MS,
                                     100 * MS,  250 * MS,  500 * MS,  750 * MS,  1000 * MS,
                                     2500 * MS, 5000 * MS, 7500 * MS, 10000 * MS};
static const uint64_t sizes[] = {1u << 10, 1u << 12, 1u << 14, 1u << 16, 1u << 18,
                                 1u << 20, 1u << 22, 1u << 24, 1u << 26};

_Static_assert(ARRAY_LEN(durations) <= STATS_BUCKETS, "they fit, and one more");
_Static_assert(ARRAY_LEN(sizes) <= STATS_BUCKETS, "they fit, and one more");

static const struct row {
    const char *name, *description, *otlp_name, *otlp_unit;
    const uint64_t *bounds;
    uint32_t n;
    double unit; /* of the names, in that of values */
} rows[STATS_HISTOGRAMS] = {
    [STATS_HTTP_DURATION] = {"http_server_request_duration_seconds",
                             "Duration of HTTP requests, from their head to their answer",
                             "http.server.request.duration", "s", durations, ARRAY_LEN(durations), 1e9},
    [STATS_HTTP_SIZE] = {"http_server_request_body_size_bytes", "Bodies of HTTP requests, as they were sent",
                         "http.server.request.body.size", "By", sizes, ARRAY_LEN(sizes), 1},
    [STATS_RPC_DURATION] = {"rpc_server_call_duration_seconds",
                            "Duration of gRPC calls, from their head to their answer",
                            "rpc.server.call.duration", "s", durations, ARRAY_LEN(durations), 1e9},
    [STATS_RPC_SIZE] = {"rpc_server_request_size_bytes", "Messages of gRPC calls, as they were sent",
                        "rpc.server.request.size", "By", sizes, ARRAY_LEN(sizes), 1},
};

void histograms_add(struct stats *s, enum stats_histogram which, uint64_t value)
{
    const struct row *r = &rows[which];
    uint32_t i = 0;
    if (!s)
        return;
    while (i < r->n && value > r->bounds[i])
        i++;
    struct stats_distribution *d = &s->histogram[which];
    __atomic_store_n(&d->bucket[i], d->bucket[i] + 1, __ATOMIC_RELAXED);
    __atomic_store_n(&d->sum, d->sum + value, __ATOMIC_RELAXED);
}

static struct stats_distribution total(enum stats_histogram which)
{
    struct stats_distribution t = {0};
    for (const struct stats *s = stats_blocks(); s; s = s->next) {
        for (uint32_t i = 0; i <= STATS_BUCKETS; i++)
            t.bucket[i] += __atomic_load_n(&s->histogram[which].bucket[i], __ATOMIC_RELAXED);
        t.sum += __atomic_load_n(&s->histogram[which].sum, __ATOMIC_RELAXED);
    }
    return t;
}

static void write_one(enum stats_histogram which, struct exposition *x)
{
    const struct row *row = &rows[which];
    const struct stats_distribution t = total(which);
    uint64_t n = 0;
    exposition_family(x, row->name, "histogram", row->description);
    for (uint32_t i = 0; i < row->n; i++) {
        n += t.bucket[i];
        exposition_print(x, "%s_bucket{le=\"%.12g\"} %" PRIu64 "\n", row->name,
                         (double)row->bounds[i] / row->unit, n);
    }
    n += t.bucket[row->n];
    exposition_print(x, "%s_bucket{le=\"+Inf\"} %" PRIu64 "\n%s_sum %.12g\n%s_count %" PRIu64 "\n", row->name,
                     n, row->name, (double)t.sum / row->unit, row->name, n);
}

void histograms_prometheus(struct exposition *x)
{
    for (int i = 0; i < STATS_HISTOGRAMS; i++)
        write_one((enum stats_histogram)i, x);
}

static const struct metric_distribution *distribution(struct arena *arena, enum stats_histogram which)
{
    const struct row *row = &rows[which];
    const struct stats_distribution t = total(which);
    struct metric_distribution *d = arena_calloc(arena, 1, sizeof *d);
    double *bounds = arena_calloc(arena, row->n, sizeof *bounds);
    uint64_t *counts = arena_calloc(arena, row->n + 1, sizeof *counts);
    if (!d || !bounds || !counts)
        return NULL;
    *d = (struct metric_distribution){bounds, counts, row->n, 0, (double)t.sum / row->unit};
    for (uint32_t i = 0; i < row->n; i++)
        bounds[i] = (double)row->bounds[i] / row->unit;
    for (uint32_t i = 0; i <= row->n; i++)
        d->count += counts[i] = t.bucket[i];
    return d;
}

int histograms_metrics(struct arena *arena, uint64_t start_unix_nano, uint64_t now_unix_nano,
                       struct metric metric[STATS_HISTOGRAMS])
{
    struct metric_point *points = arena_calloc(arena, STATS_HISTOGRAMS, sizeof *points);
    if (!points)
        return -ENOMEM;
    for (int i = 0; i < STATS_HISTOGRAMS; i++) {
        points[i] = (struct metric_point){.start_unix_nano = start_unix_nano,
                                          .time_unix_nano = now_unix_nano,
                                          .distribution = distribution(arena, (enum stats_histogram)i)};
        if (!points[i].distribution)
            return -ENOMEM;
        metric[i] = (struct metric){.name = bytes_str(rows[i].otlp_name),
                                    .description = bytes_str(rows[i].description),
                                    .unit = bytes_str(rows[i].otlp_unit),
                                    .kind = METRIC_HISTOGRAM,
                                    .temporality = METRIC_CUMULATIVE,
                                    .points = &points[i],
                                    .n_points = 1};
    }
    return 0;
}
