/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/report/status.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "proto/base/bytes.h"
#include "proto/base/macros.h"
#include "proto/base/quantity.h"
#include "proto/io/loop.h"

/* A person and a probe or two. When all are taken the oldest goes: who stalls keeps nobody out. */
#define VISITORS_MAX 8u
/* Between two visitors: any local user may come again and again, and an answer costs 250 to 500 µs. So many
 * may come at once who have not come before. */
#define VISITORS_APART_MS 100u
#define VISITORS_AT_ONCE  8u
/* A request's head is hundreds of bytes; longer ones are answered all the same. */
#define HEAD_MAX 4096u

struct visitor {
    uv_tcp_t tcp;
    uv_write_t write;
    struct status *status; /* NULL: is being closed */
    struct buffer out;
    bool has_answer;
    uint32_t n;
    char head[HEAD_MAX];
};

struct status {
    uv_tcp_t listener;
    uv_timer_t next;  /* who waits is let in then */
    uint64_t paid_ms; /* by the loop's clock: when nobody would have come too early */
    uint32_t to_close;
    struct visitor *visitor[VISITORS_MAX]; /* oldest first */
    uint32_t n;
    status_write_fn write;
    void *user;
};

static void visitor_closed(uv_handle_t *handle)
{
    struct visitor *v = handle->data;
    buffer_release(&v->out);
    free(v);
}

static void visitor_close(struct visitor *v)
{
    struct status *s = v->status;
    if (!s)
        return;
    uint32_t i = 0;
    while (s->visitor[i] != v)
        i++;
    memmove(&s->visitor[i], &s->visitor[i + 1], (--s->n - i) * sizeof *s->visitor);
    v->status = NULL;
    uv_close((uv_handle_t *)&v->tcp, visitor_closed);
}

static void on_written(uv_write_t *write, int r)
{
    visitor_close(write->data);
}

/* Which page the request line "METHOD PATH VERSION" asks for. */
static enum status_page page_of(struct bytes head)
{
    const uint8_t *blank = memchr(head.p, ' ', head.n);
    struct bytes rest = blank ? bytes_from(head, (size_t)(blank - head.p) + 1) : BYTES_LIT("");
    size_t n = 0;
    while (n < rest.n && rest.p[n] > ' ' && rest.p[n] != '?')
        n++;
    return bytes_is(bytes_of(rest.p, n), "/metrics") ? STATUS_METRICS : STATUS_PAGE;
}

static void answer(struct visitor *v)
{
    struct buffer body = {0};
    char head[160];
    enum status_page page = page_of(bytes_of(v->head, v->n));
    bool is_ok = v->status->write(v->status->user, page, &body) == 0;
    int n = snprintf(head, sizeof head,
                     "HTTP/1.0 %s\r\ncontent-type: text/plain; %scharset=utf-8\r\ncontent-length: %zu\r\n"
                     "connection: close\r\n\r\n",
                     is_ok ? "200 OK" : "503 Service Unavailable",
                     page == STATUS_METRICS ? "version=0.0.4; " : "", is_ok ? body.n : 0);
    int r = buffer_add_bytes(&v->out, bytes_of(head, (size_t)n));
    if (r == 0 && is_ok)
        r = buffer_add_bytes(&v->out, bytes_of(body.p, body.n));
    buffer_release(&body);
    uv_buf_t all = uv_buf_init((char *)v->out.p, (unsigned)v->out.n);
    v->write.data = v;
    v->has_answer = true;
    if (r < 0 || uv_write(&v->write, (uv_stream_t *)&v->tcp, &all, 1, on_written) < 0)
        visitor_close(v);
}

static void on_room(uv_handle_t *handle, size_t suggested, uv_buf_t *ret)
{
    struct visitor *v = handle->data;
    *ret = uv_buf_init(v->head + v->n, HEAD_MAX - v->n);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct visitor *v = stream->data;
    if (n < 0) {
        visitor_close(v);
        return;
    }
    v->n += (uint32_t)n;
    if (!v->has_answer && (v->n == HEAD_MAX || memmem(v->head, v->n, "\r\n\r\n", 4))) {
        uv_read_stop(stream);
        answer(v);
    }
}

static void on_next(uv_timer_t *timer);

