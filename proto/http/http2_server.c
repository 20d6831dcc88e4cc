/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server's side of HTTP/2: a stream is an exchange.
 */
#include "proto/http/http2_server.h"

#include <stdlib.h>

#include "proto/base/macros.h"

static const uint8_t shutdown_ping[8] = "goodbye", vanished_ping[8] = "hello?";

static void close_stream(struct http2_server *c, struct stream *s)
{
    if (s->told)
        http_tell_close(&s->x);
    streams_remove(&c->streams, s);
    if (c->heading == s)
        c->heading = NULL;
    if (c->streams.n == 0)
        c->idle_since = c->session->now;
}

/* ---- nghttp2's callbacks, receiving ---- */

static void end_session(struct http2_server *c, uint32_t error)
{
    nghttp2_session_terminate_session(c->core.session, error);
}

static int on_begin_frame(nghttp2_session *session, const nghttp2_frame_hd *hd, void *user_data)
{
    struct http2_server *c = user_data;
    http2_guard_frame(c, hd);
    /* A request on a lower number than the last is a connection error (RFC 9113 §5.1.1). nghttp2 lets it
     * pass, because it could be trailers for a stream reset a moment ago; but those it still knows. */
    if (hd->type == NGHTTP2_HEADERS && hd->stream_id < c->last_id &&
        !nghttp2_session_find_stream(session, hd->stream_id))
        end_session(c, NGHTTP2_PROTOCOL_ERROR);
    return 0;
}

static int on_invalid_frame(nghttp2_session *session, const nghttp2_frame *frame, int error, void *user_data)
{
    (void)session;
    (void)frame;
    (void)error;
    http2_guard_wrong(user_data);
    return 0;
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *user_data)
{
    struct http2_server *c = user_data;
    if (frame->hd.type != NGHTTP2_HEADERS)
        return 0;
    c->head_since = c->session->now;
    if (frame->headers.cat != NGHTTP2_HCAT_REQUEST) {
        c->heading = http2_stream_of(&c->core, frame->hd.stream_id);
        return 0;
    }
    struct stream *s = c->heading = streams_add(&c->streams, frame->hd.stream_id, c->session->now);
    if (!s)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    c->last_id = frame->hd.stream_id;
    nghttp2_session_set_stream_user_data(session, frame->hd.stream_id, s);
    return 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_n,
                     const uint8_t *value, size_t value_n, uint8_t flags, void *user_data)
{
    (void)session;
    (void)frame;
    (void)flags;
    struct http2_server *c = user_data;
    struct stream *s = c->heading; /* to be looked up for each field would cost more than to keep it */
    if (!s)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    uint64_t size = s->headers.size + name_n + value_n + HEADER_OVERHEAD,
             max = c->session->limits.header_bytes;
    if (s->sealed || size > max) { /* a trailer, which is only counted, or too much */
        s->headers.size = size;
        s->too_large |= size > max;
        /* The rest of the block is then only decoded, not checked and shown (nghttp2: on_header_callback):
         * one byte of it can mean 4 KB. */
        return http2_guard_headers(c, size) ? 0 : NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    }
    if (header_list_add(&s->headers, bytes_of(name, name_n), bytes_of(value, value_n)) < 0)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    if (name_n > 0 && name[0] == ':') /* nghttp2 has checked that they come first (RFC 9113 §8.3) */
        s->n_pseudo++;
    return 0;
}

static void fill_exchange(struct http2_server *c, struct stream *s)
{
    header_list_seal(&s->headers);
    s->sealed = true;
    struct http_header *h = s->headers.items.p;
    s->x = (struct http_exchange){
        .session = c->session,
        .handler = c->session->handler,
        .context = c->session->context,
        .peer = c->session->peer,
        .version = HTTP_VERSION_2,
        .method = http_header_find(h, s->n_pseudo, ":method"),
        .scheme = http_header_find(h, s->n_pseudo, ":scheme"),
        .authority = http_header_find(h, s->n_pseudo, ":authority"),
        .headers = h + s->n_pseudo,
        .n_headers = s->headers.items.n - s->n_pseudo,
        .content_length = -1,
    };
    target_split(http_header_find(h, s->n_pseudo, ":path"), &s->x.path, &s->x.query);
    struct bytes length = http_header_find(s->x.headers, s->x.n_headers, "content-length");
    if (length.p)
        header_length(length, &s->x.content_length);
    if (!s->x.authority.p)
        s->x.authority = http_header_find(s->x.headers, s->x.n_headers, "host");
}

