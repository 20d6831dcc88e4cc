/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/io/channel.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <linux/sockios.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/base/buffer.h"
#include "proto/base/clock.h"
#include "proto/base/macros.h"
#include "proto/io/channel_parts.h"
#include "proto/io/loop.h"

struct io_channel {
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_tcp_t tcp;
        uv_pipe_t pipe;
    } uv;
    struct io_loop *loop;
    const struct io_channel_events *events; /* NULL: not started */
    void *user;
    struct buffer sending, pending; /* given to uv_write; what came while that was under way */
    uv_write_t write;
    uv_shutdown_t shutdown;
    uv_timer_t linger; /* initialised when finishing */
    size_t lingered;   /* bytes read away while finishing */
    uint32_t to_close; /* handles whose close callback is still to come */
    enum io_channel_kind kind;
    bool writing, reading, paused, eof, failed, finishing, closing;
    bool taken;    /* the peer ended its side when all was */
    bool had_turn; /* a read filled its room: no more in this turn of the loop */
    char peer[IO_CHANNEL_ADDRESS_MAX];
};

static void begin_write(struct io_channel *c);
static void update_reading(struct io_channel *c);

struct io_channel *io_channel_new(struct io_loop *l, enum io_channel_kind kind)
{
    struct io_channel *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->loop = l;
    c->kind = kind;
    int r = kind == IO_CHANNEL_TCP ? uv_tcp_init(io_loop_uv(l), &c->uv.tcp)
                                   : uv_pipe_init(io_loop_uv(l), &c->uv.pipe, 0);
    if (r < 0) {
        free(c);
        return NULL;
    }
    c->uv.handle.data = c;
    return c;
}

uv_stream_t *io_channel_stream(struct io_channel *c)
{
    return &c->uv.stream;
}

const char *io_channel_peer(const struct io_channel *c)
{
    return c->peer;
}

void io_channel_format_address(const struct sockaddr *a, char *text)
{
    char host[INET6_ADDRSTRLEN] = "?";
    if (a->sa_family == AF_INET6) {
        const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)a;
        uv_ip6_name(in6, host, sizeof host);
        snprintf(text, IO_CHANNEL_ADDRESS_MAX, "[%s]:%u", host, ntohs(in6->sin6_port));
    } else {
        const struct sockaddr_in *in = (const struct sockaddr_in *)a;
        uv_ip4_name(in, host, sizeof host);
        snprintf(text, IO_CHANNEL_ADDRESS_MAX, "%s:%u", host, ntohs(in->sin_port));
    }
}

uint32_t io_localhost_addresses(const char *host, uint16_t port, struct sockaddr_storage *ret)
{
    if (strcmp(host, "localhost") != 0)
        return 0;
    memset(ret, 0, IO_LOCALHOST_ADDRESSES * sizeof *ret);
    uv_ip6_addr("::1", port, (struct sockaddr_in6 *)&ret[0]);
    uv_ip4_addr("127.0.0.1", port, (struct sockaddr_in *)&ret[1]);
    return IO_LOCALHOST_ADDRESSES;
}

void io_channel_connected(struct io_channel *c)
{
    if (c->kind == IO_CHANNEL_UNIX) {
        struct ucred who = {.uid = (uid_t)-1};
        socklen_t n = sizeof who;
        uv_os_fd_t fd;
        if (uv_fileno(&c->uv.handle, &fd) == 0 && getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &n) == 0)
            snprintf(c->peer, sizeof c->peer, "unix:uid=%u", who.uid);
        else
            snprintf(c->peer, sizeof c->peer, "unix");
        return;
    }
    uv_tcp_nodelay(&c->uv.tcp, 1);
    struct sockaddr_storage a;
    int len = sizeof a;
    if (uv_tcp_getpeername(&c->uv.tcp, (struct sockaddr *)&a, &len) == 0)
        io_channel_format_address((const struct sockaddr *)&a, c->peer);
    else
        snprintf(c->peer, sizeof c->peer, "gone"); /* reset before we looked */
}

/* ---- closing ---- */

static void on_closed(uv_handle_t *handle)
{
    struct io_channel *c = handle->data;
    if (--c->to_close > 0)
        return;
    if (c->events && c->events->on_close)
        c->events->on_close(c->user);
    buffer_release(&c->sending);
    buffer_release(&c->pending);
    free(c);
}

void io_channel_close(struct io_channel *c)
{
    if (!c || c->closing)
        return;
    c->closing = true;
    c->to_close = 1;
    if (c->finishing) {
        c->to_close++;
        uv_close((uv_handle_t *)&c->linger, on_closed);
    }
    uv_close(&c->uv.handle, on_closed);
}

