/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/client/client.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "proto/base/clock.h"
#include "proto/base/hash.h"
#include "proto/base/macros.h"
#include "proto/base/thread.h"
#include "proto/client/slot.h"
#include "proto/io/loop.h"
#include "proto/io/timer.h"
#include "proto/io/tls.h"

/* What a response may take beside its message: header fields, the gRPC prefix. */
#define RESPONSE_OVERHEAD (64u << 10)

/* ---- telling --------------------------------------------------------------------------------- */

void client_tell(struct client *x, enum client_event_kind kind, const struct send_entry *entry,
                 uint64_t attempts, uint64_t rejected, const char *message)
{
    struct client_event event = {
        .kind = kind,
        .requests = 1,
        .items = entry->items,
        .rejected = rejected,
        .attempts = attempts,
        .tag = entry->tag,
        .message = message,
    };
    if (x->on_event)
        x->on_event(x->user, &event);
}

static void tell_lost(struct client *x)
{
    static const char *const why[CLIENT_SHUT_DOWN + 1] = {
        [CLIENT_EVICTED] = "the queue is full: the oldest made room",
        [CLIENT_TOO_LARGE] = "larger than max_request_bytes",
        [CLIENT_SHUT_DOWN] = "came after the shutdown",
    };
    send_queue_tell_lost(&x->queue, why, x->on_event, x->user);
}

static void wake(void *user)
{
    struct client *x = user;
    autolock(&x->wake_lock);
    if (x->wake_open)
        uv_async_send(&x->wake);
}

/* ---- running --------------------------------------------------------------------------------- */

static bool is_settled(struct client *x)
{
    for (uint32_t i = 0; i < x->n_slots; i++)
        if (x->slots[i].state != SLOT_IDLE)
            return false;
    return true;
}

/* The deadline of a shutdown passed: everything that is left is lost, and said to be. */
static void expire(struct client *x)
{
    struct send_entry *entry;
    x->expired = true;
    for (uint32_t i = 0; i < x->n_slots; i++)
        slot_abort(&x->slots[i]);
    while ((entry = send_queue_pop(&x->queue))) {
        const struct send_entry was = *entry;
        send_queue_finish(&x->queue, entry);
        client_tell(x, CLIENT_SHUT_DOWN, &was, 0, 0, "shut down before it was sent");
    }
}

void client_pump(struct client *x)
{
    uint64_t now = io_loop_now(x->loop), next = UINT64_MAX;
    if (x->closing)
        return;
    do {
        x->again = false;
        for (uint32_t i = 0; i < x->n_slots; i++)
            slot_step(&x->slots[i], now);
    } while (x->again);
    if (x->stopping && now >= x->deadline_ns && !x->expired)
        expire(x);
    if (x->stopping && is_settled(x)) {
        x->closing = true;
        wake(x); /* not from here: a connection may be calling us, which is about to be freed */
        return;
    }
    for (uint32_t i = 0; i < x->n_slots; i++)
        next = min_of(next, slot_deadline(&x->slots[i]));
    if (x->stopping && !x->expired)
        next = min_of(next, x->deadline_ns);
    io_timer_set(x->timer, next);
}

static void on_timer(void *user)
{
    client_pump(user);
}

static void on_token(void *user)
{
    client_pump(user);
}

static void on_connection(void *user, struct client_connection *c, const char *failure)
{
    struct client *x = user;
    for (uint32_t i = 0; failure && i < x->n_slots; i++)
        if (x->slots[i].connection == c)
            slot_disconnected(&x->slots[i], failure);
    client_pump(x);
}

static void on_stale(void *user, const char *why)
{
    const struct client *x = user;
    if (x->on_event)
        x->on_event(x->user, &(struct client_event){.kind = CLIENT_STALE, .message = why});
}

/* ---- closing --------------------------------------------------------------------------------- */

static void free_connections(struct client *x)
{
    x->oauth2 = oauth2_free(x->oauth2);
    for (uint32_t k = 0; k < x->targets.n; k++) {
        for (uint32_t i = 0; x->slots && i < x->n_slots; i++)
            x->slots[i].own[k] = connection_free(x->slots[i].own[k]);
        x->targets.at[k].shared = connection_free(x->targets.at[k].shared);
    }
}

static void on_wake_closed(uv_handle_t *handle)
{
    struct client *x = handle->data;
    tell_lost(x);
    x->done(x->done_user);
}

static void close_down(struct client *x)
{
    pthread_mutex_lock(&x->wake_lock);
    x->wake_open = false;
    pthread_mutex_unlock(&x->wake_lock);
    free_connections(x);
    for (uint32_t i = 0; i < x->n_slots; i++)
        x->slots[i].connection = NULL;
    x->timer = io_timer_free(x->timer);
    uv_close((uv_handle_t *)&x->wake, on_wake_closed);
}

