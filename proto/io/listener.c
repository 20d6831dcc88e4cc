/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/io/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#include "proto/base/macros.h"
#include "proto/base/quantity.h"
#include "proto/io/channel.h"
#include "proto/io/channel_parts.h"
#include "proto/io/loop.h"
#include "proto/io/timer.h"
#include "proto/io/unix_address.h"

#define SOCKETS_MAX 16 /* addresses of one name */
#define HOST_MAX    256
#define PORT_TRIES  16 /* port 0 on several addresses: the port free on the first may be taken on the next */

union server {
    uv_handle_t handle;
    uv_stream_t stream;
    uv_tcp_t tcp;
    uv_pipe_t pipe;
};

struct socket {
    union server uv;
    union server refused; /* takes a connection that there was no memory for */
    struct io_listener *listener;
    bool refusing, refuse_more;
    bool waits; /* a connection is there that is taken in the next turn of the loop */
};

struct io_listener {
    struct io_loop *loop;
    struct socket sockets[SOCKETS_MAX];
    uint32_t n_sockets, to_close;
    uint32_t n_taken; /* since the last pause */
    struct io_timer *pause;
    bool closing;
    enum io_channel_kind kind;
    struct unix_file file; /* removed with the listener that made it */
    uint16_t port;
    io_accept_fn on_accept;
    void *user;
    char address[HOST_MAX + 8];
};

bool io_address_is_unix(const char *address)
{
    return unix_address_is(address);
}

static int parse_unix(const char *address, char *host, size_t cap, uint16_t *ret_port, struct error *e)
{
    struct unix_address a;
    int r = unix_address_parse(&a, address, e);
    if (r < 0)
        return r;
    if (strlen(address) + 1 > cap)
        return error_set(e, -EINVAL, "address \"%.60s…\" is too long", address);
    memcpy(host, address, strlen(address) + 1);
    *ret_port = 0;
    return 0;
}

int io_address_parse(const char *address, char *host, size_t cap, uint16_t *ret_port, struct error *e)
{
    if (unix_address_is(address))
        return parse_unix(address, host, cap, ret_port, e);
    const char *colon = strrchr(address, ':'), *from = address, *to = colon, *scheme = strstr(address, "://");
    uint64_t port;
    if (scheme)
        return error_set(e, -EINVAL, "address \"%s\" is host:port, not a URL: write %.*s", address,
                         (int)strcspn(scheme + 3, "/"), scheme + 3);
    if (!colon || (*from == '[' && address[strlen(address) - 1] == ']'))
        return error_set(e, -EINVAL, "address \"%s\" has no port: write %s", address,
                         *from == '[' ? "[host]:port, [::1]:4317" : "host:port");
    if (quantity_u64(bytes_str(colon + 1), &port) < 0 || port > UINT16_MAX)
        return error_set(e, -EINVAL, "address \"%s\": the port is not a number from 0 to 65535", address);
    if (*from == '[' && to > from + 1 && to[-1] == ']') {
        from++;
        to--;
    } else if (memchr(from, ':', (size_t)(to - from)) || memchr(from, '[', (size_t)(to - from))) {
        return error_set(e, -EINVAL, "address \"%s\": write an IPv6 address in brackets, [::1]:4317",
                         address);
    }
    size_t n = (size_t)(to - from);
    if (n == 1 && *from == '*')
        n = 0;
    if (n + 1 > cap)
        return error_set(e, -EINVAL, "address \"%.60s…\": the host is too long", address);
    memcpy(host, from, n);
    host[n] = '\0';
    *ret_port = (uint16_t)port;
    return 0;
}

static void set_port(struct sockaddr_storage *a, uint16_t port)
{
    if (a->ss_family == AF_INET6)
        ((struct sockaddr_in6 *)a)->sin6_port = htons(port);
    else
        ((struct sockaddr_in *)a)->sin_port = htons(port);
}