void io_channel_reset(struct io_channel *c)
{
    if (!c || c->closing)
        return;
    if (c->kind != IO_CHANNEL_TCP || c->finishing) {
        io_channel_close(c);
        return;
    }
    c->closing = true;
    c->to_close = 1;
    if (uv_tcp_close_reset(&c->uv.tcp, on_closed) < 0)
        uv_close(&c->uv.handle, on_closed);
}

int io_channel_detach(struct io_channel *c)
{
    uv_os_fd_t own;
    int fd = -1;
    assert(io_channel_pending(c) == 0);
    if (c->closing || c->finishing || c->failed || c->eof)
        return -ENOTCONN;
    if (uv_fileno(&c->uv.handle, &own) == 0)
        fd = fcntl(own, F_DUPFD_CLOEXEC, 0); /* libuv has no way to let go of a descriptor */
    if (fd < 0)
        return -errno;
    io_channel_close(c);
    return fd;
}

struct io_channel *io_channel_adopt(struct io_loop *l, int fd)
{
    int domain = 0;
    socklen_t n = sizeof domain;
    bool known = getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &n) == 0;
    struct io_channel *c =
        known ? io_channel_new(l, domain == AF_UNIX ? IO_CHANNEL_UNIX : IO_CHANNEL_TCP) : NULL;
    if (c && (c->kind == IO_CHANNEL_TCP ? uv_tcp_open(&c->uv.tcp, fd) : uv_pipe_open(&c->uv.pipe, fd)) == 0) {
        io_channel_connected(c);
        return c;
    }
    close(fd);
    io_channel_close(c);
    return NULL;
}

static void on_linger(uv_timer_t *timer)
{
    io_channel_close(timer->data);
}

static void on_shutdown(uv_shutdown_t *request, int status)
{
    struct io_channel *c = container_of(request, struct io_channel, shutdown);
    if (c->closing)
        return;
    if (status < 0 || c->eof)
        io_channel_close(c);
}

/* Everything is sent: say so, then wait for the peer's end. */
static void end_of_output(struct io_channel *c)
{
    if (c->failed || uv_shutdown(&c->shutdown, &c->uv.stream, on_shutdown) < 0)
        io_channel_close(c);
}

void io_channel_finish(struct io_channel *c)
{
    if (c->closing || c->finishing)
        return;
    if (c->failed || (c->eof && io_channel_pending(c) == 0)) {
        io_channel_close(c);
        return;
    }
    c->finishing = true;
    uv_timer_init(io_loop_uv(c->loop), &c->linger);
    c->linger.data = c;
    uv_timer_start(&c->linger, on_linger, IO_CHANNEL_LINGER_NS / NSEC_PER_MSEC, 0);
    if (!c->writing)
        end_of_output(c);
    if (!c->closing)
        update_reading(c);
}

static void fail(struct io_channel *c, int error)
{
    if (c->failed || c->closing)
        return;
    c->failed = true;
    if (c->finishing)
        io_channel_close(c);
    else if (c->events)
        c->events->on_error(c->user, error);
}

/* ---- reading ---- */

/* libuv asks for more room at once, up to 32 times, while each room is filled. Without room it leaves the
 * rest to the next turn of the loop (uv_read_start: UV_ENOBUFS), for which the socket stays ready: that costs
 * one epoll_wait(2) for each IO_CHANNEL_TURN_BYTES bytes, and everybody else has their turn between. */
static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    (void)suggested;
    struct io_channel *c = handle->data;
    size_t cap;
    buf->base = (char *)io_loop_read_buffer(c->loop, &cap);
    buf->len = c->had_turn ? 0 : min_of(cap, (size_t)IO_CHANNEL_TURN_BYTES);
    c->had_turn = false;
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct io_channel *c = stream->data;
    if (n == 0 || n == UV_ENOBUFS || c->closing)
        return;
    bool full = n > 0 && (size_t)n == buf->len;
    if (n > 0 && c->finishing) {
        c->lingered += (size_t)n;
        if (c->events && c->events->on_read_away)
            c->events->on_read_away(c->user, (size_t)n);
        if (c->lingered > IO_CHANNEL_LINGER_BYTES)
            io_channel_close(c);
    } else if (n > 0) {
        c->events->on_read(c->user, bytes_of(buf->base, (size_t)n));
    } else if (n == UV_EOF) {
        c->eof = true;
        c->taken = io_channel_untaken(c) == 0;
        update_reading(c);
        if (!c->finishing)
            c->events->on_eof(c->user);
        else if (!c->writing)
            io_channel_close(c);
    } else {
        fail(c, (int)n); /* libuv's error numbers are -errno on Linux */
    }
    c->had_turn = full && c->reading; /* else libuv does not ask again in this turn */
}

