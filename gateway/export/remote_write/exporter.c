/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/export/remote_write/exporter.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/export/remote_write/remote_write.h"
#include "gateway/stats/stats.h"
#include "proto/base/log.h"
#include "proto/base/macros.h"
#include "proto/base/quantity.h"
#include "proto/coding/coding.h"

#define AT(field)   offsetof(struct remote_write_settings, field)
#define SENT(field) AT(sending.field)

/* clang-format off */
static const struct settings_row rows[] = {
    {"endpoint", SETTINGS_TEXT, SENT(endpoint), "", 0, 0, NULL,
     "http://host:port/path or https://host:port/path, the whole of it"},
    {"protobuf_message", SETTINGS_COUNT, AT(protobuf_message), "1", 1, 2, NULL,
     "1 is prometheus.WriteRequest, 2 io.prometheus.write.v2.Request; 2 only where the receiver knows it"},
    {"resource_attributes", SETTINGS_STRINGS, AT(resource_attributes), "", 0, 0, NULL,
     "resource attributes that become labels; default is metrics.prometheus_attributes"},
    SENDING_ROWS(SENT),
    {"max_request_bytes", SETTINGS_SIZE, SENT(request_bytes), "3000000", 1024, 1024 * SENDING_MIB, NULL,
     "series are split into requests below this, before compression"},
};
/* clang-format on */

struct receiver {
    struct sending sending;
    enum remote_write_version version;
    bool said_deaf;        /* that it does not understand 2.0 */
    struct log_limit told; /* that it wrote less */
    struct prometheus_options prometheus;
};

static int check(const char *name, const void *settings, struct error *e)
{
    return sending_check(name, &((const struct remote_write_settings *)settings)->sending, e);
}

static void stream(const void *settings, struct export_stream *ret)
{
    const struct remote_write_settings *s = settings;
    *ret = (struct export_stream){
        .temporality = EXPORT_CUMULATIVE, .attributes = s->resource_attributes, .labels = true};
}

/* ---- metrics ---- */

/* *ret_sent: what is on its way, also where the rest finds no memory. */
static int push_series(struct receiver *to, struct remote_write *w, struct buffer *plain, uint64_t *ret_sent)
{
    uint32_t n;
    *ret_sent = 0;
    do {
        struct buffer packed = BUFFER_INIT(0);
        plain->n = 0;
        int r = remote_write_next(w, to->sending.request_max, plain, &n);
        if (r == 0 && n > 0)
            r = coding_encode_snappy_block(buffer_bytes(plain), &packed);
        if (r < 0) {
            buffer_release(&packed);
            return r;
        }
        if (n > 0)
            sending_push_newest(&to->sending, &packed, n);
        *ret_sent += n;
    } while (n > 0);
    return 0;
}

static void push_metrics(struct exporter *x, const struct metric_batch *batch)
{
    struct receiver *to = container_of(x, struct receiver, sending.base);
    struct remote_write *w;
    struct buffer plain = BUFFER_INIT(0);
    uint64_t total = metric_batch_points(batch), sent = 0;
    int r =
        remote_write_new(&w, batch, to->version, &to->prometheus); /* cumulative: as the stream wants it */
    if (r == 0) {
        r = push_series(to, w, &plain, &sent);
        remote_write_free(w);
    }
    if (r < 0) /* points that were added up are one series, and target_info is none: about so many are left */
        sending_lost(&to->sending, total - min_of(total, sent));
    buffer_release(&plain);
    sending_window_ends(&to->sending);
}

/* ---- answers ---- */

/* How much was written, of samples, histograms or exemplars. False: the receiver does not say. */
static bool written(const struct client_answer *answer, const char *what, uint64_t *ret)
{
    char name[64];
    snprintf(name, sizeof name, "x-prometheus-remote-write-%s-written", what);
    struct bytes v = http_header_find(answer->headers, answer->n_headers, name);
    return v.n > 0 && quantity_u64(bytes_trim(v), ret) == 0;
}

