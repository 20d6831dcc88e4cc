/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client's side of HTTP/2: a stream is a call.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "proto/base/macros.h"
#include "proto/http/client.h"
#include "proto/http/http2_core.h"
#include "proto/http/response.h"

#define WINDOW_BYTES  (1u << 20)  /* for responses: small ones; more than one round trip's worth of any */
#define HEADERS_BYTES (64u << 10) /* SETTINGS_MAX_HEADER_LIST_SIZE */

struct http_call {
    struct http2_stream base;
    struct http_call *prev, *next;
    http_call_fn done;
    void *user;
    struct response response;
    bool have_head; /* the final one: HEADERS after it are trailers, those after a 1xx are not */
    bool complete;
    int refused; /* RESPONSE_TOO_LARGE, RESPONSE_OVER_BUDGET; negative: no memory; 0: it is taken */
};

struct http2_client {
    struct http2_core core;
    struct http_client base;
    struct http_call *calls;
    bool eof;
    uint8_t n_first; /* of the first frame's header, that were looked at */
};

static struct http2_client *of(struct http_client *c)
{
    return container_of(c, struct http2_client, base);
}

static const struct http2_client *of_const(const struct http_client *c)
{
    return container_of(c, struct http2_client, base);
}

/* Takes the call out of the session; nghttp2 may still know the stream, which then belongs to nobody. */
static void unlink_call(struct http2_client *c, struct http_call *call)
{
    http2_core_keep(&c->core);
    *(call->prev ? &call->prev->next : &c->calls) = call->next;
    if (call->next)
        call->next->prev = call->prev;
    if (call->base.id > 0)
        nghttp2_session_set_stream_user_data(c->core.session, call->base.id, NULL);
}

static void end_call(struct http2_client *c, struct http_call *call, enum http_call_result result,
                     uint32_t error)
{
    unlink_call(c, call);
    struct http_response view = response_view(&call->response);
    if (result == HTTP_CALL_RESET)
        view.status = error;
    call->done(call->user, result, &view);
    response_release(&call->response);
    free(call);
}

static void end_all(struct http2_client *c, enum http_call_result result)
{
    while (c->calls)
        end_call(c, c->calls, result, 0);
}

/* ---- nghttp2's callbacks ---- */

/* A response too large, or no memory for it: the stream is reset, and on_stream_close ends the call. */
static int refuse(struct http_call *call, int error)
{
    call->refused = error;
    return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_n,
                     const uint8_t *value, size_t value_n, uint8_t flags, void *user_data)
{
    (void)session;
    (void)flags;
    struct http2_client *c = user_data;
    struct http_call *call = http2_stream_of(&c->core, frame->hd.stream_id);
    if (!call || frame->hd.type != NGHTTP2_HEADERS)
        return 0;
    if (name_n > 0 && name[0] == ':') { /* :status, checked by nghttp2: three digits */
        int64_t status = 0;
        header_length(bytes_of(value, value_n), &status);
        call->response.status = (uint32_t)status;
        return 0;
    }
    int r = response_add_field(&call->response, call->have_head, bytes_of(name, name_n),
                               bytes_of(value, value_n));
    return r != 0 ? refuse(call, r) : 0;
}

static int on_data_chunk(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data, size_t n,
                         void *user_data)
{
    (void)flags;
    struct http2_client *c = user_data;
    struct http_call *call = http2_stream_of(&c->core, id);
    int r = call && !call->refused ? response_add_body(&call->response, bytes_of(data, n)) : 0;
    if (r == 0)
        return 0;
    call->refused = r;
    /* This callback cannot refuse a stream by its return value, but the connection. */
    r = nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, id, NGHTTP2_CANCEL);
    return r == 0 ? 0 : NGHTTP2_ERR_CALLBACK_FAILURE;
}

