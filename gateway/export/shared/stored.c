/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/export/shared/stored.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/export/shared/dead.h"
#include "gateway/stats/stats.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "proto/base/macros.h"
#include "proto/base/promise.h"
#include "proto/base/thread.h"
#include "proto/base/vec.h"
#include "proto/io/loop.h"
#include "proto/io/timer.h"
#include "proto/journal/journal.h"

/* When nobody else has the disk looked at again. */
#define LOOK_AGAIN_NS (NSEC_PER_SEC / 2)

/* A destination that answers within that spares the disk. Producers wait so much longer for one that does
 * not. */
#define GATHER_NS (20 * NSEC_PER_MSEC)

struct stored {
    struct journal *journal;
    struct sender sender;
    struct outcome *outcome;
    struct io_loop *loop;
    struct dead_letters *dead; /* NULL: they are not kept */
    char *name;
    enum journal_kind kind;
    uint64_t queue_bytes;
    size_t request_max;

    pthread_mutex_t lock; /* so that numbers come to the sender in their order */
    bool is_spilling;     /* what is behind `cursor` is on disk alone */
    uint64_t cursor, last;
    VEC(uint64_t) unsafe; /* given to the sender, and no commit took them */

    /* The loop's. */
    struct io_post post;
    struct io_timer *timer;
    struct journal_read read;
    struct io_post has_read;
    bool is_reading, is_stopping;
    uint64_t read_last; /* `last` when the reading began */
    struct client_body *held;
    uint64_t held_number, held_items;
    void (*done)(void *user);
    void *done_user;
    uint64_t deadline_ns;     /* of the end: then the disk is not waited for any more */
    bool is_ending, was_left; /* all is said to the journal; it was left to itself */
    atomic_bool is_over;      /* it has written all */
    /* From the journal's thread, told from the loop. */
    atomic_uint_fast64_t lost, damaged, expired, set_aside, failures;
    atomic_bool is_open, is_failing;

    struct log_limit told[JOURNAL_OVER + 1]; /* by kind of event */
};

/* ---- what a record says of its body ---- */

/* In `info`: the bytes that come out of the coding, in which it came, in which it is. */
static uint64_t info_of(const struct client_body *b)
{
    return (uint64_t)b->n_plain << 16 | (uint64_t)b->received << 8 | b->coding;
}

/* Takes the bytes over. NULL: memory is out. */
static struct client_body *body_of(struct journal_read *r)
{
    size_t n;
    uint8_t *p = buffer_take(&r->body, &n);
    const enum coding coding = r->info & 0xff, received = r->info >> 8 & 0xff;
    if (!p)
        p = malloc(1);
    if (!p)
        return NULL;
    return client_body_received(p, n, coding, r->info >> 16, received);
}

/* ---- pushing: any thread ---- */

struct pushed {
    struct stored *s;
    struct client_body *body;
    struct promise *safe; /* of profiles; NULL: nobody waits */
    uint64_t items, number;
    bool is_metrics, is_direct;
};

/* To the sender if it is its turn, else it stays on disk. Under the lock. */
static bool hand_on(struct stored *s, struct client_body *body, uint64_t number, uint64_t items)
{
    if (!s->is_spilling && send_queue_reserve(s->sender.queue, body->n))
        return send_queue_offer_tagged(s->sender.queue, body, body->n, items, number);
    if (!s->is_spilling) {
        s->is_spilling = true;
        s->cursor = number - 1;
    }
    s->last = max_of(s->last, number);
    return false;
}

/* The commit failed: what the sender has is lost if the process ends, the rest now; metrics are worth a place
 * in memory. */
static void not_on_disk(struct stored *s, const struct pushed *p)
{
    if (p->is_metrics) {
        send_queue_offer_newest(s->sender.queue, p->body, p->items);
        return;
    }
    pthread_mutex_lock(&s->lock);
    bool is_kept = p->is_direct && vec_append(&s->unsafe, p->number) == 0;
    pthread_mutex_unlock(&s->lock);
    if (!is_kept)
        s->lost += p->items;
}

static void on_disk(void *arg, int r)
{
    struct pushed *p = arg;
    struct stored *s = p->s;
    pthread_mutex_lock(&s->lock); /* whoever pushed it has said what it is by now */
    if (r == 0 && p->is_metrics)
        hand_on(s, p->body, p->number, p->items);
    pthread_mutex_unlock(&s->lock);
    if (r < 0)
        not_on_disk(s, p);
    if (p->safe)
        promise_keep(p->safe, r);
    client_body_unref(p->body);
    free(p);
    io_loop_post_in(s->loop, &s->post);
}

bool stored_reserve(struct stored *s, size_t n)
{
    return journal_reserve(s->journal, n);
}

