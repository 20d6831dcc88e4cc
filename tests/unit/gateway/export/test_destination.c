/* SPDX-License-Identifier: Apache-2.0 */
/* needs: proto/schema dep_snappy */
#include "tests/lib/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <snappy-c.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gateway/export/destination.h"
#include "gateway/stats/stats.h"
#include "metrics_service.pb-c.h"
#include "tests/unit/proto/client/fake_server.h"

#define UNTIL(loop, condition)                                                            \
    do {                                                                                  \
        uint64_t until_ = clock_monotonic() + unit_patience(10 * (uint64_t)NSEC_PER_SEC); \
        while (!(condition)) {                                                            \
            ck_assert_msg(clock_monotonic() < until_, "never: %s", #condition);           \
            io_loop_run_once(loop, 50 * NSEC_PER_MSEC);                                   \
        }                                                                                 \
    } while (0)

static void on_done(void *user)
{
    *(bool *)user = true;
}

/* One resource with a sum of n points. */
static struct metric_batch *batch_of(uint32_t n)
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

static char *slurp(const char *path)
{
    FILE *f = fopen(path, "r");
    ck_assert_ptr_nonnull(f);
    char *text = calloc(1, 65536);
    ck_assert_uint_gt(fread(text, 1, 65535, f), 0);
    fclose(f);
    return text;
}

UNIT(metrics_to_a_file)
{
    char folder[] = "/tmp/profgate-test-XXXXXX", path[64], moved[64];
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/out.json", folder);
    snprintf(moved, sizeof moved, "%s/out.json.1", folder);
    struct io_loop *loop = unit_made(io_loop_new());
    struct stats *stats = unit_made(stats_new());
    struct destination_options o = {.name = "file/x", .kind = DESTINATION_FILE, .path = path};
    struct export_metrics *x;
    struct metric_batch *b = batch_of(1), *none = batch_of(0);
    ck_assert_int_eq(export_metrics_new(&x, loop, &o, stats, NULL), 0);
    export_metrics_push(x, b);
    export_metrics_push(x, b);
    export_metrics_push(x, none); /* no empty envelope */
    ck_assert_int_eq(rename(path, moved), 0);
    export_metrics_push(x, b); /* to a new file */
    static const char line[] =
        "{\"resourceMetrics\":[{\"resource\":{},\"scopeMetrics\":[{\"scope\":{},\"metrics\":[{\"name\":\"m\",\"sum\":"
        "{\"dataPoints\":[{\"timeUnixNano\":\"1\",\"asInt\":\"0\"}],\"aggregationTemporality\":1,"
        "\"isMonotonic\":true}}]}]}]}\n";
    char *first = slurp(moved), *second = slurp(path), twice[1000];
    snprintf(twice, sizeof twice, "%s%s", line, line);
    ck_assert_str_eq(first, twice);
    ck_assert_str_eq(second, line);
    ck_assert_uint_eq(stats->value[STATS_EXPORT_METRICS_SENT], 3);
    bool done = false;
    export_metrics_shutdown(x, 0, on_done, &done);
    ck_assert(!done);
    UNTIL(loop, done);
    export_metrics_free(x);
    free(first);
    free(second);
    metric_batch_free(b);
    metric_batch_free(none);
    io_loop_free(loop);
    unlink(path);
    unlink(moved);
    rmdir(folder);
}

UNIT(a_full_disk_is_counted_and_leaves_no_half_line)
{
    struct io_loop *loop = unit_made(io_loop_new());
    struct stats *stats = unit_made(stats_new());
    struct destination_options o = {.name = "file/full", .kind = DESTINATION_FILE, .path = "/dev/full"};
    struct export_metrics *x;
    struct metric_batch *b = batch_of(5);
    if (access("/dev/full", W_OK) < 0)
        unit_skip("no /dev/full");
    ck_assert_int_eq(export_metrics_new(&x, loop, &o, stats, NULL), 0);
    export_metrics_push(x, b);
    ck_assert_uint_eq(stats->value[STATS_EXPORT_METRICS_SENT], 0);
    ck_assert_uint_eq(stats->value[STATS_EXPORT_METRICS_FAILED], 1);
    ck_assert_uint_eq(stats->value[STATS_EXPORT_POINTS_DROPPED], 5);
    bool done = false;
    export_metrics_shutdown(x, 0, on_done, &done);
    UNTIL(loop, done);
    export_metrics_free(x);
    metric_batch_free(b);
    io_loop_free(loop);
}

UNIT(options_are_refused_by_name)
{
    struct io_loop *loop = unit_made(io_loop_new());
    struct error e = {""};
    struct export_metrics *m = NULL;
    struct export_profiles *p = NULL;
    struct destination_options file = {
        .name = "file/x", .kind = DESTINATION_FILE, .path = "/does/not/exist/x"};
    struct destination_options otlp = {.name = "otlp/bad", .otlp = OTLP_EXPORTER_DEFAULT};
    ck_assert_int_eq(export_metrics_new(&m, loop, &file, NULL, &e), -ENOENT);
    ck_assert_ptr_nonnull(strstr(e.text, "file/x: /does/not/exist/x"));
    otlp.otlp.endpoint = "ftp://x";
    ck_assert_int_eq(export_metrics_new(&m, loop, &otlp, NULL, &e), -EINVAL);
    ck_assert_ptr_nonnull(strstr(e.text, "otlp/bad: "));
    struct destination_options two[] = {{.name = "otlp/good", .otlp = OTLP_EXPORTER_DEFAULT}, file};
    ck_assert_int_eq(export_profiles_new(&p, loop, two, 2, NULL, &e), -EINVAL);
    ck_assert_ptr_nonnull(strstr(e.text, "file/x"));
    ck_assert(!m && !p);
    io_loop_free(loop); /* also closes what otlp/good had opened */
}

static uint64_t points_seen;

static void count_points(struct fake_server *s, struct http_exchange *x, struct bytes body)
{
    Opentelemetry__Proto__Collector__Metrics__V1__ExportMetricsServiceRequest *m =
        opentelemetry__proto__collector__metrics__v1__export_metrics_service_request__unpack(NULL, body.n,
                                                                                             body.p);
    ck_assert_ptr_nonnull(m);
    ck_assert_uint_le(body.n, 2000);
    for (size_t i = 0; i < m->n_resource_metrics; i++)
        points_seen += m->resource_metrics[i]->scope_metrics[0]->metrics[0]->sum->n_data_points;
    opentelemetry__proto__collector__metrics__v1__export_metrics_service_request__free_unpacked(m, NULL);
    fake_http(x, 200, "application/x-protobuf", bytes_of(NULL, 0));
}

UNIT(metrics_to_otlp_are_split)
{
    struct io_loop *loop = unit_made(io_loop_new());
    struct stats *stats = unit_made(stats_new());
    struct fake_server server = {.answer = count_points};
    struct destination_options o = {.name = "otlp/m", .otlp = OTLP_EXPORTER_DEFAULT};
    struct export_metrics *x;
    struct metric_batch *b = batch_of(1000);
    fake_start(&server, loop, 0);
    o.otlp.endpoint = server.address;
    o.otlp.protocol = OTLP_HTTP;
    o.otlp.compression = OTLP_COMPRESS_NONE;
    o.otlp.max_request_bytes = 2000;
    ck_assert_int_eq(export_metrics_new(&x, loop, &o, stats, NULL), 0);
    export_metrics_push(x, b);
    metric_batch_free(b); /* it keeps nothing of it */
    UNTIL(loop, points_seen == 1000);
    UNTIL(loop, stats->value[STATS_EXPORT_METRICS_SENT] == server.requests);
    ck_assert_uint_gt(server.requests, 5);
    ck_assert_uint_eq(stats->value[STATS_EXPORT_QUEUE_BYTES], 0);
    bool done = false;
    export_metrics_shutdown(x, clock_monotonic() + NSEC_PER_SEC, on_done, &done);
    UNTIL(loop, done);
    export_metrics_free(x);
    fake_stop(&server);
    io_loop_free(loop);
}

static void refuse(struct fake_server *s, struct http_exchange *x, struct bytes body)
{
    fake_grpc(x, "3", bytes_of(NULL, 0), NULL);
}

UNIT(profiles_go_to_each_destination)
{
    struct io_loop *loop = unit_made(io_loop_new());
    struct stats *stats = unit_made(stats_new());
    struct fake_server good = {.answer = fake_answer_ok}, bad = {.answer = refuse};
    struct destination_options o[2] = {{.name = "otlp/good", .otlp = OTLP_EXPORTER_DEFAULT},
                                       {.name = "otlp/bad", .otlp = OTLP_EXPORTER_DEFAULT}};
    struct export_profiles *x;
    fake_start(&good, loop, 0);
    fake_start(&bad, loop, 0);
    o[0].otlp.endpoint = good.address;
    o[1].otlp.endpoint = bad.address;
    o[1].otlp.queue.queue_bytes = 1000;
    ck_assert_int_eq(export_profiles_new(&x, loop, o, 2, stats, NULL), 0);

    /* All or nothing: the second queue is the smaller one. */
    ck_assert(export_profiles_reserve(x, 600));
    ck_assert(!export_profiles_reserve(x, 600));
    export_profiles_cancel(x, 600);
    ck_assert(export_profiles_reserve(x, 1000));
    export_profiles_push(x, (uint8_t *)strdup("hello"), 5, 1000, 7);
    ck_assert(export_profiles_reserve(x, 900)); /* what was not used is free again */
    export_profiles_cancel(x, 900);
    UNTIL(loop,
          stats->value[STATS_EXPORT_PROFILES_SENT] == 1 && stats->value[STATS_EXPORT_PROFILES_FAILED] == 1);
    ck_assert_uint_eq(stats->value[STATS_FORWARD_DROPPED], 7);
    ck_assert_uint_eq(stats->value[STATS_EXPORT_QUEUE_BYTES], 0);
    ck_assert(export_profiles_reserve(x, 1000));
    export_profiles_cancel(x, 1000);
    bool done = false;
    export_profiles_shutdown(x, clock_monotonic() + NSEC_PER_SEC, on_done, &done);
    UNTIL(loop, done);
    export_profiles_free(x);
    fake_stop(&good);
    fake_stop(&bad);
    io_loop_free(loop);
}

UNIT(the_queue_can_be_seen)
{
    struct io_loop *loop = unit_made(io_loop_new());
    struct stats *stats = unit_made(stats_new());
    struct fake_server silent = {.answer = fake_hold};
    struct destination_options o = {.name = "otlp/silent", .otlp = OTLP_EXPORTER_DEFAULT};
    struct export_profiles *x;
    fake_start(&silent, loop, 0);
    o.otlp.endpoint = silent.address;
    ck_assert_int_eq(export_profiles_new(&x, loop, &o, 1, stats, NULL), 0);
    for (int i = 0; i < 10; i++) {
        ck_assert(export_profiles_reserve(x, 100));
        export_profiles_push(x, (uint8_t *)strdup("hello"), 5, 100, 2);
    }
    UNTIL(loop, stats->value[STATS_EXPORT_QUEUE_BYTES] == 50 && silent.n_held == 4);
    bool done = false;
    export_profiles_shutdown(x, clock_monotonic() + 20 * NSEC_PER_MSEC, on_done, &done);
    UNTIL(loop, done);
    ck_assert_uint_eq(stats->value[STATS_FORWARD_DROPPED], 20);
    ck_assert_uint_eq(stats->value[STATS_EXPORT_PROFILES_FAILED], 10);
    ck_assert_uint_eq(stats->value[STATS_EXPORT_QUEUE_BYTES], 0);
    export_profiles_free(x);
    fake_stop(&silent);
    io_loop_free(loop);
}

/* What a request says, as text, and its body. */
static struct buffer said, body_seen;
static const struct http_header *written; /* of remote write 2.0, in the answer */
static uint64_t dropped;                  /* points, by the last expect_said */

static void listen_to(struct fake_server *s, struct http_exchange *x, struct bytes body)
{
    static const char *const names[] = {"content-type", "content-encoding",
                                        "x-prometheus-remote-write-version", "x-own"};
    said.n = body_seen.n = 0;
    buffer_printf(&said, "%.*s\n", BYTES_FMT(x->path));
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        struct bytes v = http_header_find(x->headers, x->n_headers, names[i]);
        if (v.p)
            buffer_printf(&said, "%s: %.*s\n", names[i], BYTES_FMT(v));
    }
    ck_assert_int_eq(buffer_add(&said, "", 1), 0);
    buffer_add_bytes(&body_seen, body);
    http_reply(x, &(struct http_reply){.status = 204, .headers = written, .n_headers = written ? 1 : 0});
}