static void on_request(struct http2_server *c, struct stream *s)
{
    static const struct http_reply too_large = {.status = 431};
    fill_exchange(c, s);
    if (s->too_large) {
        session_refused(c->session, too_large.status);
        http2_reply(c, s, &too_large);
        return;
    }
    s->told = true;
    s->x.handler->on_head(s->x.context, &s->x);
}

static void on_request_end(struct http2_server *c, struct stream *s)
{
    streams_set_ended(&c->streams, s);
    if (s->told && !s->replied)
        http_tell_end(&s->x);
}

static int on_frame_recv(nghttp2_session *session, const nghttp2_frame *frame, void *user_data)
{
    struct http2_server *c = user_data;
    struct stream *s = NULL;
    switch (frame->hd.type) {
    case NGHTTP2_HEADERS:
        c->head_since = UINT64_MAX;
        s = c->heading;
        c->heading = NULL;
        if (s && frame->headers.cat == NGHTTP2_HCAT_REQUEST)
            on_request(c, s);
        break;
    case NGHTTP2_DATA: s = http2_stream_of(&c->core, frame->hd.stream_id); break;
    case NGHTTP2_RST_STREAM: http2_guard_reset(c); break;
    case NGHTTP2_PING:
        if ((frame->hd.flags & NGHTTP2_FLAG_ACK) && c->notice_until > 0 &&
            memcmp(frame->ping.opaque_data, shutdown_ping, sizeof shutdown_ping) == 0) {
            c->notice_until = 0;
            nghttp2_submit_goaway(session, NGHTTP2_FLAG_NONE,
                                  nghttp2_session_get_last_proc_stream_id(session), NGHTTP2_NO_ERROR, NULL,
                                  0);
        }
        break;
    default: break;
    }
    if (s && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
        on_request_end(c, s);
    return 0;
}

static int on_data_chunk(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data, size_t n,
                         void *user_data)
{
    (void)session;
    (void)flags;
    struct http2_server *c = user_data;
    struct stream *s = http2_stream_of(&c->core, id);
    if (!s)
        return 0;
    streams_set_active(&c->streams, s, c->session->now);
    s->received += n;
    if (s->told && !s->replied)
        http_tell_body(&s->x, bytes_of(data, n));
    return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t id, uint32_t error, void *user_data)
{
    (void)error;
    struct http2_server *c = user_data;
    struct stream *s = http2_stream_of(&c->core, id);
    if (s) {
        nghttp2_session_set_stream_user_data(session, id, NULL);
        close_stream(c, s);
    }
    return 0;
}

/* ---- sending ---- */

/* Whether the rest of a request that is answered already is read away rather than refused: some clients (curl
 * 7.88 among them) take a reset, even with NO_ERROR, for a failure and never look at the answer. */
static bool worth_discarding(const struct http2_server *c, int32_t id)
{
    const struct stream *s = http2_stream_of(&c->core, id);
    return s && !s->ended && s->x.content_length >= 0 &&
           (uint64_t)s->x.content_length <= s->received + c->session->limits.discard_bytes;
}

static int on_frame_send(nghttp2_session *session, const nghttp2_frame *frame, void *user_data)
{
    struct http2_server *c = user_data;
    if (frame->hd.type == NGHTTP2_RST_STREAM && frame->rst_stream.error_code != NGHTTP2_NO_ERROR) {
        http2_guard_reset(c);
    } else if ((frame->hd.type == NGHTTP2_DATA || frame->hd.type == NGHTTP2_HEADERS) &&
               (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) &&
               nghttp2_session_get_stream_remote_close(session, frame->hd.stream_id) == 0 &&
               !worth_discarding(c, frame->hd.stream_id)) {
        /* An early reply: the rest of the request is not wanted (RFC 9113 §8.1). */
        nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, frame->hd.stream_id, NGHTTP2_NO_ERROR);
    }
    return 0;
}

/* ---- the session's table ---- */

