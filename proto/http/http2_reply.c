/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers on an HTTP/2 stream: whole, or in pieces. What waits for the peer's window stays in the stream's
 * reply_body; base.body is the part of it that is not sent yet.
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>

#include "proto/base/macros.h"
#include "proto/http/http1_text.h"
#include "proto/http/http2_server.h"

/* ":status" and the fields given. */
static size_t head_fields(const struct http_reply *reply, nghttp2_nv nv[HTTP2_FIELDS_MAX], char status[3])
{
    /* no printf: it would cost more than the rest of the reply */
    for (uint32_t i = 3, rest = reply->status; i-- > 0; rest /= 10)
        status[i] = (char)('0' + rest % 10);
    nv[0] = http2_field(BYTES_LIT(":status"), bytes_of(status, 3));
    return http2_fields(nv, 1, reply->headers, reply->n_headers);
}

/* The fields of a whole reply's head. date and content-length only for HTTP proper: gRPC knows neither. */
static size_t reply_fields(const struct http_reply *reply, nghttp2_nv nv[HTTP2_FIELDS_MAX], char status[3],
                           char length[24])
{
    size_t n = head_fields(reply, nv, status);
    if (reply->n_trailers == 0) {
        int n_length = snprintf(length, 24, "%zu", reply->body.n);
        if (reply->status != 204 && reply->status != 304)
            nv[n++] = http2_field(BYTES_LIT("content-length"), bytes_of(length, (size_t)n_length));
        nv[n++] = http2_field(BYTES_LIT("date"), http_date());
    }
    return n;
}

static int keep_trailers(struct stream *s, const struct http_header *trailers, uint32_t n_trailers)
{
    int r = 0;
    for (uint32_t i = 0; i < n_trailers && r == 0; i++)
        r = header_list_add(&s->reply_trailers, trailers[i].name, trailers[i].value);
    if (r < 0)
        return r;
    header_list_seal(&s->reply_trailers);
    s->base.trailers = s->reply_trailers.items.p;
    s->base.n_trailers = s->reply_trailers.items.n;
    return 0;
}

static int keep_reply(struct stream *s, const struct http_reply *reply)
{
    int r = buffer_add_bytes(&s->reply_body, reply->body);
    if (r == 0)
        r = keep_trailers(s, reply->trailers, reply->n_trailers);
    if (r == 0)
        s->base.body = buffer_bytes(&s->reply_body);
    return r;
}

/* There is nothing to say any more: memory is out, or whoever replied gave up. */
static int give_up(struct http2_server *c, struct stream *s)
{
    s->replied = true;
    s->base.streaming = false;
    nghttp2_submit_rst_stream(c->core.session, NGHTTP2_FLAG_NONE, s->base.id, NGHTTP2_INTERNAL_ERROR);
    return -ENOMEM;
}

int http2_reply(struct http2_server *c, struct stream *s, const struct http_reply *reply)
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
    return r == 0 ? 0 : give_up(c, s);
}

int http2_reply_to(struct http_exchange *x, const struct http_reply *reply)
{
    struct stream *s = container_of(x, struct stream, x);
    assert(s->told && !s->replied && !s->begun);
    return http2_reply(x->session->conn, s, reply);
}

/* ---- in pieces ---- */

int http2_reply_begin(struct http_exchange *x, const struct http_reply *head)
{
    struct stream *s = container_of(x, struct stream, x);
    struct http2_server *c = x->session->conn;
    nghttp2_nv nv[HTTP2_FIELDS_MAX];
    nghttp2_data_provider provider = http2_body_provider();
    char status[3];
    assert(s->told && !s->replied && !s->begun);
    size_t n = head_fields(head, nv, status);
    nv[n++] = http2_field(BYTES_LIT("date"), http_date());
    s->begun = s->base.streaming = true;
    s->bodiless = bytes_is(x->method, "HEAD") || head->status == 204 || head->status == 304;
    int r = nghttp2_submit_response(c->core.session, s->base.id, nv, n, s->bodiless ? NULL : &provider);
    return r == 0 ? 0 : give_up(c, s);
}

/* nghttp2 asks for the body again. It refuses when it was not waiting, which is as good. */
static void resume(struct http2_server *c, struct stream *s)
{
    nghttp2_session_resume_data(c->core.session, s->base.id);
}

int http2_reply_write(struct http_exchange *x, struct bytes piece)
{
    struct stream *s = container_of(x, struct stream, x);
    struct http2_server *c = x->session->conn;
    assert(s->begun && !s->replied);
    if (s->bodiless)
        return 0;
    if (piece.n > HTTP_REPLY_WAITING_MAX || s->base.body.n > HTTP_REPLY_WAITING_MAX - piece.n)
        return HTTP_REPLY_FULL;
    buffer_consume(&s->reply_body, s->reply_body.n - s->base.body.n); /* what is sent */
    int r = buffer_add_bytes(&s->reply_body, piece);
    s->base.body = buffer_bytes(&s->reply_body); /* it may have moved, and the bytes in it have */
    if (r < 0)
        return give_up(c, s);
    resume(c, s);
    return 0;
}

int http2_reply_end(struct http_exchange *x, const struct http_header *trailers, uint32_t n_trailers)
{
    struct stream *s = container_of(x, struct stream, x);
    struct http2_server *c = x->session->conn;
    assert(s->begun && !s->replied);
    if (!s->bodiless && keep_trailers(s, trailers, n_trailers) < 0)
        return give_up(c, s);
    s->replied = true;
    s->base.streaming = false;
    resume(c, s);
    return 0;
}

void http2_reply_abort(struct http_exchange *x)
{
    struct stream *s = container_of(x, struct stream, x);
    assert(s->begun && !s->replied);
    give_up(x->session->conn, s);
}
