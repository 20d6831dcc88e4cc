/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is to be written waits in a bounded queue: metrics as records made here, raw profiles, which come from
 * the workers at any time, as requests. A thread of the file's own (writer.h) writes them, one at a time and
 * in order, so that neither a worker nor the loop waits for the disk. The loop learns of everything by one
 * post, `wanted`: something was pushed or is written, or the end is wanted or due. `done` is said from there
 * as well, a turn after the writer was left: then nobody holds the post any more.
 *
 * A record that the disk does not take (full, over a quota, gone for a while) is written again, after a time
 * that doubles, until it is taken. Behind it the oldest make room for newer ones when the queue is full, and
 * raw profiles are refused.
 */
#include "gateway/export/file/exporter.h"

#include <endian.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/export/file/writer.h"
#include "gateway/export/shared/outcome.h"
#include "proto/base/clock.h"
#include "proto/base/macros.h"
#include "proto/client/queue.h"
#include "proto/io/loop.h"
#include "proto/io/timer.h"

#define AT(field) offsetof(struct file_settings, field)

static const struct settings_word formats[] = {{"json", FILE_JSON}, {"proto", FILE_PROTO}, {NULL}};
static const struct settings_word compressions[] = {
    {"none", CODING_IDENTITY}, {"gzip", CODING_GZIP}, {"zstd", CODING_ZSTD}, {NULL}};
static const struct settings_word temporalities[] = EXPORT_TEMPORALITIES;

/* clang-format off */
static const struct settings_row rows[] = {
    {"path", SETTINGS_TEXT, AT(path), "", 0, 0, NULL, "appended to; opened anew when it was moved away"},
    {"format", SETTINGS_CHOICE, AT(format), "json", 0, 0, formats,
     "json: one OTLP/JSON request a line; proto: protobuf requests, each behind its length in 4 bytes, big-endian"},
    {"temporality", SETTINGS_CHOICE, AT(temporality), "default", 0, 0, temporalities,
     "of counters written here; default is metrics.temporality"},
    {"compression", SETTINGS_CHOICE, AT(compression), "none", 0, 0, compressions,
     "each record is a gzip member or a zstd frame of its own: gunzip and unzstd read the file as one"},
    {"rotation.max_megabytes", SETTINGS_COUNT, AT(rotation_megabytes), "0", 0, 1048576, NULL,
     "before it is larger the file is synced and renamed, raw-2026-11-23T07-24-05.123.json, and a new one begun; 0: never"},
    {"rotation.max_age", SETTINGS_DURATION, AT(rotation_age_ns), "0", 0, 366 * 86400 * (uint64_t)NSEC_PER_SEC, NULL,
     "the same so long after its first record; 0: never"},
    {"rotation.max_backups", SETTINGS_COUNT, AT(rotation_backups), "0", 0, 1000000, NULL, "renamed files that are kept; 0: all"},
    {"rotation.max_days", SETTINGS_COUNT, AT(rotation_days), "0", 0, 36500, NULL, "days that they are kept; 0: for ever"},
};
/* clang-format on */

/* Of raw profiles: a request larger than that is split. Its length has a zero in front, by which a reader
 * knows the file. */
#define REQUEST_MAX ((16u << 20) - 1)
#define QUEUE_BYTES (64u << 20)
#define QUEUE_SIZE  1000u

/* From one attempt to the next. */
#define RETRY_FIRST_NS (250 * (uint64_t)NSEC_PER_MSEC)
#define RETRY_MAX_NS   (10 * (uint64_t)NSEC_PER_SEC)

struct file {
    struct exporter base;
    struct outcome outcome;
    bool proto;
    struct io_loop *loop;
    struct io_post wanted;
    struct io_timer *timer; /* of the next attempt, or of the end */
    struct send_queue queue;
    atomic_uint_fast64_t unbuilt; /* samples or points lost elsewhere to out of memory; counted on the loop */
    struct writer *writer;        /* NULL: it was left, at the end */
    struct send_entry *entry;     /* being written, or again at retry_at; NULL: nothing is */
    uint64_t attempts, retry_at;  /* retry_at 0: it is being written */
    uint64_t deadline_ns;
    void (*done)(void *user); /* NULL: the end is not wanted yet */
    void *done_user;
};

static struct file *file_of(struct exporter *x)
{
    return container_of(x, struct file, base);
}

/* ---- metrics ---- */

