/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gateway/stats/histograms.h"
#include "gateway/stats/process.h"
#include "gateway/stats/stats.h"
#include "proto/base/clock.h"
#include "proto/base/macros.h"

static char *text(void)
{
    struct buffer out = BUFFER_INIT(0);
    ck_assert_int_eq(stats_prometheus(&out), 0);
    ck_assert_int_eq(buffer_add(&out, "", 1), 0);
    size_t n;
    return (char *)buffer_take(&out, &n);
}

static int count(const char *in, const char *what)
{
    int n = 0;
    for (const char *at = in; (at = strstr(at, what)); at++)
        n++;
    return n;
}

UNIT(blocks_add_up)
{
    struct stats *a = unit_made(stats_new()), *b = unit_made(stats_new());
    stats_add(a, STATS_SAMPLES, 3);
    stats_add(b, STATS_SAMPLES, 4);
    stats_add(NULL, STATS_SAMPLES, 100);
    stats_set(a, STATS_SERIES, 9);
    stats_set(a, STATS_SERIES, 2);
    ck_assert_uint_eq(stats_read(STATS_SAMPLES), 7);
    ck_assert_uint_eq(stats_read(STATS_SERIES), 2);
}

static void *count_up(void *unused)
{
    struct stats *s = stats_new(); /* no expectations in another thread */
    for (int i = 0; s && i < 10000; i++)
        stats_add(s, STATS_PROFILES, 1);
    return s;
}

UNIT(threads_register_side_by_side)
{
    pthread_t threads[8];
    for (size_t i = 0; i < ARRAY_LEN(threads); i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, count_up, NULL), 0);
    for (size_t i = 0; i < ARRAY_LEN(threads); i++)
        pthread_join(threads[i], NULL);
    ck_assert_uint_eq(stats_read(STATS_PROFILES), 80000);
}

UNIT(one_head_for_each_name)
{
    stats_add(stats_new(), STATS_REQUESTS_PARTIAL, 5);
    autofree char *out = text();
    ck_assert_int_eq(count(out, "# TYPE profgate_requests_total counter\n"), 1);
    ck_assert_int_eq(
        count(out, "# HELP profgate_requests_total Export requests, by how they were answered\n"), 1);
    ck_assert_ptr_nonnull(strstr(out, "\nprofgate_requests_total{outcome=\"partial\"} 5\n"));
    ck_assert_ptr_nonnull(strstr(out, "\nprofgate_requests_total{outcome=\"busy\"} 0\n"));
    ck_assert_ptr_nonnull(strstr(out, "\nprofgate_samples_total 0\n"));
    ck_assert_ptr_nonnull(strstr(out, "\nprofgate_build_info{version=\"" PROFGATE_VERSION "\"} 1\n"));
    /* Rows of one name stand together: what follows the head is its seven outcomes. */
    const char *at = strstr(out, "# TYPE profgate_requests_total");
    for (int i = 0; i < 7; i++) {
        at = strchr(at, '\n') + 1;
        ck_assert_msg(!strncmp(at, "profgate_requests_total{", 24), "line %d: %.40s", i, at);
    }
}

UNIT(every_name_has_a_sentence_and_every_head_a_row)
{
    autofree char *out = text();
    int heads = count(out, "# HELP "), types = count(out, "# TYPE ");
    ck_assert_int_eq(heads, types);
    ck_assert_int_ge(heads, 30);
    for (char *line = strtok(out, "\n"); line; line = strtok(NULL, "\n")) {
        if (strncmp(line, "# HELP ", 7))
            continue;
        const char *sentence = strchr(line + 7, ' ');
        ck_assert_msg(sentence && strlen(sentence) > 5, "%s", line);
    }
}

/* OpenMetrics calls a counter's family without its _total: a gauge of that name is a second one, and a parser
 * that keeps to it refuses the page. */
UNIT(no_gauge_has_a_counters_name)
{
    autofree char *out = text(), *copy = strdup(out);
    for (char *line = strtok(copy, "\n"); line; line = strtok(NULL, "\n")) {
        char name[200], head[220];
        char *end;
        if (sscanf(line, "# TYPE %199s counter", name) < 1 || !(end = strstr(name, "_total")))
            continue;
        *end = '\0';
        snprintf(head, sizeof head, "# TYPE %s ", name);
        ck_assert_msg(!strstr(out, head), "%s", head);
    }
}

