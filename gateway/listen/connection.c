/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes go in by on_read (through TLS: work_tls) to work(), which feeds the session piece by piece, and out
 * by pump(), which drains the session into the channel until the channel has some waiting: then stalled_since
 * is set, and the peer has body_ns to read. Nothing is read while output waits, the session wants none, or
 * input is kept in `rest` for the connection's turn (turns.h).
 *
 * A channel's table of events is the connection's state: first_events where the first byte is to decide
 * between TLS and plain, then tls_events or events. After end_session `session` is NULL, every event looks
 * for that, and on_close, which always comes, frees the rest.
 */
#include "gateway/listen/connection.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "gateway/listen/refusal.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "proto/base/macros.h"
#include "proto/io/channel.h"
#include "proto/io/loop.h"
#include "proto/io/tls.h"

#define DRAIN_BYTES (64u << 10) /* moved from session to channel at a time */
#define OUT_KEEP    (256u << 10)

/* Answers to what came in one turn of the loop leave together, or when the first has waited so long: each
 * write to a peer that sleeps wakes it, which costs more than a small request; one that was woken already
 * asks for the next thing meanwhile. */
#define ANSWERS_WAIT_NS (200u * 1000)

struct connection {
    struct connection_host *host;
    struct connection_node node;
    struct io_channel *channel;
    struct http_session *session; /* NULL: on its way out */
    uint64_t stalled_since;       /* output waits for the peer since then; UINT64_MAX: none waits */
    uint64_t handshake_until;     /* TLS must be established by then; UINT64_MAX: it is, or there is none */
    uint64_t named_until;         /* the client's certificate is good; UINT64_MAX: there is none */
    struct tls *tls;              /* NULL: plain, or not known yet */
    struct connection_origin origin;
    const struct io_channel_events *events; /* the channel's, but when it leaves */
    bool tls_ended, was_taken;              /* was_taken: when it began to end, before any goodbye */
    uint64_t spoke_at;
    struct buffer rest;  /* input that waits for its turn; nothing is read meanwhile */
    bool rest_is_cipher; /* …as it came from the channel, and there is TLS */
    struct http_peer peer;
};

struct connection_node *connection_node(struct connection *c)
{
    return &c->node;
}

struct connection *connection_of(struct connection_node *n)
{
    return container_of(n, struct connection, node);
}

struct connection *connection_of_peer(const struct http_peer *peer)
{
    return container_of(peer, struct connection, peer);
}

/* ---- the end ---- */

static void end_session(struct connection *c)
{
    struct turns *turns = &c->host->turns;
    turns_leave(turns, &c->node.turn);
    if (c->session && http_session_was_abused(c->session))
        turns_abused(turns, c->node.turn.address, io_loop_now(c->host->loop));
    buffer_release(&c->rest);
    deadlines_remove(&c->host->deadlines, &c->node.deadline);
    c->session = http_session_free(c->session);
}

/* Sends the ciphertext there is. 0 or -ENOMEM. */
static int send_cipher(struct connection *c)
{
    int r = tls_flush(c->tls, c->channel, &c->host->cipher);
    buffer_clear(&c->host->cipher, OUT_KEEP);
    return r;
}

/* What was written still goes out. */
static void finish(struct connection *c)
{
    end_session(c);
    c->was_taken = io_channel_was_taken(c->channel);
    if (c->tls) {
        tls_shutdown(c->tls);
        send_cipher(c); /* no memory for a goodbye: then without */
    }
    io_channel_finish(c->channel);
}

void connection_close(struct connection *c)
{
    end_session(c);
    io_channel_close(c->channel);
}

void connection_reset(struct connection *c)
{
    io_channel_reset(c->channel);
    connection_close(c);
}

static void leave(struct connection *c)
{
    const struct listen_factory *f = c->host->factory;
    if (f->leave)
        f->leave(f->context, c->host->context, &c->peer);
}

static void connection_free(struct connection *c)
{
    tls_free(c->tls);
    free(c);
}

static void on_close(void *user)
{
    struct connection *c = user;
    leave(c);
    c->host->gone(c->host, &c->node); /* perhaps the last, and the host is freed */
    connection_free(c);
}

/* ---- moving bytes ---- */

static uint64_t next_deadline(const struct connection *c)
{
    uint64_t at = http_session_deadline(c->session), patience = c->host->patience_ns;
    if (c->stalled_since != UINT64_MAX && c->stalled_since < UINT64_MAX - patience)
        at = min_of(at, c->stalled_since + patience);
    return min_of(at, min_of(c->handshake_until, c->named_until));
}

