/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client's side of HTTP/1.1: one call at a time; llhttp reads the responses.
 */
#include <errno.h>
#include <llhttp.h>
#include <stdlib.h>

#include "proto/base/macros.h"
#include "proto/http/client.h"
#include "proto/http/http1_text.h"
#include "proto/http/response.h"

#define INTERIM_MAX 16u /* 1xx responses to one request */
#define FIELD_MAX   (64u << 10)

struct http_call {
    http_call_fn done;
    void *user;
    struct bytes body; /* of the request, what is not drained yet */
    struct response response;
    bool head_request, complete;
    uint32_t n_interim;
};

struct http1_client {
    struct http_client base;
    llhttp_t parser;
    llhttp_settings_t settings;
    struct http_call *call;
    struct buffer out; /* the request's head */
    size_t sent;
    struct buffer name, value; /* the field being read: spans come in pieces */
    bool in_trailers, unusable;
    int error; /* what a callback stopped for: -ENOBUFS, -ENOMEM, -EPROTO */
};

static struct http1_client *of(struct http_client *c)
{
    return container_of(c, struct http1_client, base);
}

static struct http1_client *of_parser(llhttp_t *parser)
{
    return container_of(parser, struct http1_client, parser);
}

/* Ends the call, if there is one. */
static void end_call(struct http1_client *c, enum http_call_result result)
{
    if (!c->call)
        return;
    struct http_call *call = take_ptr(c->call);
    struct http_response view = response_view(&call->response);
    buffer_clear(&c->out, 4096);
    c->sent = 0;
    call->done(call->user, result, &view);
    response_release(&call->response);
    free(call);
}

/* ---- llhttp's callbacks ---- */

static int stop(struct http1_client *c, int error)
{
    c->error = error;
    return -1;
}

static int flush_field(struct http1_client *c)
{
    if (c->name.n == 0)
        return 0;
    header_lower(c->name.p, c->name.n);
    int r = response_add_field(&c->call->response, c->in_trailers, buffer_bytes(&c->name),
                               bytes_trim(buffer_bytes(&c->value)));
    c->name.n = c->value.n = 0;
    return r != 0 ? stop(c, r) : 0;
}

static int on_name(llhttp_t *parser, const char *at, size_t n)
{
    struct http1_client *c = of_parser(parser);
    int r = buffer_add(&c->name, at, n);
    return r != 0 ? stop(c, r) : 0;
}

static int on_value(llhttp_t *parser, const char *at, size_t n)
{
    struct http1_client *c = of_parser(parser);
    int r = buffer_add(&c->value, at, n);
    return r != 0 ? stop(c, r) : 0;
}

static int on_value_complete(llhttp_t *parser)
{
    return flush_field(of_parser(parser));
}

static int on_headers_complete(llhttp_t *parser)
{
    struct http1_client *c = of_parser(parser);
    c->in_trailers = true;
    c->call->response.status = parser->status_code;
    if (parser->status_code == 101) /* we asked for no other protocol */
        return stop(c, -EPROTO);
    parser->upgrade = 0;
    return c->call->head_request ? 1 : 0;
}

static int on_body(llhttp_t *parser, const char *at, size_t n)
{
    struct http1_client *c = of_parser(parser);
    int r = response_add_body(&c->call->response, bytes_of(at, n));
    return r != 0 ? stop(c, r) : 0;
}

static int on_complete(llhttp_t *parser)
{
    struct http1_client *c = of_parser(parser);
    c->in_trailers = false;
    if (parser->status_code < 200) {
        response_restart(&c->call->response);
        return ++c->call->n_interim > INTERIM_MAX ? stop(c, -EPROTO) : 0;
    }
    c->call->complete = true;
    if (!llhttp_should_keep_alive(parser) || c->call->body.n > 0 || c->sent < c->out.n)
        c->unusable = true; /* closed by the peer's word, or with a request half said */
    return HPE_PAUSED;
}

/* ---- calls ---- */

static int write_head(struct http1_client *c, const struct http_request *q)
{
    struct buffer *out = &c->out;
    int r = buffer_printf(out, "%s %s HTTP/1.1\r\n", q->method, q->path);
    if (r == 0)
        r = http1_add_header(out, BYTES_LIT("host"), bytes_str(q->authority));
    for (uint32_t i = 0; i < q->n_headers && r == 0; i++)
        r = http1_add_header(out, q->headers[i].name, q->headers[i].value);
    const size_t length = q->prefix.n + q->body.n;
    bool says_length = length > 0 || (strcmp(q->method, "GET") != 0 && strcmp(q->method, "HEAD") != 0);
    if (r == 0 && says_length)
        r = buffer_printf(out, "content-length: %zu\r\n", length);
    if (r == 0)
        r = buffer_add_str(out, "\r\n");
    return r < 0 ? r : buffer_add_bytes(out, q->prefix);
}

