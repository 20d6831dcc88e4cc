/* SPDX-License-Identifier: Apache-2.0 */
/* How a fetch ended is noted, and told by its timer: a connection may not be freed from inside what it says.
 */
#include "gateway/top/fetch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/top/page.h"
#include "proto/base/macros.h"
#include "proto/client/connection.h"
#include "proto/client/endpoint.h"
#include "proto/io/loop.h"
#include "proto/io/timer.h"

#define ADMIN_PORT 9464

struct top_fetch {
    const struct top_url *url;
    struct endpoint endpoint; /* its texts are the URL's */
    top_fetch_fn done;
    void *user;
    struct client_connection *connection;
    struct io_timer *timer; /* for the end of patience, or at once */
    bool ended;             /* error, message and body say how */
    int error;
    struct error message;
    struct buffer body;
};

int top_url_parse(const char *text, struct top_url *ret, struct error *e)
{
    cleanup(endpoint_release) struct endpoint p = {0};
    struct top_url url = {0};
    const char *at = text;
    url.is_https = !strncmp(at, "https://", 8);
    if (url.is_https)
        at += 8;
    else if (!strncmp(at, "http://", 7))
        at += 7;
    const char *path = strchr(at, '/');
    size_t n = path ? (size_t)(path - at) : strlen(at);
    if (path && strlen(path) >= sizeof url.path)
        return error_set(e, -EINVAL, "%s: too long", text);
    snprintf(url.authority, sizeof url.authority, "%.*s", (int)min_of(n, sizeof url.authority), at);
    if (strpbrk(text, " \t\r\n") || n >= sizeof url.host ||
        endpoint_parse(&p, url.authority, ADMIN_PORT, e) < 0 || p.is_unix)
        return error_set(e, -EINVAL, "%s: not a URL; write http://HOST:PORT or https://HOST:PORT", text);
    strcpy(url.host, p.host);
    strcpy(url.authority, p.authority);
    strcpy(url.path, path && path[1] ? path : TOP_PATH_DEFAULT);
    url.port = p.port;
    *ret = url;
    return 0;
}

static void release(struct top_fetch *f)
{
    connection_free(f->connection); /* may end the call: nobody listens now */
    io_timer_free(f->timer);
    buffer_release(&f->body);
    free(f);
}

struct top_fetch *top_fetch_cancel(struct top_fetch *f)
{
    if (f) {
        f->ended = true;
        release(f);
    }
    return NULL;
}

/* `error` is what the message was set with. */
static void end(struct top_fetch *f, int error)
{
    f->ended = true;
    f->error = error;
    io_timer_set(f->timer, 0);
}

static void on_timer(void *user)
{
    struct top_fetch *f = user;
    if (!f->ended)
        end(f, error_set(&f->message, -ETIMEDOUT, "no answer in time"));
    struct top_fetch last = *f;
    f->body = (struct buffer){0};
    release(f);
    last.done(last.user, last.error, last.message.text, buffer_bytes(&last.body));
    buffer_release(&last.body);
}

static void on_response(void *user, enum http_call_result result, const struct http_response *response)
{
    struct top_fetch *f = user;
    int r;
    connection_end(f->connection);
    if (f->ended)
        return;
    if (result == HTTP_CALL_TOO_LARGE)
        r = error_set(&f->message, -E2BIG, "the page is larger than %u MiB", TOP_PAGE_MAX >> 20);
    else if (result != HTTP_CALL_DONE)
        r = error_set(&f->message, -EPROTO, "the connection ended before the page did");
    else if (response->status == 401)
        r = error_set(
            &f->message, -EACCES,
            f->url->way && f->url->way->authorization.n > 0
                ? "the gateway does not take these credentials"
                : "the gateway asks who you are: --user and --password-file, or --bearer-token-file");
    else if (response->status != 200)
        r = error_set(&f->message, -EPROTO, "the answer is HTTP status %u%s", response->status,
                      response->status == 404 ? ": is that the gateway's admin address?" : "");
    else if (buffer_add_bytes(&f->body, response->body) < 0)
        r = error_set(&f->message, -ENOMEM, "no memory for the page");
    else
        r = 0;
    end(f, r);
}

static void on_change(void *user, struct client_connection *connection, const char *failure)
{
    struct top_fetch *f = user;
    if (f->ended)
        return;
    if (failure) {
        end(f, error_set(&f->message, -EHOSTUNREACH, "%s", failure));
        return;
    }
    if (!connection_is_ready(connection)) /* it has its call */
        return;
    const struct top_way *way = f->url->way;
    const bool says_who = way && way->authorization.n > 0;
    const struct http_header headers[] = {
        {BYTES_LIT("accept"), BYTES_LIT("application/json")},
        {BYTES_LIT("user-agent"), BYTES_LIT("profgate-top/" PROFGATE_VERSION)},
        {BYTES_LIT("authorization"), says_who ? buffer_bytes(&way->authorization) : (struct bytes){0}}};
    const struct http_request request = {.method = "GET",
                                         .scheme = f->url->is_https ? "https" : "http",
                                         .authority = f->url->authority,
                                         .path = f->url->path,
                                         .headers = headers,
                                         .n_headers = ARRAY_LEN(headers) - !says_who};
    if (!connection_call(connection, &request, on_response, f))
        end(f, error_set(&f->message, -ENOMEM, "no memory for the request"));
}

struct top_fetch *top_fetch_start(struct io_loop *loop, const struct top_url *url, uint64_t timeout_ns,
                                  top_fetch_fn done, void *user)
{
    struct top_fetch *f = calloc(1, sizeof *f);
    if (!f)
        return NULL;
    *f = (struct top_fetch){
        .url = url,
        .endpoint = {.host = (char *)url->host, .authority = (char *)url->authority, .port = url->port},
        .done = done,
        .user = user,
        .body = BUFFER_INIT(TOP_PAGE_MAX)};
    const struct connection_options options = {.loop = loop,
                                               .endpoint = &f->endpoint,
                                               .tls = url->is_https ? url->way->tls : NULL,
                                               .response_max = TOP_PAGE_MAX};
    f->timer = io_timer_new(loop, on_timer, f);
    f->connection = f->timer ? connection_new(&options, on_change, f) : NULL;
    if (!f->connection)
        return top_fetch_cancel(f);
    io_timer_set(f->timer, io_loop_now(loop) + timeout_ns);
    connection_open(f->connection, timeout_ns);
    return f;
}
