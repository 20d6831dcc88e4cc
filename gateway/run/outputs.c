/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/run/outputs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gateway/aggregate/store.h"
#include "gateway/export/exporter.h"
#include "gateway/export/profiles.h"
#include "gateway/export/prometheus/prometheus.h"
#include "gateway/stats/stats.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "proto/base/macros.h"
#include "proto/io/loop.h"

struct leaving {      /* one exporter, and of metrics its output */
    const char *name; /* the configuration's */
    struct exporter *exporter;
    struct output *output;     /* NULL: raw profiles go there */
    bool own, own_deltas;      /* the gateway's own numbers go there */
    struct metric_batch *said; /* of them, at the last flush; NULL: cumulative, or none yet */
    struct log_limit told;     /* that there was no room */
};

struct outputs {
    struct arena arena; /* the identity's text, and such */
    struct io_loop *loop;
    struct attr identity;
    uint32_t n_identity; /* 0 or 1 */
    struct prometheus_options names;
    struct store *store;
    struct budget *budget;
    struct budget queues; /* of it: what queues may hold */
    struct stats *stats;
    int (*more)(void *context, struct buffer *out);
    void *more_context;
    struct output *prometheus; /* NULL: not asked for */
    struct leaving *leaving;   /* those for metrics, then those for profiles */
    uint32_t n_leaving;
    struct export_profiles *profiles; /* NULL: there are none */
    uint32_t n_draining;
    uint64_t window_ns;
    void (*done)(void *user);
    void *user;
};

static struct output_options common_options(const struct outputs *o, const struct config *c)
{
    struct output_options options = OUTPUT_OPTIONS_DEFAULT;
    options.identity = &o->identity;
    options.n_identity = o->n_identity;
    options.cardinality_limit = c->cardinality_limit;
    options.max_resources = c->resource_limit;
    options.metric_expiration = c->metric_expiration_ns;
    return options;
}

static void keep_attributes(struct output_options *options, const struct settings_strings *chosen)
{
    options->projection = PROJECT_KEEP;
    options->keys = chosen->items;
    options->n_keys = chosen->n;
}

/* What /metrics and remote write make labels of. */
static void keep_prometheus_attributes(struct output_options *options, const struct config *c)
{
    const struct settings_strings *chosen = &c->prometheus_attributes;
    struct settings_strings usual = {(const char **)output_prometheus_keys, OUTPUT_PROMETHEUS_KEYS};
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
    options.is_pulled = true;
    return store_add_output(o->store, &options, clock_realtime());
}

static struct output *exporter_output(struct outputs *o, const struct config *c,
                                      const struct config_exporter *x, struct leaving *to)
{
    const struct export_stream stream = exporter_stream(x->kind, x->settings);
    struct output_options options = common_options(o, c);
    bool cumulative = stream.temporality == EXPORT_AS_METRICS_SAY ? c->temporality == CONFIG_CUMULATIVE
                                                                  : stream.temporality == EXPORT_CUMULATIVE;
    to->own = stream.own;
    to->own_deltas = !cumulative;
    options.temporality = cumulative ? METRIC_CUMULATIVE : METRIC_DELTA;
    if (stream.attributes.n > 0) {
        keep_attributes(&options, &stream.attributes);
    } else if (stream.labels) {
        keep_prometheus_attributes(&options, c);
    } else if (c->drop_attributes.n > 0) {
        keep_attributes(&options, &c->drop_attributes);
        options.projection = PROJECT_DROP;
    }
    return store_add_output(o->store, &options, clock_realtime());
}

/* Opens one that metrics.exporters or profiles.exporters name. */
static int add_exporter(struct outputs *o, const struct config_exporter *x, enum config_takes signal,
                        struct error *e)
{
    struct export_context context = {
        .name = x->name,
        .signal = signal,
        .loop = o->loop,
        .budget = &o->queues,
        .stats = o->stats,
        .window_ns = o->window_ns,
        .prometheus = o->names,
    };
    o->leaving[o->n_leaving].name = x->name;
    int r = exporter_open(&o->leaving[o->n_leaving].exporter, x->kind, x->settings, &context, e);
    o->n_leaving += r == 0;
    return r;
}

