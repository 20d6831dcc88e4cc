/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/http/http2_core.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "proto/base/macros.h"
#include "proto/http/client.h"

#define FRAME_HEADER 9u /* RFC 9113 §4.1 */

/* ---- nghttp2's memory ----
 * A session has a buffer for the largest frame from its beginning, of which a server that hands its bodies
 * over (send_data) uses the first hundred bytes. malloc gives it where a handshake's buffers were, in pages
 * that are there already: they are given back, and come again, zero, when somebody writes to them. */

#define LARGE_BLOCK ((size_t)16 << 10)

static void *allocate(size_t n, void *user)
{
    (void)user;
    uint8_t *p = malloc(n);
    if (p && n >= LARGE_BLOCK) {
        const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = ((uintptr_t)p + page - 1) & -page,
                        to = ((uintptr_t)p + n) & -page;
        if (to > from)
            madvise(p + (from - (uintptr_t)p), to - from, MADV_DONTNEED);
    }
    return p;
}

static void release(void *p, void *user)
{
    (void)user;
    free(p);
}

static void *allocate_zeroed(size_t n, size_t size, void *user)
{
    (void)user;
    return calloc(n, size);
}

/* Which is how nghttp2 makes its buffers. */
static void *reallocate(void *p, size_t n, void *user)
{
    return p ? realloc(p, n) : allocate(n, user);
}

static nghttp2_mem memory = {NULL, allocate, release, allocate_zeroed,
                             reallocate}; /* copied by each session */

void *http2_stream_of(const struct http2_core *c, int32_t id)
{
    return nghttp2_session_get_stream_user_data(c->session, id);
}

nghttp2_nv http2_field(struct bytes name, struct bytes value)
{
    return (nghttp2_nv){
        .name = (uint8_t *)name.p, .namelen = name.n, .value = (uint8_t *)value.p, .valuelen = value.n};
}

size_t http2_fields(nghttp2_nv nv[HTTP2_FIELDS_MAX], size_t n, const struct http_header *headers,
                    uint32_t n_headers)
{
    assert(n + n_headers <= HTTP2_FIELDS_MAX); /* our own code's choice, never a peer's */
    for (uint32_t i = 0; i < n_headers; i++)
        nv[n++] = http2_field(headers[i].name, headers[i].value);
    return n;
}

/* Says how much goes into the next DATA frame; send_data then copies it, once, straight to where it is
 * drained to, or leaves it where it is. */
static ssize_t read_body(nghttp2_session *session, int32_t id, uint8_t *buf, size_t length, uint32_t *flags,
                         nghttp2_data_source *source, void *user_data)
{
    (void)buf;
    (void)source; /* the stream is looked up, because a cancelled one is gone before nghttp2 knows it */
    struct http2_stream *s = http2_stream_of(user_data, id);
    if (!s)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    const size_t left = s->prefix.n + s->body.n, n = min_of(length, left);
    if (n == 0 && s->streaming)
        return NGHTTP2_ERR_DEFERRED;
    *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
    if (n < left || s->streaming)
        return (ssize_t)n;
    *flags |= NGHTTP2_DATA_FLAG_EOF;
    if (s->n_trailers > 0) {
        nghttp2_nv nv[HTTP2_FIELDS_MAX];
        size_t n_nv = http2_fields(nv, 0, s->trailers, s->n_trailers);
        *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
        if (nghttp2_submit_trailer(session, id, nv, n_nv) < 0)
            return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    }
    return (ssize_t)n;
}

nghttp2_data_provider http2_body_provider(void)
{
    return (nghttp2_data_provider){.read_callback = read_body};
}

/* What the drain has so far, in `out` and in its place. */
static size_t drained(const struct http2_core *c)
{
    return c->out->n + (c->places ? c->places->bytes : 0);
}

