/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The head of one HTTP/1 request: gathers its bytes up to the empty line, then reads them, strictly. For
 * proto/http only.
 *
 * The line discipline is ours (CRLF only, no folding, no NUL), because llhttp 8 as Debian builds it is
 * lenient there; llhttp reads method, version and fields; what the fields say together (RFC 9112 §6) is
 * judged here.
 */
#ifndef PROTO_HTTP_HTTP1_HEAD_H
#define PROTO_HTTP_HTTP1_HEAD_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/buffer.h"
#include "proto/base/vec.h"
#include "proto/http/exchange.h"

#define HTTP1_TARGET_MAX  (8u << 10) /* RFC 9112 §3 recommends at least 8000 */
#define HTTP1_HEADERS_MAX 256u       /* fields; far above what any client sends, far below what costs time */
#define HTTP1_EMPTY_LINES 4u /* CRLFs before a request that are overlooked (RFC 9112 §2.2 says one) */

/* Bytes looked at in one go, so that no room is made for a body that came along with its head. */
#define HTTP1_GATHER 2048u

struct http1_head {
    struct buffer text; /* all of it; the slices below point here */
    uint32_t line_at;   /* where the current line begins */
    uint32_t empty_lines;
    bool after_cr, have_request_line;

    struct bytes method, target, scheme, authority, path, query;
    VEC(struct http_header) headers;
    int64_t content_length; /* -1: none told */
    bool chunked, expects_continue, close, is_head;
    uint8_t minor; /* HTTP/1.minor */
};

/* Takes bytes from *in up to the end of the head. 1: it is whole; 0: go on, if there
 * are more bytes; a status code from 400: the request
 * is refused with it, for what its first bytes already show; -ENOMEM. header_bytes as in http_server_limits.
 */
int http1_head_gather(struct http1_head *h, struct bytes *in, uint32_t header_bytes);

/* Reads what was gathered. 0; or the status code from 400 that it is to be refused with. */
int http1_head_parse(struct http1_head *h, uint32_t header_bytes);

/* Whether what was gathered has a protocol name of HTTP in it: if not, an answer in HTTP would not be
 * understood. */
bool http1_head_is_http(const struct http1_head *h);

/* Whether a byte of a head has been gathered. */
bool http1_head_is_begun(const struct http1_head *h);

/* Ready for the next one; keeps at most keep_max bytes of each of its two pieces of memory. */
void http1_head_clear(struct http1_head *h, size_t keep_max);

#endif
