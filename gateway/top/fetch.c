/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/top/fetch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/top/page.h"
#include "proto/base/buffer.h"
#include "proto/base/macros.h"
#include "proto/base/quantity.h"
#include "proto/http/exchange.h"
#include "proto/io/channel.h"
#include "proto/io/connector.h"
#include "proto/io/loop.h"
#include "proto/io/timer.h"
#include "proto/io/tls.h"

#define ADMIN_PORT 9464
#define DRAIN_STEP (16u << 10)

struct top_fetch {
    struct io_loop *loop;
    const struct top_url *url;
    top_fetch_fn done;
    void *user;
    struct io_connector *connector;
    struct io_channel *channel;
    struct io_timer *timer;
    struct http_client *client;
    struct tls *tls; /* NULL: plain */
    struct buffer plain;
    bool ended; /* the call is over: error, message and body say how */
    int error;
    struct error message;
    struct buffer body;
};

/* `host`, `host:port`, `[v6]`, `[v6]:port`. */
static int parse_host(const char *text, size_t n, struct top_url *url)
{
    struct bytes host = bytes_of(text, n), port = {0};
    const char *bracket = n > 0 && text[0] == '[' ? memchr(text, ']', n) : NULL;
    const char *colon = memchr(bracket ? bracket : text, ':', bracket ? n - (size_t)(bracket - text) : n);
    if (colon) {
        host.n = (size_t)(colon - text);
        port = bytes_of(colon + 1, n - host.n - 1);
    }
    if (bracket) {
        if ((size_t)(bracket - text) + 1 != host.n)
            return -EINVAL;
        host = bytes_of(text + 1, host.n - 2);
    }
    uint64_t number = ADMIN_PORT;
    if (host.n == 0 || host.n >= sizeof url->host || memchr(host.p, '[', host.n))
        return -EINVAL;
    if (colon && (quantity_u64(port, &number) < 0 || number == 0 || number > UINT16_MAX))
        return -EINVAL;
    memcpy(url->host, host.p, host.n);
    url->host[host.n] = 0;
    url->port = (uint16_t)number;
    return 0;
}

int top_url_parse(const char *text, struct top_url *ret, struct error *e)
{
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
    if (strpbrk(text, " \t\r\n") || parse_host(at, n, &url) < 0)
        return error_set(e, -EINVAL, "%s: not a URL; write http://HOST:PORT or https://HOST:PORT", text);
    strcpy(url.path, path && path[1] ? path : TOP_PATH_DEFAULT);
    snprintf(url.authority, sizeof url.authority, strchr(url.host, ':') ? "[%s]:%u" : "%s:%u", url.host,
             url.port);
    *ret = url;
    return 0;
}