static bool is_ready(const struct http_client *base)
{
    const struct http1_client *c = container_of(base, struct http1_client, base);
    return !c->call && !c->unusable;
}

static struct http_call *call(struct http_client *base, const struct http_request *q, http_call_fn done,
                              void *user)
{
    struct http1_client *c = of(base);
    struct http_call *call = is_ready(base) ? calloc(1, sizeof *call) : NULL;
    if (!call)
        return NULL;
    if (write_head(c, q) < 0) {
        buffer_clear(&c->out, 0);
        free(call);
        return NULL;
    }
    call->done = done;
    call->user = user;
    call->body = q->body;
    call->head_request = strcmp(q->method, "HEAD") == 0;
    call->response.max = c->base.response_max;
    call->response.budget = c->base.budget;
    c->call = call;
    c->in_trailers = false;
    llhttp_init(&c->parser, HTTP_RESPONSE, &c->settings);
    return call;
}

static void cancel(struct http_client *base, struct http_call *call)
{
    struct http1_client *c = of(base);
    if (c->call != call)
        return;
    c->call = NULL;
    c->unusable = true; /* its response may still come */
    buffer_clear(&c->out, 0);
    c->sent = 0;
    response_release(&call->response);
    free(call);
}

static void free_client(struct http_client *base)
{
    struct http1_client *c = of(base);
    c->unusable = true;
    end_call(c, HTTP_CALL_BROKEN);
    buffer_release(&c->out);
    buffer_release(&c->name);
    buffer_release(&c->value);
    free(c);
}

static int feed(struct http_client *base, struct bytes in)
{
    struct http1_client *c = of(base);
    if (!c->call) { /* words nobody asked for */
        c->unusable = true;
        return -EPROTO;
    }
    c->error = 0;
    llhttp_errno_t e = llhttp_execute(&c->parser, (const char *)in.p, in.n);
    if (c->call->complete) {
        const uint8_t *end = (const uint8_t *)llhttp_get_error_pos(&c->parser);
        if (end && end != in.p + in.n)
            c->unusable = true;
        end_call(c, HTTP_CALL_DONE);
        return 0;
    }
    if (e == HPE_OK)
        return 0;
    c->unusable = true;
    end_call(c, c->error == RESPONSE_TOO_LARGE     ? HTTP_CALL_TOO_LARGE
                : c->error == RESPONSE_OVER_BUDGET ? HTTP_CALL_OVER_BUDGET
                                                   : HTTP_CALL_NOT_HTTP);
    return c->error < 0 ? c->error : -EPROTO;
}

static void feed_eof(struct http_client *base)
{
    struct http1_client *c = of(base);
    c->unusable = true;
    if (!c->call)
        return;
    /* Without length or chunks a response ends with the connection (RFC 9112 §6.3): llhttp tells it complete
     * now. */
    if (c->call->response.status >= 200)
        llhttp_finish(&c->parser);
    end_call(c, c->call->complete ? HTTP_CALL_DONE : HTTP_CALL_BROKEN);
}

static int drain(struct http_client *base, struct buffer *out, size_t max)
{
    struct http1_client *c = of(base);
    size_t n = min_of(c->out.n - c->sent, max);
    if (!c->call || n + c->call->body.n == 0)
        return 0;
    int r = n > 0 ? buffer_add(out, c->out.p + c->sent, n) : 0;
    if (r < 0)
        return r;
    c->sent += n;
    n = min_of(c->call->body.n, max - n);
    return http_places_add(c->base.places, out, &c->call->body, n);
}

static bool has_output(const struct http_client *base)
{
    const struct http1_client *c = container_of(base, struct http1_client, base);
    return c->call && (c->out.n > c->sent || c->call->body.n > 0);
}

static bool is_done(const struct http_client *base)
{
    return container_of(base, struct http1_client, base)->unusable;
}

struct http_client *http1_client_new(size_t response_max)
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
    struct http1_client *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->base = (struct http_client){.ops = &ops, .response_max = response_max};
    c->name.max = c->value.max = FIELD_MAX;
    llhttp_settings_init(&c->settings);
    c->settings.on_header_field = on_name;
    c->settings.on_header_value = on_value;
    c->settings.on_header_value_complete = on_value_complete;
    c->settings.on_headers_complete = on_headers_complete;
    c->settings.on_body = on_body;
    c->settings.on_message_complete = on_complete;
    return &c->base;
}
