/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server's side of HTTP/1.1: one exchange after another, in order. What arrives behind an unanswered
 * request waits in `in`; what is answered waits in `out`.
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "proto/base/macros.h"
#include "proto/http/http1_chunks.h"
#include "proto/http/http1_head.h"
#include "proto/http/http1_text.h"
#include "proto/http/session.h"

#define WAITING_SOFT (64u << 10) /* pipelined bytes kept before the joiner is asked to pause */
#define WAITING_MAX  (1u << 20)  /* …and before one that does not listen is cut off */
#define OUTPUT_SOFT  (64u << 10) /* replies not yet drained before the next request is begun */
#define KEEP_MEMORY  (4u << 10)  /* of head and output while the connection is idle */

enum state {
    HEAD, /* of the next request */
    BODY,
    WAITING, /* the request is read, the reply not given */
    DISCARD, /* the reply is given, the rest of the body is read away */
    ENDED,   /* nothing is read any more */
};

struct http1_server {
    struct http_session *session;
    enum state state;
    struct http1_head head;
    struct http1_chunks chunks;
    uint64_t body_left; /* with Content-Length */
    uint64_t discarded;
    struct http_exchange x;
    bool open; /* on_head was told, on_close not yet */
    bool replied, close, eof;
    bool streaming; /* a reply in pieces has begun and not ended */
    bool bodiless;  /* …and its pieces are not sent */
    bool chunked;   /* …or are sent as chunks */
    uint64_t since; /* what the deadline of the state counts from */
    uint64_t body_began, body_read;
    struct buffer in, out;
    size_t sent; /* of out */
};

void *http1_server_new(struct http_session *s)
{
    struct http1_server *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->session = s;
    c->head.content_length = -1;
    c->since = s->now;
    c->in.max = WAITING_MAX;
    return c;
}

static void close_exchange(struct http1_server *c)
{
    if (!c->open)
        return;
    c->open = false;
    http_tell_close(&c->x);
}

/* No more requests; what is in out still goes. */
static void end(struct http1_server *c)
{
    c->state = ENDED;
    close_exchange(c);
    buffer_release(&c->in);
    http1_head_clear(&c->head, 0);
}

static void free_conn(void *conn)
{
    struct http1_server *c = conn;
    end(c);
    buffer_release(&c->out);
    http1_head_clear(&c->head, 0);
    free(c);
}

/* ---- replies ---- */

static bool status_is_bodiless(uint32_t status)
{
    return status == 204 || status == 304; /* RFC 9110 §15.3.5, §15.4.5 */
}

/* Status line and fields; `framing` is the line that says how the body ends, "" when there is none. */
static int write_head(struct http1_server *c, const struct http_reply *reply, const char *framing)
{
    struct buffer *out = &c->out;
    int r = buffer_printf(out, "HTTP/1.1 %u %s\r\n", reply->status, http_status_phrase(reply->status));
    for (uint32_t i = 0; i < reply->n_headers && r == 0; i++)
        r = http1_add_header(out, reply->headers[i].name, reply->headers[i].value);
    if (r == 0)
        r = http1_add_header(out, BYTES_LIT("date"), http_date());
    if (r == 0)
        r = buffer_add_str(out, framing);
    if (r == 0 && c->close)
        r = buffer_add_str(out, "connection: close\r\n");
    return r == 0 ? buffer_add_str(out, "\r\n") : r;
}

static int write_reply(struct http1_server *c, const struct http_reply *reply, bool head_only)
{
    size_t before = c->out.n;
    bool bodiless = status_is_bodiless(reply->status);
    char framing[48] = "";
    if (!bodiless)
        snprintf(framing, sizeof framing, "content-length: %zu\r\n", reply->body.n);
    int r = write_head(c, reply, framing);
    if (r == 0 && !head_only && !bodiless)
        r = buffer_add_bytes(&c->out, reply->body);
    if (r < 0)
        c->out.n = before;
    return r;
}

