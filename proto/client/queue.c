/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/client/queue.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "proto/base/thread.h"

int send_queue_init(struct send_queue *q, uint32_t max_requests, size_t max_bytes, struct budget *budget)
{
    struct send_entry *entries = calloc(max_requests, sizeof *entries);
    if (!entries)
        return -ENOMEM;
    *q = (struct send_queue){.budget = budget,
                             .max_bytes = max_bytes,
                             .max_requests = max_requests,
                             .entries = entries,
                             .request_max = SIZE_MAX};
    STAILQ_INIT(&q->unused);
    STAILQ_INIT(&q->waiting);
    for (uint32_t i = 0; i < max_requests; i++)
        STAILQ_INSERT_TAIL(&q->unused, &entries[i], next);
    pthread_mutex_init(&q->lock, NULL);
    return 0;
}

void send_queue_release(struct send_queue *q)
{
    if (!q->entries)
        return;
    struct send_entry *entry;
    STAILQ_FOREACH (entry, &q->waiting, next)
        client_body_unref(entry->body);
    budget_refund(q->budget, q->bytes);
    free(q->entries);
    pthread_mutex_destroy(&q->lock);
    q->entries = NULL;
}

static bool take_room(struct send_queue *q, size_t n)
{
    if (q->closed || q->requests >= q->max_requests || n > q->max_bytes - q->bytes)
        return false;
    if (!budget_charge(q->budget, n))
        return false;
    q->requests++;
    q->bytes += n;
    return true;
}

/* Whether n bytes would not fit even if nothing else were charged. */
static bool exceeds(const struct budget *b, size_t n)
{
    while (b && n <= b->limit)
        b = b->parent;
    return b != NULL;
}

static void give_room(struct send_queue *q, size_t n)
{
    assert(q->requests > 0 && q->bytes >= n);
    q->requests--;
    q->bytes -= n;
    budget_refund(q->budget, n);
}

/* Puts the body into a free entry; there is one for each request that has room. */
static void append(struct send_queue *q, struct client_body *body, uint64_t items, uint64_t tag)
{
    struct send_entry *entry = STAILQ_FIRST(&q->unused);
    assert(entry);
    STAILQ_REMOVE_HEAD(&q->unused, next);
    *entry = (struct send_entry){.body = body, .charged = body->n, .items = items, .tag = tag};
    STAILQ_INSERT_TAIL(&q->waiting, entry, next);
}

static struct send_entry *pop_locked(struct send_queue *q)
{
    struct send_entry *entry = STAILQ_FIRST(&q->waiting);
    if (entry)
        STAILQ_REMOVE_HEAD(&q->waiting, next);
    return entry;
}

static void recycle(struct send_queue *q, struct send_entry *entry)
{
    give_room(q, entry->charged);
    *entry = (struct send_entry){0};
    STAILQ_INSERT_HEAD(&q->unused, entry, next);
}

bool send_queue_reserve(struct send_queue *q, size_t n)
{
    autolock(&q->lock);
    return take_room(q, n);
}

void send_queue_cancel(struct send_queue *q, size_t n)
{
    autolock(&q->lock);
    give_room(q, n);
}

bool send_queue_push(struct send_queue *q, struct client_body *body, size_t reserved, uint64_t items,
                     uint64_t tag)
{
    assert(body->n <= reserved);
    pthread_mutex_lock(&q->lock);
    bool open = !q->closed;
    if (open) {
        q->bytes -= reserved - body->n;
        budget_refund(q->budget, reserved - body->n);
        append(q, body, items, tag);
    } else {
        give_room(q, reserved);
    }
    pthread_mutex_unlock(&q->lock);
    if (!open)
        client_body_unref(body);
    return open;
}