/* A bound socket and the port it got. 0, or the errno of what the kernel refused. */
static int bind_socket(const struct sockaddr_storage *a, enum io_port_sharing sharing, bool both_families,
                       int *ret_fd, uint16_t *ret_port)
{
    autoclose int fd = socket(a->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int on = 1, v6only = !both_families;
    if (fd < 0)
        return errno;
    /* SO_REUSEADDR so that a restart need not wait for old connections' TIME_WAIT (socket(7)). */
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0 ||
        (sharing == IO_PORT_MORE && setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) < 0) ||
        (a->ss_family == AF_INET6 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &v6only, sizeof v6only) < 0))
        return errno;
    socklen_t len = a->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    if (bind(fd, (const struct sockaddr *)a, len) < 0)
        return errno;
    if (sharing == IO_PORT_FIRST && setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) < 0)
        return errno;
    struct sockaddr_storage got;
    len = sizeof got;
    if (getsockname(fd, (struct sockaddr *)&got, &len) < 0)
        return errno;
    *ret_port = ntohs(got.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&got)->sin6_port
                                                : ((struct sockaddr_in *)&got)->sin_port);
    *ret_fd = take_fd(&fd);
    return 0;
}

static int explain(const struct io_listener *l, int r, struct error *e)
{
    const char *what_to_do = "";
    switch (-r) { /* what the kernel said */
    case EADDRINUSE:
        what_to_do = l->kind == IO_CHANNEL_UNIX
                         ? ": another process listens there, or it is a file that is no socket"
                         : ": another process listens there; stop it or choose another port";
        break;
    case EACCES:
        what_to_do = l->kind == IO_CHANNEL_UNIX
                         ? ": the folder must be writable"
                         : ": ports below 1024 need CAP_NET_BIND_SERVICE; choose a higher one";
        break;
    case EADDRNOTAVAIL: what_to_do = ": this machine has no such address"; break;
    case EMFILE: what_to_do = ": raise the limit of open files (ulimit -n)"; break;
    }
    return error_set(e, r, "listening on %s: %s%s", l->address, strerror(-r), what_to_do);
}

/* An IPv4 address written as IPv6 (::ffff:127.0.0.1) is that one: a socket of IPv6 alone takes none such. */
static void take_address(struct sockaddr_storage *to, const struct addrinfo *from)
{
    struct sockaddr_in6 v6;
    memset(to, 0, sizeof *to);
    memcpy(to, from->ai_addr, from->ai_addrlen);
    if (to->ss_family != AF_INET6)
        return;
    memcpy(&v6, to, sizeof v6);
    if (!IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr))
        return;
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    memcpy(&v4.sin_addr, &v6.sin6_addr.s6_addr[12], sizeof v4.sin_addr);
    memset(to, 0, sizeof *to);
    memcpy(to, &v4, sizeof v4);
}

static int resolve(const char *host, const char *address, struct sockaddr_storage *ret, uint32_t *ret_n,
                   struct error *e)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *list = NULL;
    int r = getaddrinfo(host, NULL, &hints, &list);
    if (r != 0)
        return error_set(e, -EINVAL, "listening on %s: the host cannot be resolved: %s", address,
                         gai_strerror(r));
    uint32_t n = 0;
    for (struct addrinfo *a = list; a && n < SOCKETS_MAX; a = a->ai_next) {
        bool known = a->ai_family != AF_INET && a->ai_family != AF_INET6;
        if (!known)
            take_address(&ret[n], a);
        for (uint32_t i = 0; i < n && !known; i++)
            known = memcmp(&ret[i], &ret[n], sizeof ret[n]) == 0;
        n += !known;
    }
    freeaddrinfo(list);
    if (n == 0)
        return error_set(e, -EINVAL, "listening on %s: the host has no IP address", address);
    *ret_n = n;
    return 0;
}