/* Answers what never became an exchange, or one whose handler can answer no more, and ends. */
static void refuse(struct http1_server *c, uint32_t status)
{
    if (c->streaming || c->replied) { /* an answer is out already, perhaps half of one */
        end(c);
        return;
    }
    static const struct http_header text = {BYTES_LIT("content-type"), BYTES_LIT("text/plain")};
    const char *phrase = http_status_phrase(status);
    c->close = true;
    write_reply(
        c,
        &(struct http_reply){.status = status, .headers = &text, .n_headers = 1, .body = bytes_str(phrase)},
        c->head.is_head);
    end(c);
}

/* Whether the unread rest of the body is small enough to read away, so that the connection can go on. */
static bool worth_discarding(const struct http1_server *c)
{
    if (c->head.expects_continue)
        return false; /* nobody knows whether the body will come: RFC 9110 §10.1.1 */
    return c->head.chunked || c->body_left <= c->session->limits.discard_bytes;
}

/* The reply is complete; what follows of the body is not wanted. */
static void set_replied(struct http1_server *c)
{
    c->replied = true;
    if (c->state == BODY)
        c->state = DISCARD;
}

static int reply_to(struct http_exchange *x, const struct http_reply *reply)
{
    struct http1_server *c = x->session->conn;
    assert(&c->x == x && c->open && !c->replied && !c->streaming);
    if (reply->close || c->session->shutting_down || (c->state == BODY && !worth_discarding(c)))
        c->close = true;
    int r = write_reply(c, reply, c->head.is_head);
    if (r < 0)
        c->close = true; /* there is nothing to say: the connection ends instead */
    set_replied(c);
    return r;
}

static int begin_reply(struct http_exchange *x, const struct http_reply *head)
{
    struct http1_server *c = x->session->conn;
    assert(&c->x == x && c->open && !c->replied && !c->streaming);
    size_t before = c->out.n;
    c->streaming = true;
    c->bodiless = c->head.is_head || status_is_bodiless(head->status);
    c->chunked = c->head.minor > 0; /* RFC 9112 §6.1: a client of 1.0 does not know it */
    if (head->close || c->session->shutting_down || (!c->chunked && !c->bodiless))
        c->close = true;
    bool framed = c->chunked && !status_is_bodiless(head->status);
    int r = write_head(c, head, framed ? "transfer-encoding: chunked\r\n" : "");
    if (r < 0) {
        c->out.n = before;
        c->close = true;
        c->streaming = false;
        set_replied(c);
    }
    return r;
}

/* Half an answer is out and cannot be completed: the connection ends without the last chunk, by which the
 * peer knows (RFC 9112 §8). */
static int give_up_reply(struct http1_server *c, int r)
{
    c->close = true;
    c->streaming = false;
    set_replied(c);
    return r;
}

static int write_piece(struct http_exchange *x, struct bytes piece)
{
    struct http1_server *c = x->session->conn;
    assert(&c->x == x && c->open && c->streaming);
    if (c->bodiless)
        return 0;
    if (piece.n > HTTP_REPLY_WAITING_MAX || c->out.n - c->sent > HTTP_REPLY_WAITING_MAX - piece.n)
        return HTTP_REPLY_FULL;
    if (c->sent > c->out.n / 2) { /* a peer that is never quite done must not make it grow */
        buffer_consume(&c->out, c->sent);
        c->sent = 0;
    }
    int r = c->chunked ? buffer_printf(&c->out, "%zx\r\n", piece.n) : 0;
    if (r == 0)
        r = buffer_add_bytes(&c->out, piece);
    if (r == 0 && c->chunked)
        r = buffer_add_str(&c->out, "\r\n");
    return r < 0 ? give_up_reply(c, r) : 0;
}

static int end_reply(struct http_exchange *x, const struct http_header *trailers, uint32_t n_trailers)
{
    struct http1_server *c = x->session->conn;
    assert(&c->x == x && c->open && c->streaming);
    int r = c->chunked && !c->bodiless ? buffer_add_str(&c->out, "0\r\n\r\n") : 0;
    if (r < 0)
        return give_up_reply(c, r);
    if (c->session->shutting_down || (c->state == BODY && !worth_discarding(c)))
        c->close = true;
    c->streaming = false;
    set_replied(c);
    return 0;
}

static void abort_reply(struct http_exchange *x)
{
    give_up_reply(x->session->conn, 0);
}

/* ---- requests ---- */

