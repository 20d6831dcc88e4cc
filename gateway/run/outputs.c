/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/run/outputs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gateway/aggregate/store.h"
#include "gateway/export/destination.h"
#include "gateway/export/prometheus/prometheus.h"
#include "gateway/stats/stats.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "proto/base/macros.h"
#include "proto/io/loop.h"

struct leaving { /* one metrics exporter and its output */
    struct export_metrics *exporter;
    struct output *output;
};

struct outputs {
    struct arena arena; /* what options point at while exporters are made */
    struct attr identity;
    uint32_t n_identity; /* 0 or 1 */
    struct prometheus_options names;
    struct store *store;
    struct budget *budget;
    struct stats *stats;
    int (*more)(void *context, struct buffer *out);
    void *more_context;
    struct output *prometheus; /* NULL: not asked for */
    struct leaving *leaving;
    uint32_t n_leaving;
    struct export_profiles *profiles;
    uint32_t n_draining;
    void (*done)(void *user);
    void *user;
};

/* How the export stage wants the endpoint: host:port without a scheme is TLS, as the Collector has it, unless
 * tls.insecure says otherwise. NULL: memory is out. */
static const char *endpoint(struct outputs *o, const struct config_exporter *x)
{
    bool has_scheme = strstr(x->endpoint, "://") != NULL || strncmp(x->endpoint, "unix:", 5) == 0;
    return has_scheme || x->tls_insecure ? x->endpoint : arena_printf(&o->arena, "https://%s", x->endpoint);
}

static const struct otlp_header *headers(struct outputs *o, const struct config_exporter *x)
{
    struct otlp_header *all = arena_calloc(&o->arena, x->headers.n + 1, sizeof *all);
    for (uint32_t i = 0; i < x->headers.n && all; i++)
        all[i] = (struct otlp_header){x->headers.items[i].name, x->headers.items[i].value};
    return all;
}

static bool is_remote_write(const struct config_exporter *x)
{
    return config_exporter_type(x->name) == CONFIG_EXPORTER_REMOTE_WRITE;
}

/* One configured exporter as the export stage wants it. */
static int destination(struct outputs *o, const struct config_exporter *x, struct destination_options *ret,
                       struct error *e)
{
    bool json = x->encoding && strcmp(x->encoding, "json") == 0;
    *ret = (struct destination_options){
        .name = x->name,
        .otlp = OTLP_EXPORTER_DEFAULT,
        .encoding = json ? DESTINATION_JSON : DESTINATION_PROTO,
        .layout_1_9 = x->wire_version && strcmp(x->wire_version, "1.9") == 0,
        .protobuf_message = x->protobuf_message,
        .prometheus = o->names,
    };
    if (config_exporter_type(x->name) == CONFIG_EXPORTER_FILE) {
        ret->kind = DESTINATION_FILE;
        ret->path = x->path;
        return 0;
    }
    struct otlp_exporter_options *otlp = &ret->otlp;
    otlp->endpoint = endpoint(o, x);
    otlp->headers = headers(o, x);
    if (!otlp->endpoint || !otlp->headers)
        return error_set(e, -ENOMEM, "out of memory");
    otlp->n_headers = x->headers.n;
    if (is_remote_write(x)) { /* it has neither protocol nor compression nor consumers to choose */
        ret->kind = DESTINATION_REMOTE_WRITE;
    } else {
        otlp->protocol = strcmp(x->protocol, "http") == 0 ? OTLP_HTTP : OTLP_GRPC;
        otlp->compression = strcmp(x->compression, "gzip") == 0   ? OTLP_COMPRESS_GZIP
                            : strcmp(x->compression, "zstd") == 0 ? OTLP_COMPRESS_ZSTD
                                                                  : OTLP_COMPRESS_NONE;
        otlp->queue.num_consumers = x->queue_consumers;
    }
    otlp->tls = (struct otlp_tls){
        .ca_file = x->tls_ca_file,
        .cert_file = x->tls_cert_file,
        .key_file = x->tls_key_file,
        .server_name = x->tls_server_name,
        .insecure_skip_verify = x->tls_skip_verify,
    };
    otlp->timeout_ns = x->timeout_ns;
    otlp->max_request_bytes = x->request_bytes;
    otlp->retry.enabled = x->retry_enabled;
    otlp->retry.initial_interval_ns = x->retry_initial_ns;
    otlp->retry.max_interval_ns = x->retry_max_ns;
    otlp->retry.max_elapsed_ns = x->retry_elapsed_ns;
    otlp->queue.queue_size = x->queue_size;
    otlp->queue.queue_bytes = x->queue_bytes;
    otlp->queue.budget = o->budget;
    return 0;
}

