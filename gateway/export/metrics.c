/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/export/metrics.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "gateway/export/destination.h"
#include "gateway/export/file/file.h"
#include "gateway/export/outcome.h"
#include "gateway/export/remote_write/remote_write.h"
#include "proto/base/log.h"
#include "proto/base/macros.h"
#include "proto/base/quantity.h"
#include "proto/coding/coding.h"
#include "proto/io/loop.h"

/* A request of metrics before compression: what gRPC servers take by default (4 MiB) with room for the
 * envelope, though OTLP now recommends 64 MiB. A batch above it is split. */
#define METRICS_REQUEST_MAX ((4u << 20) - (64u << 10))

struct export_metrics {
    enum destination_kind kind;
    struct outcome outcome;
    struct line_file file;
    enum destination_encoding encoding;
    enum remote_write_version remote_write;
    bool said_deaf; /* that a receiver does not understand 2.0 */
    struct prometheus_options prometheus;
    size_t request_max;
    struct io_loop *loop;
    void (*done)(void *user); /* of a file, which has nothing to wait for */
    void *done_user;
};

static void lost(struct export_metrics *x, uint64_t points, const char *why)
{
    stats_add(x->outcome.stats, STATS_EXPORT_METRICS_FAILED, 1);
    stats_add(x->outcome.stats, STATS_EXPORT_POINTS_DROPPED, points);
    log_limited(LOG_LEVEL_ERROR, "destination %s: lost %" PRIu64 " points: %s", x->outcome.name, points, why);
}

static void push_line(struct export_metrics *x, const struct metric_batch *batch)
{
    struct buffer line = BUFFER_INIT(0);
    struct error e = {""};
    int r = metrics_encode_json(batch, &line);
    if (r == 0)
        r = line_file_append(&x->file, buffer_bytes(&line), &e);
    if (r == 0)
        stats_add(x->outcome.stats, STATS_EXPORT_METRICS_SENT, 1);
    else
        lost(x, metric_batch_points(batch), e.text[0] ? e.text : "out of memory");
    buffer_release(&line);
}

/* Points before a place of metrics_encode_proto. */
static uint64_t points_before(const struct metric_batch *b, uint32_t resource, uint32_t place)
{
    uint64_t n = place;
    for (uint32_t r = 0; r < resource; r++)
        for (uint32_t m = 0; m < b->resources[r].n_metrics; m++)
            n += b->resources[r].metrics[m].n_points;
    return n;
}

/* Queues a body that holds some points; takes it over. */
static void push_body(struct export_metrics *x, struct buffer *out, uint64_t points)
{
    size_t n;
    uint8_t *p = buffer_take(out, &n);
    struct client_body *body = client_body_new(p, n);
    if (body)
        otlp_exporter_push_newest(x->outcome.exporter, body, points);
    else
        lost(x, points, "out of memory");
    client_body_unref(body);
}

static void push_requests(struct export_metrics *x, const struct metric_batch *batch)
{
    uint32_t from = 0, place = 0;
    uint64_t before = 0, total = metric_batch_points(batch);
    while (from < batch->n_resources && before < total) {
        struct buffer out = BUFFER_INIT(0);
        int r = x->encoding == DESTINATION_JSON
                    ? metrics_encode_json_part(batch, x->request_max, &from, &place, &out)
                    : metrics_encode_proto(batch, x->request_max, &from, &place, &out);
        if (r < 0) {
            buffer_release(&out);
            lost(x, total - before, "out of memory");
            return;
        }
        uint64_t after = points_before(batch, from, place);
        push_body(x, &out, after - before);
        before = after;
    }
}

/* *ret_sent: what is on its way, also where the rest finds no memory. */
static int push_series(struct export_metrics *x, struct remote_write *w, struct buffer *plain,
                       uint64_t *ret_sent)
{
    uint32_t n;
    *ret_sent = 0;
    do {
        struct buffer packed = BUFFER_INIT(0);
        plain->n = 0;
        int r = remote_write_next(w, x->request_max, plain, &n);
        if (r == 0 && n > 0)
            r = coding_encode_snappy_block(buffer_bytes(plain), &packed);
        if (r < 0) {
            buffer_release(&packed);
            return r;
        }
        if (n > 0)
            push_body(x, &packed, n);
        *ret_sent += n;
    } while (n > 0);
    return 0;
}

