/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/commands/reach.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "proto/base/macros.h"
#include "proto/client/endpoint.h"

#define PATIENCE_MS 3000

/* 0 or a negative errno. */
static int try_address(const struct sockaddr *address, socklen_t n)
{
    autoclose int fd = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    if (connect(fd, address, n) == 0)
        return 0;
    if (errno != EINPROGRESS)
        return -errno;
    struct pollfd wait = {.fd = fd, .events = POLLOUT};
    int ready = poll(&wait, 1, PATIENCE_MS), why = 0;
    socklen_t size = sizeof why;
    if (ready <= 0)
        return ready == 0 ? -ETIMEDOUT : -errno;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &why, &size) < 0 ? -errno : -why;
}

static int try_unix(const struct endpoint *p)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(p->host) >= sizeof address.sun_path)
        return -ENAMETOOLONG;
    strcpy(address.sun_path, p->host);
    return try_address((const struct sockaddr *)&address, sizeof address);
}

static int try_host(const struct endpoint *p, const char *endpoint, struct error *e)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
    char port[8];
    snprintf(port, sizeof port, "%u", p->port);
    /* Without a name it is this machine's loopback addresses, which /etc/hosts need not name (RFC 6761 §6.3).
     */
    const char *host = strcmp(p->host, "localhost") == 0 ? NULL : p->host;
    int r = getaddrinfo(host, port, &hints, &found);
    if (r != 0)
        return error_set(e, -EHOSTUNREACH, "%s is not reachable: %s", endpoint, gai_strerror(r));
    r = -EHOSTUNREACH;
    for (const struct addrinfo *a = found; a && r < 0; a = a->ai_next)
        r = try_address(a->ai_addr, a->ai_addrlen);
    freeaddrinfo(found);
    return r;
}

int reach_endpoint(const char *endpoint, struct error *e)
{
    struct endpoint p;
    int r = endpoint_parse(&p, endpoint, 4317, e);
    if (r < 0)
        return r;
    struct error why = {""};
    r = p.is_unix ? try_unix(&p) : try_host(&p, endpoint, &why);
    endpoint_release(&p);
    if (r < 0 && why.text[0])
        return error_set(e, r, "%s", why.text);
    return r < 0 ? error_set(e, r, "%s is not reachable: %s", endpoint, strerror(-r)) : 0;
}
