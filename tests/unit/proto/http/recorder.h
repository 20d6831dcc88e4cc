/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A handler that writes down what it is told and answers as the test wants; and the moving of bytes between
 * two ends in memory.
 */
#ifndef TESTS_UNIT_PROTO_HTTP_RECORDER_H
#define TESTS_UNIT_PROTO_HTTP_RECORDER_H

#include <stdio.h>
#include <stdlib.h>

#include "proto/base/buffer.h"
#include "proto/http/exchange.h"
#include "tests/lib/unit.h"

#define SEC 1000000000ull

enum answer { ANSWER_AT_END, ANSWER_AT_HEAD, ANSWER_LATER, ANSWER_WHEN_SLOW };

struct recorder {
    enum answer answer;
    struct http_reply reply;
    uint32_t n_head, n_end, n_close, n_late;
    size_t n_body;
    uint64_t body_sum;          /* of bytes times position, so that order matters */
    struct http_exchange *last; /* open */
    char log[4096];             /* "POST /path?query host|" for each head */
};

static inline void recorder_head(void *context, struct http_exchange *x)
{
    struct recorder *r = context;
    size_t n = strlen(r->log);
    snprintf(r->log + n, sizeof r->log - n, "%.*s %.*s?%.*s %.*s|", BYTES_FMT(x->method), BYTES_FMT(x->path),
             BYTES_FMT(x->query), BYTES_FMT(x->authority));
    r->n_head++;
    r->last = x;
    if (r->answer == ANSWER_AT_HEAD)
        http_reply(x, &r->reply);
}

static inline void recorder_body(void *context, struct http_exchange *x, struct bytes piece)
{
    struct recorder *r = context;
    (void)x;
    for (size_t i = 0; i < piece.n; i++)
        r->body_sum += piece.p[i] * (uint64_t)(++r->n_body % 251 + 1);
}

static inline void recorder_end(void *context, struct http_exchange *x)
{
    struct recorder *r = context;
    r->n_end++;
    if (r->answer == ANSWER_AT_END)
        http_reply(x, &r->reply);
}

static inline void recorder_close(void *context, struct http_exchange *x)
{
    struct recorder *r = context;
    r->n_close++;
    if (r->last == x)
        r->last = NULL;
}

static inline void recorder_slow(void *context, struct http_exchange *x)
{
    struct recorder *r = context;
    if (r->answer == ANSWER_WHEN_SLOW)
        http_reply(x, &r->reply);
}

static inline void recorder_late(void *user)
{
    ((struct recorder *)user)->n_late++;
}

static const struct http_handler recorder_handler = {recorder_head,  recorder_body, recorder_end,
                                                     recorder_close, NULL,          recorder_slow};
static const struct http_peer recorder_peer = {.address = "127.0.0.1:1"};

static inline uint64_t body_sum(const uint8_t *p, size_t n)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += p[i] * (uint64_t)((i + 1) % 251 + 1);
    return sum;
}

static inline struct http_session *recorder_session(struct recorder *r,
                                                    const struct http_server_limits *limits)
{
    static const struct http_server_limits standard = HTTP_SERVER_LIMITS_DEFAULT;
    if (r->reply.status == 0)
        r->reply.status = 200;
    struct http_session *s =
        http_session_new(&recorder_handler, r, &recorder_peer, limits ? limits : &standard, SEC);
    ck_assert_ptr_nonnull(s);
    http_session_on_late_output(s, recorder_late, r);
    return s;
}

/* Feeds in pieces of `step` bytes; the first error. */
static inline int feed_steps(struct http_session *s, struct bytes in, size_t step, uint64_t now)
{
    while (in.n > 0) {
        size_t n = step < in.n ? step : in.n;
        int r = http_session_feed(s, bytes_of(in.p, n), now);
        if (r < 0)
            return r;
        in.p += n;
        in.n -= n;
    }
    return 0;
}

static inline void drain_all(struct http_session *s, struct buffer *out)
{
    size_t before;
    do {
        before = out->n;
        ck_assert_int_eq(http_session_drain(s, out, 1 << 16), 0);
    } while (out->n > before);
}

#endif
