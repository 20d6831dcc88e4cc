/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/export/file/exporter.h"

#include <errno.h>
#include <stdlib.h>
#include <uv.h>

#include "gateway/export/file/lines.h"
#include "gateway/export/shared/outcome.h"
#include "proto/base/macros.h"
#include "proto/io/loop.h"

#define AT(field) offsetof(struct file_settings, field)

/* clang-format off */
static const struct config_row rows[] = {
    {"path", CONFIG_TEXT, AT(path), "", 0, 0, NULL, "appended to: one OTLP/JSON request a line"},
    {"temporality", CONFIG_CHOICE, AT(temporality), "default", 0, 0, "default|delta|cumulative",
     "of counters written here; default is metrics.temporality"},
};
/* clang-format on */

struct file {
    struct exporter base;
    struct outcome outcome;
    struct line_file lines;
    struct io_loop *loop;
    void (*done)(void *user);
    void *done_user;
};

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

static void push_metrics(struct exporter *x, const struct metric_batch *batch)
{
    struct file *f = container_of(x, struct file, base);
    struct buffer line = BUFFER_INIT(0);
    struct error e = {""};
    int r = metrics_encode_json(batch, &line);
    if (r == 0)
        r = line_file_append(&f->lines, buffer_bytes(&line), &e);
    if (r == 0)
        outcome_event(&f->outcome, &(struct otlp_event){.kind = OTLP_SENT, .requests = 1});
    else
        outcome_lost(&f->outcome, 1, metric_batch_points(batch), e.text[0] ? e.text : "out of memory");
    buffer_release(&line);
}

static void on_idle_closed(uv_handle_t *handle)
{
    struct file *f = handle->data;
    free(handle);
    f->done(f->done_user);
}

/* A file is done at once, but `done` comes from the loop as everywhere: closing a handle is what the loop
 * reports. */
static void drain(struct exporter *x, uint64_t deadline_ns, void (*done)(void *user), void *user)
{
    struct file *f = container_of(x, struct file, base);
    uv_timer_t *handle = malloc(sizeof *handle);
    f->done = done;
    f->done_user = user;
    if (!handle) {
        done(user);
        return;
    }
    uv_timer_init(io_loop_uv(f->loop), handle);
    handle->data = f;
    uv_close((uv_handle_t *)handle, on_idle_closed);
}

static void free_file(struct exporter *x)
{
    struct file *f = container_of(x, struct file, base);
    line_file_close(&f->lines);
    outcome_release(&f->outcome);
    free(f);
}

static int open_file(struct exporter **ret, const void *settings, const struct export_context *c,
                     struct error *e)
{
    const struct file_settings *s = settings;
    struct file *f = calloc(1, sizeof *f);
    if (!f || outcome_init(&f->outcome, c) < 0) {
        free(f);
        return error_set(e, -ENOMEM, "out of memory");
    }
    f->base.kind = &exporter_file;
    f->loop = c->loop;
    f->lines.fd = -1;
    int r = line_file_open(&f->lines, s->path, e);
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
            .section = {"exporters.file/NAME", "a file of OTLP/JSON lines, for metrics", rows,
                        ARRAY_LEN(rows)},
            .size = sizeof(struct file_settings),
            .takes = CONFIG_TAKES_METRICS,
            .check = check,
        },
    .stream = stream,
    .open = open_file,
    .push_metrics = push_metrics,
    .drain = drain,
    .free = free_file,
};
