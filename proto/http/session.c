/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/http/session.h"

#include <errno.h>
#include <stdlib.h>

#include "proto/base/clock.h"

struct http_session *http_session_new(const struct http_handler *handler, void *context,
                                      const struct http_peer *peer, const struct http_server_limits *limits,
                                      uint64_t now_ns)
{
    struct http_session *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->handler = handler;
    s->context = context;
    s->peer = peer;
    s->limits = *limits;
    s->now = s->started = now_ns;
    return s;
}

struct http_session *http_session_free(struct http_session *s)
{
    if (!s)
        return NULL;
    s->inside++;
    if (s->ops)
        s->ops->free(s->conn);
    free(s);
    return NULL;
}

static int begin(struct http_session *s, const struct http_session_ops *ops)
{
    s->conn = ops == &http2_server_ops ? http2_server_new(s) : http1_server_new(s);
    if (!s->conn)
        return -ENOMEM;
    s->ops = ops;
    if (s->shutting_down)
        ops->shutdown(s->conn);
    return 0;
}

/* Compares with the preface as far as there are bytes. The ones that matched are not kept: they are those of
 * the preface. */
static int sniff(struct http_session *s, struct bytes *in)
{
    if (s->n_sniffed == 0)
        s->started = s->now;
    uint32_t before = s->n_sniffed;
    size_t i = 0;
    while (i < in->n && s->n_sniffed < HTTP_PREFACE_N && in->p[i] == (uint8_t)HTTP_PREFACE[s->n_sniffed]) {
        i++;
        s->n_sniffed++;
    }
    if (i == in->n && s->n_sniffed < HTTP_PREFACE_N)
        return 0;
    int r = begin(s, s->n_sniffed == HTTP_PREFACE_N ? &http2_server_ops : &http1_server_ops);
    if (r == 0 && before > 0)
        r = s->ops->feed(s->conn, bytes_of(HTTP_PREFACE, before));
    return r;
}

int http_session_feed(struct http_session *s, struct bytes in, uint64_t now_ns)
{
    s->now = now_ns;
    if (s->ended || in.n == 0)
        return 0;
    s->inside++;
    int r = s->ops ? 0 : sniff(s, &in);
    if (r == 0 && s->ops)
        r = s->ops->feed(s->conn, in);
    s->inside--;
    return r;
}

void http_session_feed_eof(struct http_session *s)
{
    s->inside++;
    if (s->ops)
        s->ops->feed_eof(s->conn);
    else
        s->ended = true;
    s->inside--;
}

int http_session_drain(struct http_session *s, struct buffer *out, size_t max)
{
    if (!s->ops)
        return 0;
    s->inside++;
    int r = s->ops->drain(s->conn, out, max);
    s->inside--;
    return r;
}

bool http_session_wants_input(const struct http_session *s)
{
    return s->ops ? s->ops->wants_input(s->conn) : !s->ended;
}

bool http_session_has_output(const struct http_session *s)
{
    return s->ops && s->ops->has_output(s->conn);
}

bool http_session_is_done(const struct http_session *s)
{
    return s->ops ? s->ops->is_done(s->conn) : s->ended;
}

bool http_session_is_idle(const struct http_session *s)
{
    return s->ops ? s->ops->is_idle(s->conn) && !s->ops->has_output(s->conn) : !s->ended;
}

void http_session_set_context(struct http_session *s, void *context)
{
    s->context = context;
}

void http_session_be_wary(struct http_session *s)
{
    s->wary = true;
}

bool http_session_was_abused(const struct http_session *s)
{
    return s->was_abused;
}

uint64_t http_session_deadline(const struct http_session *s)
{
    if (s->ops)
        return s->ops->deadline(s->conn);
    if (s->ended)
        return UINT64_MAX;
    if (s->shutting_down && s->n_sniffed == 0)
        return s->notice_until;
    return deadline_after(s->started, s->n_sniffed > 0 ? s->limits.head_ns : s->limits.idle_ns);
}

void http_session_tick(struct http_session *s, uint64_t now_ns)
{
    s->now = now_ns;
    s->inside++;
    if (s->ops)
        s->ops->tick(s->conn);
    else if (now_ns >= http_session_deadline(s))
        s->ended = true;
    s->inside--;
}

void http_session_shutdown(struct http_session *s)
{
    s->inside++;
    if (!s->shutting_down)
        s->notice_until = s->now + HTTP_DRAIN_NOTICE_NS;
    s->shutting_down = true;
    if (s->ops)
        s->ops->shutdown(s->conn);
    s->inside--;
}

void http_session_on_late_output(struct http_session *s, void (*fn)(void *user), void *user)
{
    s->on_late = fn;
    s->late_user = user;
}

int http_reply(struct http_exchange *x, const struct http_reply *reply)
{
    struct http_session *s = x->session;
    int r = s->ops->reply(x, reply);
    if (s->inside == 0 && s->on_late)
        s->on_late(s->late_user);
    return r;
}

uint64_t body_due(const struct http_server_limits *l, uint64_t began, uint64_t received)
{
    uint64_t at = deadline_after(began, l->request_ns);
    if (l->body_rate == 0 || at == UINT64_MAX)
        return at;
    uint64_t seconds = received / l->body_rate;
    return seconds < (UINT64_MAX - at) / NSEC_PER_SEC ? at + seconds * NSEC_PER_SEC : UINT64_MAX;
}