static void on_wake(uv_async_t *handle)
{
    struct client *x = handle->data;
    if (x->on_queued)
        x->on_queued(x->on_queued_user);
    tell_lost(x);
    if (x->closing && x->timer)
        close_down(x);
    else
        client_pump(x);
}

void client_shutdown(struct client *x, uint64_t deadline_ns, void (*done)(void *user), void *user)
{
    assert(!x->stopping);
    send_queue_close(&x->queue);
    x->stopping = true;
    x->deadline_ns = deadline_ns;
    x->done = done;
    x->done_user = user;
    x->throttled_ns = 0;
    for (uint32_t i = 0; i < x->n_slots; i++) {
        struct slot *s = &x->slots[i];
        if (s->state == SLOT_BACKOFF)
            s->at_ns = 0;
    }
    wake(x);
}

int64_t client_tls_expiry(const struct client *x)
{
    return x->tls ? tls_context_expiry(x->tls) : INT64_MAX;
}

/* ---- other threads --------------------------------------------------------------------------- */

struct send_queue *client_queue(struct client *x)
{
    return &x->queue;
}

enum coding client_coding(const struct client *x, enum coding received)
{
    return call_coding(x->targets.at[0].head.compression, received);
}

void client_push_newest(struct client *x, struct client_body *body, uint64_t items)
{
    send_queue_offer_newest(&x->queue, body, items);
}

void client_on_queued(struct client *x, void (*fn)(void *user), void *user)
{
    x->on_queued = fn;
    x->on_queued_user = user;
}

/* ---- making ---------------------------------------------------------------------------------- */

static int check_options(const struct client_options *o, struct error *e)
{
    if (o->queue.num_consumers < 1 || o->queue.num_consumers > CLIENT_CONSUMERS_MAX)
        return error_set(e, -EINVAL, "sending_queue.num_consumers must be from 1 to %u",
                         CLIENT_CONSUMERS_MAX);
    if (o->queue.queue_size < 1 || o->queue.queue_size > CLIENT_QUEUE_SIZE_MAX)
        return error_set(e, -EINVAL, "sending_queue.queue_size must be from 1 to %u", CLIENT_QUEUE_SIZE_MAX);
    if (o->queue.queue_bytes < 1)
        return error_set(e, -EINVAL, "sending_queue.queue_bytes must be above 0");
    /* The upper bounds keep sums of times and sizes from wrapping. */
    if (o->timeout_ns < 1 || o->timeout_ns > 86400ull * NSEC_PER_SEC)
        return error_set(e, -EINVAL, "timeout must be above 0 and at most a day");
    if (o->max_request_bytes < 1 || o->max_response_bytes < 1 || o->max_response_bytes > (1u << 30))
        return error_set(e, -EINVAL, "the largest request must be above 0, the largest response up to 1 GiB");
    return retry_options_check(&o->retry, e);
}

static int make_tls(struct client *x, const struct client_options *o, struct error *e)
{
    static const char *const grpc[] = {"h2", NULL}, *const http[] = {"h2", "http/1.1", NULL};
    bool is_any = false;
    for (uint32_t i = 0; i < x->targets.n; i++)
        is_any |= x->targets.at[i].endpoint.tls;
    if (!is_any)
        return 0;
    if (!!o->tls.cert_file != !!o->tls.key_file)
        return error_set(e, -EINVAL, "tls: cert_file and key_file belong together");
    if (o->tls.server_name && !(x->server_name = strdup(o->tls.server_name)))
        return -ENOMEM;
    struct tls_options tls = {
        .ca_file = o->tls.ca_file,
        .cert_file = o->tls.cert_file,
        .key_file = o->tls.key_file,
        .alpn = o->protocol == OTLP_GRPC ? grpc : http,
        .insecure_skip_verify = o->tls.insecure_skip_verify,
    };
    return tls_context_new(&x->tls, &tls, e);
}

/* The connections to one target: of all slots, or of each. */
static int make_connections(struct client *x, const struct client_options *o, uint32_t k)
{
    struct target *target = &x->targets.at[k];
    struct connection_options options = {
        .loop = x->loop,
        .endpoint = &target->endpoint,
        .proxy = x->proxy.host ? &x->proxy : NULL,
        .proxy_authorization = x->proxy_authorization,
        .age_max_ns = o->connection_age_ns,
        .tls = target->endpoint.tls ? x->tls : NULL,
        .server_name = x->server_name,
        .http2 = o->protocol == OTLP_GRPC,
        .response_max = o->max_response_bytes + RESPONSE_OVERHEAD,
        .on_stale = on_stale,
    };
    if (options.http2 && !(target->shared = connection_new(&options, on_connection, x)))
        return -ENOMEM;
    for (uint32_t i = 0; !options.http2 && i < x->n_slots; i++)
        if (!(x->slots[i].own[k] = connection_new(&options, on_connection, x)))
            return -ENOMEM;
    return 0;
}