/* The heap's entry is only made earlier here; when it fires too early, connection_tick corrects it. So a
 * request costs no work in the heap. */
static void deadline_changed(struct connection *c)
{
    uint64_t at = next_deadline(c);
    if (at < c->node.deadline.at) {
        deadlines_set(&c->host->deadlines, &c->node.deadline, at);
        c->host->arm(c->host);
    }
}

static int send_plain(struct connection *c, struct bytes plain)
{
    if (!c->tls)
        return io_channel_write(c->channel, plain);
    int r = tls_write(c->tls, plain);
    return r < 0 ? r : send_cipher(c);
}

static void work_tls(struct connection *c, struct bytes in);

static void await_turn(struct connection *c)
{
    turns_wait(&c->host->turns, &c->node.turn);
    c->host->turn(c->host);
}

static void read_or_pause(struct connection *c)
{
    io_channel_read_pause(c->channel,
                          !http_session_wants_input(c->session) || c->rest.n > 0 || c->node.turn.item.waits);
}

/* Sends what the session has to say, as far as the channel takes it, and ends the connection if that was the
 * last. */
static void pump(struct connection *c)
{
    struct buffer *out = &c->host->out;
    uint64_t began = 0;
    while (c->stalled_since == UINT64_MAX) {
        out->n = 0;
        int r = http_session_drain(c->session, out, DRAIN_BYTES);
        if (r == 0 && out->n == 0)
            break;
        if (r == 0)
            r = send_plain(c, buffer_bytes(out));
        if (r < 0) {
            connection_close(c);
            return;
        }
        if (io_channel_pending(c->channel) > 0)
            c->stalled_since = io_loop_now(c->host->loop);
        /* Draining may answer what was pipelined, and that is work. */
        uint64_t now = clock_monotonic();
        c->spoke_at = now;
        began = began ? began : now;
        if (now - began > TURNS_ONE_NS) {
            await_turn(c);
            break;
        }
    }
    buffer_clear(out, OUT_KEEP);
    if (http_session_is_done(c->session) && !http_session_has_output(c->session)) {
        finish(c);
        return;
    }
    if (c->rest.n > 0 && http_session_wants_input(c->session))
        await_turn(c);
    read_or_pause(c);
    deadline_changed(c);
}

/* ---- whose turn it is ---- */

static struct turns_spell spell_begin(const struct connection *c)
{
    return turns_spell_begin(&c->host->turns, c->node.turn.address, io_loop_now(c->host->loop));
}

/* What was worked since the spell began; returns when it ended. */
static uint64_t charge(struct connection *c, struct turns_spell spell)
{
    struct connection_host *h = c->host;
    const uint64_t now = clock_monotonic();
    turns_spell_charge(&h->turns, c->node.turn.address, io_loop_now(h->loop), spell, now);
    if (balance_charge(&h->balance, &c->node.used, now, now - spell.began))
        h->look(h);
    return now;
}

/* Input is kept for later. */
static void keep(struct connection *c, struct bytes in, bool cipher)
{
    c->rest_is_cipher = cipher;
    if (buffer_add_bytes(&c->rest, in) < 0) {
        connection_close(c);
        return;
    }
    if (http_session_wants_input(c->session)) /* else pump says when */
        await_turn(c);
    io_channel_read_pause(c->channel, true);
}

/* Reading, which nobody measures, has cost the copying. */
static void charge_reading(struct connection *c, size_t n)
{
    struct connection_host *h = c->host;
    turns_charge(&h->turns, c->node.turn.address, io_loop_now(h->loop), n / TURNS_BYTES_PER_NS);
}

/* After the end, too. */
static void on_read_away(void *user, size_t n)
{
    charge_reading(user, n);
}

/* Whether what came was kept for later. */
static bool must_wait(struct connection *c, struct bytes in)
{
    struct connection_host *h = c->host;
    charge_reading(c, in.n);
    if (likely(!turns_must_wait(&h->turns, c->node.turn.address, io_loop_now(h->loop))))
        return false;
    keep(c, in, c->tls != NULL);
    return true;
}

/* What the session has to say is said a little later. */
static void answer_later(struct connection *c, uint64_t began)
{
    struct connection_host *h = c->host;
    h->answers_since = min_of(h->answers_since, began);
    h->late(h, &c->node);
    read_or_pause(c);
}

/* Input of the session's, as much as it wants and one turn allows; the rest is kept. Returns when that was
 * done. */
