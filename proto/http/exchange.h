/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One HTTP request and its response, whichever version carries it.
 *
 * A session (http1 through llhttp, http2 through nghttp2) is fed bytes and drained of bytes; it never sees a
 * socket. It makes exchanges and tells a handler about them; the handler never asks which version it is,
 * except to word an answer. Everything here runs on the thread that feeds the session.
 */
#ifndef PROTO_HTTP_EXCHANGE_H
#define PROTO_HTTP_EXCHANGE_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/buffer.h"
#include "proto/base/bytes.h"

struct budget;

struct http_header {
    struct bytes name; /* lower case (HTTP/1 names are folded on arrival) */
    struct bytes value;
};

enum http_version { HTTP_VERSION_1 = 1, HTTP_VERSION_2 = 2 };

/* ---- server -------------------------------------------------------------------------------- */

struct http_session;

/* Who is at the other end; the joiner (gateway/listen) fills it in, the session only carries it to the
 * handler. */
struct http_peer {
    char address[64]; /* "127.0.0.1:40312", "[::1]:4317", "unix:uid=1000" */
    bool tls;
    uint32_t host;      /* a number for the machine at that address, if the joiner gives one: equal machines,
                           equal numbers */
    char identity[256]; /* the name in a verified client certificate; "": none */
    void *listener;     /* the joiner's own */
    void *client;       /* of those who admitted the connection */
};

struct http_handler;

struct http_exchange {
    struct http_session *session;
    /* Who is told what comes of this exchange, and with which context: at first the session's. A handler may
     * give the exchange to another one by setting both, from within on_head. */
    const struct http_handler *handler;
    void *context;
    const struct http_peer *peer;
    enum http_version version;
    struct bytes method, scheme, authority;
    struct bytes path, query; /* path without, query without its '?' */
    const struct http_header *headers;
    uint32_t n_headers;
    int64_t content_length; /* -1: not told */
    void *user;             /* the handler's own */
};

/* What a session tells; `context` is the exchange's. Slices in the exchange live until on_close. Each may be
 * NULL, but for on_head of a session's own handler: nobody wants to hear it. */
struct http_handler {
    /* The head is complete. The handler may reply at once: then on_body and on_end do not come, and the
     * session reads the rest of the body away if it is announced to be small (limits.discard_bytes). Else
     * HTTP/1 closes, and HTTP/2 resets the stream with NO_ERROR (RFC 9113 §8.1). */
    void (*on_head)(void *context, struct http_exchange *x);
    /* A piece of the body, in order; the slice is valid during the call only. */
    void (*on_body)(void *context, struct http_exchange *x, struct bytes piece);
    /* The body is complete. The handler replies now or later. */
    void (*on_end)(void *context, struct http_exchange *x);
    /* Exactly once for each on_head, last: replied and sent, or the peer is gone. The exchange dies after it.
     */
    void (*on_close)(void *context, struct http_exchange *x);
    /* The peer has taken all that was written of a reply in pieces: more may be written, from
     * within or later. Told again while nothing is. */
    void (*on_room)(void *context, struct http_exchange *x);
    /* The body does not come in the time that it has (limits.body_ns, request_ns), and no reply
     * has begun: the handler may reply, whole, from within; the rest of the body is not waited for. Otherwise
     * the session has a word of its own, which clients of OTLP take for the last: 408, RST_STREAM(CANCEL). */
    void (*on_slow)(void *context, struct http_exchange *x);
    /* The session refused a request whose head is none that it takes (400, 414, 417, 431, 501
     * …): there is no exchange. */
    void (*on_refused)(void *context, uint32_t status);
};

/* For sessions, and who has kept a body back for a handler. */
static inline void http_tell_body(struct http_exchange *x, struct bytes piece)
{
    if (x->handler->on_body)
        x->handler->on_body(x->context, x, piece);
}
static inline void http_tell_end(struct http_exchange *x)
{
    if (x->handler->on_end)
        x->handler->on_end(x->context, x);
}
static inline void http_tell_close(struct http_exchange *x)
{
    if (x->handler->on_close)
        x->handler->on_close(x->context, x);
}

struct http_reply {
    uint32_t status;
    const struct http_header *headers; /* content-length and date are the session's business */
    uint32_t n_headers;
    struct bytes body; /* copied */
    /* HTTP/2 trailers (gRPC's status). With no body and trailers set, headers and trailers go as one block
     * with END_STREAM ("Trailers-Only", gRPC PROTOCOL-HTTP2). HTTP/1 ignores them. */
    const struct http_header *trailers;
    uint32_t n_trailers;
    bool close; /* HTTP/1: Connection: close after this one */
};

/* Answers the exchange; once. 0 or -ENOMEM (then the exchange is reset). Copies what it is given. */
int http_reply(struct http_exchange *x, const struct http_reply *reply);

