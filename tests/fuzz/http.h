/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What HTTP's fuzzers count of exchanges and calls: each is closed exactly once, however the handler answers.
 */
#ifndef TESTS_FUZZ_HTTP_H
#define TESTS_FUZZ_HTTP_H

#include "proto/http/exchange.h"
#include "tests/fuzz/fuzz.h"

struct seen {
    uint32_t n_head, n_end, n_close, n_done;
    int answer;                     /* 0: at the end of the request, 1: at its head, 2: never */
    bool pieces;                    /* the answer comes in pieces: an echo, or at once begin and end */
    const struct http_reply *reply; /* the answer in one piece */
};

static void on_head(void *context, struct http_exchange *x)
{
    static const struct http_reply begun = {.status = 200};
    struct seen *s = context;
    s->n_head++;
    if (s->pieces)
        require(http_reply_begin(x, &begun) == 0 && (s->answer != 1 || http_reply_end(x, NULL, 0) == 0));
    else if (s->answer == 1)
        http_reply(x, s->reply);
}

static void on_body(void *context, struct http_exchange *x, struct bytes piece)
{
    const struct seen *s = context;
    require(piece.n == 0 || piece.p);
    require(!s->pieces || http_reply_write(x, piece) >= 0);
}

static void on_end(void *context, struct http_exchange *x)
{
    struct seen *s = context;
    s->n_end++;
    if (s->answer == 0 && s->pieces)
        require(http_reply_end(x, s->reply->trailers, s->reply->n_trailers) >= 0);
    else if (s->answer == 0)
        http_reply(x, s->reply);
}

static void on_close(void *context, struct http_exchange *x)
{
    ((struct seen *)context)->n_close++;
}

static struct http_session *session_of(struct seen *seen)
{
    static const struct http_handler handler = {on_head, on_body, on_end, on_close};
    static const struct http_peer peer = {.address = "fuzz"};
    static const struct http_server_limits limits = HTTP_SERVER_LIMITS_DEFAULT;
    struct http_session *s = http_session_new(&handler, seen, &peer, &limits, 1);
    require(s);
    return s;
}

static void on_done(void *user, enum http_call_result result, const struct http_response *response)
{
    ((struct seen *)user)->n_done++;
}

#endif
