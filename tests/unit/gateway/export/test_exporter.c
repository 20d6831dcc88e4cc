/* SPDX-License-Identifier: Apache-2.0 */
/* needs: gateway/config gateway/export proto/schema dep_snappy */
#include "tests/lib/unit.h"

#include <errno.h>
#include <snappy-c.h>
#include <sys/stat.h>

#include "gateway/export/file/exporter.h"
#include "gateway/export/otlp/exporter.h"
#include "gateway/export/profiles.h"
#include "gateway/export/remote_write/exporter.h"
#include "gateway/stats/stats.h"
#include "metrics_service.pb-c.h"
#include "tests/unit/gateway/export/opened.h"
#include "tests/unit/proto/client/fake_server.h"

static struct arena defaults;

/* As the configuration has it, to a server of ours: without TLS. */
static struct otlp_settings otlp_to(const char *endpoint)
{
    struct otlp_settings s = {0};
    ck_assert_int_eq(settings_defaults(&exporter_otlp.config.section, &s, &defaults), 0);
    s.sending.endpoint = endpoint;
    s.sending.tls_insecure = true;
    return s;
}

static struct remote_write_settings remote_write_to(const char *endpoint, uint32_t message)
{
    struct remote_write_settings s = {0};
    ck_assert_int_eq(settings_defaults(&exporter_remote_write.config.section, &s, &defaults), 0);
    s.sending.endpoint = endpoint;
    s.protobuf_message = message;
    return s;
}

/* Some, each with its settings. */
static struct export_profiles *open_profiles(struct exporter **x, const struct otlp_settings *settings,
                                             uint32_t n, struct io_loop *loop, struct stats *stats)
{
    for (uint32_t i = 0; i < n; i++)
        x[i] = open_one(&exporter_otlp, &settings[i], CONFIG_TAKES_PROFILES, loop, stats);
    return unit_made(export_profiles_new(x, n));
}

static void expect_refused(const struct exporter_kind *kind, const void *settings, const char *name,
                           int wanted, const char *text)
{
    struct io_loop *loop = unit_made(io_loop_new());
    struct error e = {""};
    struct exporter *x = NULL;
    struct export_context c = {.name = name, .signal = CONFIG_TAKES_METRICS, .loop = loop};
    ck_assert_int_eq(exporter_open(&x, &kind->config, settings, &c, &e), wanted);
    ck_assert_msg(strstr(e.text, text) != NULL, "%s", e.text);
    ck_assert_ptr_null(x);
    io_loop_free(loop);
}

UNIT(settings_are_refused_by_name)
{
    struct file_settings file = {.path = "/does/not/exist/x"};
    struct otlp_settings otlp = otlp_to("ftp://x");
    struct file_settings folder = {.path = "/"};
    char place[UNIT_PATH_MAX], fifo[UNIT_PATH_MAX + 16];
    expect_refused(&exporter_file, &file, "file/x", -ENOENT, "file/x: /does/not/exist/x");
    expect_refused(&exporter_file, &folder, "file/x", -EISDIR, "file/x: /: Is a directory");
    unit_new_folder(place);
    snprintf(fifo, sizeof fifo, "%s/fifo", place);
    ck_assert_int_eq(mkfifo(fifo, 0600), 0);
    file.path = fifo;
    expect_refused(&exporter_file, &file, "file/x", -ENXIO, "a FIFO that nobody reads");
    expect_refused(&exporter_otlp, &otlp, "otlp/bad", -EINVAL, "otlp/bad: ");
    otlp = otlp_to("x:1");
    otlp.encoding = OTLP_JSON;
    expect_refused(&exporter_otlp, &otlp, "otlp/json", -EINVAL,
                   "otlp/json: encoding json needs protocol http: gRPC carries protobuf");
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
    struct metric_batch *b = batch_of(1000);
    fake_start(&server, loop, 0);
    struct otlp_settings settings = otlp_to(server.address);
    settings.protocol = OTLP_HTTP;
    settings.compression = CLIENT_COMPRESS_NONE;
    settings.sending.request_bytes = 2000;
    struct exporter *x = open_metrics(&exporter_otlp, &settings, loop, stats);
    exporter_push_metrics(x, b);
    metric_batch_free(b); /* it keeps nothing of it */
    UNTIL(loop, points_seen == 1000);
    UNTIL(loop, stats->value[STATS_EXPORT_METRICS_SENT] == server.requests);
    ck_assert_uint_gt(server.requests, 5);
    ck_assert_uint_eq(stats->value[STATS_EXPORT_QUEUE_BYTES], 0);
    drain_until(x, loop, clock_monotonic() + NSEC_PER_SEC);
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
    fake_start(&good, loop, 0);
    fake_start(&bad, loop, 0);
    struct otlp_settings settings[2] = {otlp_to(good.address), otlp_to(bad.address)};
    settings[1].sending.queue_bytes = 1000;
    struct exporter *to[2];
    struct export_profiles *x = open_profiles(to, settings, 2, loop, stats);

    /* All or nothing: the second queue is the smaller one. */
    ck_assert(reserve(x, 600));
    ck_assert(!reserve(x, 600));
    export_profiles_cancel(x, 600, 1, export_profiles_all(x));
    ck_assert(reserve(x, 1000));
    export_profiles_push(x, plain((uint8_t *)strdup("hello"), 5), 1000, 7, export_profiles_all(x), NULL);
    ck_assert(reserve(x, 900)); /* what was not used is free again */
    export_profiles_cancel(x, 900, 1, export_profiles_all(x));
    UNTIL(loop,
          stats->value[STATS_EXPORT_PROFILES_SENT] == 1 && stats->value[STATS_EXPORT_PROFILES_FAILED] == 1);
    ck_assert_uint_eq(stats->value[STATS_FORWARD_DROPPED], 7);
    ck_assert_uint_eq(stats->value[STATS_EXPORT_QUEUE_BYTES], 0);
    ck_assert(reserve(x, 1000));
    export_profiles_cancel(x, 1000, 1, export_profiles_all(x));
    close_profiles(x, to, 2, loop, clock_monotonic() + NSEC_PER_SEC);
    fake_stop(&good);
    fake_stop(&bad);
    io_loop_free(loop);
}