static nghttp2_session_callbacks *make_callbacks(void)
{
    nghttp2_session_callbacks *k;
    if (nghttp2_session_callbacks_new(&k) < 0)
        return NULL;
    nghttp2_session_callbacks_set_on_begin_frame_callback(k, on_begin_frame);
    nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(k, on_invalid_frame);
    nghttp2_session_callbacks_set_on_begin_headers_callback(k, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(k, on_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(k, on_frame_recv);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(k, on_data_chunk);
    nghttp2_session_callbacks_set_on_stream_close_callback(k, on_stream_close);
    nghttp2_session_callbacks_set_on_frame_send_callback(k, on_frame_send);
    return k;
}

static void free_conn(void *conn)
{
    struct http2_server *c = conn;
    while (c->streams.receiving.first)
        close_stream(c, c->streams.receiving.first);
    while (c->streams.complete.first)
        close_stream(c, c->streams.complete.first);
    streams_release(&c->streams);
    http2_core_release(&c->core);
    free(c);
}

void *http2_server_new(struct http_session *session)
{
    const struct http_server_limits *l = &session->limits;
    const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, l->concurrent_streams},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, l->window_bytes},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, l->header_bytes},
    };
    struct http2_server *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->session = session;
    c->idle_since = c->heard = session->now;
    c->head_since = UINT64_MAX;
    if (http2_core_init(&c->core, true, make_callbacks()) < 0 ||
        http2_core_settings(&c->core, settings, ARRAY_LEN(settings), l->window_bytes) < 0) {
        http2_core_release(&c->core);
        free(c);
        return NULL;
    }
    return c;
}

static int feed(void *conn, struct bytes in)
{
    struct http2_server *c = conn;
    if (c->guard.ended)
        return 0;
    c->heard = c->session->now;
    c->pinged = 0;
    int r = http2_core_feed(&c->core, in);
    if (r == 0)
        http2_guard_queue(c);
    return r;
}

void http2_reset(struct http2_server *c, struct stream *s, uint32_t error)
{
    streams_set_ended(&c->streams, s);
    nghttp2_submit_rst_stream(c->core.session, NGHTTP2_FLAG_NONE, s->base.id, error);
}

void http2_too_slow(struct http2_server *c, struct stream *s)
{
    const bool may_reply = s->told && !s->replied && !s->begun && s->x.handler->on_slow;
    if (may_reply)
        s->x.handler->on_slow(s->x.context, &s->x);
    if (may_reply && s->replied)
        streams_set_ended(&c->streams, s); /* the answer goes first, then the reset (on_frame_send) */
    else
        http2_reset(c, s, NGHTTP2_CANCEL);
}

static void feed_eof(void *conn)
{
    struct http2_server *c = conn;
    c->eof = true;
    while (c->streams.receiving.first) /* these will never be complete */
        http2_reset(c, c->streams.receiving.first, NGHTTP2_CANCEL);
}

/* To those whose peer has taken all there was of a reply in pieces. Whether there are any. */
static bool tell_room(const struct stream_list *streams)
{
    bool told = false;
    for (struct stream *s = streams->first; s; s = s->next)
        if (s->begun && !s->replied && s->base.body.n == 0 && s->x.handler->on_room) {
            s->x.handler->on_room(s->x.context, &s->x);
            told = true;
        }
    return told;
}

static int drain(void *conn, struct buffer *out, size_t max)
{
    struct http2_server *c = conn;
    const size_t until = out->n + max;
    int r = http2_core_drain(&c->core, out, max);
    bool told = tell_room(&c->streams.receiving);
    told |= tell_room(&c->streams.complete);
    return r < 0 || !told || out->n >= until ? r : http2_core_drain(&c->core, out, until - out->n);
}

static bool wants_input(const void *conn)
{
    const struct http2_server *c = conn;
    return !c->eof && !c->core.broken; /* flow control does the rest */
}

static bool has_output(const void *conn)
{
    const struct http2_server *c = conn;
    return http2_core_has_output(&c->core);
}

static bool is_done(const void *conn)
{
    const struct http2_server *c = conn;
    if (c->core.broken)
        return true;
    if (c->eof && c->streams.n == 0)
        return true;
    return c->notice_until == 0 && http2_core_is_done(&c->core);
}

