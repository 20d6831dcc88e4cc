/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Metrics are written where they are pushed, on the control loop: a batch a flush. Raw profiles come from the
 * workers at any time, and much larger; they wait in a bounded queue, and a thread of libuv's pool encodes
 * and writes them, one at a time and in order, so that neither a worker nor the loop waits for the disk. The
 * loop learns of both ends by one post, `wanted`: something was pushed, or the end is wanted. `done` is said
 * from there as well: then nobody holds the post any more.
 */
#include "gateway/export/file/exporter.h"

#include <endian.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "gateway/export/file/records.h"
#include "gateway/export/shared/outcome.h"
#include "proto/base/clock.h"
#include "proto/base/macros.h"
#include "proto/client/queue.h"
#include "proto/io/loop.h"
#include "proto/otlp/json/write.h"

#define AT(field) offsetof(struct file_settings, field)

static const struct settings_word formats[] = {{"json", FILE_JSON}, {"proto", FILE_PROTO}, {NULL}};
static const struct settings_word temporalities[] = EXPORT_TEMPORALITIES;

/* clang-format off */
static const struct settings_row rows[] = {
    {"path", SETTINGS_TEXT, AT(path), "", 0, 0, NULL, "appended to; opened anew when it was moved away"},
    {"format", SETTINGS_CHOICE, AT(format), "json", 0, 0, formats,
     "json: one OTLP/JSON request a line; proto: protobuf requests, each behind its length in 4 bytes, big-endian"},
    {"temporality", SETTINGS_CHOICE, AT(temporality), "default", 0, 0, temporalities,
     "of counters written here; default is metrics.temporality"},
};
/* clang-format on */

/* Of raw profiles: a request larger than that is split. Its length has a zero in front, by which a reader
 * knows the file. */
#define REQUEST_MAX ((16u << 20) - 1)
#define QUEUE_BYTES (64u << 20)
#define QUEUE_SIZE  1000u
#define RECORD_MAX  (1u << 30) /* what a request of profiles may be in JSON; some are ten times as long */

struct file {
    struct exporter base;
    struct outcome outcome;
    struct record_file records;
    bool proto;
    struct io_loop *loop;
    struct io_post wanted;
    struct send_queue queue;      /* of profiles */
    atomic_uint_fast64_t unbuilt; /* samples lost to out of memory on a worker; counted on the loop */
    struct send_entry *entry;     /* being written by the pool; NULL: nothing is */
    struct client_event event;    /* what became of it */
    struct error error;
    uv_work_t work;
    uint64_t deadline_ns;
    void (*done)(void *user); /* NULL: the end is not wanted yet */
    void *done_user;
};

static struct file *file_of(struct exporter *x)
{
    return container_of(x, struct file, base);
}

/* Room for the length of a record in protobuf. */
static int begin_record(const struct file *f, struct buffer *out)
{
    return f->proto ? buffer_add(out, "\0\0\0\0", 4) : 0;
}

/* Writes and releases it, or only says why not where r, what encoding it said, is not 0; *event is told what
 * became of it. */
static void end_record(struct file *f, struct buffer *record, int r, struct client_event *event)
{
    f->error.text[0] = 0;
    if (r == 0 && f->proto)
        memcpy(record->p, &(uint32_t){htobe32((uint32_t)(record->n - 4))}, 4);
    if (r == 0)
        r = record_file_append(&f->records, buffer_bytes(record), &f->error);
    else
        error_set(&f->error, r, "%s", r < 0 ? "out of memory" : "it is no request of profiles");
    buffer_release(record);
    event->kind = r == 0 ? CLIENT_SENT : CLIENT_OUT_OF_MEMORY;
    event->message = r == 0 ? NULL : f->error.text;
}

/* ---- metrics ---- */

