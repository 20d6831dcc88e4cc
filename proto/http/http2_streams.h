/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The streams of one HTTP/2 server connection: those whose request is still coming, the longest silent one
 * first, and those that wait for their reply; and a few objects kept for the next ones. For proto/http only.
 */
#ifndef PROTO_HTTP_HTTP2_STREAMS_H
#define PROTO_HTTP_HTTP2_STREAMS_H

#include "proto/http/http2_core.h"

#define STREAMS_POOL_MAX 4u /* objects kept: most clients have one or two calls under way */

struct stream {
    struct http2_stream base;
    struct http_exchange x;
    struct stream *prev, *next; /* in one of the lists */
    struct header_list headers, reply_trailers;
    struct buffer reply_body;
    uint32_t n_pseudo;
    uint64_t active, began; /* when its last byte came, its first */
    uint64_t received;      /* bytes of its body */
    uint64_t sent_mark;     /* http2_guard.c: base.n_sent and base.body.n at the last sweep */
    size_t waiting_mark;
    bool told;     /* on_head was called */
    bool begun;    /* a reply in pieces */
    bool bodiless; /* …whose pieces are not sent */
    bool replied;  /* completely: whole, or the last piece */
    bool sealed, ended, too_large;
};

struct stream_list {
    struct stream *first, *last;
};

struct streams {
    struct stream_list receiving, complete;
    struct stream *pool;
    uint32_t n_pool, n;
};

/* A stream whose request begins; NULL when memory is out. */
struct stream *streams_add(struct streams *l, int32_t id, uint64_t now);

/* It is closed: the object goes to the pool. */
void streams_remove(struct streams *l, struct stream *s);

/* A byte of its request came. */
void streams_set_active(struct streams *l, struct stream *s, uint64_t now);

/* Its request is complete, or given up. */
void streams_set_ended(struct streams *l, struct stream *s);

/* Frees the pool; no stream is open any more. */
void streams_release(struct streams *l);

#endif
