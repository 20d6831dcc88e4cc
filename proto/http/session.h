/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the two server versions have in common, and the table by which session.c calls the one that was found.
 * For proto/http only.
 */
#ifndef PROTO_HTTP_SESSION_H
#define PROTO_HTTP_SESSION_H

#include "proto/base/clock.h"
#include "proto/http/exchange.h"

/* Each function as its namesake in exchange.h; conn is what http1_server_new or http2_server_new made. */
struct http_session_ops {
    void (*free)(void *conn);
    int (*feed)(void *conn, struct bytes in);
    void (*feed_eof)(void *conn);
    int (*drain)(void *conn, struct buffer *out, size_t max);
    bool (*wants_input)(const void *conn);
    bool (*has_output)(const void *conn);
    bool (*is_done)(const void *conn);
    bool (*is_idle)(const void *conn);
    uint64_t (*deadline)(const void *conn);
    void (*tick)(void *conn);
    void (*shutdown)(void *conn);
    int (*reply)(struct http_exchange *x, const struct http_reply *reply);
    int (*reply_begin)(struct http_exchange *x, const struct http_reply *head);
    int (*reply_write)(struct http_exchange *x, struct bytes piece);
    int (*reply_end)(struct http_exchange *x, const struct http_header *trailers, uint32_t n_trailers);
    void (*reply_abort)(struct http_exchange *x);
};

/* A shutdown ends a connection without a request so long after it was told of: what its peer had sent by
 * then, or sends because it cannot know (HTTP/1 has no way to tell it, HTTP/2's PING may be lost), is
 * answered. */
#define HTTP_DRAIN_NOTICE_NS NSEC_PER_SEC

#define HTTP_PREFACE   "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" /* RFC 9113 §3.4 */
#define HTTP_PREFACE_N 24u

struct http_session {
    const struct http_session_ops *ops; /* NULL while sniffing */
    void *conn;
    const struct http_handler *handler;
    void *context;
    const struct http_peer *peer;
    struct http_server_limits limits;
    uint64_t now, started; /* started: of the connection; then of its first byte */
    uint32_t inside; /* depth of calls into the session: late output is only what comes outside of them */
    uint32_t n_sniffed;
    bool ended; /* nothing more to say or hear, before a version was known */
    bool shutting_down;
    uint64_t notice_until; /* then; 0: it is not shutting down */
    bool wary, was_abused; /* exchange.h */
    void (*on_late)(void *user);
    void *late_user;
};

/* NULL: memory is out. */
void *http1_server_new(struct http_session *s);
void *http2_server_new(struct http_session *s);

extern const struct http_session_ops http1_server_ops;
extern const struct http_session_ops http2_server_ops;

/* A head was refused. */
static inline void session_refused(const struct http_session *s, uint32_t status)
{
    if (s->handler->on_refused)
        s->handler->on_refused(s->context, status);
}

/* When a body that began then, of which so many bytes have come, must be complete: limits.request_ns. */
uint64_t body_due(const struct http_server_limits *l, uint64_t began, uint64_t received);

/* now + ns, or never. */
static inline uint64_t deadline_after(uint64_t since, uint64_t ns)
{
    return ns == 0 || since > UINT64_MAX - ns ? UINT64_MAX : since + ns;
}

#endif
