/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/proto/http/recorder.h"

#include <errno.h>

/* What the server says to `in`, fed in steps; a NUL is added. */
static struct buffer say(struct recorder *r, const char *in, size_t step, bool *ret_done)
{
    struct http_session *s = recorder_session(r, NULL);
    struct buffer out = BUFFER_INIT(0);
    ck_assert_int_eq(feed_steps(s, bytes_str(in), step, 2 * SEC), 0);
    drain_all(s, &out);
    if (ret_done)
        *ret_done = http_session_is_done(s);
    http_session_free(s);
    ck_assert_uint_eq(r->n_head, r->n_close);
    ck_assert_int_eq(buffer_add(&out, "", 1), 0);
    return out;
}

static void expect_status(const char *in, int status)
{
    for (size_t step = 1; step < 100000; step = step * 7 + 3) {
        struct recorder r = {0};
        char want[32];
        bool done = false;
        cleanup(buffer_release) struct buffer out = say(&r, in, step, &done);
        snprintf(want, sizeof want, "HTTP/1.1 %d ", status);
        ck_assert_msg(bytes_starts(buffer_bytes(&out), want), "%s\nanswered with %s", in, (char *)out.p);
        ck_assert_msg(done == (status >= 400), "%s", in);
    }
}

static int count(const char *text, const char *word)
{
    int n = 0;
    while ((text = strstr(text, word))) {
        n++;
        text++;
    }
    return n;
}

UNIT(a_get_is_answered_with_length_and_date)
{
    struct recorder r = {.reply = {.status = 200, .body = BYTES_LIT("hello")}};
    bool done = true;
    cleanup(buffer_release) struct buffer out =
        say(&r, "GET /a/b?c=d HTTP/1.1\r\nHost: h:1\r\nX-Y: z\r\n\r\n", 1, &done);
    ck_assert_str_eq(r.log, "GET /a/b?c=d h:1|");
    ck_assert_int_eq(r.n_end, 1);
    ck_assert_uint_gt(out.n, 0);
    ck_assert_ptr_nonnull(strstr((char *)out.p, "HTTP/1.1 200 OK\r\n"));
    ck_assert_ptr_nonnull(strstr((char *)out.p, "content-length: 5\r\n"));
    ck_assert_ptr_nonnull(strstr((char *)out.p, "date: "));
    ck_assert_ptr_null(strstr((char *)out.p, "connection:"));
    ck_assert_ptr_nonnull(strstr((char *)out.p, "\r\n\r\nhello"));
    ck_assert(!done);
}

UNIT(bodies_come_whole_in_any_pieces)
{
    const char *requests[] = {
        "POST / HTTP/1.1\r\nhost: h\r\ncontent-length: 11\r\n\r\nhello world",
        "POST / HTTP/1.1\r\nhost: h\r\nTransfer-Encoding: Chunked\r\n\r\n5\r\nhello\r\n6;x=\"y\"\r\n world\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n00b\r\nhello world\r\n0\r\na: b\r\n\r\n",
        "\r\nPOST http://h/ HTTP/1.1\r\nhost: other\r\ncontent-length: 11\r\n\r\nhello world",
    };
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++)
        for (size_t step = 1; step < 200; step++) {
            struct recorder r = {0};
            struct buffer out = say(&r, requests[i], step, NULL);
            buffer_release(&out);
            ck_assert_uint_eq(r.n_body, 11);
            ck_assert_uint_eq(r.body_sum, body_sum((const uint8_t *)"hello world", 11));
            ck_assert_uint_eq(r.n_end, 1);
            ck_assert_str_eq(r.log, "POST /? h|");
        }
}

UNIT(a_hundred_pipelined_requests_are_answered_in_order)
{
    cleanup(buffer_release) struct buffer in = BUFFER_INIT(0);
    for (int i = 0; i < 100; i++)
        buffer_printf(&in, "POST /%d HTTP/1.1\r\nhost: h\r\ncontent-length: 3\r\n\r\nabc", i);
    ck_assert_int_eq(buffer_add(&in, "", 1), 0);
    for (size_t step = 1; step < 10000; step = step * 5 + 1) {
        struct recorder r = {0};
        cleanup(buffer_release) struct buffer out = say(&r, (char *)in.p, step, NULL);
        ck_assert_int_eq(count((char *)out.p, "HTTP/1.1 200 OK"), 100);
        ck_assert_uint_eq(r.n_end, 100);
        ck_assert_ptr_nonnull(strstr(r.log, "POST /8? h|POST /9? h|POST /10? h|"));
    }
}