static void push_remote_write(struct export_metrics *x, const struct metric_batch *batch)
{
    struct remote_write *w;
    struct buffer plain = BUFFER_INIT(0);
    uint64_t total = metric_batch_points(batch), sent = 0;
    int r = remote_write_new(&w, batch, x->remote_write, &x->prometheus);
    if (r == 0) {
        r = push_series(x, w, &plain, &sent);
        remote_write_free(w);
    }
    if (r < 0) /* points that were added up are one series, and target_info is none: about so many are left */
        lost(x, total - min_of(total, sent),
             r == -EINVAL ? "remote write has no delta sums" : "out of memory");
    buffer_release(&plain);
}

void export_metrics_push(struct export_metrics *x, const struct metric_batch *batch)
{
    if (metric_batch_points(batch) ==
        0) /* no empty envelopes (OTLP specification, "Empty Telemetry Envelopes") */
        return;
    switch (x->kind) {
    case DESTINATION_FILE: push_line(x, batch); break;
    case DESTINATION_OTLP: push_requests(x, batch); break;
    case DESTINATION_REMOTE_WRITE: push_remote_write(x, batch); break;
    }
}

static int new_exporter(struct export_metrics *x, struct io_loop *loop,
                        const struct otlp_exporter_options *options, struct error *e)
{
    int r = otlp_exporter_new(&x->outcome.exporter, loop, options, outcome_event, &x->outcome, e);
    if (r == 0)
        otlp_exporter_on_queued(x->outcome.exporter, outcome_queued, &x->outcome);
    return r;
}

static int new_otlp(struct export_metrics *x, struct io_loop *loop, const struct destination_options *options,
                    struct error *e)
{
    struct otlp_exporter_options otlp = options->otlp;
    otlp.signal = OTLP_METRICS;
    x->encoding = options->encoding;
    if (x->encoding == DESTINATION_JSON)
        otlp.dialect.content_type = "application/json";
    if (x->encoding == DESTINATION_JSON && otlp.protocol != OTLP_HTTP)
        return error_set(e, -EINVAL, "encoding json needs protocol http: gRPC carries protobuf");
    return new_exporter(x, loop, &otlp, e);
}

/* How much was written, of samples, histograms or exemplars. False: the receiver does not say. */
static bool written(const struct otlp_answer *answer, const char *what, uint64_t *ret)
{
    char name[64];
    snprintf(name, sizeof name, "x-prometheus-remote-write-%s-written", what);
    struct bytes v = http_header_find(answer->headers, answer->n_headers, name);
    return v.n > 0 && quantity_u64(bytes_trim(v), ret) == 0;
}

/* What a receiver of 2.0 says of what it wrote ("Required Written Response Headers"): one that takes a
 * request and says nothing of it knows 1.0 only, and found nothing in it that it knows. */
static void on_remote_write_answer(void *user, const struct otlp_answer *answer)
{
    struct outcome *o = user;
    struct export_metrics *x = o->context;
    uint64_t samples = 0, others;
    if (answer->status < 200 || answer->status > 299)
        return; /* lost or repeated as a whole: its event says so */
    bool told = written(answer, "samples", &samples);
    if (!told && !written(answer, "histograms", &others) && !written(answer, "exemplars", &others)) {
        stats_add(o->stats, STATS_EXPORT_POINTS_DROPPED, answer->items);
        if (!x->said_deaf)
            log_error(
                "destination %s takes remote write 2.0 and does not say what it wrote: it knows 1.0 only, "
                "so these points are lost; set protobuf_message to 1",
                o->name);
        x->said_deaf = true;
    } else if (samples < answer->items) {
        stats_add(o->stats, STATS_EXPORT_POINTS_DROPPED, answer->items - samples);
        log_limited(LOG_LEVEL_WARN,
                    "destination %s wrote %" PRIu64 " of %" PRIu64 " samples that it acknowledged", o->name,
                    samples, answer->items);
    }
}

/* Cuts an URL into where it goes and the path with its query, "/" if there is none. Without a port it is
 * HTTP's own, not OTLP's. -ENOMEM. */
static int cut_url(const char *url, struct buffer *base, const char **ret_path)
{
    const char *scheme = strstr(url, "://"), *host = scheme ? scheme + 3 : url;
    const char *path = strchr(host, '/'), *end = path ? path : host + strlen(host);
    const char *bracket = memchr(host, ']', (size_t)(end - host)), *name = bracket ? bracket : host;
    bool has_port = memchr(name, ':', (size_t)(end - name)) != NULL;
    bool tls = scheme && (size_t)(scheme - url) == 5 && strncmp(url, "https", 5) == 0;
    int r = buffer_add(base, url, (size_t)(end - url));
    if (r == 0 && !has_port)
        r = buffer_add_str(base, tls ? ":443" : ":80");
    *ret_path = path ? path : "/";
    return r < 0 ? r : buffer_add(base, "", 1);
}