static struct output_options common_options(const struct outputs *o, const struct config *c)
{
    struct output_options options = OUTPUT_OPTIONS_DEFAULT;
    options.identity = &o->identity;
    options.n_identity = o->n_identity;
    options.cardinality_limit = c->cardinality_limit;
    options.metric_expiration = c->metric_expiration_ns;
    return options;
}

static void keep_attributes(struct output_options *options, const struct config_strings *chosen)
{
    options->projection = PROJECT_KEEP;
    options->keys = chosen->items;
    options->n_keys = chosen->n;
}

/* What /metrics and remote write make labels of. */
static void keep_prometheus_attributes(struct output_options *options, const struct config *c)
{
    const struct config_strings *chosen = &c->prometheus_attributes;
    struct config_strings usual = {(const char **)output_prometheus_keys, OUTPUT_PROMETHEUS_KEYS};
    bool is_default = chosen->n == 1 && strcmp(chosen->items[0], "default") == 0;
    keep_attributes(options, is_default ? &usual : chosen);
}

static struct output *prometheus_output(struct outputs *o, const struct config *c)
{
    struct output_options options = common_options(o, c);
    keep_prometheus_attributes(&options, c);
    options.temporality = METRIC_CUMULATIVE;
    options.gauge_interval = c->flush_interval_ns;
    options.exemplars = EXEMPLARS_STAY; /* several scrapers may look */
    return store_add_output(o->store, &options, clock_realtime());
}

static struct output *exporter_output(struct outputs *o, const struct config *c,
                                      const struct config_exporter *x)
{
    bool chosen = x->temporality && strcmp(x->temporality, "default") != 0;
    const char *temporality = is_remote_write(x) ? "cumulative" : chosen ? x->temporality : c->temporality;
    struct output_options options = common_options(o, c);
    options.temporality = strcmp(temporality, "cumulative") == 0 ? METRIC_CUMULATIVE : METRIC_DELTA;
    if (x->resource_attributes.n > 0) {
        keep_attributes(&options, &x->resource_attributes);
    } else if (is_remote_write(x)) {
        keep_prometheus_attributes(&options, c);
    } else if (c->drop_attributes.n > 0) {
        keep_attributes(&options, &c->drop_attributes);
        options.projection = PROJECT_DROP;
    }
    return store_add_output(o->store, &options, clock_realtime());
}

static int add_metrics_exporters(struct outputs *o, const struct config *c, struct io_loop *loop,
                                 struct error *e)
{
    o->leaving = calloc(c->metrics_exporters.n + 1, sizeof *o->leaving);
    if (!o->leaving)
        return error_set(e, -ENOMEM, "out of memory");
    for (uint32_t i = 0; i < c->metrics_exporters.n; i++) {
        const char *name = c->metrics_exporters.items[i];
        if (strcmp(name, "prometheus") == 0) {
            o->prometheus = prometheus_output(o, c);
            if (!o->prometheus)
                return error_set(e, -ENOMEM, "out of memory");
            continue;
        }
        const struct config_exporter *x = config_exporter(c, name);
        struct destination_options options;
        int r = destination(o, x, &options, e);
        if (r == 0)
            r = export_metrics_new(&o->leaving[o->n_leaving].exporter, loop, &options, o->stats, e);
        if (r < 0)
            return error_prefix(e, r, "exporters.%s: ", name);
        struct output *output = exporter_output(o, c, x);
        o->leaving[o->n_leaving++].output = output;
        if (!output)
            return error_set(e, -ENOMEM, "out of memory");
    }
    return 0;
}