/* A reply in pieces: begin, any number of writes, end. The body of the request goes on coming meanwhile
 * (on_body, on_end), so that both may stream; after http_reply_end it does no more, as after http_reply. The
 * peer sees each piece as soon as the session is drained. HTTP/1.1 carries it chunked (RFC 9112 §7.1),
 * HTTP/1.0 until the connection closes. After a negative return the exchange is being reset: only on_close
 * follows. */

/* Pieces of one exchange that the peer has not taken yet; more than any message sent this way. */
#define HTTP_REPLY_WAITING_MAX (64u << 10)

/* Conditions of http_reply_write. */
enum {
    HTTP_REPLY_FULL = 1, /* the peer does not keep up: nothing was taken */
};

/* Status, headers and `close` of the reply are used; the rest must be empty. 0 or -ENOMEM. */
int http_reply_begin(struct http_exchange *x, const struct http_reply *head);

/* Copies. A piece larger than HTTP_REPLY_WAITING_MAX is never taken. 0, HTTP_REPLY_FULL or -ENOMEM. */
int http_reply_write(struct http_exchange *x, struct bytes piece);

/* The last of it, with trailers (HTTP/2; HTTP/1 leaves them out). 0 or -ENOMEM. */
int http_reply_end(struct http_exchange *x, const struct http_header *trailers, uint32_t n_trailers);

/* Half of the answer is out and the rest will not come: the peer sees that it was cut short (HTTP/1.1: the
 * connection ends without the last chunk, RFC 9112 §8; HTTP/2: RST_STREAM). Only on_close follows. */
void http_reply_abort(struct http_exchange *x);

/* First value of a header (name in lower case), or an empty slice with .p == NULL. */
struct bytes http_header_find_bytes(const struct http_header *headers, uint32_t n, struct bytes name);
static inline struct bytes http_header_find(const struct http_header *headers, uint32_t n, const char *name)
{
    return http_header_find_bytes(headers, n, bytes_str(name)); /* inline: most names are literals */
}

struct http_server_limits {
    uint32_t
        header_bytes; /* names + values + 32 each, as RFC 9113 §6.5.2 counts SETTINGS_MAX_HEADER_LIST_SIZE */
    uint32_t concurrent_streams; /* HTTP/2 */
    uint32_t window_bytes;       /* HTTP/2: stream and connection receive window */
    uint32_t discard_bytes;      /* of a body, read away after an early reply */
    uint64_t idle_ns, head_ns,
        body_ns; /* no request; head incomplete; no byte of a body: then the session ends */
    /* A body has this long, and a second more for each body_rate bytes of it that have come: one byte now
     * and then keeps nothing open. Slower than a modem is no telemetry. 0: never. */
    uint64_t request_ns;
    uint32_t body_rate;
    /* HTTP/2, while requests are open: a peer that said nothing for so long is sent a PING (RFC 9113 §6.7),
     * and without a word from it in the time for the answer it has vanished. 0: never. gRPC's keepalive.md
     * has 2 h and 20 s for servers; a stream that is open holds more than a connection that is idle, so it is
     * asked when that would be closed. */
    uint64_t ping_ns, ping_answer_ns;
};

#define HTTP_SERVER_LIMITS_DEFAULT                                                      \
    {                                                                                   \
        .header_bytes = 16u << 10, .concurrent_streams = 100, .window_bytes = 1u << 20, \
        .discard_bytes = 1u << 20, .idle_ns = 300000000000u, .head_ns = 10000000000u,   \
        .body_ns = 30000000000u, .request_ns = 60000000000u, .body_rate = 4u << 10,     \
        .ping_ns = 300000000000u, .ping_answer_ns = 20000000000u                        \
    }

/* A server session that looks at the first bytes: the HTTP/2 preface (RFC 9113 §3.4) or an HTTP/1 request.
 * NULL when memory is out. peer must outlive it. */
struct http_session *http_session_new(const struct http_handler *handler, void *context,
                                      const struct http_peer *peer, const struct http_server_limits *limits,
                                      uint64_t now_ns);

/* Closes every exchange (on_close), then frees. */
struct http_session *http_session_free(struct http_session *s);

/* What the peer sent. 0, or a negative errno: drain what is left to say, then close. -EPROTO: not HTTP. */
int http_session_feed(struct http_session *s, struct bytes in, uint64_t now_ns);

/* Whether the joiner should go on reading. False while HTTP/1 requests queue up behind one that is not
 * answered or drained yet: what is fed all the same is kept, up to a bound (then -ENOBUFS). */
bool http_session_wants_input(const struct http_session *s);

/* The peer will send no more (half-close). */
void http_session_feed_eof(struct http_session *s);

/* Appends what should be sent now, at most about max bytes; call again after those went out. 0 or -ENOMEM. */
int http_session_drain(struct http_session *s, struct buffer *out, size_t max);

/* Whether there is something to drain. */
bool http_session_has_output(const struct http_session *s);

/* Whether, once everything is drained, the connection should be closed. */
bool http_session_is_done(const struct http_session *s);