static int add_metrics_exporters(struct outputs *o, const struct config *c, struct error *e)
{
    for (uint32_t i = 0; i < c->metrics_exporters.n; i++) {
        const char *name = c->metrics_exporters.items[i];
        struct output **output = &o->prometheus;
        if (strcmp(name, "prometheus") == 0) {
            *output = prometheus_output(o, c);
        } else {
            const struct config_exporter *x = config_exporter(c, name);
            int r = add_exporter(o, x, CONFIG_TAKES_METRICS, e);
            if (r < 0)
                return error_prefix(e, r, "exporters.%s: ", name);
            output = &o->leaving[o->n_leaving - 1].output;
            *output = exporter_output(o, c, x, &o->leaving[o->n_leaving - 1]);
        }
        if (!*output)
            return error_set(e, -ENOMEM, "out of memory");
    }
    return 0;
}

static int add_profiles_exporters(struct outputs *o, const struct config *c, struct error *e)
{
    const uint32_t n = c->profiles_exporters.n, first = o->n_leaving;
    if (n == 0) /* with keep 0 too: the rules may keep some, also those of a later reload */
        return 0;
    if (n > EXPORT_PROFILES_MAX)
        return error_set(e, -EINVAL, "profiles.exporters: more than %u", EXPORT_PROFILES_MAX);
    struct exporter **to = arena_calloc(&o->arena, n, sizeof *to);
    if (!to)
        return error_set(e, -ENOMEM, "out of memory");
    for (uint32_t i = 0; i < n; i++) {
        int r = add_exporter(o, config_exporter(c, c->profiles_exporters.items[i]), CONFIG_TAKES_PROFILES, e);
        if (r < 0)
            return r;
        to[i] = o->leaving[first + i].exporter;
    }
    o->profiles = export_profiles_new(to, n);
    return o->profiles ? 0 : error_set(e, -ENOMEM, "out of memory");
}

static void nothing(void *user) {}

/* Ends exporters that were made for a start that failed; they close by the loop. */
static struct outputs *give_up(struct outputs *o)
{
    outputs_shutdown(o, 0, nothing, NULL);
    while (o->n_draining > 0)
        io_loop_run_once(o->loop, NSEC_PER_SEC);
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
    return (struct prometheus_options){
        .strategy = c->translation_strategy,
        .scope_labels = c->prometheus_scope_labels,
        .created = c->prometheus_created,
    };
}

/* Raw profiles that are dropped where there is no room leave as much of limits.memory to those that come, to
 * be counted; whoever refuses them instead says no either way. */
static struct budget queues_of(const struct outputs_options *options)
{
    struct budget *all = options->budget;
    const size_t limit = !all                                        ? SIZE_MAX
                         : options->config->when_full == CONFIG_DROP ? all->limit / 2
                                                                     : all->limit;
    return (struct budget)BUDGET_INIT(limit, all);
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
    o->loop = loop;
    o->queues = queues_of(options);
    o->window_ns = options->config->flush_interval_ns;
    o->leaving = calloc(options->config->metrics_exporters.n + options->config->profiles_exporters.n + 1,
                        sizeof *o->leaving);
    o->store = store_new(options->metrics, options->n_metrics, options->n_workers, options->budget,
                         options->merger_stats);
    o->names = names_of(options->config);
    int r = o->store && o->leaving && identify(o, options->config->instance_id) == 0
                ? 0
                : error_set(e, -ENOMEM, "out of memory");
    if (r == 0)
        r = add_metrics_exporters(o, options->config, e);
    if (r == 0)
        r = add_profiles_exporters(o, options->config, e);
    return r == 0 ? o : give_up(o);
}