static void let_in(struct status *s)
{
    uv_stream_t *listener = (uv_stream_t *)&s->listener;
    struct visitor *v = calloc(1, sizeof *v);
    s->paid_ms = max_of(s->paid_ms, uv_now(listener->loop)) + VISITORS_APART_MS;
    if (!v) {
        uv_timer_start(&s->next, on_next, VISITORS_APART_MS, 0);
        return;
    }
    if (s->n == VISITORS_MAX)
        visitor_close(s->visitor[0]);
    uv_tcp_init(listener->loop, &v->tcp);
    v->tcp.data = v;
    v->status = s;
    s->visitor[s->n++] = v;
    if (uv_accept(listener, (uv_stream_t *)&v->tcp) < 0 ||
        uv_read_start((uv_stream_t *)&v->tcp, on_room, on_read) < 0)
        visitor_close(v);
}

static void on_next(uv_timer_t *timer)
{
    let_in(timer->data);
}

/* Until one is accepted libuv takes no other: those wait in the kernel, VISITORS_MAX at most. */
static void on_visitor(uv_stream_t *listener, int r)
{
    struct status *s = listener->data;
    const uint64_t at = uv_now(listener->loop) + (VISITORS_AT_ONCE - 1) * VISITORS_APART_MS;
    if (r < 0)
        return;
    if (at >= s->paid_ms)
        let_in(s);
    else
        uv_timer_start(&s->next, on_next, s->paid_ms - at, 0);
}

static int parse(const char *address, struct sockaddr_storage *ret)
{
    char host[64];
    uint64_t port;
    const char *colon = strrchr(address, ':');
    if (!colon || quantity_u64(bytes_str(colon + 1), &port) < 0 || port > 65535)
        return -EINVAL;
    struct bytes name = bytes_of(address, (size_t)(colon - address));
    if (name.n > 2 && name.p[0] == '[' && name.p[name.n - 1] == ']') {
        snprintf(host, sizeof host, "%.*s", (int)name.n - 2, (const char *)name.p + 1);
        return uv_ip6_addr(host, (int)port, (struct sockaddr_in6 *)ret);
    }
    snprintf(host, sizeof host, "%.*s", BYTES_FMT(name));
    return uv_ip4_addr(strcmp(host, "localhost") == 0 ? "127.0.0.1" : host, (int)port,
                       (struct sockaddr_in *)ret);
}

static int check(const char *address, struct sockaddr_storage *ret, struct error *e)
{
    return parse(address, ret) < 0
               ? error_set(e, -EINVAL, "\"%s\" is not ADDRESS:PORT, the address a number or localhost",
                           address)
               : 0;
}

int status_check(const char *address, struct error *e)
{
    struct sockaddr_storage where = {0};
    return check(address, &where, e);
}

static void status_closed(uv_handle_t *handle)
{
    struct status *s = handle->data;
    if (--s->to_close == 0)
        free(s);
}

void status_close(struct status *s)
{
    if (!s)
        return;
    while (s->n > 0)
        visitor_close(s->visitor[0]);
    s->to_close = 2;
    uv_close((uv_handle_t *)&s->listener, status_closed);
    uv_close((uv_handle_t *)&s->next, status_closed);
}

int status_open(struct status **ret, struct io_loop *loop, const char *address, status_write_fn write,
                void *user, struct error *e)
{
    struct sockaddr_storage where = {0};
    int r = check(address, &where, e);
    if (r < 0)
        return r;
    struct status *s = calloc(1, sizeof *s);
    if (!s)
        return error_set(e, -ENOMEM, "out of memory");
    s->write = write;
    s->user = user;
    uv_tcp_init(io_loop_uv(loop), &s->listener);
    uv_timer_init(io_loop_uv(loop), &s->next);
    s->listener.data = s->next.data = s;
    r = uv_tcp_bind(&s->listener, (const struct sockaddr *)&where, 0);
    r = r < 0 ? r : uv_listen((uv_stream_t *)&s->listener, VISITORS_MAX, on_visitor);
    if (r < 0) {
        status_close(s);
        return error_set(e, r, "status page at %s: %s", address, uv_strerror(r));
    }
    *ret = s;
    return 0;
}

int status_port(const struct status *s)
{
    struct sockaddr_storage where = {0};
    int n = sizeof where;
    if (uv_tcp_getsockname(&s->listener, (struct sockaddr *)&where, &n) < 0)
        return 0;
    return ntohs(where.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&where)->sin6_port
                                             : ((struct sockaddr_in *)&where)->sin_port);
}
