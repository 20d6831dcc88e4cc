/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/client/connection.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "proto/base/error.h"
#include "proto/base/macros.h"
#include "proto/client/endpoint.h"
#include "proto/io/channel.h"
#include "proto/io/connector.h"
#include "proto/io/loop.h"
#include "proto/io/timer.h"
#include "proto/io/tls.h"

/* What is asked from a session for TLS at a time: a few records. */
#define DRAIN_CHUNK 65536u

/* What may come: HTTP/2 ends with a whole frame, of at most 16 KiB unless the peer wants larger ones. */
#define DRAIN_MAX (DRAIN_CHUNK + (17u << 10))

/* One opened socket. It may outlive its connection, or stand beside the next one, until its channel is
 * closed. */
struct link {
    struct client_connection *connection; /* NULL: given up, only waits for on_close */
    struct io_channel *channel;
    struct tls *tls;
    struct http_client *http; /* NULL until the version is known */
    struct buffer tunnel;     /* what the proxy has said, until it has agreed */
    bool in_tunnel;           /* it has not yet */
    uint64_t opened_ns, heard_ns;
    bool eof, was_used; /* for a call */
};

struct client_connection {
    struct connection_options options;
    connection_fn on_change;
    void *user;
    struct io_connector *connector; /* connecting */
    struct link *link;
    struct io_timer *timer; /* bounds the opening; and carries on_change out of our own functions */
    uint32_t calls;
    bool failed_later; /* on_change is due from the timer, with the reason here */
    struct error failure;
};

static void link_flush(struct link *link);

/* ---- closing --------------------------------------------------------------------------------- */

static void link_drop(struct client_connection *c, bool politely)
{
    struct link *link = take_ptr(c->link);
    if (!link)
        return;
    if (c->failed_later) { /* it is gone anyway */
        c->failed_later = false;
        io_timer_stop(c->timer);
    }
    link->connection = NULL;
    link->http = http_client_free(link->http); /* tells running calls that they are broken */
    link->tls = tls_free(link->tls);
    buffer_release(&link->tunnel);
    if (politely)
        io_channel_finish(link->channel);
    else
        io_channel_close(link->channel);
}

/* Closes everything and tells the user why. Only from the loop's callbacks. */
static void fail(struct client_connection *c, const char *why)
{
    struct error failure;
    error_set(&failure, 0, "%s", why); /* the reason may live in what is freed next */
    c->connector = io_connector_cancel(c->connector);
    io_timer_stop(c->timer);
    link_drop(c, false);
    c->on_change(c->user, c, failure.text);
}

static void on_channel_close(void *user)
{
    free(user);
}

static void on_channel_error(void *user, int error)
{
    struct link *link = user;
    struct error e;
    if (!link->connection)
        return;
    error_set(&e, 0, "connection to %s broke: %s", link->connection->options.endpoint->authority,
              strerror(-error));
    fail(link->connection, e.text);
}

/* ---- bytes ----------------------------------------------------------------------------------- */

/* After bytes went either way: closes what is done with, else tells the user that there may be room. */
static void link_settle(struct link *link)
{
    struct client_connection *c = link->connection;
    if (link->http && http_client_is_done(link->http) && c->calls == 0 &&
        !http_client_has_output(link->http)) {
        if (link->tls)
            tls_shutdown(link->tls);
        link_flush(link);
        if (c->link == link)
            link_drop(c, true);
    } else if (link->eof) {
        fail(c, "the peer closed the connection");
        return;
    }
    c->on_change(c->user, c, NULL);
}

/* Of a failure r of a link: TLS's own words, or the errno's. */
static const char *failure_words(const struct link *link, int r)
{
    const char *words = link->tls ? tls_error(link->tls) : "";
    return words[0] ? words : strerror(-r);
}

/* What the session has to say goes into TLS, at most one chunk. */
static int drain_into_tls(struct link *link, struct buffer *out)
{
    int r = buffer_reserve(out, DRAIN_MAX); /* at once: growing would copy a body's part several times */
    if (r == 0)
        r = http_client_drain(link->http, out, DRAIN_CHUNK);
    if (r == 0)
        r = tls_write(link->tls, buffer_bytes(out));
    out->n = 0;
    return r;
}

