/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/top/fetch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/top/page.h"
#include "proto/base/macros.h"
#include "proto/client/endpoint.h"
#include "proto/client/inquiry.h"

#define ADMIN_PORT 9464

struct top_fetch {
    const struct top_url *url;
    struct endpoint endpoint; /* its texts are the URL's */
    top_fetch_fn done;
    void *user;
    struct inquiry *inquiry;
    struct http_header headers[3];
    int error; /* of the answer, or none */
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

struct top_fetch *top_fetch_cancel(struct top_fetch *f)
{
    if (!f)
        return NULL;
    inquiry_free(f->inquiry);
    buffer_release(&f->body);
    free(f);
    return NULL;
}

static void on_answer(void *user, const struct http_response *response)
{
    struct top_fetch *f = user;
    if (response->status == 401)
        f->error = error_set(
            &f->message, -EACCES,
            f->url->way && f->url->way->authorization.n > 0
                ? "the gateway does not take these credentials"
                : "the gateway asks who you are: --user and --password-file, or --bearer-token-file");
    else if (response->status != 200)
        f->error = error_set(&f->message, -EPROTO, "the answer is HTTP status %u%s", response->status,
                             response->status == 404 ? ": is that the gateway's admin address?" : "");
    else if (buffer_add_bytes(&f->body, response->body) < 0)
        f->error = error_set(&f->message, -ENOMEM, "no memory for the page");
}

static void on_end(void *user, enum inquiry_end end, const char *why)
{
    static const int errors[] = {[INQUIRY_UNREACHED] = -EPROTO,
                                 [INQUIRY_LATE] = -ETIMEDOUT,
                                 [INQUIRY_TOO_LARGE] = -E2BIG,
                                 [INQUIRY_NO_MEMORY] = -ENOMEM};
    struct top_fetch *f = user;
    f->inquiry = NULL;
    if (end == INQUIRY_TOO_LARGE)
        f->error = error_set(&f->message, -E2BIG, "the page is larger than %u MiB", TOP_PAGE_MAX >> 20);
    else if (end != INQUIRY_ANSWERED)
        f->error = error_set(&f->message, errors[end], "%s", why);
    f->done(f->user, f->error, f->message.text, buffer_bytes(&f->body));
    top_fetch_cancel(f);
}

struct top_fetch *top_fetch_start(struct io_loop *loop, const struct top_url *url, uint64_t timeout_ns,
                                  top_fetch_fn done, void *user)
{
    struct top_fetch *f = calloc(1, sizeof *f);
    if (!f)
        return NULL;
    const bool says_who = url->way && url->way->authorization.n > 0;
    *f = (struct top_fetch){
        .url = url,
        .endpoint = {.host = (char *)url->host, .authority = (char *)url->authority, .port = url->port},
        .done = done,
        .user = user,
        .headers = {{BYTES_LIT("accept"), BYTES_LIT("application/json")},
                    {BYTES_LIT("user-agent"), BYTES_LIT("profgate-top/" PROFGATE_VERSION)},
                    {BYTES_LIT("authorization"),
                     says_who ? buffer_bytes(&url->way->authorization) : (struct bytes){0}}},
        .body = BUFFER_INIT(TOP_PAGE_MAX)};
    const struct inquiry_options options = {
        .connection = {.loop = loop,
                       .endpoint = &f->endpoint,
                       .tls = url->is_https ? url->way->tls : NULL,
                       .response_max = TOP_PAGE_MAX},
        .request = {.method = "GET",
                    .path = url->path,
                    .headers = f->headers,
                    .n_headers = ARRAY_LEN(f->headers) - !says_who},
        .timeout_ns = timeout_ns,
        .on_answer = on_answer,
        .on_end = on_end,
        .user = f,
    };
    f->inquiry = inquiry_new(&options);
    return f->inquiry ? f : top_fetch_cancel(f);
}
