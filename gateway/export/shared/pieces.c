/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/export/shared/pieces.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/macros.h"
#include "proto/base/thread.h"
#include "proto/otlp/view/profiles.h"

/* What a view keeps from one request to the next. */
#define KEEP_BYTES (1u << 20)

/* What is built may need room for the longest number before a short one (proto/wire/writer.h). */
#define WRITER_ROOM 64u

struct room {
    struct profiles view;
    struct buffer body; /* with PROFILES_PADDING behind it */
    struct arena plan;
    struct room *next;
};

struct pieces {
    struct pieces_options options;
    pthread_mutex_t lock;
    struct room *unused;
};

/* ---- rooms ---- */

static struct room *free_room(struct room *r)
{
    profiles_release(&r->view);
    buffer_release(&r->body);
    arena_release(&r->plan);
    free(r);
    return NULL;
}

static struct room *take_room(struct pieces *x)
{
    pthread_mutex_lock(&x->lock);
    struct room *r = x->unused;
    if (r)
        x->unused = r->next;
    pthread_mutex_unlock(&x->lock);
    if (r)
        return r;
    r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    r->body = (struct buffer)BUFFER_INIT(0);
    r->plan = (struct arena)ARENA_INIT(x->options.budget);
    if (profiles_init(&r->view, x->options.budget) < 0)
        r = free_room(r);
    return r;
}

static void give_room(struct pieces *x, struct room *r)
{
    profiles_trim(&r->view, KEEP_BYTES);
    arena_reset(&r->plan, KEEP_BYTES);
    buffer_clear(&r->body, KEEP_BYTES);
    autolock(&x->lock);
    r->next = x->unused;
    x->unused = r;
}

struct pieces *pieces_new(const struct pieces_options *options)
{
    struct pieces *x = calloc(1, sizeof *x);
    if (!x)
        return NULL;
    x->options = *options;
    pthread_mutex_init(&x->lock, NULL);
    return x;
}

struct pieces *pieces_free(struct pieces *x)
{
    if (!x)
        return NULL;
    for (struct room *next; x->unused; x->unused = next) {
        next = x->unused->next;
        free_room(x->unused);
    }
    pthread_mutex_destroy(&x->lock);
    free(x);
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

/* The samples from `from` on up to an end, or the first half of them, or of that, until they fit. Returns
 * where it ended. */
static uint32_t write_piece(const struct pieces *x, struct room *r, struct subset *subset, uint32_t from,
                            void (*piece)(void *user, uint8_t *p, size_t n, uint64_t samples), void *user)
{
    const struct pieces_options *o = &x->options;
    for (uint32_t to = o->end ? o->end(o->user, &r->view, from) : r->view.sample.n;;
         to = from + (to - from) / 2) {
        struct buffer out = BUFFER_INIT(o->request_max + WRITER_ROOM);
        const int done = subset_write(subset, NULL, from, to, &out);
        const bool is_large = done == SUBSET_TOO_LARGE || out.n > o->request_max;
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
    struct error e; /* it was decoded before */
    int done = buffer_reserve(&r->body, body->n + PROFILES_PADDING);
    if (done < 0)
        return done;
    memcpy(r->body.p, body->p, body->n);
    memset(r->body.p + body->n, 0, PROFILES_PADDING);
    return profiles_decode_as(&r->view, bytes_of(r->body.p, body->n), PROFILES_LAYOUT_1_10,
                              &profiles_limits_default, &e);
}

void pieces_write(struct pieces *x, const struct client_body *body,
                  void (*piece)(void *user, uint8_t *p, size_t n, uint64_t samples), void *user)
{
    struct room *r = take_room(x);
    struct subset *subset = r && decode(r, body) == 0 ? subset_new(&r->view, NULL, &r->plan) : NULL;
    if (subset && subset_shape(subset, &x->options.form, &r->plan) == 0)
        for (uint32_t from = 0; from < r->view.sample.n;)
            from = write_piece(x, r, subset, from, piece, user);
    if (r)
        give_room(x, r);
}