/* Without TLS a body goes to the kernel from where it is. */
static int drain_into_channel(struct link *link, struct buffer *out)
{
    struct http_places places;
    struct bytes parts[HTTP_PARTS_MAX];
    static_assert(HTTP_PARTS_MAX <= IO_CHANNEL_PARTS_MAX, "are written at once");
    int r = http_client_drain_in_place(link->http, out, IO_CHANNEL_PENDING_MAX, &places);
    if (r == 0)
        r = io_channel_write_parts(link->channel, parts,
                                   http_places_parts(&places, buffer_bytes(out), parts));
    out->n = 0;
    return r;
}

/* Sends what the session and TLS have to say, as far as the socket takes it; on_drain goes on. */
static void link_flush(struct link *link)
{
    struct client_connection *c = link->connection;
    struct buffer out = BUFFER_INIT(0);
    int r = 0;
    do {
        if (link->tls && tls_has_output(link->tls)) {
            r = tls_drain(link->tls, &out, DRAIN_CHUNK);
            if (r == 0)
                r = io_channel_write(link->channel, buffer_bytes(&out));
            out.n = 0;
        } else if (link->http && http_client_has_output(link->http)) {
            r = link->tls ? drain_into_tls(link, &out) : drain_into_channel(link, &out);
        } else {
            break;
        }
    } while (r == 0 && io_channel_pending(link->channel) <= IO_CHANNEL_PENDING_MAX);
    buffer_release(&out);
    if (r < 0 && !c->failed_later) {
        /* Not from here: the caller may be in the middle of a call. The timer tells. */
        error_set(&c->failure, 0, "sending to %s: %s", c->options.endpoint->authority,
                  failure_words(link, r));
        c->failed_later = true;
        io_timer_set(c->timer, 0);
    }
}

static void on_channel_drain(void *user)
{
    struct link *link = user;
    if (link->connection) {
        link_flush(link);
        link_settle(link);
    }
}

/* The handshake is through, or there is none: the version is known. 0 or -errno with *e. */
static int link_begin_http(struct link *link, struct error *e)
{
    struct client_connection *c = link->connection;
    enum http_version version = c->options.http2 ? HTTP_VERSION_2 : HTTP_VERSION_1;
    if (link->tls) {
        bool h2 = bytes_is(tls_alpn(link->tls), "h2");
        if (c->options.http2 && !h2)
            return error_set(e, -EPROTO,
                             "%s does not speak HTTP/2 over TLS (no ALPN \"h2\"), which gRPC needs",
                             c->options.endpoint->authority);
        version = h2 ? HTTP_VERSION_2 : HTTP_VERSION_1;
    }
    link->http = http_client_new(version, c->options.response_max);
    if (!link->http)
        return error_set(e, -ENOMEM, "out of memory");
    http_client_charge(link->http, c->options.budget);
    io_timer_stop(c->timer);
    return 0;
}

/* Plaintext for the session. */
static int link_feed(struct link *link, struct bytes in, struct error *e)
{
    struct client_connection *c = link->connection;
    if (in.n == 0)
        return 0;
    int r = http_client_feed(link->http, in);
    if (r < 0)
        return error_set(e, r, "%s does not answer as HTTP/%d does: %s", c->options.endpoint->authority,
                         c->options.http2 ? 2 : 1, strerror(-r));
    return 0;
}

static int link_feed_tls(struct link *link, struct bytes in, struct error *e)
{
    cleanup(buffer_release) struct buffer plain = BUFFER_INIT(0);
    int r = tls_feed(link->tls, in, &plain);
    if (r < 0) {
        error_set(e, r, "TLS with %s: %s", link->connection->options.endpoint->authority,
                  failure_words(link, r));
        link_flush(link); /* the alert that tells the peer */
    } else {
        if (!link->http && tls_is_established(link->tls))
            r = link_begin_http(link, e);
        if (r == 0 && link->http)
            r = link_feed(link, buffer_bytes(&plain), e);
    }
    return r;
}

/* ---- by way of a proxy ---- */

/* An answer to CONNECT has no body (RFC 9110 §9.3.6), and of one that is no there is nothing else to read. */
#define TUNNEL_HEAD_MAX (16u << 10)

static int link_begin(struct link *link, struct error *e);