UNIT(the_process_knows_itself)
{
    struct process_facts f;
    process_facts_read(&f);
    ck_assert_uint_gt(f.resident_bytes, 100 << 10);
    ck_assert_uint_ge(f.virtual_bytes, f.resident_bytes);
    ck_assert_uint_ge(f.threads, 1);
    ck_assert_uint_ge(f.open_files, 3);
    ck_assert_uint_ge(f.max_files, f.open_files);
    double now = (double)clock_realtime() / NSEC_PER_SEC;
    ck_assert(f.start_seconds > now - 600 && f.start_seconds < now + 2);
    /* Six of the kernel's ticks, in CPU time: on a busy machine a time passes in which there was none. */
    for (clock_t until = clock() + 60 * (CLOCKS_PER_SEC / 1000); clock() < until;)
        ;
    struct process_facts later;
    process_facts_read(&later);
    ck_assert(later.cpu_seconds > f.cpu_seconds);
}

UNIT(the_batch_says_the_same)
{
    struct stats *s = unit_made(stats_new());
    stats_add(s, STATS_EXPORT_METRICS_SENT, 8);
    stats_add(s, STATS_REQUEST_BYTES, 1000);
    char name[] = "profgate";
    struct attr attr = {BYTES_LIT("service.name"), {.kind = ATTR_STRING, .text = bytes_str(name)}};
    uint64_t now = clock_realtime();
    struct metric_batch *b = unit_made(stats_batch(&attr, 1, now, NULL));
    name[0] = 'X'; /* the batch has copies */
    ck_assert_uint_eq(b->n_resources, 1);
    ck_assert(bytes_is(b->resources[0].attrs[0].value.text, "profgate"));
    uint64_t points = 0;
    bool sent = false, bytes = false;
    for (uint32_t i = 0; i < b->resources[0].n_metrics; i++) {
        const struct metric *m = &b->resources[0].metrics[i];
        points += m->n_points;
        for (uint32_t k = 0; k < m->n_points; k++) {
            const struct metric_point *p = &m->points[k];
            ck_assert_uint_le(p->start_unix_nano, p->time_unix_nano);
            if (m->kind == METRIC_HISTOGRAM)
                continue;
            if (bytes_is(m->name, "profgate.export_requests") && p->integer == 8) {
                ck_assert_uint_eq(p->n_attrs, 2);
                ck_assert(bytes_is(p->attrs[0].key, "signal") && bytes_is(p->attrs[0].value.text, "metrics"));
                ck_assert(bytes_is(p->attrs[1].key, "outcome") && bytes_is(p->attrs[1].value.text, "sent"));
                sent = true;
            }
            if (bytes_is(m->name, "profgate.request_bytes") && p->integer == 1000) {
                ck_assert(bytes_is(m->unit, "By") && m->kind == METRIC_SUM);
                bytes = true;
            }
        }
    }
    ck_assert(sent && bytes);
    ck_assert_uint_eq(points, STATS_N + 7 + STATS_HISTOGRAMS);
    metric_batch_free(b);

    struct budget none = BUDGET_INIT(64, NULL);
    ck_assert_ptr_null(stats_batch(&attr, 1, now, &none));
    ck_assert_uint_eq(none.used, 0);
}

static const struct metric *find(const struct metric_batch *b, const char *name)
{
    for (uint32_t i = 0; i < b->resources[0].n_metrics; i++)
        if (bytes_is(b->resources[0].metrics[i].name, name))
            return &b->resources[0].metrics[i];
    return NULL;
}

/* The number behind `series ` in the text. */
static double told(const char *in, const char *series)
{
    const char *at = strstr(in, series);
    ck_assert_msg(at != NULL, "%s", series);
    return strtod(at + strlen(series), NULL);
}