UNIT(the_queue_can_be_seen)
{
    struct io_loop *loop = unit_made(io_loop_new());
    struct stats *stats = unit_made(stats_new());
    struct fake_server silent = {.answer = fake_hold};
    fake_start(&silent, loop, 0);
    struct otlp_settings settings = otlp_to(silent.address);
    struct exporter *to;
    struct export_profiles *x = open_profiles(&to, &settings, 1, loop, stats);
    for (int i = 0; i < 10; i++) {
        ck_assert(reserve(x, 100));
        export_profiles_push(x, plain((uint8_t *)strdup("hello"), 5), 100, 2, export_profiles_all(x), NULL);
    }
    UNTIL(loop, stats->value[STATS_EXPORT_QUEUE_BYTES] == 50 && silent.n_held == 4);
    close_profiles(x, &to, 1, loop, clock_monotonic() + 20 * NSEC_PER_MSEC);
    ck_assert_uint_eq(stats->value[STATS_FORWARD_DROPPED], 20);
    ck_assert_uint_eq(stats->value[STATS_EXPORT_PROFILES_FAILED], 10);
    ck_assert_uint_eq(stats->value[STATS_EXPORT_QUEUE_BYTES], 0);
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

/* Sends a batch, waits until it is acknowledged, and compares what was said. `sending` is part of the
 * settings. */
static void expect_said(const struct exporter_kind *kind, const void *settings,
                        struct sending_settings *sending, const char *path, uint32_t n_points,
                        const char *wanted)
{
    struct io_loop *loop = unit_made(io_loop_new());
    struct stats *stats = unit_made(stats_new());
    struct fake_server server = {.answer = listen_to};
    struct settings_pair own = {"X-Own", "mine"};
    struct metric_batch *b = batch_of(n_points);
    char endpoint[128];
    fake_start(&server, loop, 0);
    snprintf(endpoint, sizeof endpoint, "http://%s%s", server.address, path);
    b->resources[0].metrics[0].temporality = METRIC_CUMULATIVE;
    sending->endpoint = endpoint;
    sending->headers = (struct settings_pairs){&own, 1};
    struct exporter *x = open_metrics(kind, settings, loop, stats);
    exporter_push_metrics(x, b);
    UNTIL(loop, stats->value[STATS_EXPORT_METRICS_SENT] == 1);
    ck_assert_str_eq((char *)said.p, wanted);
    drain_until(x, loop, clock_monotonic() + NSEC_PER_SEC);
    dropped = stats->value[STATS_EXPORT_POINTS_DROPPED];
    metric_batch_free(b);
    fake_stop(&server);
    io_loop_free(loop);
}

UNIT(metrics_in_json)
{
    struct otlp_settings s = otlp_to("");
    s.protocol = OTLP_HTTP;
    s.encoding = OTLP_JSON;
    expect_said(&exporter_otlp, &s, &s.sending, "", 1,
                "/v1/metrics\ncontent-type: application/json\ncontent-encoding: gzip\nx-own: mine\n");
    s.compression = CLIENT_COMPRESS_NONE;
    expect_said(&exporter_otlp, &s, &s.sending, "/base", 1,
                "/base/v1/metrics\ncontent-type: application/json\nx-own: mine\n");
    ck_assert(bytes_starts(buffer_bytes(&body_seen), "{\"resourceMetrics\":[{"));
    buffer_release(&said);
    buffer_release(&body_seen);
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
    struct metric_batch *b = batch_of(1);
    char endpoint[128];
    fake_start(&server, loop, 0);
    snprintf(endpoint, sizeof endpoint, "http://%s/write", server.address);
    b->resources[0].metrics[0].temporality = METRIC_CUMULATIVE;
    struct remote_write_settings s = remote_write_to(endpoint, 1);
    s.sending.retry_initial_ns = s.sending.retry_max_ns = NSEC_PER_MSEC;
    struct exporter *x = open_metrics(&exporter_remote_write, &s, loop, stats);
    exporter_push_metrics(x, b);
    UNTIL(loop, stats->value[STATS_EXPORT_METRICS_SENT] == 1);
    ck_assert_uint_eq(server.requests, 3);
    ck_assert_uint_eq(stats->value[STATS_EXPORT_METRICS_RETRIED], 2);
    ck_assert_uint_eq(stats->value[STATS_EXPORT_POINTS_DROPPED], 0);
    drain_until(x, loop, clock_monotonic() + NSEC_PER_SEC);
    metric_batch_free(b);
    fake_stop(&server);
    io_loop_free(loop);
}

UNIT(metrics_by_remote_write)
{
    struct remote_write_settings s = remote_write_to("", 1);
    expect_said(&exporter_remote_write, &s, &s.sending, "/api/v1/write?tenant=a", 1,
                "/api/v1/write\ncontent-type: application/x-protobuf\ncontent-encoding: snappy\n"
                "x-prometheus-remote-write-version: 0.1.0\nx-own: mine\n");
    s.protobuf_message = 2;
    expect_said(&exporter_remote_write, &s, &s.sending, "", 1,
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
        expect_said(&exporter_remote_write, &s, &s.sending, "", 1, before);
        free(before);
        ck_assert_uint_eq(dropped, rows[i].dropped);
    }
    written = NULL;
    buffer_release(&said);
    buffer_release(&body_seen);
}

/* What cannot be made for want of memory is lost; what was on its way before that is not. One series a
 * request, and the last one's label is long. */
UNIT(remote_write_loses_only_what_was_not_sent)
{
    enum { N = 10, LONG = 64 << 10 };
    struct http_header samples = {BYTES_LIT("x-prometheus-remote-write-samples-written"), BYTES_LIT("1")};
    autofree char *text = unit_made(calloc(1, LONG));
    memset(text, 'x', LONG);
    written = &samples;
    unsigned in_part = 0;
    for (size_t limit = LONG; limit < 6 * LONG; limit += LONG / 4) {
        struct io_loop *loop = unit_made(io_loop_new());
        struct stats *stats = unit_made(stats_new());
        struct fake_server server = {.answer = listen_to};
        struct metric_batch *b = batch_of(N);
        struct budget budget = BUDGET_INIT(limit, NULL);
        struct attr attrs[N];
        fake_start(&server, loop, 0);
        char endpoint[128];
        snprintf(endpoint, sizeof endpoint, "http://%s/w", server.address);
        struct remote_write_settings s = remote_write_to(endpoint, 2);
        s.sending.request_bytes = 4000;
        struct metric *m = &b->resources[0].metrics[0];
        m->temporality = METRIC_CUMULATIVE;
        for (uint32_t i = 0; i < N; i++) {
            attrs[i] = (struct attr){
                BYTES_LIT("l"), {.kind = ATTR_STRING, .text = bytes_of(text, i == N - 1 ? LONG : 3000 + i)}};
            m->points[i].attrs = &attrs[i];
            m->points[i].n_attrs = 1;
        }
        b->arena.budget = &budget;
        struct exporter *x = open_metrics(&exporter_remote_write, &s, loop, stats);
        exporter_push_metrics(x, b);
        b->arena.budget = NULL;
        drain_until(x, loop, clock_monotonic() + unit_patience(NSEC_PER_SEC));
        uint64_t lost = stats->value[STATS_EXPORT_POINTS_DROPPED];
        in_part += lost > 0 && lost < N;
        ck_assert_uint_le(lost, N);
        ck_assert_uint_eq(server.requests, N - lost);
        ck_assert_uint_eq(stats->value[STATS_EXPORT_METRICS_SENT], N - lost);
        metric_batch_free(b);
        fake_stop(&server);
        io_loop_free(loop);
    }
    written = NULL;
    ck_assert_uint_gt(in_part, 0);
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
    struct metric_batch *b = batch_of(3);
    fake_start(&server, loop, 0);
    struct otlp_settings settings = otlp_to(server.address);
    settings.protocol = OTLP_HTTP;
    struct exporter *x = open_metrics(&exporter_otlp, &settings, loop, stats);
    exporter_push_metrics(x, b);
    UNTIL(loop, stats->value[STATS_EXPORT_METRICS_SENT] == 1);
    ck_assert_uint_eq(stats->value[STATS_EXPORT_POINTS_DROPPED], 3);
    drain_until(x, loop, clock_monotonic() + NSEC_PER_SEC);
    metric_batch_free(b);
    fake_stop(&server);
    io_loop_free(loop);
}

/* The same of profiles, of which a server says profiles: samples were sent, and are not lost by that number.
 */
UNIT(profiles_that_are_rejected_are_counted)
{
    struct io_loop *loop = unit_made(io_loop_new());
    struct stats *stats = unit_made(stats_new());
    struct fake_server server = {.answer = reject_without_end};
    fake_start(&server, loop, 0);
    struct otlp_settings settings = otlp_to(server.address);
    settings.protocol = OTLP_HTTP;
    struct exporter *to;
    struct export_profiles *x = open_profiles(&to, &settings, 1, loop, stats);
    ck_assert(reserve(x, 100));
    export_profiles_push(x, plain((uint8_t *)strdup("hello"), 5), 100, 2, export_profiles_all(x), NULL);
    UNTIL(loop, stats->value[STATS_EXPORT_PROFILES_SENT] == 1);
    ck_assert_uint_eq(stats->value[STATS_EXPORT_PROFILES_REJECTED], 2);
    ck_assert_uint_eq(stats->value[STATS_FORWARD_DROPPED], 0);
    close_profiles(x, &to, 1, loop, clock_monotonic() + NSEC_PER_SEC);
    fake_stop(&server);
    io_loop_free(loop);
}

/* Whose queue is full of what limits.memory has: refused, in all exporters or none, and given back. */
UNIT(queues_are_charged_to_the_budget)
{
    struct io_loop *loop = unit_made(io_loop_new());
    struct budget memory = BUDGET_INIT(1000, NULL);
    struct exporter *to[2];
    for (size_t i = 0; i < 2; i++) {
        struct otlp_settings s = otlp_to("127.0.0.1:1");
        s.sending.request_bytes = 300 + 100 * i;
        s.sending.queue_size = 20 - (uint32_t)i;
        struct export_context c = {
            .name = "otlp", .signal = CONFIG_TAKES_PROFILES, .loop = loop, .budget = &memory};
        ck_assert_int_eq(exporter_open(&to[i], &exporter_otlp.config, &s, &c, NULL), 0);
    }
    struct export_profiles *x = unit_made(export_profiles_new(to, 2));
    struct export_terms terms = export_profiles_terms(x);
    ck_assert_uint_eq(terms.request_max, 300); /* the smallest of each */
    ck_assert_uint_eq(terms.queue_size, 19);
    ck_assert(!terms.no_references);
    ck_assert(reserve(x, 300));
    ck_assert_uint_eq(memory.used, 600);
    ck_assert(!reserve(x, 300)); /* the second one's queue would not fit */
    ck_assert_uint_eq(memory.used, 600);
    export_profiles_push(x, plain(calloc(1, 100), 100), 300, 1, export_profiles_all(x), NULL);
    ck_assert_uint_eq(memory.used, 200);
    close_profiles(x, to, 2, loop, clock_monotonic());
    ck_assert_uint_eq(memory.used, 0);
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

/* What a destination is to get: the coding it is said to be in, and the bytes. */
struct expected {
    const char *coding;
    struct bytes body;
};

static void expect_form(struct fake_server *s, struct http_exchange *x, struct bytes body)
{
    const struct expected *e = s->user;
    ck_assert(bytes_is(http_header_find(x->headers, x->n_headers, "content-encoding"), e->coding));
    ck_assert(bytes_eq(body, e->body));
    fake_answer_ok(s, x, body);
}

/* Each has the form it sends: who puts a request into the coding it came in anyway gets that, nobody else. */
UNIT(each_destination_gets_its_form)
{
    static const struct {
        enum client_compression compression;
        const char *coding;
    } cases[] = {
        {CLIENT_COMPRESS_NONE, ""}, {CLIENT_COMPRESS_AS_RECEIVED, "zstd"}, {CLIENT_COMPRESS_ZSTD, "zstd"}};
    struct io_loop *loop = unit_made(io_loop_new());
    struct stats *stats = unit_made(stats_new());
    struct fake_server server[ARRAY_LEN(cases)];
    struct expected expected[ARRAY_LEN(cases)];
    struct otlp_settings settings[ARRAY_LEN(cases)];
    struct exporter *to[ARRAY_LEN(cases)];
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const bool plain = cases[i].compression == CLIENT_COMPRESS_NONE;
        expected[i] = (struct expected){cases[i].coding, plain ? BYTES_LIT("hello") : BYTES_LIT("coded")};
        server[i] = (struct fake_server){.answer = expect_form, .user = &expected[i]};
        fake_start(&server[i], loop, 0);
        settings[i] = otlp_to(server[i].address);
        settings[i].protocol = OTLP_HTTP;
        settings[i].compression = cases[i].compression;
    }
    struct export_profiles *x = open_profiles(to, settings, ARRAY_LEN(cases), loop, stats);
    ck_assert_uint_eq(export_profiles_forms(x, CODING_ZSTD), EXPORT_PLAIN | EXPORT_CODED);
    ck_assert_uint_eq(export_profiles_forms(x, CODING_GZIP), EXPORT_PLAIN | EXPORT_CODED);
    ck_assert_uint_eq(export_profiles_forms(x, CODING_SNAPPY), EXPORT_PLAIN);
    ck_assert_uint_eq(export_profiles_forms(x, CODING_IDENTITY), EXPORT_PLAIN);
    struct export_forms forms = {
        .plain = client_body_received((uint8_t *)strdup("hello"), 5, CODING_IDENTITY, 5, CODING_ZSTD),
        .coded = client_body_received((uint8_t *)strdup("coded"), 5, CODING_ZSTD, 5, CODING_ZSTD),
    };
    ck_assert(reserve(x, 5));
    export_profiles_push(x, forms, 5, 1, export_profiles_all(x), NULL);
    UNTIL(loop, stats->value[STATS_EXPORT_PROFILES_SENT] == ARRAY_LEN(cases));
    close_profiles(x, to, ARRAY_LEN(cases), loop, clock_monotonic() + NSEC_PER_SEC);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        fake_stop(&server[i]);
    io_loop_free(loop);
}

UNIT(each_destination_gets_its_layout)
{
    struct io_loop *loop = unit_made(io_loop_new());
    struct stats *stats = unit_made(stats_new());
    struct bytes wanted[2] = {BYTES_LIT(SAMPLE_1_10), BYTES_LIT(SAMPLE_1_9)};
    for (int both = 0; both < 2; both++) { /* 1.9 beside 1.10, and alone */
        struct fake_server server[2] = {{.answer = expect_body, .user = &wanted[0]},
                                        {.answer = expect_body, .user = &wanted[1]}};
        struct otlp_settings settings[2];
        struct exporter *to[2];
        char endpoint[2][128];
        for (int i = 0; i < 2; i++) {
            fake_start(&server[i], loop, 0);
            snprintf(endpoint[i], sizeof endpoint[i], "http://%.100s", server[i].address);
            settings[i] = otlp_to(endpoint[i]);
            settings[i].protocol = OTLP_HTTP;
            settings[i].compression = CLIENT_COMPRESS_NONE;
            settings[i].wire_version = i == 1 ? OTLP_LAYOUT_1_9 : OTLP_LAYOUT_1_10;
        }
        uint64_t sent = stats->value[STATS_EXPORT_PROFILES_SENT];
        uint32_t n = both ? 2 : 1;
        struct export_profiles *x = open_profiles(to, settings + !both, n, loop, stats);
        ck_assert(export_profiles_terms(x).no_references);
        ck_assert(reserve(x, 100));
        uint8_t *body = malloc(sizeof SAMPLE_1_10 - 1);
        memcpy(body, SAMPLE_1_10, sizeof SAMPLE_1_10 - 1);
        export_profiles_push(x, plain(body, sizeof SAMPLE_1_10 - 1), 100, 1, export_profiles_all(x), NULL);
        UNTIL(loop, stats->value[STATS_EXPORT_PROFILES_SENT] == sent + 1 + (uint64_t)both);
        close_profiles(x, to, n, loop, clock_monotonic() + NSEC_PER_SEC);
        for (int i = 0; i < 2; i++)
            fake_stop(&server[i]);
    }
    io_loop_free(loop);
}