/* What a host stands for. */
static int host_addresses(const char *host, const char *address, struct sockaddr_storage *ret,
                          uint32_t *ret_n, struct error *e)
{
    if ((*ret_n = io_localhost_addresses(host, 0, ret)) > 0)
        return 0;
    if (!*host) {
        memset(ret, 0, sizeof *ret);
        uv_ip6_addr("::", 0, (struct sockaddr_in6 *)&ret[0]);
        *ret_n = 1;
        return 0;
    }
    return resolve(host, address, ret, ret_n, e);
}

static void close_all(int *fds, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

/* Binds what can be bound of addresses[n] at one port into fds, *ret_n of them. 0; the errno of the first
 * that failed if none was; or EADDRINUSE if one's port is taken (a half-taken port is a mistake, not a
 * choice). */
static int bind_all(const struct sockaddr_storage *addresses, uint32_t n, uint16_t port,
                    enum io_port_sharing sharing, bool every_address, int *fds, uint32_t *ret_n,
                    uint16_t *ret_port)
{
    uint32_t n_bound = 0;
    int first_error = 0;
    for (uint32_t i = 0; i < n; i++) {
        struct sockaddr_storage a = addresses[i];
        set_port(&a, n_bound > 0 ? *ret_port : port);
        uint16_t got;
        int fd = -1, error = bind_socket(&a, sharing, every_address, &fd, &got);
        if (error == EAFNOSUPPORT && every_address) { /* a kernel without IPv6 */
            memset(&a, 0, sizeof a);
            uv_ip4_addr("0.0.0.0", port, (struct sockaddr_in *)&a);
            error = bind_socket(&a, sharing, false, &fd, &got);
        }
        if (error != 0) {
            if (first_error == 0 || error == EADDRINUSE)
                first_error = error;
            if (error == EADDRINUSE)
                break;
            continue;
        }
        fds[n_bound++] = fd;
        *ret_port = got;
    }
    *ret_n = n_bound;
    if (n_bound > 0 && first_error != EADDRINUSE)
        return 0;
    close_all(fds, n_bound);
    return first_error;
}

static void on_socket_closed(uv_handle_t *handle)
{
    struct socket *s = handle->data;
    if (--s->listener->to_close == 0)
        free(s->listener);
}

struct io_listener *io_listener_free(struct io_listener *l)
{
    if (!l)
        return NULL;
    l->closing = true;
    l->pause = io_timer_free(l->pause);
    unix_file_remove(&l->file);
    for (uint32_t i = 0; i < l->n_sockets; i++) {
        l->to_close += l->sockets[i].refusing ? 2 : 1;
        uv_close(&l->sockets[i].uv.handle, on_socket_closed);
    }
    if (l->to_close == 0)
        free(l);
    return NULL;
}

static int init_server(const struct io_listener *l, union server *s)
{
    uv_loop_t *uv = io_loop_uv(l->loop);
    return l->kind == IO_CHANNEL_UNIX ? uv_pipe_init(uv, &s->pipe, 0) : uv_tcp_init(uv, &s->tcp);
}

static struct io_listener *listener_new(struct io_loop *loop, enum io_channel_kind kind, const char *address)
{
    struct io_listener *l = calloc(1, sizeof *l);
    if (!l)
        return NULL;
    l->loop = loop;
    l->kind = kind;
    snprintf(l->address, sizeof l->address, "%s", address);
    return l;
}

/* Gives the sockets to the loop. On failure they are closed and the listener is gone; 0 or -errno. */
static int open_sockets(struct io_listener *l, int *fds, uint32_t n_fds, struct error *e)
{
    int r = 0;
    for (uint32_t i = 0; i < n_fds && r == 0; i++) {
        struct socket *s = &l->sockets[i];
        s->listener = l;
        r = init_server(l, &s->uv);
        if (r < 0)
            break;
        s->uv.handle.data = s;
        l->n_sockets++;
        r = l->kind == IO_CHANNEL_UNIX ? uv_pipe_open(&s->uv.pipe, fds[i]) : uv_tcp_open(&s->uv.tcp, fds[i]);
        if (r == 0)
            fds[i] = -1;
    }
    if (r == 0)
        return 0;
    close_all(fds, n_fds);
    r = explain(l, r, e);
    io_listener_free(l);
    return r;
}

static int new_tcp(struct io_listener **ret, struct io_loop *loop, const char *address,
                   enum io_port_sharing sharing, struct error *e)
{
    char host[HOST_MAX];
    uint16_t port;
    struct sockaddr_storage addresses[SOCKETS_MAX];
    uint32_t n = 0;
    int r = io_address_parse(address, host, sizeof host, &port, e);
    bool every_address = r == 0 && (!*host || strcmp(host, "::") == 0);
    if (r == 0)
        r = host_addresses(every_address ? "" : host, address, addresses, &n, e);
    if (r < 0)
        return r;

    struct io_listener *l = listener_new(loop, IO_CHANNEL_TCP, address);
    if (!l)
        return error_set(e, -ENOMEM, "listening on %s: out of memory", address);
    int fds[SOCKETS_MAX], error = EADDRINUSE;
    uint32_t n_fds = 0;
    for (int tries = port == 0 && n > 1 ? PORT_TRIES : 1; tries > 0 && error == EADDRINUSE; tries--)
        error = bind_all(addresses, n, port, sharing, every_address, fds, &n_fds, &l->port);
    if (error != 0) {
        r = explain(l, -error, e);
        free(l);
        return r;
    }
    r = open_sockets(l, fds, n_fds, e);
    if (r == 0)
        *ret = l;
    return r;
}

int io_listener_new(struct io_listener **ret, struct io_loop *loop, const char *address,
                    enum io_port_sharing sharing, struct error *e)
{
    return unix_address_is(address) ? io_listener_new_unix(ret, loop, address, IO_UNIX_MODE, e)
                                    : new_tcp(ret, loop, address, sharing, e);
}

int io_listener_new_unix(struct io_listener **ret, struct io_loop *loop, const char *address, uint32_t mode,
                         struct error *e)
{
    struct unix_address a;
    int r = unix_address_parse(&a, address, e);
    if (r < 0)
        return r;
    struct io_listener *l = listener_new(loop, IO_CHANNEL_UNIX, address);
    if (!l)
        return error_set(e, -ENOMEM, "listening on %s: out of memory", address);
    int fd = unix_address_listen(&a, mode, IO_LISTEN_BACKLOG, &l->file);
    if (fd < 0) {
        r = explain(l, fd, e);
        free(l);
        return r;
    }
    r = open_sockets(l, &fd, 1, e);
    if (r == 0)
        *ret = l;
    return r;
}

int io_listener_share(struct io_listener **ret, struct io_loop *loop, const struct io_listener *of,
                      struct error *e)
{
    struct io_listener *l = listener_new(loop, of->kind, of->address);
    if (!l)
        return error_set(e, -ENOMEM, "listening on %s: out of memory", of->address);
    l->port = of->port;
    int fds[SOCKETS_MAX], r = 0;
    uint32_t n = 0;
    for (; n < of->n_sockets; n++) {
        uv_os_fd_t fd;
        r = uv_fileno(&of->sockets[n].uv.handle, &fd);
        fds[n] = r < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
        if (fds[n] < 0) {
            r = r < 0 ? r : -errno;
            break;
        }
    }
    if (r < 0) {
        close_all(fds, n);
        r = explain(l, r, e);
        free(l);
        return r;
    }
    r = open_sockets(l, fds, n, e);
    if (r == 0)
        *ret = l;
    return r;
}

/* A connection that is waiting must be taken, or libuv never looks at the socket again; without memory for a
 * channel it is taken by a handle kept for that and closed. */
static void refuse(struct socket *s);

static void on_refused(uv_handle_t *handle)
{
    struct socket *s = handle->data;
    s->refusing = false;
    if (s->listener->closing) {
        on_socket_closed(handle);
    } else if (s->refuse_more) {
        s->refuse_more = false;
        refuse(s);
    }
}

static void refuse(struct socket *s)
{
    if (s->refusing) {
        s->refuse_more = true;
        return;
    }
    if (init_server(s->listener, &s->refused) < 0)
        return;
    s->refused.handle.data = s;
    s->refusing = true;
    uv_accept(&s->uv.stream, &s->refused.stream);
    uv_close(&s->refused.handle, on_refused);
}

static void take(struct socket *s)
{
    struct io_channel *c = io_channel_new(s->listener->loop, s->listener->kind);
    if (!c) {
        refuse(s);
        return;
    }
    if (uv_accept(&s->uv.stream, io_channel_stream(c)) < 0) {
        io_channel_close(c);
        return;
    }
    io_channel_connected(c);
    s->listener->on_accept(s->listener->user, c);
}

/* libuv accepts as long as somebody waits: a flood would have the loop for itself. It stops where nobody
 * takes what it accepted, and goes on when somebody does (uv_accept). */
static void on_connection(uv_stream_t *server, int status)
{
    struct socket *s = server->data;
    struct io_listener *l = s->listener;
    if (status < 0)
        return; /* the peer gave up before we took it, or descriptors are out: libuv has handled both */
    if (l->n_taken < IO_LISTENER_TURN_MAX) {
        l->n_taken++;
        take(s);
        return;
    }
    s->waits = true;
    io_timer_set(l->pause, 0);
}

/* The next turn: everybody else had theirs. */
static void on_pause_over(void *user)
{
    struct io_listener *l = user;
    l->n_taken = 0;
    for (uint32_t i = 0; i < l->n_sockets; i++)
        if (l->sockets[i].waits && !l->closing) {
            l->sockets[i].waits = false;
            l->n_taken++;
            take(&l->sockets[i]);
        }
}

int io_listener_start(struct io_listener *l, io_accept_fn on_accept, void *user, struct error *e)
{
    l->on_accept = on_accept;
    l->user = user;
    l->pause = io_timer_new(l->loop, on_pause_over, l);
    if (!l->pause)
        return explain(l, -ENOMEM, e);
    for (uint32_t i = 0; i < l->n_sockets; i++) {
        int r = uv_listen(&l->sockets[i].uv.stream, IO_LISTEN_BACKLOG, on_connection);
        if (r < 0)
            return explain(l, r, e);
    }
    return 0;
}

/* The kernel takes no more on this socket, as if the network had lost them: whoever comes between the last
 * accept(2) and close(2) tries again a second later, and is refused. What cannot be done (a unix socket) is
 * as it would be without. */
static void shut_door(int server)
{
    static struct sock_filter nothing = {.code = BPF_RET | BPF_K, .k = 0};
    setsockopt(server, SOL_SOCKET, SO_ATTACH_FILTER, &(struct sock_fprog){1, &nothing},
               sizeof(struct sock_fprog));
}

static void take_waiting(struct io_listener *l, struct socket *s)
{
    uv_os_fd_t server;
    if (s->waits) { /* accepted by libuv */
        s->waits = false;
        take(s);
    }
    if (uv_fileno(&s->uv.handle, &server) < 0)
        return;
    shut_door(server);
    for (uint32_t i = 0; i < IO_LISTEN_BACKLOG; i++) {
        int fd = accept4(server, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        struct io_channel *c = fd < 0 ? NULL : io_channel_adopt(l->loop, fd);
        if (c)
            l->on_accept(l->user, c);
        else if (fd < 0 && errno != ECONNABORTED && errno != EINTR)
            return; /* nobody waits, or descriptors are out */
    }
}

void io_listener_take_waiting(struct io_listener *l)
{
    for (uint32_t i = 0; i < l->n_sockets; i++)
        take_waiting(l, &l->sockets[i]);
}

uint16_t io_listener_port(const struct io_listener *l)
{
    return l->port;
}
