/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections are those of gateway/listen, as a worker has them; beside each stands its place here, from when
 * it is let in: who may have one, and what of its answers was read.
 */
#include "gateway/admin/admin.h"

#include <stdlib.h>

#include "gateway/access/access.h"
#include "gateway/admin/pages.h"
#include "gateway/listen/connections.h"
#include "proto/base/clock.h"
#include "proto/base/macros.h"
#include "proto/io/channel.h"
#include "proto/io/listener.h"
#include "proto/io/loop.h"
#include "proto/io/timer.h"

/* A few scrapers and a few people; more at once is a mistake or an attack, and would cost the control loop.
 * Who asks for nothing makes room for who comes, of the address that has most places. */
#define PLACES_MAX 64u

#define STALL_NS (10 * (uint64_t)NSEC_PER_SEC)

/* Such a part of that is more than any answer is waited for (scrape.c). */
#define WAIT_SHARE 4u

/* So many times that long after its last byte went out, with the connection still open and nothing on its
 * way, an answer was read: longer than any scrape_timeout, and before what was shown may be forgotten
 * (aggregate/room.c). Who asks every few minutes is not waited for. */
#define READ_STALLS 6u

struct admin {
    struct pages *pages;
    struct io_listener *listener;
    struct pages_names names;
    struct pages_guard guard;
    struct listen_factory factory;
    struct http_server_limits limits;
    struct connection_origin origin;
    struct connections connections;
    atomic_uint n_connections;
    uint64_t stall_ns;
    struct io_timer *timer; /* the next time to look whether something was read */
    LIST_HEAD(, place) places;
    uint32_t n_places;
    bool is_over; /* it waits for its connections only */
};

SLIST_HEAD(receipts, admin_receipt);

struct place {
    struct admin *admin; /* NULL: it is given up, and the connection closes */
    LIST_ENTRY(place) others;
    struct http_peer *peer;   /* within the connection */
    bool is_taken;            /* the last thing it asked for is answered by its page, later */
    uint64_t asked_at;        /* when it came, or last asked for something */
    struct receipts receipts; /* answers that are all written and may be read or not */
    uint64_t read_at;         /* when they will have been read; UINT64_MAX: there are none */
};

static struct connection *connection(const struct place *p)
{
    return connection_of_peer(p->peer);
}

static uint64_t now(const struct admin *a)
{
    return io_loop_now(a->connections.host.loop);
}

/* Since when it was neither asked nor said anything. */
static uint64_t since(const struct place *p)
{
    return max_of(p->asked_at, connection_spoke_at(connection(p)));
}

/* ---- what was read ---- */

/* Takes them off. */
static void tell_receipts(struct place *p, bool was_read)
{
    for (struct admin_receipt *r; (r = SLIST_FIRST(&p->receipts));) {
        SLIST_REMOVE_HEAD(&p->receipts, next);
        r->fn(r, was_read);
    }
}

static void timer_arm(struct admin *a)
{
    uint64_t next = UINT64_MAX;
    const struct place *p;
    LIST_FOREACH (p, &a->places, others)
        next = min_of(next, p->read_at);
    io_timer_set(a->timer, next);
}

void admin_when_read(const struct http_exchange *x, struct admin_receipt *receipt)
{
    struct place *p = x->peer->listener;
    if (!p) {
        receipt->fn(receipt, true);
        return;
    }
    SLIST_INSERT_HEAD(&p->receipts, receipt, next);
    p->read_at = now(p->admin) + READ_STALLS * p->admin->stall_ns;
    timer_arm(p->admin);
}

/* It is time: they were read if nothing has been on its way since; else it is looked again. */
static void settle(struct place *p, uint64_t now)
{
    const uint64_t read_at = since(p) + READ_STALLS * p->admin->stall_ns;
    if (connection_is_quiet(connection(p)) && read_at <= now)
        tell_receipts(p, true);
    p->read_at = SLIST_EMPTY(&p->receipts) ? UINT64_MAX : read_at > now ? read_at : now + p->admin->stall_ns;
}

static void on_timer(void *user)
{
    struct admin *a = user;
    struct place *p;
    LIST_FOREACH (p, &a->places, others)
        if (p->read_at <= now(a))
            settle(p, now(a));
    timer_arm(a);
}

static void on_head(void *context, struct http_exchange *x)
{
    struct place *p = x->peer->listener;
    const struct http_handler *own = x->handler;
    if (!SLIST_EMPTY(&p->receipts) && connection_is_quiet(connection(p)))
        tell_receipts(p, true); /* whoever asks for something else has read the answers before */
    p->asked_at = now(p->admin);
    pages_handler()->on_head(context, x);
    p->is_taken = x->handler != own;
}

/* ---- places ---- */

static bool admit(void *context, void *pages, struct http_peer *peer)
{
    struct admin *a = context;
    struct place *p = calloc(1, sizeof *p);
    if (!p || (a->guard.policy && !access_admit(a->guard.access, peer))) {
        free(p);
        return false;
    }
    *p = (struct place){.admin = a, .peer = peer, .asked_at = now(a), .read_at = UINT64_MAX};
    peer->listener = p;
    LIST_INSERT_HEAD(&a->places, p, others);
    a->n_places++;
    return true;
}

static void give_up(struct place *p, bool was_read)
{
    struct admin *a = p->admin;
    tell_receipts(p, was_read);
    if (!a)
        return;
    LIST_REMOVE(p, others);
    a->n_places--;
    if (p->peer->client)
        access_leave(a->guard.access, p->peer);
    p->admin = NULL;
}