UNIT(a_pipelined_request_waits_for_a_late_answer)
{
    struct recorder r = {.answer = ANSWER_LATER};
    struct http_session *s = recorder_session(&r, NULL);
    cleanup(buffer_release) struct buffer out = BUFFER_INIT(0);
    ck_assert_int_eq(
        feed_steps(s, BYTES_LIT("GET /1 HTTP/1.1\r\nhost: h\r\n\r\nGET /2 HTTP/1.1\r\nhost: h\r\n\r\n"), 9,
                   SEC),
        0);
    ck_assert_uint_eq(r.n_head, 1);
    ck_assert(!http_session_has_output(s));
    ck_assert_uint_eq(r.n_late, 0);
    http_reply(r.last, &r.reply);
    ck_assert_uint_eq(r.n_late, 1);
    ck_assert_uint_eq(r.n_close, 0);
    drain_all(s, &out);
    ck_assert_uint_eq(r.n_close, 1);
    ck_assert_uint_eq(r.n_head, 2);
    http_reply(r.last, &r.reply);
    drain_all(s, &out);
    ck_assert_uint_eq(r.n_close, 2);
    http_session_free(s);
}

UNIT(input_that_waits_is_bounded)
{
    struct recorder r = {.answer = ANSWER_LATER};
    struct http_session *s = recorder_session(&r, NULL);
    static uint8_t junk[256 << 10];
    ck_assert_int_eq(http_session_feed(s, BYTES_LIT("GET / HTTP/1.1\r\nhost: h\r\n\r\n"), SEC), 0);
    ck_assert(http_session_wants_input(s));
    ck_assert_int_eq(http_session_feed(s, bytes_of(junk, sizeof junk), SEC), 0);
    ck_assert(!http_session_wants_input(s));
    int e = 0;
    for (int i = 0; i < 8 && e == 0; i++)
        e = http_session_feed(s, bytes_of(junk, sizeof junk), SEC);
    ck_assert_int_eq(e, -ENOBUFS);
    http_session_free(s);
}