static void push_metrics(struct exporter *x, const struct metric_batch *batch)
{
    struct file *f = file_of(x);
    struct buffer record = BUFFER_INIT(0);
    struct client_event event = {.requests = 1, .items = metric_batch_points(batch)};
    uint32_t from = 0, place = 0;
    int r = begin_record(f, &record);
    if (r == 0)
        r = f->proto ? metrics_encode_proto(batch, SIZE_MAX, &from, &place, &record)
                     : metrics_encode_json(batch, &record);
    end_record(f, &record, r, &event);
    outcome_event(&f->outcome, &event);
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

static void push_profiles(struct exporter *x, struct client_body *body, size_t reserved, uint64_t n_samples)
{
    struct file *f = file_of(x);
    if (!body)
        send_queue_cancel(&f->queue, reserved);
    if (!body || !send_queue_push(&f->queue, client_body_ref(body), reserved, n_samples))
        atomic_fetch_add(&f->unbuilt, n_samples);
    io_loop_post_in(f->loop, &f->wanted);
}

/* ---- profiles: the pool ---- */

static void write_entry(uv_work_t *work)
{
    struct file *f = work->data;
    const struct bytes body = client_body_bytes(f->entry->body);
    struct buffer record = BUFFER_INIT(RECORD_MAX);
    int r = begin_record(f, &record);
    if (r == 0)
        r = f->proto ? buffer_add_bytes(&record, body) : profiles_json_write(body, &record);
    end_record(f, &record, r, &f->event);
}

/* ---- profiles: the loop ---- */

static void on_written(uv_work_t *work, int status)
{
    struct file *f = work->data;
    outcome_event(&f->outcome, &f->event);
    send_queue_finish(&f->queue, take_ptr(f->entry));
    io_loop_post_in(f->loop, &f->wanted);
}

/* The deadline has passed: what still waits is lost. */
static void give_up(struct file *f)
{
    struct client_event event = {.kind = CLIENT_SHUT_DOWN, .message = "the shutdown's time is over"};
    struct send_entry *e;
    for (; (e = send_queue_pop(&f->queue)); send_queue_finish(&f->queue, e)) {
        event.requests++;
        event.items += e->items;
    }
    if (event.requests > 0)
        outcome_event(&f->outcome, &event);
}

static void on_wanted(void *arg)
{
    struct file *f = arg;
    uint64_t unbuilt = atomic_exchange(&f->unbuilt, 0);
    if (unbuilt > 0)
        outcome_lost(&f->outcome, 0, unbuilt, "out of memory");
    if (f->done && clock_monotonic() >= f->deadline_ns)
        give_up(f);
    if (!f->entry && (f->entry = send_queue_pop(&f->queue))) {
        f->work.data = f;
        f->event = (struct client_event){.requests = 1, .items = f->entry->items};
        uv_queue_work(io_loop_uv(f->loop), &f->work, write_entry, on_written);
    }
    outcome_queued(&f->outcome, send_queue_bytes(&f->queue));
    if (f->done && !f->entry)
        f->done(f->done_user);
}

static void drain(struct exporter *x, uint64_t deadline_ns, void (*done)(void *user), void *user)
{
    struct file *f = file_of(x);
    f->deadline_ns = deadline_ns;
    f->done = done;
    f->done_user = user;
    send_queue_close(&f->queue);
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

static void free_file(struct exporter *x)
{
    struct file *f = file_of(x);
    record_file_close(&f->records);
    send_queue_release(&f->queue);
    outcome_release(&f->outcome);
    free(f);
}

static int open_file(struct exporter **ret, const void *settings, const struct export_context *c,
                     struct error *e)
{
    const struct file_settings *s = settings;
    const bool queues = c->signal == CONFIG_TAKES_PROFILES;
    struct file *f = calloc(1, sizeof *f);
    if (!f)
        return error_set(e, -ENOMEM, "out of memory");
    f->base = (struct exporter){&exporter_file, {REQUEST_MAX, QUEUE_SIZE, false}};
    f->proto = s->format == FILE_PROTO;
    f->loop = c->loop;
    f->wanted = (struct io_post){.fn = on_wanted, .arg = f};
    f->records.fd = -1;
    int r = send_queue_init(&f->queue, queues ? QUEUE_SIZE : 1, QUEUE_BYTES, c->budget);
    if (r < 0) {
        free(f);
        return error_set(e, r, "out of memory");
    }
    r = outcome_init(&f->outcome, c);
    r = r < 0 ? error_set(e, r, "out of memory") : record_file_open(&f->records, s->path, e);
    if (r < 0) {
        free_file(&f->base);
        return r;
    }
    *ret = &f->base;
    return 0;
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
    .stream = stream,
    .open = open_file,
    .push_metrics = push_metrics,
    .reserve = reserve,
    .cancel = cancel,
    .push_profiles = push_profiles,
    .drain = drain,
    .free = free_file,
};
