/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server's side of one HTTP/2 connection, as its files share it: http2_server.c (requests, the session's
 * table), http2_reply.c (answers), http2_guard.c (what a peer may not do). For proto/http only.
 */
#ifndef PROTO_HTTP_HTTP2_SERVER_H
#define PROTO_HTTP_HTTP2_SERVER_H

#include "proto/http/http2_core.h"
#include "proto/http/http2_streams.h"
#include "proto/http/session.h"

/* What a peer did of late that costs us work and gets it nothing. */
struct http2_guard {
    uint64_t since; /* the counts are of the second that began then */
    uint32_t n_resets, n_wrong, n_noise, n_useful;
    uint32_t n_continuations; /* of the header block at hand */
    uint64_t sweep_at;        /* when streams are looked at next; 0: not armed */
    bool ended;               /* what the peer still says is not looked at */
};

struct http2_server {
    struct http2_core core;
    struct http_session *session;
    struct streams streams;
    struct http2_guard guard;
    struct stream *heading;          /* whose header block is at hand; NULL: nobody's */
    uint64_t idle_since, head_since; /* head_since: of the header block that is incomplete, or UINT64_MAX */
    int32_t last_id;                 /* the highest stream a request came on */
    uint64_t notice_until;           /* of the shutdown's first phase; 0: not in it */
    uint64_t heard, pinged;          /* the peer's last word; when we asked for one since, or 0 */
    bool eof;
};

/* ---- http2_reply.c ---- */

/* Answers a stream on the session's own behalf, or the handler's. 0 or -ENOMEM (it is reset then). */
int http2_reply(struct http2_server *c, struct stream *s, const struct http_reply *reply);

/* As in http_session_ops. */
int http2_reply_to(struct http_exchange *x, const struct http_reply *reply);
int http2_reply_begin(struct http_exchange *x, const struct http_reply *head);
int http2_reply_write(struct http_exchange *x, struct bytes piece);
int http2_reply_end(struct http_exchange *x, const struct http_header *trailers, uint32_t n_trailers);
void http2_reply_abort(struct http_exchange *x);

/* ---- http2_guard.c ---- */

/* A frame begins; it ends the session when it is one too many. */
void http2_guard_frame(struct http2_server *c, const nghttp2_frame_hd *hd);

/* After a feed: whether too much waits to be said. (A frame that nghttp2 refuses by itself is not shown to us
 * as it comes.) */
void http2_guard_queue(struct http2_server *c);

/* A stream was reset, by the peer or for its mistake. */
void http2_guard_reset(struct http2_server *c);

/* A frame came that must not come, or not so: counted as it is read, before the reset that answers it is sent
 * and counted, since one piece of input has room for hundreds. */
void http2_guard_wrong(struct http2_server *c);

/* There are so many bytes of header fields on one stream. False: too many; the rest of the block need not be
 * looked at. */
bool http2_guard_headers(struct http2_server *c, uint64_t size);

/* When http2_guard_sweep is due; UINT64_MAX: never. */
uint64_t http2_guard_deadline(struct http2_server *c);

/* Resets the streams whose body or whose reader is too slow. */
void http2_guard_sweep(struct http2_server *c);

/* Gives up a stream. In http2_server.c. */
void http2_reset(struct http2_server *c, struct stream *s, uint32_t error);

/* Its body does not come: the handler may say so, else it is reset. It is ended then. */
void http2_too_slow(struct http2_server *c, struct stream *s);

#endif