static bool is_idle(const void *conn)
{
    const struct http2_server *c = conn;
    return c->streams.n == 0 && !is_done(c);
}

/* When a peer with open requests has to be asked whether it is there, or has not said so. */
static uint64_t vanished_at(const struct http2_server *c)
{
    const struct http_server_limits *l = &c->session->limits;
    if (l->ping_ns == 0 || c->streams.n == 0 || c->eof)
        return UINT64_MAX;
    return c->pinged ? deadline_after(c->pinged, l->ping_answer_ns) : deadline_after(c->heard, l->ping_ns);
}

/* Any word will do for an answer. */
static void look_for_peer(struct http2_server *c)
{
    if (c->session->now < vanished_at(c))
        return;
    if (c->pinged)
        end_session(c, NGHTTP2_NO_ERROR);
    else
        nghttp2_submit_ping(c->core.session, NGHTTP2_FLAG_NONE, vanished_ping); /* no memory: as if lost */
    c->pinged = c->session->now;
}

static uint64_t deadline(const void *conn)
{
    struct http2_server *c = (struct http2_server *)conn; /* the sweep is armed by being asked for */
    const struct http_server_limits *l = &c->session->limits;
    uint64_t at = c->streams.n == 0 ? deadline_after(c->idle_since, l->idle_ns) : UINT64_MAX;
    if (is_done(c))
        return UINT64_MAX;
    if (c->streams.receiving.first)
        at = min_of(at, deadline_after(c->streams.receiving.first->active, l->body_ns));
    if (c->head_since != UINT64_MAX)
        at = min_of(at, deadline_after(c->head_since, l->head_ns));
    if (c->notice_until > 0)
        at = min_of(at, c->notice_until);
    at = min_of(at, vanished_at(c));
    return min_of(at, http2_guard_deadline(c));
}

static void tick(void *conn)
{
    struct http2_server *c = conn;
    const struct http_server_limits *l = &c->session->limits;
    uint64_t now = c->session->now;
    while (c->streams.receiving.first &&
           now >= deadline_after(c->streams.receiving.first->active, l->body_ns))
        http2_too_slow(c, c->streams.receiving.first);
    http2_guard_sweep(c);
    look_for_peer(c);
    if (c->head_since != UINT64_MAX && now >= deadline_after(c->head_since, l->head_ns)) {
        c->head_since = UINT64_MAX;
        end_session(c, NGHTTP2_ENHANCE_YOUR_CALM);
    }
    if (c->streams.n == 0 && now >= deadline_after(c->idle_since, l->idle_ns)) {
        c->idle_since = now;
        c->notice_until = 0;
        end_session(c, NGHTTP2_NO_ERROR);
    }
    if (c->notice_until > 0 && now >= c->notice_until) {
        c->notice_until = 0;
        nghttp2_submit_goaway(c->core.session, NGHTTP2_FLAG_NONE,
                              nghttp2_session_get_last_proc_stream_id(c->core.session), NGHTTP2_NO_ERROR,
                              NULL, 0);
    }
}

/* RFC 9113 §6.8: first a GOAWAY that refuses nothing, then, when the peer has surely seen it, the one that
 * does. */
static void shut_down(void *conn)
{
    struct http2_server *c = conn;
    if (c->notice_until > 0 || nghttp2_submit_shutdown_notice(c->core.session) < 0)
        return;
    if (nghttp2_submit_ping(c->core.session, NGHTTP2_FLAG_NONE, shutdown_ping) == 0)
        c->notice_until = c->session->now + HTTP_DRAIN_NOTICE_NS;
}

const struct http_session_ops http2_server_ops = {
    .free = free_conn,
    .feed = feed,
    .feed_eof = feed_eof,
    .drain = drain,
    .wants_input = wants_input,
    .has_output = has_output,
    .is_done = is_done,
    .is_idle = is_idle,
    .deadline = deadline,
    .tick = tick,
    .shutdown = shut_down,
    .reply = http2_reply_to,
    .reply_begin = http2_reply_begin,
    .reply_write = http2_reply_write,
    .reply_end = http2_reply_end,
    .reply_abort = http2_reply_abort,
};