/* Sends a batch, waits until it is acknowledged, and compares what was said. */
static void expect_said(struct destination_options o, const char *path, uint32_t n_points, const char *wanted)
{
    struct io_loop *loop = unit_made(io_loop_new());
    struct stats *stats = unit_made(stats_new());
    struct fake_server server = {.answer = listen_to};
    struct otlp_header own = {"X-Own", "mine"};
    struct export_metrics *x;
    struct metric_batch *b = batch_of(n_points);
    struct error e = {""};
    char endpoint[128];
    fake_start(&server, loop, 0);
    snprintf(endpoint, sizeof endpoint, "http://%s%s", server.address, path);
    b->resources[0].metrics[0].temporality = METRIC_CUMULATIVE;
    o.otlp.endpoint = endpoint;
    o.otlp.headers = &own;
    o.otlp.n_headers = 1;
    ck_assert_msg(export_metrics_new(&x, loop, &o, stats, &e) == 0, "%s", e.text);
    export_metrics_push(x, b);
    UNTIL(loop, stats->value[STATS_EXPORT_METRICS_SENT] == 1);
    ck_assert_str_eq((char *)said.p, wanted);
    bool done = false;
    export_metrics_shutdown(x, clock_monotonic() + NSEC_PER_SEC, on_done, &done);
    UNTIL(loop, done);
    dropped = stats->value[STATS_EXPORT_POINTS_DROPPED];
    export_metrics_free(x);
    metric_batch_free(b);
    fake_stop(&server);
    io_loop_free(loop);
}

