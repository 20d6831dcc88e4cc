/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/deliver/delivery.h"

#include <errno.h>

#include "proto/base/log.h"

/* Attempts while the receiver is away: the first soon, later ones twice a minute. */
#define RETRY_FIRST_NS 1000000000u

static int send(struct delivery *d, struct buffer *out, uint64_t items)
{
    size_t n;
    uint8_t *bytes = buffer_take(out, &n);
    struct client_body *body = client_body_new(bytes, n);
    if (!body) {
        d->counts.lost += items;
        return -ENOMEM;
    }
    d->counts.requests++;
    client_push_newest(d->client, body, items);
    client_body_unref(body);
    return 0;
}

/* Sends the oldest on disk, if none is under way. */
static void pump(struct delivery *d)
{
    struct buffer out = {0};
    if (!d->spool || d->underway.number || d->is_ending)
        return;
    struct spool_entry next = spool_oldest(d->spool, &out);
    if (next.number && send(d, &out, next.items) == 0)
        d->underway = next;
    buffer_release(&out);
}

static void settled(struct delivery *d)
{
    if (!d->spool)
        return;
    spool_done(d->spool, d->underway.number);
    d->underway.number = 0;
    pump(d);
}

/* What became of a request. */
static void on_event(void *user, const struct client_event *event)
{
    struct delivery *d = user;
    const char *message = event->message ? event->message : "";
    if (event->kind == CLIENT_SENT) {
        d->counts.sent += event->items;
        settled(d);
    } else if (event->kind == CLIENT_PARTIAL) {
        d->counts.sent += event->items;
        d->counts.rejected += event->rejected;
        log_limited(LOG_LEVEL_WARN, "the receiver rejected part of a request: %s", message);
        settled(d);
    } else if (event->kind == CLIENT_RETRIED) {
        d->counts.retries++;
        log_limited(LOG_LEVEL_WARN, "sending failed and will be repeated: %s", message);
    } else if (event->kind == CLIENT_SHUT_DOWN && d->spool) {
        log_info("%llu samples stay in the spool for the next start", (unsigned long long)event->items);
    } else {
        d->counts.lost += event->items;
        log_limited(LOG_LEVEL_ERROR, "%llu samples could not be delivered: %s",
                    (unsigned long long)event->items, message);
        settled(d);
    }
}

int delivery_open(struct delivery *d, struct io_loop *loop, const struct client_options *options,
                  struct spool *spool, struct error *e)
{
    struct client_options x = *options;
    x.retry.max_elapsed_ns = 0;
    x.retry.initial_interval_ns = RETRY_FIRST_NS;
    *d = (struct delivery){.spool = spool};
    int r = client_new(&d->client, loop, &x, on_event, d, e);
    if (r == 0)
        pump(d); /* what an earlier process left */
    return r;
}

int delivery_push(struct delivery *d, struct buffer *out, uint64_t items)
{
    if (!d->spool)
        return send(d, out, items);
    int r = spool_add(d->spool, bytes_of(out->p, out->n), items);
    pump(d);
    return r;
}

bool delivery_is_done(const struct delivery *d)
{
    return !d->spool || spool_counts(d->spool).files == 0;
}

void delivery_shutdown(struct delivery *d, uint64_t deadline_ns, void (*done)(void *user), void *user)
{
    d->is_ending = true;
    client_shutdown(d->client, deadline_ns, done, user);
}

void delivery_close(struct delivery *d)
{
    d->client = client_free(d->client);
    d->spool = spool_close(d->spool);
}