void stored_cancel(struct stored *s, size_t n)
{
    journal_cancel(s->journal, n);
}

static struct journal_record record_of(const struct stored *s, const struct client_body *b, uint64_t items)
{
    return (struct journal_record){s->kind, items, info_of(b), client_body_bytes(b)};
}

void stored_push(struct stored *s, struct client_body *body, size_t reserved, uint64_t items,
                 struct promise *safe)
{
    struct pushed *p = malloc(sizeof *p);
    if (!p) {
        s->lost += items;
        journal_cancel(s->journal, reserved);
        if (safe)
            promise_keep(safe, -ENOMEM);
        return;
    }
    *p = (struct pushed){.s = s, .body = client_body_ref(body), .safe = safe, .items = items};
    const struct journal_record record = record_of(s, body, items);
    autolock(&s->lock);
    p->number = journal_add(s->journal, &record, reserved, on_disk, p);
    p->is_direct = hand_on(s, body, p->number, items);
}

bool stored_push_metrics(struct stored *s, struct client_body *body, uint64_t points)
{
    if (!journal_reserve(s->journal, body->n))
        return false;
    struct pushed *p = malloc(sizeof *p);
    if (!p) {
        journal_cancel(s->journal, body->n);
        return false;
    }
    *p = (struct pushed){.s = s, .body = client_body_ref(body), .items = points, .is_metrics = true};
    const struct journal_record record = record_of(s, body, points);
    autolock(&s->lock);
    p->number = journal_add(s->journal, &record, body->n, on_disk, p);
    return true;
}

void stored_window_ends(struct stored *s)
{
    journal_mark(s->journal, clock_realtime());
}

size_t stored_bytes(struct stored *s)
{
    return journal_counts(s->journal).bytes;
}

/* ---- reading back: the loop ---- */

static void feed(struct stored *s);

static void count_lost(struct stored *s)
{
    const uint64_t lost = atomic_exchange(&s->lost, 0), damaged = atomic_exchange(&s->damaged, 0),
                   expired = atomic_exchange(&s->expired, 0), set_aside = atomic_exchange(&s->set_aside, 0);
    if (lost > 0)
        outcome_lost(s->outcome, 1, lost, "the storage took nothing");
    if (damaged > 0)
        outcome_lost(s->outcome, 1, damaged, "damaged on disk");
    if (expired > 0)
        outcome_lost(s->outcome, 1, expired, "older than sending_queue.storage_age");
    stats_add(s->outcome->stats, STATS_STORAGE_DAMAGED, (damaged > 0) + set_aside);
    outcome_storage(s->outcome, s->is_failing, atomic_exchange(&s->failures, 0));
    stats_add(s->outcome->stats, STATS_DEAD_LETTERS, dead_letters_kept(s->dead));
}

/* True: it is the sender's, or lost. */
static bool push_held(struct stored *s)
{
    if (s->held->n_plain > s->request_max) {
        outcome_lost(s->outcome, 1, s->held_items, "larger than max_request_bytes");
        journal_remove(s->journal, s->held_number);
    } else if (!send_queue_reserve(s->sender.queue, s->held->n)) {
        return false;
    } else {
        send_queue_offer_tagged(s->sender.queue, s->held, s->held->n, s->held_items, s->held_number);
    }
    s->held = client_body_unref(s->held);
    return true;
}

/* The answer of the journal. */
static void take_read(struct stored *s)
{
    if (s->read.number > 0) {
        s->held = body_of(&s->read);
        s->held_number = s->read.number;
        s->held_items = s->read.items;
        if (s->held) /* else again */
            s->cursor = s->read.number;
    } else if (!s->read.failed) {
        s->cursor = s->read.after; /* behind damaged ones, which are not found again */
        pthread_mutex_lock(&s->lock);
        s->is_spilling = s->last != s->read_last;
        pthread_mutex_unlock(&s->lock);
    }
}

static void end(struct stored *s);

static void on_has_read(void *arg)
{
    struct stored *s = arg;
    if (s->was_left)
        return;
    s->is_reading = false;
    if (s->is_stopping) {
        buffer_release(&s->read.body);
        if (s->done)
            end(s);
        return;
    }
    const bool failed = s->read.failed;
    take_read(s);
    buffer_release(&s->read.body);
    if (failed)
        io_timer_set(s->timer, io_loop_now(s->loop) + LOOK_AGAIN_NS);
    else
        feed(s);
}

static void on_read(struct journal_read *r)
{
    struct stored *s = container_of(r, struct stored, read);
    io_loop_post_in(s->loop, &s->has_read);
}