static uint64_t feed(struct connection *c, struct bytes in)
{
    const struct turns_spell spell = spell_begin(c);
    uint64_t now = io_loop_now(c->host->loop);
    do {
        struct bytes piece = bytes_of(in.p, min_of(in.n, (size_t)TURNS_PIECE));
        int r = http_session_feed(c->session, piece, now);
        bool answers = http_session_has_output(c->session);
        in = bytes_from(in, piece.n);
        if (r == 0 && in.n > 0 && !answers)
            continue;
        if (r == 0 && in.n == 0 && answers)
            answer_later(c, spell.began);
        else
            pump(c);
        if (r < 0 && c->session)
            finish(c);
    } while (c->session && in.n > 0 && http_session_wants_input(c->session) &&
             clock_monotonic() - spell.began < TURNS_ONE_NS);
    const uint64_t ended = charge(c, spell);
    if (!c->session)
        return ended;
    if (connection_leaves(&c->node, c->host))
        c->host->late(c->host, &c->node);
    if (in.n > 0) {
        keep(c, in, false);
        if (c->session && !http_session_wants_input(c->session))
            pump(c);
    } else if (c->tls && tls_is_closed(c->tls) && !c->tls_ended) {
        c->tls_ended = true;
        http_session_feed_eof(c->session);
        pump(c);
    }
    return ended;
}

static void work(struct connection *c, struct bytes in)
{
    struct connection_host *h = c->host;
    uint64_t now = feed(c, in);
    if (now > h->answers_since && now - h->answers_since > ANSWERS_WAIT_NS)
        h->say_late(h);
}

static void on_read(void *user, struct bytes in)
{
    struct connection *c = user;
    if (c->session && !must_wait(c, in))
        work(c, in);
}

void connection_turn(struct connection *c)
{
    struct buffer rest = c->rest;
    if (!c->session)
        return;
    if (rest.n == 0 || !http_session_wants_input(c->session)) {
        const struct turns_spell spell = spell_begin(c);
        pump(c);
        charge(c, spell);
        return;
    }
    c->rest = (struct buffer){0};
    if (c->rest_is_cipher)
        work_tls(c, buffer_bytes(&rest));
    else
        work(c, buffer_bytes(&rest));
    buffer_release(&rest);
    if (c->session)
        read_or_pause(c);
}

static void on_eof(void *user)
{
    struct connection *c = user;
    if (!c->session)
        return;
    http_session_feed_eof(c->session);
    pump(c);
}

static void on_drain(void *user)
{
    struct connection *c = user;
    struct connection_host *h = c->host;
    c->stalled_since = UINT64_MAX;
    if (!c->session)
        return;
    if (turns_must_wait(&h->turns, c->node.turn.address, io_loop_now(h->loop))) {
        await_turn(c);
        return;
    }
    const struct turns_spell spell = spell_begin(c);
    pump(c);
    charge(c, spell);
}

static void on_error(void *user, int error)
{
    (void)error; /* peers come and go: nothing a log line would help with */
    struct connection *c = user;
    if (c->session)
        connection_close(c);
}

/* From inside http_reply, somewhere: only a note. */
static void on_late_output(void *user)
{
    struct connection *c = user;
    c->host->late(c->host, &c->node);
}

void connection_late(struct connection *c)
{
    if (!c->session)
        return;
    const struct turns_spell spell = spell_begin(c);
    pump(c);
    charge(c, spell);
}

/* Nothing is under way, and something has come that was not looked at yet: not idle after all. */
static bool has_news(const struct connection *c)
{
    return http_session_is_idle(c->session) && (c->rest.n > 0 || io_channel_unread(c->channel) > 0);
}

void connection_tick(struct connection *c)
{
    uint64_t now = io_loop_now(c->host->loop), patience = c->host->patience_ns;
    if (now >= c->handshake_until) {
        stats_add(c->host->stats, STATS_TLS_FAILURES, 1);
        log_limited(LOG_LEVEL_INFO, "TLS handshake not finished in time peer=%s", c->peer.address);
        connection_close(c);
        return;
    }
    if (c->stalled_since != UINT64_MAX && now - c->stalled_since >= patience) {
        connection_close(c); /* a peer that reads nothing */
        return;
    }
    if (now >= c->named_until) {
        c->named_until = UINT64_MAX;
        log_limited(LOG_LEVEL_INFO,
                    "client certificate has expired, its connection ends peer=%s identity=\"%s\"",
                    c->peer.address, c->peer.identity);
        connection_shutdown(c);
        if (!c->session)
            return;
    }
    if (now >= http_session_deadline(c->session) && !has_news(c)) {
        http_session_tick(c->session, now);
        pump(c);
        if (!c->session)
            return;
    }
    uint64_t at = next_deadline(c);
    /* A deadline that has passed and did not move would be looked at for ever in one go. */
    deadlines_set(&c->host->deadlines, &c->node.deadline, max_of(at, now + 1));
}

