/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/admin/admin.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "gateway/access/access.h"
#include "gateway/access/address.h"
#include "gateway/admin/pages.h"
#include "gateway/listen/certificates.h"
#include "gateway/listen/refusal.h"
#include "proto/base/clock.h"
#include "proto/base/hash.h"
#include "proto/base/log.h"
#include "proto/base/macros.h"
#include "proto/io/channel.h"
#include "proto/io/idle.h"
#include "proto/io/listener.h"
#include "proto/io/loop.h"
#include "proto/io/timer.h"
#include "proto/io/tls.h"

/* A few scrapers and a few people; more at once is a mistake or an attack, and would cost the control loop.
 * Who asks for nothing makes room for who comes, of the address that has most places. */
#define CONNECTIONS_MAX 64u

#define STALL_NS (10 * (uint64_t)NSEC_PER_SEC)

/* Such a part of that is more than any answer is waited for (scrape.c). */
#define WAIT_SHARE 4u

/* So many times that long after its last byte went out, with the connection still open and nothing on its
 * way, an answer was read: longer than any scrape_timeout, and before what was shown may be forgotten
 * (aggregate/room.c). Who asks every few minutes is not waited for. */
#define READ_STALLS 6u

/* What is drained from a session at a time; more than this waits inside it until the peer has read. */
#define DRAIN_BYTES ((size_t)64 << 10)

/* TLS must be established by then. */
#define HANDSHAKE_NS (10 * (uint64_t)NSEC_PER_SEC)

struct admin {
    struct pages *pages;
    struct io_loop *loop;
    struct io_listener *listener;
    struct pages_names names;
    struct pages_guard guard;
    struct certificates *certificates; /* NULL: plain */
    struct buffer cipher, plain;       /* on their way through TLS */
    uint64_t stall_ns;
    struct io_timer *timer; /* the next of all deadlines */
    struct io_idle *late;   /* on while a session has something to say that nobody asked for just now */
    LIST_HEAD(, connection) connections, ending; /* ending: closing politely, with receipts */
    uint32_t n_connections;
};

SLIST_HEAD(receipts, admin_receipt);

struct connection {
    struct admin *admin; /* NULL once it is in no list of it */
    LIST_ENTRY(connection) others;
    struct io_channel *channel;
    struct http_session *session;
    struct http_peer peer;
    struct buffer out;
    struct tls *tls;          /* NULL: plain, or not known yet */
    uint64_t handshake_until; /* TLS must be there by then; UINT64_MAX: it is, or there is none */
    uint64_t named_until;     /* the client's certificate is good; UINT64_MAX: there is none */
    bool has_ended;           /* the peer said so within TLS */
    bool is_late;
    bool asked;               /* by what was just read: something */
    bool is_taken;            /* the last thing it asked for is answered by its page, later */
    uint64_t since;           /* when it came, or last asked for something, or was told something */
    struct receipts receipts; /* answers that are all written and may be read or not */
    uint64_t read_at;         /* when they will have been read; UINT64_MAX: there are none */
    uint64_t
        stalled_at; /* when the peer will have read nothing for too long; UINT64_MAX: nothing waits for it */
};

/* ---- one connection ------------------------------------------------------------------------ */

/* Takes them off. */
static void tell_receipts(struct receipts *receipts, bool was_read)
{
    for (struct admin_receipt *r; (r = SLIST_FIRST(receipts));) {
        SLIST_REMOVE_HEAD(receipts, next);
        r->fn(r, was_read);
    }
}

/* ---- through TLS or not ---- */

/* Sends the ciphertext there is. 0 or -ENOMEM. */
static int send_cipher(struct connection *c)
{
    return tls_flush(c->tls, c->channel, &c->admin->cipher);
}

static int send_plain(struct connection *c, struct bytes plain)
{
    if (!c->tls)
        return io_channel_write(c->channel, plain);
    int r = tls_write(c->tls, plain);
    return r < 0 ? r : send_cipher(c);
}