static int add_profiles_exporters(struct outputs *o, const struct config *c, struct io_loop *loop,
                                  struct error *e)
{
    uint32_t n = c->profiles_exporters.n;
    if (n == 0) /* with keep 0 too: the rules may keep some, also those of a later reload */
        return 0;
    struct destination_options *options = arena_calloc(&o->arena, n, sizeof *options);
    if (!options)
        return error_set(e, -ENOMEM, "out of memory");
    for (uint32_t i = 0; i < n; i++) {
        const char *name = c->profiles_exporters.items[i];
        int r = destination(o, config_exporter(c, name), &options[i], e);
        if (r < 0)
            return r;
    }
    return export_profiles_new(&o->profiles, loop, options, n, o->stats, e);
}

static void nothing(void *user) {}

/* Ends exporters that were made for a start that failed; they close by the loop. */
static struct outputs *give_up(struct outputs *o, struct io_loop *loop)
{
    outputs_shutdown(o, 0, nothing, NULL);
    while (o->n_draining > 0)
        io_loop_run_once(loop, NSEC_PER_SEC);
    return outputs_free(o);
}

/* Who we are: the attribute that every resource gets. */
static int identify(struct outputs *o, const char *instance_id)
{
    char host[256] = "";
    if (!instance_id || !instance_id[0])
        return 0;
    if (strcmp(instance_id, "auto") == 0) {
        if (gethostname(host, sizeof host - 1) < 0 || !host[0])
            return 0; /* a machine without a name: nothing tells it from another */
        instance_id = host;
    }
    struct bytes copy = arena_copy(&o->arena, bytes_str(instance_id));
    o->identity = (struct attr){BYTES_LIT(OUTPUTS_INSTANCE_KEY), {.kind = ATTR_STRING, .text = copy}};
    o->n_identity = 1;
    return copy.p ? 0 : -ENOMEM;
}

/* How names and labels are written for Prometheus. */
static struct prometheus_options names_of(const struct config *c)
{
    struct prometheus_options names = {.scope_labels = c->prometheus_scope_labels,
                                       .created = c->prometheus_created};
    prometheus_strategy_parse(c->translation_strategy, &names.strategy); /* one of the row's choices */
    return names;
}

struct outputs *outputs_new(const struct outputs_options *options, struct io_loop *loop, struct error *e)
{
    struct outputs *o = calloc(1, sizeof *o);
    if (!o) {
        error_set(e, -ENOMEM, "out of memory");
        return NULL;
    }
    o->stats = options->stats;
    o->budget = options->budget;
    o->store =
        store_new(options->metrics, options->n_metrics, options->n_workers, options->budget, options->stats);
    o->names = names_of(options->config);
    int r = o->store && identify(o, options->config->instance_id) == 0
                ? 0
                : error_set(e, -ENOMEM, "out of memory");
    if (r == 0)
        r = add_metrics_exporters(o, options->config, loop, e);
    if (r == 0)
        r = add_profiles_exporters(o, options->config, loop, e);
    return r == 0 ? o : give_up(o, loop);
}

struct outputs *outputs_free(struct outputs *o)
{
    if (!o)
        return NULL;
    for (uint32_t i = 0; i < o->n_leaving; i++)
        export_metrics_free(o->leaving[i].exporter);
    export_profiles_free(o->profiles);
    store_free(o->store);
    arena_release(&o->arena);
    free(o->leaving);
    free(o);
    return NULL;
}

struct export_profiles *outputs_profiles(struct outputs *o)
{
    return o->profiles;
}

