/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/deliver/delivery.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>

#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "proto/base/macros.h"
#include "proto/io/timer.h"

/* Attempts while the receiver is away: the first soon, later ones twice a minute. */
#define RETRY_FIRST_NS 1000000000u

/* Windows that wait for the disk. */
#define WAITING_MAX (8u << 20)

#define READ_AGAIN_NS (NSEC_PER_SEC / 2)

/* A disk that is only slow answers within that. */
#define DISK_NS (5 * (uint64_t)NSEC_PER_SEC)

static int send(struct delivery *d, struct buffer *out, uint64_t items)
{
    size_t n;
    uint8_t *bytes = buffer_take(out, &n);
    struct client_body *body = client_body_new(bytes, n);
    if (!body) {
        d->counts.lost += items;
        log_limited(LOG_LEVEL_ERROR, "%llu samples could not be queued: out of memory",
                    (unsigned long long)items);
        return -ENOMEM;
    }
    d->counts.requests++;
    client_push_newest(d->client, body, items);
    client_body_unref(body);
    return 0;
}

/* ---- the spool ---- */

static void on_read(struct journal_read *r)
{
    struct delivery *d = container_of(r, struct delivery, read);
    d->has_read = true;
    io_loop_post_in(d->loop, &d->post);
}

/* Asks for the oldest on disk, if none is under way. */
static void pump(struct delivery *d)
{
    if (d->underway || d->is_reading || d->is_ending || !d->spool)
        return;
    d->is_reading = true;
    d->asked_last = journal_counts(d->spool).last;
    d->read = (struct journal_read){
        .kind = JOURNAL_PROFILES, .after = d->settled, .done = on_read, .body = BUFFER_INIT(0)};
    journal_read(d->spool, &d->read);
}

static void settled(struct delivery *d)
{
    if (!d->spool || d->underway == 0)
        return;
    journal_remove(d->spool, d->underway);
    d->settled = d->underway;
    d->underway = 0;
    pump(d);
}

static void take_read(struct delivery *d)
{
    struct buffer body = d->read.body; /* the next question has its own */
    d->is_reading = false;
    if (d->is_ending) {
        buffer_release(&body);
        return;
    }
    if (d->read.number > 0) {
        d->underway = d->read.number;
        if (send(d, &body, d->read.items) < 0)
            settled(d);
    } else if (d->read.failed) {
        io_timer_set(d->timer, io_loop_now(d->loop) + READ_AGAIN_NS);
    } else if (journal_counts(d->spool).last != d->asked_last) {
        pump(d); /* what came meanwhile */
    }
    buffer_release(&body);
}

/* All that could be is on disk; what is not is in `unwritten`. */
static void end(struct delivery *d)
{
    const struct spool_counts kept = delivery_spool(d);
    d->timer = io_timer_free(d->timer);
    if (kept.requests > 0)
        log_info("%llu requests stay in the spool for the next start", (unsigned long long)kept.requests);
    d->done(d->done_user);
}

/* The disk does not answer: this process ends without it. */
static void leave(struct delivery *d)
{
    journal_leave(d->spool);
    d->was_left = true;
    const uint64_t lost = d->unwritten;
    d->counts.lost += lost;
    log_error("the spool does not answer: %llu samples that were not on disk yet are lost",
              (unsigned long long)lost);
    end(d);
}

static void on_post(void *arg)
{
    struct delivery *d = arg;
    if (!d->spool || d->was_left)
        return; /* closed: the loop's last turn */
    if (d->is_over && d->timer)
        end(d);
    else if (atomic_exchange(&d->has_read, false))
        take_read(d);
    else
        pump(d);
}

static void on_time(void *user)
{
    struct delivery *d = user;
    if (d->is_ending)
        leave(d);
    else
        pump(d);
}

struct written {
    struct delivery *to;
    struct buffer body;
    uint64_t items;
};

static void on_written(void *arg, int r)
{
    struct written *w = arg;
    struct delivery *d = w->to;
    if (r < 0)
        d->dropped += w->items;
    d->unwritten -= w->items;
    d->quiet_since = clock_monotonic();
    buffer_release(&w->body);
    free(w);
    io_loop_post_in(d->loop, &d->post);
}

static void spool_add(struct delivery *d, struct buffer *out, uint64_t items)
{
    const size_t n = out->n;
    if (delivery_is_stuck(d))
        log_limited(LOG_LEVEL_ERROR, "the spool's disk does not answer: %llu requests wait for it",
                    (unsigned long long)delivery_spool(d).waiting);
    struct written *w = malloc(sizeof *w);
    if (!w || !journal_reserve(d->spool, n)) {
        log_limited(LOG_LEVEL_ERROR, "%llu samples were dropped: %s (%llu requests wait for the disk)",
                    (unsigned long long)items, w ? "the spool does not take them" : "out of memory",
                    (unsigned long long)delivery_spool(d).waiting);
        free(w);
        d->dropped += items;
        return;
    }
    if (d->unwritten == 0)
        d->quiet_since = clock_monotonic();
    d->unwritten += items;
    *w = (struct written){.to = d, .body = *out, .items = items};
    *out = (struct buffer){0};
    journal_add(
        d->spool,
        &(struct journal_record){.kind = JOURNAL_PROFILES, .items = items, .body = buffer_bytes(&w->body)}, n,
        on_written, w);
}

