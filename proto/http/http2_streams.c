/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/http/http2_streams.h"

#include <assert.h>
#include <stdlib.h>

static void list_add(struct stream_list *l, struct stream *s)
{
    s->prev = l->last;
    s->next = NULL;
    *(l->last ? &l->last->next : &l->first) = s;
    l->last = s;
}

static void list_remove(struct stream_list *l, struct stream *s)
{
    *(s->prev ? &s->prev->next : &l->first) = s->next;
    *(s->next ? &s->next->prev : &l->last) = s->prev;
}

struct stream *streams_add(struct streams *l, int32_t id, uint64_t now)
{
    struct stream *s = l->pool;
    if (s) {
        l->pool = s->next;
        l->n_pool--;
    } else {
        s = calloc(1, sizeof *s);
        if (!s)
            return NULL;
    }
    s->base.id = id;
    s->active = s->began = now;
    l->n++;
    list_add(&l->receiving, s);
    return s;
}

static void free_stream(struct stream *s)
{
    header_list_release(&s->headers);
    header_list_release(&s->reply_trailers);
    buffer_release(&s->reply_body);
    free(s);
}

void streams_remove(struct streams *l, struct stream *s)
{
    list_remove(s->ended ? &l->complete : &l->receiving, s);
    l->n--;
    if (l->n_pool == STREAMS_POOL_MAX) {
        free_stream(s);
        return;
    }
    header_list_clear(&s->headers, HTTP2_KEEP);
    header_list_clear(&s->reply_trailers, HTTP2_KEEP);
    buffer_clear(&s->reply_body, HTTP2_KEEP);
    *s = (struct stream){.headers = s->headers,
                         .reply_trailers = s->reply_trailers,
                         .reply_body = s->reply_body,
                         .next = l->pool};
    l->pool = s;
    l->n_pool++;
}

void streams_set_active(struct streams *l, struct stream *s, uint64_t now)
{
    if (s->active != now && !s->ended) {
        list_remove(&l->receiving, s);
        list_add(&l->receiving, s);
    }
    s->active = now;
}

void streams_set_ended(struct streams *l, struct stream *s)
{
    if (s->ended)
        return;
    list_remove(&l->receiving, s);
    s->ended = true;
    list_add(&l->complete, s);
}

void streams_release(struct streams *l)
{
    assert(l->n == 0);
    while (l->pool) {
        struct stream *s = l->pool;
        l->pool = s->next;
        free_stream(s);
    }
}
