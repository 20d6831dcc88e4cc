/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replies in pieces. Apart from session.c, so that a program that fakes http_reply alone (the tests of serve)
 * can be linked.
 */
#include "proto/http/session.h"

static void tell_late(const struct http_session *s)
{
    if (s->inside == 0 && s->on_late)
        s->on_late(s->late_user);
}

int http_reply_begin(struct http_exchange *x, const struct http_reply *head)
{
    struct http_session *s = x->session;
    int r = s->ops->reply_begin(x, head);
    tell_late(s);
    return r;
}

int http_reply_write(struct http_exchange *x, struct bytes piece)
{
    struct http_session *s = x->session;
    int r = piece.n > 0 ? s->ops->reply_write(x, piece) : 0;
    tell_late(s);
    return r;
}

int http_reply_end(struct http_exchange *x, const struct http_header *trailers, uint32_t n_trailers)
{
    struct http_session *s = x->session;
    int r = s->ops->reply_end(x, trailers, n_trailers);
    tell_late(s);
    return r;
}

void http_reply_abort(struct http_exchange *x)
{
    struct http_session *s = x->session;
    s->ops->reply_abort(x);
    tell_late(s);
}