static int encode(const struct file *f, const struct metric_batch *batch, struct buffer *out)
{
    uint32_t from = 0, place = 0;
    if (!f->proto)
        return metrics_encode_json(batch, out);
    int r = buffer_add(out, "\0\0\0\0", 4);
    if (r == 0)
        r = metrics_encode_proto(batch, SIZE_MAX, &from, &place, out);
    if (r == 0)
        memcpy(out->p, &(uint32_t){htobe32((uint32_t)(out->n - 4))}, 4);
    return r;
}

/* Any thread. */
static void on_offer(void *user)
{
    struct file *f = user;
    io_loop_post_in(f->loop, &f->wanted);
}

static void lose(struct file *f, uint64_t items)
{
    atomic_fetch_add(&f->unbuilt, items);
    on_offer(f);
}

static void push_metrics(struct exporter *x, const struct metric_batch *batch)
{
    struct file *f = file_of(x);
    struct buffer record = BUFFER_INIT(0);
    const uint64_t points = metric_batch_points(batch);
    struct client_body *body = NULL;
    if (encode(f, batch, &record) == 0)
        body = client_body_new(record.p, record.n);
    else
        buffer_release(&record);
    if (body)
        send_queue_offer_newest(&f->queue, body, points);
    else
        lose(f, points);
    client_body_unref(body);
}

/* ---- profiles: any thread ---- */

static bool reserve(struct exporter *x, size_t n)
{
    return send_queue_reserve(&file_of(x)->queue, n);
}

static void cancel(struct exporter *x, size_t n)
{
    send_queue_cancel(&file_of(x)->queue, n);
}

static void push_profiles(struct exporter *x, struct client_body *body, size_t reserved, uint64_t n_samples,
                          struct promise *safe)
{
    struct file *f = file_of(x);
    if (body) {
        send_queue_offer(&f->queue, body, reserved, n_samples);
    } else {
        send_queue_cancel(&f->queue, reserved);
        lose(f, n_samples);
    }
}

/* ---- writing: the loop ---- */

static void tell(struct file *f, const struct send_entry *entry, int r, const struct error *e)
{
    outcome_event(&f->outcome, &(struct client_event){.kind = r == 0 ? CLIENT_SENT : CLIENT_OUT_OF_MEMORY,
                                                      .requests = 1,
                                                      .items = entry->items,
                                                      .message = r == 0 ? NULL : e->text});
}

/* What is no record, or found no memory to become one, will not be one later. */
static bool may_be_repeated(int error)
{
    return error > 0 && error != ENOMEM && error != EINVAL;
}

static void arm(struct file *f)
{
    const uint64_t end = f->done ? f->deadline_ns : UINT64_MAX,
                   retry = f->entry && f->retry_at > 0 ? f->retry_at : UINT64_MAX;
    io_timer_set(f->timer, min_of(end, retry));
}

static void repeat_later(struct file *f, const struct error *e)
{
    const uint64_t doublings = min_of(f->attempts, (uint64_t)16);
    f->attempts++;
    f->retry_at = clock_monotonic() + min_of(RETRY_FIRST_NS << doublings, RETRY_MAX_NS);
    outcome_event(&f->outcome, &(struct client_event){.kind = CLIENT_RETRIED,
                                                      .requests = 1,
                                                      .items = f->entry->items,
                                                      .attempts = f->attempts,
                                                      .message = e->text});
}

static void end_entry(struct file *f)
{
    struct error e;
    int r;
    if (!f->entry || !writer_end(f->writer, &r, &e))
        return;
    if (may_be_repeated(-r)) {
        repeat_later(f, &e);
        return;
    }
    f->attempts = 0;
    tell(f, f->entry, r, &e);
    send_queue_finish(&f->queue, take_ptr(f->entry));
}

/* The deadline has passed: what still waits is lost, and so is what the disk has not taken yet. */
static void give_up(struct file *f)
{
    struct client_event event = {.kind = CLIENT_SHUT_DOWN, .message = "the shutdown's time is over"};
    if (!f->entry)
        f->entry = send_queue_pop(&f->queue);
    for (; f->entry; f->entry = send_queue_pop(&f->queue)) {
        event.requests++;
        event.items += f->entry->items;
        send_queue_finish(&f->queue, f->entry);
    }
    if (event.requests > 0)
        outcome_event(&f->outcome, &event);
}

static void on_lost(void *user, const struct client_event *event)
{
    outcome_event(user, event);
}

