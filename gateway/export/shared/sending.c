/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/export/shared/sending.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/export/shared/stored.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "proto/base/macros.h"
#include "proto/base/promise.h"
#include "proto/client/endpoint.h"
#include "proto/io/loop.h"

/* ---- settings ---- */

struct retry_options sending_retry(const struct sending_settings *s)
{
    return (struct retry_options){
        .enabled = s->retry_enabled,
        .initial_interval_ns = s->retry_initial_ns,
        .max_interval_ns = s->retry_max_ns,
        .max_elapsed_ns = s->retry_elapsed_ns,
        .multiplier = s->retry_multiplier,
        .randomization_factor = s->retry_jitter,
    };
}

static int check_proxy(const char *url, struct error *e)
{
    cleanup(endpoint_release) struct endpoint parsed = {0};
    char *authorization;
    int r = endpoint_parse_proxy(&parsed, url, &authorization, e);
    if (r == 0)
        free(authorization);
    return r;
}

static int check_oauth2(const struct sending_settings *s, struct error *e)
{
    cleanup(endpoint_release) struct endpoint parsed = {0};
    if (!s->oauth2_url && (s->oauth2_id || s->oauth2_secret))
        return error_set(e, -EINVAL, "oauth2 needs a token_url");
    if (!s->oauth2_url)
        return 0;
    if (!s->oauth2_id || !s->oauth2_secret)
        return error_set(e, -EINVAL, "oauth2 needs client_id and client_secret");
    return endpoint_parse(&parsed, s->oauth2_url, 0, e);
}

int sending_check_queue(const char *name, const struct sending_settings *settings, struct error *e)
{
    if (settings->dead_letters && !settings->storage)
        return error_set(e, -EINVAL, "exporters.%s: sending_queue.dead_letters needs sending_queue.storage",
                         name);
    const struct retry_options retry = sending_retry(settings);
    int r = retry_options_check(&retry, e);
    return r < 0 ? error_prefix(e, r, "exporters.%s: ", name) : 0;
}

int sending_check(const char *name, const struct sending_settings *settings, struct error *e)
{
    if (!settings->endpoint)
        return error_set(e, -EINVAL, "exporters.%s has no endpoint", name);
    if ((settings->tls_cert_file == NULL) != (settings->tls_key_file == NULL))
        return error_set(e, -EINVAL, "exporters.%s: tls.cert_file and tls.key_file go together", name);
    cleanup(endpoint_release) struct endpoint parsed = {0}; /* for what is wrong with it */
    int r = endpoint_parse(&parsed, settings->endpoint, 1, e);
    r = r < 0 ? r : check_oauth2(settings, e);
    r = r < 0 || !settings->proxy_url ? r : check_proxy(settings->proxy_url, e);
    return r < 0 ? error_prefix(e, r, "exporters.%s: ", name) : sending_check_queue(name, settings, e);
}

const char *sending_endpoint(const struct sending_settings *s, const char *endpoint, struct arena *arena)
{
    bool has_scheme = strstr(endpoint, "://") != NULL || strncmp(endpoint, "unix:", 5) == 0;
    return has_scheme || s->tls_insecure ? endpoint : arena_printf(arena, "https://%s", endpoint);
}

static int set_oauth2(const struct sending_settings *s, struct arena *arena, struct client_oauth2 *ret)
{
    struct client_header *params = arena_calloc(arena, s->oauth2_params.n + 1, sizeof *params);
    const char *scope = NULL;
    for (uint32_t i = 0; i < s->oauth2_params.n && params; i++)
        params[i] = (struct client_header){s->oauth2_params.items[i].name, s->oauth2_params.items[i].value};
    for (uint32_t i = 0; i < s->oauth2_scopes.n; i++) {
        scope =
            arena_printf(arena, "%s%s%s", scope ? scope : "", scope ? " " : "", s->oauth2_scopes.items[i]);
        if (!scope)
            return -ENOMEM;
    }
    *ret = (struct client_oauth2){
        .token_url = s->oauth2_url,
        .client_id = s->oauth2_id,
        .client_secret = s->oauth2_secret,
        .scope = scope,
        .params = params,
        .n_params = s->oauth2_params.n,
        .ca_file = s->oauth2_ca_file,
        .expiry_buffer_ns = s->oauth2_expiry_ns,
    };
    return params ? 0 : -ENOMEM;
}