bool send_queue_push_newest(struct send_queue *q, struct client_body *body, uint64_t items,
                            struct send_evicted *ret)
{
    struct client_body *thrown[16]; /* given back outside the lock, some at a time */
    bool pushed = false, more = true;
    *ret = (struct send_evicted){0};
    while (more) {
        uint32_t n = 0;
        pthread_mutex_lock(&q->lock);
        for (more = false;;) {
            pushed = take_room(q, body->n);
            if (pushed) {
                append(q, body, items, 0);
                break;
            }
            /* A body larger than the whole queue, or than all memory there is, empties nothing. */
            if (q->closed || body->n > q->max_bytes || exceeds(q->budget, body->n) ||
                STAILQ_EMPTY(&q->waiting))
                break;
            if (n == sizeof thrown / sizeof *thrown) {
                more = true;
                break;
            }
            struct send_entry *oldest = pop_locked(q);
            thrown[n++] = oldest->body;
            ret->requests++;
            ret->items += oldest->items;
            recycle(q, oldest);
        }
        pthread_mutex_unlock(&q->lock);
        for (uint32_t i = 0; i < n; i++)
            client_body_unref(thrown[i]);
    }
    if (!pushed)
        client_body_unref(body);
    return pushed;
}

/* ---- offers ---- */

/* The loop looks at the requests first: who sees one sees its items. */
static void note_lost(struct send_queue *q, enum client_event_kind kind, uint64_t requests, uint64_t items)
{
    atomic_fetch_add(&q->lost[kind].items, items);
    atomic_fetch_add(&q->lost[kind].requests, requests);
}

static void came(struct send_queue *q)
{
    if (q->came)
        q->came(q->user);
}

static bool is_too_large(const struct send_queue *q, const struct client_body *body)
{
    return body->n_plain > q->request_max;
}

static bool take(struct send_queue *q, struct client_body *body, size_t reserved, uint64_t items,
                 uint64_t tag)
{
    if (!is_too_large(q, body))
        return send_queue_push(q, client_body_ref(body), reserved, items, tag);
    send_queue_cancel(q, reserved);
    return false;
}

void send_queue_offer(struct send_queue *q, struct client_body *body, size_t reserved, uint64_t items)
{
    if (!take(q, body, reserved, items, 0))
        note_lost(q, is_too_large(q, body) ? CLIENT_TOO_LARGE : CLIENT_SHUT_DOWN, 1, items);
    came(q);
}

bool send_queue_offer_tagged(struct send_queue *q, struct client_body *body, size_t reserved, uint64_t items,
                             uint64_t tag)
{
    const bool is_taken = take(q, body, reserved, items, tag);
    came(q);
    return is_taken;
}

void send_queue_offer_newest(struct send_queue *q, struct client_body *body, uint64_t items)
{
    struct send_evicted evicted;
    if (is_too_large(q, body)) {
        note_lost(q, CLIENT_TOO_LARGE, 1, items);
    } else {
        const bool is_pushed = send_queue_push_newest(q, client_body_ref(body), items, &evicted);
        note_lost(q, CLIENT_EVICTED, evicted.requests + !is_pushed, evicted.items + (is_pushed ? 0 : items));
    }
    came(q);
}

void send_queue_tell_lost(struct send_queue *q, const char *const why[CLIENT_SHUT_DOWN + 1],
                          client_event_fn on_event, void *user)
{
    for (int kind = CLIENT_REFUSED; kind <= CLIENT_SHUT_DOWN; kind++) {
        const uint64_t requests = atomic_exchange(&q->lost[kind].requests, 0);
        if (requests == 0)
            continue;
        const struct client_event event = {.kind = (enum client_event_kind)kind,
                                           .requests = requests,
                                           .items = atomic_exchange(&q->lost[kind].items, 0),
                                           .message = why[kind]};
        if (on_event)
            on_event(user, &event);
    }
}

struct send_entry *send_queue_pop(struct send_queue *q)
{
    autolock(&q->lock);
    return pop_locked(q);
}

void send_queue_finish(struct send_queue *q, struct send_entry *entry)
{
    struct client_body *body = entry->body;
    pthread_mutex_lock(&q->lock);
    recycle(q, entry);
    pthread_mutex_unlock(&q->lock);
    client_body_unref(body);
}

void send_queue_close(struct send_queue *q)
{
    autolock(&q->lock);
    q->closed = true;
}

size_t send_queue_bytes(struct send_queue *q)
{
    autolock(&q->lock);
    return q->bytes;
}