UNIT(metrics_in_json)
{
    struct destination_options o = {
        .name = "otlp/json", .otlp = OTLP_EXPORTER_DEFAULT, .encoding = DESTINATION_JSON};
    o.otlp.protocol = OTLP_HTTP;
    expect_said(o, "", 1,
                "/v1/metrics\ncontent-type: application/json\ncontent-encoding: gzip\nx-own: mine\n");
    o.otlp.compression = OTLP_COMPRESS_NONE;
    expect_said(o, "/base", 1, "/base/v1/metrics\ncontent-type: application/json\nx-own: mine\n");
    ck_assert(bytes_starts(buffer_bytes(&body_seen), "{\"resourceMetrics\":[{"));
    buffer_release(&said);
    buffer_release(&body_seen);
}

UNIT(json_needs_http)
{
    struct io_loop *loop = unit_made(io_loop_new());
    struct export_metrics *x = NULL;
    struct error e = {""};
    struct destination_options o = {
        .name = "otlp/json", .otlp = OTLP_EXPORTER_DEFAULT, .encoding = DESTINATION_JSON};
    ck_assert_int_eq(export_metrics_new(&x, loop, &o, NULL, &e), -EINVAL);
    ck_assert_str_eq(e.text, "otlp/json: encoding json needs protocol http: gRPC carries protobuf");
    o = (struct destination_options){
        .name = "rw", .otlp = OTLP_EXPORTER_DEFAULT, .kind = DESTINATION_REMOTE_WRITE, .protobuf_message = 3};
    ck_assert_int_eq(export_metrics_new(&x, loop, &o, NULL, &e), -EINVAL);
    ck_assert_str_eq(e.text, "rw: protobuf_message is 1 or 2");
    struct export_profiles *p = NULL;
    ck_assert_int_eq(export_profiles_new(&p, loop, &o, 1, NULL, &e), -EINVAL);
    ck_assert_str_eq(e.text, "rw: remote write takes metrics, not profiles");
    ck_assert(!x && !p);
    io_loop_free(loop);
}