/* Ends it: what is written already still goes out when `politely`, and whether it was read the channel's end
 * will tell. Its on_close frees the rest. */
static void connection_end(struct connection *c, bool politely)
{
    if (c->session) {
        if (politely && c->tls) {
            tls_shutdown(c->tls);
            send_cipher(c); /* no memory for a goodbye: then without */
        }
        LIST_REMOVE(c, others);
        c->admin->n_connections--;
        c->session = http_session_free(c->session);
        if (c->peer.client)
            access_leave(c->admin->guard.access, &c->peer);
        if (politely && !SLIST_EMPTY(&c->receipts))
            LIST_INSERT_HEAD(&c->admin->ending, c, others);
        else
            c->admin = NULL;
    }
    if (politely) {
        io_channel_finish(c->channel);
        return;
    }
    tell_receipts(&c->receipts, false);
    io_channel_close(c->channel);
}

static void timer_arm(struct admin *a)
{
    uint64_t next = UINT64_MAX;
    const struct connection *c;
    LIST_FOREACH (c, &a->connections, others) {
        next = min_of(next, min_of(http_session_deadline(c->session), min_of(c->stalled_at, c->read_at)));
        next = min_of(next, min_of(c->handshake_until, c->named_until));
    }
    io_timer_set(a->timer, next);
}

/* Whether nothing that was said is still on its way. */
static bool is_quiet(const struct connection *c)
{
    return !http_session_has_output(c->session) && io_channel_untaken(c->channel) == 0;
}

void admin_when_read(const struct http_exchange *x, struct admin_receipt *receipt)
{
    struct connection *c = x->peer->listener;
    if (!c) {
        receipt->fn(receipt, true);
        return;
    }
    SLIST_INSERT_HEAD(&c->receipts, receipt, next);
    c->read_at = io_loop_now(c->admin->loop) + READ_STALLS * c->admin->stall_ns;
}

/* It is time: they were read if nothing has been on its way since; else it is looked again. */
static void settle(struct connection *c, uint64_t now)
{
    const uint64_t read_at = c->since + READ_STALLS * c->admin->stall_ns;
    const bool is_read = is_quiet(c) && read_at <= now;
    if (is_read)
        tell_receipts(&c->receipts, true);
    c->read_at = SLIST_EMPTY(&c->receipts) ? UINT64_MAX : read_at > now ? read_at : now + c->admin->stall_ns;
}

void admin_cut(const struct http_exchange *x)
{
    struct connection *c = x->peer->listener;
    if (!c)
        return;
    struct admin *a = c->admin;
    struct io_channel *channel = c->channel;
    io_channel_reset(channel);
    connection_end(c, false);
    timer_arm(a);
}

/* Sends what the session has to say, as far as the peer reads. 0, or the connection was ended (then c may not
 * be used). */
static int connection_pump(struct connection *c)
{
    c->is_late = false;
    while (io_channel_pending(c->channel) == 0) {
        buffer_clear(&c->out, DRAIN_BYTES);
        if (http_session_drain(c->session, &c->out, DRAIN_BYTES) < 0 ||
            (c->out.n > 0 && send_plain(c, buffer_bytes(&c->out)) < 0)) {
            connection_end(c, false);
            return -ENOMEM;
        }
        if (c->out.n > 0)
            c->since = io_loop_now(c->admin->loop);
        else
            break; /* that was all, or the session waits for the peer's flow control */
    }
    if (http_session_is_done(c->session) && !http_session_has_output(c->session)) {
        connection_end(c, true);
        return -ESHUTDOWN;
    }
    if (io_channel_pending(c->channel) == 0)
        c->stalled_at = UINT64_MAX;
    else if (c->stalled_at == UINT64_MAX)
        c->stalled_at = io_loop_now(c->admin->loop) + c->admin->stall_ns;
    return 0;
}

