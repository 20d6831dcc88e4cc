#include "proto/io/listener.h"

#include <errno.h>
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
#include "proto/io/channel_private.h"
#include "proto/io/loop.h"

#define SOCKETS_MAX 16 /* addresses of one name */
#define HOST_MAX    256
#define PORT_TRIES  16 /* port 0 on several addresses: the port free on the first may be taken on the next */

struct socket {
    uv_tcp_t uv;
    uv_tcp_t refused; /* takes a connection that there was no memory for */
    struct io_listener *listener;
    bool refusing, refuse_more;
};

struct io_listener {
    struct io_loop *loop;
    struct socket sockets[SOCKETS_MAX];
    uint32_t n_sockets, to_close;
    bool closing;
    uint16_t port;
    io_accept_fn on_accept;
    void *user;
    char address[HOST_MAX + 8];
};

int io_address_parse(const char *address, char *host, size_t cap, uint16_t *ret_port, struct error *e)
{
    const char *colon = strrchr(address, ':'), *from = address, *to = colon;
    uint64_t port;
    if (!colon)
        return error_set(e, -EINVAL, "address \"%s\" has no port: write host:port", address);
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

/* A bound socket, or -errno. *ret_port is the port it got. */
static int bind_socket(const struct sockaddr_storage *a, enum io_port_sharing sharing, bool both_families,
                       uint16_t *ret_port)
{
    autoclose int fd = socket(a->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int on = 1, v6only = !both_families;
    if (fd < 0)
        return -errno;
    /* SO_REUSEADDR so that a restart need not wait for old connections' TIME_WAIT (socket(7)). */
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0 ||
        (sharing == IO_PORT_MORE && setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) < 0) ||
        (a->ss_family == AF_INET6 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &v6only, sizeof v6only) < 0))
        return -errno;
    socklen_t len = a->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    if (bind(fd, (const struct sockaddr *)a, len) < 0)
        return -errno;
    if (sharing == IO_PORT_FIRST && setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) < 0)
        return -errno;
    struct sockaddr_storage got;
    len = sizeof got;
    if (getsockname(fd, (struct sockaddr *)&got, &len) < 0)
        return -errno;
    *ret_port = ntohs(got.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&got)->sin6_port
                                                : ((struct sockaddr_in *)&got)->sin_port);
    return take_fd(&fd);
}

static int explain(const struct io_listener *l, int r, struct error *e)
{
    const char *what_to_do = "";
    switch (r) {
    case -EADDRINUSE: what_to_do = ": another process listens there; stop it or choose another port"; break;
    case -EACCES: what_to_do = ": ports below 1024 need CAP_NET_BIND_SERVICE; choose a higher one"; break;
    case -EADDRNOTAVAIL: what_to_do = ": this machine has no such address"; break;
    case -EMFILE: what_to_do = ": raise the limit of open files (ulimit -n)"; break;
    }
    return error_set(e, r, "listening on %s: %s%s", l->address, strerror(-r), what_to_do);
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
        for (uint32_t i = 0; i < n && !known; i++)
            known = ret[i].ss_family == a->ai_family && memcmp(&ret[i], a->ai_addr, a->ai_addrlen) == 0;
        if (known)
            continue;
        memset(&ret[n], 0, sizeof ret[n]);
        memcpy(&ret[n++], a->ai_addr, a->ai_addrlen);
    }
    freeaddrinfo(list);
    if (n == 0)
        return error_set(e, -EINVAL, "listening on %s: the host has no IP address", address);
    *ret_n = n;
    return 0;
}