static void begin_exchange(struct http1_server *c)
{
    struct http1_head *h = &c->head;
    c->x = (struct http_exchange){
        .session = c->session,
        .handler = c->session->handler,
        .context = c->session->context,
        .peer = c->session->peer,
        .version = HTTP_VERSION_1,
        .method = h->method,
        .scheme = h->scheme,
        .authority = h->authority,
        .path = h->path,
        .query = h->query,
        .headers = h->headers.p,
        .n_headers = h->headers.n,
        .content_length = h->chunked ? -1 : max_of(h->content_length, (int64_t)0),
    };
    c->open = true;
    c->replied = c->streaming = false;
    c->body_began = c->session->now;
    c->body_read = 0;
    c->close = h->close || c->session->shutting_down;
    c->chunks = (struct http1_chunks)HTTP1_CHUNKS_INIT;
    c->body_left = h->content_length > 0 ? (uint64_t)h->content_length : 0;
    c->discarded = 0;
    c->state = BODY;
    c->since = c->session->now;
    c->x.handler->on_head(c->x.context, &c->x);
}

static void end_of_body(struct http1_server *c)
{
    bool discarded = c->replied;
    c->state = WAITING;
    if (!discarded)
        http_tell_end(&c->x);
}

static int read_head(struct http1_server *c, struct bytes *in)
{
    if (!http1_head_is_begun(&c->head))
        c->since = c->session->now;
    int r = http1_head_gather(&c->head, in, c->session->limits.header_bytes);
    if (r <= 0)
        return r;
    if (r == 1)
        r = http1_head_parse(&c->head, c->session->limits.header_bytes);
    if (r == 400 && !http1_head_is_http(&c->head)) { /* TLS, or a stranger */
        end(c);
        return -EPROTO;
    }
    if (r != 0) {
        session_refused(c->session, (uint32_t)r);
        refuse(c, (uint32_t)r);
        return 0;
    }
    begin_exchange(c);
    bool body = c->head.chunked || c->body_left > 0;
    if (!body)
        end_of_body(c);
    else if (!c->replied && !c->streaming && c->head.expects_continue && in->n == 0)
        return buffer_add_str(&c->out, "HTTP/1.1 100 Continue\r\n\r\n");
    return 0;
}

/* A piece of the body goes to the handler or away. */
static void take_piece(struct http1_server *c, struct bytes piece)
{
    if (!c->replied) {
        http_tell_body(&c->x, piece);
        return;
    }
    c->discarded += piece.n;
    if (c->discarded > c->session->limits.discard_bytes || c->close)
        end(c);
}

static void read_body(struct http1_server *c, struct bytes *in)
{
    c->since = c->session->now;
    struct bytes piece;
    size_t before = in->n;
    if (!c->head.chunked) {
        size_t n = min_of((uint64_t)in->n, c->body_left);
        piece = bytes_of(in->p, n);
        in->p += n;
        in->n -= n;
        c->body_left -= n;
        c->body_read += n;
        take_piece(c, piece);
        if (c->body_left == 0 && c->state != ENDED)
            end_of_body(c);
        return;
    }
    int r = http1_chunks_next(&c->chunks, in, &piece);
    c->body_read += before - in->n;
    switch (r) {
    case CHUNKS_MORE: break;
    case CHUNKS_DATA: take_piece(c, piece); break;
    case CHUNKS_END: end_of_body(c); break;
    default: refuse(c, 400);
    }
}

/* The request is read and answered. */
static void finish_exchange(struct http1_server *c)
{
    close_exchange(c);
    if (c->close) {
        end(c);
        return;
    }
    c->state = HEAD;
    c->replied = false;
    c->since = c->session->now;
    http1_head_clear(&c->head, KEEP_MEMORY);
}

/* Goes as far as the input, the handler and the output allow. */
static int advance(struct http1_server *c, struct bytes *in)
{
    int r = 0;
    while (r == 0 && c->state != ENDED) {
        if (c->state == WAITING && !c->replied)
            break;
        if (c->state == WAITING || (c->state == DISCARD && c->close)) {
            finish_exchange(c);
            continue;
        }
        if (in->n == 0 || (c->state == HEAD && c->out.n - c->sent > OUTPUT_SOFT))
            break;
        if (c->state == HEAD)
            r = read_head(c, in);
        else
            read_body(c, in);
    }
    if (c->state == ENDED)
        in->n = 0;
    return r;
}