/* Whether no exchange is open and nothing waits to be said: then it may go to another thread, with the
 * context of its exchanges to come. */
bool http_session_is_idle(const struct http_session *s);
void http_session_set_context(struct http_session *s, void *context);

/* Whether it ended because its peer did what nobody honest does so often (http2_guard.c). Who then comes
 * again is heard warily: with a tenth of that, or a header list over the limit, the session ends. */
bool http_session_was_abused(const struct http_session *s);
void http_session_be_wary(struct http_session *s);

/* The monotonic time at which http_session_tick must be called next; UINT64_MAX: never. */
uint64_t http_session_deadline(const struct http_session *s);
void http_session_tick(struct http_session *s, uint64_t now_ns);

/* Stops taking new requests: GOAWAY, or Connection: close on the current one. */
void http_session_shutdown(struct http_session *s);

/* Has fn(user) called when http_reply makes output while the session is not inside feed, feed_eof, tick or
 * drain (a late answer), so that the joiner knows it must drain. fn must not call the session; it makes a
 * note. */
void http_session_on_late_output(struct http_session *s, void (*fn)(void *user), void *user);

/* ---- client -------------------------------------------------------------------------------- */

struct http_client; /* one connection's client side, of one version */
struct http_call;   /* one request on it */

struct http_request {
    const char *method, *scheme, *authority, *path;
    const struct http_header
        *headers; /* content-length is the session's business; te: trailers is the caller's */
    uint32_t n_headers;
    struct bytes prefix; /* a few bytes that go before the body and are part of it: gRPC's */
    struct bytes body;   /* both must stay in place until on_done: they are not copied */
};

struct http_response {
    uint32_t status;
    const struct http_header *headers, *trailers;
    uint32_t n_headers, n_trailers;
    struct bytes body;
};

/* How a call ended. */
enum http_call_result {
    HTTP_CALL_DONE,     /* a complete response */
    HTTP_CALL_REFUSED,  /* not processed by the peer (GOAWAY above last-stream-id, REFUSED_STREAM): safe to
                           repeat */
    HTTP_CALL_RESET,    /* the stream was reset; .status carries the HTTP/2 error code */
    HTTP_CALL_BROKEN,   /* the connection ended first: the peer may or may not have processed it */
    HTTP_CALL_NOT_HTTP, /* what came is no answer of this version: a peer of another protocol, or a broken one
                         */
    HTTP_CALL_TOO_LARGE,   /* the response passed the limit */
    HTTP_CALL_OVER_BUDGET, /* there was no room for it on the budget */
};

typedef void (*http_call_fn)(void *user, enum http_call_result result, const struct http_response *response);

/* A client session of the version given. response_max bounds a response's body and headers. NULL: memory is
 * out. */
struct http_client *http_client_new(enum http_version version, size_t response_max);

/* Responses to calls that begin from now on are on `budget`, which must outlive the client, while they come
 * and until `done` returns. */
void http_client_charge(struct http_client *c, struct budget *budget);

/* Ends every call with HTTP_CALL_BROKEN, then frees. */
struct http_client *http_client_free(struct http_client *c);

/* Begins a call; done is called exactly once, never from inside http_client_call. NULL when the session takes
 * no more now (HTTP/1: one at a time; HTTP/2: the peer's concurrency limit or GOAWAY) or memory is out. */
struct http_call *http_client_call(struct http_client *c, const struct http_request *request,
                                   http_call_fn done, void *user);

/* Forgets a call (its deadline passed): RST_STREAM(CANCEL), or, on HTTP/1, the connection is unusable
 * afterwards. `done` is not called. */
void http_client_cancel(struct http_client *c, struct http_call *call);

int http_client_feed(struct http_client *c, struct bytes in);
void http_client_feed_eof(struct http_client *c);
int http_client_drain(struct http_client *c, struct buffer *out, size_t max);

/* Parts of requests' own bodies that belong into drained bytes, each at a place of these, and were not copied
 * there. They stay until the client is called again. */
#define HTTP_PLACES_MAX 32u
struct http_places {
    uint32_t n;
    size_t bytes; /* of all */
    struct {
        size_t at;
        struct bytes body;
    } of[HTTP_PLACES_MAX];
};

/* The same, and what of bodies is worth it stays where it is: *ret says what belongs where. */
int http_client_drain_in_place(struct http_client *c, struct buffer *out, size_t max,
                               struct http_places *ret);

/* All in its order, as it goes on the wire: the number of parts. */
#define HTTP_PARTS_MAX (2 * HTTP_PLACES_MAX + 1)
uint32_t http_places_parts(const struct http_places *p, struct bytes out, struct bytes ret[HTTP_PARTS_MAX]);
bool http_client_has_output(const struct http_client *c);

/* Whether another call would be taken now. */
bool http_client_is_ready(const struct http_client *c);
/* Whether the connection should be closed once its calls are done. */
bool http_client_is_done(const struct http_client *c);

#endif