void connection_shutdown(struct connection *c)
{
    if (!c->session)
        return;
    http_session_tick(c->session, io_loop_now(c->host->loop));
    http_session_shutdown(c->session);
    pump(c);
}

/* ---- TLS ---- */

static void tls_failed(struct connection *c)
{
    stats_add(c->host->stats, STATS_TLS_FAILURES, 1);
    log_limited(LOG_LEVEL_INFO, "TLS failed peer=%s reason=\"%s\"", c->peer.address, tls_error(c->tls));
    send_cipher(c); /* the alert, which says it to the peer */
    finish(c);
}

/* Before any byte of the peer's reaches the session. */
static void tls_established(struct connection *c)
{
    c->handshake_until = UINT64_MAX;
    c->peer.tls = true;
    tls_peer_name(c->tls, c->peer.identity, sizeof c->peer.identity);
    c->named_until = tls_peer_good_until(c->tls, io_loop_now(c->host->loop));
}

static void work_tls(struct connection *c, struct bytes in)
{
    struct buffer *plain = &c->host->plain;
    const struct turns_spell spell = spell_begin(c);
    plain->n = 0;
    int r = tls_feed(c->tls, in, plain);
    if (r < 0) {
        tls_failed(c);
        return;
    }
    if (c->handshake_until != UINT64_MAX && tls_is_established(c->tls))
        tls_established(c);
    r = send_cipher(c);
    charge(c, spell);
    if (r < 0)
        finish(c);
    else
        work(c, buffer_bytes(plain));
    buffer_clear(plain, OUT_KEEP);
}

static void on_read_tls(void *user, struct bytes in)
{
    struct connection *c = user;
    if (c->session && !must_wait(c, in))
        work_tls(c, in);
}

#define EVENTS(on_read_)                                                                     \
    {                                                                                        \
        .on_read = (on_read_), .on_eof = on_eof, .on_drain = on_drain, .on_error = on_error, \
        .on_close = on_close, .on_read_away = on_read_away                                   \
    }

static const struct io_channel_events tls_events = EVENTS(on_read_tls);

/* 0 or -ENOMEM. */
static int begin_tls(struct connection *c)
{
    struct tls_context *context = certificates_get(c->origin.certificates, c->origin.address);
    c->tls = tls_new(context, NULL);
    tls_context_free(context);
    if (!c->tls)
        return -ENOMEM;
    c->handshake_until = min_of(c->handshake_until, io_loop_now(c->host->loop) + c->host->http->head_ns);
    deadline_changed(c);
    return 0;
}

/* ---- the beginning ---- */

static const struct io_channel_events events = EVENTS(on_read);

static void start_channel(struct connection *c, const struct io_channel_events *table)
{
    c->events = table;
    io_channel_start(c->channel, table, c);
}

static bool has_tls(const struct connection *c)
{
    return c->origin.certificates && certificates_has_tls(c->origin.certificates, c->origin.address);
}

/* The client hears no more than that it was no TLS that answered: whoever runs the gateway is told, too. */
static void refuse_tls(struct connection *c)
{
    stats_add(c->host->stats, STATS_TLS_FAILURES, 1);
    log_limited(LOG_LEVEL_INFO, "TLS failed peer=%s reason=\"%s takes none\"", c->peer.address,
                c->origin.name);
    io_channel_write(c->channel, refusal_of_tls()); /* no memory for it: then without a word */
    finish(c);
}

static void refuse_proxy_head(struct connection *c)
{
    stats_add(c->host->stats, STATS_REQUESTS_MALFORMED, 1);
    log_limited(
        LOG_LEVEL_WARN,
        "a balancer says whose connection it is, which is not taken peer=%s fix=\"the PROXY protocol off: "
        "without send-proxy (HAProxy), proxy_protocol (nginx)\"",
        c->peer.address);
    finish(c);
}