/* Answers 500, then 503, then that all is well, in words that are no OTLP. */
static void fail_twice(struct fake_server *s, struct http_exchange *x, struct bytes body)
{
    static const struct http_header type = {BYTES_LIT("content-type"), BYTES_LIT("text/plain")};
    static const uint32_t status[] = {500, 503, 200};
    uint32_t n = min_of(s->requests, 3u) - 1;
    http_reply(x, &(struct http_reply){
                      .status = status[n], .headers = &type, .n_headers = 1, .body = BYTES_LIT("hello")});
}

UNIT(remote_write_repeats_every_5xx)
{
    struct io_loop *loop = unit_made(io_loop_new());
    struct stats *stats = unit_made(stats_new());
    struct fake_server server = {.answer = fail_twice};
    struct destination_options o = {
        .name = "rw", .otlp = OTLP_EXPORTER_DEFAULT, .kind = DESTINATION_REMOTE_WRITE, .protobuf_message = 1};
    struct metric_batch *b = batch_of(1);
    struct export_metrics *x;
    char endpoint[128];
    fake_start(&server, loop, 0);
    snprintf(endpoint, sizeof endpoint, "http://%s/write", server.address);
    b->resources[0].metrics[0].temporality = METRIC_CUMULATIVE;
    o.otlp.endpoint = endpoint;
    o.otlp.retry.initial_interval_ns = o.otlp.retry.max_interval_ns = NSEC_PER_MSEC;
    ck_assert_int_eq(export_metrics_new(&x, loop, &o, stats, NULL), 0);
    export_metrics_push(x, b);
    UNTIL(loop, stats->value[STATS_EXPORT_METRICS_SENT] == 1);
    ck_assert_uint_eq(server.requests, 3);
    ck_assert_uint_eq(stats->value[STATS_EXPORT_METRICS_RETRIED], 2);
    ck_assert_uint_eq(stats->value[STATS_EXPORT_POINTS_DROPPED], 0);
    bool done = false;
    export_metrics_shutdown(x, clock_monotonic() + NSEC_PER_SEC, on_done, &done);
    UNTIL(loop, done);
    export_metrics_free(x);
    metric_batch_free(b);
    fake_stop(&server);
    io_loop_free(loop);
}

