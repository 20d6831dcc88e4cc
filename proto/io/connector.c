/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/io/connector.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/macros.h"
#include "proto/io/channel.h"
#include "proto/io/channel_parts.h"
#include "proto/io/loop.h"
#include "proto/io/timer.h"

#define ADDRESSES_MAX 16 /* of one name; more are not tried */
#define MESSAGE_MAX   384

/* A resolution or connection under way. libuv holds it until its callback, so it may outlive the connector,
 * which then is NULL here. */
struct lookup {
    uv_getaddrinfo_t uv;
    struct io_loop *loop;
    struct io_connector *owner;
};
struct attempt {
    uv_connect_t uv;
    struct io_connector *owner;
};

struct io_connector {
    struct io_loop *loop;
    io_connect_fn done;
    void *user;
    struct io_timer *timer;
    struct lookup *lookup;
    struct attempt *attempt;
    struct io_channel *channel; /* of the attempt */
    struct sockaddr_storage addresses[ADDRESSES_MAX];
    uint32_t n_addresses, next;
    uint64_t deadline;
    int error;
    char message[MESSAGE_MAX];
    char host[];
};

static void try_next(struct io_connector *c);

static void forget_attempt(struct io_connector *c)
{
    if (c->attempt)
        take_ptr(c->attempt)->owner = NULL;
    io_channel_close(take_ptr(c->channel));
}

struct io_connector *io_connector_cancel(struct io_connector *c)
{
    if (!c)
        return NULL;
    if (c->lookup) {
        uv_cancel((uv_req_t *)&c->lookup->uv); /* as far as it can be; its callback comes anyhow */
        take_ptr(c->lookup)->owner = NULL;
    }
    forget_attempt(c);
    io_timer_free(c->timer);
    free(c);
    return NULL;
}

static void finish(struct io_connector *c, struct io_channel *channel)
{
    io_connect_fn done = c->done;
    void *user = c->user;
    int error = channel ? 0 : c->error;
    char message[MESSAGE_MAX];
    snprintf(message, sizeof message, "%s", channel ? "" : c->message);
    io_connector_cancel(c);
    done(user, channel, error, message);
}

static void fail(struct io_connector *c, int error, const char *what, const char *why)
{
    c->error = error;
    snprintf(c->message, sizeof c->message, "%s: %s", what, why);
}

static void fail_attempt(struct io_connector *c, int error)
{
    char what[IO_CHANNEL_ADDRESS_MAX + 300], address[IO_CHANNEL_ADDRESS_MAX];
    if (c->n_addresses == 0) {
        snprintf(what, sizeof what, "connecting to %s", c->host);
    } else {
        io_channel_format_address((const struct sockaddr *)&c->addresses[c->next - 1], address);
        snprintf(what, sizeof what, "connecting to %s", address);
    }
    fail(c, error, what, uv_strerror(error));
}

static void on_connected(uv_connect_t *request, int status)
{
    struct attempt *a = container_of(request, struct attempt, uv);
    struct io_connector *c = a->owner;
    free(a);
    if (!c)
        return;
    c->attempt = NULL;
    if (status == 0) {
        io_channel_connected(c->channel);
        finish(c, take_ptr(c->channel));
        return;
    }
    fail_attempt(c, status);
    try_next(c);
}

/* One attempt; 0, or -errno when it failed at once. */
static int begin_attempt(struct io_connector *c, const struct sockaddr *address)
{
    autofree struct attempt *a = malloc(sizeof *a);
    c->channel = io_channel_new(c->loop, address ? IO_CHANNEL_TCP : IO_CHANNEL_UNIX);
    if (!a || !c->channel)
        return -ENOMEM;
    a->owner = c;
    if (address) {
        int r = uv_tcp_connect(&a->uv, (uv_tcp_t *)io_channel_stream(c->channel), address, on_connected);
        if (r < 0)
            return r;
    } else {
        uv_pipe_connect(&a->uv, (uv_pipe_t *)io_channel_stream(c->channel), c->host + strlen("unix:"),
                        on_connected);
    }
    c->attempt = take_ptr(a);
    return 0;
}