static int ask_proxy(struct link *link)
{
    const struct connection_options *o = &link->connection->options;
    cleanup(buffer_release) struct buffer out = BUFFER_INIT(0);
    int r = buffer_printf(&out, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n", o->endpoint->authority,
                          o->endpoint->authority);
    if (r == 0 && o->proxy_authorization)
        r = buffer_printf(&out, "Proxy-Authorization: %s\r\n", o->proxy_authorization);
    if (r == 0)
        r = buffer_add_str(&out, "\r\n");
    if (r == 0)
        r = io_channel_write(link->channel, buffer_bytes(&out));
    return r;
}

/* What the proxy says: 0, also when there is more to come; then *in is what is left of it, the peer's. */
static int link_feed_tunnel(struct link *link, struct bytes *in, struct error *e)
{
    const struct endpoint *proxy = link->connection->options.proxy;
    struct buffer *head = &link->tunnel;
    const size_t before = head->n;
    if (buffer_add(head, in->p, in->n) < 0)
        return error_set(e, -ENOMEM, "the proxy %s says too much", proxy->authority);
    const uint8_t *end = memmem(head->p, head->n, "\r\n\r\n", 4);
    if (!end) {
        *in = bytes_of(NULL, 0);
        return 0;
    }
    const struct bytes said = bytes_of(head->p, (size_t)(end - head->p));
    const uint8_t *line_end = memmem(said.p, said.n, "\r\n", 2);
    const struct bytes line = line_end ? bytes_of(said.p, (size_t)(line_end - said.p)) : said;
    if (line.n < 12 || !bytes_starts(line, "HTTP/1.") || line.p[8] != ' ' || line.p[9] != '2')
        return error_set(e, -ECONNREFUSED, "the proxy %s refuses: %.*s", proxy->authority, BYTES_FMT(line));
    *in = bytes_from(*in, said.n + 4 - before);
    link->in_tunnel = false;
    return link_begin(link, e);
}

static void on_channel_read(void *user, struct bytes in)
{
    struct link *link = user;
    struct error e = {""};
    struct client_connection *c = link->connection;
    if (!c)
        return;
    link->heard_ns = io_loop_now(c->options.loop);
    int r = link->in_tunnel ? link_feed_tunnel(link, &in, &e) : 0;
    if (r == 0 && !link->in_tunnel && in.n > 0)
        r = link->tls ? link_feed_tls(link, in, &e) : link_feed(link, in, &e);
    if (r < 0) {
        fail(c, e.text);
        return;
    }
    link_flush(link);
    link_settle(link);
}

static void on_channel_eof(void *user)
{
    struct link *link = user;
    struct client_connection *c = link->connection;
    if (!c)
        return;
    link->eof = true;
    if (!link->http) {
        fail(c, link->in_tunnel ? "the proxy closed the connection"
                : link->tls     ? "the peer closed the connection in the TLS handshake"
                                : "the peer closed the connection");
        return;
    }
    http_client_feed_eof(link->http);
    link_settle(link);
}

static const struct io_channel_events channel_events = {
    .on_read = on_channel_read,
    .on_eof = on_channel_eof,
    .on_drain = on_channel_drain,
    .on_error = on_channel_error,
    .on_close = on_channel_close,
};

/* ---- opening --------------------------------------------------------------------------------- */

/* The way to the endpoint is there. */
static int link_begin(struct link *link, struct error *e)
{
    const struct connection_options *o = &link->connection->options;
    struct error why = {""};
    if (!o->tls)
        return link_begin_http(link, e);
    if (tls_context_renew(o->tls, &why) < 0 && o->on_stale)
        o->on_stale(link->connection->user, why.text);
    link->tls = tls_new(o->tls, o->server_name ? o->server_name : o->endpoint->host);
    return link->tls ? 0 : error_set(e, -ENOMEM, "out of memory");
}

