/* SPDX-License-Identifier: Apache-2.0 */
/* The fetch of `profgate top` against a listener in the same loop that says what each case wants. */
#include "tests/lib/unit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "gateway/top/fetch.h"
#include "proto/base/clock.h"
#include "proto/base/macros.h"
#include "proto/io/channel.h"
#include "proto/io/listener.h"
#include "proto/io/loop.h"

struct scene {
    struct io_loop *loop;
    struct io_listener *listener;
    struct io_channel *channel;
    const char *answer; /* NULL: none, the connection ends; "": silence */
    char request[2048];
    size_t n_request;
    bool over;
    int error;
    char message[512], body[256];
};

static void on_read(void *user, struct bytes in)
{
    struct scene *s = user;
    size_t n = min_of(in.n, sizeof s->request - 1 - s->n_request);
    memcpy(s->request + s->n_request, in.p, n);
    s->n_request += n;
    if (!strstr(s->request, "\r\n\r\n") || (s->answer && !s->answer[0]))
        return;
    if (s->answer)
        ck_assert_int_eq(io_channel_write(s->channel, bytes_str(s->answer)), 0);
    io_channel_finish(take_ptr(s->channel));
}

static void on_end(void *user)
{
    struct scene *s = user;
    io_channel_close(take_ptr(s->channel));
}

static void on_error(void *user, int error)
{
    on_end(user);
}

static const struct io_channel_events events = {.on_read = on_read, .on_eof = on_end, .on_error = on_error};

static void on_accept(void *user, struct io_channel *c)
{
    struct scene *s = user;
    s->channel = c;
    io_channel_start(c, &events, s);
}

static void on_done(void *user, int error, const char *message, struct bytes body)
{
    struct scene *s = user;
    s->over = true;
    s->error = error;
    snprintf(s->message, sizeof s->message, "%s", message);
    snprintf(s->body, sizeof s->body, "%.*s", BYTES_FMT(body));
}

static struct scene play(const char *answer, uint64_t timeout)
{
    struct scene s = {.loop = unit_made(io_loop_new()), .answer = answer};
    struct error e;
    char text[64];
    struct top_url url;
    ck_assert_int_eq(io_listener_new(&s.listener, s.loop, "127.0.0.1:0", false, &e), 0);
    ck_assert_int_eq(io_listener_start(s.listener, on_accept, &s, &e), 0);
    snprintf(text, sizeof text, "127.0.0.1:%u", io_listener_port(s.listener));
    ck_assert_int_eq(top_url_parse(text, &url, &e), 0);
    ck_assert_ptr_nonnull(top_fetch_start(s.loop, &url, timeout, on_done, &s));
    for (uint64_t end = clock_monotonic() + 20 * (uint64_t)NSEC_PER_SEC; !s.over && clock_monotonic() < end;)
        io_loop_run_once(s.loop, NSEC_PER_SEC);
    ck_assert(s.over);
    io_channel_close(take_ptr(s.channel));
    s.listener = io_listener_free(s.listener);
    s.loop = io_loop_free(s.loop);
    return s;
}

#define PLENTY (10u * (uint64_t)NSEC_PER_SEC)

UNIT(a_page_comes)
{
    struct scene s =
        play("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 4\r\n\r\nx 1\n", PLENTY);
    ck_assert_msg(s.error == 0, "%s", s.message);
    ck_assert_str_eq(s.body, "x 1\n");
    ck_assert_msg(!strncmp(s.request, "GET " TOP_PATH_DEFAULT " HTTP/1.1\r\n", strlen(TOP_PATH_DEFAULT) + 15),
                  "%s", s.request);
}

UNIT(a_page_in_chunks_comes)
{
    struct scene s =
        play("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nx \r\n2\r\n1\n\r\n0\r\n\r\n", PLENTY);
    ck_assert_msg(s.error == 0, "%s", s.message);
    ck_assert_str_eq(s.body, "x 1\n");
}

UNIT(what_goes_wrong_is_said)
{
    static const struct {
        const char *answer;
        int error;
    } cases[] = {
        {"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", -EPROTO},
        {"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf", -EPROTO},
        {"SSH-2.0-OpenSSH_9.2\r\n", -EPROTO},
        {NULL, -EPROTO},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct scene s = play(cases[i].answer, PLENTY);
        ck_assert_msg(s.error == cases[i].error, "case %zu: %d %s", i, s.error, s.message);
        ck_assert_msg(s.message[0] != 0 && s.body[0] == 0, "case %zu", i);
    }
}

UNIT(silence_has_an_end)
{
    struct scene s = play("", 100 * NSEC_PER_MSEC);
    ck_assert_int_eq(s.error, -ETIMEDOUT);
}

UNIT(nobody_there)
{
    /* A port that was free a moment ago. */
    struct io_loop *loop = unit_made(io_loop_new());
    struct io_listener *listener;
    struct error e;
    struct top_url url;
    char text[64];
    ck_assert_int_eq(io_listener_new(&listener, loop, "127.0.0.1:0", false, &e), 0);
    snprintf(text, sizeof text, "127.0.0.1:%u", io_listener_port(listener));
    io_listener_free(listener);
    ck_assert_int_eq(top_url_parse(text, &url, &e), 0);
    struct scene s = {0};
    ck_assert_ptr_nonnull(top_fetch_start(loop, &url, PLENTY, on_done, &s));
    while (!s.over)
        io_loop_run_once(loop, NSEC_PER_SEC);
    ck_assert_int_lt(s.error, 0);
    ck_assert(s.message[0] != 0);
    ck_assert_ptr_nonnull(top_fetch_start(loop, &url, PLENTY, on_done, &s));
    struct top_fetch *forgotten = top_fetch_start(loop, &url, PLENTY, on_done, &s);
    ck_assert_ptr_null(top_fetch_cancel(forgotten));
    for (s.over = false; !s.over;)
        io_loop_run_once(loop, NSEC_PER_SEC);
    io_loop_free(loop);
}
