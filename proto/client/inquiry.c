/* SPDX-License-Identifier: Apache-2.0 */
/* How it ended is noted, and told by the timer: a connection may not be freed from inside what it says. */
#include "proto/client/inquiry.h"

#include <stdlib.h>

#include "proto/base/error.h"
#include "proto/client/endpoint.h"
#include "proto/io/loop.h"
#include "proto/io/timer.h"

struct inquiry {
    struct inquiry_options options;
    struct client_connection *connection;
    struct io_timer *timer; /* for the end of the time, or at once */
    bool was_asked, is_over;
    enum inquiry_end end;
    struct error why;
};

static void end(struct inquiry *i, enum inquiry_end how, const char *why)
{
    i->is_over = true;
    i->end = how;
    error_set(&i->why, 0, "%s", why);
    io_timer_set(i->timer, 0);
}

static void on_response(void *user, enum http_call_result result, const struct http_response *response)
{
    struct inquiry *i = user;
    connection_end(i->connection);
    if (i->is_over)
        return;
    switch (result) {
    case HTTP_CALL_DONE:
        i->options.on_answer(i->options.user, response);
        end(i, INQUIRY_ANSWERED, "");
        break;
    case HTTP_CALL_TOO_LARGE: end(i, INQUIRY_TOO_LARGE, "the answer is too large"); break;
    case HTTP_CALL_OVER_BUDGET: end(i, INQUIRY_NO_MEMORY, "out of memory just now"); break;
    case HTTP_CALL_REFUSED:
    case HTTP_CALL_RESET:
    case HTTP_CALL_BROKEN:
    case HTTP_CALL_NOT_HTTP: end(i, INQUIRY_UNREACHED, "the connection broke"); break;
    }
}

static void on_change(void *user, struct client_connection *connection, const char *failure)
{
    struct inquiry *i = user;
    if (i->is_over)
        return;
    if (failure) {
        end(i, INQUIRY_UNREACHED, failure);
    } else if (!i->was_asked && connection_is_ready(connection)) {
        i->was_asked = true;
        if (!connection_call(connection, &i->options.request, on_response, i))
            end(i, INQUIRY_NO_MEMORY, "out of memory just now");
    }
}

struct inquiry *inquiry_free(struct inquiry *i)
{
    if (!i)
        return NULL;
    i->is_over = true;
    connection_free(i->connection); /* may end the call: nobody listens now */
    io_timer_free(i->timer);
    free(i);
    return NULL;
}

static void on_timer(void *user)
{
    struct inquiry *i = user;
    if (!i->is_over)
        end(i, INQUIRY_LATE, "no answer in time");
    const struct inquiry last = *i;
    inquiry_free(i);
    last.options.on_end(last.options.user, last.end, last.why.text);
}

struct inquiry *inquiry_new(const struct inquiry_options *options)
{
    struct io_loop *loop = options->connection.loop;
    struct inquiry *i = calloc(1, sizeof *i);
    if (!i)
        return NULL;
    i->options = *options;
    i->options.request.scheme = options->connection.tls ? "https" : "http";
    i->options.request.authority = options->connection.endpoint->authority;
    i->timer = io_timer_new(loop, on_timer, i);
    i->connection = i->timer ? connection_new(&options->connection, on_change, i) : NULL;
    if (!i->connection)
        return inquiry_free(i);
    io_timer_set(i->timer, io_loop_now(loop) + options->timeout_ns);
    connection_open(i->connection, options->timeout_ns);
    return i;
}
