/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request that others send as it is is decoded once more, by the thread that pushes it, and written in the
 * backend's form (proto/otlp/write/subset.h). A view is kept for each thread that was here at once.
 */
#include "gateway/export/otlp/backend.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/macros.h"
#include "proto/otlp/view/profiles.h"
#include "proto/otlp/write/subset.h"

/* What a view keeps from one request to the next. */
#define KEEP_BYTES (1u << 20)

/* What is built may need room for the longest number before a short one (proto/wire/writer.h). */
#define WRITER_ROOM 64u

/* Each of these would be a series of a process. */
static const char *const of_processes[] = {"process.pid", "process.parent_pid", "process.creation.time",
                                           NULL};

struct preset {
    const char *name;
    size_t request_max;
    bool grpc_only;
    struct subset_form form;
};

static const struct preset presets[] = {
    [OTLP_ANY] = {"any", SIZE_MAX, false, {0}},
    [OTLP_COLLECTOR] = {"collector", SIZE_MAX, false, {0}},
    [OTLP_PARCA] = {"parca",
                    64u << 20,
                    true,
                    {.functions_twice = true,
                     .sums = true,
                     .clamps = true,
                     .plain_types = true,
                     .scope_name = "profgate"}},
    [OTLP_PYROSCOPE] = {"pyroscope",
                        4u << 20,
                        false,
                        {.untimed = true,
                         .plain_types = true,
                         .names_service = true,
                         .no_blank_frames = true,
                         .frames_max = 1000,
                         .samples_max = 16000,
                         .without = of_processes}},
};

struct room {
    struct profiles view;
    struct buffer body; /* with PROFILES_PADDING behind it */
    struct arena plan;
    struct room *next;
};

struct backend {
    struct subset_form form;
    const char **texts;
    size_t request_max;
    struct budget *budget;
    pthread_mutex_t lock;
    struct room *unused;
};

/* ---- settings ---- */

int backend_check(const struct otlp_settings *s, struct error *e)
{
    const struct preset *preset = &presets[s->backend];
    if (s->backend == OTLP_ANY || s->backend == OTLP_COLLECTOR)
        return 0;
    if (preset->grpc_only && s->protocol != OTLP_GRPC)
        return error_set(e, -EINVAL, "backend: %s takes profiles by gRPC alone (protocol: grpc)",
                         preset->name);
    if (s->compression == CLIENT_COMPRESS_ZSTD)
        return error_set(e, -EINVAL, "backend: %s takes no zstd (compression: gzip or none)", preset->name);
    if (s->wire_version != OTLP_LAYOUT_1_10)
        return error_set(e, -EINVAL, "backend: %s reads wire_version 1.10 alone", preset->name);
    if (s->sending.request_bytes > preset->request_max)
        return error_set(e, -EINVAL, "backend: %s takes no more than %zuMiB (max_request_bytes)",
                         preset->name, preset->request_max >> 20);
    return 0;
}

size_t backend_request_max(const struct otlp_settings *s)
{
    return min_of((size_t)s->sending.request_bytes, presets[s->backend].request_max);
}

bool backend_rewrites(const struct otlp_settings *s)
{
    return s->backend == OTLP_PARCA || s->backend == OTLP_PYROSCOPE || s->text_attributes.n > 0;
}

/* ---- rooms ---- */

static struct room *free_room(struct room *r)
{
    profiles_release(&r->view);
    buffer_release(&r->body);
    arena_release(&r->plan);
    free(r);
    return NULL;
}

static struct room *take_room(struct backend *b)
{
    pthread_mutex_lock(&b->lock);
    struct room *r = b->unused;
    if (r)
        b->unused = r->next;
    pthread_mutex_unlock(&b->lock);
    if (r)
        return r;
    r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    r->body = (struct buffer)BUFFER_INIT(0);
    r->plan = (struct arena)ARENA_INIT(b->budget);
    if (profiles_init(&r->view, b->budget) < 0)
        r = free_room(r);
    return r;
}