/* What a receiver of 2.0 says of what it wrote ("Required Written Response Headers"): one that takes a
 * request and says nothing of it knows 1.0 only, and found nothing in it that it knows. */
static void on_answer(void *user, const struct client_answer *answer)
{
    struct receiver *to = container_of(user, struct receiver, sending);
    const struct outcome *o = &to->sending.outcome;
    uint64_t samples = 0, others;
    if (answer->status < 200 || answer->status > 299)
        return; /* lost or repeated as a whole: its event says so */
    bool told = written(answer, "samples", &samples);
    if (!told && !written(answer, "histograms", &others) && !written(answer, "exemplars", &others)) {
        stats_add(o->stats, STATS_EXPORT_POINTS_DROPPED, answer->items);
        if (!to->said_deaf)
            log_error("takes remote write 2.0 and does not say what it wrote: it knows 1.0 only, "
                      "so these points are lost; set protobuf_message to 1 destination=%s",
                      o->name);
        to->said_deaf = true;
    } else if (samples < answer->items) {
        stats_add(o->stats, STATS_EXPORT_POINTS_DROPPED, answer->items - samples);
        log_write_limited(&to->told, LOG_LEVEL_WARN,
                          "wrote less than it acknowledged destination=%s written=%" PRIu64
                          " acknowledged=%" PRIu64,
                          o->name, samples, answer->items);
    }
}

/* ---- life ---- */

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

static int open_remote_write(struct exporter *x, const void *settings, const struct export_context *c,
                             struct error *e)
{
    struct receiver *to = container_of(x, struct receiver, sending.base);
    const struct remote_write_settings *s = settings;
    cleanup(arena_release) struct arena arena = {0};
    cleanup(buffer_release) struct buffer base = BUFFER_INIT(0);
    const bool second = s->protobuf_message == REMOTE_WRITE_2;
    struct client_options o;
    int r = sending_options(&s->sending, c, &arena, &o, e);
    if (r < 0)
        return r;
    if (cut_url(o.endpoint, &base, &o.path) < 0)
        return error_set(e, -ENOMEM, "out of memory");
    o.endpoint = (const char *)base.p;
    ((struct client_header *)o.headers)[o.n_headers++] = (struct client_header){
        "x-prometheus-remote-write-version", second ? REMOTE_WRITE_2_VERSION : REMOTE_WRITE_1_VERSION};
    o.protocol = OTLP_HTTP;
    o.compression = CLIENT_COMPRESS_NONE;
    o.queue.num_consumers = 1; /* samples of a series must arrive in order */
    o.dialect = (struct client_dialect){
        .content_type = second ? REMOTE_WRITE_2_TYPE : REMOTE_WRITE_1_TYPE,
        .content_encoding = "snappy",
        /* Remote-Write 1.0 and 2.0, "Retries & Backoff": 2xx is a success whatever else it says, 5xx must be
         * retried. */
        .any_success = true,
        .retry_5xx = true,
        .on_answer = second ? on_answer : NULL,
    };
    to->version = second ? REMOTE_WRITE_2 : REMOTE_WRITE_1;
    to->prometheus = c->prometheus;
    return sending_open(&to->sending, c, &o, &s->sending, e);
}

static void release_remote_write(struct exporter *x)
{
    sending_release(container_of(x, struct sending, base));
}

const struct exporter_kind exporter_remote_write = {
    .config =
        {
            .type = "prometheusremotewrite",
            .section = {"exporters.prometheusremotewrite/NAME",
                        "a Prometheus remote write receiver, for metrics", rows, ARRAY_LEN(rows)},
            .size = sizeof(struct remote_write_settings),
            .takes = CONFIG_TAKES_METRICS,
            .check = check,
        },
    .size = sizeof(struct receiver),
    .stream = stream,
    .open = open_remote_write,
    .push_metrics = push_metrics,
    SENDING_FUNCTIONS,
    .release = release_remote_write,
};