static int make_slots(struct client *x, const struct client_options *o)
{
    x->slots = calloc(o->queue.num_consumers, sizeof *x->slots);
    if (!x->slots)
        return -ENOMEM;
    x->n_slots = o->queue.num_consumers;
    for (uint32_t i = 0; i < x->n_slots; i++)
        x->slots[i].client = x;
    int r = 0;
    for (uint32_t k = 0; r == 0 && k < x->targets.n; k++)
        r = make_connections(x, o, k);
    return r;
}

/* Everything but the queue's lock and the wake handle, which come last. */
static void release_parts(struct client *x)
{
    free_connections(x);
    for (uint32_t i = 0; i < x->n_slots; i++) {
        coding_encoder_free(x->slots[i].encoder);
        buffer_release(&x->slots[i].wire);
    }
    free(x->slots);
    io_timer_free(x->timer);
    coding_decoder_free(x->decoder);
    tls_context_free(x->tls);
    for (uint32_t i = 0; i < x->targets.n; i++) {
        call_head_release(&x->targets.at[i].head);
        endpoint_release(&x->targets.at[i].endpoint);
    }
    endpoint_release(&x->proxy);
    free(x->proxy_authorization);
    free(x->server_name);
    send_queue_release(&x->queue);
}

static int make_target(struct client *x, const struct client_options *o, const char *endpoint,
                       uint32_t weight, struct error *e)
{
    if (x->targets.n == CLIENT_ENDPOINTS_MAX)
        return error_set(e, -EINVAL, "more than %u endpoints", CLIENT_ENDPOINTS_MAX);
    struct target *t = &x->targets.at[x->targets.n++];
    t->weight = max_of(weight, 1u);
    int r = endpoint_parse(&t->endpoint, endpoint, o->protocol == OTLP_GRPC ? 4317 : 4318, e);
    return r < 0 ? r : call_head_init(&t->head, o, &t->endpoint, e);
}

static int make_parts(struct client *x, const struct client_options *o, struct error *e)
{
    int r = 0;
    x->targets.failover = o->failover;
    for (uint32_t i = 0; r == 0 && i <= o->n_others; i++)
        r = i == 0 ? make_target(x, o, o->endpoint, o->weight, e)
                   : make_target(x, o, o->others[i - 1].endpoint, o->others[i - 1].weight, e);
    if (r == 0 && o->proxy_url)
        r = endpoint_parse_proxy(&x->proxy, o->proxy_url, &x->proxy_authorization, e);
    if (r == 0)
        r = make_tls(x, o, e);
    if (r == 0)
        r = send_queue_init(&x->queue, o->queue.queue_size, o->queue.queue_bytes, o->queue.budget);
    x->queue.request_max = o->max_request_bytes;
    x->queue.came = wake;
    x->queue.user = x;
    if (r == 0 && !(x->decoder = coding_decoder_new()))
        r = -ENOMEM;
    if (r == 0 && !(x->timer = io_timer_new(x->loop, on_timer, x)))
        r = -ENOMEM;
    if (r == 0 && o->oauth2.token_url)
        r = oauth2_new(&x->oauth2, x->loop, &o->oauth2, o->timeout_ns, on_token, x, e);
    if (r == 0)
        r = make_slots(x, o);
    if (r == 0 && (r = uv_async_init(io_loop_uv(x->loop), &x->wake, on_wake)) < 0)
        error_set(e, r, "%s", uv_strerror(r));
    return r;
}

int client_new(struct client **ret, struct io_loop *loop, const struct client_options *options,
               client_event_fn on_event, void *user, struct error *e)
{
    error_clear(e);
    int r = check_options(options, e);
    if (r < 0)
        return r;
    struct client *x = calloc(1, sizeof *x);
    if (!x)
        return error_set(e, -ENOMEM, "out of memory");
    x->loop = loop;
    x->on_event = on_event;
    x->on_answer = options->dialect.on_answer;
    x->user = user;
    x->retry = options->retry;
    x->timeout_ns = options->timeout_ns;
    x->compression_level = options->compression_level;
    rng_seed(&x->rng, hash_mix(hash_seed(), clock_monotonic()));
    r = make_parts(x, options, e);
    if (r < 0) {
        release_parts(x);
        free(x);
        return error_memory(e, r);
    }
    x->wake.data = x;
    pthread_mutex_init(&x->wake_lock, NULL);
    x->wake_open = true;
    *ret = x;
    return 0;
}

struct client *client_free(struct client *x)
{
    if (!x)
        return NULL;
    release_parts(x);
    pthread_mutex_destroy(&x->wake_lock);
    free(x);
    return NULL;
}