/* Tries address after address, each with its share of the time that is left; the last failure is the answer.
 */
static void try_next(struct io_connector *c)
{
    for (;;) {
        forget_attempt(c);
        if (c->next == c->n_addresses) {
            finish(c, NULL);
            return;
        }
        uint64_t now = io_loop_now(c->loop), left = c->deadline > now ? c->deadline - now : 0;
        io_timer_set(c->timer, now + left / (c->n_addresses - c->next));
        int r = begin_attempt(c, (const struct sockaddr *)&c->addresses[c->next++]);
        if (r == 0)
            return;
        fail_attempt(c, r);
    }
}

static void on_time(void *user)
{
    struct io_connector *c = user;
    if (c->attempt) {
        fail_attempt(c, -ETIMEDOUT);
        try_next(c);
        return;
    }
    if (c->next < c->n_addresses) { /* known from the start */
        try_next(c);
        return;
    }
    if (c->lookup)
        fail(c, -ETIMEDOUT, c->host, "resolving the name took too long");
    finish(c, NULL); /* with the error of what could not even begin, if it was that */
}

static void on_resolved(uv_getaddrinfo_t *request, int status, struct addrinfo *list)
{
    struct lookup *lookup = container_of(request, struct lookup, uv);
    struct io_connector *c = lookup->owner;
    io_loop_resolve(lookup->loop, -1);
    free(lookup);
    if (!c) {
        uv_freeaddrinfo(list);
        return;
    }
    c->lookup = NULL;
    for (struct addrinfo *a = list; a && c->n_addresses < ADDRESSES_MAX; a = a->ai_next)
        if (a->ai_family == AF_INET || a->ai_family == AF_INET6)
            memcpy(&c->addresses[c->n_addresses++], a->ai_addr, a->ai_addrlen);
    uv_freeaddrinfo(list);
    if (status < 0 || c->n_addresses == 0) {
        char what[320];
        snprintf(what, sizeof what, "resolving %.256s", c->host);
        fail(c, -EHOSTUNREACH, what, status < 0 ? uv_strerror(status) : "it has no IP address");
        finish(c, NULL);
        return;
    }
    try_next(c);
}

static int begin_lookup(struct io_connector *c, uint16_t port)
{
    struct lookup *lookup = malloc(sizeof *lookup);
    if (!lookup)
        return -ENOMEM;
    char service[8];
    snprintf(service, sizeof service, "%u", port);
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    *lookup = (struct lookup){.loop = c->loop, .owner = c};
    int r = uv_getaddrinfo(io_loop_uv(c->loop), &lookup->uv, on_resolved, c->host, service, &hints);
    if (r < 0) {
        free(lookup);
        return r;
    }
    io_loop_resolve(c->loop, 1);
    c->lookup = lookup;
    return 0;
}

struct io_connector *io_connect(struct io_loop *l, const char *host, uint16_t port, uint64_t timeout_ns,
                                io_connect_fn done, void *user)
{
    size_t n = strlen(host) + 1;
    struct io_connector *c = calloc(1, sizeof *c + n);
    if (!c)
        return NULL;
    memcpy(c->host, host, n);
    c->loop = l;
    c->done = done;
    c->user = user;
    c->timer = io_timer_new(l, on_time, c);
    if (!c->timer) {
        free(c);
        return NULL;
    }
    uv_update_time(io_loop_uv(l));
    c->deadline = io_loop_now(l) + timeout_ns;
    io_timer_set(c->timer, c->deadline);
    c->n_addresses = io_localhost_addresses(host, port, c->addresses);
    int r = c->n_addresses > 0               ? 0
            : strncmp(host, "unix:", 5) == 0 ? begin_attempt(c, NULL)
                                             : begin_lookup(c, port);
    if (c->n_addresses > 0)
        io_timer_set(c->timer, 0); /* tried from the loop, for it may fail at once */
    if (r < 0) {
        fail_attempt(c, r);
        io_timer_set(c->timer, 0); /* told from the loop, not from in here */
    }
    return c;
}
