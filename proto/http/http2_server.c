/*
 * The server's side of HTTP/2: a stream is an exchange.
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "proto/base/clock.h"
#include "proto/base/macros.h"
#include "proto/http/http1_text.h"
#include "proto/http/http2_core.h"
#include "proto/http/http2_streams.h"
#include "proto/http/session.h"

/* Streams reset in a second, by the peer or for its mistakes: CVE-2023-44487 and kin. */
#define RESETS_MAX 200u
/* Frames of one header block: half a megabyte, for a list of 16 KiB. */
#define CONTINUATIONS_MAX 32u
/* A header list this many times over the limit ends the connection, not only the stream. */
#define HEADERS_FACTOR  4u
#define DRAIN_NOTICE_NS NSEC_PER_SEC /* the longest wait for the answer to the shutdown's ping */

static const uint8_t shutdown_ping[8] = "goodbye";

struct http2_server {
    struct http2_core core;
    struct http_session *session;
    struct streams streams;
    uint64_t idle_since, head_since; /* head_since: of the header block that is incomplete, or UINT64_MAX */
    uint64_t resets_since;
    uint32_t n_resets, n_continuations;
    int32_t last_id;       /* the highest stream a request came on */
    uint64_t notice_until; /* of the shutdown's first phase; 0: not in it */
    bool eof;
};

static void close_stream(struct http2_server *c, struct stream *s)
{
    if (s->told)
        c->session->handler->on_close(c->session->context, &s->x);
    streams_remove(&c->streams, s);
    if (c->streams.n == 0)
        c->idle_since = c->session->now;
}

/* ---- replies ---- */

/* The fields of a reply's head. date and content-length only for HTTP proper: gRPC knows neither. */
static size_t reply_fields(const struct http_reply *reply, nghttp2_nv nv[HTTP2_FIELDS_MAX], char status[3],
                           char length[24])
{
    /* no printf: it would cost more than the rest of the reply */
    for (uint32_t i = 3, rest = reply->status; i-- > 0; rest /= 10)
        status[i] = (char)('0' + rest % 10);
    nv[0] = http2_field(BYTES_LIT(":status"), bytes_of(status, 3));
    size_t n = http2_fields(nv, 1, reply->headers, reply->n_headers);
    if (reply->n_trailers == 0) {
        int n_length = snprintf(length, 24, "%zu", reply->body.n);
        if (reply->status != 204 && reply->status != 304)
            nv[n++] = http2_field(BYTES_LIT("content-length"), bytes_of(length, (size_t)n_length));
        nv[n++] = http2_field(BYTES_LIT("date"), http_date());
    }
    return n;
}

static int keep_reply(struct stream *s, const struct http_reply *reply)
{
    int r = buffer_add_bytes(&s->reply_body, reply->body);
    for (uint32_t i = 0; i < reply->n_trailers && r == 0; i++)
        r = header_list_add(&s->reply_trailers, reply->trailers[i].name, reply->trailers[i].value);
    if (r < 0)
        return r;
    header_list_seal(&s->reply_trailers);
    s->base.body = buffer_bytes(&s->reply_body);
    s->base.trailers = s->reply_trailers.items;
    s->base.n_trailers = s->reply_trailers.n;
    return 0;
}

static int submit_reply(struct http2_server *c, struct stream *s, const struct http_reply *reply)
{
    nghttp2_nv nv[HTTP2_FIELDS_MAX];
    char status[3], length[24];
    size_t n = reply_fields(reply, nv, status, length);
    int r = 0;
    s->replied = true;
    if (reply->body.n > 0 && !bytes_is(s->x.method, "HEAD")) {
        nghttp2_data_provider provider = http2_body_provider();
        r = keep_reply(s, reply);
        if (r == 0)
            r = nghttp2_submit_response(c->core.session, s->base.id, nv, n, &provider);
    } else {
        n = http2_fields(nv, n, reply->trailers, reply->n_trailers);
        r = nghttp2_submit_response(c->core.session, s->base.id, nv, n, NULL);
    }
    if (r == 0)
        return 0;
    nghttp2_submit_rst_stream(c->core.session, NGHTTP2_FLAG_NONE, s->base.id, NGHTTP2_INTERNAL_ERROR);
    return -ENOMEM;
}

static int reply_to(struct http_exchange *x, const struct http_reply *reply)
{
    struct stream *s = container_of(x, struct stream, x);
    assert(s->told && !s->replied);
    return submit_reply(x->session->conn, s, reply);
}

/* ---- nghttp2's callbacks, receiving ---- */

static void end_session(struct http2_server *c, uint32_t error)
{
    nghttp2_session_terminate_session(c->core.session, error);
}

static void count_reset(struct http2_server *c)
{
    if (c->session->now - c->resets_since >= NSEC_PER_SEC) {
        c->resets_since = c->session->now;
        c->n_resets = 0;
    }
    if (++c->n_resets == RESETS_MAX)
        end_session(c, NGHTTP2_ENHANCE_YOUR_CALM);
}