static void release(struct top_fetch *f)
{
    io_connector_cancel(f->connector);
    io_channel_close(f->channel);
    io_timer_free(f->timer);
    tls_free(f->tls);
    buffer_release(&f->plain);
    http_client_free(f->client); /* may end the call once more: nobody listens now */
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

static void finish(struct top_fetch *f, int error, const char *message)
{
    f->ended = true;
    struct buffer body = f->body;
    struct error said;
    error_set(&said, 0, "%s", message);
    f->body = (struct buffer){0};
    top_fetch_fn done = f->done;
    void *user = f->user;
    release(f);
    done(user, error, said.text, buffer_bytes(&body));
    buffer_release(&body);
}

static void on_response(void *user, enum http_call_result result, const struct http_response *response)
{
    struct top_fetch *f = user;
    if (f->ended)
        return;
    f->ended = true;
    if (result == HTTP_CALL_TOO_LARGE)
        f->error = error_set(&f->message, -E2BIG, "the page is larger than %u MiB", TOP_PAGE_MAX >> 20);
    else if (result != HTTP_CALL_DONE)
        f->error = error_set(&f->message, -EPROTO, "the connection ended before the page did");
    else if (response->status == 401)
        f->error = error_set(
            &f->message, -EACCES,
            f->url->way && f->url->way->authorization.n > 0
                ? "the gateway does not take these credentials"
                : "the gateway asks who you are: --user and --password-file, or --bearer-token-file");
    else if (response->status != 200)
        f->error = error_set(&f->message, -EPROTO, "the answer is HTTP status %u", response->status);
    else if (buffer_add_bytes(&f->body, response->body) < 0)
        f->error = error_set(&f->message, -ENOMEM, "no memory for the page");
}

/* What TLS has to say. 0 or -ENOMEM. */
static int send_cipher(struct top_fetch *f)
{
    struct buffer out = BUFFER_INIT(0);
    int r = tls_flush(f->tls, f->channel, &out);
    buffer_release(&out);
    return r;
}

static int send_bytes(struct top_fetch *f, struct bytes out)
{
    if (!f->tls)
        return io_channel_write(f->channel, out);
    int r = tls_write(f->tls, out);
    return r < 0 ? r : send_cipher(f);
}

/* Sends what the client wants sent. */
static void send_all(struct top_fetch *f)
{
    struct buffer out = BUFFER_INIT(0);
    int r = f->tls ? send_cipher(f) : 0;
    while (r == 0 && http_client_has_output(f->client)) {
        out.n = 0;
        r = http_client_drain(f->client, &out, DRAIN_STEP);
        if (r == 0 && out.n == 0)
            break;
        if (r == 0)
            r = send_bytes(f, buffer_bytes(&out));
    }
    buffer_release(&out);
    if (r < 0 && !f->ended)
        f->error = error_set(&f->message, r, "no memory for the request");
    f->ended |= r < 0;
}

static void on_read(void *user, struct bytes in)
{
    struct top_fetch *f = user;
    if (f->tls) {
        f->plain.n = 0;
        if (tls_feed(f->tls, in, &f->plain) < 0) {
            error_set(&f->message, 0, "TLS: %s", tls_error(f->tls));
            finish(f, -EPROTO, f->message.text);
            return;
        }
        in = buffer_bytes(&f->plain);
    }
    if (in.n > 0 && http_client_feed(f->client, in) < 0 && !f->ended) {
        f->error = error_set(&f->message, -EPROTO, "the answer is not HTTP/1.1");
        f->ended = true;
    }
    if (!f->ended)
        send_all(f);
    if (f->ended)
        finish(f, f->error, f->message.text);
}

static void on_eof(void *user)
{
    struct top_fetch *f = user;
    http_client_feed_eof(f->client);
    if (!f->ended)
        f->error = error_set(&f->message, -EPROTO, "the connection ended before the page did");
    finish(f, f->error, f->message.text);
}

static void on_error(void *user, int error)
{
    finish(user, error, strerror(-error));
}

static const struct io_channel_events events = {.on_read = on_read, .on_eof = on_eof, .on_error = on_error};

static void on_connect(void *user, struct io_channel *c, int error, const char *message)
{
    struct top_fetch *f = user;
    f->connector = NULL;
    f->channel = c;
    if (!c) {
        finish(f, error, message);
        return;
    }
    const struct top_way *way = f->url->way;
    const bool says_who = way && way->authorization.n > 0;
    const struct http_header headers[] = {
        {BYTES_LIT("accept"), BYTES_LIT("application/json")},
        {BYTES_LIT("user-agent"), BYTES_LIT("profgate-top/" PROFGATE_VERSION)},
        {BYTES_LIT("authorization"), says_who ? buffer_bytes(&way->authorization) : (struct bytes){0}}};
    struct http_request request = {.method = "GET",
                                   .scheme = f->url->is_https ? "https" : "http",
                                   .authority = f->url->authority,
                                   .path = f->url->path,
                                   .headers = headers,
                                   .n_headers = ARRAY_LEN(headers) - !says_who};
    f->client = http_client_new(HTTP_VERSION_1, TOP_PAGE_MAX);
    f->tls = f->url->is_https ? tls_new(way->tls, f->url->host) : NULL;
    if (!f->client || (f->url->is_https && !f->tls) ||
        !http_client_call(f->client, &request, on_response, f)) {
        finish(f, -ENOMEM, "no memory for the request");
        return;
    }
    io_channel_start(c, &events, f);
    send_all(f);
    if (f->ended)
        finish(f, f->error, f->message.text);
}

static void on_timeout(void *user)
{
    finish(user, -ETIMEDOUT, "no answer in time");
}

struct top_fetch *top_fetch_start(struct io_loop *loop, const struct top_url *url, uint64_t timeout_ns,
                                  top_fetch_fn done, void *user)
{
    struct top_fetch *f = calloc(1, sizeof *f);
    if (!f)
        return NULL;
    *f = (struct top_fetch){
        .loop = loop, .url = url, .done = done, .user = user, .body = BUFFER_INIT(TOP_PAGE_MAX)};
    f->timer = io_timer_new(loop, on_timeout, f);
    f->connector = f->timer ? io_connect(loop, url->host, url->port, timeout_ns, on_connect, f) : NULL;
    if (!f->connector)
        return top_fetch_cancel(f);
    io_timer_set(f->timer, io_loop_now(loop) + timeout_ns);
    return f;
}