UNIT(metrics_by_remote_write)
{
    struct destination_options o = {.name = "prometheusremotewrite",
                                    .otlp = OTLP_EXPORTER_DEFAULT,
                                    .kind = DESTINATION_REMOTE_WRITE,
                                    .protobuf_message = 1};
    expect_said(o, "/api/v1/write?tenant=a", 1,
                "/api/v1/write\ncontent-type: application/x-protobuf\ncontent-encoding: snappy\n"
                "x-prometheus-remote-write-version: 0.1.0\nx-own: mine\n");
    o.protobuf_message = 2;
    expect_said(o, "", 1,
                "/\ncontent-type: application/x-protobuf;proto=io.prometheus.write.v2.Request\n"
                "content-encoding: snappy\nx-prometheus-remote-write-version: 2.0.0\nx-own: mine\n");
    char plain[4096];
    size_t n = sizeof plain;
    ck_assert_int_eq(snappy_uncompress((const char *)body_seen.p, body_seen.n, plain, &n), SNAPPY_OK);
    ck_assert_ptr_nonnull(memmem(plain, n, "m_total", 7));
    ck_assert_uint_eq(dropped, 1); /* it does not say what it wrote: it knows 1.0 only */
    static const struct {
        const char *name, *value;
        uint64_t dropped;
    } rows[] = {
        {"X-Prometheus-Remote-Write-Samples-Written", "1", 0},
        {"X-Prometheus-Remote-Write-Samples-Written", "0", 1},
        {"X-Prometheus-Remote-Write-Histograms-Written", "0", 1},
        {"X-Prometheus-Remote-Write-Samples-Written", "one", 1},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct http_header h = {bytes_str(rows[i].name), bytes_str(rows[i].value)};
        written = &h;
        char *before = strdup((const char *)said.p);
        expect_said(o, "", 1, before);
        free(before);
        ck_assert_uint_eq(dropped, rows[i].dropped);
    }
    written = NULL;
    buffer_release(&said);
    buffer_release(&body_seen);
}

/* Whose queue is full of what limits.memory has: refused, in all destinations or none, and given back. */
/* What cannot be made for want of memory is lost; what was on its way before that is not. One series a
 * request, and the last one's label is long. */
