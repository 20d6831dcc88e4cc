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
