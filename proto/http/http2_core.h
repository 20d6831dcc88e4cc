/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What both sides of HTTP/2 have in common: the nghttp2 session with its options, draining, and the body and
 * trailers of a stream going out. For proto/http only.
 */
#ifndef PROTO_HTTP_HTTP2_CORE_H
#define PROTO_HTTP_HTTP2_CORE_H

#include <nghttp2/nghttp2.h>

#include "proto/http/headers.h"

#define HTTP2_FIELDS_MAX 64u  /* fields of a head or trailer that we send */
#define HTTP2_ACKS_MAX   128u /* SETTINGS and PING acknowledgements queued: a flood ends the connection */
#define HTTP2_KEEP       (4u << 10) /* memory a stream object keeps of each of its parts between uses */

/* A side's own stream object begins with this; it is nghttp2's stream user data. */
struct http2_stream {
    int32_t id;
    /* Still to be sent, one after the other; the side keeps them in place until the stream is closed or
     * forgotten. */
    struct bytes prefix, body;
    const struct http_header *trailers; /* sent after the body */
    uint32_t n_trailers;
    bool streaming;  /* more of the body will come: nghttp2 is told to wait, and woken by resume_data */
    uint64_t n_sent; /* bytes of the body that went out */
};

/* A side begins with this; it is nghttp2's session user data. */
struct http2_core {
    nghttp2_session *session;
    struct buffer *out;         /* during a drain */
    size_t out_until;           /* …until so much is drained */
    struct http_places *places; /* during a drain: of bodies that are not copied into `out`; or NULL */
    bool broken;                /* nghttp2 gave up: nothing more in either direction */
};

/* Makes the session; adds the core's callbacks to `callbacks`, which it frees in any case. 0 or -ENOMEM. */
int http2_core_init(struct http2_core *c, bool server, nghttp2_session_callbacks *callbacks);
void http2_core_release(struct http2_core *c);

/* SETTINGS, and the connection's window raised to the streams' (RFC 9113 §6.9.2 says SETTINGS cannot). 0 or
 * -ENOMEM. */
int http2_core_settings(struct http2_core *c, const nghttp2_settings_entry *entries, size_t n,
                        uint32_t window_bytes);

/* 0, -EPROTO or -ENOMEM; the core is broken then. */
int http2_core_feed(struct http2_core *c, struct bytes in);
int http2_core_drain(struct http2_core *c, struct buffer *out, size_t max);
/* A body goes while what was drained of it may still be in its place: it is copied. From nghttp2's callbacks.
 */
void http2_core_keep(struct http2_core *c);
bool http2_core_has_output(const struct http2_core *c);

/* Whether nghttp2 has nothing more to say or hear. */
bool http2_core_is_done(const struct http2_core *c);

/* A field as nghttp2 wants it; nothing is copied. */
nghttp2_nv http2_field(struct bytes name, struct bytes value);

/* Fills nv with up to HTTP2_FIELDS_MAX fields from position n on, and returns the new n. */
size_t http2_fields(nghttp2_nv nv[HTTP2_FIELDS_MAX], size_t n, const struct http_header *headers,
                    uint32_t n_headers);

/* The source that sends http2_stream.body and the trailers. */
nghttp2_data_provider http2_body_provider(void);

/* The stream's own object, or NULL. */
void *http2_stream_of(const struct http2_core *c, int32_t id);

#endif
