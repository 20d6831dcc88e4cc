/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/http/client.h"

struct http_client *http_client_new(enum http_version version, size_t response_max)
{
    return version == HTTP_VERSION_2 ? http2_client_new(response_max) : http1_client_new(response_max);
}

void http_client_charge(struct http_client *c, struct budget *budget)
{
    c->budget = budget;
}

struct http_client *http_client_free(struct http_client *c)
{
    if (c)
        c->ops->free(c);
    return NULL;
}

struct http_call *http_client_call(struct http_client *c, const struct http_request *request,
                                   http_call_fn done, void *user)
{
    return c->ops->call(c, request, done, user);
}

void http_client_cancel(struct http_client *c, struct http_call *call)
{
    c->ops->cancel(c, call);
}

int http_client_feed(struct http_client *c, struct bytes in)
{
    return in.n > 0 ? c->ops->feed(c, in) : 0;
}

void http_client_feed_eof(struct http_client *c)
{
    c->ops->feed_eof(c);
}

int http_client_drain(struct http_client *c, struct buffer *out, size_t max)
{
    return c->ops->drain(c, out, max);
}

int http_client_drain_in_place(struct http_client *c, struct buffer *out, size_t max, struct http_places *ret)
{
    ret->n = 0;
    ret->bytes = 0;
    c->places = ret;
    int r = c->ops->drain(c, out, max);
    c->places = NULL;
    return r;
}

/* ---- bodies that are sent from where they are ---- */

/* Less is cheaper copied than told to the kernel as one more part. */
#define IN_PLACE_MIN 1024u

int http_places_add(struct http_places *p, struct buffer *out, struct bytes *body, size_t n)
{
    int r = 0;
    if (p && n >= IN_PLACE_MIN && p->n < HTTP_PLACES_MAX) {
        p->of[p->n].at = out->n;
        p->of[p->n++].body = bytes_of(body->p, n);
        p->bytes += n;
    } else if (n > 0) { /* an empty reply has no body to point into */
        r = buffer_add(out, body->p, n);
    }
    if (r == 0 && n > 0)
        *body = bytes_from(*body, n);
    return r;
}

/* From the end on, so that each byte moves once. */
int http_places_copy(struct http_places *p, struct buffer *out)
{
    int r = buffer_reserve(out, p->bytes);
    if (r < 0)
        return r;
    size_t end = out->n, more = p->bytes;
    out->n += more;
    while (p->n > 0) {
        const size_t at = p->of[--p->n].at;
        const struct bytes body = p->of[p->n].body;
        memmove(out->p + at + more, out->p + at, end - at);
        more -= body.n;
        memcpy(out->p + at + more, body.p, body.n);
        end = at;
    }
    p->bytes = 0;
    return 0;
}

uint32_t http_places_parts(const struct http_places *p, struct bytes out, struct bytes ret[HTTP_PARTS_MAX])
{
    uint32_t n = 0;
    size_t at = 0;
    for (uint32_t i = 0; i < p->n; i++) {
        if (p->of[i].at > at)
            ret[n++] = bytes_of(out.p + at, p->of[i].at - at);
        at = p->of[i].at;
        ret[n++] = p->of[i].body;
    }
    if (out.n > at)
        ret[n++] = bytes_of(out.p + at, out.n - at);
    return n;
}

bool http_client_has_output(const struct http_client *c)
{
    return c->ops->has_output(c);
}

bool http_client_is_ready(const struct http_client *c)
{
    return c->ops->is_ready(c);
}

bool http_client_is_done(const struct http_client *c)
{
    return c->ops->is_done(c);
}