UNIT(remote_write_loses_only_what_was_not_sent)
{
    enum { N = 10, LONG = 64 << 10 };
    struct http_header samples = {BYTES_LIT("x-prometheus-remote-write-samples-written"), BYTES_LIT("1")};
    char *text = unit_made(calloc(1, LONG));
    memset(text, 'x', LONG);
    written = &samples;
    unsigned in_part = 0;
    for (size_t limit = LONG; limit < 6 * LONG; limit += LONG / 4) {
        struct io_loop *loop = unit_made(io_loop_new());
        struct stats *stats = unit_made(stats_new());
        struct fake_server server = {.answer = listen_to};
        struct destination_options o = {.name = "r",
                                        .kind = DESTINATION_REMOTE_WRITE,
                                        .otlp = OTLP_EXPORTER_DEFAULT,
                                        .protobuf_message = 2};
        struct export_metrics *x;
        struct metric_batch *b = batch_of(N);
        struct budget budget = BUDGET_INIT(limit, NULL);
        struct attr attrs[N];
        fake_start(&server, loop, 0);
        char endpoint[128];
        snprintf(endpoint, sizeof endpoint, "http://%s/w", server.address);
        o.otlp.endpoint = endpoint;
        o.otlp.max_request_bytes = 4000;
        struct metric *m = &b->resources[0].metrics[0];
        m->temporality = METRIC_CUMULATIVE;
        for (uint32_t i = 0; i < N; i++) {
            attrs[i] = (struct attr){
                BYTES_LIT("l"), {.kind = ATTR_STRING, .text = bytes_of(text, i == N - 1 ? LONG : 3000 + i)}};
            m->points[i].attrs = &attrs[i];
            m->points[i].n_attrs = 1;
        }
        b->arena.budget = &budget;
        ck_assert_int_eq(export_metrics_new(&x, loop, &o, stats, NULL), 0);
        export_metrics_push(x, b);
        b->arena.budget = NULL;
        uint64_t lost = stats->value[STATS_EXPORT_POINTS_DROPPED];
        in_part += lost > 0 && lost < N;
        ck_assert_uint_le(lost, N);
        UNTIL(loop, server.requests == N - lost && stats->value[STATS_EXPORT_METRICS_SENT] == N - lost);
        ck_assert_uint_eq(stats->value[STATS_EXPORT_POINTS_DROPPED], lost);
        bool done = false;
        export_metrics_shutdown(x, clock_monotonic() + NSEC_PER_SEC, on_done, &done);
        UNTIL(loop, done);
        export_metrics_free(x);
        metric_batch_free(b);
        fake_stop(&server);
        io_loop_free(loop);
    }
    written = NULL;
    ck_assert_uint_gt(in_part, 0);
    free(text);
}

static void reject_without_end(struct fake_server *s, struct http_exchange *x, struct bytes body)
{
    /* ExportMetricsServiceResponse { partial_success { rejected_data_points: INT64_MAX } } */
    static const uint8_t answer[] = {0x0a, 0x0a, 0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f};
    fake_http(x, 200, "application/x-protobuf", bytes_of(answer, sizeof answer));
}

/* A server that says it refused more than it was sent is believed for what it was sent. */
UNIT(more_rejected_than_was_sent)
{
    struct io_loop *loop = unit_made(io_loop_new());
    struct stats *stats = unit_made(stats_new());
    struct fake_server server = {.answer = reject_without_end};
    struct destination_options o = {.name = "otlp/m", .otlp = OTLP_EXPORTER_DEFAULT};
    struct export_metrics *x;
    struct metric_batch *b = batch_of(3);
    fake_start(&server, loop, 0);
    o.otlp.endpoint = server.address;
    o.otlp.protocol = OTLP_HTTP;
    ck_assert_int_eq(export_metrics_new(&x, loop, &o, stats, NULL), 0);
    export_metrics_push(x, b);
    UNTIL(loop, stats->value[STATS_EXPORT_METRICS_SENT] == 1);
    ck_assert_uint_eq(stats->value[STATS_EXPORT_POINTS_DROPPED], 3);
    bool done = false;
    export_metrics_shutdown(x, clock_monotonic() + NSEC_PER_SEC, on_done, &done);
    UNTIL(loop, done);
    export_metrics_free(x);
    metric_batch_free(b);
    fake_stop(&server);
    io_loop_free(loop);
}