static void count_lost(struct file *f)
{
    static const char *const why[CLIENT_SHUT_DOWN + 1] = {
        [CLIENT_EVICTED] = "the file does not take what is written: the oldest made room",
        [CLIENT_SHUT_DOWN] = "came after the shutdown",
    };
    const uint64_t unbuilt = atomic_exchange(&f->unbuilt, 0);
    if (unbuilt > 0)
        outcome_lost(&f->outcome, 0, unbuilt, "out of memory");
    send_queue_tell_lost(&f->queue, why, on_lost, &f->outcome);
}

static void on_wanted(void *arg)
{
    struct file *f = arg;
    if (!f->writer) {
        outcome_end(&f->outcome);
        f->done(f->done_user);
        return;
    }
    count_lost(f);
    end_entry(f);
    if (f->done && clock_monotonic() >= f->deadline_ns)
        give_up(f);
    const bool is_again = f->entry && f->retry_at > 0 && clock_monotonic() >= f->retry_at;
    if (is_again || (!f->entry && (f->entry = send_queue_pop(&f->queue)))) {
        f->retry_at = 0;
        writer_begin(f->writer, f->entry->body);
    }
    outcome_queued(&f->outcome, send_queue_bytes(&f->queue));
    arm(f);
    if (f->done && !f->entry) {
        io_timer_stop(f->timer);
        writer_leave(take_ptr(f->writer));
        io_loop_post_in(f->loop, &f->wanted);
    }
}

static void on_time(void *user)
{
    on_wanted(user);
}

static void drain(struct exporter *x, uint64_t deadline_ns, void (*done)(void *user), void *user)
{
    struct file *f = file_of(x);
    f->deadline_ns = deadline_ns;
    f->done = done;
    f->done_user = user;
    send_queue_close(&f->queue);
    f->retry_at = min_of(f->retry_at, clock_monotonic()); /* once more, now */
    io_loop_post_in(f->loop, &f->wanted);
}

/* ---- life ---- */

static int check(const char *name, const void *settings, struct error *e)
{
    const struct file_settings *s = settings;
    return s->path ? 0 : error_set(e, -EINVAL, "exporters.%s has no path", name);
}

static void stream(const void *settings, struct export_stream *ret)
{
    const struct file_settings *s = settings;
    ret->temporality = s->temporality;
}

static void release_file(struct exporter *x)
{
    struct file *f = file_of(x);
    io_timer_free(f->timer);
    send_queue_release(&f->queue);
    outcome_release(&f->outcome);
}

static int open_file(struct exporter *x, const void *settings, const struct export_context *c,
                     struct error *e)
{
    const struct file_settings *s = settings;
    const bool profiles = c->signal == CONFIG_TAKES_PROFILES;
    const enum writer_body kind = !profiles                 ? WRITER_RECORD
                                  : s->format == FILE_PROTO ? WRITER_PROFILES_PROTO
                                                            : WRITER_PROFILES_JSON;
    const struct writer_options options = {
        .path = s->path,
        .kind = kind,
        .compression = s->compression,
        .rotation = {(uint64_t)s->rotation_megabytes << 20, s->rotation_age_ns, s->rotation_backups,
                     s->rotation_days},
    };
    struct file *f = file_of(x);
    x->terms = (struct export_terms){REQUEST_MAX, QUEUE_SIZE, false, QUEUE_BYTES};
    f->proto = s->format == FILE_PROTO;
    f->loop = c->loop;
    f->wanted = (struct io_post){.fn = on_wanted, .arg = f};
    if (send_queue_init(&f->queue, QUEUE_SIZE, QUEUE_BYTES, c->budget) < 0 ||
        outcome_init(&f->outcome, c) < 0 || !(f->timer = io_timer_new(c->loop, on_time, f)))
        return error_set(e, -ENOMEM, "out of memory");
    f->queue.came = on_offer;
    f->queue.user = f;
    return writer_new(&f->writer, &options, c->loop, &f->wanted, e);
}

const struct exporter_kind exporter_file = {
    .config =
        {
            .type = "file",
            .section = {"exporters.file/NAME", "a file for metrics, raw profiles or both", rows,
                        ARRAY_LEN(rows)},
            .size = sizeof(struct file_settings),
            .takes = CONFIG_TAKES_METRICS | CONFIG_TAKES_PROFILES,
            .check = check,
        },
    .size = sizeof(struct file),
    .stream = stream,
    .open = open_file,
    .push_metrics = push_metrics,
    .reserve = reserve,
    .cancel = cancel,
    .push_profiles = push_profiles,
    .drain = drain,
    .release = release_file,
};