UNIT(histograms_of_the_batch_are_those_of_the_text)
{
    static const struct {
        const char *otlp, *text, *unit;
    } names[STATS_HISTOGRAMS] = {
        {"http.server.request.duration", "http_server_request_duration_seconds", "s"},
        {"http.server.request.body.size", "http_server_request_body_size_bytes", "By"},
        {"rpc.server.call.duration", "rpc_server_call_duration_seconds", "s"},
        {"rpc.server.request.size", "rpc_server_request_size_bytes", "By"},
    };
    struct stats *s = unit_made(stats_new()), *other = unit_made(stats_new());
    for (int i = 0; i < STATS_HISTOGRAMS; i++)
        for (uint64_t v = 1; v < 1ull << 36; v *= 3)
            histograms_add(v & 2 ? s : other, (enum stats_histogram)i, v * (unsigned)(i + 1));
    autofree char *out = text();
    struct metric_batch *b = unit_made(stats_batch(NULL, 0, clock_realtime(), NULL));
    for (int i = 0; i < STATS_HISTOGRAMS; i++) {
        const struct metric *m = find(b, names[i].otlp);
        ck_assert(m && m->kind == METRIC_HISTOGRAM && m->temporality == METRIC_CUMULATIVE &&
                  m->n_points == 1);
        ck_assert(bytes_is(m->unit, names[i].unit));
        const struct metric_distribution *d = m->points[0].distribution;
        char series[128];
        uint64_t below = 0;
        for (uint32_t k = 0; k < d->n_bounds; k++) {
            snprintf(series, sizeof series, "\n%s_bucket{le=\"%.12g\"} ", names[i].text, d->bounds[k]);
            below += d->counts[k];
            ck_assert_double_eq(told(out, series), (double)below);
        }
        snprintf(series, sizeof series, "\n%s_count ", names[i].text);
        ck_assert_double_eq(told(out, series), (double)(below + d->counts[d->n_bounds]));
        ck_assert_uint_eq(d->count, below + d->counts[d->n_bounds]);
        snprintf(series, sizeof series, "\n%s_sum ", names[i].text);
        ck_assert_double_eq_tol(told(out, series), d->sum, d->sum * 1e-11);
    }
    metric_batch_free(b);
}

UNIT(deltas_are_what_was_added_between)
{
    struct stats *s = unit_made(stats_new());
    uint64_t now = clock_realtime();
    stats_add(s, STATS_AUTH_WRONG, 5);
    histograms_add(s, STATS_RPC_SIZE, 100);
    struct metric_batch *first = unit_made(stats_batch(NULL, 0, now, NULL));
    struct metric_batch *since = unit_made(stats_batch_since(first, NULL, NULL));
    ck_assert_int_eq(find(since, "profgate.auth")->temporality, METRIC_DELTA);
    ck_assert_int_eq(find(since, "profgate.auth")->points[2].integer, 5);
    ck_assert_uint_eq(find(since, "rpc.server.request.size")->points[0].distribution->count, 1);
    metric_batch_free(since);

    stats_add(s, STATS_AUTH_WRONG, 2);
    stats_set(s, STATS_SERIES, 9);
    histograms_add(s, STATS_RPC_SIZE, 100);
    histograms_add(s, STATS_RPC_SIZE, 5000);
    struct metric_batch *second = unit_made(stats_batch(NULL, 0, now + 10, NULL));
    since = unit_made(stats_batch_since(second, first, NULL));
    const struct metric_point *auth = find(since, "profgate.auth")->points;
    ck_assert(auth[2].integer == 2 && auth[1].integer == 0);
    ck_assert(auth[2].start_unix_nano == now && auth[2].time_unix_nano == now + 10);
    ck_assert_int_eq(find(since, "profgate.series")->points[0].integer, 9); /* a gauge */
    const struct metric_distribution *d = find(since, "rpc.server.request.size")->points[0].distribution;
    ck_assert(d->count == 2 && d->counts[0] == 1 && d->counts[2] == 1 && d->sum == 5100);
    /* What the second says stays, to be subtracted the next time. */
    ck_assert_uint_eq(find(second, "rpc.server.request.size")->points[0].distribution->count, 3);
    metric_batch_free(since);
    struct budget none = BUDGET_INIT(64, NULL);
    ck_assert_ptr_null(stats_batch_since(second, first, &none));
    ck_assert_uint_eq(none.used, 0);
    metric_batch_free(second);
    metric_batch_free(first);
}