int sending_options(const struct sending_settings *settings, const struct export_context *c,
                    struct arena *arena, struct client_options *ret, struct error *e)
{
    const struct settings_pairs *pairs = &settings->headers;
    struct client_header *headers = arena_calloc(arena, pairs->n + 1, sizeof *headers);
    struct client_options o = CLIENT_DEFAULT;
    o.endpoint = sending_endpoint(settings, settings->endpoint, arena);
    if (!headers || !o.endpoint)
        return error_set(e, -ENOMEM, "out of memory");
    for (uint32_t i = 0; i < pairs->n; i++)
        headers[i] = (struct client_header){pairs->items[i].name, pairs->items[i].value};
    o.headers = headers;
    o.n_headers = pairs->n;
    o.signal = c->signal == CONFIG_TAKES_METRICS ? OTLP_METRICS : OTLP_PROFILES;
    o.tls = (struct client_tls){
        .ca_file = settings->tls_ca_file,
        .cert_file = settings->tls_cert_file,
        .key_file = settings->tls_key_file,
        .server_name = settings->tls_server_name,
        .insecure_skip_verify = settings->tls_skip_verify,
    };
    if (settings->oauth2_url && set_oauth2(settings, arena, &o.oauth2) < 0)
        return error_set(e, -ENOMEM, "out of memory");
    o.proxy_url = settings->proxy_url;
    o.connection_age_ns = settings->connection_age_ns;
    o.timeout_ns = settings->timeout_ns;
    o.max_request_bytes = settings->request_bytes;
    o.retry = sending_retry(settings);
    o.queue.queue_size = settings->queue_size;
    o.queue.queue_bytes = settings->queue_bytes;
    o.queue.budget = c->budget;
    *ret = o;
    return 0;
}

/* ---- the sender ---- */

/* What workers could not count themselves: their blocks of counters are not ours. */
static void count_unbuilt(struct sending *s)
{
    uint64_t n = atomic_exchange(&s->unbuilt, 0);
    if (n > 0)
        outcome_lost(&s->outcome, 0, n, "out of memory");
}

void sending_on_queued(void *user)
{
    struct sending *s = user;
    outcome_queued(&s->outcome, s->stored ? stored_bytes(s->stored) : send_queue_bytes(s->sender.queue));
    count_unbuilt(s);
}

void sending_on_event(void *user, const struct client_event *event)
{
    struct sending *s = user;
    if (s->stored)
        stored_event(s->stored, event);
    else
        outcome_event(&s->outcome, event);
    sending_on_queued(s);
}

/* A sender has its handles on the loop: they close with the next turns, which a start that failed has. */
static void on_closed(void *user)
{
    *(bool *)user = true;
}

/* The disk's part of open. */
static int open_storage(struct sending *s, const struct export_context *c,
                        const struct sending_settings *settings, struct error *e)
{
    const struct stored_options options = {
        .folder = settings->storage,
        .bytes_max = settings->storage_bytes,
        .age_max_ns = settings->storage_age_ns,
        .queue_bytes = settings->queue_bytes,
        .request_max = settings->request_bytes,
        .keeps_dead = settings->dead_letters,
    };
    int r = stored_open(&s->stored, &options, c, s->sender, &s->outcome, e);
    if (r == 0) {
        s->base.is_durable = true;
        if (settings->retry_enabled && settings->retry_elapsed_ns > 0 && !settings->dead_letters)
            log_warn("what the destination does not take in time is lost although there is storage: "
                     "retry_on_failure.max_elapsed_time: 0 keeps it, dead_letters: true, too destination=%s "
                     "seconds=%" PRIu64,
                     c->name, settings->retry_elapsed_ns / NSEC_PER_SEC);
        return 0;
    }
    bool is_closed = false;
    s->sender.shutdown(s->sender.x, 0, on_closed, &is_closed);
    while (!is_closed)
        io_loop_run_once(c->loop, NSEC_PER_SEC);
    return r;
}

static void shut_down_client(void *x, uint64_t deadline_ns, void (*done)(void *user), void *user)
{
    client_shutdown(x, deadline_ns, done, user);
}

static void free_client(void *x)
{
    client_free(x);
}

int sending_open(struct sending *s, const struct export_context *c, const struct client_options *options,
                 const struct sending_settings *settings, struct error *e)
{
    struct sending_settings bounded = *settings;
    bounded.request_bytes = options->max_request_bytes;
    int r = sending_init(s, c, &bounded, e);
    if (r == 0)
        r = client_new(&s->client, c->loop, options, sending_on_event, s, e);
    if (r < 0)
        return r;
    client_on_queued(s->client, sending_on_queued, s);
    const struct sender sender = {s->client, client_queue(s->client), shut_down_client, free_client};
    return sending_start(s, sender, c, settings, e);
}

int sending_init(struct sending *s, const struct export_context *c, const struct sending_settings *settings,
                 struct error *e)
{
    s->base.terms = (struct export_terms){
        settings->request_bytes, settings->queue_size, false,
        settings->storage ? min_of(settings->storage_bytes, STORED_WAITING_MAX) : settings->queue_bytes};
    s->request_max = min_of((size_t)settings->request_bytes,
                            c->signal == CONFIG_TAKES_METRICS ? (size_t)SENDING_METRICS_MAX : SIZE_MAX);
    int r = outcome_init(&s->outcome, c);
    return r < 0 ? error_set(e, r, "out of memory") : 0;
}