/* Nothing more will come: a request that is not whole never will be. */
static void advance_eof(struct http1_server *c)
{
    if (c->eof && c->in.n == 0 && c->state != WAITING)
        end(c);
}

static int advance_waiting(struct http1_server *c)
{
    struct bytes rest = buffer_bytes(&c->in);
    int r = advance(c, &rest);
    if (c->state != ENDED && c->in.n > 0) {
        buffer_consume(&c->in, c->in.n - rest.n);
        if (c->in.n == 0)
            buffer_clear(&c->in, 0);
    }
    advance_eof(c);
    return r;
}

static int feed(void *conn, struct bytes in)
{
    struct http1_server *c = conn;
    int r;
    if (c->in.n > 0) {
        r = c->state == ENDED ? 0 : buffer_add_bytes(&c->in, in);
        return r < 0 ? r : advance_waiting(c);
    }
    r = advance(c, &in);
    return r < 0 || in.n == 0 ? r : buffer_add_bytes(&c->in, in);
}

static void feed_eof(void *conn)
{
    struct http1_server *c = conn;
    c->eof = true;
    advance_waiting(c);
}

static int drain(void *conn, struct buffer *out, size_t max)
{
    struct http1_server *c = conn;
    int r = advance_waiting(c);
    size_t n = min_of(c->out.n - c->sent, max);
    if (r == 0 && n > 0)
        r = buffer_add(out, c->out.p + c->sent, n);
    if (r < 0)
        return r;
    c->sent += n;
    if (c->sent == c->out.n) {
        buffer_clear(&c->out, KEEP_MEMORY);
        c->sent = 0;
        if (c->open && c->streaming && c->x.handler->on_room)
            c->x.handler->on_room(c->x.context, &c->x);
        r = advance_waiting(c); /* what waited for room */
    }
    return r;
}

static bool wants_input(const void *conn)
{
    const struct http1_server *c = conn;
    return !c->eof && c->in.n < WAITING_SOFT;
}

static bool has_output(const void *conn)
{
    const struct http1_server *c = conn;
    return c->out.n > c->sent;
}

static bool is_done(const void *conn)
{
    const struct http1_server *c = conn;
    return c->state == ENDED;
}

static bool is_idle(const void *conn)
{
    const struct http1_server *c = conn;
    return c->state == HEAD && !c->open && c->in.n == 0;
}

static uint64_t deadline(const void *conn)
{
    const struct http1_server *c = conn;
    const struct http_server_limits *l = &c->session->limits;
    switch (c->state) {
    case HEAD:
        if (http1_head_is_begun(&c->head))
            return deadline_after(c->since, l->head_ns);
        return c->session->shutting_down ? c->session->notice_until : deadline_after(c->since, l->idle_ns);
    case BODY:
    case DISCARD:
        return min_of(deadline_after(c->since, l->body_ns), body_due(l, c->body_began, c->body_read));
    default: return UINT64_MAX; /* the handler has its own idea of time */
    }
}

static void give_up_body(struct http1_server *c)
{
    c->close = true;
    if (!c->replied && !c->streaming && c->x.handler->on_slow)
        c->x.handler->on_slow(c->x.context, &c->x);
    if (c->replied)
        end(c);
    else
        refuse(c, 408);
}

static void tick(void *conn)
{
    struct http1_server *c = conn;
    advance_waiting(c);
    if (c->session->now < deadline(c))
        return;
    if (c->state == BODY)
        give_up_body(c);
    else if (http1_head_is_begun(&c->head))
        refuse(c, 408);
    else
        end(c);
}

static void shut_down(void *conn)
{
    struct http1_server *c = conn;
    if (c->session->inside == 1) /* else a handler is asking, and advance is under way */
        advance_waiting(c);
    c->close = true; /* of the request that is open, and each that still comes */
}

const struct http_session_ops http1_server_ops = {
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
    .reply = reply_to,
    .reply_begin = begin_reply,
    .reply_write = write_piece,
    .reply_end = end_reply,
    .reply_abort = abort_reply,
};