UNIT(smuggling_is_refused)
{
#define POST "POST / HTTP/1.1\r\nHost: h\r\n"
    expect_status(POST "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400);
    expect_status(POST "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", 400);
    expect_status(POST "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello", 400);
    expect_status(POST "Content-Length: 5, 5\r\n\r\nhello", 400);
    expect_status(POST "Content-Length: +5\r\n\r\nhello", 400);
    expect_status(POST "Content-Length: 99999999999999999999\r\n\r\nhello", 400);
    expect_status(POST "Content-Length : 5\r\n\r\nhello", 400);
    expect_status(POST " Content-Length: 5\r\n\r\nhello", 400);
    expect_status(POST "X: y\r\n\tfolded\r\n\r\n", 400);
    expect_status(POST "X: y\n\r\n", 400);
    expect_status(POST "X: y\rZ: a\r\n\r\n", 400);
    expect_status("POST / HTTP/1.1\nHost: h\n\n", 400);
    expect_status(POST "Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n", 400);
    expect_status(POST "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501);
    expect_status(POST "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 501);
    expect_status(POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400);
    expect_status("POST / HTTP/1.0\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400);
    expect_status(POST "Host: i\r\n\r\n", 400);
    expect_status("GET / HTTP/1.1\r\n\r\n", 400);
    expect_status(POST "Transfer-Encoding: chunked\r\n\r\n5\nhello\r\n0\r\n\r\n", 400);
    expect_status(POST "Transfer-Encoding: chunked\r\n\r\n5\rXhello\r\n0\r\n\r\n", 400);
    expect_status(POST "Transfer-Encoding: chunked\r\n\r\n5\r\nhelloX\r\n0\r\n\r\n", 400);
    expect_status(POST "Transfer-Encoding: chunked\r\n\r\n-5\r\nhello\r\n0\r\n\r\n", 400);
    expect_status(POST "Transfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n", 400);
    expect_status(POST "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\nhello\r\n0\r\n\r\n", 400);
    expect_status(POST "Transfer-Encoding: chunked\r\n\r\n0\r\nx: y\n\r\n", 400);
}

UNIT(malformed_requests_are_named)
{
    expect_status("GET / HTTP/1.1\r\nHost: h\r\nX@Y: z\r\n\r\n", 400);
    expect_status("GET  / HTTP/1.1\r\nHost: h\r\n\r\n", 400);
    expect_status("GET /  HTTP/1.1\r\nHost: h\r\n\r\n", 400);
    expect_status("GET / HTTP/1.1 \r\nHost: h\r\n\r\n", 505);
    expect_status("GET /\tHTTP/1.1\r\nHost: h\r\n\r\n", 505);
    expect_status("GET / HTTP/3.0\r\nHost: h\r\n\r\n", 505);
    expect_status("FETCH / HTTP/1.1\r\nHost: h\r\n\r\n", 400);
    expect_status("GET a HTTP/1.1\r\nHost: h\r\n\r\n", 400);
    expect_status("CONNECT a:1 HTTP/1.1\r\nHost: h\r\n\r\n", 501);
    expect_status("PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n", 400);
    expect_status("GET / HTTP/1.1\r\nHost: h\r\nExpect: miracles\r\n\r\n", 417);
    expect_status("OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n", 200);
    expect_status("GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
                  "HTTP2-Settings: AAMAAABk\r\n\r\n",
                  200);
}

/* Lines are looked for in whatever came: what is wrong is wrong in any pieces. */
UNIT(a_head_is_judged_alike_in_any_pieces)
{
    const struct {
        const char *head;
        size_t n;
        int status;
    } rows[] = {
#define ROW(text, status) {text, sizeof text - 1, status}
        ROW("\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n", 200),
        ROW("\r\n\nGET / HTTP/1.1\r\nHost: h\r\n\r\n", 0),
        ROW("GET / HTTP/1.1\nHost: h\r\n\r\n", 400),
        ROW("GET / HTTP/1.1\r\r\nHost: h\r\n\r\n", 400),
        ROW("GET / HTTP/1.1\r\nHost: h\rX: y\r\n\r\n", 400),
        ROW("GET / HTTP/1.1\r\nHost: h\r\nX: \0\r\n\r\n", 400),
        ROW("GET / HTTP/1.1\r\nHost: h\r\n\0", 400),
        ROW("GET / HTTP/1.1\r\nHost: h\r\n\r\r\n", 400),
        ROW("GET / HTTP/1.1\r\nHost: h\r\n y\r\n\r\n", 400),
#undef ROW
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        for (size_t step = 1; step <= rows[i].n; step++) {
            struct recorder r = {0};
            cleanup(buffer_release) struct buffer out = BUFFER_INIT(0);
            struct http_session *s = recorder_session(&r, NULL);
            feed_steps(s, bytes_of(rows[i].head, rows[i].n), step, SEC);
            drain_all(s, &out);
            const int status = out.n > 12 ? atoi((char *)out.p + 9) : 0;
            ck_assert_msg(status == rows[i].status, "%zu by %zu: %d", i, step, status);
            http_session_free(s);
        }
    }
}

UNIT(what_is_not_http_gets_no_answer)
{
    const struct bytes strangers[] = {BYTES_LIT("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"),
                                      BYTES_LIT("INVALID CONNECTION PREFACE\r\n\r\n"), BYTES_LIT("\0\0\0\0")};
    for (int i = 0; i < 3; i++) {
        struct recorder r = {0};
        struct http_session *s = recorder_session(&r, NULL);
        ck_assert_int_eq(feed_steps(s, strangers[i], 3, SEC), -EPROTO);
        ck_assert(http_session_is_done(s));
        ck_assert(!http_session_has_output(s));
        http_session_free(s);
    }
}

UNIT(limits_have_their_own_answers)
{
    cleanup(buffer_release) struct buffer in = BUFFER_INIT(0);
    buffer_add_str(&in, "GET /");
    for (int i = 0; i < 9000; i++)
        buffer_add_str(&in, "a");
    ck_assert_int_eq(buffer_add(&in, "", 1), 0);
    expect_status((char *)in.p, 414);
    in.n = 0;
    buffer_add_str(&in, "GET / HTTP/1.1\r\nHost: h\r\n");
    for (int i = 0; i < 300; i++)
        buffer_add_str(&in, "a: b\r\n");
    buffer_add_str(&in, "\r\n");
    ck_assert_int_eq(buffer_add(&in, "", 1), 0);
    expect_status((char *)in.p, 431);
    in.n = 0;
    buffer_add_str(&in, "GET / HTTP/1.1\r\nHost: h\r\na: ");
    for (int i = 0; i < 40000; i++)
        buffer_add_str(&in, "b");
    ck_assert_int_eq(buffer_add(&in, "", 1), 0);
    expect_status((char *)in.p, 431);
}

UNIT(expect_continue_only_when_the_body_is_wanted)
{
    const char *request = "POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n";
    struct recorder yes = {0}, no = {.answer = ANSWER_AT_HEAD, .reply = {.status = 401}};
    bool done = false;
    struct buffer out = say(&yes, request, 1, NULL);
    ck_assert_str_eq((char *)out.p, "HTTP/1.1 100 Continue\r\n\r\n");
    buffer_release(&out);
    out = say(&no, request, 1, &done);
    ck_assert(bytes_starts(buffer_bytes(&out), "HTTP/1.1 401 Unauthorized\r\n"));
    ck_assert_ptr_nonnull(strstr((char *)out.p, "connection: close\r\n"));
    ck_assert(done);
    buffer_release(&out);
}

UNIT(an_early_reply_reads_a_small_body_away_and_a_large_one_not)
{
    struct recorder r = {.answer = ANSWER_AT_HEAD};
    bool done = true;
    struct buffer out = say(&r,
                            "POST /1 HTTP/1.1\r\nhost: h\r\ncontent-length: 5\r\n\r\nhello"
                            "GET /2 HTTP/1.1\r\nhost: h\r\n\r\n",
                            4, &done);
    ck_assert_int_eq(count((char *)out.p, "HTTP/1.1 200"), 2);
    ck_assert_uint_eq(r.n_body + r.n_end, 0);
    ck_assert(!done);
    buffer_release(&out);
    struct recorder large = {.answer = ANSWER_AT_HEAD};
    out = say(&large, "POST /1 HTTP/1.1\r\nhost: h\r\ncontent-length: 5000000\r\n\r\nhello", 4, &done);
    ck_assert(done);
    ck_assert_ptr_nonnull(strstr((char *)out.p, "connection: close\r\n"));
    buffer_release(&out);
}

UNIT(http_1_0_and_close_end_the_connection)
{
    const char *requests[] = {"GET / HTTP/1.0\r\n\r\n",
                              "GET / HTTP/1.1\r\nHost: h\r\nConnection: x, Close\r\n\r\n"};
    for (int i = 0; i < 2; i++) {
        struct recorder r = {0};
        bool done = false;
        cleanup(buffer_release) struct buffer out = say(&r, requests[i], 3, &done);
        ck_assert(done);
        ck_assert_ptr_nonnull(strstr((char *)out.p, "connection: close\r\n"));
    }
}

UNIT(head_has_the_length_and_no_body)
{
    struct recorder r = {.reply = {.status = 200, .body = BYTES_LIT("hello")}};
    cleanup(buffer_release) struct buffer out = say(&r, "HEAD / HTTP/1.1\r\nHost: h\r\n\r\n", 3, NULL);
    ck_assert_ptr_nonnull(strstr((char *)out.p, "content-length: 5\r\n"));
    ck_assert_ptr_null(strstr((char *)out.p, "hello"));
}

UNIT(a_value_cannot_add_a_header)
{
    struct http_header evil = {BYTES_LIT("x"), BYTES_LIT("a\r\nset-cookie: b")};
    struct recorder r = {.reply = {.status = 200, .headers = &evil, .n_headers = 1}};
    cleanup(buffer_release) struct buffer out = say(&r, "GET / HTTP/1.1\r\nHost: h\r\n\r\n", 100, NULL);
    ck_assert_ptr_nonnull(strstr((char *)out.p, "x: a  set-cookie: b\r\n"));
}

UNIT(a_half_close_still_gets_its_answers)
{
    struct recorder r = {.answer = ANSWER_LATER};
    struct http_session *s = recorder_session(&r, NULL);
    struct buffer out = BUFFER_INIT(0);
    const char *two = "GET /1 HTTP/1.1\r\nhost: h\r\n\r\nGET /2 HTTP/1.1\r\nhost: h\r\n\r\n";
    ck_assert_int_eq(http_session_feed(s, bytes_str(two), SEC), 0);
    http_session_feed_eof(s);
    for (int i = 0; i < 2; i++) {
        ck_assert(!http_session_is_done(s));
        http_reply(r.last, &r.reply);
        drain_all(s, &out);
    }
    ck_assert(http_session_is_done(s));
    ck_assert_int_eq(buffer_add(&out, "", 1), 0);
    ck_assert_int_eq(count((char *)out.p, "HTTP/1.1 200"), 2);
    http_session_free(s);
    buffer_release(&out);

    struct recorder half = {0};
    s = recorder_session(&half, NULL);
    http_session_feed(s, BYTES_LIT("POST / HTTP/1.1\r\nhost: h\r\ncontent-length: 9\r\n\r\nabc"), SEC);
    http_session_feed_eof(s);
    ck_assert(http_session_is_done(s));
    ck_assert_uint_eq(half.n_close, 1);
    ck_assert_uint_eq(half.n_end, 0);
    http_session_free(s);
}

UNIT(silence_ends_the_session)
{
    struct http_server_limits l = HTTP_SERVER_LIMITS_DEFAULT;
    const struct {
        const char *in;
        uint64_t after;
        const char *answer;
    } cases[] = {
        {"", l.idle_ns, ""},
        {"P", l.head_ns, ""},
        {"GET / HT", l.head_ns, "HTTP/1.1 408 "},
        {"POST / HTTP/1.1\r\nhost: h\r\ncontent-length: 9\r\n\r\nabc", l.body_ns, "HTTP/1.1 408 "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct recorder r = {0};
        struct http_session *s = recorder_session(&r, NULL);
        cleanup(buffer_release) struct buffer out = BUFFER_INIT(0);
        ck_assert_int_eq(feed_steps(s, bytes_str(cases[i].in), 1, SEC), 0);
        ck_assert_uint_eq(http_session_deadline(s), SEC + cases[i].after);
        http_session_tick(s, SEC + cases[i].after - 1);
        ck_assert(!http_session_is_done(s));
        http_session_tick(s, SEC + cases[i].after);
        ck_assert(http_session_is_done(s));
        drain_all(s, &out);
        ck_assert_int_eq(buffer_add(&out, "", 1), 0);
        ck_assert(bytes_starts(buffer_bytes(&out), cases[i].answer));
        ck_assert(*cases[i].answer || out.n == 1);
        ck_assert_uint_eq(r.n_head, r.n_close);
        ck_assert_uint_eq(http_session_deadline(s), UINT64_MAX);
        http_session_free(s);
    }
}

UNIT(a_slow_head_cannot_buy_time_byte_by_byte)
{
    struct recorder r = {0};
    struct http_session *s = recorder_session(&r, NULL);
    const char *head = "GET / HTTP/1.1\r\n";
    for (int i = 0; head[i]; i++)
        http_session_feed(s, bytes_of(head + i, 1), (uint64_t)(i + 1) * SEC / 2);
    ck_assert_uint_le(http_session_deadline(s), SEC / 2 + 10 * SEC + 2 * SEC);
    http_session_free(s);
}

UNIT(shutdown_answers_what_is_there_and_ends)
{
    struct recorder r = {.answer = ANSWER_LATER};
    struct http_session *s = recorder_session(&r, NULL);
    struct buffer out = BUFFER_INIT(0);
    ck_assert_int_eq(http_session_feed(s, BYTES_LIT("GET / HTTP/1.1\r\nhost: h\r\n\r\n"), SEC), 0);
    http_session_shutdown(s);
    ck_assert(!http_session_is_done(s));
    http_reply(r.last, &r.reply);
    drain_all(s, &out);
    ck_assert(http_session_is_done(s));
    ck_assert_int_eq(buffer_add(&out, "", 1), 0);
    ck_assert_ptr_nonnull(strstr((char *)out.p, "connection: close\r\n"));
    http_session_free(s);
    buffer_release(&out);
}

/* HTTP/1 has no words for "no more": whoever asks because he cannot know is answered, for a while. */
UNIT(shutdown_of_an_idle_connection_leaves_time_for_what_is_on_its_way)
{
    static const struct bytes get = BYTES_LIT("GET / HTTP/1.1\r\nhost: h\r\n\r\n");
    for (int asked_before = 0; asked_before < 2; asked_before++) {
        struct recorder r = {0};
        struct http_session *s = recorder_session(&r, NULL);
        struct buffer out = BUFFER_INIT(0);
        if (asked_before)
            http_session_feed(s, get, SEC);
        drain_all(s, &out);
        out.n = 0;
        http_session_shutdown(s);
        const uint64_t end = http_session_deadline(s);
        ck_assert_uint_gt(end, SEC);
        ck_assert_uint_le(end, 2 * (uint64_t)SEC);
        ck_assert(!http_session_is_done(s));
        http_session_feed(s, get, end - 1);
        drain_all(s, &out);
        ck_assert(http_session_is_done(s));
        ck_assert_int_eq(buffer_add(&out, "", 1), 0);
        ck_assert_ptr_nonnull(strstr((char *)out.p, "connection: close\r\n"));
        http_session_free(s);
        buffer_release(&out);

        struct recorder silent = {0};
        s = recorder_session(&silent, NULL);
        out = (struct buffer)BUFFER_INIT(0);
        if (asked_before)
            http_session_feed(s, get, SEC);
        drain_all(s, &out);
        http_session_shutdown(s);
        http_session_tick(s, http_session_deadline(s));
        ck_assert(http_session_is_done(s));
        http_session_free(s);
        buffer_release(&out);
    }
}

UNIT(output_that_nobody_takes_stops_the_next_request)
{
    static uint8_t big[100 << 10];
    struct recorder r = {.reply = {.status = 200, .body = {big, sizeof big}}};
    struct http_session *s = recorder_session(&r, NULL);
    cleanup(buffer_release) struct buffer in = BUFFER_INIT(0), out = BUFFER_INIT(0);
    for (int i = 0; i < 10; i++)
        buffer_add_str(&in, "GET / HTTP/1.1\r\nhost: h\r\n\r\n");
    ck_assert_int_eq(http_session_feed(s, buffer_bytes(&in), SEC), 0);
    ck_assert_uint_eq(r.n_head, 1);
    drain_all(s, &out);
    ck_assert_uint_eq(r.n_head, 10);
    ck_assert_uint_gt(out.n, 10 * sizeof big);
    http_session_free(s);
}

UNIT(a_slow_body_is_answered_by_the_handler)
{
    struct http_server_limits l = HTTP_SERVER_LIMITS_DEFAULT;
    struct recorder r = {.answer = ANSWER_WHEN_SLOW, .reply.status = 503};
    struct http_session *s = recorder_session(&r, NULL);
    struct buffer out = BUFFER_INIT(0);
    const struct bytes part = BYTES_LIT("POST / HTTP/1.1\r\nhost: h\r\ncontent-length: 9\r\n\r\nabc");
    ck_assert_int_eq(feed_steps(s, part, part.n, SEC), 0);
    http_session_tick(s, SEC + l.body_ns);
    ck_assert(http_session_is_done(s));
    drain_all(s, &out);
    ck_assert_int_eq(buffer_add(&out, "", 1), 0);
    ck_assert(bytes_starts(buffer_bytes(&out), "HTTP/1.1 503 "));
    ck_assert_ptr_nonnull(strstr((const char *)out.p, "connection: close"));
    ck_assert_uint_eq(r.n_close, 1);
    buffer_release(&out);
    http_session_free(s);
}