static int new_remote_write(struct export_metrics *x, struct io_loop *loop,
                            const struct destination_options *options, struct error *e)
{
    bool second = options->protobuf_message == REMOTE_WRITE_2;
    if (!second && options->protobuf_message != REMOTE_WRITE_1)
        return error_set(e, -EINVAL, "protobuf_message is 1 or 2");
    struct otlp_exporter_options otlp = options->otlp;
    struct buffer base = BUFFER_INIT(0);
    struct otlp_header *headers = calloc(otlp.n_headers + 1, sizeof *headers);
    if (!headers || cut_url(otlp.endpoint, &base, &otlp.path) < 0) {
        free(headers);
        return error_set(e, -ENOMEM, "out of memory");
    }
    otlp.endpoint = (const char *)base.p;
    for (uint32_t i = 0; i < otlp.n_headers; i++)
        headers[i] = otlp.headers[i];
    headers[otlp.n_headers++] = (struct otlp_header){
        "x-prometheus-remote-write-version", second ? REMOTE_WRITE_2_VERSION : REMOTE_WRITE_1_VERSION};
    otlp.headers = headers;
    otlp.signal = OTLP_METRICS;
    otlp.protocol = OTLP_HTTP;
    otlp.compression = OTLP_COMPRESS_NONE;
    otlp.queue.num_consumers = 1;
    otlp.dialect = (struct otlp_dialect){
        .content_type = second ? REMOTE_WRITE_2_TYPE : REMOTE_WRITE_1_TYPE,
        .content_encoding = "snappy",
        /* Remote-Write 1.0 and 2.0, "Retries & Backoff": 2xx is a success whatever else it says, 5xx must be
         * retried. */
        .any_success = true,
        .retry_5xx = true,
        .on_answer = second ? on_remote_write_answer : NULL,
    };
    x->remote_write = second ? REMOTE_WRITE_2 : REMOTE_WRITE_1;
    x->prometheus = options->prometheus;
    int r = new_exporter(x, loop, &otlp, e);
    free(headers);
    buffer_release(&base);
    return r;
}

int export_metrics_new(struct export_metrics **ret, struct io_loop *loop,
                       const struct destination_options *options, struct stats *stats, struct error *e)
{
    struct export_metrics *x = calloc(1, sizeof *x);
    if (!x)
        return error_set(e, -ENOMEM, "out of memory");
    x->kind = options->kind;
    x->loop = loop;
    x->file.fd = -1;
    x->request_max = min_of(options->otlp.max_request_bytes, (size_t)METRICS_REQUEST_MAX);
    x->outcome =
        (struct outcome){.name = strdup(options->name), .signal = OTLP_METRICS, .stats = stats, .context = x};
    int r = x->outcome.name ? 0 : error_set(e, -ENOMEM, "out of memory");
    if (r == 0) {
        switch (options->kind) {
        case DESTINATION_FILE: r = line_file_open(&x->file, options->path, e); break;
        case DESTINATION_OTLP: r = new_otlp(x, loop, options, e); break;
        case DESTINATION_REMOTE_WRITE: r = new_remote_write(x, loop, options, e); break;
        }
    }
    if (r < 0) {
        export_metrics_free(x);
        return error_prefix(e, r, "%s: ", options->name);
    }
    *ret = x;
    return 0;
}

static void on_idle_closed(uv_handle_t *handle)
{
    struct export_metrics *x = handle->data;
    free(handle);
    x->done(x->done_user);
}

/* A file is done at once, but `done` comes from the loop as everywhere: closing a handle is what the loop
 * reports. */
static void shutdown_file(struct export_metrics *x)
{
    uv_timer_t *handle = malloc(sizeof *handle);
    if (!handle) {
        x->done(x->done_user);
        return;
    }
    uv_timer_init(io_loop_uv(x->loop), handle);
    handle->data = x;
    uv_close((uv_handle_t *)handle, on_idle_closed);
}

void export_metrics_shutdown(struct export_metrics *x, uint64_t deadline_ns, void (*done)(void *user),
                             void *user)
{
    x->done = done;
    x->done_user = user;
    if (x->kind == DESTINATION_FILE)
        shutdown_file(x);
    else
        otlp_exporter_shutdown(x->outcome.exporter, deadline_ns, done, user);
}

struct export_metrics *export_metrics_free(struct export_metrics *x)
{
    if (!x)
        return NULL;
    otlp_exporter_free(x->outcome.exporter);
    line_file_close(&x->file);
    free(x->outcome.name);
    free(x);
    return NULL;
}