static void feed(struct stored *s)
{
    if (s->is_stopping || s->is_reading)
        return;
    bool has_room = !s->held || push_held(s);
    pthread_mutex_lock(&s->lock);
    const bool is_spilling = s->is_spilling;
    const uint64_t after = s->cursor;
    s->read_last = s->last;
    pthread_mutex_unlock(&s->lock);
    if (!is_spilling)
        return;
    if (!has_room || send_queue_bytes(s->sender.queue) > s->queue_bytes / 2) {
        io_timer_set(s->timer, io_loop_now(s->loop) + LOOK_AGAIN_NS);
        return;
    }
    s->is_reading = true;
    s->read = (struct journal_read){.kind = s->kind, .after = after, .done = on_read, .body = BUFFER_INIT(0)};
    journal_read(s->journal, &s->read);
}

static void close_journal(struct stored *s);

static void on_post(void *arg)
{
    struct stored *s = arg;
    if (s->was_left)
        return;
    if (s->is_ending && s->is_over) {
        close_journal(s);
        return;
    }
    if (!s->done)
        count_lost(s);
    outcome_queued(s->outcome, stored_bytes(s));
    feed(s);
}

/* The disk does not answer: the process ends without it. What it was given may be looked at for as long. */
static void leave(struct stored *s)
{
    void (*done)(void *user) = s->done;
    log_error("the storage does not answer: what is not on disk yet is lost destination=%s", s->name);
    s->was_left = true;
    journal_leave(s->journal);
    io_timer_free(s->timer);
    done(s->done_user);
}

static void on_time(void *user)
{
    struct stored *s = user;
    if (!s->done)
        feed(s);
    else if (clock_monotonic() >= s->deadline_ns)
        leave(s);
    else
        io_timer_set(s->timer, s->deadline_ns);
}

/* ---- events: the loop ---- */

static bool is_unsafe(struct stored *s, uint64_t number)
{
    bool found = false;
    autolock(&s->lock);
    for (uint32_t i = 0; i < s->unsafe.n && !found; i++)
        if ((found = s->unsafe.p[i] == number))
            s->unsafe.p[i] = vec_pop(&s->unsafe);
    return found;
}

void stored_event(struct stored *s, const struct client_event *event)
{
    bool unsafe = event->tag > 0 && event->kind != CLIENT_RETRIED && is_unsafe(s, event->tag);
    if (event->kind == CLIENT_SHUT_DOWN && event->tag > 0 && !unsafe)
        return; /* it stays on disk */
    outcome_event(s->outcome, event);
    if (event->tag == 0 || event->kind == CLIENT_RETRIED || event->kind == CLIENT_SHUT_DOWN)
        return;
    if (!client_event_is_loss(event->kind) || !s->dead || unsafe ||
        dead_letters_keep(s->dead, s->journal, event->tag) < 0)
        journal_remove(s->journal, event->tag);
    feed(s);
}

/* ---- life ---- */

static void on_journal(void *user, const struct journal_event *e)
{
    struct stored *s = user;
    struct log_limit *limit = &s->told[e->kind];
    switch (e->kind) {
    case JOURNAL_SET_ASIDE:
        s->set_aside++;
        log_error(
            "the storage was damaged: it is set aside, and what can be read of it goes on destination=%s "
            "as=%s records=%" PRIu64,
            s->name, e->text, e->records);
        break;
    case JOURNAL_DAMAGED:
        s->damaged += e->items;
        log_write_limited(limit, LOG_LEVEL_ERROR, "a stored request is damaged destination=%s items=%" PRIu64,
                          s->name, e->items);
        break;
    case JOURNAL_EXPIRED: s->expired += e->items; break;
    case JOURNAL_EVICTED: break; /* not asked for */
    case JOURNAL_PUT_BACK:
        log_write_limited(limit, LOG_LEVEL_ERROR,
                          "the storage was removed: what was in it is written anew destination=%s file=%s "
                          "records=%" PRIu64,
                          s->name, e->text, e->records);
        break;
    case JOURNAL_FAILED:
        s->failures++;
        s->is_failing = true;
        log_write_limited(limit, LOG_LEVEL_ERROR, "the storage takes nothing destination=%s error=\"%s\"",
                          s->name, e->text);
        break;
    case JOURNAL_DELETED: break; /* the gauge follows */
    case JOURNAL_OVER: s->is_over = true; break;
    case JOURNAL_RECOVERED:
        s->is_failing = false;
        log_write_limited(limit, LOG_LEVEL_INFO, "the storage takes again destination=%s", s->name);
        break;
    }
    if (s->is_open)
        io_loop_post_in(s->loop, &s->post);
}