static void on_event_of_spool(void *user, const struct journal_event *e)
{
    struct delivery *d = user;
    switch (e->kind) {
    case JOURNAL_SET_ASIDE:
        log_error("the spool was damaged: it is set aside as %s, and what can be read of it goes on",
                  e->text);
        break;
    case JOURNAL_PUT_BACK: log_error("the spool was removed: %s is written anew", e->text); break;
    case JOURNAL_FAILED: log_limited(LOG_LEVEL_ERROR, "the spool takes nothing: %s", e->text); break;
    case JOURNAL_RECOVERED: log_limited(LOG_LEVEL_INFO, "the spool takes again%s", e->text); break;
    case JOURNAL_DAMAGED:
    case JOURNAL_EXPIRED:
    case JOURNAL_EVICTED: d->dropped += e->items; break;
    case JOURNAL_DELETED: break;
    case JOURNAL_OVER:
        d->is_over = true;
        io_loop_post_in(d->loop, &d->post);
        break;
    }
}

/* Earlier versions kept a file a request; nothing here reads them. */
static void say_old_files(const char *folder)
{
    unsigned n = 0;
    DIR *all = opendir(folder);
    for (const struct dirent *one; all && (one = readdir(all));)
        n += fnmatch("[0-9a-f]*-[0-9]*.otlp", one->d_name, 0) == 0;
    if (all)
        closedir(all);
    if (n > 0)
        log_warn("%u requests that an earlier version left in the spool are not sent from there: profgate "
                 "replay --endpoint URL --remove %s/*.otlp sends them",
                 n, folder);
}

static int spool_open(struct delivery *d, const struct spool_options *spool, struct error *e)
{
    const struct journal_options journal = {
        .folder = spool->folder,
        .name = "profsend",
        .bytes_max = spool->bytes_max,
        .waiting_max = min_of(spool->bytes_max, WAITING_MAX),
        .evicts = true,
        .begin = spool->begin,
        .tell = on_event_of_spool,
        .user = d,
    };
    d->timer = io_timer_new(d->loop, on_time, d);
    if (!d->timer)
        return error_set(e, -ENOMEM, "out of memory");
    int r = journal_open(&d->spool, &journal, e);
    if (r < 0) {
        d->timer = io_timer_free(d->timer);
        return error_prefix(e, r, "spool folder %s: ", spool->folder);
    }
    say_old_files(spool->folder);
    return 0;
}

/* ---- the client ---- */

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
    } else if (event->kind == CLIENT_STALE) {
        log_limited(LOG_LEVEL_ERROR, "a certificate was not renewed, the one from before is shown: %s",
                    message);
    } else if (event->kind != CLIENT_SHUT_DOWN || !d->spool) { /* there it stays on disk */
        d->counts.lost += event->items;
        log_limited(LOG_LEVEL_ERROR, "%llu samples could not be delivered: %s",
                    (unsigned long long)event->items, message);
        settled(d);
    }
}

int delivery_open(struct delivery *d, struct io_loop *loop, const struct client_options *options,
                  const struct spool_options *spool, struct error *e)
{
    struct client_options x = *options;
    x.retry.max_elapsed_ns = 0;
    x.retry.initial_interval_ns = RETRY_FIRST_NS;
    *d = (struct delivery){.loop = loop, .post = {.fn = on_post, .arg = d}};
    int r = client_new(&d->client, loop, &x, on_event, d, e);
    if (r == 0 && spool->folder)
        r = spool_open(d, spool, e);
    if (r == 0 && d->spool)
        pump(d); /* what an earlier process left */
    return r;
}

void delivery_push(struct delivery *d, struct buffer *out, uint64_t items)
{
    if (d->spool)
        spool_add(d, out, items);
    else
        (void)send(d, out, items);
}

bool delivery_is_done(const struct delivery *d)
{
    return !d->spool || journal_counts(d->spool).records == 0;
}

bool delivery_is_stuck(const struct delivery *d)
{
    return d->unwritten > 0 && clock_monotonic() > d->quiet_since + DISK_NS;
}

struct spool_counts delivery_spool(const struct delivery *d)
{
    if (!d->spool)
        return (struct spool_counts){0};
    const struct journal_counts c = journal_counts(d->spool);
    return (struct spool_counts){.requests = c.records - c.waiting,
                                 .bytes = c.bytes - c.waiting_bytes,
                                 .waiting = c.waiting,
                                 .dropped = d->dropped};
}

/* The client has stopped. */
static void on_stopped(void *user)
{
    struct delivery *d = user;
    if (!d->spool) {
        d->done(d->done_user);
        return;
    }
    io_timer_set(d->timer, clock_monotonic() + DISK_NS);
    journal_end(d->spool);
}

void delivery_shutdown(struct delivery *d, uint64_t deadline_ns, void (*done)(void *user), void *user)
{
    d->is_ending = true;
    d->done = done;
    d->done_user = user;
    if (d->timer)
        io_timer_stop(d->timer);
    client_shutdown(d->client, deadline_ns, on_stopped, d);
}

void delivery_close(struct delivery *d)
{
    d->client = client_free(d->client);
    d->timer = io_timer_free(d->timer);
    if (d->was_left)
        return;
    d->spool = journal_close(d->spool); /* answers what is asked */
    if (d->is_reading)
        buffer_release(&d->read.body);
    d->is_reading = false;
}