static void on_timer(void *user)
{
    struct admin *a = user;
    uint64_t now = io_loop_now(a->loop);
    for (struct connection *c = LIST_FIRST(&a->connections), *next; c; c = next) {
        next = LIST_NEXT(c, others);
        if (c->stalled_at <= now || c->handshake_until <= now) {
            connection_end(c, false);
            continue;
        }
        if (c->read_at <= now)
            settle(c, now);
        if (http_session_deadline(c->session) > now && c->named_until > now)
            continue;
        http_session_tick(c->session, now);
        if (c->named_until <= now) {
            c->named_until = UINT64_MAX;
            http_session_shutdown(c->session);
        }
        connection_pump(c);
    }
    timer_arm(a);
}

/* In the next turn: the session must not be called from inside of what it tells. */
static void on_late(void *user)
{
    struct connection *c = user;
    c->is_late = true;
    io_idle_start(c->admin->late);
}

static void pump_late(void *user)
{
    struct admin *a = user;
    io_idle_stop(a->late);
    for (struct connection *c = LIST_FIRST(&a->connections), *next; c; c = next) {
        next = LIST_NEXT(c, others);
        if (c->is_late)
            connection_pump(c);
    }
    timer_arm(a);
}

/* Plain input. It may have ended the connection: then there is no session any more. */
static void take_input(struct connection *c, struct bytes in)
{
    struct admin *a = c->admin;
    const bool was_quiet = is_quiet(c);
    struct receipts before = c->receipts;
    SLIST_INIT(&c->receipts);
    c->asked = false;
    bool broken = http_session_feed(c->session, in, io_loop_now(a->loop)) < 0;
    /* Whoever asks for something else has read the answers before. */
    const bool is_read = was_quiet && c->asked;
    if (is_read)
        tell_receipts(&before, true);
    for (struct admin_receipt *r; (r = SLIST_FIRST(&before));) {
        SLIST_REMOVE_HEAD(&before, next);
        SLIST_INSERT_HEAD(&c->receipts, r, next);
    }
    if (connection_pump(c) == 0 && broken)
        connection_end(c, true);
    timer_arm(a);
}

static void on_read(void *user, struct bytes in)
{
    take_input(user, in);
}

/* The end within TLS. Whether what was said was read shows when the connection ends, too. */
static void end_input(struct connection *c)
{
    struct admin *a = c->admin;
    c->has_ended = true;
    http_session_feed_eof(c->session);
    connection_pump(c);
    timer_arm(a);
}

static void on_read_tls(void *user, struct bytes in)
{
    struct connection *c = user;
    struct admin *a = c->admin;
    a->plain.n = 0;
    if (tls_feed(c->tls, in, &a->plain) < 0) {
        log_limited(LOG_LEVEL_INFO, "TLS failed peer=%s reason=\"%s\"", c->peer.address, tls_error(c->tls));
        send_cipher(c); /* the alert, which says it to the peer */
        connection_end(c, true);
        timer_arm(a);
        return;
    }
    if (!c->peer.tls && tls_is_established(c->tls)) {
        c->handshake_until = UINT64_MAX;
        c->peer.tls = true;
        tls_peer_name(c->tls, c->peer.identity, sizeof c->peer.identity);
        c->named_until = tls_peer_good_until(c->tls, io_loop_now(a->loop));
    }
    if (send_cipher(c) < 0) {
        connection_end(c, false);
        timer_arm(a);
        return;
    }
    if (a->plain.n > 0)
        take_input(c, buffer_bytes(&a->plain));
    if (c->session && tls_is_closed(c->tls) && !c->has_ended)
        end_input(c);
    buffer_clear(&a->plain, DRAIN_BYTES);
}

static void on_eof(void *user)
{
    struct connection *c = user;
    struct admin *a = c->admin;
    tell_receipts(&c->receipts, io_channel_was_taken(c->channel) && is_quiet(c));
    http_session_feed_eof(c->session);
    connection_pump(c);
    timer_arm(a);
}

static void on_drain(void *user)
{
    struct connection *c = user;
    struct admin *a = c->admin;
    c->stalled_at = UINT64_MAX;
    connection_pump(c);
    timer_arm(a);
}