int sending_start(struct sending *s, struct sender sender, const struct export_context *c,
                  const struct sending_settings *settings, struct error *e)
{
    s->sender = sender;
    return settings->storage ? open_storage(s, c, settings, e) : 0;
}

void sending_push(struct sending *s, struct client_body *body, size_t reserved, uint64_t samples,
                  struct promise *safe)
{
    if (s->stored) {
        if (safe)
            promise_owe(safe);
        stored_push(s->stored, body, reserved, samples, safe);
    } else {
        send_queue_offer(s->sender.queue, body, reserved, samples);
    }
}

void sending_window_ends(struct sending *s)
{
    if (s->stored)
        stored_window_ends(s->stored);
}

int64_t sending_tls_expiry(const struct exporter *x)
{
    const struct sending *s = container_of(x, struct sending, base);
    const int64_t of_other = s->tls_expiry ? s->tls_expiry : INT64_MAX;
    return s->client ? client_tls_expiry(s->client) : of_other;
}

bool sending_is_ready(struct exporter *x)
{
    struct sending *s = container_of(x, struct sending, base);
    bool is_ready = !s->stored || stored_reserve(s->stored, SENDING_METRICS_MAX);
    if (s->stored && is_ready)
        stored_cancel(s->stored, SENDING_METRICS_MAX);
    return is_ready;
}

void sending_push_newest(struct sending *s, struct buffer *body, uint64_t points)
{
    size_t n;
    uint8_t *p = buffer_take(body, &n);
    struct client_body *shared = client_body_new(p, n);
    if (!shared)
        sending_lost(s, points);
    else if (!s->stored || !stored_push_metrics(s->stored, shared, points))
        send_queue_offer_newest(s->sender.queue, shared, points);
    client_body_unref(shared);
}

/* Points before a place of metrics_encode_proto. */
static uint64_t points_before(const struct metric_batch *b, uint32_t resource, uint32_t place)
{
    struct metric_batch before = *b;
    before.n_resources = resource;
    return metric_batch_points(&before) + place;
}

void sending_push_metrics(struct sending *s, const struct metric_batch *batch, bool json)
{
    uint32_t from = 0, place = 0;
    uint64_t before = 0, total = metric_batch_points(batch);
    while (from < batch->n_resources && before < total) {
        struct buffer out = BUFFER_INIT(0);
        int r = json ? metrics_encode_json_part(batch, s->request_max, &from, &place, &out)
                     : metrics_encode_proto(batch, s->request_max, &from, &place, &out);
        if (r < 0) {
            buffer_release(&out);
            sending_lost(s, total - before);
            return;
        }
        uint64_t after = points_before(batch, from, place);
        sending_push_newest(s, &out, after - before);
        before = after;
    }
}

void sending_lost(struct sending *s, uint64_t n)
{
    atomic_fetch_add(&s->unbuilt, n); /* counted with the next event, or at the end */
}

bool sending_reserve(struct exporter *x, size_t n)
{
    struct sending *s = container_of(x, struct sending, base);
    return s->stored ? stored_reserve(s->stored, n) : send_queue_reserve(s->sender.queue, n);
}

void sending_cancel(struct exporter *x, size_t n)
{
    struct sending *s = container_of(x, struct sending, base);
    if (s->stored)
        stored_cancel(s->stored, n);
    else
        send_queue_cancel(s->sender.queue, n);
}

static void on_settled(void *user)
{
    struct sending *s = user;
    s->stored = NULL;
    count_unbuilt(s);
    outcome_end(&s->outcome);
    s->done(s->done_user);
}

/* What is on disk is for the next start: only calls that are under way are waited for. */
#define STORED_DRAIN_NS ((uint64_t)NSEC_PER_SEC)

/* And the disk, at least so long, whatever the time for a stop is: it may be a slow one. */
#define STORED_CLOSE_NS (5 * (uint64_t)NSEC_PER_SEC)

static void on_drained(void *user)
{
    struct sending *s = user;
    if (s->stored)
        stored_drain(s->stored, max_of(s->deadline_ns, clock_monotonic() + STORED_CLOSE_NS), on_settled, s);
    else
        on_settled(s);
}

void sending_drain(struct exporter *x, uint64_t deadline_ns, void (*done)(void *user), void *user)
{
    struct sending *s = container_of(x, struct sending, base);
    s->done = done;
    s->done_user = user;
    s->deadline_ns = deadline_ns;
    if (s->stored)
        deadline_ns = min_of(deadline_ns, clock_monotonic() + STORED_DRAIN_NS);
    s->sender.shutdown(s->sender.x, deadline_ns, on_drained, s);
}

void sending_release(struct sending *s)
{
    if (s->sender.x)
        s->sender.free(s->sender.x);
    s->sender = (struct sender){0};
    s->client = NULL;
    outcome_release(&s->outcome);
}