static void update_reading(struct io_channel *c)
{
    bool want =
        !c->eof && !c->failed &&
        (c->finishing || (c->events && !c->paused && io_channel_pending(c) <= IO_CHANNEL_PENDING_MAX));
    if (c->closing || want == c->reading)
        return;
    c->reading = want;
    if (want)
        uv_read_start(&c->uv.stream, on_alloc, on_read);
    else
        uv_read_stop(&c->uv.stream);
}

void io_channel_start(struct io_channel *c, const struct io_channel_events *events, void *user)
{
    c->events = events;
    c->user = user;
    update_reading(c);
}

void io_channel_read_pause(struct io_channel *c, bool paused)
{
    c->paused = paused;
    update_reading(c);
}

/* ---- writing ---- */

static void on_written(uv_write_t *request, int status)
{
    struct io_channel *c = container_of(request, struct io_channel, write);
    c->writing = false;
    if (c->closing)
        return;
    if (status < 0) {
        fail(c, status);
        return;
    }
    buffer_clear(&c->sending, 0);
    if (c->pending.n > 0) {
        begin_write(c);
        update_reading(c);
        return;
    }
    update_reading(c);
    if (c->finishing)
        end_of_output(c);
    else if (c->events && c->events->on_drain)
        c->events->on_drain(c->user);
}

static void begin_write(struct io_channel *c)
{
    struct buffer empty = c->sending;
    c->sending = c->pending;
    c->pending = empty;
    uv_buf_t buf = {.base = (char *)c->sending.p, .len = c->sending.n};
    /* Fails only for a stream that is closed or was never connected, which is a bug of the caller; a broken
     * connection comes to on_written. */
    c->writing = uv_write(&c->write, &c->uv.stream, &buf, 1, on_written) == 0;
}

int io_channel_write(struct io_channel *c, struct bytes out)
{
    return io_channel_write_parts(c, &out, 1);
}

/* Keeps what is behind the first n_sent bytes. 0 or -ENOMEM. */
static int keep_rest(struct io_channel *c, const struct bytes *parts, uint32_t n, size_t n_sent)
{
    int r = 0;
    for (uint32_t i = 0; i < n && r == 0; i++) {
        const size_t sent = min_of(n_sent, parts[i].n);
        n_sent -= sent;
        if (sent < parts[i].n)
            r = buffer_add_bytes(&c->pending, bytes_from(parts[i], sent));
    }
    return r;
}

int io_channel_write_parts(struct io_channel *c, const struct bytes *parts, uint32_t n)
{
    uv_buf_t bufs[IO_CHANNEL_PARTS_MAX];
    size_t all = 0, sent = 0;
    assert(n <= IO_CHANNEL_PARTS_MAX);
    if (c->closing || c->finishing || c->failed)
        return 0;
    c->taken = false;
    for (uint32_t i = 0; i < n; i++) {
        bufs[i] = (uv_buf_t){.base = (char *)parts[i].p, .len = parts[i].n};
        all += parts[i].n;
    }
    if (!c->writing && all > 0) {
        int r = uv_try_write(&c->uv.stream, bufs, n);
        if (r > 0) /* an error comes again, and to on_written, from uv_write */
            sent = (size_t)r;
    }
    if (sent == all)
        return 0;
    int r = buffer_reserve(&c->pending, all - sent);
    if (r == 0)
        r = keep_rest(c, parts, n, sent);
    if (r < 0)
        return r;
    if (!c->writing)
        begin_write(c);
    update_reading(c);
    return 0;
}

size_t io_channel_pending(const struct io_channel *c)
{
    return c->pending.n + c->sending.n;
}

size_t io_channel_unread(const struct io_channel *c)
{
    int fd, n = 0;
    if (uv_fileno(&c->uv.handle, &fd) < 0 || ioctl(fd, FIONREAD, &n) < 0)
        return 0;
    return (size_t)n;
}

size_t io_channel_untaken(const struct io_channel *c)
{
    uv_os_fd_t fd;
    int n;
    if (uv_fileno(&c->uv.handle, &fd) < 0 || ioctl(fd, SIOCOUTQ, &n) < 0 || n < 0)
        n = 0; /* closed: nothing is on its way */
    return io_channel_pending(c) + (size_t)n;
}

bool io_channel_was_taken(const struct io_channel *c)
{
    return c->taken;
}