static void on_error(void *user, int error)
{
    connection_end(user, false);
}

static void on_close(void *user)
{
    struct connection *c = user;
    if (c->admin)
        LIST_REMOVE(c, others);
    tell_receipts(&c->receipts, io_channel_was_taken(c->channel));
    tls_free(c->tls);
    buffer_release(&c->out);
    free(c);
}

static void on_head(void *context, struct http_exchange *x)
{
    struct connection *c = x->peer->listener;
    const struct http_handler *own = x->handler;
    c->asked = true;
    c->since = io_loop_now(c->admin->loop);
    pages_handler()->on_head(context, x);
    c->is_taken = x->handler != own;
}

static const struct http_handler handler = {.on_head = on_head};

static const struct io_channel_events events = {on_read, on_eof, on_drain, on_error, on_close};
static const struct io_channel_events tls_events = {on_read_tls, on_eof, on_drain, on_error, on_close};

/* 0 or -ENOMEM. */
static int begin_tls(struct connection *c)
{
    struct tls_context *context = certificates_get(c->admin->certificates, 0);
    c->tls = tls_new(context, NULL);
    tls_context_free(context);
    if (!c->tls)
        return -ENOMEM;
    c->handshake_until = min_of(c->handshake_until, io_loop_now(c->admin->loop) + HANDSHAKE_NS);
    return 0;
}

/* Whom this address does not understand: told so, and no more. */
static void refuse(struct connection *c, struct bytes words)
{
    struct admin *a = c->admin;
    io_channel_write(c->channel, words); /* no memory for it: then without a word */
    connection_end(c, true);
    timer_arm(a);
}

static bool has_tls(const struct admin *a)
{
    return a->certificates && certificates_has_tls(a->certificates, 0);
}

/* The first bytes decide. */
static void on_first_read(void *user, struct bytes in)
{
    struct connection *c = user;
    struct admin *a = c->admin;
    if (in.p[0] == TLS_HANDSHAKE && !has_tls(a)) {
        log_limited(LOG_LEVEL_INFO, "TLS failed peer=%s reason=\"the admin address takes none\"",
                    c->peer.address);
        refuse(c, refusal_of_tls());
    } else if (in.p[0] == TLS_HANDSHAKE) {
        if (begin_tls(c) < 0) {
            connection_end(c, false);
            timer_arm(a);
            return;
        }
        io_channel_start(c->channel, &tls_events, c);
        on_read_tls(c, in);
        if (c->session)
            timer_arm(a);
    } else if (!has_tls(a) || certificates_allow_plaintext(a->certificates, 0)) {
        io_channel_start(c->channel, &events, c);
        on_read(c, in);
    } else {
        refuse(c, refusal_of_plaintext(in));
    }
}

static const struct io_channel_events first_events = {on_first_read, on_eof, on_drain, on_error, on_close};

/* Whether it keeps its place from others only: all that it asked for is answered, whatever else it has begun
 * to say. What a page answers later is waited for, but not for ever. */
static bool is_idle(const struct connection *c)
{
    const uint64_t waits = io_loop_now(c->admin->loop) - c->since;
    return is_quiet(c) &&
           (http_session_is_idle(c->session) || !c->is_taken || waits >= c->admin->stall_ns / WAIT_SHARE);
}

/* One number for an address or, of IPv6, a network of 64 bits. */
static uint32_t host_of(const char *peer)
{
    char key[ADDRESS_KEY_MAX];
    return (uint32_t)hash_bytes(address_key(peer, key), hash_seed());
}

static uint32_t places_of(const struct admin *a, uint32_t host)
{
    uint32_t n = 0;
    const struct connection *c;
    LIST_FOREACH (c, &a->connections, others)
        n += c->peer.host == host;
    return n;
}

/* For somebody else: ends the connection that has been idle for longest of those who have most places, or of
 * who comes if that is one of them. Nobody keeps others out by being busy: where he has two places more, the
 * longest of them goes, idle or not; and where who comes has none, whoever has not read for longest. */