static void on_connected(void *user, struct io_channel *channel, int error, const char *message)
{
    struct client_connection *c = user;
    struct error e = {""};
    c->connector = NULL;
    if (!channel) {
        fail(c, message);
        return;
    }
    struct link *link = calloc(1, sizeof *link);
    if (!link) {
        io_channel_close(channel);
        fail(c, "out of memory");
        return;
    }
    link->connection = c;
    link->channel = channel;
    c->link = link;
    io_channel_start(channel, &channel_events, link);
    link->in_tunnel = c->options.proxy != NULL;
    link->opened_ns = io_loop_now(c->options.loop);
    link->tunnel = (struct buffer)BUFFER_INIT(TUNNEL_HEAD_MAX);
    int r = link->in_tunnel ? ask_proxy(link) : link_begin(link, &e);
    if (r < 0 && !e.text[0])
        error_set(&e, r, "out of memory");
    if (r < 0) {
        fail(c, e.text);
        return;
    }
    link_flush(link);
    if (link->http)
        link_settle(link);
}

static void on_timer(void *user)
{
    struct client_connection *c = user;
    struct error why = c->failure;
    if (!c->failed_later)
        error_set(&why, 0, "%s did not %s in time", c->options.endpoint->authority,
                  c->link && c->link->in_tunnel ? "answer by way of the proxy"
                                                : "complete the TLS handshake");
    c->failed_later = false;
    fail(c, why.text);
}

/* It is left when its calls have ended, so that the next one asks for the name again. */
static bool is_old(const struct client_connection *c)
{
    return c->options.age_max_ns > 0 && c->link->was_used &&
           io_loop_now(c->options.loop) - c->link->opened_ns > c->options.age_max_ns;
}

void connection_open(struct client_connection *c, uint64_t timeout_ns)
{
    const struct endpoint *p = c->options.proxy ? c->options.proxy : c->options.endpoint;
    if (c->link && is_old(c) && c->calls == 0)
        link_drop(c, true);
    if (c->connector || c->link || c->failed_later)
        return;
    char path[128];
    snprintf(path, sizeof path, "unix:%s", p->host); /* endpoint_parse bounds a socket's path to 107 bytes */
    c->connector =
        io_connect(c->options.loop, p->is_unix ? path : p->host, p->port, timeout_ns, on_connected, c);
    uint64_t now = io_loop_now(c->options.loop);
    if (c->connector) {
        /* A little later than the connector's own, which knows better what it waited for. */
        io_timer_set(c->timer, now + timeout_ns + timeout_ns / 10);
    } else {
        error_set(&c->failure, 0, "out of memory");
        c->failed_later = true;
        io_timer_set(c->timer, 0);
    }
}

struct client_connection *connection_new(const struct connection_options *options, connection_fn on_change,
                                         void *user)
{
    struct client_connection *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->options = *options;
    c->on_change = on_change;
    c->user = user;
    c->timer = io_timer_new(options->loop, on_timer, c);
    if (!c->timer) {
        free(c);
        return NULL;
    }
    return c;
}

struct client_connection *connection_free(struct client_connection *c)
{
    if (!c)
        return NULL;
    c->connector = io_connector_cancel(c->connector);
    link_drop(c, false);
    io_timer_free(c->timer);
    free(c);
    return NULL;
}

/* ---- calls ----------------------------------------------------------------------------------- */

bool connection_is_ready(const struct client_connection *c)
{
    return c->link && !c->link->eof && !c->failed_later && c->link->http && !is_old(c) &&
           http_client_is_ready(c->link->http);
}

struct http_call *connection_call(struct client_connection *c, const struct http_request *request,
                                  http_call_fn done, void *user)
{
    if (!connection_is_ready(c))
        return NULL;
    struct http_call *call = http_client_call(c->link->http, request, done, user);
    if (!call)
        return NULL;
    c->calls++;
    c->link->was_used = true;
    link_flush(c->link);
    return call;
}

void connection_end(struct client_connection *c)
{
    c->calls--;
}

void connection_give_up(struct client_connection *c, struct http_call *call, uint64_t began_ns)
{
    c->calls--;
    if (!c->link)
        return;
    http_client_cancel(c->link->http, call);
    link_flush(c->link);
    if (c->failed_later)
        return;
    bool dead = c->link->heard_ns < began_ns;
    if (!dead && (!http_client_is_done(c->link->http) || c->calls > 0))
        return;
    error_set(&c->failure, 0, dead ? "%s is silent" : "%s: connection given up with its call",
              c->options.endpoint->authority);
    c->failed_later = true;
    io_timer_set(c->timer, 0);
}