struct store *outputs_store(struct outputs *o)
{
    return o->store;
}

void outputs_set_more(struct outputs *o, int (*write)(void *context, struct buffer *out), void *context)
{
    o->more = write;
    o->more_context = context;
}

int outputs_replace_metrics(struct outputs *o, const struct aggregate_metric *metrics, uint32_t n_metrics,
                            uint32_t *ret_generation)
{
    return store_replace_metrics(o->store, metrics, n_metrics, ret_generation);
}

void outputs_apply(struct outputs *o, uint32_t worker, struct aggregate_delta *delta)
{
    store_apply(o->store, worker, delta, clock_realtime());
}

void outputs_flush(struct outputs *o)
{
    for (uint32_t i = 0; i < o->n_leaving; i++) {
        struct metric_batch *batch;
        if (output_collect(o->leaving[i].output, clock_realtime(), &batch) < 0) {
            log_limited(LOG_LEVEL_ERROR, "no memory to collect metrics; they go with the next flush");
            continue;
        }
        if (batch->n_resources > 0)
            export_metrics_push(o->leaving[i].exporter, batch);
        metric_batch_free(batch);
    }
}

static int write_profiles(struct outputs *o, const struct prometheus_options *names, struct buffer *out)
{
    struct metric_batch *batch;
    if (!o->prometheus)
        return 0;
    int r = output_collect(o->prometheus, clock_realtime(), &batch);
    if (r < 0)
        return r;
    r = prometheus_write(batch, names, out);
    metric_batch_free(batch);
    return r;
}

static int write_self(const struct outputs *o, enum prometheus_format format, struct buffer *out)
{
    struct buffer text = BUFFER_INIT(0);
    int r = stats_prometheus(&text);
    if (r == 0 && o->more)
        r = o->more(o->more_context, &text);
    if (r == 0)
        r = prometheus_rewrite(buffer_bytes(&text), format, out);
    buffer_release(&text);
    return r;
}

int outputs_metrics(struct outputs *o, const struct admin_metrics *wanted, struct buffer *out)
{
    static const enum prometheus_escaping escapings[] = {
        [ADMIN_UNDERSCORES] = PROMETHEUS_ESCAPE_UNDERSCORES,
        [ADMIN_ALLOW_UTF8] = PROMETHEUS_ALLOW_UTF8,
        [ADMIN_DOTS] = PROMETHEUS_ESCAPE_DOTS,
        [ADMIN_VALUES] = PROMETHEUS_ESCAPE_VALUES,
    };
    struct prometheus_options names = o->names;
    bool open = wanted->format == ADMIN_OPENMETRICS_0_0_1 || wanted->format == ADMIN_OPENMETRICS_1_0_0;
    names.format = open ? PROMETHEUS_OPENMETRICS : PROMETHEUS_TEXT;
    names.escaping = escapings[wanted->escaping];
    int r = 0;
    if (wanted->what & ADMIN_METRICS_PROFILES)
        r = write_profiles(o, &names, out);
    if (r == 0 && (wanted->what & ADMIN_METRICS_SELF))
        r = write_self(o, names.format, out);
    return r < 0 ? r : prometheus_end(names.format, out);
}

static void one_drained(void *user)
{
    struct outputs *o = user;
    if (--o->n_draining == 0)
        o->done(o->user);
}

void outputs_shutdown(struct outputs *o, uint64_t deadline_ns, void (*done)(void *user), void *user)
{
    o->done = done;
    o->user = user;
    o->n_draining = o->n_leaving + (o->profiles != NULL);
    if (o->n_draining == 0) {
        done(user);
        return;
    }
    for (uint32_t i = 0; i < o->n_leaving; i++)
        export_metrics_shutdown(o->leaving[i].exporter, deadline_ns, one_drained, o);
    if (o->profiles)
        export_profiles_shutdown(o->profiles, deadline_ns, one_drained, o);
}