static int on_frame_recv(nghttp2_session *session, const nghttp2_frame *frame, void *user_data)
{
    struct http2_client *c = user_data;
    bool headers = frame->hd.type == NGHTTP2_HEADERS;
    if (!headers && frame->hd.type != NGHTTP2_DATA)
        return 0;
    struct http_call *call = http2_stream_of(&c->core, frame->hd.stream_id);
    if (!call)
        return 0;
    if (headers && call->response.status >= 100 && call->response.status < 200)
        response_restart(&call->response);
    else if (headers)
        call->have_head = true;
    if (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) {
        int32_t id = call->base.id;
        call->complete = true;
        /* An answer before the request was all sent: what is left of it is not wanted, and not ours any more
         * once done has been called. */
        if (nghttp2_session_get_stream_local_close(session, id) == 0)
            nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, id, NGHTTP2_NO_ERROR);
        if (!call->refused)
            end_call(c, call, HTTP_CALL_DONE, 0);
    }
    return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t id, uint32_t error, void *user_data)
{
    (void)session;
    struct http2_client *c = user_data;
    struct http_call *call = http2_stream_of(&c->core, id);
    if (!call)
        return 0;
    enum http_call_result result = call->refused == RESPONSE_TOO_LARGE     ? HTTP_CALL_TOO_LARGE
                                   : call->refused == RESPONSE_OVER_BUDGET ? HTTP_CALL_OVER_BUDGET
                                   : error == NGHTTP2_REFUSED_STREAM       ? HTTP_CALL_REFUSED
                                                                           : HTTP_CALL_RESET;
    end_call(c, call, result, error);
    return 0;
}

/* A request that never got on the wire: its stream does not exist, so on_stream_close will not tell. */
static int on_frame_not_send(nghttp2_session *session, const nghttp2_frame *frame, int why, void *user_data)
{
    (void)session;
    (void)why;
    struct http2_client *c = user_data;
    if (frame->hd.type != NGHTTP2_HEADERS)
        return 0;
    for (struct http_call *call = c->calls; call; call = call->next)
        if (call->base.id == frame->hd.stream_id) {
            end_call(c, call, HTTP_CALL_REFUSED, 0);
            break;
        }
    return 0;
}

/* ---- the client's table ---- */

static bool is_ready(const struct http_client *base)
{
    const struct http2_client *c = of_const(base);
    if (c->eof || c->core.broken || !nghttp2_session_check_request_allowed(c->core.session))
        return false;
    uint32_t max = nghttp2_session_get_remote_settings(c->core.session,
                                                       NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS),
             n = 0;
    for (const struct http_call *call = c->calls; call && n < max; call = call->next)
        n++;
    return n < max;
}

static struct http_call *call(struct http_client *base, const struct http_request *q, http_call_fn done,
                              void *user)
{
    struct http2_client *c = of(base);
    struct http_call *call = is_ready(base) ? calloc(1, sizeof *call) : NULL;
    if (!call)
        return NULL;
    call->done = done;
    call->user = user;
    call->base.prefix = q->prefix;
    call->base.body = q->body;
    call->response.max = c->base.response_max;
    call->response.budget = c->base.budget;
    char length[24];
    nghttp2_nv nv[HTTP2_FIELDS_MAX] = {
        http2_field(BYTES_LIT(":method"), bytes_str(q->method)),
        http2_field(BYTES_LIT(":scheme"), bytes_str(q->scheme)),
        http2_field(BYTES_LIT(":authority"), bytes_str(q->authority)),
        http2_field(BYTES_LIT(":path"), bytes_str(q->path)),
    };
    size_t n = http2_fields(nv, 4, q->headers, q->n_headers);
    const size_t n_body = q->prefix.n + q->body.n;
    if (n_body > 0 && n < HTTP2_FIELDS_MAX) {
        int n_length = snprintf(length, sizeof length, "%zu", n_body);
        nv[n++] = http2_field(BYTES_LIT("content-length"), bytes_of(length, (size_t)n_length));
    }
    nghttp2_data_provider provider = http2_body_provider();
    call->base.id = nghttp2_submit_request(c->core.session, NULL, nv, n, n_body > 0 ? &provider : NULL, call);
    if (call->base.id < 0) {
        free(call);
        return NULL;
    }
    call->next = c->calls;
    if (c->calls)
        c->calls->prev = call;
    c->calls = call;
    return call;
}

