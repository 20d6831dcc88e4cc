/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/run/notify.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "proto/base/clock.h"
#include "proto/base/macros.h"
#include "proto/base/quantity.h"
#include "proto/io/timer.h"

struct notify {
    int fd;
    struct sockaddr_un to;
    socklen_t to_n;
    uint64_t watchdog_ns; /* a sign of life is wanted within this; 0: none is */
    struct io_timer *timer;
};

/* "/path", or "@name" in the abstract namespace (unix(7)). */
static bool address_of(const char *text, struct notify *n)
{
    size_t length = strlen(text);
    if ((*text != '/' && *text != '@') || length < 2 || length >= sizeof n->to.sun_path)
        return false;
    n->to.sun_family = AF_UNIX;
    memcpy(n->to.sun_path, text, length);
    if (*text == '@')
        n->to.sun_path[0] = 0;
    n->to_n = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length);
    return true;
}

static uint64_t watchdog(char *(*getvar)(const char *))
{
    const char *usec = getvar("WATCHDOG_USEC"), *pid = getvar("WATCHDOG_PID");
    uint64_t n, whose = (uint64_t)getpid();
    if (!usec || quantity_u64(bytes_str(usec), &n) < 0 || n > UINT64_MAX / NSEC_PER_USEC ||
        (pid && quantity_u64(bytes_str(pid), &whose) < 0) || whose != (uint64_t)getpid())
        return 0;
    return n * NSEC_PER_USEC;
}

struct notify *notify_open(char *(*getvar)(const char *))
{
    const char *socket_name = getvar("NOTIFY_SOCKET");
    struct notify *n = socket_name ? calloc(1, sizeof *n) : NULL;
    if (!n)
        return NULL;
    n->fd = -1;
    if (!address_of(socket_name, n) ||
        (n->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) < 0)
        return notify_close(n);
    n->watchdog_ns = watchdog(getvar);
    return n;
}

static void say(const struct notify *n, const char *what)
{
    if (n)
        (void)sendto(n->fd, what, strlen(what), MSG_NOSIGNAL, (const struct sockaddr *)&n->to, n->to_n);
}

static void on_watchdog(void *user)
{
    struct notify *n = user;
    say(n, "WATCHDOG=1");
    io_timer_set(n->timer, clock_monotonic() + n->watchdog_ns / 2);
}

void notify_ready(struct notify *n, struct io_loop *loop)
{
    say(n, "READY=1");
    if (!n || !n->watchdog_ns || n->timer)
        return;
    n->timer = io_timer_new(loop, on_watchdog, n);
    if (n->timer)
        on_watchdog(n); /* out of memory, the manager starts us anew */
}

void notify_reloading(struct notify *n)
{
    char text[64]; /* with the time, as Type=notify-reload asks for */
    snprintf(text, sizeof text, "RELOADING=1\nMONOTONIC_USEC=%llu",
             (unsigned long long)(clock_monotonic() / NSEC_PER_USEC));
    say(n, text);
}

void notify_stopping(struct notify *n)
{
    say(n, "STOPPING=1");
}

struct notify *notify_close(struct notify *n)
{
    if (!n)
        return NULL;
    io_timer_free(n->timer);
    cleanup_close(&n->fd);
    free(n);
    return NULL;
}