/* The first bytes decide. */
static void on_first_read(void *user, struct bytes in)
{
    struct connection *c = user;
    if (!c->session)
        return;
    if (refusal_is_proxy_head(in)) {
        refuse_proxy_head(c);
    } else if (in.p[0] == TLS_HANDSHAKE && !has_tls(c)) {
        refuse_tls(c);
    } else if (in.p[0] == TLS_HANDSHAKE) {
        if (begin_tls(c) < 0) {
            connection_close(c);
            return;
        }
        start_channel(c, &tls_events);
        on_read_tls(c, in);
    } else if (!has_tls(c) || certificates_allow_plaintext(c->origin.certificates, c->origin.address)) {
        start_channel(c, &events);
        on_read(c, in);
    } else {
        io_channel_write(c->channel, refusal_of_plaintext(in)); /* no memory for it: then without a word */
        finish(c);
    }
}

static const struct io_channel_events first_events = EVENTS(on_first_read);

/* A session, and its place among the deadlines. */
static bool begin_session(struct connection *c)
{
    struct connection_host *h = c->host;
    uint64_t now = io_loop_now(h->loop);
    c->session = http_session_new(h->factory->handler, h->context, &c->peer, h->http, now);
    if (!c->session || deadlines_add(&h->deadlines, &c->node.deadline, next_deadline(c)) < 0) {
        c->session = http_session_free(c->session);
        return false;
    }
    http_session_on_late_output(c->session, on_late_output, c);
    if (turns_are_wary(&h->turns, c->node.turn.address, now))
        http_session_be_wary(c->session);
    return true;
}

struct connection *connection_accept(struct connection_host *h, struct io_channel *channel,
                                     const struct connection_origin *origin)
{
    const struct listen_factory *f = h->factory;
    struct connection *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->host = h;
    c->channel = channel;
    c->origin = *origin;
    c->stalled_since = c->handshake_until = c->named_until = UINT64_MAX;
    if (has_tls(c) && !certificates_allow_plaintext(origin->certificates, origin->address))
        c->handshake_until = io_loop_now(h->loop) + h->http->head_ns;
    c->peer.listener = origin->user;
    snprintf(c->peer.address, sizeof c->peer.address, "%s", io_channel_peer(channel));
    c->peer.host = turns_host(c->peer.address);
    c->node.turn.address = turns_address(c->peer.host);
    if (f->admit && !f->admit(f->context, h->context, &c->peer)) {
        free(c);
        return NULL;
    }
    if (begin_session(c))
        return c;
    leave(c);
    connection_free(c);
    return NULL;
}

/* ---- how it stands ---- */

bool connection_is_quiet(const struct connection *c)
{
    if (!c->session) /* its FIN counts as untaken until it is acknowledged */
        return io_channel_pending(c->channel) == 0;
    return !http_session_has_output(c->session) && io_channel_untaken(c->channel) == 0;
}

bool connection_is_idle(const struct connection *c)
{
    return (!c->session || http_session_is_idle(c->session)) && c->stalled_since == UINT64_MAX &&
           c->rest.n == 0 && !c->node.turn.item.waits && !c->node.is_late && !c->tls_ended &&
           io_channel_pending(c->channel) == 0;
}

uint64_t connection_spoke_at(const struct connection *c)
{
    return c->spoke_at;
}

bool connection_was_taken(const struct connection *c)
{
    return c->was_taken || io_channel_was_taken(c->channel);
}

/* ---- from worker to worker ---- */

static const struct io_channel_events left_events = {0};

int connection_leave(struct connection *c)
{
    if (!c->session || !connection_is_idle(c))
        return -EBUSY;
    int fd = io_channel_detach(c->channel);
    if (fd < 0)
        return fd;
    io_channel_start(c->channel, &left_events, NULL);
    c->channel = NULL;
    deadlines_remove(&c->host->deadlines, &c->node.deadline);
    leave(c);
    return fd;
}

bool connection_arrive(struct connection *c, struct connection_host *h, int fd)
{
    const struct listen_factory *f = h->factory;
    c->host = h;
    http_session_set_context(c->session, h->context);
    struct io_channel *channel = io_channel_adopt(h->loop, fd);
    bool admitted = channel && (!f->admit || f->admit(f->context, h->context, &c->peer));
    if (admitted && deadlines_add(&h->deadlines, &c->node.deadline, next_deadline(c)) == 0) {
        c->channel = channel;
        io_channel_start(channel, c->events, c);
        return true;
    }
    if (admitted)
        leave(c);
    io_channel_close(channel);
    c->session = http_session_free(c->session);
    connection_free(c);
    return false;
}

void connection_start(struct connection *c, uint64_t began)
{
    charge(c, (struct turns_spell){.began = began});
    start_channel(c, &first_events);
}