static void cancel(struct http_client *base, struct http_call *call)
{
    struct http2_client *c = of(base);
    nghttp2_submit_rst_stream(c->core.session, NGHTTP2_FLAG_NONE, call->base.id, NGHTTP2_CANCEL);
    unlink_call(c, call);
    response_release(&call->response);
    free(call);
}

static void free_client(struct http_client *base)
{
    struct http2_client *c = of(base);
    c->eof = true;
    end_all(c, HTTP_CALL_BROKEN);
    http2_core_release(&c->core);
    free(c);
}

/* What a server says first is SETTINGS (RFC 9113 §3.4), of less than 64 KiB; another protocol's first words
 * are not. nghttp2 would pass over them, and the call would wait. */
static bool begins_well(struct http2_client *c, struct bytes in)
{
    for (size_t i = 0; i < in.n && c->n_first < 4; i++, c->n_first++)
        if ((c->n_first == 0 && in.p[i] != 0) || (c->n_first == 3 && in.p[i] != NGHTTP2_SETTINGS))
            return false;
    return true;
}

static int feed(struct http_client *base, struct bytes in)
{
    struct http2_client *c = of(base);
    if (c->n_first < 4 && !begins_well(c, in)) {
        c->core.broken = true;
        end_all(c, HTTP_CALL_NOT_HTTP);
        return -EPROTO;
    }
    int r = http2_core_feed(&c->core, in);
    if (r < 0)
        end_all(c, HTTP_CALL_BROKEN);
    return r;
}

static void feed_eof(struct http_client *base)
{
    struct http2_client *c = of(base);
    c->eof = true;
    end_all(c, HTTP_CALL_BROKEN);
}

static int drain(struct http_client *base, struct buffer *out, size_t max)
{
    struct http2_client *c = of(base);
    c->core.places = base->places;
    int r = http2_core_drain(&c->core, out, max);
    c->core.places = NULL;
    if (r < 0)
        end_all(c, HTTP_CALL_BROKEN);
    return r;
}

static bool has_output(const struct http_client *base)
{
    return http2_core_has_output(&of_const(base)->core);
}

static bool is_done(const struct http_client *base)
{
    const struct http2_client *c = of_const(base);
    return c->eof || http2_core_is_done(&c->core) || !nghttp2_session_check_request_allowed(c->core.session);
}

static nghttp2_session_callbacks *make_callbacks(void)
{
    nghttp2_session_callbacks *k;
    if (nghttp2_session_callbacks_new(&k) < 0)
        return NULL;
    nghttp2_session_callbacks_set_on_header_callback(k, on_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(k, on_frame_recv);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(k, on_data_chunk);
    nghttp2_session_callbacks_set_on_stream_close_callback(k, on_stream_close);
    nghttp2_session_callbacks_set_on_frame_not_send_callback(k, on_frame_not_send);
    return k;
}

struct http_client *http2_client_new(size_t response_max)
{
    static const struct http_client_ops ops = {
        .free = free_client,
        .call = call,
        .cancel = cancel,
        .feed = feed,
        .feed_eof = feed_eof,
        .drain = drain,
        .has_output = has_output,
        .is_ready = is_ready,
        .is_done = is_done,
    };
    static const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, WINDOW_BYTES},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, HEADERS_BYTES},
    };
    struct http2_client *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->base = (struct http_client){.ops = &ops, .response_max = response_max};
    if (http2_core_init(&c->core, false, make_callbacks()) < 0 ||
        http2_core_settings(&c->core, settings, ARRAY_LEN(settings), WINDOW_BYTES) < 0) {
        http2_core_release(&c->core);
        free(c);
        return NULL;
    }
    return &c->base;
}