static void give_room(struct backend *b, struct room *r)
{
    profiles_trim(&r->view, KEEP_BYTES);
    arena_reset(&r->plan, KEEP_BYTES);
    buffer_clear(&r->body, KEEP_BYTES);
    pthread_mutex_lock(&b->lock);
    r->next = b->unused;
    b->unused = r;
    pthread_mutex_unlock(&b->lock);
}

struct backend *backend_new(const struct otlp_settings *s, struct budget *budget)
{
    struct backend *b = calloc(1, sizeof *b);
    if (!b)
        return NULL;
    b->form = presets[s->backend].form;
    b->request_max = backend_request_max(s);
    b->budget = budget;
    pthread_mutex_init(&b->lock, NULL);
    b->texts = calloc((size_t)s->text_attributes.n + 1, sizeof *b->texts);
    if (!b->texts)
        return backend_free(b);
    if (s->text_attributes.n > 0) {
        memcpy(b->texts, s->text_attributes.items, s->text_attributes.n * sizeof *b->texts);
        b->form.texts = b->texts;
    }
    return b;
}

struct backend *backend_free(struct backend *b)
{
    if (!b)
        return NULL;
    for (struct room *next; b->unused; b->unused = next) {
        next = b->unused->next;
        free_room(b->unused);
    }
    pthread_mutex_destroy(&b->lock);
    free(b->texts);
    free(b);
    return NULL;
}

/* ---- writing ---- */

static uint64_t count(const struct profiles *p, uint32_t from, uint32_t to)
{
    uint64_t n = 0;
    for (; from < to; from++)
        n += p->sample.stack[from] != PROFILES_REJECTED;
    return n;
}

/* The samples from `from` on, or the first half of them, or of that, until they fit. Returns where it ended.
 */
static uint32_t write_piece(const struct backend *b, struct room *r, struct subset *subset, uint32_t from,
                            void (*piece)(void *user, uint8_t *p, size_t n, uint64_t samples), void *user)
{
    for (uint32_t to = r->view.sample.n;; to = from + (to - from) / 2) {
        struct buffer out = BUFFER_INIT(b->request_max + WRITER_ROOM);
        const int done = subset_write(subset, NULL, from, to, &out);
        const bool is_large = done == SUBSET_TOO_LARGE || out.n > b->request_max;
        if (is_large && to - from > 1) {
            buffer_release(&out);
            continue;
        }
        const uint64_t samples = count(&r->view, from, to);
        if (done == 0 && !is_large && samples > 0) {
            size_t n;
            uint8_t *p = buffer_take(&out, &n);
            piece(user, p, n, samples);
        }
        buffer_release(&out);
        return to;
    }
}

static int decode(struct room *r, const struct client_body *body)
{
    const struct profiles_limits limits = PROFILES_LIMITS_DEFAULT;
    struct error e; /* it was decoded before */
    int done = buffer_reserve(&r->body, body->n + PROFILES_PADDING);
    if (done < 0)
        return done;
    memcpy(r->body.p, body->p, body->n);
    memset(r->body.p + body->n, 0, PROFILES_PADDING);
    return profiles_decode_as(&r->view, bytes_of(r->body.p, body->n), PROFILES_LAYOUT_1_10, &limits, &e);
}

void backend_write(struct backend *b, const struct client_body *body,
                   void (*piece)(void *user, uint8_t *p, size_t n, uint64_t samples), void *user)
{
    struct room *r = take_room(b);
    struct subset *subset = r && decode(r, body) == 0 ? subset_new(&r->view, NULL, &r->plan) : NULL;
    if (subset && subset_shape(subset, &b->form, &r->plan) == 0)
        for (uint32_t from = 0; from < r->view.sample.n;)
            from = write_piece(b, r, subset, from, piece, user);
    if (r)
        give_room(b, r);
}