static int on_begin_frame(nghttp2_session *session, const nghttp2_frame_hd *hd, void *user_data)
{
    struct http2_server *c = user_data;
    if (hd->type != NGHTTP2_CONTINUATION)
        c->n_continuations = 0;
    else if (++c->n_continuations == CONTINUATIONS_MAX)
        end_session(c, NGHTTP2_ENHANCE_YOUR_CALM);
    /* A request on a lower number than the last is a connection error (RFC 9113 §5.1.1). nghttp2 lets it
     * pass, because it could be trailers for a stream reset a moment ago; but those it still knows. */
    if (hd->type == NGHTTP2_HEADERS && hd->stream_id < c->last_id &&
        !nghttp2_session_find_stream(session, hd->stream_id))
        end_session(c, NGHTTP2_PROTOCOL_ERROR);
    return 0;
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *user_data)
{
    struct http2_server *c = user_data;
    if (frame->hd.type != NGHTTP2_HEADERS)
        return 0;
    c->head_since = c->session->now;
    if (frame->headers.cat != NGHTTP2_HCAT_REQUEST)
        return 0;
    struct stream *s = streams_add(&c->streams, frame->hd.stream_id, c->session->now);
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
    (void)flags;
    struct http2_server *c = user_data;
    struct stream *s = http2_stream_of(&c->core, frame->hd.stream_id);
    if (!s)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    uint64_t size = s->headers.size + name_n + value_n + HEADER_OVERHEAD,
             max = c->session->limits.header_bytes;
    if (s->sealed || size > max) { /* a trailer, which is only counted, or too much */
        s->headers.size = size;
        s->too_large |= size > max;
        if (size > HEADERS_FACTOR * max)
            end_session(c, NGHTTP2_ENHANCE_YOUR_CALM);
        return 0;
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
    struct http_header *h = s->headers.items;
    s->x = (struct http_exchange){
        .session = c->session,
        .peer = c->session->peer,
        .version = HTTP_VERSION_2,
        .method = http_header_find(h, s->n_pseudo, ":method"),
        .scheme = http_header_find(h, s->n_pseudo, ":scheme"),
        .authority = http_header_find(h, s->n_pseudo, ":authority"),
        .headers = h + s->n_pseudo,
        .n_headers = s->headers.n - s->n_pseudo,
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
        submit_reply(c, s, &too_large);
        return;
    }
    s->told = true;
    c->session->handler->on_head(c->session->context, &s->x);
}

static void on_request_end(struct http2_server *c, struct stream *s)
{
    streams_set_ended(&c->streams, s);
    if (s->told && !s->replied)
        c->session->handler->on_end(c->session->context, &s->x);
}

static int on_frame_recv(nghttp2_session *session, const nghttp2_frame *frame, void *user_data)
{
    struct http2_server *c = user_data;
    struct stream *s = NULL;
    switch (frame->hd.type) {
    case NGHTTP2_HEADERS:
        c->head_since = UINT64_MAX;
        s = http2_stream_of(&c->core, frame->hd.stream_id);
        if (s && frame->headers.cat == NGHTTP2_HCAT_REQUEST)
            on_request(c, s);
        break;
    case NGHTTP2_DATA: s = http2_stream_of(&c->core, frame->hd.stream_id); break;
    case NGHTTP2_RST_STREAM: count_reset(c); break;
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
    if (s->told && !s->replied)
        c->session->handler->on_body(c->session->context, &s->x, bytes_of(data, n));
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

static int on_frame_send(nghttp2_session *session, const nghttp2_frame *frame, void *user_data)
{
    struct http2_server *c = user_data;
    if (frame->hd.type == NGHTTP2_RST_STREAM && frame->rst_stream.error_code != NGHTTP2_NO_ERROR) {
        count_reset(c);
    } else if ((frame->hd.type == NGHTTP2_DATA || frame->hd.type == NGHTTP2_HEADERS) &&
               (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) &&
               nghttp2_session_get_stream_remote_close(session, frame->hd.stream_id) == 0) {
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
    c->idle_since = session->now;
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
    return http2_core_feed(&c->core, in);
}

static void reset(struct http2_server *c, struct stream *s, uint32_t error)
{
    streams_set_ended(&c->streams, s);
    nghttp2_submit_rst_stream(c->core.session, NGHTTP2_FLAG_NONE, s->base.id, error);
}

static void feed_eof(void *conn)
{
    struct http2_server *c = conn;
    c->eof = true;
    while (c->streams.receiving.first) /* these will never be complete */
        reset(c, c->streams.receiving.first, NGHTTP2_CANCEL);
}

static int drain(void *conn, struct buffer *out, size_t max)
{
    struct http2_server *c = conn;
    return http2_core_drain(&c->core, out, max);
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

static uint64_t deadline(const void *conn)
{
    const struct http2_server *c = conn;
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
    return at;
}

static void tick(void *conn)
{
    struct http2_server *c = conn;
    const struct http_server_limits *l = &c->session->limits;
    uint64_t now = c->session->now;
    while (c->streams.receiving.first &&
           now >= deadline_after(c->streams.receiving.first->active, l->body_ns))
        reset(c, c->streams.receiving.first, NGHTTP2_CANCEL);
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
        c->notice_until = c->session->now + DRAIN_NOTICE_NS;
}

const struct http_session_ops http2_server_ops = {
    .free = free_conn,
    .feed = feed,
    .feed_eof = feed_eof,
    .drain = drain,
    .wants_input = wants_input,
    .has_output = has_output,
    .is_done = is_done,
    .deadline = deadline,
    .tick = tick,
    .shutdown = shut_down,
    .reply = reply_to,
};