/* A process before this one ended in the middle of a window: what it had counted there is lost. */
static void count_lost_window(struct stored *s, uint64_t mark, uint64_t window_ns)
{
    const uint64_t now = clock_realtime(), gone = now > mark ? now - mark : 0;
    const uint64_t seconds = (min_of(gone, window_ns) + NSEC_PER_SEC - 1) / NSEC_PER_SEC;
    log_warn(
        "the last end was not a stop: up to so many seconds of metrics are lost destination=%s seconds=%" PRIu64,
        s->name, seconds);
    stats_add(s->outcome->stats, STATS_LOST_SECONDS, seconds);
}

static void release(struct stored *s)
{
    io_timer_free(s->timer);
    s->journal = journal_close(s->journal);
    s->dead = dead_letters_free(s->dead);
    client_body_unref(s->held);
    vec_release(&s->unsafe);
    pthread_mutex_destroy(&s->lock);
    free(s->name);
    free(s);
}

static int open_journal(struct stored *s, const struct stored_options *o, const struct export_context *c,
                        struct error *e)
{
    const bool metrics = s->kind == JOURNAL_METRICS;
    char name[256];
    snprintf(name, sizeof name, "%s.%s", c->name, metrics ? "metrics" : "profiles");
    for (char *p = name; (p = strchr(p, '/'));)
        *p = '-';
    const struct journal_options journal = {
        .folder = o->folder,
        .name = name,
        .bytes_max = o->bytes_max,
        .waiting_max = STORED_WAITING_MAX,
        .age_max_ns = o->age_max_ns,
        .gather_ns = metrics ? 0 : GATHER_NS,
        .budget = c->budget,
        .tell = on_journal,
        .user = s,
    };
    int r = journal_open(&s->journal, &journal, e);
    if (r == 0 && o->keeps_dead)
        r = dead_letters_open(&s->dead, o->folder, name, o->bytes_max, e);
    if (r < 0)
        return r;
    const struct journal_counts found = journal_counts(s->journal);
    s->is_spilling = found.records > 0;
    s->last = found.last;
    if (found.records > 0)
        log_info("sending what an earlier process left destination=%s requests=%" PRIu64 " bytes=%" PRIu64,
                 c->name, found.records, found.bytes);
    if (found.unknown > 0)
        log_warn(
            "the storage has records that this program does not know; they stay destination=%s records=%" PRIu64,
            c->name, found.unknown);
    if (metrics && found.mark > 0)
        count_lost_window(s, found.mark, c->window_ns);
    if (metrics)
        stored_window_ends(s);
    return 0;
}

int stored_open(struct stored **ret, const struct stored_options *o, const struct export_context *c,
                struct sender sender, struct outcome *outcome, struct error *e)
{
    struct stored *s = calloc(1, sizeof *s);
    if (!s)
        return error_set(e, -ENOMEM, "out of memory");
    pthread_mutex_init(&s->lock, NULL);
    s->sender = sender;
    s->outcome = outcome;
    s->loop = c->loop;
    s->kind = c->signal == CONFIG_TAKES_METRICS ? JOURNAL_METRICS : JOURNAL_PROFILES;
    s->queue_bytes = o->queue_bytes;
    s->request_max = o->request_max;
    s->post = (struct io_post){.fn = on_post, .arg = s};
    s->has_read = (struct io_post){.fn = on_has_read, .arg = s};
    s->name = strdup(c->name);
    s->timer = io_timer_new(c->loop, on_time, s);
    int r = s->name && s->timer ? open_journal(s, o, c, e) : error_set(e, -ENOMEM, "out of memory");
    if (r < 0) {
        release(s);
        return r;
    }
    s->is_open = true;
    io_loop_post_in(s->loop, &s->post);
    *ret = s;
    return 0;
}

/* Nothing is under way any more. The posts that the journal's last commit made are waited for by one more
 * turn of the loop. */
static void on_ended(void *arg)
{
    struct stored *s = arg;
    void (*done)(void *user) = s->done;
    void *user = s->done_user;
    count_lost(s);
    release(s);
    done(user);
}

static void close_journal(struct stored *s)
{
    const struct journal_counts left = journal_counts(s->journal);
    if (left.records > 0)
        log_info("stays on disk for the next start destination=%s requests=%" PRIu64 " bytes=%" PRIu64,
                 s->outcome->name, left.records, left.bytes);
    s->journal = journal_close(s->journal);
    s->post.fn = on_ended; /* also where it waits already */
    io_loop_post_in(s->loop, &s->post);
}

static void end(struct stored *s)
{
    if (s->kind == JOURNAL_METRICS)
        journal_mark(s->journal, 0);
    s->is_ending = true;
    journal_end(s->journal);
}

void stored_drain(struct stored *s, uint64_t deadline_ns, void (*done)(void *user), void *user)
{
    s->is_stopping = true;
    s->deadline_ns = deadline_ns;
    s->done = done;
    s->done_user = user;
    io_timer_set(s->timer, deadline_ns);
    if (!s->is_reading)
        end(s);
}