static void leave(void *context, void *pages, struct http_peer *peer)
{
    struct place *p = peer->listener;
    give_up(p, connection_was_taken(connection(p)));
    free(p);
}

void admin_cut(const struct http_exchange *x)
{
    struct place *p = x->peer->listener;
    if (!p)
        return;
    connection_reset(connection(p));
    give_up(p, false);
}

/* Whether it keeps its place from others only: all that it asked for is answered, whatever else it has begun
 * to say. What a page answers later is waited for, but not for ever. */
static bool is_idle(const struct place *p)
{
    return connection_is_quiet(connection(p)) &&
           (connection_is_idle(connection(p)) || !p->is_taken ||
            since(p) + p->admin->stall_ns / WAIT_SHARE <= now(p->admin));
}

static uint32_t places_of(const struct admin *a, uint32_t host)
{
    uint32_t n = 0;
    const struct place *p;
    LIST_FOREACH (p, &a->places, others)
        n += p->peer->host == host;
    return n;
}

/* For somebody else: ends the connection that has been idle for longest of those who have most places, or of
 * who comes if that is one of them. Nobody keeps others out by being busy: where he has two places more, the
 * longest of them goes, idle or not; and where who comes has none, whoever has not read for longest. */
static void make_room(struct admin *a, uint32_t host)
{
    const uint32_t own = places_of(a, host);
    struct place *idlest = NULL, *oldest = NULL, *unread = NULL, *p;
    uint32_t most = own;
    LIST_FOREACH (p, &a->places, others)
        most = max_of(most, places_of(a, p->peer->host));
    LIST_FOREACH (p, &a->places, others) {
        if (own == most ? p->peer->host != host : places_of(a, p->peer->host) != most)
            continue;
        if (!oldest || since(p) <= since(oldest)) /* the list's last came first */
            oldest = p;
        if (!connection_is_quiet(connection(p)) && (!unread || since(p) <= since(unread)))
            unread = p;
        if (is_idle(p) && (!idlest || since(p) <= since(idlest)))
            idlest = p;
    }
    if (!idlest && most > own + 1)
        idlest = oldest;
    if (!idlest && own == 0)
        idlest = unread;
    if (idlest) { /* not politely: sockets that linger would be as many as somebody opens */
        connection_close(connection(idlest));
        give_up(idlest, false);
    }
}

static void on_accept(void *user, struct io_channel *channel)
{
    struct admin *a = user;
    if (a->n_places == PLACES_MAX)
        make_room(a, turns_host(io_channel_peer(channel)));
    if (a->n_places < PLACES_MAX)
        connections_accept(&a->connections, channel, &a->origin);
    else
        io_channel_close(channel);
}

/* ---- the server ---- */

static void release(struct admin *a)
{
    connections_release(&a->connections);
    free(a);
}

static void on_empty(void *user)
{
    struct admin *a = user;
    if (a->is_over)
        release(a);
}

struct admin *admin_new(const struct admin_options *options, struct io_loop *loop, struct error *e)
{
    static const struct http_handler handler = {.on_head = on_head};
    struct admin *a = calloc(1, sizeof *a);
    if (!a) {
        error_set(e, 0, "out of memory");
        return NULL;
    }
    a->stall_ns = options->stall_ns ? options->stall_ns : STALL_NS;
    a->names = (struct pages_names){options->endpoint, options->hosts, options->n_hosts};
    a->guard = options->guard;
    a->origin =
        (struct connection_origin){.certificates = options->certificates, .name = "the admin address"};
    a->limits = (struct http_server_limits)HTTP_SERVER_LIMITS_DEFAULT;
    a->factory = (struct listen_factory){.handler = &handler, .context = a, .admit = admit, .leave = leave};
    a->pages = pages_new(options->pages, options->n_pages, &a->names, &a->guard);
    a->timer = io_timer_new(loop, on_timer, a);
    /* Of receivers is what is counted of connections: without stats. */
    a->connections = (struct connections){
        .host = {.loop = loop,
                 .factory = &a->factory,
                 .http = &a->limits,
                 .context = a->pages,
                 .patience_ns = a->stall_ns,
                 .balance = {.n = 1}},
        .of_all = &a->n_connections,
        .of_all_max = UINT32_MAX, /* places are fewer */
        .is_empty = on_empty,
        .user = a,
    };
    if (connections_init(&a->connections) < 0 || !a->pages || !a->timer) {
        error_set(e, 0, "out of memory");
        return admin_free(a);
    }
    if (io_listener_new(&a->listener, loop, options->endpoint, false, e) < 0 ||
        io_listener_start(a->listener, on_accept, a, e) < 0) {
        error_prefix(e, 0, "admin: ");
        return admin_free(a);
    }
    return a;
}

struct admin *admin_free(struct admin *a)
{
    if (!a)
        return NULL;
    io_listener_free(a->listener);
    connections_close(&a->connections);
    while (!LIST_EMPTY(&a->places))
        give_up(LIST_FIRST(&a->places), false);
    io_timer_free(a->timer);
    pages_free(a->pages);
    a->is_over = true;
    if (a->connections.n == 0)
        release(a);
    return NULL;
}

uint16_t admin_port(const struct admin *a)
{
    return io_listener_port(a->listener);
}