struct outputs *outputs_free(struct outputs *o)
{
    if (!o)
        return NULL;
    for (uint32_t i = 0; i < o->n_leaving; i++) {
        exporter_free(o->leaving[i].exporter);
        metric_batch_free(o->leaving[i].said);
    }
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

bool outputs_tls_expiry(const struct outputs *o, uint32_t i, int64_t *ret, const char **ret_name,
                        const char **ret_signal)
{
    if (i >= o->n_leaving)
        return false;
    *ret = exporter_tls_expiry(o->leaving[i].exporter);
    *ret_name = o->leaving[i].name;
    *ret_signal = o->leaving[i].output ? "metrics" : "profiles";
    return true;
}

const char *outputs_without_room(struct outputs *o, size_t n)
{
    for (uint32_t i = 0; i < o->n_leaving; i++)
        if (!o->leaving[i].output && !exporter_has_room(o->leaving[i].exporter, n))
            return o->leaving[i].name;
    return NULL;
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
    int r = store_replace_metrics(o->store, metrics, n_metrics, ret_generation);
    return r == STORE_FULL ? OUTPUTS_FULL : r;
}

void outputs_apply(struct outputs *o, uint32_t worker, struct aggregate_delta *delta)
{
    store_apply(o->store, worker, delta, clock_realtime());
}

void outputs_expire(struct outputs *o)
{
    store_expire(o->store, clock_realtime());
}

static void flush_own(const struct outputs *o, struct leaving *to)
{
    const struct attr who[] = {
        {BYTES_LIT("service.name"), {.kind = ATTR_STRING, .text = BYTES_LIT("profgate")}}, o->identity};
    struct metric_batch *now = stats_batch(who, 1 + o->n_identity, clock_realtime(), o->budget);
    struct metric_batch *delta = now && to->own_deltas ? stats_batch_since(now, to->said, o->budget) : NULL;
    if (!now || (to->own_deltas && !delta)) {
        log_limited(LOG_LEVEL_ERROR, "no memory to collect own metrics; they go with the next flush");
        metric_batch_free(now);
        return;
    }
    exporter_push_metrics(to->exporter, delta ? delta : now);
    metric_batch_free(delta);
    if (to->own_deltas) {
        metric_batch_free(to->said);
        to->said = take_ptr(now);
    }
    metric_batch_free(now);
}

bool outputs_flush(struct outputs *o, bool is_last)
{
    bool is_whole = true;
    for (uint32_t i = 0; i < o->n_leaving && o->leaving[i].output; i++) {
        struct metric_batch *batch;
        if (o->leaving[i].own)
            flush_own(o, &o->leaving[i]);
        if (!is_last && !exporter_is_ready(o->leaving[i].exporter)) {
            log_write_limited(&o->leaving[i].told, LOG_LEVEL_WARN,
                              "no room for metrics: the window goes on destination=%s", o->leaving[i].name);
            is_whole = false;
            continue;
        }
        if (output_collect(o->leaving[i].output, clock_realtime(), &batch) < 0) {
            log_limited(LOG_LEVEL_ERROR, "no memory to collect metrics; they go with the next flush");
            is_whole = false;
            continue;
        }
        exporter_push_metrics(o->leaving[i].exporter, batch);
        metric_batch_free(batch);
    }
    return is_whole;
}

int outputs_show(struct outputs *o, struct metric_batch **ret, struct output_receipt **ret_receipt)
{
    *ret = NULL;
    *ret_receipt = NULL;
    return o->prometheus ? output_show(o->prometheus, clock_realtime(), ret, ret_receipt) : 0;
}

void outputs_told(struct outputs *o, const struct output_receipt *receipt)
{
    output_told(o->prometheus, receipt);
}

int outputs_self(const struct outputs *o, enum prometheus_format format, struct buffer *out)
{
    cleanup(buffer_release) struct buffer text = BUFFER_INIT(0);
    int r = stats_prometheus(&text);
    if (r == 0 && o->more)
        r = o->more(o->more_context, &text);
    if (r == 0)
        r = prometheus_rewrite(buffer_bytes(&text), format, out);
    return r;
}

struct prometheus_options outputs_names(const struct outputs *o)
{
    return o->names;
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
    o->n_draining = o->n_leaving;
    if (o->n_draining == 0) {
        done(user);
        return;
    }
    for (uint32_t i = 0; i < o->n_leaving; i++)
        exporter_drain(o->leaving[i].exporter, deadline_ns, one_drained, o);
}
