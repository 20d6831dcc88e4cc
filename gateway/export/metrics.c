#include "gateway/export/metrics.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <uv.h>

#include "gateway/export/destination.h"
#include "gateway/export/file.h"
#include "gateway/export/outcome.h"
#include "proto/base/log.h"
#include "proto/base/macros.h"
#include "proto/io/loop.h"

/* A request of metrics before compression: what gRPC servers take by default (4 MiB) with room for the
 * envelope, though OTLP now recommends 64 MiB. A batch above it is split. */
#define METRICS_REQUEST_MAX ((4u << 20) - (64u << 10))

struct export_metrics {
    enum destination_kind kind;
    struct outcome outcome;
    struct line_file file;
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

static void push_requests(struct export_metrics *x, const struct metric_batch *batch)
{
    uint32_t from = 0, place = 0;
    uint64_t before = 0, total = metric_batch_points(batch);
    while (from < batch->n_resources && before < total) {
        struct buffer out = BUFFER_INIT(0);
        if (metrics_encode_proto(batch, x->request_max, &from, &place, &out) < 0) {
            buffer_release(&out);
            lost(x, total - before, "out of memory");
            return;
        }
        uint64_t after = points_before(batch, from, place);
        size_t n;
        uint8_t *p = buffer_take(&out, &n);
        struct client_body *body = client_body_new(p, n);
        if (body)
            otlp_exporter_push_newest(x->outcome.exporter, body, after - before);
        else
            lost(x, after - before, "out of memory");
        client_body_unref(body);
        before = after;
    }
}

void export_metrics_push(struct export_metrics *x, const struct metric_batch *batch)
{
    if (metric_batch_points(batch) ==
        0) /* no empty envelopes (OTLP specification, "Empty Telemetry Envelopes") */
        return;
    if (x->kind == DESTINATION_FILE)
        push_line(x, batch);
    else
        push_requests(x, batch);
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
    x->outcome = (struct outcome){.name = strdup(options->name), .signal = OTLP_METRICS, .stats = stats};
    int r = x->outcome.name ? 0 : error_set(e, -ENOMEM, "out of memory");
    if (r == 0 && options->kind == DESTINATION_FILE) {
        r = line_file_open(&x->file, options->path, e);
    } else if (r == 0) {
        struct otlp_exporter_options otlp = options->otlp;
        otlp.signal = OTLP_METRICS;
        r = otlp_exporter_new(&x->outcome.exporter, loop, &otlp, outcome_event, &x->outcome, e);
    }
    if (r == 0 && x->outcome.exporter)
        otlp_exporter_on_queued(x->outcome.exporter, outcome_queued, &x->outcome);
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