static int send_data(nghttp2_session *session, nghttp2_frame *frame, const uint8_t *frame_header,
                     size_t length, nghttp2_data_source *source, void *user_data)
{
    (void)session;
    (void)source;
    struct http2_core *c = user_data;
    struct http2_stream *s = http2_stream_of(c, frame->hd.stream_id);
    if (!s)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    if (!c->out || drained(c) >= c->out_until)
        return NGHTTP2_ERR_WOULDBLOCK;
    assert(length <= s->prefix.n + s->body.n);
    const size_t n_prefix = min_of(length, s->prefix.n);
    int r = buffer_reserve(c->out, FRAME_HEADER + (c->places ? n_prefix : length));
    if (r == 0)
        r = buffer_add(c->out, frame_header, FRAME_HEADER);
    if (r == 0)
        r = http_places_add(NULL, c->out, &s->prefix, n_prefix);
    if (r == 0)
        r = http_places_add(c->places, c->out, &s->body, length - n_prefix);
    if (r < 0)
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    s->n_sent += length;
    return 0;
}

int http2_core_init(struct http2_core *c, bool server, nghttp2_session_callbacks *callbacks)
{
    nghttp2_option *option = NULL;
    int r = callbacks ? nghttp2_option_new(&option) : NGHTTP2_ERR_NOMEM;
    if (r == 0) {
        nghttp2_option_set_max_outbound_ack(option, HTTP2_ACKS_MAX);
        nghttp2_session_callbacks_set_send_data_callback(callbacks, send_data);
        r = server ? nghttp2_session_server_new3(&c->session, callbacks, c, option, &memory)
                   : nghttp2_session_client_new3(&c->session, callbacks, c, option, &memory);
    }
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(callbacks);
    return r == 0 ? 0 : -ENOMEM;
}

void http2_core_release(struct http2_core *c)
{
    nghttp2_session_del(c->session);
    c->session = NULL;
}

int http2_core_settings(struct http2_core *c, const nghttp2_settings_entry *entries, size_t n,
                        uint32_t window_bytes)
{
    int r = nghttp2_submit_settings(c->session, NGHTTP2_FLAG_NONE, entries, n);
    if (r == 0 && window_bytes > NGHTTP2_INITIAL_CONNECTION_WINDOW_SIZE)
        r = nghttp2_session_set_local_window_size(c->session, NGHTTP2_FLAG_NONE, 0, (int32_t)window_bytes);
    return r == 0 ? 0 : -ENOMEM;
}

static int give_up(struct http2_core *c, ssize_t r)
{
    c->broken = true;
    return r == NGHTTP2_ERR_NOMEM || r == NGHTTP2_ERR_CALLBACK_FAILURE ? -ENOMEM : -EPROTO;
}

int http2_core_feed(struct http2_core *c, struct bytes in)
{
    if (c->broken)
        return -EPROTO;
    ssize_t r = nghttp2_session_mem_recv(c->session, in.p, in.n);
    return r < 0 ? give_up(c, r) : 0;
}

int http2_core_drain(struct http2_core *c, struct buffer *out, size_t max)
{
    int r = 0;
    if (c->broken)
        return 0;
    c->out = out;
    c->out_until = out->n + max;
    while (r == 0 && drained(c) < c->out_until) {
        const uint8_t *p;
        ssize_t n = nghttp2_session_mem_send(c->session, &p);
        if (n == 0)
            break;
        r = n < 0 ? give_up(c, n) : buffer_add(out, p, (size_t)n);
    }
    c->out = NULL;
    if (r == 0 && c->broken)
        r = -ENOMEM; /* http2_core_keep */
    if (r < 0)
        c->broken = true; /* bytes are lost: nothing that could follow would be understood */
    return r;
}

void http2_core_keep(struct http2_core *c)
{
    if (c->out && c->places && http_places_copy(c->places, c->out) < 0)
        c->broken = true;
}

bool http2_core_has_output(const struct http2_core *c)
{
    return !c->broken && nghttp2_session_want_write(c->session);
}

bool http2_core_is_done(const struct http2_core *c)
{
    return c->broken || (!nghttp2_session_want_read(c->session) && !nghttp2_session_want_write(c->session));
}