/* What a host stands for. localhost is both loopbacks whatever /etc/hosts says (RFC 6761 §6.3). */
static int host_addresses(const char *host, const char *address, struct sockaddr_storage *ret,
                          uint32_t *ret_n, struct error *e)
{
    if (strcmp(host, "localhost") == 0) {
        memset(ret, 0, 2 * sizeof *ret);
        uv_ip4_addr("127.0.0.1", 0, (struct sockaddr_in *)&ret[0]);
        uv_ip6_addr("::1", 0, (struct sockaddr_in6 *)&ret[1]);
        *ret_n = 2;
        return 0;
    }
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

/* Binds what can be bound of addresses[n] at one port into fds; the number bound, or -errno of the first that
 * failed if none was, or -EADDRINUSE if one's port is taken (a half-taken port is a mistake, not a choice).
 */
static int bind_all(const struct sockaddr_storage *addresses, uint32_t n, uint16_t port,
                    enum io_port_sharing sharing, bool every_address, int *fds, uint16_t *ret_port)
{
    uint32_t n_bound = 0;
    int first_error = 0;
    for (uint32_t i = 0; i < n; i++) {
        struct sockaddr_storage a = addresses[i];
        set_port(&a, n_bound > 0 ? *ret_port : port);
        uint16_t got;
        int fd = bind_socket(&a, sharing, every_address, &got);
        if (fd == -EAFNOSUPPORT && every_address) { /* a kernel without IPv6 */
            memset(&a, 0, sizeof a);
            uv_ip4_addr("0.0.0.0", port, (struct sockaddr_in *)&a);
            fd = bind_socket(&a, sharing, false, &got);
        }
        if (fd < 0) {
            if (first_error == 0 || fd == -EADDRINUSE)
                first_error = fd;
            if (fd == -EADDRINUSE)
                break;
            continue;
        }
        fds[n_bound++] = fd;
        *ret_port = got;
    }
    if (n_bound > 0 && first_error != -EADDRINUSE)
        return (int)n_bound;
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
    for (uint32_t i = 0; i < l->n_sockets; i++) {
        l->to_close += l->sockets[i].refusing ? 2 : 1;
        uv_close((uv_handle_t *)&l->sockets[i].uv, on_socket_closed);
    }
    if (l->to_close == 0)
        free(l);
    return NULL;
}

int io_listener_new(struct io_listener **ret, struct io_loop *loop, const char *address,
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

    struct io_listener *l = calloc(1, sizeof *l);
    if (!l)
        return error_set(e, -ENOMEM, "listening on %s: out of memory", address);
    l->loop = loop;
    snprintf(l->address, sizeof l->address, "%s", address);
    int fds[SOCKETS_MAX], n_fds = -EADDRINUSE;
    for (int tries = port == 0 && n > 1 ? PORT_TRIES : 1; tries > 0 && n_fds == -EADDRINUSE; tries--)
        n_fds = bind_all(addresses, n, port, sharing, every_address, fds, &l->port);
    if (n_fds < 0) {
        r = explain(l, n_fds, e);
        free(l);
        return r;
    }
    for (int i = 0; i < n_fds && r == 0; i++) {
        struct socket *s = &l->sockets[i];
        s->listener = l;
        r = uv_tcp_init(io_loop_uv(loop), &s->uv);
        if (r < 0)
            break;
        s->uv.data = s;
        l->n_sockets++;
        r = uv_tcp_open(&s->uv, fds[i]);
        if (r == 0)
            fds[i] = -1;
    }
    if (r < 0) {
        close_all(fds, (uint32_t)n_fds);
        r = explain(l, r, e);
        io_listener_free(l);
        return r;
    }
    *ret = l;
    return 0;
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
    if (uv_tcp_init(io_loop_uv(s->listener->loop), &s->refused) < 0)
        return;
    s->refused.data = s;
    s->refusing = true;
    uv_accept((uv_stream_t *)&s->uv, (uv_stream_t *)&s->refused);
    uv_close((uv_handle_t *)&s->refused, on_refused);
}

static void on_connection(uv_stream_t *server, int status)
{
    struct socket *s = server->data;
    if (status < 0)
        return; /* the peer gave up before we took it, or descriptors are out: libuv has handled both */
    struct io_channel *c = io_channel_new(s->listener->loop, IO_CHANNEL_TCP);
    if (!c) {
        refuse(s);
        return;
    }
    if (uv_accept(server, io_channel_stream(c)) < 0) {
        io_channel_close(c);
        return;
    }
    io_channel_connected(c);
    s->listener->on_accept(s->listener->user, c);
}

int io_listener_start(struct io_listener *l, io_accept_fn on_accept, void *user, struct error *e)
{
    l->on_accept = on_accept;
    l->user = user;
    for (uint32_t i = 0; i < l->n_sockets; i++) {
        int r = uv_listen((uv_stream_t *)&l->sockets[i].uv, IO_LISTEN_BACKLOG, on_connection);
        if (r < 0)
            return explain(l, r, e);
    }
    return 0;
}

uint16_t io_listener_port(const struct io_listener *l)
{
    return l->port;
}