static void make_room(struct admin *a, uint32_t host)
{
    const uint32_t own = places_of(a, host);
    struct connection *idlest = NULL, *oldest = NULL, *unread = NULL, *c;
    uint32_t most = own;
    LIST_FOREACH (c, &a->connections, others)
        most = max_of(most, places_of(a, c->peer.host));
    LIST_FOREACH (c, &a->connections, others) {
        if (own == most ? c->peer.host != host : places_of(a, c->peer.host) != most)
            continue;
        if (!oldest || c->since <= oldest->since) /* the list's last came first */
            oldest = c;
        if (!is_quiet(c) && (!unread || c->since <= unread->since))
            unread = c;
        if (is_idle(c) && (!idlest || c->since <= idlest->since))
            idlest = c;
    }
    if (!idlest && most > own + 1)
        idlest = oldest;
    if (!idlest && own == 0)
        idlest = unread;
    if (idlest) /* not politely: sockets that linger would be as many as somebody opens */
        connection_end(idlest, false);
}

static void on_accept(void *user, struct io_channel *channel)
{
    struct admin *a = user;
    static const struct http_server_limits limits = HTTP_SERVER_LIMITS_DEFAULT;
    const uint32_t host = host_of(io_channel_peer(channel));
    if (a->n_connections == CONNECTIONS_MAX)
        make_room(a, host);
    struct connection *c = a->n_connections < CONNECTIONS_MAX ? calloc(1, sizeof *c) : NULL;
    if (!c) {
        io_channel_close(channel);
        return;
    }
    snprintf(c->peer.address, sizeof c->peer.address, "%s", io_channel_peer(channel));
    c->peer.listener = c;
    c->peer.host = host;
    if (!a->guard.policy || access_admit(a->guard.access, &c->peer))
        c->session = http_session_new(&handler, a->pages, &c->peer, &limits, io_loop_now(a->loop));
    if (!c->session) {
        if (c->peer.client)
            access_leave(a->guard.access, &c->peer);
        io_channel_close(channel);
        free(c);
        return;
    }
    c->channel = channel;
    c->since = io_loop_now(a->loop);
    c->stalled_at = c->read_at = c->handshake_until = c->named_until = UINT64_MAX;
    if (has_tls(a) && !certificates_allow_plaintext(a->certificates, 0))
        c->handshake_until = c->since + HANDSHAKE_NS;
    http_session_on_late_output(c->session, on_late, c);
    c->admin = a;
    LIST_INSERT_HEAD(&a->connections, c, others);
    a->n_connections++;
    io_channel_start(channel, &first_events, c);
    timer_arm(a);
}

/* ---- the server ---------------------------------------------------------------------------- */

struct admin *admin_new(const struct admin_options *options, struct io_loop *loop, struct error *e)
{
    struct admin *a = calloc(1, sizeof *a);
    if (!a) {
        error_set(e, 0, "out of memory");
        return NULL;
    }
    a->loop = loop;
    a->stall_ns = options->stall_ns ? options->stall_ns : STALL_NS;
    a->names = (struct pages_names){options->endpoint, options->hosts, options->n_hosts};
    a->guard = options->guard;
    a->certificates = options->certificates;
    a->pages = pages_new(options->pages, options->n_pages, &a->names, &a->guard);
    a->timer = io_timer_new(loop, on_timer, a);
    a->late = io_idle_new(loop, pump_late, a);
    if (!a->pages || !a->timer || !a->late) {
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
    while (!LIST_EMPTY(&a->connections))
        connection_end(LIST_FIRST(&a->connections), false);
    struct connection *c;
    LIST_FOREACH (c, &a->ending, others) {
        c->admin = NULL;
        tell_receipts(&c->receipts, false);
    }
    io_timer_free(a->timer);
    io_idle_free(a->late);
    pages_free(a->pages);
    buffer_release(&a->cipher);
    buffer_release(&a->plain);
    free(a);
    return NULL;
}

uint16_t admin_port(const struct admin *a)
{
    return io_listener_port(a->listener);
}