UNIT(queues_are_charged_to_the_budget)
{
    struct io_loop *loop = unit_made(io_loop_new());
    struct budget memory = BUDGET_INIT(1000, NULL);
    struct destination_options o[2] = {{.name = "otlp/a", .otlp = OTLP_EXPORTER_DEFAULT},
                                       {.name = "otlp/b", .otlp = OTLP_EXPORTER_DEFAULT}};
    struct export_profiles *x;
    for (int i = 0; i < 2; i++) {
        o[i].otlp.endpoint = "127.0.0.1:1";
        o[i].otlp.queue.budget = &memory;
        o[i].otlp.max_request_bytes = 300 + 100 * (size_t)i;
        o[i].otlp.queue.queue_size = 20 - (uint32_t)i;
    }
    ck_assert_int_eq(export_profiles_new(&x, loop, o, 2, NULL, NULL), 0);
    struct export_profiles_terms terms = export_profiles_terms(x);
    ck_assert_uint_eq(terms.request_max, 300); /* the smallest of each */
    ck_assert_uint_eq(terms.queue_size, 19);
    ck_assert(!terms.no_references);
    ck_assert(export_profiles_reserve(x, 300));
    ck_assert_uint_eq(memory.used, 600);
    ck_assert(!export_profiles_reserve(x, 300)); /* the second one's queue would not fit */
    ck_assert_uint_eq(memory.used, 600);
    export_profiles_push(x, calloc(1, 100), 100, 300, 1);
    ck_assert_uint_eq(memory.used, 200);
    bool done = false;
    export_profiles_shutdown(x, clock_monotonic(), on_done, &done);
    UNTIL(loop, done);
    ck_assert_uint_eq(memory.used, 0);
    export_profiles_free(x);
    io_loop_free(loop);
}

/* A Profile with one Sample { stack_index = 1, attribute_indices = {2}, values = {4} }, in both layouts. */
#define SAMPLE_1_10 "\x0a\x0e\x12\x0c\x12\x0a\x12\x08\x08\x01\x12\x01\x02\x22\x01\x04"
#define SAMPLE_1_9  "\x0a\x0e\x12\x0c\x12\x0a\x12\x08\x08\x01\x1a\x01\x02\x12\x01\x04"

static void expect_body(struct fake_server *s, struct http_exchange *x, struct bytes body)
{
    ck_assert(bytes_eq(body, *(struct bytes *)s->user));
    fake_answer_ok(s, x, body);
}

UNIT(each_destination_gets_its_layout)
{
    struct io_loop *loop = unit_made(io_loop_new());
    struct stats *stats = unit_made(stats_new());
    struct bytes wanted[2] = {BYTES_LIT(SAMPLE_1_10), BYTES_LIT(SAMPLE_1_9)};
    for (int both = 0; both < 2; both++) { /* 1.9 beside 1.10, and alone */
        struct fake_server server[2] = {{.answer = expect_body, .user = &wanted[0]},
                                        {.answer = expect_body, .user = &wanted[1]}};
        struct destination_options o[2] = {{.name = "otlp/new", .otlp = OTLP_EXPORTER_DEFAULT},
                                           {.name = "otlp/old", .otlp = OTLP_EXPORTER_DEFAULT}};
        char endpoint[2][128];
        struct export_profiles *x;
        for (int i = 0; i < 2; i++) {
            fake_start(&server[i], loop, 0);
            snprintf(endpoint[i], sizeof endpoint[i], "http://%s", server[i].address);
            o[i].otlp.endpoint = endpoint[i];
            o[i].otlp.protocol = OTLP_HTTP;
            o[i].otlp.compression = OTLP_COMPRESS_NONE;
            o[i].layout_1_9 = i == 1;
        }
        uint64_t sent = stats->value[STATS_EXPORT_PROFILES_SENT];
        ck_assert_int_eq(export_profiles_new(&x, loop, o + !both, both ? 2 : 1, stats, NULL), 0);
        ck_assert(export_profiles_terms(x).no_references);
        ck_assert(export_profiles_reserve(x, 100));
        uint8_t *body = malloc(sizeof SAMPLE_1_10 - 1);
        memcpy(body, SAMPLE_1_10, sizeof SAMPLE_1_10 - 1);
        export_profiles_push(x, body, sizeof SAMPLE_1_10 - 1, 100, 1);
        UNTIL(loop, stats->value[STATS_EXPORT_PROFILES_SENT] == sent + 1 + (uint64_t)both);
        bool done = false;
        export_profiles_shutdown(x, clock_monotonic() + NSEC_PER_SEC, on_done, &done);
        UNTIL(loop, done);
        export_profiles_free(x);
        for (int i = 0; i < 2; i++)
            fake_stop(&server[i]);
    }
    io_loop_free(loop);
}
